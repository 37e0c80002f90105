//! Bytes of a sealed file: mapped from disk, or held on the heap while they are young.
//!
//! The engine's one unsafe room. Nothing here knows what the bytes mean.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use memmap2::{Advice, Mmap};
use rustix::io::Errno;

use super::disk_read::DiskRead;
use super::filling::{Filling, Unfilled};
use crate::error::DiskError;

const LINE_BYTES: usize = 64;

/// What a huge page has, on x86-64 and on AArch64 with pages of 4 KiB. A file that is written so many
/// bytes at a time, from its start, lies in huge pages of the system's cache, where it has such.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// One cache line; a vector of these gives heap bytes the alignment that a map has.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line([u8; LINE_BYTES]);

/// Bytes that start on a 64-byte boundary and grow at the end.
#[derive(Default)]
pub(crate) struct AlignedBytes {
    lines: Vec<Line>,
    length: usize,
}

impl AlignedBytes {
    /// Nothing yet, but room for `bytes`.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self { lines: Vec::with_capacity(bytes.div_ceil(LINE_BYTES)), length: 0 }
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        // Whole lines are written once, not zeroed first: a large segment is built this way.
        let begun = self.length % LINE_BYTES;
        let room = (LINE_BYTES - begun) % LINE_BYTES;
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        if let Some(Line(last)) = self.lines.last_mut().filter(|_| room > 0) {
            last[begun..begun + first.len()].copy_from_slice(first);
        }
        let (whole, end) = rest.as_chunks::<LINE_BYTES>();
        self.lines.extend(whole.iter().map(|line| Line(*line)));
        if !end.is_empty() {
            let mut line = [0; LINE_BYTES];
            line[..end.len()].copy_from_slice(end);
            self.lines.push(Line(line));
        }
        self.length += bytes.len();
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

/// The bits of a mode that let its owner, its group or others write.
const ANY_WRITE: u32 = 0o222;

/// A sealed file, wherever it lies. Starts on a 64-byte boundary.
pub enum FileBytes {
    /// Mapped, and not all of it is here yet.
    #[doc(hidden)]
    Filling(Arc<Filling>),
    /// Mapped, shared with the page cache.
    #[doc(hidden)]
    Mapped(MappedFile),
    /// On the heap.
    #[doc(hidden)]
    Held(HeldFile),
}

/// A read-only map of a file that no longer changes.
pub struct MappedFile(Mmap);

/// A file's bytes on the heap.
pub struct HeldFile(AlignedBytes);

impl FileBytes {
    pub(crate) fn held(bytes: AlignedBytes) -> Self {
        Self::Held(HeldFile(bytes))
    }

    /// Copies `bytes` to the heap.
    pub fn copied(bytes: &[u8]) -> Self {
        let mut held = AlignedBytes::default();
        held.extend(bytes);
        Self::held(held)
    }

    /// Maps the whole of `file`.
    #[expect(unsafe_code, reason = "the one place where the engine maps a file")]
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        // SAFETY: a map is sound while nobody alters or truncates the file. `RealDisk::map` hands in
        // segments and indexes only; one is renamed into place after its last sync, and no code opens
        // that name for writing again (SEG-03, IDX-12): stores, this one and later ones, only ever
        // unlink it or, an index, rename another one over it, which a map outlives. A foreign
        // process that edits it regardless is outside what
        // format-spec/README.md promises.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self::Mapped(MappedFile(map)))
    }

    /// Maps a sealed file that is no part of a store: a regular file whose mode lets nobody write,
    /// not even its owner. Whoever makes one writes it under another name, brings it to disk, and
    /// renames it, with a mode that has no write bits from the start; from then on it is only ever
    /// removed or replaced as a whole.
    ///
    /// # Errors
    /// Where there is no such file, or its mode lets somebody write.
    #[expect(unsafe_code, reason = "the other place where the engine maps a file")]
    pub fn map_sealed(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() || about.permissions().mode() & ANY_WRITE != 0 {
            let why = "not sealed: a regular file whose mode lets nobody write is wanted";
            return Err(io::Error::other(why));
        }
        // SAFETY: a map is sound while nobody alters or truncates the file. The descriptor is that of
        // a file which, a line above, nobody could open for writing but by changing its mode first
        // (or being root), and nothing of ours ever does: a sealed file is written under another
        // name before its mode is this, and then only unlinked or renamed over, which a map outlives.
        // A foreign process that alters it regardless is outside what format-spec/README.md promises.
        let map = unsafe { Mmap::map(&file) }?;
        Ok(Self::Mapped(MappedFile(map)))
    }

    /// Has the system bring all of the file to memory and into this map.
    ///
    /// # Errors
    /// Where a page cannot be read, or is of memory that failed: its touch would end the process. A
    /// kernel before 5.14 does not say; there the first touch of each page brings it.
    pub fn populate(&self) -> io::Result<()> {
        let whole = 0..self.length();
        // First the device's work, all at once; then the tables of this process.
        self.advise(Advice::WillNeed, whole.clone());
        let Self::Mapped(file) = self else { return Ok(()) };
        match file.0.advise_range(Advice::PopulateRead, whole.start, whole.len()) {
            Err(error) if touch_ends_us(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Says that little of the file is read, here and there, and asked for by [`Self::will_need`].
    /// Left alone, each first touch of a place reads the device's whole window around it, which may
    /// be megabytes.
    pub(crate) fn is_looked_up(&self) {
        self.advise(Advice::Random, 0..self.length());
    }

    /// Says that these bytes are about to be read: what is not in memory comes in one piece.
    pub(crate) fn will_need(&self, range: Range<usize>) {
        self.advise(Advice::WillNeed, range);
    }

    /// Says that these bytes are read from one end to the other, whenever they are read.
    pub(crate) fn reads_in_order(&self, range: Range<usize>) {
        self.advise(Advice::Normal, range);
    }

    /// Says that all of these bytes are read often. A system that can, brings what it has not yet
    /// [`HUGE_PAGE_BYTES`] at a time, for which the processor needs one entry of its page tables. Gives
    /// whether the system takes such wishes.
    pub(crate) fn wants_huge_pages(&self, range: Range<usize>) -> bool {
        self.advise(Advice::HugePage, range)
    }

    /// Gives whether the system took the advice. It changes nothing but time.
    fn advise(&self, advice: Advice, range: Range<usize>) -> bool {
        match self {
            _ if range.is_empty() => false,
            Self::Mapped(file) => file.0.advise_range(advice, range.start, range.len()).is_ok(),
            Self::Filling(file) => file.advise(advice, range),
            Self::Held(_) => false,
        }
    }

    /// The bytes; of a file that fills none, until all of them are here.
    pub fn as_slice(&self) -> &[u8] {
        self.all().unwrap_or_default()
    }

    /// The bytes, if all of them are here.
    pub(crate) fn all(&self) -> Option<&[u8]> {
        match self {
            Self::Mapped(file) => Some(&file.0),
            Self::Held(file) => Some(file.0.as_slice()),
            Self::Filling(file) if file.is_whole() => file.slice(0..file.length()),
            Self::Filling(_) => None,
        }
    }

    /// How many there are, here or not.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Filling(file) => file.length(),
            other => other.as_slice().len(),
        }
    }

    /// These bytes, if they are here.
    pub(crate) fn slice(&self, bytes: Range<usize>) -> Option<&[u8]> {
        match self {
            Self::Filling(file) => file.slice(bytes),
            other => other.as_slice().get(bytes),
        }
    }

    /// Returns once these bytes are here, as those of most files are anyway.
    pub(crate) fn need(&self, bytes: Range<usize>) -> Result<(), Unfilled> {
        match self {
            Self::Filling(file) => file.need(bytes),
            _ => Ok(()),
        }
    }

    /// All of the bytes, once they are here.
    pub(crate) fn whole(&self) -> Result<&[u8], Unfilled> {
        if let Self::Filling(file) = self {
            file.need_all()?;
        }
        Ok(self.as_slice())
    }
}

/// Bytes that are in memory can always be read.
impl DiskRead for FileBytes {
    fn bytes(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let from = usize::try_from(at).ok();
        let bytes = from.and_then(|from| self.as_slice().get(from..)?.get(..into.len()));
        let short = || DiskError::new("read", "a file", io::ErrorKind::UnexpectedEof.into());
        into.copy_from_slice(bytes.ok_or_else(short)?);
        Ok(())
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl std::fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = match self {
            Self::Filling(_) => "filling",
            Self::Mapped(_) => "mapped",
            Self::Held(_) => "held",
        };
        write!(f, "{place} {} bytes", self.length())
    }
}

/// What populating says of a page whose touch would end the process (madvise(2)): the device cannot
/// read it, or its memory failed.
fn touch_ends_us(error: &io::Error) -> bool {
    let system = error.raw_os_error();
    [Errno::FAULT, Errno::HWPOISON].iter().any(|bad| system == Some(bad.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_nobody_can_write_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, [7; 5000]).unwrap();
        for mode in [0o600, 0o420, 0o402] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = FileBytes::map_sealed(&path).unwrap_err();
            assert!(error.to_string().contains("not sealed"), "{mode:o}: {error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
        let mapped = FileBytes::map_sealed(&path).unwrap();
        mapped.populate().unwrap();
        assert_eq!(mapped.as_ref(), [7; 5000]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mapped.as_ref(), [7; 5000], "a map outlives the name");
        assert!(FileBytes::map_sealed(&path).is_err());
        assert!(FileBytes::map_sealed(folder.path()).is_err());
    }

    #[test]
    fn bytes_that_grow_piece_by_piece_are_one_behind_the_other() {
        let all: Vec<u8> = (0..=255).cycle().take(1500).collect();
        for step in [1, 7, 63, 64, 65, 128, 200, 1500] {
            let mut grown = AlignedBytes::with_room(10);
            for piece in all.chunks(step) {
                grown.extend(piece);
                grown.extend(&[]);
            }
            assert_eq!(grown.as_slice(), all, "steps of {step}");
            assert!(grown.as_slice().as_ptr().addr().is_multiple_of(LINE_BYTES));
        }
    }
}
