//! Documents that are stored together: each whole or not at all.
//!
//! Owns when a batch of documents ends, and what becomes of the others when one of them is refused.
//! Must not know how a file is read.

use engine::{Batch, ItemId, Unwritten, WriteError};

use super::held::Held;
use recalld_embedding::encoders::Encoders;
use recalld_embedding::inflow::{PARCEL_TEXTS_MAX, Parcel};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Records of documents that are stored together, unless one alone has more.
    const RECORDS_MAX: usize = 4_096;
    /// Bytes of their files, unless one alone has more.
    const BYTES_MAX: u64 = 8 << 20;
}

/// Documents that are stored together.
#[derive(Debug, Default)]
pub(super) struct Documents {
    batch: Batch,
    each: Vec<One>,
    texts: usize,
    bytes: u64,
}

/// A document of a batch.
#[derive(Debug)]
pub(super) struct One {
    /// Its item.
    pub(super) document: ItemId,
    /// Whether it replaces an older version.
    pub(super) is_changed: bool,
    /// Whether it is less sensitive than that version.
    pub(super) is_lowered: bool,
    /// Which of the job's files it was read from.
    pub(super) file: usize,
    /// Bytes of that file.
    pub(super) bytes: u64,
    /// Its file, for people.
    pub(super) uri: String,
    /// Whether it holds links.
    pub(super) has_links: bool,
    /// Its file, as paths are given.
    pub(super) path: String,
    /// Secrets in it, and which of its items they raised.
    pub(super) held: Held,
    pub(super) raised: Vec<ItemId>,
    /// Items of it: itself and its chunks.
    pub(super) items: usize,
    /// Sources and edges of it.
    pub(super) sources: usize,
    pub(super) edges: usize,
}

/// A document, and why the store refused it, if it did.
pub(super) type Stored = (One, Option<String>);

impl Documents {
    pub(super) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Whether a document, as a batch of its own, can be stored with these.
    pub(super) fn fits(&self, one: &One, batch: &Batch) -> bool {
        self.is_empty()
            || self.texts + texts(batch) <= PARCEL_TEXTS_MAX
                && self.batch.records() + batch.records() <= RECORDS_MAX
                && self.bytes + one.bytes <= BYTES_MAX
                && self.batch.embedded_by == batch.embedded_by
    }

    pub(super) fn push(&mut self, one: One, batch: Batch) {
        self.texts += texts(&batch);
        self.bytes += one.bytes;
        self.each.push(one);
        self.batch.sources.extend(batch.sources);
        self.batch.items.extend(batch.items);
        self.batch.edges.extend(batch.edges);
        self.batch.embedded_by = batch.embedded_by;
    }
}

/// How many texts are still to be embedded.
fn texts(batch: &Batch) -> usize {
    batch.items.iter().filter(|item| item.embedding.is_empty()).count()
}

/// The first document's part of what several had together.
fn split_off(rest: &mut Batch, one: &One) -> Batch {
    Batch {
        sources: rest.sources.drain(..one.sources).collect(),
        items: rest.items.drain(..one.items).collect(),
        edges: rest.edges.drain(..one.edges).collect(),
        embedded_by: rest.embedded_by,
        ..Batch::default()
    }
}

impl Parcel for Documents {
    type Store = Encoders;
    type Done = Vec<Stored>;
    type Error = WriteError;

    fn embed(&mut self, encoders: &Encoders, goes_on: &dyn Fn() -> bool) -> Option<u64> {
        encoders.embed_while(&mut self.batch, goes_on)
    }

    fn write(self, encoders: &Encoders) -> Result<Vec<Stored>, WriteError> {
        let mut rest = match encoders.try_write(self.batch) {
            Ok(_) => return Ok(self.each.into_iter().map(|one| (one, None)).collect()),
            Err(Unwritten { error: WriteError::Refused { .. }, batch }) => *batch,
            Err(unwritten) => return Err(unwritten.error),
        };
        let mut stored = Vec::with_capacity(self.each.len());
        for one in self.each {
            match encoders.write(split_off(&mut rest, &one)) {
                Ok(_) => stored.push((one, None)),
                Err(WriteError::Refused { field, why }) => {
                    stored.push((one, Some(format!("{field}: {why}"))));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(stored)
    }
}
