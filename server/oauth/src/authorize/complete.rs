//! Authorization requests already answered by a code: a form submitted twice yields a single code.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::Micros;

use crate::pages::Opened;

/// Maximum number of completed requests, each retained for the ten minutes of its form's validity. Each cost a valid
/// key and stored an authorization code; the store admits the same number of codes.
pub const COMPLETE_MAX: usize = 100_000;

/// Completed requests whose forms are still valid. Both this set and the sealing key of the forms are lost on restart.
#[derive(Default)]
pub struct Complete {
    until: Mutex<HashMap<[u8; 16], Micros>>,
}

/// Reason for rejecting the completion of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotBegun {
    /// The request is complete, or another call is completing the request.
    Before,
    /// [`COMPLETE_MAX`] other requests are retained.
    Full,
}

impl Complete {
    /// Returns true if the request is complete or being completed.
    pub fn has(&self, opened: &Opened) -> bool {
        self.until().contains_key(&opened.id)
    }

    /// Reserves the completion of a request. After `Ok`, every other call for this request fails until
    /// [`Complete::give_up`].
    ///
    /// # Errors
    /// The request is already reserved or complete, or the set is full.
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

    /// Releases the reservation of a request that was not completed.
    pub fn give_up(&self, opened: &Opened) {
        self.until().remove(&opened.id);
    }

    /// Ignores lock poisoning: the map is consistent after each step.
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
