//! Checkpoint anchors: the last checkpoint of each ledger, by which a truncated ledger is detected (CTL-80).

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::error::ControlError;
use super::hash::{Hash, hex};
use super::last_checkpoint::LastCheckpoint;
use super::record::{Record, decode};
use super::schema::{self, TableEntry};
use super::store::Control;
use super::table::{Change, LISTED_MAX, Look};
use super::tenants::check_slug;
use super::text::check_word;
use recalld_common::slug::LOCAL_WORKSPACE;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of retained anchors of former ledgers, per node and workspace. More than none, as a lost disk may
    /// come back; bounded, as a node may start with an empty ledger each time.
    pub const ANCHORS_APART_MAX: usize = 4;
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Anchor {
    seq: u64,
    head: Hash,
    at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first: Option<Hash>,
}

impl Anchor {
    fn of(last: &LastCheckpoint) -> Self {
        Self { seq: last.seq, head: Hash(last.head), at: last.at, first: last.first.map(Hash) }
    }

    fn last(&self) -> LastCheckpoint {
        let first = self.first.map(|first| *first.bytes());
        LastCheckpoint { seq: self.seq, head: *self.head.bytes(), at: self.at, first }
    }

    /// Returns true if the anchor belongs to a ledger other than the one with first entry `first`. An anchor without a
    /// first entry may belong to any ledger.
    fn is_of_another(&self, first: Option<Hash>) -> bool {
        self.first.is_some() && self.first != first
    }
}

impl Record for Anchor {
    const ENTRY: TableEntry = schema::ANCHORS;
}

impl Anchor {
    /// Returns true if the anchor covers more of a ledger than the recorded anchor.
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
    /// Records the last checkpoint of a workspace's ledger, including that of `local`. A checkpoint that covers less
    /// than the recorded one changes nothing.
    ///
    /// # Errors
    /// `Refused` if `slug` is invalid, or if two checkpoints of one entry differ; otherwise a store error.
    pub fn put_anchor(&self, slug: &str, last: &LastCheckpoint) -> Result<(), ControlError> {
        match self.elsewhere.get() {
            Some(elsewhere) => elsewhere.put_anchor(slug, last),
            None => self.put_anchor_at(slug, slug, last),
        }
    }

    /// As [`Control::put_anchor`], for the ledger of one node: each node has its own ledger of a workspace. A node that
    /// lost its disk starts another ledger, whose anchor replaces the old one; the old anchor is retained separately.
    ///
    /// # Errors
    /// As [`Control::put_anchor`], or if `node` is invalid.
    pub fn put_anchor_of(
        &self,
        slug: &str,
        node: &str,
        last: &LastCheckpoint,
    ) -> Result<(), ControlError> {
        check_word("node", node)?;
        let key = key_of(slug, node);
        let first = last.first.map(Hash);
        let known: Option<Anchor> = self.read(|view| view.find(key.as_bytes()))?;
        if let (Some(first), Some(known)) = (first, known)
            && known.is_of_another(Some(first))
        {
            self.exchange(&key, first)?;
        }
        self.put_anchor_at(slug, &key, last)
    }

    /// Moves the recorded anchor to the retained ones, and restores a retained anchor of the ledger with first entry
    /// `first`.
    fn exchange(&self, key: &str, first: Hash) -> Result<(), ControlError> {
        self.write(|change| {
            let known: Option<Anchor> = change.find(key.as_bytes())?;
            let Some((known, of)) = known.and_then(|known| Some((known.first?, known))) else {
                return Ok(());
            };
            if known == first {
                return Ok(());
            }
            change.put(apart(key, known).as_bytes(), &of)?;
            let own = apart(key, first);
            match change.find::<Anchor>(own.as_bytes())? {
                Some(earlier) => {
                    change.put(key.as_bytes(), &earlier)?;
                    change.remove::<Anchor>(own.as_bytes())?;
                }
                None => {
                    change.remove::<Anchor>(key.as_bytes())?;
                }
            }
            forget_oldest(change, key)
        })
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
        let anchor = Anchor::of(last);
        // A checkpoint that is already recorded needs no write transaction.
        if !self.read(|view| anchor.is_newer(view, key))? {
            return Ok(());
        }
        self.write(|change| match anchor.is_newer(change, key)? {
            true => change.put(key.as_bytes(), &anchor),
            false => Ok(()),
        })
    }

    /// The anchors of this node's ledgers in order of workspace, after the workspace `after`. All anchors of a
    /// workspace are returned together; no further workspace starts after `most` anchors. If nodes share the store, the
    /// result includes anchors of former ledgers of the node.
    ///
    /// # Errors
    /// A store error.
    pub fn anchors(
        &self,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<(String, LastCheckpoint)>, ControlError> {
        self.anchors_of(self.elsewhere.get().map(|elsewhere| elsewhere.node()), after, most)
    }

    /// As [`Control::anchors`], for the ledgers of one of several nodes, or of a single node (`None`).
    ///
    /// # Errors
    /// A store error.
    pub fn anchors_of(
        &self,
        node: Option<&str>,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<(String, LastCheckpoint)>, ControlError> {
        let key = |slug: &str| match node {
            None => slug.to_owned(),
            Some(node) => apart(&key_of(slug, node), Hash([0xff; 32])),
        };
        let after = after.map(key);
        let after = after.as_deref().map(str::as_bytes);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut found: Vec<(String, LastCheckpoint)> = Vec::new();
        self.read(|view| {
            view.walk(Anchor::TABLE, from, |key, value| {
                let key = String::from_utf8_lossy(key);
                let Some(slug) = whose(&key, node) else { return Ok(true) };
                if found.len() >= most && found.last().is_some_and(|(last, _)| last != slug) {
                    return Ok(false);
                }
                let mut last = decode::<Anchor>(value)?.last();
                // A single node has one ledger for each workspace.
                last.first = last.first.filter(|_| node.is_some());
                found.push((slug.to_owned(), last));
                Ok(true)
            })
        })?;
        Ok(found)
    }

    /// The recorded last checkpoint of a workspace's ledger.
    ///
    /// # Errors
    /// A store error.
    pub fn find_anchor(&self, slug: &str) -> Result<Option<LastCheckpoint>, ControlError> {
        let key = match self.elsewhere.get() {
            Some(elsewhere) => key_of(slug, elsewhere.node()),
            None => slug.to_owned(),
        };
        let found: Option<Anchor> = self.read(|view| view.find(key.as_bytes()))?;
        Ok(found.map(|anchor| anchor.last()))
    }

    /// The recorded last checkpoint of the ledger with the first entry `first`, or of an empty ledger (`None`). A
    /// single node has one ledger for each workspace, so `first` is ignored.
    ///
    /// # Errors
    /// A store error.
    pub fn find_anchor_of(
        &self,
        slug: &str,
        first: Option<[u8; 32]>,
    ) -> Result<Option<LastCheckpoint>, ControlError> {
        let Some(elsewhere) = self.elsewhere.get() else { return self.find_anchor(slug) };
        let (key, first) = (key_of(slug, elsewhere.node()), first.map(Hash));
        let found: Option<Anchor> = self.read(|view| {
            let found = view.find::<Anchor>(key.as_bytes())?;
            match (found.filter(|anchor| !anchor.is_of_another(first)), first) {
                (None, Some(first)) => view.find(apart(&key, first).as_bytes()),
                (found, _) => Ok(found),
            }
        })?;
        Ok(found.map(|anchor| anchor.last()))
    }
}

/// Unambiguous, as no slug contains a slash.
fn key_of(slug: &str, node: &str) -> String {
    format!("{slug}/{node}")
}

/// Key of a retained anchor of a former ledger. No other node has this key, as no node name contains a slash.
fn apart(key: &str, first: Hash) -> String {
    format!("{key}/{}", hex(first.bytes()))
}

/// Removes the oldest retained anchors beyond [`ANCHORS_APART_MAX`].
fn forget_oldest(change: &Change<'_>, key: &str) -> Result<(), ControlError> {
    let mut all = change.list::<Anchor>(format!("{key}/").as_bytes(), None, LISTED_MAX)?;
    all.sort_by_key(|(_, anchor)| anchor.at);
    let more = all.len().saturating_sub(ANCHORS_APART_MAX);
    all[..more].iter().try_for_each(|(key, _)| change.remove::<Anchor>(key).map(drop))
}

/// The workspace of a key, if the key belongs to a current or former ledger of `node`.
fn whose<'a>(key: &'a str, node: Option<&str>) -> Option<&'a str> {
    let mut parts = key.split('/');
    let slug = parts.next()?;
    (parts.next() == node).then_some(slug)
}
