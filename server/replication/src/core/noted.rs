//! What a holder remembers of a record: enough to know what it needs, and for how long it stays.

use crate::edge::Kept;
use crate::hex::{Hash, Nonce};
use crate::names::DataKey;
use crate::record::{Kind, Record};

/// What is remembered of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// Its number.
    pub number: u64,
    /// When it was made, as it says.
    pub at: i64,
    /// Its hash.
    pub sha256: Hash,
    /// The first half of the hash of all its bytes, by which the object is called that a long one is (REM-62).
    pub half: Nonce,
    /// Whether it stands for itself.
    pub is_full: bool,
    /// The full record that it leans on.
    pub base: u64,
    /// Up to where history must go; 0 if nothing was erased.
    pub erased: u64,
    /// The objects that it names.
    pub keys: Vec<DataKey>,
}

impl Noted {
    /// What is to be remembered of a record.
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
