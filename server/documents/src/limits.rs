//! Limits of chunks, each with its reason.

limit_table::limits! {
    pub(crate) const LIMITS = [];
}

/// Target length in characters: about 256 word pieces, the encoder's input size.
pub(crate) const CHUNK_CHARS_TARGET: usize = 1_000;

/// Maximum length in characters.
pub const CHUNK_CHARS_MAX: usize = 1_400;

/// Length in characters below which a section joins a neighbour if possible.
pub(crate) const CHUNK_CHARS_TINY: usize = 200;

const _: () =
    assert!(CHUNK_CHARS_TINY < CHUNK_CHARS_TARGET && CHUNK_CHARS_TARGET < CHUNK_CHARS_MAX);
