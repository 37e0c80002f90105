//! Backoff of workspaces that failed to open: repeated calls must not acquire and release a workspace each time.
//!
//! Owns the length of the pause, and the reason reported meanwhile. Must not know how a workspace is opened.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recalld_replication::Ticks;

use crate::limits::OPEN_WAIT_MAX;
use crate::whereabouts::Peer;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Pause after a workspace failed to open.
    const OPEN_AGAIN_MIN: Duration = Duration::from_secs(1);
    /// Maximum pause. If the workspace was acquired each time and failed to open, the pause doubles up to this value.
    const OPEN_AGAIN_MAX: Duration = Duration::from_secs(60);
    /// Workspaces remembered.
    const FAILING_MAX: usize = 1024;
}

/// Workspaces that failed to open.
#[derive(Debug, Default)]
pub(super) struct Failing(Mutex<HashMap<String, Failed>>);

#[derive(Debug)]
struct Failed {
    why: String,
    pause: Duration,
    until: Ticks,
    /// Leader of the workspace meanwhile, if known.
    writer: Option<Peer>,
}

impl Failed {
    /// Returns true if the failure is too old to affect a new one.
    fn is_old(&self, now: Ticks) -> bool {
        now - self.until > OPEN_AGAIN_MAX
    }
}

impl Failing {
    /// Reason of the failure, while the pause lasts.
    pub(super) fn why(&self, name: &str, now: Ticks) -> Option<String> {
        let all = self.all();
        all.get(name).filter(|failed| now < failed.until).map(|failed| failed.why.clone())
    }

    /// Records a failure. `was_taken` is true if other nodes may have seen the workspace acquired for it. `writer` is
    /// the leader meanwhile, if known.
    pub(super) fn failed(
        &self,
        name: &str,
        why: String,
        was_taken: bool,
        writer: Option<Peer>,
        now: Ticks,
    ) {
        let mut all = self.all();
        all.retain(|_, failed| !failed.is_old(now));
        let pause = match all.get(name) {
            Some(before) if was_taken => OPEN_AGAIN_MAX.min(before.pause * 2),
            _ => OPEN_AGAIN_MIN,
        };
        if all.len() >= FAILING_MAX && !all.contains_key(name) {
            let first = all.iter().min_by_key(|(_, failed)| failed.until);
            let first = first.map(|(name, _)| name.clone());
            first.and_then(|first| all.remove(&first));
        }
        all.insert(name.to_owned(), Failed { why, pause, until: now + pause, writer });
    }

    /// Leader at the time of the failure. Known until one maximum opening time after the next try is due, so also
    /// during that try.
    pub(super) fn writer(&self, name: &str, now: Ticks) -> Option<Peer> {
        let all = self.all();
        let failed = all.get(name).filter(|failed| now - failed.until <= OPEN_WAIT_MAX);
        failed.and_then(|failed| failed.writer.clone())
    }

    /// Forgets the leader, as the workspace has opened and its role is known.
    pub(super) fn opened(&self, name: &str) {
        if let Some(failed) = self.all().get_mut(name) {
            failed.writer = None;
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Failed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Ticks {
        Ticks(second * 1_000_000_000)
    }

    /// Length of the pause from now on, in seconds.
    fn left_alone(failing: &Failing, now: u64) -> u64 {
        (0..).find(|seconds| failing.why("acme", at(now + seconds)).is_none()).unwrap()
    }

    #[test]
    fn one_that_is_taken_each_time_is_left_alone_for_longer_each_time() {
        let failing = Failing::default();
        assert_eq!(failing.why("acme", at(0)), None);
        let mut now = 100;
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            failing.failed("acme", format!("for {expected}"), true, None, at(now));
            assert_eq!(failing.why("acme", at(now)), Some(format!("for {expected}")));
            assert_eq!(failing.why("globex", at(now)), None);
            assert_eq!(left_alone(&failing, now), expected);
            now += expected + 1;
        }
        // Without an acquisition, no other node is held up.
        for _ in 0..3 {
            failing.failed("acme", "it is away".to_owned(), false, None, at(now));
            assert_eq!(left_alone(&failing, now), 1);
            now += 1;
        }
        failing.failed("acme", "it is broken".to_owned(), true, None, at(now));
        assert_eq!(left_alone(&failing, now), 2);
        // After a long time the failure counts as a new one.
        failing.failed("acme", "it is broken".to_owned(), true, None, at(now + 63));
        assert_eq!(left_alone(&failing, now + 63), 1);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let failing = Failing::default();
        for number in 0..=FAILING_MAX {
            let second = u64::try_from(number).unwrap() / 100;
            failing.failed(&format!("acme{number}"), String::new(), true, None, at(second));
        }
        failing.failed("acme", String::new(), true, None, at(10));
        assert_eq!(failing.all().len(), FAILING_MAX);
        assert_eq!(failing.why("acme", at(10)), Some(String::new()));
    }
}
