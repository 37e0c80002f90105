//! Bounds of chunks, each with the reason for its size.

limit_table::limits! {
    pub(crate) const LIMITS = [];
}

/// The length aimed at, in characters: about 256 word pieces, what the encoder reads at once.
pub(crate) const CHUNK_CHARS_TARGET: usize = 1_000;

/// No chunk is longer, in characters.
pub const CHUNK_CHARS_MAX: usize = 1_400;

/// Shorter sections join their neighbour where they may.
pub(crate) const CHUNK_CHARS_TINY: usize = 200;

const _: () =
    assert!(CHUNK_CHARS_TINY < CHUNK_CHARS_TARGET && CHUNK_CHARS_TARGET < CHUNK_CHARS_MAX);
