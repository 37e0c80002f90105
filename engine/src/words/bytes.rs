//! Columns as this room sees them: bytes that are asked for before they are used.
//!
//! Owns the trait between the words and whoever holds their columns. Must not know pages or files:
//! the holder checks what is asked for, so a question fails only on the bytes that it needs.

use crate::error::Damage;

/// One word column. Cheap to copy: it is a place, not the bytes.
pub trait Bytes: Copy {
    /// Length in bytes.
    fn size(&self) -> usize;

    /// Bytes `from..to`; this room asks only for `from <= to <= size`.
    ///
    /// # Errors
    /// [`Damage`] when the holder finds them changed.
    fn range(&self, from: usize, to: usize) -> Result<&[u8], Damage>;
}

/// Bytes that need no check.
impl Bytes for &[u8] {
    fn size(&self) -> usize {
        self.len()
    }

    fn range(&self, from: usize, to: usize) -> Result<&[u8], Damage> {
        self.get(from..to).ok_or_else(|| Damage::new("WRD-11", format!("no bytes {from}..{to}")))
    }
}

/// All bytes of a column.
pub(super) fn all<B: Bytes>(column: &B) -> Result<&[u8], Damage> {
    column.range(0, column.size())
}

/// `count` bytes of a column from `from` on, or `None` when it ends before.
pub(super) fn part<B: Bytes>(
    column: &B,
    from: usize,
    count: usize,
) -> Result<Option<&[u8]>, Damage> {
    match from.checked_add(count).filter(|to| *to <= column.size()) {
        Some(to) => column.range(from, to).map(Some),
        None => Ok(None),
    }
}
