//! Reads of files with unreadable ranges: recovers the readable bytes, chunk by chunk.
//!
//! The first touch of a bad sector through a mapping ends the process (SIGBUS), while a failed read reports its
//! position. So verification, salvage and copies read each file completely before they map it. Unreadable bytes read as
//! zeros, which the checksum of their page or frame detects. A sector that turns bad between the read and the touch
//! still ends the process.

use std::ops::Range;

use crate::error::DiskError;
use crate::os::disk::{Disk, DiskRead, FileBytes};
use crate::os::mmap::{AlignedBytes, HUGE_PAGE_BYTES};

/// Bytes per read call; a multiple of the huge page, so that a copy on the heap grows by whole huge pages.
const READ_CHUNK_BYTES: usize = HUGE_PAGE_BYTES;
/// Smallest unit of loss: a disk sector or a memory page.
const SECTOR_BYTES: usize = 4 << 10;
const _: () = assert!(READ_CHUNK_BYTES.is_multiple_of(SECTOR_BYTES));

/// Unreadable ranges of a file.
#[derive(Debug, Default)]
pub(crate) struct UnreadableRanges {
    /// Byte ranges, ascending.
    ranges: Vec<Range<u64>>,
    /// Error of the first unreadable range.
    first_error: Option<DiskError>,
}

impl UnreadableRanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Describes each range as text.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = String> {
        let why = self.first_error.iter().map(|error| error.source.to_string()).next();
        let why = why.unwrap_or_default();
        self.ranges
            .iter()
            .map(move |lost| format!("bytes {}..{} cannot be read: {why}", lost.start, lost.end))
    }

    /// Returns the error, for callers that need the whole file.
    pub(crate) fn into_result(self) -> Result<(), DiskError> {
        self.first_error.map_or(Ok(()), Err)
    }

    fn add(&mut self, lost: Range<u64>, error: DiskError) {
        match self.ranges.last_mut() {
            Some(last) if last.end == lost.start => last.end = lost.end,
            _ => self.ranges.push(lost),
        }
        self.first_error.get_or_insert(error);
    }
}

/// Passes a whole file to `take` chunk by chunk, with zeros for unreadable ranges.
fn read_with_holes(
    file: &dyn DiskRead,
    mut take: impl FnMut(&[u8]) -> Result<(), DiskError>,
) -> Result<UnreadableRanges, DiskError> {
    file.fetch_all()?;
    let mut unreadable = UnreadableRanges::default();
    let mut piece = Vec::new();
    let mut at = 0;
    while at < file.bytes() {
        let left = usize::try_from(file.bytes() - at).unwrap_or(usize::MAX);
        piece.resize(left.min(READ_CHUNK_BYTES), 0);
        if file.read_at(at, &mut piece).is_err() {
            let mut from = at;
            for sector in piece.chunks_mut(SECTOR_BYTES) {
                let end = from + sector.len() as u64;
                if let Err(error) = file.read_at(from, sector) {
                    sector.fill(0);
                    unreadable.add(from..end, error);
                }
                from = end;
            }
        }
        take(&piece)?;
        at += piece.len() as u64;
    }
    Ok(unreadable)
}

/// Passes a whole file to `take`, or fails.
pub(crate) fn read_all(
    file: &dyn DiskRead,
    take: impl FnMut(&[u8]) -> Result<(), DiskError>,
) -> Result<(), DiskError> {
    read_with_holes(file, take)?.into_result()
}

/// Returns a file that no longer changes: mapped or, if a range is unreadable, a copy on the heap with zeros there.
pub(crate) fn map_readable(
    disk: &dyn Disk,
    name: &str,
) -> Result<(FileBytes, UnreadableRanges), DiskError> {
    let file = disk.open(name)?;
    let unreadable = read_with_holes(&*file, |_| Ok(()))?;
    if unreadable.is_empty() {
        return Ok((disk.map(name)?, unreadable));
    }
    let mut bytes = AlignedBytes::with_room(usize::try_from(file.bytes()).unwrap_or_default());
    let unreadable = read_with_holes(&*file, |piece| {
        bytes.extend(piece);
        Ok(())
    })?;
    Ok((FileBytes::from_heap(bytes), unreadable))
}

/// Reads a file of at most `bytes_max` bytes to the heap.
pub(crate) fn read_readable(
    disk: &dyn Disk,
    name: &str,
    bytes_max: u64,
) -> Result<(Vec<u8>, UnreadableRanges), DiskError> {
    let file = disk.open(name)?;
    if file.bytes() > bytes_max {
        let why = format!("{} bytes, at most {bytes_max} are allowed", file.bytes());
        let error = std::io::Error::new(std::io::ErrorKind::FileTooLarge, why);
        return Err(DiskError::new("read", name, error));
    }
    let mut bytes = Vec::new();
    let unreadable = read_with_holes(&*file, |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok((bytes, unreadable))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// File of ascending byte values with unreadable positions.
    #[derive(Debug)]
    struct DiskWithBadSectors {
        bytes: u64,
        bad: Vec<u64>,
    }

    fn byte(at: u64) -> u8 {
        u8::try_from(at % 251).unwrap() + 1
    }

    impl DiskRead for DiskWithBadSectors {
        fn bytes(&self) -> u64 {
            self.bytes
        }

        fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
            let range = at..at + into.len() as u64;
            assert!(range.end <= self.bytes, "nothing behind the end is asked for");
            (at..).zip(into).for_each(|(at, into)| *into = byte(at));
            if self.bad.iter().any(|bad| range.contains(bad)) {
                return Err(DiskError::new("read", "a file", std::io::Error::other("bad sector")));
            }
            Ok(())
        }
    }

    #[test]
    fn unreadable_sectors_are_zero_filled_and_the_rest_is_read() {
        const SECTOR: u64 = SECTOR_BYTES as u64;
        const PIECE: u64 = READ_CHUNK_BYTES as u64;
        let end = 2 * PIECE + 5000;
        for (bad, wanted) in [
            (vec![], vec![]),
            (vec![0], vec![(0, SECTOR)]),
            (vec![SECTOR + 7, 2 * SECTOR], vec![(SECTOR, 3 * SECTOR)]),
            (vec![PIECE - 1, PIECE], vec![(PIECE - SECTOR, PIECE + SECTOR)]),
            (vec![9, end - 1], vec![(0, SECTOR), (2 * PIECE + SECTOR, end)]),
        ] {
            let wanted: Vec<Range<u64>> = wanted.into_iter().map(|(from, to)| from..to).collect();
            let file = DiskWithBadSectors { bytes: end, bad };
            let mut found = Vec::new();
            let unreadable = read_with_holes(&file, |piece| {
                found.extend_from_slice(piece);
                Ok(())
            });
            let unreadable = unreadable.unwrap();
            assert_eq!(unreadable.ranges, wanted);
            assert_eq!(unreadable.reasons().count(), wanted.len());
            assert!(unreadable.reasons().all(|why| why.ends_with("cannot be read: bad sector")));
            assert_eq!(found.len() as u64, end);
            let is_right = |(at, &found): (u64, &u8)| {
                let is_lost = wanted.iter().any(|lost| lost.contains(&at));
                found == if is_lost { 0 } else { byte(at) }
            };
            assert!((0..).zip(&found).all(is_right), "{wanted:?}");
            assert_eq!(read_all(&file, |_| Ok(())).is_ok(), wanted.is_empty());
        }
    }
}
