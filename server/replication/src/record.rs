//! A record of a record log (`format-spec/remote.md`, Records): its content, and the checks of its validity.
//!
//! Does not know where records are stored, nor the meaning of log bytes and manifests.

mod text;

use serde::{Deserialize, Serialize};

use crate::fault::Damage;
use crate::hex::{Hash, Nonce};
use crate::limits::{
    FILE_NAME_BYTES_MAX, FILES_MAX, FOLDS_MAX, INLINE_BYTES_MAX, LOGS_MAX, MANIFEST_BYTES_MAX,
    NUMBER_MAX, URL_BYTES_MAX,
};
use crate::names::{DataKey, NodeId, Tenant};

/// Header of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Number of the record in its log, from 1.
    pub number: u64,
    /// Workspace of the record log.
    pub tenant: Tenant,
    /// Id of the replicated store.
    pub store: Nonce,
    /// Epoch of the writer; rises with each opening for writing.
    pub epoch: u64,
    /// Node of the writer.
    pub node: NodeId,
    /// Process of that node.
    pub run: Nonce,
    /// Address of that node; may be empty.
    pub url: String,
    /// Random number of this record, by which a writer recognizes its own record.
    pub nonce: Nonce,
    /// Time of the record in microseconds since 1970, at least that of the record before. Used for display, for
    /// point-in-time restores, and to see if a deleted workspace is alive; no other decision depends on it.
    pub at: i64,
    /// Hash of the record before; zeros in record 1.
    pub previous: Hash,
    /// Number of the newest full record at or before this one; 0 if there is none.
    pub base: u64,
    /// Newest commit in the log up to this record.
    pub seq: u64,
}

/// Record of a record log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Header.
    pub head: Head,
    /// Kind, with the content.
    pub kind: Kind,
}

/// Kind of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Acquisition record: starts a new epoch.
    Take,
    /// Epoch release: ends the epoch, so that another node may acquire at once; if a node is named, that node first.
    Give {
        /// Successor, if one is named.
        to: Option<NodeId>,
    },
    /// Step record: appends to logs.
    Step(Vec<LogPiece>),
    /// Full record: the whole store.
    Full(Full),
}

/// Bytes of a step record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bytes {
    /// Inline, in the record.
    Here(Vec<u8>),
    /// In an object.
    Object {
        /// Key of the object.
        key: DataKey,
        /// Hash of the bytes.
        sha256: Hash,
    },
}

/// Bytes appended to a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Number of the log.
    pub number: u64,
    /// First commit of the log.
    pub first_seq: u64,
    /// Offset of the first byte, which is the log's previous length.
    pub from: u64,
    /// Offset behind the last byte.
    pub to: u64,
    /// Content.
    pub bytes: Bytes,
}

/// Content of a full record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    /// Manifest, byte for byte.
    pub manifest: Vec<u8>,
    /// Segments and states that the manifest lists, and uploaded indexes.
    pub files: Vec<FarFile>,
    /// Logs of the manifest, ascending.
    pub logs: Vec<FarLog>,
    /// Records up to this number must be removed because of an erasure; 0 if there was none.
    pub erased: u64,
}

/// A file of a store, as an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarFile {
    /// File name in the store.
    pub name: String,
    /// Object of the file; its number of parts follows from the length.
    pub key: DataKey,
    /// Length in bytes.
    pub bytes: u64,
    /// Hash of the content.
    pub sha256: Hash,
}

/// A whole log of a store: log objects, and the rest inline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarLog {
    /// Number of the log.
    pub number: u64,
    /// First commit of the log.
    pub first_seq: u64,
    /// Log objects, consecutive from offset 0.
    pub folds: Vec<Fold>,
    /// Inline bytes behind the last log object.
    pub rest: Vec<u8>,
}

/// Log object: a run of log bytes stored as an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// Key of the object.
    pub key: DataKey,
    /// Offset of the first byte in the log.
    pub from: u64,
    /// Offset behind the last byte.
    pub to: u64,
    /// Hash of the bytes.
    pub sha256: Hash,
}

impl FarLog {
    /// End of the log objects, where `rest` begins.
    #[must_use]
    pub fn folded(&self) -> u64 {
        self.folds.last().map_or(0, |fold| fold.to)
    }

    /// Length of the log in bytes.
    #[must_use]
    pub fn to(&self) -> u64 {
        self.folded() + self.rest.len() as u64
    }
}

impl Record {
    /// Checks that this record can follow a record with the header `before` and the hash `hash` (REM-04).
    ///
    /// # Errors
    /// REM-04, with the mismatch.
    pub fn check_after(&self, before: &Head, hash: Hash) -> Result<(), Damage> {
        let head = &self.head;
        let is_take = matches!(self.kind, Kind::Take);
        let base = if matches!(self.kind, Kind::Full(_)) { head.number } else { before.base };
        let faults = [
            (head.number != before.number + 1, "its number is not the next one"),
            (head.previous != hash, "`previous` is not the record before"),
            (head.tenant != before.tenant, "it is another workspace's"),
            (head.store != before.store, "it is another store's"),
            (is_take && head.epoch <= before.epoch, "a take must raise the epoch"),
            (!is_take && head.epoch != before.epoch, "only a take may change the epoch"),
            (
                !is_take && (&head.node, head.run) != (&before.node, before.run),
                "it is not by the writer of its epoch",
            ),
            (head.at < before.at, "it is older than the record before"),
            (head.seq < before.seq, "it has fewer commits than the record before"),
            (head.base != base, "`base` is not the newest full record"),
        ];
        match faults.into_iter().find(|(is_fault, _)| *is_fault) {
            None => Ok(()),
            Some((_, why)) => Err(Damage::new("REM-04", format!("record {}: {why}", head.number))),
        }
    }

    /// Keys of the objects that the record names.
    #[must_use]
    pub fn keys(&self) -> Vec<DataKey> {
        match &self.kind {
            Kind::Take | Kind::Give { .. } => Vec::new(),
            Kind::Step(pieces) => pieces.iter().filter_map(|piece| piece.bytes.key()).collect(),
            Kind::Full(full) => {
                let files = full.files.iter().map(|file| file.key);
                let folds = full.logs.iter().flat_map(|log| &log.folds).map(|fold| fold.key);
                files.chain(folds).collect()
            }
        }
    }

    /// Checks that the record is well-formed (REM-02).
    fn check(&self) -> Result<(), Damage> {
        let head = &self.head;
        let is_full = matches!(self.kind, Kind::Full(_));
        let mut numbers = [head.number, head.epoch, head.base, head.seq].into_iter();
        require(numbers.all(|number| number <= NUMBER_MAX), "a number is too large")?;
        require(head.number >= 1 && head.epoch >= 1, "numbers and epochs count from 1")?;
        require(head.at >= 0, "`at` is before 1970")?;
        require(head.url.len() <= URL_BYTES_MAX, "`url` is too long")?;
        require(head.base <= head.number && is_full == (head.base == head.number), "`base`")?;
        require((head.number == 1) == (head.previous == Hash::NONE), "`previous`")?;
        require(head.number > 1 || matches!(self.kind, Kind::Take), "record 1 must be a take")?;
        match &self.kind {
            Kind::Take | Kind::Give { .. } => Ok(()),
            Kind::Step(pieces) => check_pieces(pieces),
            Kind::Full(full) => full.check(head.number),
        }
    }
}

impl Bytes {
    fn key(&self) -> Option<DataKey> {
        match self {
            Self::Here(_) => None,
            Self::Object { key, .. } => Some(*key),
        }
    }
}

impl Full {
    fn check(&self, number: u64) -> Result<(), Damage> {
        let manifest = 1..=MANIFEST_BYTES_MAX;
        require(manifest.contains(&self.manifest.len()), "the manifest's length")?;
        require(self.erased < number, "`erased` must be below its own number")?;
        require(self.files.len() <= FILES_MAX, "too many files")?;
        require(self.files.is_sorted_by(|one, next| one.name < next.name), "files must ascend")?;
        for file in &self.files {
            require(is_file_name(&file.name), "the name of a file")?;
            require(file.bytes <= NUMBER_MAX, "the length of a file")?;
        }
        check_logs(&self.logs)
    }
}

fn check_pieces(pieces: &[LogPiece]) -> Result<(), Damage> {
    require((1..=LOGS_MAX).contains(&pieces.len()), "the number of pieces")?;
    require(pieces.is_sorted_by(|one, next| one.number < next.number), "pieces must ascend")?;
    let mut here = 0;
    for piece in pieces {
        require(piece.number.max(piece.first_seq).max(piece.to) <= NUMBER_MAX, "a piece")?;
        require(piece.from < piece.to, "a piece must have bytes")?;
        if let Bytes::Here(bytes) = &piece.bytes {
            require(bytes.len() as u64 == piece.to - piece.from, "the length of a piece")?;
            here += bytes.len();
        }
    }
    require(here <= INLINE_BYTES_MAX, "too many bytes of logs in the record")
}

fn check_logs(logs: &[FarLog]) -> Result<(), Damage> {
    require(logs.len() <= LOGS_MAX, "too many logs")?;
    require(logs.is_sorted_by(|one, next| one.number < next.number), "logs must ascend")?;
    require(logs.iter().map(|log| log.folds.len()).sum::<usize>() <= FOLDS_MAX, "too many folds")?;
    let here: usize = logs.iter().map(|log| log.rest.len()).sum();
    require(here <= INLINE_BYTES_MAX, "too many bytes of logs in the record")?;
    for log in logs {
        let mut at = 0;
        for fold in &log.folds {
            require(fold.from == at && fold.from < fold.to, "folds must follow one another")?;
            at = fold.to;
        }
        require(at <= NUMBER_MAX && log.number.max(log.first_seq) <= NUMBER_MAX, "a log")?;
    }
    Ok(())
}

/// Returns true for a file name of a store, such as `segment-00000000000000000012`.
fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=FILE_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

fn require(holds: bool, what: &str) -> Result<(), Damage> {
    if holds { Ok(()) } else { Err(Damage::new("REM-02", what)) }
}

#[cfg(test)]
mod tests;
