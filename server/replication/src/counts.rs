//! How much was asked of the storage: requests, bytes and time, by what they were for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// An object was put.
    Put,
    /// An object or a record was created where none was.
    Create,
    /// Bytes were read.
    Get,
    /// What is known of an object was read.
    Head,
    /// Names were listed.
    List,
    /// Objects or records were removed.
    Remove,
    /// A node said that it lives.
    Beat,
    /// Credentials were fetched.
    SignIn,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done (2xx).
    Done,
    /// There is no such thing (404).
    Missing,
    /// Something else was there (409, 412).
    Taken,
    /// It was not allowed (any other 4xx, and 3xx).
    Refused,
    /// The storage failed or was too busy (429, 5xx).
    Failed,
    /// There was no answer, or only a part of one.
    Silent,
}

const OPS: [(Op, &str); 8] = [
    (Op::Put, "put"),
    (Op::Create, "create"),
    (Op::Get, "get"),
    (Op::Head, "head"),
    (Op::List, "list"),
    (Op::Remove, "remove"),
    (Op::Beat, "beat"),
    (Op::SignIn, "sign_in"),
];
const OUTCOMES: [(Outcome, &str); 6] = [
    (Outcome::Done, "done"),
    (Outcome::Missing, "missing"),
    (Outcome::Taken, "taken"),
    (Outcome::Refused, "refused"),
    (Outcome::Failed, "failed"),
    (Outcome::Silent, "silent"),
];

/// Counts since the start. Requests are those on the wire: what was repeated counts again.
#[derive(Debug, Default)]
pub struct Counts {
    requests: [[AtomicU64; OUTCOMES.len()]; OPS.len()],
    micros: [AtomicU64; OPS.len()],
    sent: AtomicU64,
    received: AtomicU64,
}

impl Outcome {
    /// What a status of HTTP says.
    #[must_use]
    pub fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Done,
            404 => Self::Missing,
            409 | 412 => Self::Taken,
            429 | 500.. => Self::Failed,
            _ => Self::Refused,
        }
    }
}

impl Counts {
    /// Counts one request: the bytes that went with it, and those that came back.
    pub fn note(&self, op: Op, outcome: Outcome, sent: usize, received: usize, took: Duration) {
        let (op, outcome) = (op as usize, outcome as usize);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.requests[op][outcome].fetch_add(1, Relaxed);
        self.micros[op].fetch_add(micros, Relaxed);
        self.sent.fetch_add(sent as u64, Relaxed);
        self.received.fetch_add(received as u64, Relaxed);
    }

    /// Requests by what they were for and how they ended, each pair that there is.
    #[must_use]
    pub fn requests(&self) -> Vec<(&'static str, &'static str, u64)> {
        let mut rows = Vec::with_capacity(OPS.len() * OUTCOMES.len());
        for (op, op_name) in OPS {
            for (outcome, outcome_name) in OUTCOMES {
                let count = self.requests[op as usize][outcome as usize].load(Relaxed);
                rows.push((op_name, outcome_name, count));
            }
        }
        rows
    }

    /// How long requests took in all, by what they were for, in seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "2^53 microseconds are 285 years")]
    pub fn seconds(&self) -> Vec<(&'static str, f64)> {
        let seconds = |op: Op| self.micros[op as usize].load(Relaxed) as f64 / 1e6;
        OPS.iter().map(|&(op, name)| (name, seconds(op))).collect()
    }

    /// Requests for one thing, however they ended.
    #[must_use]
    pub fn of(&self, op: Op) -> u64 {
        self.requests[op as usize].iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Bytes of objects and records that were sent, and that were received.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Relaxed), self.received.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_in_one_row() {
        let counts = Counts::default();
        let took = Duration::from_millis(1500);
        counts.note(Op::Create, Outcome::of(412), 10, 3, took);
        counts.note(Op::Create, Outcome::of(201), 10, 0, took);
        counts.note(Op::SignIn, Outcome::of(503), 0, 1, took);
        let rows: Vec<_> = counts.requests().into_iter().filter(|row| row.2 > 0).collect();
        let wanted = [("create", "done", 1), ("create", "taken", 1), ("sign_in", "failed", 1)];
        assert_eq!(rows, wanted);
        assert_eq!((counts.of(Op::Create), counts.bytes()), (2, (20, 4)));
        assert!(counts.seconds().contains(&("create", 3.0)));
    }

    #[test]
    fn the_tables_are_in_the_order_of_the_kinds() {
        assert!(OPS.iter().enumerate().all(|(at, (op, _))| *op as usize == at));
        assert!(OUTCOMES.iter().enumerate().all(|(at, (outcome, _))| *outcome as usize == at));
    }
}
