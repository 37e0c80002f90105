//! The last checkpoint of each ledger, so that one whose tail was cut off shows it (CTL-80).

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

    /// Checkpoints of each node and workspace that are kept of ledgers that the node has no more: some, since a disk
    /// may come back, and no more, since a node may begin with an empty one each time.
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

    /// Whether it is of another ledger than the one that begins with that entry. One that does not say is of any.
    fn is_of_another(&self, first: Option<Hash>) -> bool {
        self.first.is_some() && self.first != first
    }
}

impl Record for Anchor {
    const ENTRY: TableEntry = schema::ANCHORS;
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

    /// The same, of a ledger that is this node's alone: each has one of its own of a workspace. A node that lost its
    /// disk begins another one, whose checkpoints take the place of those of the one before; that one's is kept apart.
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

    /// Puts what is on record apart, and what was put apart of the ledger that begins with that entry in its place.
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
        // What is known already costs no transaction.
        if !self.read(|view| anchor.is_newer(view, key))? {
            return Ok(());
        }
        self.write(|change| match anchor.is_newer(change, key)? {
            true => change.put(key.as_bytes(), &anchor),
            false => Ok(()),
        })
    }

    /// The last checkpoints that were noted of this node's ledgers, in order of their workspaces, after those of
    /// `after`: of one workspace all that there are, and no further workspace where these are `most`. Where nodes share
    /// the store, there may be others of ledgers that the node has no more.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn anchors(
        &self,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<(String, LastCheckpoint)>, ControlError> {
        self.anchors_of(self.elsewhere.get().map(|elsewhere| elsewhere.node()), after, most)
    }

    /// The same, of the ledgers of one of several nodes, or of one that is alone.
    ///
    /// # Errors
    /// A fault of the store.
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
                // Of a node that is alone there is one ledger of each workspace.
                last.first = last.first.filter(|_| node.is_some());
                found.push((slug.to_owned(), last));
                Ok(true)
            })
        })?;
        Ok(found)
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

    /// The same, of the very ledger that begins with that entry, or has none yet. Where this node is alone there is no
    /// other one.
    ///
    /// # Errors
    /// A fault of the store.
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

/// No slug has a stroke in it.
fn key_of(slug: &str, node: &str) -> String {
    format!("{slug}/{node}")
}

/// Where the last checkpoint of a ledger is that its node has no more: of no node, since no name has a stroke in it.
fn apart(key: &str, first: Hash) -> String {
    format!("{key}/{}", hex(first.bytes()))
}

/// Forgets what was put apart longest ago where that is too much.
fn forget_oldest(change: &Change<'_>, key: &str) -> Result<(), ControlError> {
    let mut all = change.list::<Anchor>(format!("{key}/").as_bytes(), None, LISTED_MAX)?;
    all.sort_by_key(|(_, anchor)| anchor.at);
    let more = all.len().saturating_sub(ANCHORS_APART_MAX);
    all[..more].iter().try_for_each(|(key, _)| change.remove::<Anchor>(key).map(drop))
}

/// The workspace, if it is of a ledger that this node has or had.
fn whose<'a>(key: &'a str, node: Option<&str>) -> Option<&'a str> {
    let mut parts = key.split('/');
    let slug = parts.next()?;
    (parts.next() == node).then_some(slug)
}
