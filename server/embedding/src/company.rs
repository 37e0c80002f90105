//! Arrival estimator: predicts callers who ask again as soon as they are answered.
//!
//! If more callers are expected within milliseconds, a worker waits and serves all callers in one batch. Without the
//! wait, callers with consecutive questions split into alternating groups, and each group pays for a full scan. The
//! wait never exceeds [`RETURN`], and there is no wait if fewer than half of the previous batch returned in time. Must
//! not know the requests.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Time within which answered callers are expected to ask again: response writing on shared cores, a round trip
    /// over a fast network, and some work with the answer. About as long as a scan of some hundred thousand rows, which
    /// the wait may save.
    pub const RETURN: Duration = Duration::from_millis(4);
}

/// The callers that were answered in the last batch.
#[derive(Debug, Default)]
pub struct Company {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Time of the last batch; `None` before the first.
    answered: Option<Instant>,
    callers: usize,
    /// Callers of the last batch that have not asked again.
    away: usize,
    /// True if at least half of the batch before the last returned in time.
    comes_back: bool,
}

impl State {
    fn left(&self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.answered?);
        RETURN.checked_sub(since).filter(|left| !left.is_zero())
    }
}

impl Company {
    /// Records that a batch of `callers` is answered now.
    pub fn answered(&self, callers: usize) {
        self.answered_at(Instant::now(), callers);
    }

    /// Records the arrival of a request.
    pub fn came(&self) {
        self.came_at(Instant::now());
    }

    /// Remaining time for which more callers are expected; `None` if no caller is expected.
    pub fn awaited(&self) -> Option<Duration> {
        self.awaited_at(Instant::now())
    }

    /// As [`Self::answered`], at the time `now`.
    pub fn answered_at(&self, now: Instant, callers: usize) {
        let mut state = self.state();
        let back = state.callers - state.away;
        let comes_back = state.callers > 0 && back * 2 >= state.callers;
        *state = State { answered: Some(now), callers, away: callers, comes_back };
    }

    fn came_at(&self, now: Instant) {
        let mut state = self.state();
        if state.left(now).is_some() {
            state.away = state.away.saturating_sub(1);
        }
    }

    fn awaited_at(&self, now: Instant) -> Option<Duration> {
        let state = self.state();
        if state.comes_back && state.away > 0 { state.left(now) } else { None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_micros(200);

    #[test]
    fn who_came_back_the_last_time_is_expected_until_all_are_there() {
        let (company, start) = (Company::default(), Instant::now());
        assert_eq!(company.awaited_at(start), None);
        company.answered_at(start, 2);
        assert_eq!(company.awaited_at(start), None, "nothing is known of them yet");
        company.came_at(start + SOON);
        company.answered_at(start + RETURN, 3);
        let back = start + RETURN + SOON;
        assert_eq!(company.awaited_at(back), Some(RETURN - SOON), "one of two came back");
        (0..2).for_each(|_| company.came_at(back));
        assert!(company.awaited_at(back).is_some(), "one is still away");
        company.came_at(back);
        assert_eq!(company.awaited_at(back), None);
    }

    #[test]
    fn who_takes_long_is_not_waited_for_nor_the_next_ones() {
        let (company, start) = (Company::default(), Instant::now());
        company.answered_at(start, 1);
        company.came_at(start + SOON);
        company.answered_at(start + SOON, 4);
        let late = start + SOON + RETURN;
        assert_eq!(company.awaited_at(late), None, "the moment is over");
        (0..4).for_each(|_| company.came_at(late));
        company.answered_at(late, 4);
        assert_eq!(company.awaited_at(late), None, "none of the four came in time");
    }

    #[test]
    fn one_alone_never_waits_for_itself() {
        let (company, mut now) = (Company::default(), Instant::now());
        for _ in 0..5 {
            company.came_at(now);
            assert_eq!(company.awaited_at(now), None);
            company.answered_at(now, 1);
            now += SOON;
        }
    }
}
