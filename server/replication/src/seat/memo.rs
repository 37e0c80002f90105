//! Role file: the role of this node for a workspace, in `remote.json` beside the store.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::hex::Nonce;
use crate::names::NodeId;
use crate::record::Head;
use crate::small_file;

pub(super) const FILE: &str = "remote.json";
const FORMAT: &str = "recalld remote place";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of the role file that are read.
    const MEMO_BYTES_MAX: u64 = 4 << 10;
}

/// Content of the role file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memo {
    format: String,
    /// Id of the store.
    pub(super) store: Nonce,
    /// Name of this node when the file was written.
    pub(super) node: NodeId,
    /// Epoch that this node wrote last, or that it follows.
    pub(super) epoch: u64,
    /// True if this node was the leader: local commits may be missing from the record log.
    pub(super) writes: bool,
    /// Newest commit that is known to be in the record log.
    pub(super) carried: u64,
    /// Record that the local store is at or ahead of.
    #[serde(default)]
    pub(super) record: u64,
}

impl Memo {
    pub(super) fn new(head: &Head, node: NodeId, writes: bool) -> Self {
        let (store, epoch, carried, record) = (head.store, head.epoch, head.seq, head.number);
        Self { format: FORMAT.into(), store, node, epoch, writes, carried, record }
    }

    /// Raises the newest commit known to be in the record log, and its record.
    pub(super) fn with_carried(self, carried: u64, record: u64) -> Self {
        Self { carried: carried.max(self.carried), record: record.max(self.record), ..self }
    }

    /// Changes the role to follower.
    pub(super) fn followed(&self) -> Self {
        Self { writes: false, ..self.clone() }
    }

    /// Reads the role file in a directory; `None` if the workspace has no remote.
    ///
    /// # Errors
    /// The file is invalid or cannot be read.
    pub(super) fn read(home: &Path) -> Result<Option<Self>, String> {
        small_file::read_noted(
            &home.join(FILE),
            MEMO_BYTES_MAX,
            (FORMAT, |memo: &Self| &memo.format),
        )
    }

    /// Replaces the file atomically: a crash leaves the new content or the old.
    pub(super) fn write(&self, home: &Path) -> io::Result<()> {
        small_file::put_json(home, FILE, self)
    }

    /// Returns true if the local store follows another node's.
    pub(super) fn follows(&self) -> bool {
        !self.writes
    }

    /// Returns true if the newest record is of the epoch that this directory's store wrote. The store then has all that
    /// the record log has, and maybe more.
    pub(super) fn leads(&self, newest: &Head) -> bool {
        let is_same = (self.store, &self.node) == (newest.store, &newest.node);
        self.writes && is_same && self.epoch == newest.epoch && self.carried <= newest.seq
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn what_is_remembered_is_read_again_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(Memo::read(home.path()), Ok(None));
        let memo = Memo {
            format: FORMAT.into(),
            store: Nonce::MOST,
            node: NodeId::new("box-1").unwrap(),
            epoch: 4,
            writes: true,
            carried: 9,
            record: 7,
        };
        memo.write(home.path()).unwrap();
        assert_eq!(Memo::read(home.path()), Ok(Some(memo.clone())));
        let other = Memo { format: "other".into(), ..memo };
        other.write(home.path()).unwrap();
        assert!(Memo::read(home.path()).unwrap_err().contains("another format"));
        std::fs::write(home.path().join(FILE), "{").unwrap();
        Memo::read(home.path()).unwrap_err();
    }
}
