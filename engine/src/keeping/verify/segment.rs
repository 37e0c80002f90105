//! Checks of one segment on its own: its file byte by byte, its rows one by one.
//!
//! Modules of their own check indexes and embeddings; [`super::across`] checks references to other segments.

use sha2::{Digest, Sha256};

use super::findings::Findings;
use super::gathered::Listed;
use super::{indexes, vectors};
use crate::error::{Damage, OpenError};
use crate::ids::Row;
use crate::item::Batch;
use crate::layout::*;
use crate::segment::{ItemView, RawFile, Segment};
use crate::words;

/// Bytes per hash update.
const PIECE_BYTES: usize = 1 << 20;

/// Checks the file: its hash, every page, and every byte between columns.
pub(super) fn check_file(listed: &Listed, findings: &mut Findings) {
    let (name, bytes) = (&listed.name, listed.file.as_slice());
    if let Some(entry) = &listed.entry {
        let mut hash = Sha256::new();
        bytes.chunks(PIECE_BYTES).for_each(|piece| hash.update(piece));
        if hash.finalize()[..] != entry.sha256 {
            let damage = Damage::new("MAN-03", "its SHA-256 is not the manifest's");
            findings.add(damage.within(name));
        }
    }
    match RawFile::open(name, bytes) {
        Ok(file) => {
            file.wrong_pages().for_each(|damage| findings.add(damage));
            findings.keep(file.check_coverage());
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
        let damage = Damage::new("SEG-14", "it ends with an earlier commit than it begins with");
        findings.add(damage.within(segment.name()));
    }
    findings.keep(offsets(segment));
    for column in [ITEM_SEQ, SOURCE_SEQ, EDGE_SEQ, TOMBSTONE_SEQ] {
        findings.keep(commits(segment, column));
    }
    items(segment, findings);
    others(segment, findings);
    findings.keep(symbols(segment));
    indexes::check(segment, findings);
    vectors::check(segment, findings);
    check_words(segment, findings);
}

/// Checks the bounds of texts and lists (SEG-10). Stops at the first finding, as the same code writes all pairs.
fn offsets(segment: &Segment) -> Result<(), Damage> {
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
        segment.pieces::<u64, u8>(bounds, bytes)?.whole()?;
    }
    for (bounds, codes) in [(TAG_OFFSETS, TAG_CODES), (GATE_OFFSETS, GATE_CODES)] {
        segment.pieces::<u32, u32>(bounds, codes)?.whole()?;
    }
    let of_erased = (TOMBSTONE_SUPERSEDES_OFFSETS, TOMBSTONE_SUPERSEDES_IDS);
    for (bounds, ids) in [(SUPERSEDES_OFFSETS, SUPERSEDES_IDS), of_erased] {
        segment.pieces::<u32, u128>(bounds, ids)?.whole()?;
    }
    for (bounds, bytes) in [(OUT_OFFSETS, OUT_BYTES), (IN_OFFSETS, IN_BYTES)] {
        segment.pieces::<u32, u8>(bounds, bytes)?.whole()?;
    }
    Ok(())
}

/// Checks that the commits of a table ascend, within those of the segment (SEG-14).
fn commits(segment: &Segment, column: Column) -> Result<(), Damage> {
    let header = segment.header();
    let mut before = header.first_seq;
    for (row, &seq) in segment.view::<u64>(column)?.all()?.iter().enumerate() {
        if seq < before || seq > header.last_seq {
            let detail = format!("row {row}: commit {seq} after {before}");
            return Err(segment.wrong("SEG-14", column, detail));
        }
        before = seq;
    }
    Ok(())
}

/// Checks a row against the rules that a writer enforces (SEG-25).
fn row(segment: &Segment, what: &str, row: Row, batch: &Batch) -> Result<(), Damage> {
    let header = segment.header();
    let dimensions = (header.vectors > 0).then_some(header.dimensions);
    batch.recheck(dimensions).map_err(|damage| {
        let detail = format!("row {row} of the {what}: {}", damage.detail);
        Damage::new("SEG-25", detail).within(segment.name())
    })
}

fn items(segment: &Segment, findings: &mut Findings) {
    for at in 0..segment.header().items {
        let Some(view) = findings.keep(segment.item(at)) else { continue };
        findings.keep(item(segment, at, &view));
    }
}

fn item(segment: &Segment, at: Row, view: &ItemView<'_>) -> Result<(), Damage> {
    if Sha256::digest(view.text.as_bytes())[..] != view.content_sha256 {
        let detail = format!("row {at}: it is not that of the text");
        return Err(segment.wrong("SEG-25", ITEM_SHA256, detail));
    }
    let batch = Batch { items: vec![view.to_draft()], ..Batch::default() };
    row(segment, "items", at, &batch)
}

/// Checks sources, edges and tombstones.
fn others(segment: &Segment, findings: &mut Findings) {
    let header = segment.header();
    for at in 0..header.sources {
        let Some(view) = findings.keep(segment.source(at)) else { continue };
        let batch = Batch { sources: vec![view.to_draft()], ..Batch::default() };
        findings.keep(row(segment, "sources", at, &batch));
    }
    for at in 0..header.edges {
        let Some(view) = findings.keep(segment.edge(at)) else { continue };
        let batch = Batch { edges: vec![view.to_draft()], ..Batch::default() };
        findings.keep(row(segment, "edges", at, &batch));
    }
    for at in 0..header.tombstones {
        let Some(view) = findings.keep(segment.tombstone(at)) else { continue };
        let batch = Batch { tombstones: vec![view.to_draft()], ..Batch::default() };
        findings.keep(row(segment, "tombstones", at, &batch));
    }
}

/// Checks that symbols are sorted, unique and all used (SEG-20).
fn symbols(segment: &Segment) -> Result<(), Damage> {
    let texts = segment.pieces::<u64, u8>(SYMBOL_OFFSETS, SYMBOL_BYTES)?;
    let count = segment.header().symbols as usize;
    let mut before: Option<&[u8]> = None;
    for code in 0..count {
        let name = texts.get(code)?;
        if before.is_some_and(|before| before >= name) {
            let detail = format!("symbol {code} is not above the one before");
            return Err(segment.wrong("SEG-20", SYMBOL_BYTES, detail));
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
        for &code in segment.view::<u32>(column)?.all()? {
            let Some(used) = is_used.get_mut(code as usize) else {
                let detail = format!("symbol {code} of {count}");
                return Err(segment.wrong("SEG-12", column, detail));
            };
            *used = true;
        }
    }
    match is_used.iter().position(|used| !used) {
        Some(code) => {
            let detail = format!("no row uses symbol {code}");
            Err(segment.wrong("SEG-20", SYMBOL_BYTES, detail))
        }
        None => Ok(()),
    }
}

/// Checks the postings: first by their own rules, then byte by byte against postings rebuilt from the rows' texts
/// (WRD-50).
fn check_words(segment: &Segment, findings: &mut Findings) {
    let Some(view) = findings.keep(segment.words()) else { return };
    findings.keep(view.verify().map_err(|damage| segment.words_damage(damage)));
    let rows = (0..segment.header().items).map(|row| {
        let item = segment.item(row)?;
        Ok(item.searchable.then_some((item.title, item.text)))
    });
    let rebuilt = words::rebuild::<Rebuild>(rows).and_then(|wanted| Ok(view.compare(&wanted)?));
    let rebuilt = rebuilt.map_err(|error| match error {
        Rebuild::Damaged(damage) => segment.words_damage(damage),
        Rebuild::Full => Damage::new("WRD-14", "its texts have more postings than a segment can")
            .within(segment.name()),
    });
    findings.keep(rebuilt);
}

/// Error of a rebuild of the postings.
enum Rebuild {
    Damaged(Damage),
    Full,
}

impl From<Damage> for Rebuild {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<words::Full> for Rebuild {
    fn from(_: words::Full) -> Self {
        Self::Full
    }
}
