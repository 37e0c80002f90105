//! The weights of a fully connected layer, packed for the kernels, at one of three precisions.
//!
//! A packed layer is divided into panels of [`COLUMNS`] output columns. A panel stores its columns side by side, depth
//! after depth, so that a product reads memory strictly forward; every level reads the same bytes. Depth is padded with
//! zeros to a multiple of [`DEPTH_UNIT`], width to whole panels. This module defines the layout and the conversion from
//! f32 weights, independent of files.

use half::f16;

use crate::rotate::{block_of, rotate};
use crate::rows::Rows;

/// Output columns of one panel.
pub const COLUMNS: usize = 16;
/// Multiple that the depth of a packed layer is padded to: one step of the widest integer product.
pub const DEPTH_UNIT: usize = 64;
/// Depths whose codes lie side by side in an int8 panel: the input of one 32-bit lane of an integer product.
pub const QUAD: usize = 4;
/// Largest depth of a layer: the sum of that many products of a shifted code (at most 255) and a code (127) is below
/// 2^31.
pub const DEPTH_MAX: usize = 1 << 16;
/// Largest code; codes are symmetric around zero.
pub(crate) const CODE_MAX: f32 = 127.0;

/// Storage of the weights of the fully connected layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 32-bit floats: the reference for the others.
    F32,
    /// 16-bit floats (IEEE 754 binary16), multiplied and summed as f32.
    F16,
    /// 8-bit integers with one scale per output column; activations are quantized row by row. Both sides are rotated
    /// first, which spreads outliers over a block.
    Int8,
}

impl Precision {
    /// Every precision, the most precise first.
    pub const ALL: &'static [Precision] = &[Precision::F32, Precision::F16, Precision::Int8];

    /// The precision's name in settings, files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::F16 => "f16",
            Precision::Int8 => "int8",
        }
    }

    /// Returns the precision of that name.
    pub fn named(name: &str) -> Option<Precision> {
        Precision::ALL.iter().copied().find(|precision| precision.name() == name)
    }
}

/// The packed weights of a layer.
#[derive(Clone, Copy, Debug)]
pub enum Cells<'a> {
    /// Indexed as `[panel][depth][column]`.
    F32(&'a [f32]),
    /// Indexed as `[panel][depth][column]`.
    F16(&'a [f16]),
    /// Codes, scales and offsets; see [`Codes`].
    Int8(Codes<'a>),
}

/// The weights of an int8 layer. With `H` the block Hadamard transform of the layer's depth (see `rotate.rs`), `b` its
/// block and `x` a left row, `x . w = (H x) . (H w) / b`; the codes are those of `H w`, and the scale includes the `1 /
/// b`.
#[derive(Clone, Copy, Debug)]
pub struct Codes<'a> {
    /// `[panel][depth / 4][column][4]`, each from -127 to 127.
    pub codes: &'a [i8],
    /// Factor from a sum of products of codes to a value, one per column, padding included.
    pub scales: &'a [f32],
    /// -128 times the sum of a column's codes, one per column, padding included: cancels the shift of a product whose
    /// left side was shifted into 0..=255.
    pub offsets: &'a [i32],
}

/// A borrowed fully connected layer, `depth` wide on the left and `width` on the right.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    cells: Cells<'a>,
    /// Biases, one per column, padded with zeros to whole panels.
    bias: &'a [f32],
    depth: usize,
    width: usize,
}

impl<'a> Linear<'a> {
    /// Views packed weights.
    ///
    /// # Panics
    /// The length of a slice does not match the shape, or the depth is 0 or more than [`DEPTH_MAX`].
    pub fn new(cells: Cells<'a>, bias: &'a [f32], depth: usize, width: usize) -> Linear<'a> {
        assert!((1..=DEPTH_MAX).contains(&depth), "a depth from 1 to {DEPTH_MAX}");
        let count = cells_in(depth, width);
        let columns = padded_width(width);
        assert_eq!(bias.len(), columns, "one bias per column, padding included");
        match cells {
            Cells::F32(cells) => assert_eq!(cells.len(), count, "f32 cells of the shape"),
            Cells::F16(cells) => assert_eq!(cells.len(), count, "f16 cells of the shape"),
            Cells::Int8(Codes { codes, scales, offsets }) => {
                assert_eq!(codes.len(), count, "codes of the shape");
                assert_eq!(scales.len(), columns, "one scale per column, padding included");
                assert_eq!(offsets.len(), columns, "one offset per column, padding included");
            }
        }
        Linear { cells, bias, depth, width }
    }

    /// Precision of the weights.
    pub fn precision(&self) -> Precision {
        match self.cells {
            Cells::F32(_) => Precision::F32,
            Cells::F16(_) => Precision::F16,
            Cells::Int8(_) => Precision::Int8,
        }
    }

    /// Width of a left row.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Width of a row of the product.
    pub fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn panels(&self) -> usize {
        self.bias.len() / COLUMNS
    }

    pub(crate) fn cells(&self) -> Cells<'a> {
        self.cells
    }

    /// The bytes of all cells, for prefetching.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        match self.cells {
            Cells::F32(cells) => bytemuck::cast_slice(cells),
            Cells::F16(cells) => bytemuck::cast_slice(cells),
            Cells::Int8(Codes { codes, .. }) => bytemuck::cast_slice(codes),
        }
    }

    pub(crate) fn panel_bytes(&self) -> usize {
        self.bytes().len() / self.panels().max(1)
    }

    /// Returns the first column of `panel` in a row of the product, and the number of its columns without padding.
    pub(crate) fn columns(&self, panel: usize) -> (usize, usize) {
        let first = panel * COLUMNS;
        (first, COLUMNS.min(self.width - first))
    }

    pub(crate) fn bias(&self, panel: usize) -> &'a [f32; COLUMNS] {
        &self.bias.as_chunks::<COLUMNS>().0[panel]
    }
}

/// Depth of a packed layer: `depth` rounded up to whole units.
pub fn padded_depth(depth: usize) -> usize {
    depth.next_multiple_of(DEPTH_UNIT)
}

/// Width of a packed layer: `width` rounded up to whole panels.
pub fn padded_width(width: usize) -> usize {
    width.next_multiple_of(COLUMNS)
}

/// Number of cells of a packed layer.
pub fn cells_in(depth: usize, width: usize) -> usize {
    padded_depth(depth) * padded_width(width)
}

/// Panel `panel` of f32 or f16 cells: one line of columns per depth, without padding.
pub(crate) fn lines<T>(cells: &[T], panel: usize, depth: usize) -> &[[T; COLUMNS]] {
    &cells.as_chunks::<COLUMNS>().0[panel * padded_depth(depth)..][..depth]
}

/// Bytes in one line of an int8 panel.
pub(crate) const QUAD_LINE: usize = COLUMNS * QUAD;

/// Panel `panel` of codes: one line of columns, four depths each, per quad of depth, without the padding beyond the
/// last quad.
pub(crate) fn quad_lines(codes: &[i8], panel: usize, depth: usize) -> &[[i8; QUAD_LINE]] {
    let lines = padded_depth(depth) / QUAD;
    &codes.as_chunks::<QUAD_LINE>().0[panel * lines..][..depth.div_ceil(QUAD)]
}

/// A packed layer that owns its cells.
#[derive(Clone, Debug)]
pub struct PackedLinear {
    /// The weights.
    pub cells: PackedCells,
    /// Biases, one per column, padding included.
    pub bias: Vec<f32>,
    depth: usize,
    width: usize,
}

/// The weights of a [`PackedLinear`]; see [`Cells`].
#[derive(Clone, Debug)]
pub enum PackedCells {
    /// See [`Cells::F32`].
    F32(Vec<f32>),
    /// See [`Cells::F16`].
    F16(Vec<f16>),
    /// See [`Codes`].
    Int8 {
        /// See [`Codes::codes`].
        codes: Vec<i8>,
        /// See [`Codes::scales`].
        scales: Vec<f32>,
        /// See [`Codes::offsets`].
        offsets: Vec<i32>,
    },
}

impl PackedLinear {
    /// Packs a layer: row `n` of `weights` makes output column `n`, to which `bias[n]` is added. At [`Precision::F16`],
    /// weights of magnitude 65,520 and more become infinite; the caller MUST reject them first.
    ///
    /// # Panics
    /// The number of biases differs from the number of rows of weights.
    pub fn pack(precision: Precision, weights: Rows<'_>, bias: &[f32]) -> PackedLinear {
        assert_eq!(weights.count(), bias.len(), "one bias per output");
        let (depth, width) = (weights.width(), weights.count());
        let mut padded = bias.to_vec();
        padded.resize(padded_width(width), 0.0);
        let cells = match precision {
            Precision::F32 => PackedCells::F32(in_panels(weights, 0.0, |cell| cell)),
            Precision::F16 => PackedCells::F16(in_panels(weights, f16::ZERO, f16::from_f32)),
            Precision::Int8 => codes_of(weights),
        };
        PackedLinear { cells, bias: padded, depth, width }
    }

    /// Borrows the layer.
    pub fn view(&self) -> Linear<'_> {
        let cells = match &self.cells {
            PackedCells::F32(cells) => Cells::F32(cells),
            PackedCells::F16(cells) => Cells::F16(cells),
            PackedCells::Int8 { codes, scales, offsets } => {
                Cells::Int8(Codes { codes, scales, offsets })
            }
        };
        Linear::new(cells, &self.bias, self.depth, self.width)
    }
}

fn in_panels<T: Copy>(weights: Rows<'_>, zero: T, convert: impl Fn(f32) -> T) -> Vec<T> {
    let depth = weights.width();
    let mut cells = vec![zero; cells_in(depth, weights.count())];
    let (lines, _) = cells.as_chunks_mut::<COLUMNS>();
    for (panel, lines) in lines.chunks_exact_mut(padded_depth(depth).max(1)).enumerate() {
        let first = panel * COLUMNS;
        for n in first..weights.count().min(first + COLUMNS) {
            for (line, cell) in lines.iter_mut().zip(weights.row(n)) {
                line[n - first] = convert(*cell);
            }
        }
    }
    cells
}

fn codes_of(weights: Rows<'_>) -> PackedCells {
    let (depth, width) = (weights.width(), weights.count());
    let mut codes = vec![0; cells_in(depth, width)];
    let mut scales = vec![0.0; padded_width(width)];
    let mut offsets = vec![0; padded_width(width)];
    let mut rotated = vec![0.0; depth];
    let mut column = vec![0; depth];
    let panel_bytes = padded_depth(depth) * COLUMNS;
    for n in 0..width {
        let worth = turned_codes(weights.row(n), &mut rotated, &mut column);
        scales[n] = worth / block_of(depth) as f32;
        offsets[n] = -128 * column.iter().map(|&code| i32::from(code)).sum::<i32>();
        let panel = &mut codes[n / COLUMNS * panel_bytes..][..panel_bytes];
        for (k, &code) in column.iter().enumerate() {
            panel[k / QUAD * QUAD_LINE + n % COLUMNS * QUAD + k % QUAD] = code;
        }
    }
    PackedCells::Int8 { codes, scales, offsets }
}

/// Rotates a row into `turned`, quantizes the result into `codes` and returns the scale. All three slices are equally
/// long. Inlined, so that the caller's instructions are used; every level returns the same bits.
#[inline(always)]
pub(crate) fn turned_codes(row: &[f32], turned: &mut [f32], codes: &mut [i8]) -> f32 {
    turned.copy_from_slice(row);
    rotate(turned);
    quantize(turned, codes)
}

/// Quantizes a row and returns the scale: the largest magnitude becomes code 127. The scale of zeros is zero. Inlined,
/// so that the caller's instructions are used; every level returns the same bits.
#[inline(always)]
fn quantize(row: &[f32], codes: &mut [i8]) -> f32 {
    let top = largest(row);
    let per_unit = per_unit(top);
    for (code, x) in codes.iter_mut().zip(row) {
        // In a float of this magnitude the last place is one, so the addition rounds to an integer, ties to even. The
        // integer is in the low bits; since |x| <= top, eight bits are enough.
        let [low, ..] = (x * per_unit + ROUNDER).to_bits().to_le_bytes();
        *code = low.cast_signed();
    }
    top / CODE_MAX
}

/// Returns the factor from values to codes for a row whose largest magnitude is `top`.
pub(crate) fn per_unit(top: f32) -> f32 {
    // If a row is so near zero that the factor is infinite, the row is quantized as zeros.
    let per_unit = CODE_MAX / top;
    if per_unit.is_finite() { per_unit } else { 0.0 }
}

/// 1.5 * 2^23.
const ROUNDER: f32 = 12_582_912.0;

#[inline(always)]
fn largest(row: &[f32]) -> f32 {
    const LANES: usize = 16;
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (groups, rest) = row.as_chunks::<LANES>();
    let mut tops = [0.0; LANES];
    for group in groups {
        for (top, x) in tops.iter_mut().zip(group) {
            *top = larger(*top, x.abs());
        }
    }
    tops.into_iter().chain(rest.iter().map(|x| x.abs())).fold(0.0, larger)
}
