//! Which requests were answered by a code: a form that is sent twice gives one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::Micros;

use crate::pages::Opened;

/// Requests that are known to be complete, each for the ten minutes in which its form is good. Each took a key that was
/// good and put a code on record, of which there may be as many.
pub const COMPLETE_MAX: usize = 100_000;

/// The requests that were answered by a code and whose forms would still open. They are forgotten with the key that
/// forms are sealed with.
#[derive(Default)]
pub struct Complete {
    until: Mutex<HashMap<[u8; 16], Micros>>,
}

/// Why a request is not to be answered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotBegun {
    /// It was answered, or somebody is at it.
    Before,
    /// There are [`COMPLETE_MAX`] others.
    Full,
}

impl Complete {
    /// Whether a request was answered, or is being answered.
    pub fn has(&self, opened: &Opened) -> bool {
        self.until().contains_key(&opened.id)
    }

    /// Says that a request will be answered now, by whoever is told `Ok`: nobody else is until it is given up.
    ///
    /// # Errors
    /// It is not to be answered.
    pub fn begin(&self, opened: &Opened, now: Micros) -> Result<(), NotBegun> {
        let mut until = self.until();
        if until.contains_key(&opened.id) {
            return Err(NotBegun::Before);
        }
        if until.len() >= COMPLETE_MAX {
            until.retain(|_, ends_at| *ends_at > now);
        }
        if until.len() >= COMPLETE_MAX {
            return Err(NotBegun::Full);
        }
        until.insert(opened.id, opened.ends_at);
        Ok(())
    }

    /// Says that a request was not answered after all.
    pub fn give_up(&self, opened: &Opened) {
        self.until().remove(&opened.id);
    }

    /// The map is whole after each step, so that one that panicked spoils nothing.
    fn until(&self) -> MutexGuard<'_, HashMap<[u8; 16], Micros>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(number: usize, ends_at: i64) -> Opened {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        Opened { id, ends_at: Micros(ends_at), parameters: String::new() }
    }

    #[test]
    fn a_request_is_answered_once_unless_that_is_given_up() {
        let complete = Complete::default();
        let one = opened(1, 10);
        assert!(!complete.has(&one));
        assert_eq!(complete.begin(&one, Micros(1)), Ok(()));
        assert_eq!(complete.begin(&one, Micros(2)), Err(NotBegun::Before));
        assert!(complete.has(&one) && !complete.has(&opened(2, 10)));
        complete.give_up(&one);
        assert!(!complete.has(&one));
        assert_eq!(complete.begin(&one, Micros(3)), Ok(()));
    }

    #[test]
    fn those_that_would_open_no_more_make_room_and_no_others() {
        let complete = Complete::default();
        for number in 0..COMPLETE_MAX {
            assert_eq!(complete.begin(&opened(number, 100), Micros(1)), Ok(()));
        }
        let more = opened(COMPLETE_MAX, 200);
        assert_eq!(complete.begin(&more, Micros(99)), Err(NotBegun::Full));
        assert!(complete.has(&opened(0, 100)));
        assert_eq!(complete.begin(&more, Micros(100)), Ok(()));
        assert!(!complete.has(&opened(0, 100)) && complete.has(&more));
    }
}
