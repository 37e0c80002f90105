//! A sealed segment: opened, checked from the outside in, never changed.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::column::View;
use crate::cursor::Cursor;
use crate::error::{Damage, OpenError};
use crate::ids::Seq;
use crate::layout::*;
use crate::os::mmap::{AlignedBytes, FileBytes};

/// The numbers of a segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) dimensions: u32,
    pub(crate) items: u32,
    pub(crate) sources: u32,
    pub(crate) edges: u32,
    pub(crate) tombstones: u32,
    pub(crate) vectors: u32,
    pub(crate) symbols: u32,
    pub(crate) first_seq: Seq,
    pub(crate) last_seq: Seq,
}

/// A sealed segment, mapped from disk or held on the heap.
#[derive(Debug)]
pub(crate) struct Segment {
    name: String,
    bytes: FileBytes,
    header: Header,
    /// Where each column of [`COLUMNS`] lies: offset and length.
    places: Vec<(usize, usize)>,
    checks_at: usize,
    /// One bit for each page whose checksum was found right.
    checked: Vec<AtomicU64>,
    /// Codes by name, made when a filter first asks.
    pub(super) symbol_codes: OnceLock<HashMap<String, u32>>,
}

struct Trailer {
    directory_at: usize,
    entries: usize,
    checks_at: usize,
    checks: usize,
}

impl Segment {
    /// Opens a file's bytes. Looks at header, directory and trailer only; the rest is checked
    /// page by page when it is used.
    pub(crate) fn open(name: &str, bytes: FileBytes) -> Result<Self, OpenError> {
        let file = bytes.as_slice();
        let within = |damage: Damage| damage.within(name);
        check_magics(file).map_err(within)?;
        let version = u16::from_le_bytes([file[8], file[9]]);
        if version > READ_VERSION {
            return Err(OpenError::TooNew { file: name.to_owned(), version });
        }
        let trailer = read_trailer(file).map_err(within)?;
        let header = read_header(file).map_err(within)?;
        let places = read_directory(file, &trailer, &header).map_err(within)?;
        let (checks_at, pages) = (trailer.checks_at, trailer.checks);
        let checked = (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let segment = Self {
            name: name.to_owned(),
            bytes,
            header,
            places,
            checks_at,
            checked,
            symbol_codes: OnceLock::new(),
        };
        segment.check_pages(0, 1)?;
        segment.check_pages(trailer.directory_at / PAGE_BYTES, pages)?;
        Ok(segment)
    }

    /// A segment that was built in this process a moment ago and lies on the heap.
    pub(crate) fn held(bytes: AlignedBytes) -> Self {
        let segment =
            Self::open("the tail", FileBytes::held(bytes)).expect("the writer keeps to segment.md");
        segment.checked.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        segment
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The whole file.
    pub(crate) fn raw(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// A column, typed.
    pub(crate) fn view<T: bytemuck::AnyBitPattern>(
        &self,
        column: Column,
    ) -> Result<View<'_, T>, Damage> {
        View::of(self, column)
    }

    pub(super) fn place(&self, column: Column) -> Result<(usize, usize), Damage> {
        let at = COLUMNS.binary_search_by_key(&column.0, |spec| spec.number);
        Ok(self.places[at.expect("columns are made from the table")])
    }

    /// Checks pages `from..to` against their checksums, each once in the segment's life (SEG-06).
    pub(super) fn check_pages(&self, from: usize, to: usize) -> Result<(), Damage> {
        for page in from..to {
            let (word, bit) = (&self.checked[page / 64], 1 << (page % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                self.check_page(page)?;
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    #[cold]
    fn check_page(&self, page: usize) -> Result<(), Damage> {
        let file = self.raw();
        let start = page * PAGE_BYTES;
        let bytes = &file[start..(start + PAGE_BYTES).min(self.checks_at)];
        let at = self.checks_at + page * 4;
        let expected = u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
        if crc32c::crc32c(bytes) == expected {
            return Ok(());
        }
        let detail = format!("the checksum of page {page} (byte {start}) is wrong");
        Err(Damage::new("SEG-06", detail).within(&self.name))
    }
}

fn check_magics(file: &[u8]) -> Result<(), Damage> {
    let least = HEADER_BYTES + TRAILER_BYTES;
    if file.len() < least {
        let detail = format!("{} bytes long, at least {least} are wanted", file.len());
        return Err(Damage::new("SEG-01", detail));
    }
    if !file.starts_with(SEGMENT_MAGIC) || !file.ends_with(SEGMENT_END_MAGIC) {
        return Err(Damage::new("SEG-01", "a magic is missing at the start or the end"));
    }
    Ok(())
}

fn read_trailer(file: &[u8]) -> Result<Trailer, Damage> {
    let trailer_at = file.len() - TRAILER_BYTES;
    let bytes = &file[trailer_at..];
    let mut fields = Cursor::new(bytes, "SEG-04");
    let directory_at = fields.u64()?;
    let entries = fields.u32()? as usize;
    let page_bytes = fields.u32()? as usize;
    let checks_at = fields.u64()?;
    let checks = fields.u32()? as usize;
    let checks_crc = fields.u32()?;
    let file_bytes = fields.u64()?;
    fields.take(12)?;
    let crc = fields.u32()?;
    if crc != crc32c::crc32c(&bytes[..52]) {
        return Err(Damage::new("SEG-04", "the trailer's checksum is wrong"));
    }
    if file_bytes != file.len() as u64 || page_bytes != PAGE_BYTES {
        let detail = format!("{} bytes long, {file_bytes} were written", file.len());
        return Err(Damage::new("SEG-04", detail));
    }
    let inside = |at: u64| usize::try_from(at).ok().filter(|&at| at <= trailer_at);
    let (Some(directory_at), Some(checks_at)) = (inside(directory_at), inside(checks_at)) else {
        return Err(Damage::new("SEG-05", "directory or page checks lie outside the file"));
    };
    let shape = directory_at >= HEADER_BYTES
        && directory_at.checked_add(entries * ENTRY_BYTES) == Some(checks_at)
        && checks == checks_at.div_ceil(PAGE_BYTES)
        && checks_at + checks * 4 == trailer_at;
    if !shape {
        return Err(Damage::new("SEG-05", "directory, page checks and trailer do not meet"));
    }
    if checks_crc != crc32c::crc32c(&file[checks_at..trailer_at]) {
        return Err(Damage::new("SEG-04", "the checksum of the page checks is wrong"));
    }
    Ok(Trailer { directory_at, entries, checks_at, checks })
}

fn read_header(file: &[u8]) -> Result<Header, Damage> {
    let mut fields = Cursor::new(&file[..HEADER_BYTES], "SEG-01");
    fields.take(12)?;
    Ok(Header {
        dimensions: fields.u32()?,
        items: fields.u32()?,
        sources: fields.u32()?,
        edges: fields.u32()?,
        tombstones: fields.u32()?,
        vectors: fields.u32()?,
        symbols: fields.u32()?,
        first_seq: fields.u64()?,
        last_seq: fields.u64()?,
    })
}

/// Where each known column lies (SEG-07, SEG-08, SEG-09).
fn read_directory(
    file: &[u8],
    trailer: &Trailer,
    header: &Header,
) -> Result<Vec<(usize, usize)>, Damage> {
    let mut places = vec![None; COLUMNS.len()];
    let mut fields = Cursor::new(&file[trailer.directory_at..trailer.checks_at], "SEG-05");
    let mut last = 0;
    for _ in 0..trailer.entries {
        let (number, cell_bytes) = (fields.u16()?, fields.u16()?);
        fields.take(4)?;
        let (offset, bytes) = (fields.u64()?, fields.u64()?);
        fields.take(8)?;
        if number <= last {
            return Err(Damage::new("SEG-07", format!("column {number} follows {last}")));
        }
        last = number;
        let place = column_place(number, offset, bytes, trailer.directory_at)?;
        let Ok(at) = COLUMNS.binary_search_by_key(&number, |spec| spec.number) else { continue };
        check_cells(&COLUMNS[at], cell_bytes, place.1, header)?;
        places[at] = Some(place);
    }
    let missing = |at: usize| Damage::new("SEG-09", format!("{} is missing", COLUMNS[at].name));
    places.into_iter().enumerate().map(|(at, place)| place.ok_or_else(|| missing(at))).collect()
}

fn column_place(
    number: u16,
    offset: u64,
    bytes: u64,
    end_max: usize,
) -> Result<(usize, usize), Damage> {
    let wrong = || Damage::new("SEG-08", format!("column {number} at {offset}, {bytes} bytes"));
    let at = usize::try_from(offset).map_err(|_| wrong())?;
    let length = usize::try_from(bytes).map_err(|_| wrong())?;
    let end = at.checked_add(length).ok_or_else(wrong)?;
    if at < HEADER_BYTES || !at.is_multiple_of(COLUMN_ALIGN) || end > end_max {
        return Err(wrong());
    }
    Ok((at, length))
}

fn check_cells(
    spec: &ColumnSpec,
    cell_bytes: u16,
    bytes: usize,
    header: &Header,
) -> Result<(), Damage> {
    let rows = |table: Table| match table {
        Table::Symbols => header.symbols as usize,
        Table::Items => header.items as usize,
        Table::Sources => header.sources as usize,
        Table::Edges => header.edges as usize,
        Table::Tombstones => header.tombstones as usize,
        Table::Vectors => header.vectors as usize,
    };
    let cells = bytes / usize::from(spec.cell_bytes);
    let wanted = match spec.cells {
        Cells::Any => cells,
        Cells::Of(table) => rows(table),
        Cells::OffsetsOf(table) => rows(table) + 1,
        Cells::Halves => rows(Table::Vectors) * header.dimensions as usize,
    };
    let whole = bytes.is_multiple_of(usize::from(spec.cell_bytes));
    if cell_bytes != spec.cell_bytes || !whole || cells != wanted {
        let detail =
            format!("{} has {bytes} bytes, {wanted} cells of {}", spec.name, spec.cell_bytes);
        return Err(Damage::new("SEG-09", detail));
    }
    Ok(())
}
