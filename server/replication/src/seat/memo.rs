//! What a workspace's folder remembers of what this node was to it: `remote.json`, beside the store.

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

    /// Longest file that is read.
    const MEMO_BYTES_MAX: u64 = 4 << 10;
}

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memo {
    format: String,
    /// The store's id.
    pub(super) store: Nonce,
    /// The node that this was.
    pub(super) node: NodeId,
    /// The epoch that it wrote last, or that it follows.
    pub(super) epoch: u64,
    /// Whether it wrote: commits may be here that the chain does not have.
    pub(super) writes: bool,
    /// The newest commit that is known to be in the chain.
    pub(super) carried: u64,
    /// The record that the store is as of or ahead of.
    #[serde(default)]
    pub(super) record: u64,
}

impl Memo {
    pub(super) fn new(head: &Head, node: NodeId, writes: bool) -> Self {
        let (store, epoch, carried, record) = (head.store, head.epoch, head.seq, head.number);
        Self { format: FORMAT.into(), store, node, epoch, writes, carried, record }
    }

    /// The same, of which so much is known to be in the chain, with this record.
    pub(super) fn with_carried(self, carried: u64, record: u64) -> Self {
        Self { carried: carried.max(self.carried), record: record.max(self.record), ..self }
    }

    /// The same, where what is here is to follow from now on.
    pub(super) fn followed(&self) -> Self {
        Self { writes: false, ..self.clone() }
    }

    /// What a folder remembers; `None` where it has nothing to do with a remote.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn read(home: &Path) -> Result<Option<Self>, String> {
        small_file::read_noted(
            &home.join(FILE),
            MEMO_BYTES_MAX,
            (FORMAT, |memo: &Self| &memo.format),
        )
    }

    /// Puts it in place: a crash leaves this or what was there before.
    pub(super) fn write(&self, home: &Path) -> io::Result<()> {
        small_file::put_json(home, FILE, self)
    }

    /// Whether what is here is another node's, which this one followed.
    pub(super) fn follows(&self) -> bool {
        !self.writes
    }

    /// Whether the newest record is of the epoch that this folder's store wrote: then what is here is all that the
    /// chain has, and maybe more.
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
