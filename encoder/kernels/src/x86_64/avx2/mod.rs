//! AVX2 + FMA + F16C: eight floats at a time, sixteen registers.
//!
//! Names and meanings are those of `scalar.rs`. Functions can call one another safely because all enable the same
//! features; unsafe remains only where memory is read or written.

mod dots;
mod lanes;
mod lookups;
mod products;
mod rows;

use crate::product::Product;
use crate::scalar::reaching;
use crate::table::Table;

pub(super) use dots::{dot, dot_codes, dot_rows, prefetch};
pub(super) use lookups::store_sums;
use lookups::sum_lookups;
use products::{
    CODE_TILE_ROWS, TILE_ROWS, matmul, multiply_codes, multiply_f16, multiply_f32, prepare_codes,
    prepare_floats,
};
use rows::{add, gelu, layer_norm, softmax};

pub(crate) static TABLE: Table = Table {
    dot,
    dot_rows,
    arrange: |_, _| Vec::new(),
    dot_codes,
    reaching,
    sum_lookups,
    products: [
        Product {
            tile_rows: TILE_ROWS,
            panels_together: 2,
            cell_bytes: 4,
            prepare: prepare_floats,
            multiply: multiply_f32,
        },
        Product {
            tile_rows: TILE_ROWS,
            panels_together: 2,
            cell_bytes: 4,
            prepare: prepare_floats,
            multiply: multiply_f16,
        },
        Product {
            tile_rows: CODE_TILE_ROWS,
            panels_together: 2,
            cell_bytes: 2,
            prepare: prepare_codes,
            multiply: multiply_codes,
        },
    ],
    matmul,
    softmax,
    layer_norm,
    gelu,
    add,
};
