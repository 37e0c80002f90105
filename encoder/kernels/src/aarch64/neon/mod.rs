//! NEON levels: four floats at a time, thirty-two registers; and the 8-bit dot product if the CPU has it.
//!
//! Names and meanings are those of `scalar.rs`. Functions can call one another safely because all enable the same
//! features; unsafe remains only where memory is read or written, and where an instruction has no stable intrinsic.
//! Tile heights follow from the number of registers. There is no prefetching, since no such CPU was available to
//! measure its gain.

mod codes;
mod dots;
mod lanes;
mod lookups;
mod products;
mod rows;

use crate::product::Product;
use crate::scalar::reaching;
use crate::table::Table;

use codes::{CODE_TILE_ROWS, DOT_TILE_ROWS, multiply_codes, multiply_codes_by_dots, prepare_codes};
use dots::{dot, dot_codes, dot_rows};
use lookups::sum_lookups;
use products::{TILE_ROWS, matmul, multiply_f16, multiply_f32, prepare_floats};
use rows::{add, gelu, layer_norm, softmax};

/// Functions that every NEON CPU can run.
pub(crate) static TABLE: Table = Table {
    dot,
    dot_rows,
    arrange: |_, _| Vec::new(),
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

/// [`TABLE`] with the dot-product instruction for int8 codes.
pub(crate) static DOT_TABLE: Table = Table { products: [FLOATS, HALVES, CODES_BY_DOTS], ..TABLE };

const FLOATS: Product = Product {
    tile_rows: TILE_ROWS,
    panels_together: 2,
    cell_bytes: 4,
    prepare: prepare_floats,
    multiply: multiply_f32,
};
const HALVES: Product = Product { multiply: multiply_f16, ..FLOATS };
const CODES: Product = Product {
    tile_rows: CODE_TILE_ROWS,
    panels_together: 2,
    cell_bytes: 1,
    prepare: prepare_codes,
    multiply: multiply_codes,
};
const CODES_BY_DOTS: Product = Product {
    tile_rows: DOT_TILE_ROWS,
    panels_together: 2,
    multiply: multiply_codes_by_dots,
    ..CODES
};
