//! Reader of a segment: checked at opening up to its directory, then page by page on use, and never changed.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::header::{self, SegmentHeader};
use crate::byte_reader::ByteReader;
use crate::error::{CorruptionError, OpenError};
use crate::layout::*;
use crate::os::disk::FileStamp;
use crate::os::lazy_file::PageFetchError;
use crate::os::mmap::{AlignedBytes, FileBytes};
use crate::vector_index::IvfIndex;

/// Immutable segment, mapped from disk or on the heap.
#[derive(Debug)]
pub(crate) struct Segment {
    name: String,
    bytes: FileBytes,
    header: SegmentHeader,
    /// Columns of the file's version.
    catalog: &'static [ColumnSpec],
    /// Offset and length of each column, indexed by column number.
    column_ranges: Vec<(usize, usize)>,
    checks_at: usize,
    /// Bitmap of verified pages.
    checked: Vec<AtomicU64>,
    /// True if the operating system accepted the advice to cache the codes in huge pages.
    has_huge_codes: AtomicBool,
    /// True if a builder of this process made the words, which may then be a heap dictionary. Must be false for words
    /// from a file: a heap dictionary in a file is damage (WRD-01).
    pub(crate) has_heap_words: bool,
    /// IVF index over the embeddings, once available.
    index: OnceLock<IvfIndex>,
    /// Index file that was found to be damaged.
    rejected_index: Mutex<Option<FileStamp>>,
    /// Smallest and largest id, determined by the first lookup.
    pub(super) item_ids: OnceLock<(u128, u128)>,
    pub(super) source_ids: OnceLock<(u128, u128)>,
    pub(super) edge_ids: OnceLock<(u128, u128)>,
}

/// Bytes of a file, some of which may have to be fetched first.
pub(super) trait PagedBytes {
    fn length(&self) -> usize;
    /// Returns a byte range, which must be within the file.
    fn range(&self, bytes: Range<usize>) -> Result<&[u8], PageFetchError>;
}

impl PagedBytes for [u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn range(&self, bytes: Range<usize>) -> Result<&[u8], PageFetchError> {
        Ok(&self[bytes])
    }
}

impl PagedBytes for FileBytes {
    fn length(&self) -> usize {
        FileBytes::length(self)
    }

    fn range(&self, bytes: Range<usize>) -> Result<&[u8], PageFetchError> {
        self.ensure_present(bytes.clone())?;
        let absent = || PageFetchError::Unavailable("it ends before".to_owned());
        self.slice(bytes).ok_or_else(absent)
    }
}

/// Damage of a page that is wrong (SEG-06) or cannot be fetched (FAR-01).
impl From<PageFetchError> for CorruptionError {
    fn from(why: PageFetchError) -> Self {
        match why {
            PageFetchError::Unavailable(why) => Self::new(Self::UNAVAILABLE_RULE, why),
            wrong @ PageFetchError::ChecksumMismatch(_) => Self::new("SEG-06", wrong.to_string()),
        }
    }
}

/// Layout that all versions share: the trailer, and the version.
pub(super) struct SegmentLayout {
    pub(super) directory_at: usize,
    pub(super) entries: usize,
    pub(super) checks_at: usize,
    pub(super) checks: usize,
    pub(super) version: u16,
}

impl SegmentLayout {
    /// Checks magic numbers, trailer, header and directory, up to the version. A flipped bit in these is damage, not a
    /// newer version.
    pub(super) fn read(name: &str, file: &(impl PagedBytes + ?Sized)) -> Result<Self, OpenError> {
        let within = |damage: CorruptionError| damage.in_file(name);
        check_magics(file).map_err(within)?;
        let mut frame = read_trailer(file).map_err(within)?;
        for page in [0].into_iter().chain(frame.directory_at / PAGE_BYTES..frame.checks) {
            check_page(file, frame.checks_at, page).map_err(|why| within(why.into()))?;
        }
        frame.version = header::read_version(header_bytes(file).map_err(within)?);
        match frame.version {
            0 => Err(within(CorruptionError::new("SEG-02", "there is no version 0")).into()),
            1..=READ_VERSION => Ok(frame),
            version => Err(OpenError::TooNew { file: name.to_owned(), version }),
        }
    }
}

fn header_bytes(file: &(impl PagedBytes + ?Sized)) -> Result<&[u8; HEADER_BYTES], CorruptionError> {
    Ok(file.range(0..HEADER_BYTES)?.first_chunk().expect("it was asked for as long"))
}

impl Segment {
    /// Opens a file of version 2; [`super::open_any`] also opens version 1. Checks header, directory and trailer only;
    /// all other pages are verified on first use.
    pub(crate) fn open(name: &str, bytes: FileBytes) -> Result<Self, OpenError> {
        let frame = SegmentLayout::read(name, &bytes)?;
        if frame.version != READ_VERSION {
            let detail = format!("version {} where {READ_VERSION} is wanted", frame.version);
            return Err(CorruptionError::new("SEG-02", detail).in_file(name).into());
        }
        Self::open_as(name, bytes, &frame, COLUMNS).map_err(OpenError::from)
    }

    /// Opens a file whose layout was checked and whose columns are those of `catalog`.
    pub(super) fn open_as(
        name: &str,
        bytes: FileBytes,
        frame: &SegmentLayout,
        catalog: &'static [ColumnSpec],
    ) -> Result<Self, CorruptionError> {
        let within = |damage: CorruptionError| damage.in_file(name);
        let header = header_bytes(&bytes).and_then(SegmentHeader::decode).map_err(within)?;
        let places = read_directory(&bytes, frame, &header, catalog).map_err(within)?;
        Ok(Self::with_layout(name, bytes, frame, header, catalog, places))
    }

    /// Creates a segment from known column ranges.
    pub(super) fn with_layout(
        name: &str,
        bytes: FileBytes,
        frame: &SegmentLayout,
        header: SegmentHeader,
        catalog: &'static [ColumnSpec],
        places: Vec<(usize, usize)>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            header,
            catalog,
            column_ranges: places,
            checks_at: frame.checks_at,
            checked: (0..frame.checks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            has_huge_codes: AtomicBool::new(false),
            has_heap_words: false,
            index: OnceLock::new(),
            rejected_index: Mutex::default(),
            item_ids: OnceLock::new(),
            source_ids: OnceLock::new(),
            edge_ids: OnceLock::new(),
            bytes,
        }
    }

    /// IVF index over the embeddings, if available.
    pub(crate) fn index(&self) -> Option<&IvfIndex> {
        self.index.get()
    }

    /// Installs an index for later queries. If an index is already installed, it stays.
    pub(crate) fn install_index(&self, lists: IvfIndex) {
        let _there_already = self.index.set(lists);
    }

    /// Marks an index file as damaged, so that it is not read again.
    pub(crate) fn reject_index(&self, stamp: FileStamp) {
        *self.rejected_index.lock().unwrap_or_else(PoisonError::into_inner) = Some(stamp);
    }

    /// Returns true if this index file was marked as damaged.
    pub(crate) fn is_index_rejected(&self, stamp: FileStamp) -> bool {
        *self.rejected_index.lock().unwrap_or_else(PoisonError::into_inner) == Some(stamp)
    }

    /// Advises the operating system of the access pattern of queries: random lookups of rows, sequential reads of
    /// embeddings.
    pub(crate) fn advise_queries(&self) {
        self.bytes.advise_random();
        for column in [VECTOR_HALVES, VECTOR_CODES] {
            let (at, bytes) = self.column_range(column);
            self.bytes.advise_sequential(at..at + bytes);
        }
        let (at, bytes) = self.column_range(VECTOR_CODES);
        let is_taken = self.bytes.advise_huge_pages(at..at + bytes);
        self.has_huge_codes.store(is_taken, Ordering::Relaxed);
    }

    /// Returns true if all the pages belong to the codes of the embeddings, which every query reads completely.
    fn are_code_pages(&self, pages: &Range<usize>) -> bool {
        let (at, bytes) = self.column_range(VECTOR_CODES);
        at / PAGE_BYTES <= pages.start && pages.end <= (at + bytes).div_ceil(PAGE_BYTES)
    }

    /// Returns true if missing pages are to be prefetched in one piece before they are read. Prefetching uses small
    /// pages, so codes in huge pages are loaded by page faults instead.
    pub(super) fn should_prefetch(&self, pages: &Range<usize>) -> bool {
        !(self.has_huge_codes.load(Ordering::Relaxed) && self.are_code_pages(pages))
    }

    /// Advises the operating system of a sequential read of the whole file.
    pub(crate) fn advise_copy(&self) {
        self.bytes.advise_sequential(0..self.file_bytes());
    }

    /// Sets the range of a column in a damaged file.
    pub(super) fn set_column_range(&mut self, column: Column, place: (usize, usize)) {
        self.column_ranges[usize::from(column.0)] = place;
    }

    /// End of the bytes that page checksums cover.
    pub(super) fn checked_end(&self) -> usize {
        self.checks_at
    }

    /// Opens a segment that this process has just built for the tail, on the heap.
    pub(crate) fn from_heap(bytes: AlignedBytes) -> Self {
        Self { has_heap_words: true, ..Self::from_heap_named("the tail", bytes) }
    }

    /// Opens a segment that this process has just built from the file `name`, with words in file form.
    pub(crate) fn from_heap_named(name: &str, bytes: AlignedBytes) -> Self {
        let segment =
            Self::open(name, FileBytes::from_heap(bytes)).expect("the writer keeps to segment.md");
        segment.checked.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        segment
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Returns the whole file; missing pages are fetched first.
    pub(crate) fn ensure_complete(&self) -> Result<&[u8], CorruptionError> {
        self.bytes.ensure_complete().map_err(|why| CorruptionError::from(why).in_file(&self.name))
    }

    /// Returns true if all pages of the file are present.
    pub(crate) fn is_complete(&self) -> bool {
        self.bytes.bytes_if_complete().is_some()
    }

    /// Length of the file, in bytes.
    pub(crate) fn file_bytes(&self) -> usize {
        self.bytes.length()
    }

    /// Returns the whole file; `None` if pages are missing.
    pub(super) fn bytes_if_complete(&self) -> Option<&[u8]> {
        self.bytes.bytes_if_complete()
    }

    /// Returns verified bytes of the file; `None` if pages are missing.
    pub(super) fn slice(&self, bytes: Range<usize>) -> Option<&[u8]> {
        self.bytes.slice(bytes)
    }

    #[cfg(test)]
    pub(crate) fn raw(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Returns damage in a column of this file.
    pub(crate) fn damage(
        &self,
        rule: &'static str,
        column: Column,
        detail: impl Into<String>,
    ) -> CorruptionError {
        let spec = self.catalog.iter().find(|spec| spec.number == column.0);
        let column = spec.map_or(String::new(), |spec| spec.name.to_lowercase());
        CorruptionError::new(rule, format!("{}: {column}: {}", self.name, detail.into()))
    }

    /// Offset and length of a column.
    pub(super) fn column_range(&self, column: Column) -> (usize, usize) {
        self.column_ranges[usize::from(column.0)]
    }

    /// Returns true if the page's checksum has been verified.
    #[inline]
    pub(super) fn is_checked(&self, page: usize) -> bool {
        self.checked
            .get(page / 64)
            .is_some_and(|word| word.load(Ordering::Relaxed) >> (page % 64) & 1 == 1)
    }

    /// Verifies the checksums of pages `from..to`, each page once per opened segment (SEG-06). Missing pages are
    /// fetched first.
    pub(super) fn check_pages(&self, from: usize, to: usize) -> Result<(), PageFetchError> {
        let mut is_asked_for = false;
        let mut next = from;
        while let Some(page) = self.first_unchecked(next, to) {
            if !is_asked_for {
                let bytes = page * PAGE_BYTES..(to * PAGE_BYTES).min(self.file_bytes());
                self.bytes.ensure_present(bytes.clone())?;
                if self.should_prefetch(&(page..to)) {
                    self.bytes.advise_will_need(bytes);
                }
                is_asked_for = true;
            }
            check_page(&self.bytes, self.checks_at, page)?;
            self.checked[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
            next = page + 1;
        }
        Ok(())
    }

    /// Returns the first page of `from..to` that is not verified. Checks 64 pages at a time, because every query reads
    /// columns of thousands of pages.
    fn first_unchecked(&self, from: usize, to: usize) -> Option<usize> {
        let mut page = from;
        while page < to {
            let unchecked = !self.checked[page / 64].load(Ordering::Relaxed) >> (page % 64);
            if unchecked != 0 {
                page += unchecked.trailing_zeros() as usize;
                return (page < to).then_some(page);
            }
            page = (page / 64 + 1) * 64;
        }
        None
    }
}

/// Advises the operating system of random lookups, and prefetches the bytes that opening reads: the first page and the
/// end of the file. The end is the last page or two and four bytes per page.
pub(super) fn advise_lookup(bytes: &FileBytes) {
    bytes.advise_random();
    let length = bytes.length();
    let checks = length / PAGE_BYTES * 4;
    bytes.advise_will_need(0..length.min(PAGE_BYTES));
    bytes.advise_will_need(length.saturating_sub(checks + PAGE_BYTES)..length);
}

#[cold]
pub(super) fn check_page(
    file: &(impl PagedBytes + ?Sized),
    checks_at: usize,
    page: usize,
) -> Result<(), PageFetchError> {
    let start = page * PAGE_BYTES;
    let at = checks_at + page * 4;
    let expected = file.range(at..at + 4)?.try_into().expect("four bytes");
    let bytes = file.range(start..(start + PAGE_BYTES).min(checks_at))?;
    let is_right = crc32c::crc32c(bytes) == u32::from_le_bytes(expected);
    if is_right { Ok(()) } else { Err(PageFetchError::ChecksumMismatch(page)) }
}

fn check_magics(file: &(impl PagedBytes + ?Sized)) -> Result<(), CorruptionError> {
    let (length, least) = (file.length(), HEADER_BYTES + TRAILER_BYTES);
    if length < least {
        let detail = format!("{length} bytes long, at least {least} are wanted");
        return Err(CorruptionError::new("SEG-01", detail));
    }
    let start = file.range(0..SEGMENT_MAGIC.len())?;
    let end = file.range(length - SEGMENT_END_MAGIC.len()..length)?;
    if start != SEGMENT_MAGIC || end != SEGMENT_END_MAGIC {
        return Err(CorruptionError::new("SEG-01", "a magic is missing at the start or the end"));
    }
    Ok(())
}

/// Reads the trailer and checks the page checksums against it. The file must be long enough to have a trailer.
pub(super) fn read_trailer(
    file: &(impl PagedBytes + ?Sized),
) -> Result<SegmentLayout, CorruptionError> {
    let trailer_at = file.length() - TRAILER_BYTES;
    let trailer = Trailer::decode(file.range(trailer_at..file.length())?, file.length())?;
    let checks = file.range(trailer.layout.checks_at..trailer_at)?;
    trailer.check(checks)
}

/// Decoded trailer of a file.
pub(super) struct Trailer {
    pub(super) layout: SegmentLayout,
    /// Checksum of the page checksums.
    checks_crc: u32,
    reserved: [u8; TRAILER_RESERVED_BYTES],
}

impl Trailer {
    /// Decodes the last bytes of a file of this length.
    pub(super) fn decode(bytes: &[u8], length: usize) -> Result<Self, CorruptionError> {
        let trailer_at = length - TRAILER_BYTES;
        let mut fields = ByteReader::new(bytes, "SEG-04");
        let directory_at = fields.u64()?;
        let entries = fields.u32()? as usize;
        let page_bytes = fields.u32()? as usize;
        let checks_at = fields.u64()?;
        let checks = fields.u32()? as usize;
        let checks_crc = fields.u32()?;
        let file_bytes = fields.u64()?;
        let reserved = fields.array::<TRAILER_RESERVED_BYTES>()?;
        let crc = fields.u32()?;
        if crc != crc32c::crc32c(&bytes[..52]) {
            return Err(CorruptionError::new("SEG-04", "the trailer's checksum is wrong"));
        }
        if file_bytes != length as u64 || page_bytes != PAGE_BYTES {
            let detail = format!(
                "{length} bytes long in pages of {PAGE_BYTES}, {file_bytes} in pages of {page_bytes} were written"
            );
            return Err(CorruptionError::new("SEG-04", detail));
        }
        let inside = |at: u64| usize::try_from(at).ok().filter(|&at| at <= trailer_at);
        let (Some(directory_at), Some(checks_at)) = (inside(directory_at), inside(checks_at))
        else {
            return Err(CorruptionError::new(
                "SEG-05",
                "directory or page checks lie outside the file",
            ));
        };
        let shape = directory_at >= HEADER_BYTES
            && directory_at.checked_add(entries * ENTRY_BYTES) == Some(checks_at)
            && checks == checks_at.div_ceil(PAGE_BYTES)
            && checks_at + checks * 4 == trailer_at;
        if !shape {
            return Err(CorruptionError::new(
                "SEG-05",
                "directory, page checks and trailer do not meet",
            ));
        }
        let frame = SegmentLayout { directory_at, entries, checks_at, checks, version: 0 };
        Ok(Self { layout: frame, checks_crc, reserved })
    }

    /// Checks that `checks` are the page checksums of this trailer, and returns the layout.
    pub(super) fn check(self, checks: &[u8]) -> Result<SegmentLayout, CorruptionError> {
        if self.checks_crc != crc32c::crc32c(checks) {
            return Err(CorruptionError::new("SEG-04", "the checksum of the page checks is wrong"));
        }
        if self.reserved != [0; TRAILER_RESERVED_BYTES] {
            return Err(CorruptionError::new(
                "SEG-17",
                "reserved bytes of the trailer are not zero",
            ));
        }
        Ok(self.layout)
    }
}

/// Returns the range of each column of the catalog, indexed by column number (SEG-07, SEG-08, SEG-09, SEG-17).
pub(super) fn read_directory(
    file: &(impl PagedBytes + ?Sized),
    frame: &SegmentLayout,
    header: &SegmentHeader,
    catalog: &'static [ColumnSpec],
) -> Result<Vec<(usize, usize)>, CorruptionError> {
    let mut found = vec![None; catalog.len()];
    let directory = file.range(frame.directory_at..frame.checks_at)?;
    let mut fields = ByteReader::new(directory, "SEG-05");
    let mut last = 0;
    for _ in 0..frame.entries {
        let (number, cell_bytes) = (fields.u16()?, fields.u16()?);
        let first_reserved = fields.u32()?;
        let (offset, bytes) = (fields.u64()?, fields.u64()?);
        if (first_reserved, fields.u64()?) != (0, 0) {
            let detail = format!("reserved bytes of column {number}'s entry are not zero");
            return Err(CorruptionError::new("SEG-17", detail));
        }
        if number <= last {
            return Err(CorruptionError::new("SEG-07", format!("column {number} follows {last}")));
        }
        last = number;
        let place = column_range(number, offset, bytes, frame.directory_at)?;
        if let Ok(at) = catalog.binary_search_by_key(&number, |spec| spec.number) {
            found[at] = Some((cell_bytes, place));
        }
    }
    let mut places = vec![(0, 0); catalog.last().map_or(0, |spec| usize::from(spec.number) + 1)];
    let cell_bytes = catalog.iter().zip(&found).map(|(spec, found)| {
        let missing =
            || CorruptionError::new("SEG-09", format!("{} is missing", spec.name.to_lowercase()));
        let (cell_bytes, place) = found.ok_or_else(missing)?;
        places[usize::from(spec.number)] = place;
        Ok(cell_bytes)
    });
    let cell_bytes = cell_bytes.collect::<Result<Vec<_>, CorruptionError>>()?;
    let nodes = places.get(usize::from(NODE_ID.0)).map_or(0, |(_, bytes)| bytes / 16);
    if nodes > u32::MAX as usize || nodes > header.edges as usize * 2 {
        let detail = format!("node_id: {nodes} nodes for {} edges", header.edges);
        return Err(CorruptionError::new("SEG-18", detail));
    }
    for (spec, cell_bytes) in catalog.iter().zip(cell_bytes) {
        check_cells(spec, cell_bytes, places[usize::from(spec.number)].1, header, nodes)?;
    }
    Ok(places)
}

fn column_range(
    number: u16,
    offset: u64,
    bytes: u64,
    end_max: usize,
) -> Result<(usize, usize), CorruptionError> {
    let wrong =
        || CorruptionError::new("SEG-08", format!("column {number} at {offset}, {bytes} bytes"));
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
    header: &SegmentHeader,
    nodes: usize,
) -> Result<(), CorruptionError> {
    let rows = |table: Table| header.rows(table, nodes);
    let cells = bytes / usize::from(spec.cell_bytes);
    let vectors = rows(Table::Vectors);
    let wanted = match spec.cells {
        Cells::Any => cells,
        Cells::Of(table) => rows(table),
        Cells::OffsetsOf(table) => rows(table) + 1,
        Cells::OfOrNone(_) if cells == 0 => 0,
        Cells::OfOrNone(table) => rows(table),
        Cells::Unpadded => vectors * header.dimensions as usize,
        Cells::Halves => vectors * halves_per_row(header.dimensions),
        Cells::Codes => vectors * codes_per_row(header.dimensions),
    };
    let whole = bytes.is_multiple_of(usize::from(spec.cell_bytes));
    if cell_bytes != spec.cell_bytes || !whole || cells != wanted {
        let name = spec.name.to_lowercase();
        let detail = format!(
            "{name} has {bytes} bytes in cells of {cell_bytes}, {wanted} cells of {} are wanted",
            spec.cell_bytes
        );
        return Err(CorruptionError::new("SEG-09", detail));
    }
    Ok(())
}
