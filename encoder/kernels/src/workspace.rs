//! The memory and the threads of forward passes, allocated once and reused by every pass.

use std::cell::UnsafeCell;

use bytemuck::{Pod, Zeroable};

use crate::linear::padded_depth;
use crate::panels::Panels;
use crate::team::Team;

/// Query rows that attention handles at once: their scores stay in the first-level cache.
pub(crate) const QUERY_ROWS: usize = 64;
/// Rows that a level may read past the last prepared row: a tile is loaded whole.
const ROWS_BEYOND: usize = 16;
/// Most bytes of a prepared cell: an f32, or two f16 values.
const CELL_BYTES: usize = 4;
/// Most panels that a thread splits into two bfloat16 parts, or converts to f32, at once.
pub(crate) const PANELS_WIDENED: usize = 3;
/// Bytes per depth of one such panel.
const WIDENED_BYTES: usize = 64;
/// Bytes of the sums of four AMX tiles.
const SUMS_BYTES: usize = 4096;

/// A cache line, the unit of allocation.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct CacheLine(pub(crate) [u8; 64]);

/// Floats aligned to a cache line, for rows that are read and written in whole registers: an access that spans two
/// lines takes twice as long.
#[derive(Clone)]
pub struct AlignedFloats {
    lines: Vec<CacheLine>,
    length: usize,
}

impl AlignedFloats {
    /// Allocates `length` zeros.
    pub fn zeros(length: usize) -> AlignedFloats {
        AlignedFloats { lines: zeros(length * size_of::<f32>()), length }
    }
}

impl std::ops::Deref for AlignedFloats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

impl std::ops::DerefMut for AlignedFloats {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.length]
    }
}

/// Upper bounds on everything that is computed in a [`Workspace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Rows of a product's left side.
    pub rows: usize,
    /// Width of a product's left side.
    pub depth: usize,
    /// Rows of one text in attention.
    pub text: usize,
    /// Width of one head in attention.
    pub head: usize,
}

/// Everything that a forward pass needs besides its operands: memory for prepared rows, the threads, and each thread's
/// own memory. Nothing is allocated after construction.
pub struct Workspace {
    pub(crate) reach: Reach,
    pub(crate) left: Left,
    pub(crate) team: Team,
    pub(crate) memories: Memories,
}

impl Workspace {
    /// Allocates a workspace for work within `reach`, by `threads` threads (at least one, at most
    /// [`THREADS_MAX`](crate::THREADS_MAX)), the caller's own included.
    pub fn new(reach: Reach, threads: usize) -> Workspace {
        let team = Team::of(threads);
        let each = (0..team.threads()).map(|_| UnsafeCell::new(Memory::new(reach))).collect();
        Workspace { reach, left: Left::new(reach), team, memories: Memories(each) }
    }

    /// Number of threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.team.threads()
    }
}

/// The left side of a product in a level's layout.
pub(crate) struct Left {
    pub(crate) lines: Vec<CacheLine>,
    /// Scales, one per row, for int8 products.
    pub(crate) scales: Vec<f32>,
}

impl Left {
    fn new(reach: Reach) -> Left {
        let rows = reach.rows + ROWS_BEYOND;
        let bytes = rows * padded_depth(reach.depth) * CELL_BYTES;
        Left { lines: zeros(bytes), scales: vec![0.0; rows] }
    }
}

/// Memory of one thread.
pub(crate) struct Memory {
    pub(crate) lines: Vec<CacheLine>,
    pub(crate) keys: Panels,
    pub(crate) values: Panels,
    pub(crate) scores: AlignedFloats,
    pub(crate) gathered: AlignedFloats,
}

impl Memory {
    fn new(reach: Reach) -> Memory {
        Memory {
            lines: zeros(padded_depth(reach.depth) * PANELS_WIDENED * WIDENED_BYTES + SUMS_BYTES),
            keys: Panels::with_room(reach.head, reach.text),
            values: Panels::with_room(reach.text, reach.head),
            scores: AlignedFloats::zeros(QUERY_ROWS * reach.text),
            gathered: AlignedFloats::zeros(QUERY_ROWS * reach.head),
        }
    }
}

fn zeros(bytes: usize) -> Vec<CacheLine> {
    vec![CacheLine([0; 64]); bytes.div_ceil(size_of::<CacheLine>())]
}

pub(crate) struct Memories(Vec<UnsafeCell<Memory>>);

// SAFETY: one thread at a time uses a memory, as `Memories::of` requires.
unsafe impl Sync for Memories {}

impl Memories {
    /// The memory of a thread.
    ///
    /// # Safety
    /// Nothing else uses this thread's memory while it is borrowed.
    #[expect(clippy::mut_from_ref, reason = "each thread asks for its own, once at a time")]
    pub(crate) unsafe fn of(&self, thread: usize) -> &mut Memory {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.0[thread].get() }
    }
}

/// Memory that several threads write at once, in disjoint places.
pub(crate) struct SharedSlice<T> {
    start: *mut T,
    length: usize,
}

impl<T> Clone for SharedSlice<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedSlice<T> {}

// SAFETY: the memory is a `&mut [T]` that is lent in pieces; see `piece`.
unsafe impl<T: Send> Send for SharedSlice<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedSlice<T> {}

impl<T> SharedSlice<T> {
    /// Shares all of `slice`, which MUST NOT be accessed in another way while pieces are in use.
    pub(crate) fn of(slice: &mut [T]) -> SharedSlice<T> {
        SharedSlice { start: slice.as_mut_ptr(), length: slice.len() }
    }

    /// Returns `count` elements from `first` on, to read.
    ///
    /// # Panics
    /// The elements are not inside the slice.
    ///
    /// # Safety
    /// The original slice still lives, and nothing writes these elements while they are borrowed.
    pub(crate) unsafe fn view<'a>(&self, first: usize, count: usize) -> &'a [T] {
        assert!(first.checked_add(count).is_some_and(|end| end <= self.length), "outside");
        // SAFETY: inside the slice, as just checked.
        let start = unsafe { self.start.add(first) };
        // SAFETY: inside a slice of initialized elements; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(start, count) }
    }

    /// Returns `count` elements from `first` on, to write.
    ///
    /// # Panics
    /// The elements are not inside the slice.
    ///
    /// # Safety
    /// The original slice still lives, and nothing else reads or writes these elements while they are borrowed.
    pub(crate) unsafe fn piece<'a>(&self, first: usize, count: usize) -> &'a mut [T] {
        assert!(first.checked_add(count).is_some_and(|end| end <= self.length), "outside");
        // SAFETY: inside the slice, as just checked.
        let start = unsafe { self.start.add(first) };
        // SAFETY: inside a slice of initialized elements; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start, count) }
    }
}
