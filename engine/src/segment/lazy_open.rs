//! Opening of a segment whose file is a lazy file.
//!
//! Owns the choice of bytes that are needed to know the checksums of all pages. The origin of the bytes is left to the
//! caller.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::reader::Trailer;
use crate::error::{CorruptionError, DiskError, OpenError};
use crate::layout::{HEADER_BYTES, PAGE_BYTES, TRAILER_BYTES};
use crate::os::lazy_file::{LazyFile, PageChecksums, PageFetchError, PartialFile, RangeFetcher};

#[cfg(test)]
mod tests;

/// Maximum number of attempts to read the end of the file until its checksum is right; the first may be a local read.
const FETCH_ATTEMPTS_MAX: usize = 2;

/// Opens the segment of length `bytes` at `path`, of which some or all pages may be missing. A missing page is fetched
/// from `source` on first use. A page of an earlier session is reused if its checksum is right.
///
/// # Errors
/// The end of the file, which has the checksums of its pages, could not be fetched (FAR-01) or is not the end of a
/// segment.
pub fn open(
    path: &Path,
    bytes: u64,
    source: Arc<dyn RangeFetcher>,
) -> Result<Arc<LazyFile>, OpenError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let disk = |error| DiskError::new("fill", &*name, error);
    let within = |damage: CorruptionError| damage.in_file(&name);
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    if length < HEADER_BYTES + TRAILER_BYTES {
        return Err(within(CorruptionError::new("SEG-01", format!("{bytes} bytes long"))).into());
    }
    let file = PartialFile::open(path, bytes).map_err(disk)?;
    let away = |why| CorruptionError::from(PageFetchError::Unavailable(why));
    let here =
        |range| file.read(range).map_err(|error| CorruptionError::new("SEG-06", error.to_string()));
    let there = |range: Range<usize>| {
        let wanted = range.len();
        let found = source.fetch(range.start as u64..range.end as u64).map_err(away)?;
        match found.len() == wanted {
            true => Ok(found),
            false => Err(away(format!("{} bytes came, {wanted} were asked for", found.len()))),
        }
    };
    let mut end = if file.is_old() { read_end(length, here) } else { read_end(length, there) };
    for _ in 1..FETCH_ATTEMPTS_MAX {
        end = match end {
            Err(damage) if !damage.is_unavailable() => read_end(length, there),
            other => other,
        };
    }
    let FileEnd { directory_at, checks, tail } = end.map_err(within)?;
    let covered = checks.covered_bytes;
    let filling = Arc::new(LazyFile::new(&name, file, checks, &tail, source).map_err(disk)?);
    // These bytes are read by every open, before any row.
    for bytes in [0..HEADER_BYTES, directory_at..covered] {
        filling.ensure_present(bytes).map_err(|why| within(why.into()))?;
    }
    Ok(filling)
}

/// End of a file: directory offset, page checksums and trailer.
struct FileEnd {
    directory_at: usize,
    checks: PageChecksums,
    /// Bytes from the start of the page in which the page checksums begin.
    tail: Vec<u8>,
}

/// Opens the segment at `path`, whose pages are all present and verified. `source` is retained until the file is
/// dropped.
///
/// # Errors
/// A file system call failed.
pub fn open_complete(
    path: &Path,
    source: Arc<dyn RangeFetcher>,
) -> Result<Arc<LazyFile>, DiskError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = std::fs::File::open(path);
    let made = file.and_then(|file| LazyFile::complete(&name, file, source));
    made.map(Arc::new).map_err(|error| DiskError::new("map", &*name, error))
}

fn read_end(
    length: usize,
    read: impl Fn(Range<usize>) -> Result<Vec<u8>, CorruptionError>,
) -> Result<FileEnd, CorruptionError> {
    // Four bytes per page for the checksums; directory and trailer take less than two pages.
    let likely = length / PAGE_BYTES * 4 + 2 * PAGE_BYTES;
    let from = length.saturating_sub(likely) / PAGE_BYTES * PAGE_BYTES;
    let mut tail = read(from..length)?;
    let trailer_at = length - TRAILER_BYTES;
    let trailer = Trailer::decode(&tail[trailer_at - from..], length)?;
    let (directory_at, covered) = (trailer.layout.directory_at, trailer.layout.checks_at);
    let start = covered / PAGE_BYTES * PAGE_BYTES;
    match start.checked_sub(from) {
        Some(before) => drop(tail.drain(..before)),
        None => tail = read(start..length)?,
    }
    let checks = &tail[covered - start..trailer_at - start];
    trailer.check(checks)?;
    let sums: Vec<u32> =
        checks.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let last = crc32c::crc32c(&tail[..covered - start]);
    if covered > start && sums.last() != Some(&last) {
        return Err(PageFetchError::ChecksumMismatch(start / PAGE_BYTES).into());
    }
    Ok(FileEnd {
        directory_at,
        checks: PageChecksums { checksums: sums, covered_bytes: covered },
        tail,
    })
}
