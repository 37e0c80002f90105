//! Byte-level access to a segment file of any version: damaged pages, and the byte range of each column.
//!
//! For callers that scan a whole file rather than read rows. The meaning of the columns is left to these callers.

use super::reader::{SegmentLayout, check_page};
use crate::byte_reader::ByteReader;
use crate::error::{CorruptionError, OpenError};
use crate::layout::{COLUMN_ALIGN, ENTRY_BYTES, HEADER_BYTES};

/// Byte range of a column within its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnExtent {
    pub(crate) column: u16,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Segment file with intact trailer, header and directory.
pub(crate) struct RawFile<'a> {
    name: &'a str,
    bytes: &'a [u8],
    frame: SegmentLayout,
}

impl<'a> RawFile<'a> {
    /// Checks magic numbers, trailer, header and directory, up to the version.
    pub(crate) fn open(name: &'a str, bytes: &'a [u8]) -> Result<Self, OpenError> {
        Ok(Self { name, bytes, frame: SegmentLayout::read(name, bytes)? })
    }

    /// Verifies every page (SEG-06) and yields the damage of each wrong page.
    pub(crate) fn damaged_pages(&self) -> impl Iterator<Item = CorruptionError> + use<'_> {
        (0..self.frame.checks).filter_map(|page| {
            let wrong = check_page(self.bytes, self.frame.checks_at, page).err()?;
            Some(CorruptionError::new("SEG-06", wrong.to_string()).in_file(self.name))
        })
    }

    /// Returns the columns of the directory in its order, known or not.
    pub(crate) fn extents(&self) -> Result<Vec<ColumnExtent>, CorruptionError> {
        let directory = &self.bytes[self.frame.directory_at..self.frame.checks_at];
        let mut extents = Vec::with_capacity(self.frame.entries);
        for entry in directory.chunks_exact(ENTRY_BYTES) {
            let mut fields = ByteReader::new(entry, "SEG-05");
            let column = fields.u16()?;
            fields.read_slice(6)?;
            let (start, bytes) = (fields.u64()?, fields.u64()?);
            let end = start.checked_add(bytes).filter(|&end| end <= self.end() as u64);
            let place = usize::try_from(start).ok().zip(end.and_then(|end| end.try_into().ok()));
            let Some((start, end)) = place else {
                let detail = format!("column {column} at {start}, {bytes} bytes");
                return Err(CorruptionError::new("SEG-08", detail).in_file(self.name));
            };
            extents.push(ColumnExtent { column, start, end });
        }
        Ok(extents)
    }

    pub(crate) fn version(&self) -> u16 {
        self.frame.version
    }

    /// Start of the directory, which is the end of the columns.
    fn end(&self) -> usize {
        self.frame.directory_at
    }

    /// Checks that the bytes before the page checksums are exactly header, columns, zero padding and directory
    /// (SEG-24). Verifying the pages is left to the caller.
    pub(crate) fn check_coverage(&self) -> Result<(), CorruptionError> {
        let wrong = |detail: String| CorruptionError::new("SEG-24", detail).in_file(self.name);
        let (mut end, mut before) = (HEADER_BYTES, 0);
        let extents = self.extents()?;
        let directory = ColumnExtent { column: 0, start: self.end(), end: self.end() };
        for extent in extents.iter().chain([&directory]) {
            let due = end.next_multiple_of(COLUMN_ALIGN);
            if extent.start != due {
                let what = match extent.column {
                    0 => "the directory".to_owned(),
                    number => format!("column {number}"),
                };
                return Err(wrong(format!("{what} starts at {}, {due} is due", extent.start)));
            }
            if self.bytes[end..due].iter().any(|&byte| byte != 0) {
                return Err(wrong(format!(
                    "bytes {end}..{due} behind column {before} are not zero"
                )));
            }
            (end, before) = (extent.end, extent.column);
        }
        Ok(())
    }
}

#[cfg(test)]
impl super::Segment {
    /// Checks that a version 2 segment consists of its columns and zero padding (SEG-24).
    pub(crate) fn check_padding(&self) -> Result<(), CorruptionError> {
        let file = RawFile::open(self.name(), self.raw()).expect("it was opened");
        file.check_coverage()
    }
}
