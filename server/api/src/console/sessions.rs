//! Sessions of the operator in a browser, started with the operator's bearer.
//!
//! Two secrets identify a session: the browser sends the cookie by itself, and the page sends the token (CSL-22).
//! Independent of requests; the time is a parameter.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::os::clock::Random;

use recalld_common::secret::{Secret, SecretHash};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of concurrent sessions; one operator has a few browsers.
    const CONSOLE_SESSIONS_MAX: usize = 16;
    /// Idle time after which a session expires.
    pub(super) const SESSION_IDLE: Duration = Duration::from_secs(1_800);
    /// Maximum lifetime of a session: a working day.
    pub(super) const SESSION_TIME_MAX: Duration = Duration::from_secs(43_200);
}

/// The secrets of a new session, for the browser and for the page.
pub(super) struct Begun {
    /// Value of the cookie.
    pub(super) key: Secret,
    /// Value of the header that the page sends.
    pub(super) token: Secret,
}

struct Session {
    key: SecretHash,
    token: SecretHash,
    began: Instant,
    used: Instant,
}

impl Session {
    /// Returns the remaining lifetime of an idle session; `None` if the session has expired.
    fn left(&self, now: Instant) -> Option<Duration> {
        let ends = (self.used + SESSION_IDLE).min(self.began + SESSION_TIME_MAX);
        ends.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

/// Active sessions.
#[derive(Default)]
pub struct Sessions(Mutex<Vec<Session>>);

impl Sessions {
    /// Starts a session. If the maximum is reached, the session that was idle longest ends.
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

    /// Returns the remaining lifetime of a session without marking it as used; `None` if the session does not exist.
    pub(super) fn left(&self, key: &str, token: &str, now: Instant) -> Option<Duration> {
        let open = self.standing(now);
        found(&open, key, token).and_then(|at| open[at].left(now))
    }

    /// Marks a session as used. Returns true if the session exists.
    pub(super) fn take(&self, key: &str, token: &str, now: Instant) -> bool {
        let mut open = self.standing(now);
        let found = found(&open, key, token);
        if let Some(at) = found {
            open[at].used = now;
        }
        found.is_some()
    }

    /// Ends a session. Returns true if the session existed.
    pub(super) fn end(&self, key: &str, token: &str, now: Instant) -> bool {
        let mut open = self.standing(now);
        let found = found(&open, key, token);
        if let Some(at) = found {
            open.swap_remove(at);
        }
        found.is_some()
    }

    /// Locks the list and removes expired sessions. The list is consistent after each step, so a poisoned lock is
    /// usable.
    fn standing(&self, now: Instant) -> MutexGuard<'_, Vec<Session>> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|session| session.left(now).is_some());
        open
    }
}

/// Returns the index of the session with both secrets. Both secrets are always compared, even if the first one differs.
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
        // Querying the state does not extend the session.
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
