use recalld_replication::core::Mark;
use recalld_replication::{Hash, Hex};
use serde::{Deserialize, Serialize};

use recalld_metastore::{ControlError, TablesDigest};

const FORMAT: &str = "recalld control";
/// Newest version that this build reads, and the oldest version that can read its output.
const VERSION: u16 = 1;

/// Position in the record log. Stored in the metastore itself, in the transaction that reaches the position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Newest applied record.
    pub(super) mark: Mark,
    /// Number of the current log; `to` is the number of its bytes that are applied.
    pub(super) log: u64,
    pub(super) to: u64,
    /// Digest of all rows.
    pub(super) digest: Hash,
}

impl Place {
    /// Position of which only this record is known.
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

/// Manifest of a full record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tables {
    format: String,
    read_version: u16,
    write_version: u16,
    /// Commit as of which the tables file is.
    pub(super) seq: u64,
    /// Digest of all rows, after the commits of the record's log.
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
    /// The bytes are no manifest, or one of a newer build.
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

/// Name of the tables file in a full record.
pub(super) fn tables_name(seq: u64) -> String {
    format!("tables-{seq:020}")
}
