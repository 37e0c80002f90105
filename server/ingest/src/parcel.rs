//! Write batch of an ingest: documents that are stored together, each whole or not at all.
//!
//! Owns the size limit of a batch, and the fallback if the store rejects one of its documents. Must not know how a file
//! is read.

use engine::{Batch, BatchError, ItemId, WriteError};

use super::held::Held;
use recalld_embedding::encoders::Encoders;
use recalld_embedding::inflow::{PARCEL_TEXTS_MAX, Parcel};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of records of a batch, unless a single document has more.
    const RECORDS_MAX: usize = 4_096;
    /// Maximum file bytes of a batch, unless a single document has more.
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
    /// Id of the document's item.
    pub(super) document: ItemId,
    /// True if the document replaces an older version.
    pub(super) is_changed: bool,
    /// True if the document is less sensitive than the older version.
    pub(super) is_lowered: bool,
    /// Index of the document's file in the job's list.
    pub(super) file: usize,
    /// Size of the file in bytes.
    pub(super) bytes: u64,
    /// URI of the file, for messages.
    pub(super) uri: String,
    /// True if the document has links.
    pub(super) has_links: bool,
    /// Path of the file, as listed.
    pub(super) path: String,
    /// Secret findings in the document, and the items whose sensitivity they raised.
    pub(super) held: Held,
    pub(super) raised: Vec<ItemId>,
    /// Number of items: the document and its chunks.
    pub(super) items: usize,
    /// Number of sources and edges.
    pub(super) sources: usize,
    pub(super) edges: usize,
}

/// A document, and the reason if the store rejected the document.
pub(super) type Stored = (One, Option<String>);

impl Documents {
    pub(super) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Returns true if a document, given as a batch of its own, can be added to this batch.
    pub(super) fn fits(&self, one: &One, batch: &Batch) -> bool {
        self.is_empty()
            || self.texts + texts(batch) <= PARCEL_TEXTS_MAX
                && self.batch.record_count() + batch.record_count() <= RECORDS_MAX
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

/// Number of texts that are still to be embedded.
fn texts(batch: &Batch) -> usize {
    batch.items.iter().filter(|item| item.embedding.is_empty()).count()
}

/// Removes the first document's records from a batch, and returns them as a batch.
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
            Err(BatchError { error: WriteError::Refused { .. }, batch }) => *batch,
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
