//! Byte positions of the word columns. Mirror of format-spec/words.md.
//!
//! Owns sizes, limits and the length code; the search of postings is left to other modules.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum length of a term in bytes. A longer word is truncated; a longer compound is omitted.
    pub const TERM_BYTES_MAX: usize = 64;
    /// Maximum number of indexed words per row (title and body together); the rest is ignored.
    pub const ROW_TERMS_MAX: usize = 65_536;
    /// Maximum number of postings per segment. Keeps all offsets within 32 bits: a posting takes at most 6 bytes.
    pub const SEGMENT_POSTINGS_MAX: usize = 1 << 28;
}

/// Postings of a full block.
pub(super) const BLOCK_ROWS: usize = 128;
/// Size of the head of `entries`.
pub(super) const HEAD_BYTES: usize = 32;
/// Size of one entry.
pub(super) const ENTRY_BYTES: usize = 12;
/// Size of one row of `blocks`.
pub(super) const BLOCK_BYTES: usize = 24;
/// Classes of postings; a block has one impact per class.
pub(super) const IMPACT_CLASSES: usize = 4;
/// Maximum bit width of a packed row step.
pub(super) const ROW_BITS_MAX: u8 = 32;
/// Maximum bit width of a packed count.
pub(super) const COUNT_BITS_MAX: u8 = 8;
pub(super) const LENGTH_CODES: usize = 256;

const _: () = assert!(SEGMENT_POSTINGS_MAX as u64 * 6 <= u32::MAX as u64);
const _: () = assert!(BLOCK_BYTES == 12 + 3 * IMPACT_CLASSES);

/// Word columns of one segment, as bytes to be stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FulltextColumns {
    /// Dictionary from terms to ordinals.
    pub dictionary: Vec<u8>,
    /// Head and one entry per ordinal.
    pub entries: Vec<u8>,
    /// Block heads of the long lists.
    pub blocks: Vec<u8>,
    /// Packed rows and counts.
    pub postings: Vec<u8>,
    /// Length code of each row.
    pub lengths: Vec<u8>,
}

impl FulltextColumns {
    /// Borrows the columns.
    pub fn as_ref(&self) -> FulltextColumnsRef<&[u8]> {
        FulltextColumnsRef {
            dictionary: &self.dictionary,
            entries: &self.entries,
            blocks: &self.blocks,
            postings: &self.postings,
            lengths: &self.lengths,
        }
    }
}

/// Word columns in place, as [`ColumnBytes`](super::ColumnBytes), with the fields of [`FulltextColumns`].
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the fields are those of WordColumns")]
pub struct FulltextColumnsRef<B> {
    pub dictionary: B,
    pub entries: B,
    pub blocks: B,
    pub postings: B,
    pub lengths: B,
}

/// Reads four bytes at `at` as a number; `None` if `bytes` is too short.
pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let cell = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(cell.try_into().ok()?))
}

/// Bounds of one class of postings: maximum `body` and `title` counts, minimum length code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Impact {
    pub(super) body: u8,
    pub(super) title: u8,
    pub(super) length: u8,
}

/// Returns the class of a posting. With separate classes, a long text with many counts does not raise the bound of
/// short texts in the same block.
pub(super) fn impact_class(body: u8, title: u8) -> usize {
    match (body, title) {
        (0 | 1, 0) => 0,
        (2, 0) => 1,
        (_, 0) => 2,
        _ => 3,
    }
}

/// Returns the code of the greatest length that does not exceed `length`.
pub(super) fn length_code(length: u32) -> u8 {
    if length < 32 {
        return u8::try_from(length).expect("below 32");
    }
    let shift = 27 - length.leading_zeros();
    let code = 16 * (shift + 1) + ((length >> shift) & 15);
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Returns the length that a code represents.
pub(super) const fn decode_length(code: u8) -> u32 {
    let code = code as u32;
    if code < 32 { code } else { (16 + code % 16) << (code / 16 - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_codes_roundtrip() {
        for code in 0..=u8::MAX {
            assert_eq!(length_code(decode_length(code)), code);
        }
        for length in 1..600_000_u32 {
            let decoded = decode_length(length_code(length));
            assert!(decoded <= length);
            assert!(
                decoded == 507_904 || decoded + decoded / 16 >= length,
                "{length} became {decoded}"
            );
        }
        assert_eq!(decode_length(u8::MAX), 507_904);
    }
}
