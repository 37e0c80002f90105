//! A segment file as bytes: which page is damaged, which byte belongs to which column.
//!
//! For those who walk a whole file, of any version, rather than read rows of it. Must not know what
//! columns mean.

use super::sealed::{Frame, check_page};
use crate::cursor::Cursor;
use crate::error::{Damage, OpenError};
use crate::layout::{COLUMN_ALIGN, ENTRY_BYTES, HEADER_BYTES};

/// Where a column lies in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) column: u16,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A segment file whose trailer, header and directory are whole.
pub(crate) struct RawFile<'a> {
    name: &'a str,
    bytes: &'a [u8],
    frame: Frame,
}

impl<'a> RawFile<'a> {
    /// Checks the file from the outside in, up to its version.
    pub(crate) fn open(name: &'a str, bytes: &'a [u8]) -> Result<Self, OpenError> {
        Ok(Self { name, bytes, frame: Frame::of(name, bytes)? })
    }

    /// Checks every page (SEG-06); gives what is wrong with each.
    pub(crate) fn wrong_pages(&self) -> impl Iterator<Item = Damage> + use<'_> {
        (0..self.frame.checks).filter_map(|page| {
            let wrong = check_page(self.bytes, self.frame.checks_at, page).err()?;
            Some(Damage::new("SEG-06", wrong.to_string()).within(self.name))
        })
    }

    /// The columns of the directory, known or not, in its order.
    pub(crate) fn extents(&self) -> Result<Vec<Extent>, Damage> {
        let directory = &self.bytes[self.frame.directory_at..self.frame.checks_at];
        let mut extents = Vec::with_capacity(self.frame.entries);
        for entry in directory.chunks_exact(ENTRY_BYTES) {
            let mut fields = Cursor::new(entry, "SEG-05");
            let column = fields.u16()?;
            fields.take(6)?;
            let (start, bytes) = (fields.u64()?, fields.u64()?);
            let end = start.checked_add(bytes).filter(|&end| end <= self.end() as u64);
            let place = usize::try_from(start).ok().zip(end.and_then(|end| end.try_into().ok()));
            let Some((start, end)) = place else {
                let detail = format!("column {column} at {start}, {bytes} bytes");
                return Err(Damage::new("SEG-08", detail).within(self.name));
            };
            extents.push(Extent { column, start, end });
        }
        Ok(extents)
    }

    /// The version of the file.
    pub(crate) fn version(&self) -> u16 {
        self.frame.version
    }

    /// Where the directory starts, and columns end.
    fn end(&self) -> usize {
        self.frame.directory_at
    }

    /// Checks that header, columns, zeros and directory are all there is before the page checks
    /// (SEG-24). Pages are the caller's to check.
    pub(crate) fn check_coverage(&self) -> Result<(), Damage> {
        let wrong = |detail: String| Damage::new("SEG-24", detail).within(self.name);
        let (mut end, mut before) = (HEADER_BYTES, 0);
        let extents = self.extents()?;
        let directory = Extent { column: 0, start: self.end(), end: self.end() };
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
    /// Checks that the columns of a segment of version 2 and zeros are all there is (SEG-24).
    pub(crate) fn check_padding(&self) -> Result<(), Damage> {
        let file = RawFile::open(self.name(), self.raw()).expect("it was opened");
        file.check_coverage()
    }
}
