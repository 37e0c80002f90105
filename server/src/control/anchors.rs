//! The last checkpoint of each ledger, so that one whose tail was cut off shows it (CTL-80).

use serde::{Deserialize, Serialize};

use super::error::ControlError;
use super::hash::Hash;
use super::record::Record;
use super::store::Control;
use super::table::Look;
use super::tenants::check_slug;
use super::text::check_word;
use crate::auth::LOCAL_WORKSPACE;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Anchor {
    seq: u64,
    head: Hash,
    at: u64,
}

impl Anchor {
    fn last(&self) -> LastCheckpoint {
        LastCheckpoint { seq: self.seq, head: *self.head.bytes(), at: self.at }
    }
}

impl Record for Anchor {
    const TABLE: &'static str = "anchors";
    const NUMBER: u8 = 10;
}

/// What the last checkpoint of a ledger said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastCheckpoint {
    /// The last entry that it covers.
    pub seq: u64,
    /// That entry's hash.
    pub head: [u8; 32],
    /// When it was made, in seconds since 1970.
    pub at: u64,
}

impl Anchor {
    /// Whether it covers more of a ledger than the one on record.
    fn is_newer(&self, look: &impl Look, key: &str) -> Result<bool, ControlError> {
        let known: Option<Self> = look.find(key.as_bytes())?;
        match known {
            Some(known) if known.seq == self.seq && known.head != self.head => {
                let why = format!("entry {} is on record with another hash", self.seq);
                Err(ControlError::refused("head", why))
            }
            known => Ok(known.is_none_or(|known| known.seq < self.seq)),
        }
    }
}

impl Control {
    /// Notes the last checkpoint of a workspace's ledger, that of `local` too. One that covers less than the one
    /// on record changes nothing.
    ///
    /// # Errors
    /// `Refused` where `slug` is none, or two checkpoints of one entry differ; else a fault of the store.
    pub fn put_anchor(&self, slug: &str, last: &LastCheckpoint) -> Result<(), ControlError> {
        match self.elsewhere.get() {
            Some(elsewhere) => elsewhere.put_anchor(slug, last),
            None => self.put_anchor_at(slug, slug, last),
        }
    }

    /// The same, of a ledger that is this node's alone: each has one of its own of a workspace.
    ///
    /// # Errors
    /// As [`Control::put_anchor`], and where `node` is none.
    pub fn put_anchor_of(
        &self,
        slug: &str,
        node: &str,
        last: &LastCheckpoint,
    ) -> Result<(), ControlError> {
        check_word("node", node)?;
        self.put_anchor_at(slug, &key_of(slug, node), last)
    }

    fn put_anchor_at(
        &self,
        slug: &str,
        key: &str,
        last: &LastCheckpoint,
    ) -> Result<(), ControlError> {
        if slug != LOCAL_WORKSPACE {
            check_slug(slug)?;
        }
        let anchor = Anchor { seq: last.seq, head: Hash(last.head), at: last.at };
        // What is known already costs no transaction.
        if !self.read(|view| anchor.is_newer(view, key))? {
            return Ok(());
        }
        self.write(|change| match anchor.is_newer(change, key)? {
            true => change.put(key.as_bytes(), &anchor),
            false => Ok(()),
        })
    }

    /// The last checkpoints that were noted, in order of their workspaces, after that of `after`: `most` at most.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn anchors(
        &self,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<(String, LastCheckpoint)>, ControlError> {
        let after = after.map(str::as_bytes);
        let found = self.read(|view| view.list::<Anchor>(&[], after, most))?;
        let named = |(key, anchor): (Vec<u8>, Anchor)| {
            (String::from_utf8_lossy(&key).into_owned(), anchor.last())
        };
        Ok(found.into_iter().map(named).collect())
    }

    /// The last checkpoint of a workspace's ledger that was noted.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn find_anchor(&self, slug: &str) -> Result<Option<LastCheckpoint>, ControlError> {
        let key = match self.elsewhere.get() {
            Some(elsewhere) => key_of(slug, elsewhere.node()),
            None => slug.to_owned(),
        };
        let found: Option<Anchor> = self.read(|view| view.find(key.as_bytes()))?;
        Ok(found.map(|anchor| anchor.last()))
    }
}

/// No slug has a stroke in it.
fn key_of(slug: &str, node: &str) -> String {
    format!("{slug}/{node}")
}
