//! Checks of one segment on its own: its file byte by byte, its rows one by one.
//!
//! Modules of their own check indexes and embeddings; [`super::cross_file`] checks references to other segments.

use sha2::{Digest, Sha256};

use super::directory_snapshot::SegmentFile;
use super::findings::Findings;
use super::{indexes, vectors};
use crate::error::{CorruptionError, OpenError};
use crate::fulltext;
use crate::ids::Row;
use crate::item::Batch;
use crate::layout::*;
use crate::segment::{ItemView, RawFile, Segment};

/// Bytes per hash update.
const HASH_CHUNK_BYTES: usize = 1 << 20;

/// Checks the file: its hash, every page, and every byte between columns.
pub(super) fn check_file(listed: &SegmentFile, findings: &mut Findings) {
    let (name, bytes) = (&listed.name, listed.file.as_slice());
    if let Some(entry) = &listed.entry {
        let mut hash = Sha256::new();
        bytes.chunks(HASH_CHUNK_BYTES).for_each(|piece| hash.update(piece));
        if hash.finalize()[..] != entry.sha256 {
            let damage = CorruptionError::new("MAN-03", "its SHA-256 is not the manifest's");
            findings.add(damage.in_file(name));
        }
    }
    match RawFile::open(name, bytes) {
        Ok(file) => {
            file.damaged_pages().for_each(|damage| findings.add(damage));
            findings.record(file.check_coverage());
            let known = |column: u16| COLUMNS.iter().any(|spec| spec.number == column);
            let unknown = file.extents().unwrap_or_default().into_iter();
            // A version 1 file may have historical columns: the ends of edges and their indexes.
            let is_ours = file.version() == READ_VERSION;
            for extent in unknown.filter(|extent| is_ours && !known(extent.column)) {
                findings.note(format!("{name}: column {} is none that we know", extent.column));
            }
        }
        Err(OpenError::Damaged(damage)) => findings.add(damage),
        Err(_) => {} // the opening said so before
    }
}

/// Checks every rule about the rows.
pub(super) fn check(segment: &Segment, findings: &mut Findings) {
    let seqs = segment.header().first_seq <= segment.header().last_seq;
    if !seqs {
        let damage =
            CorruptionError::new("SEG-14", "it ends with an earlier commit than it begins with");
        findings.add(damage.in_file(segment.name()));
    }
    findings.record(check_offsets(segment));
    for column in [ITEM_SEQ, SOURCE_SEQ, EDGE_SEQ, TOMBSTONE_SEQ] {
        findings.record(check_commit_order(segment, column));
    }
    check_items(segment, findings);
    check_other_tables(segment, findings);
    findings.record(check_symbols(segment));
    indexes::check(segment, findings);
    vectors::check(segment, findings);
    check_words(segment, findings);
}

/// Checks the bounds of texts and lists (SEG-10). Stops at the first finding, as the same code writes all pairs.
fn check_offsets(segment: &Segment) -> Result<(), CorruptionError> {
    let texts = [
        (SYMBOL_OFFSETS, SYMBOL_BYTES),
        (TITLE_OFFSETS, TITLE_BYTES),
        (TEXT_OFFSETS, TEXT_BYTES),
        (ATTRIBUTE_OFFSETS, ATTRIBUTE_BYTES),
        (REF_OFFSETS, REF_BYTES),
        (SOURCE_URI_OFFSETS, SOURCE_URI_BYTES),
        (SOURCE_TITLE_OFFSETS, SOURCE_TITLE_BYTES),
        (EDGE_NOTE_OFFSETS, EDGE_NOTE_BYTES),
        (TOMBSTONE_REASON_OFFSETS, TOMBSTONE_REASON_BYTES),
    ];
    for (bounds, bytes) in texts {
        segment.var_len_column::<u64, u8>(bounds, bytes)?.checked_parts()?;
    }
    for (bounds, codes) in [(TAG_OFFSETS, TAG_CODES), (GATE_OFFSETS, GATE_CODES)] {
        segment.var_len_column::<u32, u32>(bounds, codes)?.checked_parts()?;
    }
    let of_erased = (TOMBSTONE_SUPERSEDES_OFFSETS, TOMBSTONE_SUPERSEDES_IDS);
    for (bounds, ids) in [(SUPERSEDES_OFFSETS, SUPERSEDES_IDS), of_erased] {
        segment.var_len_column::<u32, u128>(bounds, ids)?.checked_parts()?;
    }
    for (bounds, bytes) in [(OUT_OFFSETS, OUT_BYTES), (IN_OFFSETS, IN_BYTES)] {
        segment.var_len_column::<u32, u8>(bounds, bytes)?.checked_parts()?;
    }
    Ok(())
}

/// Checks that the commits of a table ascend, within those of the segment (SEG-14).
fn check_commit_order(segment: &Segment, column: Column) -> Result<(), CorruptionError> {
    let header = segment.header();
    let mut before = header.first_seq;
    for (row, &seq) in segment.column::<u64>(column)?.all()?.iter().enumerate() {
        if seq < before || seq > header.last_seq {
            let detail = format!("row {row}: commit {seq} after {before}");
            return Err(segment.damage("SEG-14", column, detail));
        }
        before = seq;
    }
    Ok(())
}

/// Checks a row against the rules that a writer enforces (SEG-25).
fn check_row(
    segment: &Segment,
    what: &str,
    row: Row,
    batch: &Batch,
) -> Result<(), CorruptionError> {
    let header = segment.header();
    let dimensions = (header.vectors > 0).then_some(header.dimensions);
    batch.recheck(dimensions).map_err(|damage| {
        let detail = format!("row {row} of the {what}: {}", damage.detail);
        CorruptionError::new("SEG-25", detail).in_file(segment.name())
    })
}

fn check_items(segment: &Segment, findings: &mut Findings) {
    for at in 0..segment.header().items {
        let Some(view) = findings.record(segment.item(at)) else { continue };
        findings.record(check_item(segment, at, &view));
    }
}

fn check_item(segment: &Segment, at: Row, view: &ItemView<'_>) -> Result<(), CorruptionError> {
    if Sha256::digest(view.text.as_bytes())[..] != view.content_sha256 {
        let detail = format!("row {at}: it is not that of the text");
        return Err(segment.damage("SEG-25", ITEM_SHA256, detail));
    }
    let batch = Batch { items: vec![view.to_draft()], ..Batch::default() };
    check_row(segment, "items", at, &batch)
}

/// Checks sources, edges and tombstones.
fn check_other_tables(segment: &Segment, findings: &mut Findings) {
    let header = segment.header();
    for at in 0..header.sources {
        let Some(view) = findings.record(segment.source(at)) else { continue };
        let batch = Batch { sources: vec![view.to_draft()], ..Batch::default() };
        findings.record(check_row(segment, "sources", at, &batch));
    }
    for at in 0..header.edges {
        let Some(view) = findings.record(segment.edge(at)) else { continue };
        let batch = Batch { edges: vec![view.to_draft()], ..Batch::default() };
        findings.record(check_row(segment, "edges", at, &batch));
    }
    for at in 0..header.tombstones {
        let Some(view) = findings.record(segment.tombstone(at)) else { continue };
        let batch = Batch { tombstones: vec![view.to_draft()], ..Batch::default() };
        findings.record(check_row(segment, "tombstones", at, &batch));
    }
}

/// Checks that symbols are sorted, unique and all used (SEG-20).
fn check_symbols(segment: &Segment) -> Result<(), CorruptionError> {
    let texts = segment.var_len_column::<u64, u8>(SYMBOL_OFFSETS, SYMBOL_BYTES)?;
    let count = segment.header().symbols as usize;
    let mut before: Option<&[u8]> = None;
    for code in 0..count {
        let name = texts.get(code)?;
        if before.is_some_and(|before| before >= name) {
            let detail = format!("symbol {code} is not above the one before");
            return Err(segment.damage("SEG-20", SYMBOL_BYTES, detail));
        }
        segment.symbol(u32::try_from(code).expect("the header counts them in 32 bits"))?;
        before = Some(name);
    }
    let mut is_used = vec![false; count];
    let columns = [
        ITEM_KIND,
        ITEM_MODALITY,
        ITEM_RECORDED_BY,
        ITEM_VIA,
        TAG_CODES,
        GATE_CODES,
        SOURCE_KIND,
        SOURCE_RECORDED_BY,
        SOURCE_VIA,
        EDGE_RELATION,
        EDGE_RECORDED_BY,
        TOMBSTONE_BY,
    ];
    for column in columns {
        for &code in segment.column::<u32>(column)?.all()? {
            let Some(used) = is_used.get_mut(code as usize) else {
                let detail = format!("symbol {code} of {count}");
                return Err(segment.damage("SEG-12", column, detail));
            };
            *used = true;
        }
    }
    match is_used.iter().position(|used| !used) {
        Some(code) => {
            let detail = format!("no row uses symbol {code}");
            Err(segment.damage("SEG-20", SYMBOL_BYTES, detail))
        }
        None => Ok(()),
    }
}

/// Checks the postings: first by their own rules, then byte by byte against postings rebuilt from the rows' texts
/// (WRD-50).
fn check_words(segment: &Segment, findings: &mut Findings) {
    let Some(view) = findings.record(segment.postings()) else { return };
    findings.record(view.verify().map_err(|damage| segment.words_damage(damage)));
    let rows = (0..segment.header().items).map(|row| {
        let item = segment.item(row)?;
        Ok(item.searchable.then_some((item.title, item.text)))
    });
    let rebuilt =
        fulltext::rebuild::<RebuildError>(rows).and_then(|wanted| Ok(view.compare(&wanted)?));
    let rebuilt = rebuilt.map_err(|error| match error {
        RebuildError::Damaged(damage) => segment.words_damage(damage),
        RebuildError::TooLarge => {
            CorruptionError::new("WRD-14", "its texts have more postings than a segment can")
                .in_file(segment.name())
        }
    });
    findings.record(rebuilt);
}

/// Error of a rebuild of the postings.
enum RebuildError {
    Damaged(CorruptionError),
    TooLarge,
}

impl From<CorruptionError> for RebuildError {
    fn from(damage: CorruptionError) -> Self {
        Self::Damaged(damage)
    }
}

impl From<fulltext::SegmentFullError> for RebuildError {
    fn from(_: fulltext::SegmentFullError) -> Self {
        Self::TooLarge
    }
}
