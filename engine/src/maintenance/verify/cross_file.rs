//! Checks across files: ids, refs and links (`format-spec/log.md`, Across files), and the bits of state files.
//!
//! If a look-up meets corruption, its segment's own check has reported that already, so the dependent check is skipped.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::derived_bits::{DerivedBits, OpenSegments};
use super::directory_snapshot::DirectorySnapshot;
use super::findings::Findings;
use crate::error::CorruptionError;
use crate::ids::{Row, Seq, SourceId};
use crate::layout::*;
use crate::row_state::{RowBitmap, RowState};
use crate::segment::{ColumnView, Segment, TombstoneView};

pub(super) fn check(gathered: &DirectorySnapshot, findings: &mut Findings) {
    let Some(manifest) = &gathered.manifest else { return };
    let sealed = gathered.sealed.iter().filter(|listed| listed.segment.is_some()).count();
    let parts = OpenSegments { segments: gathered.segments().collect(), sealed_count: sealed };
    findings.record_all(unique_ids(&parts, &[(ITEM_ID, ITEM_BY_ID), (EDGE_ID, EDGE_BY_ID)]));
    findings.record_all(unique_ids(&parts, &[(SOURCE_ID, SOURCE_BY_ID)]));
    let is_complete = sealed == manifest.segments.len() && !gathered.has_truncated_log;
    if !is_complete {
        findings.note(
            "files are missing or cannot be opened, so what rows say of rows elsewhere, and the bits \
             of states, were not checked",
        );
        return;
    }
    let has_erased = findings.record(has_erased(&parts)).unwrap_or(true);
    let links = LinkChecker { parts: &parts, erasures: &gathered.erasures, has_erased };
    for (part, segment) in parts.segments.iter().enumerate() {
        links.check(part, segment, findings);
    }
    // A version 1 manifest does not record the newest commit that a state may reflect.
    let synced_seq = if manifest.read_version == 1 { Seq::MAX } else { manifest.synced_seq };
    let Some(marks) = findings.record(DerivedBits::derive(&parts, synced_seq)) else { return };
    let opened = gathered.sealed.iter().filter(|listed| listed.segment.is_some());
    for (at, listed) in opened.enumerate() {
        let (Some(entry), Some(stored)) = (&listed.entry, &listed.state) else { continue };
        let name = match &entry.state {
            Some(state) => state_name(entry.number, state.generation),
            None => format!("the state of {}, which has no file", listed.name),
        };
        let states = StateBounds { stored, sealed: &marks.sealed[at], synced: &marks.synced[at] };
        let found = states.check(entry.items, entry.edges);
        findings.record(found.map_err(|damage| damage.in_file(&name)));
    }
    findings.record_all(unique_refs(&parts, &marks.now));
}

/// K-way merge: the rows of many segments in the order of one key.
struct KWayMerge<'a, K> {
    heap: BinaryHeap<Reverse<(K, usize, usize)>>,
    key: Box<KeyFn<'a, K>>,
}

/// Returns the key at position `at` of stream `stream`; `None` past its end.
type KeyFn<'a, K> = dyn Fn(usize, usize) -> Result<Option<K>, CorruptionError> + 'a;

impl<'a, K: Ord> KWayMerge<'a, K> {
    fn new(
        streams: usize,
        key: impl Fn(usize, usize) -> Result<Option<K>, CorruptionError> + 'a,
    ) -> Result<Self, CorruptionError> {
        let mut heap = BinaryHeap::with_capacity(streams);
        for stream in 0..streams {
            heap.extend(key(stream, 0)?.map(|key| Reverse((key, stream, 0))));
        }
        Ok(Self { heap, key: Box::new(key) })
    }

    /// Returns the next key, with its stream and its position in the stream.
    fn next_key(&mut self) -> Result<Option<(K, usize, usize)>, CorruptionError> {
        let Some(Reverse((key, stream, at))) = self.heap.pop() else { return Ok(None) };
        let next = (self.key)(stream, at + 1)?;
        self.heap.extend(next.map(|key| Reverse((key, stream, at + 1))));
        Ok(Some((key, stream, at)))
    }
}

/// Checks that no id occurs twice in these tables (STO-01).
fn unique_ids(
    parts: &OpenSegments<'_>,
    tables: &[(Column, Column)],
) -> Result<Vec<CorruptionError>, CorruptionError> {
    let mut streams: Vec<(&Segment, ColumnView<'_, u128>, ColumnView<'_, u32>)> = Vec::new();
    for segment in &parts.segments {
        for &(ids, order) in tables {
            streams.push((segment, segment.column(ids)?, segment.column(order)?));
        }
    }
    let key = |stream: usize, at: usize| {
        let (_, ids, order) = &streams[stream];
        if at == ids.len() {
            return Ok(None);
        }
        let row = if order.len() == 0 { at } else { order.get(at)? as usize };
        ids.get(row).map(Some)
    };
    let mut found = Vec::new();
    let mut merged = KWayMerge::new(streams.len(), key)?;
    let mut before: Option<(u128, usize)> = None;
    while let Some((id, stream, _)) = merged.next_key()? {
        if let Some((_, other)) = before.filter(|(before, _)| *before == id) {
            let detail =
                format!("id {} stands there and in {}", id_text(id), streams[other].0.name());
            found.push(CorruptionError::new("STO-01", detail).in_file(streams[stream].0.name()));
            if found.len() == super::FINDINGS_MAX {
                break;
            }
        }
        before = Some((id, stream));
    }
    Ok(found)
}

/// Checks that no two current items have the same ref (STO-04).
fn unique_refs(
    parts: &OpenSegments<'_>,
    now: &[RowState],
) -> Result<Vec<CorruptionError>, CorruptionError> {
    let mut streams = Vec::new();
    for segment in &parts.segments {
        let texts = segment.var_len_column::<u64, u8>(REF_OFFSETS, REF_BYTES)?;
        streams.push((segment.column::<u32>(ITEM_BY_REF)?, texts));
    }
    let key = |stream: usize, at: usize| {
        let (order, texts) = &streams[stream];
        if at == order.len() { Ok(None) } else { texts.get(order.get(at)? as usize).map(Some) }
    };
    let mut found = Vec::new();
    let mut merged = KWayMerge::new(streams.len(), key)?;
    let mut before: Option<&[u8]> = None;
    while let Some((reference, stream, at)) = merged.next_key()? {
        let row = streams[stream].0.get(at)?;
        let state = &now[stream];
        if state.tombstoned.contains(row) || state.superseded.contains(row) {
            continue;
        }
        if before == Some(reference) {
            let reference = String::from_utf8_lossy(reference);
            let detail = format!("row {row}: another current item has the ref {reference:?} too");
            found.push(
                CorruptionError::new("STO-04", detail).in_file(parts.segments[stream].name()),
            );
            if found.len() == super::FINDINGS_MAX {
                break;
            }
        }
        before = Some(reference);
    }
    Ok(found)
}

/// Displays an id without its type prefix.
fn id_text(id: u128) -> String {
    SourceId(id).to_string()
}

/// Checker of references between rows.
struct LinkChecker<'a> {
    parts: &'a OpenSegments<'a>,
    /// Pending erasures; their rows may already be partly erased.
    erasures: &'a BTreeSet<u128>,
    /// Result of [`has_erased`]: then a tombstone's target may be an edge erased with an item.
    has_erased: bool,
}

impl LinkChecker<'_> {
    fn check(&self, part: usize, segment: &Segment, findings: &mut Findings) {
        let header = segment.header();
        let wrong =
            |rule, detail: String| Err(CorruptionError::new(rule, detail).in_file(segment.name()));
        for row in 0..header.items {
            let Ok(item) = segment.item(row) else { continue };
            for old in &item.supersedes {
                findings.record(match self.parts.find_item(old.0) {
                    Ok(Some(place)) if place >= (part, row) => wrong(
                        "STO-02",
                        format!("item {} replaces {old}, which was not written before", item.id),
                    ),
                    Ok(None) if self.parts.is_erased(old.0) == Ok(false) => wrong(
                        "STO-02",
                        format!(
                            "item {} replaces {old}, which is neither there nor erased",
                            item.id
                        ),
                    ),
                    _ => Ok(()),
                });
            }
            let is_going = self.erasures.contains(&item.id.0);
            if let Some(source) = item.source.filter(|_| !is_going)
                && self.has_source(source) == Ok(false)
            {
                let detail = format!("item {} names source {source}, which is not there", item.id);
                findings.record(wrong("STO-03", detail));
            }
        }
        for row in 0..header.edges {
            let Ok(edge) = segment.edge(row) else { continue };
            let ids = [edge.id.0, edge.from.0, edge.to.0];
            if ids.iter().any(|id| self.erasures.contains(id)) {
                continue;
            }
            for end in [edge.from, edge.to] {
                if self.parts.find_item(end.0) == Ok(None) {
                    let detail = format!("edge {} joins item {end}, which is not there", edge.id);
                    findings.record(wrong("STO-02", detail));
                }
            }
            if let Some(source) = edge.source
                && self.has_source(source) == Ok(false)
            {
                let detail = format!("edge {} names source {source}, which is not there", edge.id);
                findings.record(wrong("STO-03", detail));
            }
        }
        for row in 0..header.tombstones {
            let Ok(stone) = segment.tombstone(row) else { continue };
            findings.record_all(self.check_tombstone(&stone).map(|found| {
                found.into_iter().map(|damage| damage.in_file(segment.name())).collect()
            }));
        }
    }

    /// Returns the broken references of a tombstone.
    fn check_tombstone(
        &self,
        stone: &TombstoneView<'_>,
    ) -> Result<Vec<CorruptionError>, CorruptionError> {
        let target = id_text(stone.target);
        let mut found = Vec::new();
        let is_gone = self.parts.find_item(stone.target)?.is_none()
            && self.parts.find_edge(stone.target)?.is_none();
        // A tombstoned edge is erased with either end, without an erasing tombstone of its own.
        if is_gone && !stone.target_erased && !self.has_erased {
            let detail = format!("a tombstone hides {target}, which is neither there nor erased");
            found.push(CorruptionError::new("STO-02", detail));
        }
        if stone.target_erased && !is_gone {
            let detail = format!("{target} is there, and a tombstone says that it was gone");
            found.push(CorruptionError::new("STO-01", detail));
        }
        for &old in &stone.supersedes {
            let is_before = match self.parts.find_item(old.0)? {
                Some((part, row)) => {
                    let seqs = self.parts.segments[part].column::<Seq>(ITEM_SEQ)?;
                    seqs.get(row as usize)? < stone.seq
                }
                None => self.parts.is_erased(old.0)?,
            };
            if !is_before {
                let detail = format!(
                    "the erased item {target} replaced {old}, which is neither there before its \
                     tombstone nor erased"
                );
                found.push(CorruptionError::new("STO-02", detail));
            }
        }
        Ok(found)
    }

    fn has_source(&self, id: SourceId) -> Result<bool, CorruptionError> {
        self.parts.find(|segment| segment.row_of_source(id)).map(|place| place.is_some())
    }
}

/// Returns true if any tombstone that erases has a target without an item row.
fn has_erased(parts: &OpenSegments<'_>) -> Result<bool, CorruptionError> {
    for segment in &parts.segments {
        for row in 0..segment.header().tombstones {
            let stone = segment.tombstone(row)?;
            if stone.erase && parts.find_item(stone.target)?.is_none() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

type BitmapFn = fn(&RowState) -> &RowBitmap;

/// State bits of one segment: the stored bits, and the bounds that they must be within.
struct StateBounds<'a> {
    stored: &'a RowState,
    sealed: &'a RowState,
    synced: &'a RowState,
}

impl StateBounds<'_> {
    /// Checks that the stored bits include all bits of `sealed` and only bits of `synced` (STA-02).
    fn check(&self, items: Row, edges: Row) -> Result<(), CorruptionError> {
        let tables: [(&str, BitmapFn, Row); 3] = [
            ("tombstoned items", |state| &state.tombstoned, items),
            ("superseded items", |state| &state.superseded, items),
            ("tombstoned edges", |state| &state.edges_tombstoned, edges),
        ];
        for (what, bits, rows) in tables {
            for row in 0..rows {
                let found = bits(self.stored).contains(row);
                if bits(self.sealed).contains(row) && !found {
                    let detail = format!("{what}: the bit of row {row} is missing");
                    return Err(CorruptionError::new("STA-02", detail));
                }
                if found && !bits(self.synced).contains(row) {
                    let detail = format!("{what}: nothing sets the bit of row {row}");
                    return Err(CorruptionError::new("STA-02", detail));
                }
            }
        }
        Ok(())
    }
}
