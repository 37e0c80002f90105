//! Validation of packed weights: every check of `format-spec/weights.md`, from the outside in.
//!
//! After the checks, the bytes have the shape, length and number types that this build would have packed, whatever
//! program wrote them; the network reads them without a further check.

use kernels::{Precision, QUAD};

use super::check::{column_sums, half_not_finite, not_finite, padding, too_low};
use super::layout::{
    Cell, DenseSections, ENTRY_BYTES, HEADER_BYTES, Layout, MAGIC, PACKING, READ_VERSION, Section,
    at, entry,
};
use super::write::numbers;
use crate::OpenError;
use crate::config::Config;

/// Checks packed weights against the model, precision and source, and returns their layout.
pub(crate) fn check(
    bytes: &[u8],
    config: &Config,
    precision: Precision,
    source_sha256: &[u8; 32],
) -> Result<Layout, OpenError> {
    let layout = Layout::of(config, precision);
    let Some((head, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        let found = format!("{} bytes", bytes.len());
        return Err(broken("WGT-01", "the length", found, "128 bytes at the least"));
    };
    check_identity(head)?;
    check_shape(head, &layout, config)?;
    let source: [u8; 32] = field(head, at::SOURCE_SHA256);
    if source != *source_sha256 {
        let (found, wanted) = (hex(&source), hex(source_sha256));
        return Err(broken("WGT-15", "source_sha256", found, wanted));
    }
    let file_bytes = u64::from_le_bytes(field(head, at::FILE_BYTES));
    if file_bytes != bytes.len() as u64 || bytes.len() != layout.file_bytes {
        let found = format!("{file_bytes} in a file of {} bytes", bytes.len());
        let wanted = format!("{}, by its shape", layout.file_bytes);
        return Err(broken("WGT-06", "file_bytes", found, wanted));
    }
    let reserved = &head[at::RESERVED..at::HEADER_CRC];
    check_zeros("WGT-07", || "the header".to_owned(), at::RESERVED, reserved)?;
    let directory = &bytes[layout.directory()];
    check_crc("WGT-08", "directory", directory, u32_at(head, at::DIRECTORY_CRC))?;
    check_directory(directory, &layout)?;
    check_gaps(bytes, &layout)?;
    check_sections(bytes, directory, &layout)?;
    Ok(layout)
}

/// Checks magic, header checksum and versions.
fn check_identity(head: &[u8; HEADER_BYTES]) -> Result<(), OpenError> {
    if head[..MAGIC.len()] != MAGIC {
        let found = format!("{:02x?}", &head[..MAGIC.len()]);
        return Err(broken("WGT-01", "the magic", found, format!("{MAGIC:02x?}")));
    }
    // The checksum is checked first, so that a flipped bit is not reported as another version.
    check_crc("WGT-02", "header", &head[..at::HEADER_CRC], u32_at(head, at::HEADER_CRC))?;
    let version = u16::from_le_bytes(field(head, at::READ_VERSION));
    if version == 0 || version > READ_VERSION {
        let wanted = format!("from 1 to {READ_VERSION}");
        return Err(broken("WGT-03", "read_version", version, wanted));
    }
    let write_version = u16::from_le_bytes(field(head, at::WRITE_VERSION));
    if write_version < version {
        let wanted = format!("{version}, its read_version, at the least");
        return Err(broken("WGT-03", "write_version", write_version, wanted));
    }
    let packing = u32_at(head, at::PACKING);
    if packing != PACKING {
        return Err(broken("WGT-04", "packing", packing, PACKING));
    }
    Ok(())
}

/// Checks that each number of the header is the one that this build would write for the settings.
fn check_shape(
    head: &[u8; HEADER_BYTES],
    layout: &Layout,
    config: &Config,
) -> Result<(), OpenError> {
    const NAMES: [&str; 9] = [
        "precision",
        "hidden",
        "heads",
        "layers",
        "inner",
        "positions",
        "vocabulary",
        "epsilon",
        "sections",
    ];
    for (name, (at, wanted)) in NAMES.into_iter().zip(numbers(layout, config)) {
        let found = u32_at(head, at);
        if found != wanted {
            let show = |number: u32| match at {
                at::EPSILON => format!("{:e}", f32::from_bits(number)),
                at::PRECISION => precision_name(number),
                _ => number.to_string(),
            };
            return Err(broken("WGT-05", name, show(found), show(wanted)));
        }
    }
    Ok(())
}

fn precision_name(number: u32) -> String {
    let known = Precision::ALL.iter().find(|precision| **precision as u32 == number);
    known.map_or_else(|| number.to_string(), |precision| precision.name().to_owned())
}

/// Checks that the entries match the layout, in its order.
fn check_directory(directory: &[u8], layout: &Layout) -> Result<(), OpenError> {
    let (entries, _) = directory.as_chunks::<ENTRY_BYTES>();
    for (i, (section, found)) in layout.sections.iter().zip(entries).enumerate() {
        let place = HEADER_BYTES + i * ENTRY_BYTES;
        let number = |at: usize| u64::from(u16::from_le_bytes(field(found, at)));
        let wide = |at: usize| u64::from_le_bytes(field(found, at));
        let has =
            [number(entry::KIND), number(entry::LAYER), wide(entry::OFFSET), wide(entry::BYTES)];
        let Section { kind, layer, offset, bytes, .. } = section;
        let wanted = [u64::from(kind.number), u64::from(*layer), *offset as u64, *bytes as u64];
        if has != wanted {
            let part = format!("entry {i} of the directory, of {}", section.named());
            let show = |[kind, layer, offset, bytes]: [u64; 4]| {
                format!("kind {kind}, layer {layer}, offset {offset}, {bytes} bytes")
            };
            return Err(broken("WGT-09", part, show(has), show(wanted)));
        }
        let reserved = &found[entry::RESERVED..];
        let in_directory = || "the directory".to_owned();
        check_zeros("WGT-07", in_directory, place + entry::RESERVED, reserved)?;
    }
    Ok(())
}

/// Checks that the bytes between sections are zero.
fn check_gaps(bytes: &[u8], layout: &Layout) -> Result<(), OpenError> {
    let mut end = layout.directory().end;
    for section in &layout.sections {
        let between = || "the bytes between sections".to_owned();
        check_zeros("WGT-11", between, end, &bytes[end..section.offset])?;
        end = section.range().end;
    }
    Ok(())
}

/// Checks the checksum and the numbers of each section. All of the file is read for this, the tables by one thread and
/// the blocks by another.
fn check_sections(bytes: &[u8], directory: &[u8], layout: &Layout) -> Result<(), OpenError> {
    let (entries, _) = directory.as_chunks::<ENTRY_BYTES>();
    let blocks_from = layout.sections.len() - blocks_sections(layout);
    let check_some = |some: std::ops::Range<usize>| {
        let mut pairs = layout.sections[some.clone()].iter().zip(&entries[some]);
        pairs.try_for_each(|(section, entry)| check_section(bytes, section, entry))
    };
    let (tables, blocks) = std::thread::scope(|scope| {
        let blocks = scope.spawn(|| {
            check_some(blocks_from..layout.sections.len())?;
            layout.blocks.iter().try_for_each(|block| {
                [&block.query_key_value, &block.attention_out, &block.feed_in, &block.feed_out]
                    .into_iter()
                    .try_for_each(|dense| check_dense(bytes, dense))
            })
        });
        (check_some(0..blocks_from), blocks.join())
    });
    tables?;
    blocks.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn blocks_sections(layout: &Layout) -> usize {
    layout.sections.iter().filter(|section| section.layer != super::layout::NO_LAYER).count()
}

/// Bytes that are hashed and then checked while they are in the nearest cache.
const PIECE_BYTES: usize = 32 << 10;

fn check_section(
    bytes: &[u8],
    section: &Section,
    entry: &[u8; ENTRY_BYTES],
) -> Result<(), OpenError> {
    let mut crc = 0;
    let mut bad = None;
    for (i, piece) in bytes[section.range()].chunks(PIECE_BYTES).enumerate() {
        crc = crc32c::crc32c_append(crc, piece);
        let found = bad_number(section.cell, piece);
        bad = bad.or(found.map(|at| section.offset + i * PIECE_BYTES + at));
    }
    let wanted = u32_at(entry, entry::CRC);
    if crc != wanted {
        let found = format!("CRC-32C {crc:08x}");
        return Err(broken("WGT-10", section.named(), found, format!("{wanted:08x}")));
    }
    match bad {
        None => Ok(()),
        Some(at) if section.cell == Cell::I8 => {
            let part = format!("byte {at}, in {}", section.named());
            Err(broken("WGT-13", part, "a code of -128", "codes from -127 to 127"))
        }
        Some(at) => {
            let part = format!("byte {at}, in {}", section.named());
            Err(broken("WGT-12", part, "a value that is infinite or not a number", "finite values"))
        }
    }
}

/// Returns the byte offset of the first invalid number.
fn bad_number(cell: Cell, piece: &[u8]) -> Option<usize> {
    match cell {
        Cell::F32 => not_finite(bytemuck::cast_slice(piece)).map(|i| i * size_of::<u32>()),
        Cell::F16 => half_not_finite(bytemuck::cast_slice(piece)).map(|i| i * size_of::<u16>()),
        Cell::I8 => too_low(bytemuck::cast_slice(piece)),
        Cell::I32 => None,
    }
}

/// Checks the sections of one layer against each other: offsets match the codes, scales are not negative, padding is
/// zero.
fn check_dense(bytes: &[u8], dense: &DenseSections) -> Result<(), OpenError> {
    let quad = if dense.codes.is_some() { QUAD } else { 1 };
    let size = dense.cells.bytes / kernels::cells_in(dense.depth, dense.width);
    let cells = &bytes[dense.cells.range()];
    for run in padding(dense.depth, dense.width, quad) {
        let run = run.start * size..run.end * size;
        let named = || dense.cells.named();
        check_zeros("WGT-14", named, dense.cells.offset + run.start, &cells[run])?;
    }
    let per_column = [Some(&dense.bias), dense.codes.as_ref().map(|(scales, _)| scales)];
    for section in per_column.into_iter().flatten() {
        let start = section.offset + dense.width * size_of::<f32>();
        let padding = &bytes[start..section.range().end];
        check_zeros("WGT-14", || section.named(), start, padding)?;
    }
    let Some((scales, offsets)) = &dense.codes else { return Ok(()) };
    let floats: &[f32] = bytemuck::cast_slice(&bytes[scales.range()]);
    if let Some(i) = floats.iter().position(|scale| scale.is_sign_negative()) {
        let part = format!("number {i} of {}", scales.named());
        return Err(broken("WGT-12", part, floats[i], "a scale that is not negative"));
    }
    let sums = column_sums(bytemuck::cast_slice(cells), dense.depth);
    let stored: &[i32] = bytemuck::cast_slice(&bytes[offsets.range()]);
    let mut pairs = stored.iter().zip(&sums).enumerate();
    if let Some((i, (&found, sum))) = pairs.find(|(_, (found, sum))| **found != -128 * **sum) {
        let part = format!("number {i} of {}", offsets.named());
        let wanted = format!("{}, -128 times the sum of the column's codes", -128 * sum);
        return Err(broken("WGT-13", part, found, wanted));
    }
    Ok(())
}

fn check_crc(rule: &'static str, part: &str, bytes: &[u8], wanted: u32) -> Result<(), OpenError> {
    let crc = crc32c::crc32c(bytes);
    if crc == wanted {
        return Ok(());
    }
    Err(broken(rule, format!("the {part}"), format!("CRC-32C {crc:08x}"), format!("{wanted:08x}")))
}

fn check_zeros(
    rule: &'static str,
    part: impl FnOnce() -> String,
    from: usize,
    bytes: &[u8],
) -> Result<(), OpenError> {
    match bytes.iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(at) => {
            let part = format!("byte {}, in {}", from + at, part());
            Err(broken(rule, part, format!("{:#04x}", bytes[at]), "zero"))
        }
    }
}

fn broken(
    rule: &'static str,
    part: impl Into<String>,
    found: impl ToString,
    wanted: impl ToString,
) -> OpenError {
    let (found, wanted) = (found.to_string(), wanted.to_string());
    OpenError::Packed { rule, part: part.into(), found, wanted }
}

/// Reads the bytes of a field; the caller's positions come from the layout.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("fields lie inside their table")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(bytes, at))
}

fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
