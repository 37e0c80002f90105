//! Salvage of a damaged segment, as far as its pages are intact.
//!
//! Header and directory are redundant, and trailer and page checksums follow from the length of the file, so one of
//! them may be lost. A column of unknown position has no cells, and reads of its rows report damage. No row is returned
//! wrong, because every used page is verified (SEG-06). The use of the rows is left to the caller.

use super::header::SegmentHeader;
use super::reader::{Segment, SegmentLayout, check_page, read_directory, read_trailer};
use super::v1::{COLUMNS_V1, EDGE_FROM, EDGE_TO};
use super::{EdgeView, ItemView, SourceView, TombstoneView};
use crate::byte_reader::ByteReader;
use crate::error::CorruptionError;
use crate::ids::{ItemId, Row, Seq};
use crate::layout::*;
use crate::os::mmap::FileBytes;

/// Segment of any version that may be damaged.
pub(crate) struct SalvagedSegment {
    pub(crate) segment: Segment,
    version: u16,
    /// Lost parts of the file's layout, as messages.
    pub(crate) damage: Vec<String>,
}

/// Opens a segment with as many columns as can be located.
pub(crate) fn open_damaged(
    name: &str,
    bytes: FileBytes,
) -> Result<SalvagedSegment, CorruptionError> {
    let file = bytes.as_slice();
    let within = |damage: CorruptionError| damage.in_file(name);
    if file.len() < HEADER_BYTES + TRAILER_BYTES {
        return Err(within(CorruptionError::new("SEG-01", format!("{} bytes long", file.len()))));
    }
    let mut lost = Vec::new();
    let frame = match read_trailer(file) {
        Ok(frame) => frame,
        Err(damage) => {
            lost.push(damage.to_string());
            infer_layout(file).ok_or_else(|| within(damage))?
        }
    };
    let check = |page| check_page(file, frame.checks_at, page);
    let first = check(0);
    let directory = (frame.directory_at / PAGE_BYTES..frame.checks).try_for_each(check);
    let entries = if directory.is_ok() { directory_entries(file, &frame) } else { Vec::new() };
    for wrong in [&first, &directory].into_iter().filter_map(|found| found.as_ref().err()) {
        lost.push(format!("SEG-06: {wrong}"));
    }
    let start = file.first_chunk::<HEADER_BYTES>().expect("its length was checked");
    let version = match first {
        Ok(()) => super::header::read_version(start),
        Err(_) if entries.iter().any(|entry| entry.0 == NODE_ID.0) => READ_VERSION,
        Err(_) => 1,
    };
    let catalog = match version {
        READ_VERSION => COLUMNS,
        1 => COLUMNS_V1,
        other => return Err(within(CorruptionError::new("SEG-02", format!("version {other}")))),
    };
    let header = match first {
        Ok(()) => SegmentHeader::decode(start).map_err(within)?,
        Err(_) => infer_header(&entries).ok_or_else(|| {
            within(CorruptionError::new("SEG-06", "neither header nor directory is whole"))
        })?,
    };
    let places = match directory {
        Ok(()) => Some(read_directory(file, &frame, &header, catalog).map_err(within)?),
        Err(_) => None,
    };
    let known = places.is_some();
    let places = places.unwrap_or_else(|| vec![(0, 0); COLUMNS_END]);
    let mut segment = Segment::with_layout(name, bytes, &frame, header, catalog, places);
    if !known {
        let cut = lay_out(&mut segment, catalog).err();
        let end = cut.map_or(String::new(), |damage| format!(" ({damage})"));
        lost.push(format!("columns behind those that the header tells of{end}"));
    }
    Ok(SalvagedSegment { segment, version, damage: lost })
}

/// Largest column number plus one.
const COLUMNS_END: usize = WORD_LENGTHS.0 as usize + 1;

/// Infers the positions of directory and page checksums from the length of the file: every version has a fixed number
/// of directory entries.
fn infer_layout(file: &[u8]) -> Option<SegmentLayout> {
    let body = file.len() - TRAILER_BYTES;
    let checks = body.div_ceil(PAGE_BYTES + 4);
    let checks_at = body.checked_sub(checks * 4)?;
    let right = checks_at >= HEADER_BYTES && checks_at.div_ceil(PAGE_BYTES) == checks;
    right.then_some(())?;
    [COLUMNS, COLUMNS_V1].into_iter().find_map(|catalog| {
        let directory_at = checks_at.checked_sub(catalog.len() * ENTRY_BYTES)?;
        let entries = catalog.len();
        let frame = SegmentLayout { directory_at, entries, checks_at, checks, version: 0 };
        let found = self::directory_entries(file, &frame);
        let is_it = found.iter().map(|entry| entry.0).eq(catalog.iter().map(|spec| spec.number));
        is_it.then_some(frame)
    })
}

/// Returns number and length of each column in the directory.
fn directory_entries(file: &[u8], frame: &SegmentLayout) -> Vec<(u16, u64)> {
    let directory = file.get(frame.directory_at..frame.checks_at).unwrap_or_default();
    let entry = |bytes: &[u8]| {
        let mut fields = ByteReader::new(bytes, "SEG-05");
        let column = fields.u16().ok()?;
        fields.read_slice(14).ok()?;
        Some((column, fields.u64().ok()?))
    };
    directory.chunks_exact(ENTRY_BYTES).filter_map(entry).collect()
}

/// Infers the header from the column lengths. The embeddings are only counted.
fn infer_header(entries: &[(u16, u64)]) -> Option<SegmentHeader> {
    let cells = |column: Column, bytes: u64| {
        let at = entries.iter().find(|entry| entry.0 == column.0)?;
        u32::try_from(at.1 / bytes).ok()
    };
    let vectors = cells(VECTOR_NORM, 4)?;
    let halves = cells(VECTOR_HALVES, 2)?;
    Some(SegmentHeader {
        // In version 2, this padded width may exceed the true dimensions; the columns have the same length either way.
        dimensions: halves.checked_div(vectors).unwrap_or(0),
        items: cells(ITEM_SEQ, 8)?,
        sources: cells(SOURCE_SEQ, 8)?,
        edges: cells(EDGE_SEQ, 8)?,
        tombstones: cells(TOMBSTONE_SEQ, 8)?,
        vectors,
        symbols: cells(SYMBOL_OFFSETS, 8)?.checked_sub(1)?,
        first_seq: 0,
        last_seq: Seq::MAX,
    })
}

/// Infers column positions from the header and from preceding columns, up to the first column of unknown length. Each
/// column starts at the next multiple of 64 after its predecessor (SEG-24).
fn lay_out(segment: &mut Segment, catalog: &[ColumnSpec]) -> Result<(), CorruptionError> {
    let header = *segment.header();
    let mut end = HEADER_BYTES;
    let mut before = Column(0);
    for spec in catalog {
        let column = Column(spec.number);
        let Some(cells) = infer_cell_count(segment, &header, spec, before)? else { return Ok(()) };
        let start = end.next_multiple_of(COLUMN_ALIGN);
        let bytes = cells.checked_mul(usize::from(spec.cell_bytes));
        let fits = bytes.and_then(|bytes| start.checked_add(bytes));
        let Some(next) = fits.filter(|&next| next <= segment.checked_end()) else {
            return Err(segment.damage("SEG-08", column, "it would lie outside of the file"));
        };
        segment.set_column_range(column, (start, next - start));
        (end, before) = (next, column);
    }
    Ok(())
}

/// Returns the number of cells of a column, from the header and the preceding columns; `None` if they do not determine
/// the number.
fn infer_cell_count(
    segment: &Segment,
    header: &SegmentHeader,
    spec: &ColumnSpec,
    before: Column,
) -> Result<Option<usize>, CorruptionError> {
    let last = |cell: Option<usize>| cell.unwrap_or(usize::MAX);
    Ok(Some(match spec.cells {
        Cells::Of(Table::Nodes) | Cells::OffsetsOf(Table::Nodes) => return Ok(None),
        Cells::Of(table) => header.rows(table, 0),
        Cells::OffsetsOf(table) => header.rows(table, 0) + 1,
        Cells::OfOrNone(table) => {
            let ids = segment.column::<u128>(before)?.all()?;
            if ids.is_sorted() { 0 } else { header.rows(table, 0) }
        }
        Cells::Any => match Column(spec.number) {
            ITEM_BY_REF => {
                let bounds = segment.column::<u64>(REF_OFFSETS)?.all()?;
                bounds.windows(2).filter(|pair| pair[0] < pair[1]).count()
            }
            SUCCESSOR_TARGET | SUCCESSOR_ROW => segment.column::<u128>(SUPERSEDES_IDS)?.len(),
            ITEM_BY_SOURCE => {
                segment.column::<u128>(ITEM_SOURCE)?.all()?.iter().filter(|&&id| id != 0).count()
            }
            NODE_ID | WORD_DICTIONARY => return Ok(None),
            TAG_CODES | GATE_CODES | SUPERSEDES_IDS | TOMBSTONE_SUPERSEDES_IDS => {
                last(segment.column::<u32>(before)?.all()?.last().map(|&end| end as usize))
            }
            // Column of text bytes: the last offset is the number of bytes.
            _ => {
                let end = segment.column::<u64>(before)?.all()?.last().copied();
                last(end.and_then(|end| usize::try_from(end).ok()))
            }
        },
        Cells::Unpadded | Cells::Halves | Cells::Codes => return Ok(None),
    }))
}

/// Row access for either version.
impl SalvagedSegment {
    pub(crate) fn item(&self, row: Row) -> Result<ItemView<'_>, CorruptionError> {
        self.segment.item(row)
    }

    pub(crate) fn source(&self, row: Row) -> Result<SourceView<'_>, CorruptionError> {
        self.segment.source(row)
    }

    pub(crate) fn edge(&self, row: Row) -> Result<EdgeView<'_>, CorruptionError> {
        if self.version > 1 {
            return self.segment.edge(row);
        }
        let end = |column| self.segment.column::<u128>(column)?.get(row as usize).map(ItemId);
        self.segment.edge_between(row, end(EDGE_FROM)?, end(EDGE_TO)?)
    }

    /// Returns the id of a source row, even if the rest of the row is lost.
    pub(crate) fn source_id(&self, row: Row) -> Option<u128> {
        self.segment.column::<u128>(SOURCE_ID).ok()?.get(row as usize).ok()
    }

    /// Returns the id of an edge row, even if the rest of the row is lost.
    pub(crate) fn edge_id(&self, row: Row) -> Option<u128> {
        self.segment.column::<u128>(EDGE_ID).ok()?.get(row as usize).ok()
    }

    pub(crate) fn tombstone(&self, row: Row) -> Result<TombstoneView<'_>, CorruptionError> {
        if self.version > 1 {
            return self.segment.tombstone(row);
        }
        self.segment.tombstone_v1(row)
    }

    /// Returns the target of a tombstone, and true if the tombstone erases, even if the rest of its row is lost.
    pub(crate) fn tombstone_effect(&self, row: Row) -> Result<(u128, bool), CorruptionError> {
        let target = self.segment.column::<u128>(TOMBSTONE_TARGET)?.get(row as usize)?;
        let flags = match self.version {
            1 => Ok(0),
            // If the flag is lost, the tombstone counts as erasing: nothing that might be erased may be restored.
            _ => self.segment.column::<u8>(TOMBSTONE_FLAGS)?.get(row as usize),
        };
        Ok((target, flags.ok().is_none_or(|flags| flags & FLAG_ERASE != 0)))
    }

    /// Wraps a segment that was built in this process.
    pub(crate) fn from_heap(segment: Segment) -> Self {
        Self { segment, version: READ_VERSION, damage: Vec::new() }
    }
}
