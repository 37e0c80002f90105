use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Put of an object.
    Put,
    /// Conditional create of an object or record.
    Create,
    /// Read of bytes.
    Get,
    /// Read of an object's metadata.
    Head,
    /// List of names.
    List,
    /// Removal of objects or records.
    Remove,
    /// Heartbeat of a node.
    Beat,
    /// Fetch of credentials.
    SignIn,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Success (2xx).
    Done,
    /// No such object (404).
    Missing,
    /// Conflict: another object exists (409, 412).
    Taken,
    /// Not allowed (any other 4xx, and 3xx).
    Refused,
    /// Storage failure or overload (429, 5xx).
    Failed,
    /// No response, or a truncated one.
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

/// Request metrics since the start: requests, bytes and time by operation. Each request on the wire counts, so a retry
/// counts again.
#[derive(Debug, Default)]
pub struct Counts {
    requests: [[AtomicU64; OUTCOMES.len()]; OPS.len()],
    micros: [AtomicU64; OPS.len()],
    sent: AtomicU64,
    received: AtomicU64,
}

impl Outcome {
    /// Outcome of an HTTP status.
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
    /// Counts one request with its bytes sent and received.
    pub fn note(&self, op: Op, outcome: Outcome, sent: usize, received: usize, took: Duration) {
        let (op, outcome) = (op as usize, outcome as usize);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.requests[op][outcome].fetch_add(1, Relaxed);
        self.micros[op].fetch_add(micros, Relaxed);
        self.sent.fetch_add(sent as u64, Relaxed);
        self.received.fetch_add(received as u64, Relaxed);
    }

    /// Request counts for each pair of operation and outcome.
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

    /// Total seconds of requests, by operation.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "2^53 microseconds are 285 years")]
    pub fn seconds(&self) -> Vec<(&'static str, f64)> {
        let seconds = |op: Op| self.micros[op as usize].load(Relaxed) as f64 / 1e6;
        OPS.iter().map(|&(op, name)| (name, seconds(op))).collect()
    }

    /// Requests of one operation, with any outcome.
    #[must_use]
    pub fn of(&self, op: Op) -> u64 {
        self.requests[op as usize].iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Bytes of objects and records: sent, and received.
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
