//! Files of which a part cannot be read any more: what can be is, piece by piece.
//!
//! The first touch of a bad sector through a map ends the process (SIGBUS), while a read is an error that
//! says where. So whoever looks at a store that may be damaged, or copies one, reads each file
//! through before it maps it; what cannot be read is zeros there, which the checksums of its page or
//! frame notice. Owns that; must not know what the bytes mean. A sector that turns bad between the
//! reading and the touch still ends the process.

use std::ops::Range;

use crate::error::DiskError;
use crate::os::disk::{Disk, DiskRead, FileBytes};
use crate::os::mmap::{AlignedBytes, HUGE_PAGE_BYTES};

/// Bytes that are read at once, so that a copy is written in pieces that lie in huge pages.
const PIECE_BYTES: usize = HUGE_PAGE_BYTES;
/// Bytes that are lost together: those of a sector, or of a page of memory.
const SECTOR_BYTES: usize = 4 << 10;
const _: () = assert!(PIECE_BYTES.is_multiple_of(SECTOR_BYTES));

/// Bytes of a file that cannot be read.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    /// Where they lie, ascending.
    ranges: Vec<Range<u64>>,
    /// What the first of them met.
    why: Option<DiskError>,
}

impl Unreadable {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Each range in words.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = String> {
        let why = self.why.iter().map(|error| error.source.to_string()).next();
        let why = why.unwrap_or_default();
        self.ranges
            .iter()
            .map(move |lost| format!("bytes {}..{} cannot be read: {why}", lost.start, lost.end))
    }

    /// The error, for those who need all of it.
    pub(crate) fn into_result(self) -> Result<(), DiskError> {
        self.why.map_or(Ok(()), Err)
    }

    fn add(&mut self, lost: Range<u64>, error: DiskError) {
        match self.ranges.last_mut() {
            Some(last) if last.end == lost.start => last.end = lost.end,
            _ => self.ranges.push(lost),
        }
        self.why.get_or_insert(error);
    }
}

/// Hands over all of a file piece by piece, with zeros for what cannot be read.
fn read_through(
    file: &dyn DiskRead,
    mut take: impl FnMut(&[u8]) -> Result<(), DiskError>,
) -> Result<Unreadable, DiskError> {
    file.bring()?;
    let mut unreadable = Unreadable::default();
    let mut piece = Vec::new();
    let mut at = 0;
    while at < file.bytes() {
        let left = usize::try_from(file.bytes() - at).unwrap_or(usize::MAX);
        piece.resize(left.min(PIECE_BYTES), 0);
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

/// Hands over all of a file, or fails.
pub(crate) fn read_all(
    file: &dyn DiskRead,
    take: impl FnMut(&[u8]) -> Result<(), DiskError>,
) -> Result<(), DiskError> {
    read_through(file, take)?.into_result()
}

/// A file that no longer changes: mapped, or where a part of it cannot be read, what can be on the
/// heap.
pub(crate) fn map(disk: &dyn Disk, name: &str) -> Result<(FileBytes, Unreadable), DiskError> {
    let file = disk.open(name)?;
    let unreadable = read_through(&*file, |_| Ok(()))?;
    if unreadable.is_empty() {
        return Ok((disk.map(name)?, unreadable));
    }
    let mut bytes = AlignedBytes::with_room(usize::try_from(file.bytes()).unwrap_or_default());
    let unreadable = read_through(&*file, |piece| {
        bytes.extend(piece);
        Ok(())
    })?;
    Ok((FileBytes::held(bytes), unreadable))
}

/// A file that may be at most `bytes_max` long, on the heap.
pub(crate) fn read(
    disk: &dyn Disk,
    name: &str,
    bytes_max: u64,
) -> Result<(Vec<u8>, Unreadable), DiskError> {
    let file = disk.open(name)?;
    if file.bytes() > bytes_max {
        let why = format!("{} bytes, at most {bytes_max} are allowed", file.bytes());
        let error = std::io::Error::new(std::io::ErrorKind::FileTooLarge, why);
        return Err(DiskError::new("read", name, error));
    }
    let mut bytes = Vec::new();
    let unreadable = read_through(&*file, |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok((bytes, unreadable))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up, and cannot be read at some places.
    #[derive(Debug)]
    struct Spotty {
        bytes: u64,
        bad: Vec<u64>,
    }

    fn byte(at: u64) -> u8 {
        u8::try_from(at % 251).unwrap() + 1
    }

    impl DiskRead for Spotty {
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
    fn what_can_be_read_is_and_the_rest_is_zeros() {
        const SECTOR: u64 = SECTOR_BYTES as u64;
        const PIECE: u64 = PIECE_BYTES as u64;
        let end = 2 * PIECE + 5000;
        for (bad, wanted) in [
            (vec![], vec![]),
            (vec![0], vec![(0, SECTOR)]),
            (vec![SECTOR + 7, 2 * SECTOR], vec![(SECTOR, 3 * SECTOR)]),
            (vec![PIECE - 1, PIECE], vec![(PIECE - SECTOR, PIECE + SECTOR)]),
            (vec![9, end - 1], vec![(0, SECTOR), (2 * PIECE + SECTOR, end)]),
        ] {
            let wanted: Vec<Range<u64>> = wanted.into_iter().map(|(from, to)| from..to).collect();
            let file = Spotty { bytes: end, bad };
            let mut found = Vec::new();
            let unreadable = read_through(&file, |piece| {
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
