//! Deduplication index: content keys by which rows without an id are found again, for items with neither id nor ref and
//! for sources.
//!
//! Knows which of these rows the store and the file have so far. Must not know the result of a line.

use std::collections::{HashMap, HashSet};

use engine::{
    ItemDraft, ItemId, ItemView, Micros, Sensitivity, Snapshot, SourceDraft, SourceId, Span, Status,
};
use sha2::{Digest, Sha256};

use super::error::ImportError;
use recalld_common::cancel::CallScope;

/// Items of the store between two checks for cancellation.
const ITEMS_PER_LOOK: usize = 4_096;

/// Content key: the first half of a SHA-256, which differs if the content of two rows differs.
pub(super) type Mark = u128;

/// Hash state; every part is preceded by its length, so that adjacent parts cannot be confused.
#[derive(Default)]
struct Hash(Sha256);

impl Hash {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn texts<'text>(&mut self, texts: impl ExactSizeIterator<Item = &'text str>) {
        self.number(texts.len() as u64);
        texts.for_each(|text| self.bytes(text.as_bytes()));
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn time(&mut self, time: Option<Micros>) {
        self.0.update([u8::from(time.is_some())]);
        self.0.update(time.map_or(0, |time| time.0).to_le_bytes());
    }

    fn end(self) -> Mark {
        let hash: [u8; 32] = self.0.finalize().into();
        let (half, _) = hash.split_first_chunk().expect("16 of 32 bytes");
        Mark::from_le_bytes(*half)
    }
}

/// Returns the key of a source that is named without its id.
pub(super) fn name_of_source(kind: &str, uri: &str, title: &str) -> Mark {
    let mut hash = Hash::default();
    hash.texts([kind, uri, title].into_iter());
    hash.end()
}

/// The content of an item except its source, by which items with neither id nor ref are distinguished. The author is
/// included.
struct Words<'a> {
    texts: [&'a str; 6],
    content_sha256: [u8; 32],
    tags: Vec<&'a str>,
    gates: Vec<&'a str>,
    span: Span,
    valid: (Option<Micros>, Option<Micros>),
    is: (Sensitivity, bool),
}

impl<'a> Words<'a> {
    fn of_draft(it: &'a ItemDraft) -> Self {
        Self {
            texts: [&it.kind, &it.modality, &it.title, &it.attributes, &it.recorded_by, &it.via],
            content_sha256: it.content_sha256(),
            tags: it.tags.iter().map(String::as_str).collect(),
            gates: it.gates.iter().map(String::as_str).collect(),
            span: it.span.unwrap_or_default(),
            valid: (it.valid_from, it.valid_to),
            is: (it.sensitivity, it.searchable),
        }
    }

    fn of_view(it: ItemView<'a>) -> Self {
        Self {
            texts: [it.kind, it.modality, it.title, it.attributes, it.recorded_by, it.via],
            content_sha256: it.content_sha256,
            tags: it.tags,
            gates: it.gates,
            span: it.span.unwrap_or_default(),
            valid: (it.valid_from, it.valid_to),
            is: (it.sensitivity, it.searchable),
        }
    }

    /// Returns the content key. `at` is the recording time if it counts; `hidden` is true for a tombstoned item.
    fn mark(&self, at: Option<Micros>, hidden: bool) -> Mark {
        let mut hash = Hash::default();
        hash.texts(self.texts.into_iter());
        hash.bytes(&self.content_sha256);
        hash.texts(self.tags.iter().copied());
        hash.texts(self.gates.iter().copied());
        let Span { byte_start, byte_end, line_start, line_end } = self.span;
        let (sensitivity, searchable) = self.is;
        for number in [byte_start, byte_end, line_start.into(), line_end.into()] {
            hash.number(number);
        }
        hash.bytes(&[sensitivity as u8, u8::from(searchable), u8::from(hidden)]);
        [self.valid.0, self.valid.1, at].into_iter().for_each(|time| hash.time(time));
        hash.end()
    }
}

/// Returns the content keys with and without the time, for a line that has neither id nor ref; else `None`.
pub(super) fn of_line(draft: &ItemDraft, tombstoned: bool) -> Option<[Mark; 2]> {
    let is_bare = draft.id.is_none() && draft.reference.is_none();
    let words = || Words::of_draft(draft);
    is_bare.then(|| [draft.recorded_at, None].map(|at| words().mark(at, tombstoned)))
}

/// Content keys of the store and of the file so far.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Items that a line of the file may match, by content key and source, one each.
    items: HashMap<(Mark, Option<SourceId>), ItemId>,
    /// Last source of each name in the file.
    sources: HashMap<Mark, SourceId>,
}

impl Said {
    /// Searches the store if any line has one of the `wanted` keys: for visible items, and for tombstoned items if a
    /// line is marked as tombstoned. The size of the index is thus bounded by the file.
    pub(super) fn of_store(
        snapshot: &Snapshot,
        wanted: &HashSet<Mark>,
        call: CallScope<'_>,
    ) -> Result<Self, ImportError> {
        let mut said = Self::default();
        if wanted.is_empty() {
            return Ok(said);
        }
        for (at, place) in snapshot.item_addresses()?.enumerate() {
            if at % ITEMS_PER_LOOK == 0 && call.is_over() {
                return Err(ImportError::Cancelled);
            }
            let item = snapshot.item(place)?;
            let status = snapshot.status(place)?;
            if item.reference.is_some() || status == Status::Superseded {
                continue;
            }
            let (id, source, at) = (item.id, item.source, item.recorded_at);
            let words = Words::of_view(item);
            for at in [None, Some(at)] {
                let [stands, hidden] = [false, true].map(|hidden| words.mark(at, hidden));
                if status == Status::Tombstoned {
                    if wanted.contains(&hidden) {
                        said.items.insert((hidden, source), id);
                    }
                } else if wanted.contains(&stands) {
                    said.items.entry((stands, source)).or_insert(id);
                } else if wanted.contains(&hidden) {
                    // An interrupted import stored this item and did not reach its tombstone.
                    said.items.entry((hidden, source)).or_insert(id);
                }
            }
        }
        Ok(said)
    }

    pub(super) fn item(&self, mark: Mark, source: Option<SourceId>) -> Option<ItemId> {
        self.items.get(&(mark, source)).copied()
    }

    /// Adds an item of the file, so that later lines with one of the `wanted` keys can match it.
    pub(super) fn note_item(
        &mut self,
        marks: [Mark; 2],
        source: Option<SourceId>,
        id: ItemId,
        wanted: &HashSet<Mark>,
    ) {
        for mark in marks.into_iter().filter(|mark| wanted.contains(mark)) {
            self.items.entry((mark, source)).or_insert(id);
        }
    }

    /// Returns the last source of the file with this name.
    pub(super) fn source_named(&self, name: Mark) -> Option<SourceId> {
        self.sources.get(&name).copied()
    }

    pub(super) fn note_source(&mut self, draft: &SourceDraft, id: SourceId) {
        self.sources.insert(name_of_source(&draft.kind, &draft.uri, &draft.title), id);
    }
}
