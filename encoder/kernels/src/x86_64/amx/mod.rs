//! AMX (Intel SDM volume 1, chapter 18): products of whole tiles, sixteen rows by sixty-four bytes.
//!
//! Everything but the products is the AVX-512 level's, and so are products of f32 weights. Weights of f16 are
//! multiplied as pairs of bfloat16 numbers: an f16 value is exactly the sum of two, and an f32 is the sum of two but
//! for its last bits. Three of the four products are computed (Henry, Tang and Heinecke 2019, "Leveraging the bfloat16
//! artificial intelligence datatype for higher-precision computations"). The compiler has no tile registers, so every
//! instruction that names one is inline assembly.

mod codes;
mod halves;
mod questions;
mod tiles;

use super::avx512;
use crate::table::Table;

pub(crate) static TABLE: Table = Table {
    products: [avx512::FLOATS, halves::PRODUCT, codes::PRODUCT],
    arrange: questions::arrange,
    dot_codes: questions::dot_codes,
    ..avx512::TABLE
};

/// Returns true if the CPU has all AMX features, and the operating system lets this process use them.
pub(super) fn is_usable() -> bool {
    tiles::are_present() && tiles::is_allowed()
}
