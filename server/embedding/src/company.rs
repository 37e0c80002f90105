//! Callers who ask again as soon as they are answered.
//!
//! Owns whether some are expected back in a moment, so that who could begin work for a few waits
//! until it can be done for all. Without it, callers who ask one question after another fall into
//! groups that take turns, and each group pays for a pass over everything. Must not know what is
//! asked. Nobody is expected for longer than [`RETURN`], and nobody at all where the last ones did
//! not come back.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// How long those who have an answer are expected to ask again: while their answers are written, on
    /// cores that others use, a way over a fast network and back, and some work with the answer. About
    /// as long as a pass over some hundred thousand rows, which is what waiting may save.
    pub const RETURN: Duration = Duration::from_millis(4);
}

/// Those who were answered together last.
#[derive(Debug, Default)]
pub struct Company {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When they were answered; None before the first.
    answered: Option<Instant>,
    callers: usize,
    /// How many of them have not asked again.
    away: usize,
    /// Whether at least half of those before them came back in time.
    comes_back: bool,
}

impl State {
    fn left(&self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.answered?);
        RETURN.checked_sub(since).filter(|left| !left.is_zero())
    }
}

impl Company {
    /// So many callers get their answers now.
    pub fn answered(&self, callers: usize) {
        self.answered_at(Instant::now(), callers);
    }

    /// Somebody asks.
    pub fn came(&self) {
        self.came_at(Instant::now());
    }

    /// How long others are still expected; None where nobody is.
    pub fn awaited(&self) -> Option<Duration> {
        self.awaited_at(Instant::now())
    }

    /// The same at a time.
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
