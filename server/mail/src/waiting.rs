//! The retry queue: mails that wait for their first or next attempt, ordered by due time.
//!
//! Has no thread and reads no clock.

use std::fmt;
use std::time::{Duration, Instant};

use super::message::Mail;

/// Maximum number of unsent mails, including the one being sent. A mail has a few kibibytes. More mails than this while
/// a server fails indicate a larger problem.
pub const MAILS_WAITING_MAX: usize = 256;

/// Delays before the second attempt, the third and so on. After the last one, the mail is given up: by then its
/// recipient has requested another.
pub const PAUSES: [Duration; 5] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(20 * 60),
    Duration::from_secs(60 * 60),
];

/// The queue has the maximum number of mails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// A mail and the state of its attempts.
#[derive(Debug)]
pub(super) struct Attempt {
    pub mail: Mail,
    /// Number of failed attempts.
    pub failures: usize,
    due: Instant,
    /// Order of arrival, which decides between mails with equal due time.
    number: u64,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    attempts: Vec<Attempt>,
    numbers: u64,
    is_sending: bool,
}

impl Waiting {
    /// Adds `mail`, due at once.
    pub(super) fn put(&mut self, mail: Mail, now: Instant) -> Result<(), QueueFull> {
        if self.count() >= MAILS_WAITING_MAX {
            return Err(QueueFull);
        }
        let number = self.numbers;
        self.numbers += 1;
        self.attempts.push(Attempt { mail, failures: 0, due: now, number });
        Ok(())
    }

    /// Removes the next due mail. The caller must report the outcome with [`Waiting::sent`] or [`Waiting::failed`].
    pub(super) fn take(&mut self, now: Instant) -> Option<Attempt> {
        let (at, next) = self.next()?;
        if next.due > now {
            return None;
        }
        self.is_sending = true;
        Some(self.attempts.swap_remove(at))
    }

    /// Reports that the removed mail was sent.
    pub(super) fn sent(&mut self) {
        self.is_sending = false;
    }

    /// Reports that the removed mail was not sent. Returns the mail if it is given up.
    pub(super) fn failed(&mut self, mut attempt: Attempt, now: Instant) -> Option<Attempt> {
        self.is_sending = false;
        let pause = PAUSES.get(attempt.failures);
        attempt.failures += 1;
        let Some(pause) = pause else { return Some(attempt) };
        attempt.due = now + *pause;
        self.attempts.push(attempt);
        None
    }

    /// Due time of the next mail.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next().map(|(_, attempt)| attempt.due)
    }

    /// Number of unsent mails, including the one being sent.
    pub(super) fn count(&self) -> usize {
        self.attempts.len() + usize::from(self.is_sending)
    }

    fn next(&self) -> Option<(usize, &Attempt)> {
        self.attempts.iter().enumerate().min_by_key(|(_, attempt)| (attempt.due, attempt.number))
    }
}

impl fmt::Display for QueueFull {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{MAILS_WAITING_MAX} mails wait to be sent; try again later")
    }
}

impl std::error::Error for QueueFull {}

#[cfg(test)]
mod tests {
    use super::super::address::Address;
    use super::*;

    fn mail(name: &str) -> Mail {
        let to = Address::parse(&format!("{name}@b.example")).unwrap();
        Mail::confirmation(to, "acme", "https://a", Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn a_mail_is_tried_again_after_growing_pauses_and_given_up_after_the_last() {
        let (mut waiting, mut now) = (Waiting::default(), Instant::now());
        waiting.put(mail("a"), now).unwrap();
        for (failures, pause) in PAUSES.into_iter().enumerate() {
            let attempt = waiting.take(now).unwrap();
            assert_eq!((attempt.failures, waiting.count()), (failures, 1));
            assert!(waiting.failed(attempt, now).is_none());
            assert_eq!(waiting.due(), Some(now + pause));
            let early = now + pause - Duration::from_nanos(1);
            assert!(waiting.take(early).is_none());
            now += pause;
        }
        assert!(PAUSES.is_sorted());
        let attempt = waiting.take(now).unwrap();
        let given_up = waiting.failed(attempt, now).unwrap();
        assert_eq!((given_up.failures, waiting.count()), (PAUSES.len() + 1, 0));
        assert_eq!(waiting.due(), None);
    }

    #[test]
    fn who_comes_first_is_sent_first_and_one_that_failed_lets_others_pass() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        for name in ["a", "b", "c"] {
            waiting.put(mail(name), now).unwrap();
        }
        let first = waiting.take(now).unwrap();
        assert_eq!(first.mail.to().local(), "a");
        assert!(waiting.failed(first, now).is_none());
        for name in ["b", "c"] {
            assert_eq!(waiting.take(now).unwrap().mail.to().local(), name);
            waiting.sent();
        }
        assert_eq!(waiting.count(), 1);
    }

    #[test]
    fn a_full_queue_refuses_also_while_one_is_being_sent() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        for _ in 0..MAILS_WAITING_MAX {
            waiting.put(mail("a"), now).unwrap();
        }
        let taken = waiting.take(now).unwrap();
        assert_eq!(waiting.put(mail("b"), now), Err(QueueFull));
        assert!(waiting.failed(taken, now).is_none());
        assert_eq!(waiting.put(mail("b"), now), Err(QueueFull));
        let _sent = waiting.take(now).unwrap();
        waiting.sent();
        assert_eq!(waiting.put(mail("b"), now), Ok(()));
    }
}
