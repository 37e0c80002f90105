//! Interface to the bytes of the word columns, which are requested before use.
//!
//! Owns the trait between the full-text code and the owner of its columns. Pages and files are left to the owner, which
//! verifies the requested ranges: a query fails only on bytes that it needs.

use crate::error::CorruptionError;

/// A word column. Cheap to copy: a reference, not the bytes.
pub trait ColumnBytes: Copy {
    /// Length in bytes.
    fn size(&self) -> usize;

    /// Returns bytes `from..to`; callers guarantee `from <= to <= size`.
    ///
    /// # Errors
    /// [`CorruptionError`] if the range does not match its checksum.
    fn range(&self, from: usize, to: usize) -> Result<&[u8], CorruptionError>;
}

/// Bytes that need no check.
impl ColumnBytes for &[u8] {
    fn size(&self) -> usize {
        self.len()
    }

    fn range(&self, from: usize, to: usize) -> Result<&[u8], CorruptionError> {
        self.get(from..to)
            .ok_or_else(|| CorruptionError::new("WRD-11", format!("no bytes {from}..{to}")))
    }
}

/// Returns all bytes of a column.
pub(super) fn read_all<B: ColumnBytes>(column: &B) -> Result<&[u8], CorruptionError> {
    column.range(0, column.size())
}

/// Returns `count` bytes of a column from `from` on; `None` if the column is shorter.
pub(super) fn read_part<B: ColumnBytes>(
    column: &B,
    from: usize,
    count: usize,
) -> Result<Option<&[u8]>, CorruptionError> {
    match from.checked_add(count).filter(|to| *to <= column.size()) {
        Some(to) => column.range(from, to).map(Some),
        None => Ok(None),
    }
}
