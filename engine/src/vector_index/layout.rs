//! Field offsets of the index header. Mirrors `format-spec/index.md`; `engine/tests/it/spec.rs` compares the two.

macro_rules! fields {
    ($($constant:ident = $at:literal, $bytes:literal;)*) => {
        $(pub(super) const $constant: usize = $at;)*

        /// Fields of the index header that are not reserved: name, offset, bytes.
        pub const INDEX_HEADER: &[(&str, usize, usize)] =
            &[$((stringify!($constant), $at, $bytes)),*];
    };
}

fields! {
    MAGIC = 0, 8;
    READ_VERSION = 8, 2;
    WRITE_VERSION = 10, 2;
    DIMENSIONS = 12, 4;
    ROWS = 16, 4;
    LISTS = 20, 4;
    ASKED = 24, 4;
    FOUND = 28, 4;
    LOOKED_AT = 32, 4;
    LIST_MARGIN = 36, 4;
    SKETCH_MARGIN = 40, 4;
    SEGMENT_SHA256 = 64, 32;
    HEADER_CRC = 124, 4;
}

/// Bytes of the header; the first array follows it.
pub(super) const HEADER_BYTES: usize = 128;
