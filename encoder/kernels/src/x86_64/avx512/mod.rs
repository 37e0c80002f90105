//! AVX-512 F, BW, DQ, VL and VNNI: sixteen floats or sixty-four codes at a time, thirty-two registers.
//!
//! Names and meanings are those of `scalar.rs`. Dot products of f16 rows are bound by memory, and are those of the AVX2
//! level.

mod across;
mod codes;
mod lanes;
mod lookups;
mod products;
mod questions;
mod rows;

use super::avx2;
use crate::table::Table;

pub(super) use codes::codes_of;
pub(super) use lanes::{load, mask_of};
use lookups::sum_lookups;
pub(super) use products::{CODES, FLOATS, HALVES, finish, matmul, widen, worth};
use questions::reaching;
pub(super) use questions::{arrange, dot_codes};
pub(super) use rows::{add, gelu, layer_norm, softmax};

pub(crate) static TABLE: Table = Table {
    dot: avx2::dot,
    dot_rows: avx2::dot_rows,
    arrange,
    dot_codes,
    reaching,
    sum_lookups,
    products: [FLOATS, HALVES, CODES],
    matmul,
    softmax,
    layer_norm,
    gelu,
    add,
};
