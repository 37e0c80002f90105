//! Workspaces that did not open here: each is left alone for a while, so that whoever asks for it again and again does
//! not have it taken and given away as often.
//!
//! Owns how long, and the reason that is told meanwhile. Must not know what opens a workspace.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use recalld_replication::Ticks;

use crate::limits::OPEN_WAIT_MAX;
use crate::whereabouts::Peer;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// How long a workspace is left alone that did not open.
    const OPEN_AGAIN_MIN: Duration = Duration::from_secs(1);
    /// The same, of one that was taken each time and did not open: twice as long as the time before, up to this.
    const OPEN_AGAIN_MAX: Duration = Duration::from_secs(60);
    /// Workspaces of which that is remembered.
    const FAILING_MAX: usize = 1024;
}

/// Workspaces that did not open.
#[derive(Debug, Default)]
pub(super) struct Failing(Mutex<HashMap<String, Failed>>);

#[derive(Debug)]
struct Failed {
    why: String,
    pause: Duration,
    until: Ticks,
    /// Who writes it meanwhile, if that was known.
    writer: Option<Peer>,
}

impl Failed {
    /// Whether it has nothing to do with what happens now.
    fn is_old(&self, now: Ticks) -> bool {
        now - self.until > OPEN_AGAIN_MAX
    }
}

impl Failing {
    /// Why a workspace did not open, if it is to be left alone still.
    pub(super) fn why(&self, name: &str, now: Ticks) -> Option<String> {
        let all = self.all();
        all.get(name).filter(|failed| now < failed.until).map(|failed| failed.why.clone())
    }

    /// It did not open. `was_taken` says whether others may have seen it taken for that, `writer` who writes it
    /// meanwhile, where that is known.
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

    /// Who wrote a workspace when it did not open: for as long after the next try is due as one may take, so also while
    /// it is tried again.
    pub(super) fn writer(&self, name: &str, now: Ticks) -> Option<Peer> {
        let all = self.all();
        let failed = all.get(name).filter(|failed| now - failed.until <= OPEN_WAIT_MAX);
        failed.and_then(|failed| failed.writer.clone())
    }

    /// Its store opened: what it is here is known by that.
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

    /// For how many seconds it is left alone from now on.
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
        // Others wait for nothing that was not taken.
        for _ in 0..3 {
            failing.failed("acme", "it is away".to_owned(), false, None, at(now));
            assert_eq!(left_alone(&failing, now), 1);
            now += 1;
        }
        failing.failed("acme", "it is broken".to_owned(), true, None, at(now));
        assert_eq!(left_alone(&failing, now), 2);
        // Long after that it is another fault.
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
