//! Who administers in a browser: sessions that the operator's bearer began.
//!
//! A session is known by two secrets, of which the browser sends one by itself and the page the other (CSL-22).
//! Must not know requests, nor where the time comes from.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::os::clock::Random;

use recalld_common::secret::{Secret, SecretHash};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Sessions at a time: one operator has a few browsers.
    const CONSOLE_SESSIONS_MAX: usize = 16;
    /// How long one stands that nobody uses.
    pub(super) const SESSION_IDLE: Duration = Duration::from_secs(1_800);
    /// How long one stands at the most: a working day.
    pub(super) const SESSION_TIME_MAX: Duration = Duration::from_secs(43_200);
}

/// What a browser and a page are told when a session begins.
pub(super) struct Begun {
    /// The value of the cookie.
    pub(super) key: Secret,
    /// What the page sends.
    pub(super) token: Secret,
}

struct Session {
    key: SecretHash,
    token: SecretHash,
    began: Instant,
    used: Instant,
}

impl Session {
    /// How much longer it stands if nobody uses it; `None` once it does not.
    fn left(&self, now: Instant) -> Option<Duration> {
        let ends = (self.used + SESSION_IDLE).min(self.began + SESSION_TIME_MAX);
        ends.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

/// The sessions that stand.
#[derive(Default)]
pub struct Sessions(Mutex<Vec<Session>>);

impl Sessions {
    /// Begins one. Where there are as many as there may be, the one that was idle longest ends.
    pub(super) fn begin(&self, random: &dyn Random, now: Instant) -> Begun {
        let secret = || Secret::generate("", &mut |bytes: &mut [u8]| random.fill(bytes));
        let begun = Begun { key: secret(), token: secret() };
        let mut open = self.standing(now);
        if open.len() >= CONSOLE_SESSIONS_MAX {
            let idle = (0..open.len()).min_by_key(|&at| open[at].used);
            if let Some(at) = idle {
                open.swap_remove(at);
            }
        }
        let (key, token) = (begun.key.hash(), begun.token.hash());
        open.push(Session { key, token, began: now, used: now });
        begun
    }

    /// How much longer the session of these two stands, without using it; `None` where there is none.
    pub(super) fn left(&self, key: &str, token: &str, now: Instant) -> Option<Duration> {
        let open = self.standing(now);
        found(&open, key, token).and_then(|at| open[at].left(now))
    }

    /// Uses the session of these two. Whether there is one.
    pub(super) fn take(&self, key: &str, token: &str, now: Instant) -> bool {
        let mut open = self.standing(now);
        let found = found(&open, key, token);
        if let Some(at) = found {
            open[at].used = now;
        }
        found.is_some()
    }

    /// Ends the session of these two. Whether there was one.
    pub(super) fn end(&self, key: &str, token: &str, now: Instant) -> bool {
        let mut open = self.standing(now);
        let found = found(&open, key, token);
        if let Some(at) = found {
            open.swap_remove(at);
        }
        found.is_some()
    }

    /// Those that stand; the others are forgotten. A list that a panic left is whole after each step.
    fn standing(&self, now: Instant) -> MutexGuard<'_, Vec<Session>> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|session| session.left(now).is_some());
        open
    }
}

/// Where the session of these two is; both are compared with each.
fn found(open: &[Session], key: &str, token: &str) -> Option<usize> {
    let is_it = |session: &Session| {
        let (key, token) =
            (session.key.is_of(key.as_bytes()), session.token.is_of(token.as_bytes()));
        key && token
    };
    open.iter().position(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::os::clock::SystemRandom;

    const A_MINUTE: Duration = Duration::from_secs(60);

    fn begin(sessions: &Sessions, now: Instant) -> (String, String) {
        let begun = sessions.begin(&SystemRandom, now);
        (begun.key.expose().to_owned(), begun.token.expose().to_owned())
    }

    #[test]
    fn a_session_is_known_by_both_its_secrets_and_no_other() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let (key, token) = begin(&sessions, now);
        let (other_key, other_token) = begin(&sessions, now);
        assert!(sessions.take(&key, &token, now));
        for (key, token) in [
            (&*key, &*other_token),
            (&other_key, &token),
            (&token, &key),
            (&key, ""),
            ("", &token),
            ("", ""),
        ] {
            assert!(!sessions.take(key, token, now), "{key} {token}");
            assert!(!sessions.end(key, token, now));
        }
        assert!(sessions.end(&key, &token, now));
        assert!(!sessions.take(&key, &token, now) && !sessions.end(&key, &token, now));
        assert!(sessions.take(&other_key, &other_token, now));
    }

    #[test]
    fn a_session_ends_when_nobody_uses_it_and_after_its_time() {
        let (sessions, began) = (Sessions::default(), Instant::now());
        let (key, token) = begin(&sessions, began);
        let mut now = began;
        // To ask whether it stands is not to use it.
        assert_eq!(sessions.left(&key, &token, now + A_MINUTE), Some(SESSION_IDLE - A_MINUTE));
        while now + SESSION_IDLE < began + SESSION_TIME_MAX {
            now += SESSION_IDLE - A_MINUTE;
            assert!(sessions.take(&key, &token, now));
        }
        assert!(sessions.left(&key, &token, now).is_some_and(|left| left < SESSION_IDLE));
        assert!(!sessions.take(&key, &token, began + SESSION_TIME_MAX));

        let (key, token) = begin(&sessions, now);
        assert!(!sessions.take(&key, &token, now + SESSION_IDLE));
        assert_eq!(sessions.left(&key, &token, now), None, "what ended stays so");
    }

    #[test]
    fn of_too_many_the_one_that_was_idle_longest_ends() {
        let (sessions, began) = (Sessions::default(), Instant::now());
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let all: Vec<_> =
            (0..CONSOLE_SESSIONS_MAX as u64).map(|n| begin(&sessions, at(n))).collect();
        assert!(sessions.take(&all[0].0, &all[0].1, at(100)));
        let more = begin(&sessions, at(101));
        assert_eq!(sessions.left(&all[1].0, &all[1].1, at(101)), None);
        for (key, token) in
            all.iter().enumerate().filter(|(n, _)| *n != 1).map(|(_, one)| one).chain([&more])
        {
            assert!(sessions.left(key, token, at(101)).is_some());
        }
    }
}
