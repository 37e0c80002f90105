//! AMX (Intel SDM volume 1, chapter 18): products of whole tiles, sixteen rows by sixty-four bytes.
//!
//! All that is not a product is the AVX-512 level's, and so are products of f32 weights. Halves are
//! multiplied as pairs of bfloat16 numbers: a half is exactly the sum of two, and an f32 is the sum
//! of two but for its last bits; three of the four products count (Henry, Tang and Heinecke 2019,
//! "Leveraging the bfloat16 artificial intelligence datatype for higher-precision computations").
//! The compiler knows no tile registers, so every instruction that names one is written out here.

mod codes;
mod halves;
mod questions;
mod tiles;

use super::avx512;
use crate::Table;

pub(crate) static TABLE: Table = Table {
    products: [avx512::FLOATS, halves::PRODUCT, codes::PRODUCT],
    arrange: questions::arrange,
    dot_codes: questions::dot_codes,
    ..avx512::TABLE
};

/// Whether the CPU has all of it, and the operating system lets this process use it.
pub(super) fn is_usable() -> bool {
    tiles::are_present() && tiles::is_allowed()
}
