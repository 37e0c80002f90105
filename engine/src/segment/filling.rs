//! A segment that is opened before all of it is here.
//!
//! Owns which bytes of a file are needed to know what its pages must be. Must not know where they come from.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::sealed::Trailer;
use crate::error::{Damage, DiskError, OpenError};
use crate::layout::{HEADER_BYTES, PAGE_BYTES, TRAILER_BYTES};
use crate::os::filling::{Fetch, Filling, PageChecks, PartFile, Unfilled};

#[cfg(test)]
mod tests;

/// How often what a file ends with is fetched, until it is right.
const FETCHES: usize = 2;

/// The segment at `path`, `bytes` long, of which nothing or a part lies there. What is not here comes from `source`
/// when it is used, and what is here of an earlier time is taken where its checksum is right.
///
/// # Errors
/// The end of the file, by which its pages are known, did not come (FAR-01), or is not that of a segment.
pub fn open(path: &Path, bytes: u64, source: Arc<dyn Fetch>) -> Result<Arc<Filling>, OpenError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let disk = |error| DiskError::new("fill", &*name, error);
    let within = |damage: Damage| damage.within(&name);
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    if length < HEADER_BYTES + TRAILER_BYTES {
        return Err(within(Damage::new("SEG-01", format!("{bytes} bytes long"))).into());
    }
    let file = PartFile::open(path, bytes).map_err(disk)?;
    let away = |why| Damage::from(Unfilled::Away(why));
    let here = |range| file.read(range).map_err(|error| Damage::new("SEG-06", error.to_string()));
    let there = |range: Range<usize>| {
        let wanted = range.len();
        let found = source.fetch(range.start as u64..range.end as u64).map_err(away)?;
        match found.len() == wanted {
            true => Ok(found),
            false => Err(away(format!("{} bytes came, {wanted} were asked for", found.len()))),
        }
    };
    let mut end = if file.is_old() { read_end(length, here) } else { read_end(length, there) };
    for _ in 1..FETCHES {
        end = match end {
            Err(damage) if !damage.is_away() => read_end(length, there),
            other => other,
        };
    }
    let End { directory_at, checks, tail } = end.map_err(within)?;
    let covered = checks.covered;
    let filling = Arc::new(Filling::over(&name, file, checks, &tail, source).map_err(disk)?);
    // What is looked at before anybody asks for rows.
    for bytes in [0..HEADER_BYTES, directory_at..covered] {
        filling.need(bytes).map_err(|why| within(why.into()))?;
    }
    Ok(filling)
}

/// What a file ends with.
struct End {
    directory_at: usize,
    checks: PageChecks,
    /// From the start of the page on in which the checks begin.
    tail: Vec<u8>,
}

/// The segment at `path`, all of which is here and proven to be so. `source` is kept for as long as somebody uses it.
///
/// # Errors
/// The file system.
pub fn whole(path: &Path, source: Arc<dyn Fetch>) -> Result<Arc<Filling>, DiskError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = std::fs::File::open(path);
    let made = file.and_then(|file| Filling::whole(&name, file, source));
    made.map(Arc::new).map_err(|error| DiskError::new("map", &*name, error))
}

fn read_end(
    length: usize,
    read: impl Fn(Range<usize>) -> Result<Vec<u8>, Damage>,
) -> Result<End, Damage> {
    // Four bytes for each page, directory and trailer: less than two pages, but for the checks.
    let likely = length / PAGE_BYTES * 4 + 2 * PAGE_BYTES;
    let from = length.saturating_sub(likely) / PAGE_BYTES * PAGE_BYTES;
    let mut tail = read(from..length)?;
    let trailer_at = length - TRAILER_BYTES;
    let trailer = Trailer::of(&tail[trailer_at - from..], length)?;
    let (directory_at, covered) = (trailer.frame.directory_at, trailer.frame.checks_at);
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
        return Err(Unfilled::Wrong(start / PAGE_BYTES).into());
    }
    Ok(End { directory_at, checks: PageChecks { sums, covered }, tail })
}
