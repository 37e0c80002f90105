//! Summary of a record, which a writer retains to know which objects the record needs and how long the record stays.

use crate::edge::Kept;
use crate::hex::{Hash, Nonce};
use crate::names::DataKey;
use crate::record::{Kind, Record};

/// Summary of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// Number of the record.
    pub number: u64,
    /// Time of creation as the record states it, in microseconds since 1970.
    pub at: i64,
    /// Hash of the record's header.
    pub sha256: Hash,
    /// First half of the hash of all bytes; a long record's object is named by this half (REM-62).
    pub half: Nonce,
    /// True for a full record.
    pub is_full: bool,
    /// Number of the full record on which this record builds.
    pub base: u64,
    /// Number up to which history must be removed; 0 if nothing was erased.
    pub erased: u64,
    /// Objects that the record references.
    pub keys: Vec<DataKey>,
}

impl Noted {
    /// Summarizes a record.
    #[must_use]
    pub fn of(record: &Record, hash: Hash, bytes: &[u8]) -> Self {
        let (is_full, erased) = match &record.kind {
            Kind::Full(full) => (true, full.erased),
            _ => (false, 0),
        };
        let head = &record.head;
        let (number, at, base, keys) = (head.number, head.at, head.base, record.keys());
        let half = Hash::of(bytes).half();
        Self { number, at, sha256: hash, half, is_full, base, erased, keys }
    }

    pub(super) fn kept(&self) -> Kept {
        Kept { number: self.number, sha256: self.sha256, at: self.at }
    }
}
