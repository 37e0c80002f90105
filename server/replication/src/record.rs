//! A record of a chain (`format-spec/remote.md`, Records): what it says, and whether that can be.
//!
//! Does not know where records are kept, nor what log bytes and manifests mean.

mod text;

use serde::{Deserialize, Serialize};

use crate::fault::Damage;
use crate::hex::{Hash, Nonce};
use crate::limits::{
    FILE_NAME_BYTES_MAX, FILES_MAX, FOLDS_MAX, INLINE_BYTES_MAX, LOGS_MAX, MANIFEST_BYTES_MAX,
    NUMBER_MAX, URL_BYTES_MAX,
};
use crate::names::{DataKey, NodeId, Tenant};

/// What every record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Its place in the chain, from 1.
    pub number: u64,
    /// Whose chain.
    pub tenant: Tenant,
    /// The id of the store that the chain is a copy of.
    pub store: Nonce,
    /// Of the writer: rises with each opening for writing.
    pub epoch: u64,
    /// Which node wrote it.
    pub node: NodeId,
    /// Which process of that node.
    pub run: Nonce,
    /// Where that node answers; may be empty.
    pub url: String,
    /// Of this record alone: by it a writer knows its own record again.
    pub nonce: Nonce,
    /// When it was made, microseconds since 1970; at least that of the record before. For people, for what is
    /// wanted as of a time, and for whether a deleted workspace is alive: nothing else is decided by it.
    pub at: i64,
    /// The hash of the record before; zeros in record 1.
    pub previous: Hash,
    /// The newest full record at or before this one; 0 where there is none.
    pub base: u64,
    /// The newest commit that is in the chain with this record.
    pub seq: u64,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What every record says.
    pub head: Head,
    /// What this one is for.
    pub kind: Kind,
}

/// What a record is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A new epoch begins.
    Take,
    /// The epoch ends, and another may begin at once; by the one that is named, if one is.
    Give {
        /// Who shall take it.
        to: Option<NodeId>,
    },
    /// Logs have grown.
    Step(Vec<LogPiece>),
    /// All that the store is, at once.
    Full(Full),
}

/// Bytes that a record brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bytes {
    /// They are in the record.
    Here(Vec<u8>),
    /// They are an object.
    Object {
        /// Which one.
        key: DataKey,
        /// What they must hash to.
        sha256: Hash,
    },
}

/// What a log has grown by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// The number of the log.
    pub number: u64,
    /// The first commit that belongs into it.
    pub first_seq: u64,
    /// The place of its first byte in the log: where what is known of it ends.
    pub from: u64,
    /// The place behind its last byte.
    pub to: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// A whole store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    /// The manifest, byte for byte.
    pub manifest: Vec<u8>,
    /// Segments and states that the manifest lists, and indexes that were brought.
    pub files: Vec<FarFile>,
    /// The logs that belong to the manifest, ascending.
    pub logs: Vec<FarLog>,
    /// History up to this record must go, since something in it was erased; 0 where nothing was.
    pub erased: u64,
}

/// A file of a store, as an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarFile {
    /// Its name in the store.
    pub name: String,
    /// Its object, in as many parts as its length makes.
    pub key: DataKey,
    /// Its length.
    pub bytes: u64,
    /// What it hashes to.
    pub sha256: Hash,
}

/// A log of a store from its beginning on: objects, and the rest in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarLog {
    /// Its number.
    pub number: u64,
    /// The first commit that belongs into it.
    pub first_seq: u64,
    /// Objects, which follow one another from 0 on.
    pub folds: Vec<Fold>,
    /// What comes behind the last of them.
    pub rest: Vec<u8>,
}

/// A run of log bytes as an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// Which object.
    pub key: DataKey,
    /// The place of its first byte in the log.
    pub from: u64,
    /// The place behind its last byte.
    pub to: u64,
    /// What it hashes to.
    pub sha256: Hash,
}

impl FarLog {
    /// Where the objects end and `rest` begins.
    #[must_use]
    pub fn folded(&self) -> u64 {
        self.folds.last().map_or(0, |fold| fold.to)
    }

    /// The place behind its last byte.
    #[must_use]
    pub fn to(&self) -> u64 {
        self.folded() + self.rest.len() as u64
    }
}

impl Record {
    /// Whether it may follow a record whose head is `before` and hashes to `hash` (REM-04).
    ///
    /// # Errors
    /// REM-04, with what does not fit.
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

    /// The objects that it names.
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

    /// Whether it can be a record at all (REM-02).
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

/// The names of files in a store: `segment-00000000000000000012` and the like.
fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=FILE_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

fn require(holds: bool, what: &str) -> Result<(), Damage> {
    if holds { Ok(()) } else { Err(Damage::new("REM-02", what)) }
}

#[cfg(test)]
mod tests;
