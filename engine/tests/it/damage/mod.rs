//! Damaged stores: bytes are read as they were written, or not at all.

mod byte_flips;
mod valid_checksums;
