//! How far the control store of this node is in the chain, and what full records say of it.
//!
//! Owns these forms. Must not know how it came there.

use recalld_replication::core::Mark;
use recalld_replication::{Hash, Hex};
use serde::{Deserialize, Serialize};

use recalld_metastore::{ControlError, TablesDigest};

const FORMAT: &str = "recalld control";
/// Newest version that this build reads, and the least that can read what it writes.
const VERSION: u16 = 1;

/// Kept in the store itself, in the transaction that brought it there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The newest record that is in it.
    pub(super) mark: Mark,
    /// The log that goes on: what it is called, and how many bytes of it are in.
    pub(super) log: u64,
    pub(super) to: u64,
    /// What all rows make.
    pub(super) digest: Hash,
}

impl Place {
    /// Of a chain of which nothing is known but this record.
    pub(super) fn begun(mark: Mark) -> Self {
        Self { mark, log: 0, to: 0, digest: Hash::NONE }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, ControlError> {
        serde_json::from_slice(bytes)
            .map_err(|error| ControlError::unavailable(format!("its place in the chain: {error}")))
    }

    pub(super) fn digest(&self) -> TablesDigest {
        TablesDigest(self.digest.0)
    }
}

pub(super) fn hash_of(digest: TablesDigest) -> Hash {
    Hex(digest.0)
}

/// The manifest of a full record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tables {
    format: String,
    read_version: u16,
    write_version: u16,
    /// The commit that the file of tables is as of.
    pub(super) seq: u64,
    /// What all rows make, with what the record's log brings.
    pub(super) digest: Hash,
}

impl Tables {
    pub(super) fn new(seq: u64, digest: Hash) -> Self {
        Self {
            format: FORMAT.to_owned(),
            read_version: VERSION,
            write_version: VERSION,
            seq,
            digest,
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }

    /// # Errors
    /// It is none, or a newer build's.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(bytes)
            .map_err(|error| format!("what a full record says of the tables: {error}"))?;
        if read.format != FORMAT || read.read_version > VERSION {
            let (format, found) = (&read.format, read.read_version);
            return Err(format!(
                "the chain of the control store is of {format:?}, version {found}: this build reads {FORMAT:?} up to \
                 version {VERSION}"
            ));
        }
        Ok(read)
    }
}

/// The name of the file of tables in a full record.
pub(super) fn tables_name(seq: u64) -> String {
    format!("tables-{seq:020}")
}
