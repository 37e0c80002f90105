//! Bytes of a sealed file, mapped from disk or on the heap.
//!
//! All mappings of the engine are created here or in `lazy_file`, the only modules with unsafe code.

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
use super::lazy_file::{LazyFile, PageFetchError};
use crate::error::DiskError;

const LINE_BYTES: usize = 64;

/// Bytes of a huge page, on x86-64 and on AArch64 with pages of 4 KiB. A file written from its start in chunks of this
/// size is in huge pages of the page cache, if the system supports them there.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Cache line; a vector of lines has the alignment of a mapping.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct CacheLine([u8; LINE_BYTES]);

/// Growable bytes on the heap, aligned to 64 bytes.
#[derive(Default)]
pub(crate) struct AlignedBytes {
    lines: Vec<CacheLine>,
    length: usize,
}

impl AlignedBytes {
    /// Creates an empty value with capacity for `bytes` bytes.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self { lines: Vec::with_capacity(bytes.div_ceil(LINE_BYTES)), length: 0 }
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        // Whole lines are written once and not zeroed first, as large segments are built this way.
        let begun = self.length % LINE_BYTES;
        let room = (LINE_BYTES - begun) % LINE_BYTES;
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        if let Some(CacheLine(last)) = self.lines.last_mut().filter(|_| room > 0) {
            last[begun..begun + first.len()].copy_from_slice(first);
        }
        let (whole, end) = rest.as_chunks::<LINE_BYTES>();
        self.lines.extend(whole.iter().map(|line| CacheLine(*line)));
        if !end.is_empty() {
            let mut line = [0; LINE_BYTES];
            line[..end.len()].copy_from_slice(end);
            self.lines.push(CacheLine(line));
        }
        self.length += bytes.len();
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

/// Mode bits that permit the owner, the group or others to write.
const ANY_WRITE: u32 = 0o222;

/// Bytes of a sealed file in any storage, aligned to 64 bytes.
pub enum FileBytes {
    /// Mapped, and partially present.
    #[doc(hidden)]
    Lazy(Arc<LazyFile>),
    /// Mapped, shared with the page cache.
    #[doc(hidden)]
    Mapped(MappedFile),
    /// On the heap.
    #[doc(hidden)]
    Heap(HeapFile),
}

/// Read-only map of a file that no longer changes.
pub struct MappedFile(Mmap);

/// Bytes of a file on the heap.
pub struct HeapFile(AlignedBytes);

impl FileBytes {
    pub(crate) fn from_heap(bytes: AlignedBytes) -> Self {
        Self::Heap(HeapFile(bytes))
    }

    /// Copies `bytes` to the heap.
    pub fn copy_from(bytes: &[u8]) -> Self {
        let mut held = AlignedBytes::default();
        held.extend(bytes);
        Self::from_heap(held)
    }

    /// Maps the whole of `file`.
    #[expect(unsafe_code, reason = "the one place where the engine maps a file")]
    pub(crate) fn map(file: &File) -> io::Result<Self> {
        // SAFETY: a map is sound while no one alters or truncates the file. `FsDisk::map` passes only segments and
        // indexes. A segment or index is renamed into place after its last sync, and no code opens that name for
        // writing again (SEG-03, IDX-12): this store and later ones only unlink it or, for an index, rename another
        // file over it, which a map outlives. A foreign process that edits the file regardless is outside the promises
        // of format-spec/README.md.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self::Mapped(MappedFile(map)))
    }

    /// Maps a sealed file that is not part of a store: a regular file whose mode permits no writes, not even by its
    /// owner. The creator must write and sync the file under another name, without write bits in its mode from the
    /// start, and then rename it. After that the file may only be removed or replaced as a whole.
    ///
    /// # Errors
    /// The file is missing, is not a regular file, or its mode permits writes.
    #[expect(unsafe_code, reason = "the other place where the engine maps a file")]
    pub fn map_sealed(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() || about.permissions().mode() & ANY_WRITE != 0 {
            let why = "not sealed: a regular file whose mode lets nobody write is wanted";
            return Err(io::Error::other(why));
        }
        // SAFETY: a map is sound while no one alters or truncates the file. As checked above, no one could open this
        // file for writing without changing its mode first (or being root), and our code never does: a sealed file is
        // written under another name before it gets this mode, and is then only unlinked or renamed over, which a map
        // outlives. A foreign process that alters the file regardless is outside the promises of format-spec/README.md.
        let map = unsafe { Mmap::map(&file) }?;
        Ok(Self::Mapped(MappedFile(map)))
    }

    /// Reads the whole file into memory and into this map's page tables.
    ///
    /// # Errors
    /// A page cannot be read, or its memory failed: its touch would end the process. A kernel before 5.14 does not
    /// report this; there the first touch reads each page.
    pub fn populate(&self) -> io::Result<()> {
        let whole = 0..self.length();
        // First the reads of the device, all at once; then the page tables of this process.
        self.advise(Advice::WillNeed, whole.clone());
        let Self::Mapped(file) = self else { return Ok(()) };
        match file.0.advise_range(Advice::PopulateRead, whole.start, whole.len()) {
            Err(error) if is_fatal_when_touched(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Advises that few, scattered ranges of the file are read, each announced by [`Self::advise_will_need`]. Without
    /// this advice, each first touch reads the device's whole read-ahead window, possibly megabytes.
    pub(crate) fn advise_random(&self) {
        self.advise(Advice::Random, 0..self.length());
    }

    /// Advises that these bytes are read soon: absent pages are loaded in one read.
    pub(crate) fn advise_will_need(&self, range: Range<usize>) {
        self.advise(Advice::WillNeed, range);
    }

    /// Advises that these bytes are read sequentially.
    pub(crate) fn advise_sequential(&self, range: Range<usize>) {
        self.advise(Advice::Normal, range);
    }

    /// Advises that all of these bytes are read often. If supported, the system loads absent bytes [`HUGE_PAGE_BYTES`]
    /// at a time, each covered by one page table entry. Returns true if the system accepts the advice.
    pub(crate) fn advise_huge_pages(&self, range: Range<usize>) -> bool {
        self.advise(Advice::HugePage, range)
    }

    /// Passes advice to the system, which affects only performance. Returns true if the system accepted the advice.
    fn advise(&self, advice: Advice, range: Range<usize>) -> bool {
        match self {
            _ if range.is_empty() => false,
            Self::Mapped(file) => file.0.advise_range(advice, range.start, range.len()).is_ok(),
            Self::Lazy(file) => file.advise(advice, range),
            Self::Heap(_) => false,
        }
    }

    /// All bytes; empty while a lazy file is not completely present.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes_if_complete().unwrap_or_default()
    }

    /// Returns all bytes if they are present.
    pub(crate) fn bytes_if_complete(&self) -> Option<&[u8]> {
        match self {
            Self::Mapped(file) => Some(&file.0),
            Self::Heap(file) => Some(file.0.as_slice()),
            Self::Lazy(file) if file.is_complete() => file.slice(0..file.length()),
            Self::Lazy(_) => None,
        }
    }

    /// Length in bytes, including absent ones.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Lazy(file) => file.length(),
            other => other.as_slice().len(),
        }
    }

    /// Returns these bytes if they are present.
    pub(crate) fn slice(&self, bytes: Range<usize>) -> Option<&[u8]> {
        match self {
            Self::Lazy(file) => file.slice(bytes),
            other => other.as_slice().get(bytes),
        }
    }

    /// Blocks until these bytes are present, which those of most files always are.
    pub(crate) fn ensure_present(&self, bytes: Range<usize>) -> Result<(), PageFetchError> {
        match self {
            Self::Lazy(file) => file.ensure_present(bytes),
            _ => Ok(()),
        }
    }

    /// Blocks until all bytes are present, and returns them.
    pub(crate) fn ensure_complete(&self) -> Result<&[u8], PageFetchError> {
        if let Self::Lazy(file) = self {
            file.ensure_complete()?;
        }
        Ok(self.as_slice())
    }
}

/// Reads from memory, so only a range past the end fails.
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
            Self::Lazy(_) => "filling",
            Self::Mapped(_) => "mapped",
            Self::Heap(_) => "held",
        };
        write!(f, "{place} {} bytes", self.length())
    }
}

/// Returns true for errors of `MADV_POPULATE_READ` that mean that a touch would end the process (madvise(2)): the
/// device cannot read the page, or its memory failed.
fn is_fatal_when_touched(error: &io::Error) -> bool {
    let system = error.raw_os_error();
    [Errno::FAULT, Errno::HWPOISON].iter().any(|bad| system == Some(bad.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_file_is_not_mapped() {
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
    fn aligned_bytes_append_contiguously() {
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
