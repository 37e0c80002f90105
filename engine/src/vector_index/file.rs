//! The index file (`format-spec/index.md`): written whole, checked whole, then mapped.

use std::io::ErrorKind;
use std::ops::Range;

use kernels::LOOKUP_ROWS;

use super::binary_quantization::{BinaryCodes, block_count};
use super::layout::{self as header, HEADER_BYTES, HEADER_CRC};
use super::margins::ProbeMargins;
use crate::byte_reader::ByteWriter;
use crate::error::{CorruptionError, DiskError, OpenError};
use crate::layout::{
    self, COLUMN_ALIGN, FileKind, INDEX_MAGIC, PAGE_BYTES, READ_VERSION, WRITE_VERSION,
};
use crate::limits::{INDEX_LISTS_MAX, INDEX_LISTS_PER_ROOT};
use crate::manifest::SegmentEntry;
use crate::os::disk::{Disk, DiskRead, FileBytes};

const HASH_BYTES: usize = 32;
/// Reserved byte ranges of the header.
const RESERVED: [Range<usize>; 2] = [
    header::SKETCH_MARGIN + 4..header::SEGMENT_SHA256,
    header::SEGMENT_SHA256 + HASH_BYTES..HEADER_CRC,
];
const CRC_BYTES: usize = 4;

/// Identifies the segment of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexKey {
    /// Number of the segment, which is also the index's number.
    pub(crate) number: u64,
    /// Components per embedding.
    pub(crate) dimensions: u32,
    /// Embeddings in the segment.
    pub(crate) rows: u32,
    /// SHA-256 of the segment file.
    pub(crate) segment_sha256: [u8; HASH_BYTES],
}

impl IndexKey {
    /// The key of the index over a segment that a manifest lists.
    pub(crate) fn from_entry(entry: &SegmentEntry) -> Self {
        Self {
            number: entry.number,
            dimensions: entry.dimensions,
            rows: entry.vectors,
            segment_sha256: entry.sha256,
        }
    }

    pub(crate) fn file_name(&self) -> String {
        layout::file_name(FileKind::Index, self.number)
    }
}

/// Arrays and margins of an index to be encoded.
pub(super) struct IndexContent<'a> {
    pub(super) codes: &'a [i8],
    /// Value of a code step, per centroid.
    pub(super) scales: &'a [f32],
    /// Start and end of each list in `rows`.
    pub(super) offsets: &'a [u32],
    /// Row numbers, list after list, ascending within a list.
    pub(super) rows: &'a [u32],
    pub(super) binary_codes: BinaryCodes<'a>,
    pub(super) margins: ProbeMargins,
}

/// Byte ranges of the arrays in the file.
#[derive(Debug, Clone)]
struct ArrayLayout {
    row_codes: usize,
    codes: Range<usize>,
    scales: Range<usize>,
    offsets: Range<usize>,
    rows: Range<usize>,
    bits: Range<usize>,
    sketch_scales: Range<usize>,
    /// The page checksums; they cover all bytes before this range.
    checks: Range<usize>,
}

impl ArrayLayout {
    /// Returns `None` if the file would exceed the address space.
    fn new(dimensions: u32, rows: u32, lists: u32) -> Option<Self> {
        let (rows, lists) = (rows as usize, lists as usize);
        let row_codes = layout::codes_per_row(dimensions);
        let after = |before: &Range<usize>, cells: usize, cell: usize| {
            let start = before.end.checked_next_multiple_of(COLUMN_ALIGN)?;
            Some(start..start.checked_add(cells.checked_mul(cell)?)?)
        };
        let codes = after(&(0..HEADER_BYTES), lists, row_codes)?;
        let scales = after(&codes, lists, size_of::<f32>())?;
        let offsets = after(&scales, lists.checked_add(1)?, size_of::<u32>())?;
        let row_cells = after(&offsets, rows, size_of::<u32>())?;
        let block_bytes = row_codes / 8 * LOOKUP_ROWS;
        let bits = after(&row_cells, block_count(rows), block_bytes)?;
        let sketch_scales = after(&bits, rows, size_of::<f32>())?;
        let end = sketch_scales.end.checked_next_multiple_of(COLUMN_ALIGN)?;
        let checks = after(&(0..end), end.div_ceil(PAGE_BYTES), CRC_BYTES)?;
        checks.end.checked_add(CRC_BYTES)?;
        let rows = row_cells;
        Some(Self { row_codes, codes, scales, offsets, rows, bits, sketch_scales, checks })
    }

    fn file_bytes(&self) -> usize {
        self.checks.end + CRC_BYTES
    }

    /// Padding between the arrays.
    fn gaps(&self) -> [Range<usize>; 6] {
        [
            self.codes.end..self.scales.start,
            self.scales.end..self.offsets.start,
            self.offsets.end..self.rows.start,
            self.rows.end..self.bits.start,
            self.bits.end..self.sketch_scales.start,
            self.sketch_scales.end..self.checks.start,
        ]
    }
}

/// Number of lists for a segment of `rows` embeddings.
pub(super) fn list_count(rows: usize) -> usize {
    (INDEX_LISTS_PER_ROOT * rows.isqrt()).clamp(1, INDEX_LISTS_MAX as usize).min(rows.max(1))
}

/// Bytes of a new index file over this segment; `None` if the file would exceed the address space.
pub(crate) fn file_bytes(of: &IndexKey) -> Option<u64> {
    let lists = u32::try_from(list_count(of.rows as usize)).ok()?;
    ArrayLayout::new(of.dimensions, of.rows, lists).map(|places| places.file_bytes() as u64)
}

/// Checks that encoded bytes are a valid index of this segment, before they are written.
pub(super) fn check(bytes: &[u8], of: &IndexKey) -> Result<(), CorruptionError> {
    let Some(head) = bytes.first_chunk() else {
        return Err(CorruptionError::new("IDX-02", "it has no header"));
    };
    read_version(head)?;
    let header = decode_header(head, of)?;
    let places = layout_of(of, header.lists)?;
    let bytes = FileBytes::copy_from(bytes);
    IvfIndex { bytes, layout: places, margins: header.margins, rows: of.rows }.check(of)
}

/// Encodes an index file.
pub(super) fn encode(of: &IndexKey, content: &IndexContent<'_>) -> Vec<u8> {
    let IndexContent { codes, scales, offsets, rows, binary_codes: sketches, margins: measured } =
        *content;
    let lists = u32::try_from(scales.len()).expect("INDEX_LISTS_MAX bounds them");
    let places = ArrayLayout::new(of.dimensions, of.rows, lists).expect("its arrays are in memory");
    let mut file = Vec::with_capacity(places.file_bytes());
    file.put(&encode_header(of, lists, measured));
    let arrays: [(&Range<usize>, &[u8]); 6] = [
        (&places.codes, bytemuck::cast_slice(codes)),
        (&places.scales, bytemuck::cast_slice(scales)),
        (&places.offsets, bytemuck::cast_slice(offsets)),
        (&places.rows, bytemuck::cast_slice(rows)),
        (&places.bits, sketches.bits),
        (&places.sketch_scales, bytemuck::cast_slice(sketches.scales)),
    ];
    for (place, array) in arrays {
        file.resize(place.start, 0);
        file.put(array);
        assert_eq!(file.len(), place.end, "arrays are as long as the header's numbers make them");
    }
    file.resize(places.checks.start, 0);
    let mut checks = Vec::with_capacity(places.checks.len());
    file.chunks(PAGE_BYTES).for_each(|page| checks.put(&crc32c::crc32c(page).to_le_bytes()));
    file.put(&checks);
    file.put(&crc32c::crc32c(&checks).to_le_bytes());
    file
}

fn encode_header(of: &IndexKey, lists: u32, measured: ProbeMargins) -> [u8; HEADER_BYTES] {
    let mut head = [0; HEADER_BYTES];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(header::MAGIC, INDEX_MAGIC);
    put(header::READ_VERSION, &READ_VERSION.to_le_bytes());
    put(header::WRITE_VERSION, &WRITE_VERSION.to_le_bytes());
    for (at, number) in [
        (header::DIMENSIONS, of.dimensions),
        (header::ROWS, of.rows),
        (header::LISTS, lists),
        (header::ASKED, measured.neighbours_wanted),
        (header::FOUND, measured.neighbours_found),
        (header::LOOKED_AT, measured.rows_scored_mean),
        (header::LIST_MARGIN, measured.list_margin.to_bits()),
        (header::SKETCH_MARGIN, measured.sketch_margin.to_bits()),
    ] {
        put(at, &number.to_le_bytes());
    }
    put(header::SEGMENT_SHA256, &of.segment_sha256);
    let crc = crc32c::crc32c(&head[..HEADER_CRC]);
    head[HEADER_CRC..].copy_from_slice(&crc.to_le_bytes());
    head
}

/// A checked, mapped index file.
#[derive(Debug)]
pub(crate) struct IvfIndex {
    bytes: FileBytes,
    layout: ArrayLayout,
    margins: ProbeMargins,
    rows: u32,
}

impl IvfIndex {
    /// Opens the index of a segment: reads and checks the whole file, then maps it. Returns `None` if there is no file.
    pub(crate) fn open(disk: &dyn Disk, of: &IndexKey) -> Result<Option<Self>, OpenError> {
        let name = of.file_name();
        let there = |error: DiskError| match error.source.kind() {
            ErrorKind::NotFound => Ok(None),
            _ => Err(OpenError::Disk(error)),
        };
        let file = match disk.open(&name) {
            Ok(file) => file,
            Err(error) => return there(error),
        };
        let (header, places) = read_header_and_check(&*file, &name, of)?;
        let bytes = match disk.map(&name) {
            Ok(bytes) => bytes,
            Err(error) => return there(error),
        };
        bytes.advise_huge_pages(places.bits.clone());
        let lists = Self { bytes, layout: places, margins: header.margins, rows: of.rows };
        lists.check(of).map_err(|damage| damage.in_file(&name))?;
        Ok(Some(lists))
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.layout.file_bytes() as u64
    }

    /// Number of lists.
    pub(crate) fn count(&self) -> usize {
        self.scales().len()
    }

    /// Returns true if the index reaches the required recall and a search scores fewer rows than a scan.
    pub(crate) fn is_useful(&self) -> bool {
        self.margins.is_useful(self.rows)
    }

    /// Distance below the score floor at which a list is still probed. If the product with its centroid is within the
    /// margin, a row of the list may be in the top k.
    pub(crate) fn list_margin(&self) -> f32 {
        self.margins.list_margin
    }

    /// Distance below the score floor at which a row is still examined, by its score estimated from the binary codes.
    pub(crate) fn sketch_margin(&self) -> f32 {
        self.margins.sketch_margin
    }

    /// Measured recall, and the number of exact neighbours that it was measured over.
    pub(crate) fn recall(&self) -> (f64, u32) {
        let ProbeMargins { neighbours_wanted: asked, neighbours_found: found, .. } = self.margins;
        (if asked == 0 { 1.0 } else { f64::from(found) / f64::from(asked) }, asked)
    }

    /// Codes of all centroids, each as wide as a row of codes of the segment.
    pub(crate) fn codes(&self) -> &[i8] {
        self.array(&self.layout.codes)
    }

    /// Value of a code step, per centroid.
    pub(crate) fn scales(&self) -> &[f32] {
        self.array(&self.layout.scales)
    }

    /// Row numbers of all lists, list after list, ascending within a list.
    pub(crate) fn rows(&self) -> &[u32] {
        self.array(&self.layout.rows)
    }

    /// Range of a list's rows in [`Self::rows`].
    pub(crate) fn list_range(&self, list: usize) -> Range<usize> {
        let offsets: &[u32] = self.array(&self.layout.offsets);
        offsets[list] as usize..offsets[list + 1] as usize
    }

    /// Binary codes of all rows, in list order.
    pub(crate) fn binary_codes(&self) -> BinaryCodes<'_> {
        BinaryCodes {
            bits: self.array(&self.layout.bits),
            scales: self.array(&self.layout.sketch_scales),
        }
    }

    fn array<T: bytemuck::AnyBitPattern>(&self, place: &Range<usize>) -> &[T] {
        bytemuck::cast_slice(&self.bytes.as_slice()[place.clone()])
    }

    /// Checks IDX-06 again, on the mapped bytes, then IDX-08 to IDX-13.
    fn check(&self, of: &IndexKey) -> Result<(), CorruptionError> {
        let file = self.bytes.as_slice();
        check_length(file.len() as u64, &self.layout)?;
        let gaps = self.layout.gaps();
        if gaps.into_iter().any(|gap| file[gap].iter().any(|&byte| byte != 0)) {
            return Err(CorruptionError::new("IDX-11", "bytes between arrays are not zero"));
        }
        self.check_centroids(of.dimensions as usize)?;
        self.check_sketches(of.rows as usize)?;
        let offsets: &[u32] = self.array(&self.layout.offsets);
        let ends = (offsets.first(), offsets.last());
        if ends != (Some(&0), Some(&of.rows)) || !offsets.is_sorted() {
            let detail = format!("lists do not go from 0 up to {}", of.rows);
            return Err(CorruptionError::new("IDX-08", detail));
        }
        self.check_rows(of.rows)
    }

    fn check_centroids(&self, dimensions: usize) -> Result<(), CorruptionError> {
        let wrong = |list: usize, what: &str| {
            Err(CorruptionError::new("IDX-10", format!("centroid {list}: {what}")))
        };
        for (list, row) in self.codes().chunks_exact(self.layout.row_codes).enumerate() {
            let (codes, padding) = row.split_at(dimensions);
            if codes.contains(&i8::MIN) || padding.iter().any(|&code| code != 0) {
                return wrong(list, "a code is -128, or one past its width is not 0");
            }
        }
        match self.scales().iter().position(|scale| !(scale.is_finite() && *scale >= 0.0)) {
            Some(list) => wrong(list, "its scale is not finite, or negative"),
            None => Ok(()),
        }
    }

    fn check_sketches(&self, rows: usize) -> Result<(), CorruptionError> {
        let BinaryCodes { bits, scales } = self.binary_codes();
        if let Some(place) = scales.iter().position(|scale| !(scale.is_finite() && *scale >= 0.0)) {
            let detail = format!("sketch {place}: its scale is not finite, or negative");
            return Err(CorruptionError::new("IDX-13", detail));
        }
        // True for positions of the last block that are past the last row.
        let is_past = |at: usize| at % LOOKUP_ROWS > (rows - 1) % LOOKUP_ROWS;
        let last = bits.len() - self.layout.row_codes / 8 * LOOKUP_ROWS;
        let past = bits[last..].iter().enumerate().filter(|&(at, _)| is_past(at));
        if past.into_iter().any(|(_, &bits)| bits != 0) {
            return Err(CorruptionError::new("IDX-13", "bits behind the last row's are set"));
        }
        Ok(())
    }

    /// IDX-09: as many entries as rows and no row twice, so every row is listed.
    fn check_rows(&self, rows: u32) -> Result<(), CorruptionError> {
        let wrong = |detail: String| Err(CorruptionError::new("IDX-09", detail));
        let mut seen = vec![0u64; (rows as usize).div_ceil(64)];
        for list in 0..self.count() {
            let mut before = None;
            for &row in &self.rows()[self.list_range(list)] {
                if row >= rows {
                    return wrong(format!("row {row} of {rows} in list {list}"));
                }
                if before.is_some_and(|before| before >= row) {
                    return wrong(format!("row {row} of list {list} is not above the one before"));
                }
                before = Some(row);
                let word = &mut seen[row as usize / 64];
                if *word >> (row % 64) & 1 == 1 {
                    return wrong(format!("row {row} is in two lists"));
                }
                *word |= 1 << (row % 64);
            }
        }
        Ok(())
    }
}

/// Header values, checked against the segment.
struct IndexHeader {
    lists: u32,
    margins: ProbeMargins,
}

/// Reads the file and checks it from the header to the page checksums (IDX-02 to IDX-07).
fn read_header_and_check(
    file: &dyn DiskRead,
    name: &str,
    of: &IndexKey,
) -> Result<(IndexHeader, ArrayLayout), OpenError> {
    let within = |damage: CorruptionError| OpenError::Damaged(damage.in_file(name));
    if file.bytes() < HEADER_BYTES as u64 {
        let detail = format!("{} bytes long, at least {HEADER_BYTES} are wanted", file.bytes());
        return Err(within(CorruptionError::new("IDX-02", detail)));
    }
    let mut bytes = [0; HEADER_BYTES];
    file.read_at(0, &mut bytes)?;
    let version = read_version(&bytes).map_err(within)?;
    if version > READ_VERSION {
        return Err(OpenError::TooNew { file: name.to_owned(), version });
    }
    let header = decode_header(&bytes, of).map_err(within)?;
    let places = layout_of(of, header.lists).map_err(within)?;
    check_length(file.bytes(), &places).map_err(within)?;
    let mut checks = vec![0; places.checks.len() + CRC_BYTES];
    file.read_at(places.checks.start as u64, &mut checks)?;
    let (checks, sum) = checks.split_at(places.checks.len());
    if crc32c::crc32c(checks).to_le_bytes() != sum {
        return Err(within(CorruptionError::new(
            "IDX-07",
            "the checksum of the page checks is wrong",
        )));
    }
    let mut page = vec![0; PAGE_BYTES.min(places.checks.start)];
    for (number, check) in checks.chunks_exact(CRC_BYTES).enumerate() {
        let start = number * PAGE_BYTES;
        let page = &mut page[..PAGE_BYTES.min(places.checks.start - start)];
        file.read_at(start as u64, page)?;
        if crc32c::crc32c(page).to_le_bytes() != check {
            let detail = format!("the checksum of page {number} (byte {start}) is wrong");
            return Err(within(CorruptionError::new("IDX-07", detail)));
        }
    }
    Ok((header, places))
}

fn layout_of(of: &IndexKey, lists: u32) -> Result<ArrayLayout, CorruptionError> {
    let too_long =
        || CorruptionError::new("IDX-06", "its numbers make it longer than memory can be");
    ArrayLayout::new(of.dimensions, of.rows, lists).ok_or_else(too_long)
}

/// Checks the header's checksum, then returns the lowest version that can read the file.
fn read_version(bytes: &[u8; HEADER_BYTES]) -> Result<u16, CorruptionError> {
    if !bytes.starts_with(INDEX_MAGIC) {
        return Err(CorruptionError::new("IDX-02", "the magic is missing"));
    }
    let (covered, crc) = bytes.split_at(HEADER_CRC);
    if crc32c::crc32c(covered).to_le_bytes() != crc {
        return Err(CorruptionError::new("IDX-02", "the checksum of the header is wrong"));
    }
    match u16::from_le_bytes(header_field(bytes, header::READ_VERSION)) {
        0 => Err(CorruptionError::new("IDX-03", "there is no version 0")),
        version => Ok(version),
    }
}

/// Bytes of a header field, which must lie within the header.
fn header_field<const BYTES: usize>(head: &[u8; HEADER_BYTES], at: usize) -> [u8; BYTES] {
    std::array::from_fn(|byte| head[at + byte])
}

fn decode_header(
    bytes: &[u8; HEADER_BYTES],
    of: &IndexKey,
) -> Result<IndexHeader, CorruptionError> {
    let number = |at: usize| u32::from_le_bytes(header_field(bytes, at));
    let (dimensions, rows) = (number(header::DIMENSIONS), number(header::ROWS));
    let lists = number(header::LISTS);
    let measured = ProbeMargins {
        neighbours_wanted: number(header::ASKED),
        neighbours_found: number(header::FOUND),
        rows_scored_mean: number(header::LOOKED_AT),
        list_margin: f32::from_bits(number(header::LIST_MARGIN)),
        sketch_margin: f32::from_bits(number(header::SKETCH_MARGIN)),
    };
    let segment_sha256: [u8; HASH_BYTES] = header_field(bytes, header::SEGMENT_SHA256);
    if (dimensions, rows, segment_sha256) != (of.dimensions, of.rows, of.segment_sha256) {
        return Err(CorruptionError::new("IDX-04", "it is the index of another segment"));
    }
    let ProbeMargins {
        neighbours_wanted: asked,
        neighbours_found: found,
        rows_scored_mean: looked_at,
        list_margin,
        sketch_margin,
    } = measured;
    let is_margin = |margin: f32| margin.is_finite() && margin >= 0.0;
    let is_measured = found <= asked && looked_at <= rows;
    let are_margins = is_margin(list_margin) && is_margin(sketch_margin);
    if !(1..=INDEX_LISTS_MAX).contains(&lists) || rows == 0 || !is_measured || !are_margins {
        let detail = format!(
            "{lists} lists, {found} found of {asked}, {looked_at} looked at of {rows}, \
             margins {list_margin} and {sketch_margin}"
        );
        return Err(CorruptionError::new("IDX-05", detail));
    }
    if RESERVED.into_iter().any(|reserved| bytes[reserved].iter().any(|&byte| byte != 0)) {
        return Err(CorruptionError::new("IDX-11", "reserved bytes of the header are not zero"));
    }
    Ok(IndexHeader { lists, margins: measured })
}

fn check_length(found: u64, places: &ArrayLayout) -> Result<(), CorruptionError> {
    let wanted = places.file_bytes() as u64;
    if found == wanted {
        return Ok(());
    }
    Err(CorruptionError::new("IDX-06", format!("{found} bytes long, its numbers make it {wanted}")))
}
