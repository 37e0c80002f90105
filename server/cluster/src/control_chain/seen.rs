//! Replay guard for messages of other nodes: no message is accepted twice, nor once it is too old.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use recalld_replication::Nonce;

/// Maximum seconds since a message was signed, and maximum seconds by which the sender's clock may be ahead.
const SIGNED_SECONDS_MAX: u64 = 60;
/// Maximum remembered messages: about a thousand a second for the maximum age of a message.
const SEEN_MAX: usize = 65_536;

/// Reason to reject a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The time of the message is too far from the local time.
    TimeOff,
    /// The message was received before, or is no newer than a forgotten one.
    Again,
}

impl NotTaken {
    /// Reason in words.
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::TimeOff => {
                "The message was signed more than 60 s ago, or ahead: one of the two clocks is wrong"
            }
            Self::Again => {
                "The message came before, or is as old as what is not remembered any more"
            }
        }
    }
}

/// Bounded memory of received messages.
#[derive(Debug)]
pub(super) struct Seen {
    most: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    messages: BTreeSet<(u64, Nonce)>,
    /// Time of the newest forgotten message. A message of that time or earlier may be a replay.
    forgotten: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Self { most: SEEN_MAX, known: Mutex::default() }
    }
}

impl Seen {
    /// Accepts a message that was signed at `at`, and remembers it.
    ///
    /// # Errors
    /// The message is rejected, for this reason.
    pub(super) fn take(&self, (at, nonce): (u64, Nonce), now: u64) -> Result<(), NotTaken> {
        if at.abs_diff(now) > SIGNED_SECONDS_MAX {
            return Err(NotTaken::TimeOff);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.forget_while(|(at, _), _| at.abs_diff(now) > SIGNED_SECONDS_MAX && *at < now);
        if at <= known.forgotten || !known.messages.insert((at, nonce)) {
            return Err(NotTaken::Again);
        }
        known.forget_while(|_, held| held > self.most);
        Ok(())
    }
}

impl Known {
    /// Forgets the oldest message while `is_due` holds for that message and the number of messages. A forgotten message
    /// is not accepted again, even if the clock goes back.
    fn forget_while(&mut self, is_due: impl Fn(&(u64, Nonce), usize) -> bool) {
        while let Some(oldest) = self.messages.first().copied()
            && is_due(&oldest, self.messages.len())
        {
            self.messages.remove(&oldest);
            self.forgotten = self.forgotten.max(oldest.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use recalld_replication::Hex;

    use super::*;

    fn nonce(number: u8) -> Nonce {
        Hex([number; 16])
    }

    #[test]
    fn a_message_is_taken_once_and_only_for_a_while() {
        let seen = Seen::default();
        assert_eq!(seen.take((1_000, nonce(1)), 1_000), Ok(()));
        assert_eq!(seen.take((1_000, nonce(1)), 1_000), Err(NotTaken::Again));
        assert_eq!(seen.take((1_000, nonce(1)), 1_060), Err(NotTaken::Again));
        assert_eq!(seen.take((1_000, nonce(1)), 1_061), Err(NotTaken::TimeOff));
        assert_eq!(seen.take((1_000, nonce(2)), 1_060), Ok(()), "another one of then");
        for off in [939, 1_061] {
            assert_eq!(seen.take((off, nonce(3)), 1_000), Err(NotTaken::TimeOff), "{off}");
        }
    }

    #[test]
    fn what_is_forgotten_is_not_taken_again_when_the_clock_goes_back() {
        let seen = Seen::default();
        seen.take((1_000, nonce(1)), 1_000).unwrap();
        seen.take((1_100, nonce(2)), 1_100).unwrap();
        assert_eq!(seen.known.lock().unwrap().messages.len(), 1, "the first is too old to come");
        assert_eq!(seen.take((1_000, nonce(1)), 1_000), Err(NotTaken::Again));
        assert_eq!(seen.take((1_001, nonce(3)), 1_001), Ok(()));
    }

    #[test]
    fn where_more_come_than_are_remembered_the_oldest_time_is_over() {
        let seen = Seen { most: 2, ..Seen::default() };
        for (at, number) in [(1_000, 1), (1_001, 2), (1_002, 3)] {
            assert_eq!(seen.take((at, nonce(number)), 1_002), Ok(()));
        }
        assert_eq!(seen.known.lock().unwrap().messages.len(), 2);
        assert_eq!(seen.take((1_000, nonce(1)), 1_002), Err(NotTaken::Again));
        assert_eq!(seen.take((1_000, nonce(4)), 1_002), Err(NotTaken::Again), "nobody knows");
        assert_eq!(seen.take((1_002, nonce(5)), 1_002), Ok(()));
    }
}
