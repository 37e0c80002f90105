//! Bytes of a sealed file: mapped from disk, or held on the heap while they are young.
//!
//! The engine's one unsafe room. Nothing here knows what the bytes mean.

use std::fs::File;
use std::io;

use bytemuck::{Pod, Zeroable};
use memmap2::Mmap;

/// One cache line; a vector of these gives heap bytes the alignment that a map has.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line([u8; 64]);

/// Bytes that start on a 64-byte boundary and grow at the end.
#[derive(Default)]
pub(crate) struct AlignedBytes {
    lines: Vec<Line>,
    length: usize,
}

impl AlignedBytes {
    /// Nothing yet, but room for `bytes`.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self { lines: Vec::with_capacity(bytes.div_ceil(64)), length: 0 }
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        self.lines.resize(end.div_ceil(64), Line::zeroed());
        bytemuck::cast_slice_mut::<Line, u8>(&mut self.lines)[self.length..end]
            .copy_from_slice(bytes);
        self.length = end;
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

/// A whole sealed file, wherever it lies. Starts on a 64-byte boundary.
pub enum FileBytes {
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
        // segments only; one is renamed into place after its last sync, and no code opens that name
        // for writing again (SEG-03): stores, this one and later ones, only ever unlink it, which a
        // map outlives. A foreign process that edits it regardless is outside what
        // format-spec/README.md promises.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self::Mapped(MappedFile(map)))
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(file) => &file.0,
            Self::Held(file) => file.0.as_slice(),
        }
    }
}

impl std::fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if matches!(self, Self::Mapped(_)) { "mapped" } else { "held" };
        write!(f, "{place} {} bytes", self.as_slice().len())
    }
}
