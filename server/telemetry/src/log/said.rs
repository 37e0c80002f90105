//! A log throttle: faults that affect every request are logged at intervals, so that nobody can flood the log.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Level, Value, event};

/// Minimum interval between two lines with one text.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// Last log time and suppressed count of each constant text.
#[derive(Debug, Default)]
pub struct Said(Mutex<Vec<Row>>);

#[derive(Debug)]
struct Row {
    what: &'static str,
    at: Instant,
    left_out: u64,
}

impl Said {
    /// Logs an error with its reason. Within the interval, an equal text is only counted, and the next line contains
    /// the count.
    pub fn say(&self, what: &'static str, why: &dyn Display) {
        self.say_at(Level::Error, what, why);
    }

    /// Logs like [`Self::say`], at level warn.
    pub fn warn(&self, what: &'static str, why: &dyn Display) {
        self.say_at(Level::Warn, what, why);
    }

    fn say_at(&self, level: Level, what: &'static str, why: &dyn Display) {
        let Some(left_out) = self.due(what, Instant::now()) else { return };
        let fields = [("why", Value::Text(why)), ("left_out", Value::Count(left_out))];
        event(level, what, &fields);
    }

    /// Returns the number of lines suppressed since the last line if a line is due.
    fn due(&self, what: &'static str, now: Instant) -> Option<u64> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(row) = rows.iter_mut().find(|row| row.what == what) else {
            rows.push(Row { what, at: now, left_out: 0 });
            return Some(0);
        };
        if now.saturating_duration_since(row.at) < SAID_EVERY {
            row.left_out += 1;
            return None;
        }
        row.at = now;
        Some(std::mem::take(&mut row.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_now_and_then_and_counted_meanwhile() {
        let (said, began) = (Said::default(), Instant::now());
        let due = |what, seconds| said.due(what, began + Duration::from_secs(seconds));
        assert_eq!(due("a", 0), Some(0));
        assert_eq!((due("a", 1), due("a", 9)), (None, None));
        assert_eq!(due("b", 9), Some(0));
        assert_eq!(due("a", 10), Some(2));
        assert_eq!(due("a", 19), None);
        assert_eq!(due("a", 20), Some(1));
    }
}
