//! Binary codes: one bit per component of a row, which estimate its score within a few hundredths.
//!
//! A row's residual from its centroid is rotated ([`RandomRotation`]); only the signs are stored, with a scale. The
//! product of signs and a rotated query, times the scale, is on average the product of residual and query. See RaBitQ
//! (Gao and Long 2024, "RaBitQ: quantizing high-dimensional vectors with a theoretical error bound for approximate
//! nearest neighbor search"). The error is a sum of many small parts for rows of any kind, so a few sample queries
//! suffice to measure it.

use std::ops::Range;

use kernels::{Kernels, LOOKUP_MAX, LOOKUP_ROWS, LookupTables};

use super::random_rotation::RandomRotation;

/// Components of a query that one lookup table covers: the bits of a half-byte.
const BITS: usize = 4;
/// Rows whose sums are computed per call of the kernel.
const ROWS_PER_LOOKUP: usize = 8 * LOOKUP_ROWS;
/// Number of blocks that hold the binary codes of `rows` rows.
pub(super) fn block_count(rows: usize) -> usize {
    rows.div_ceil(LOOKUP_ROWS)
}

/// Binary codes of rows, in list order.
#[derive(Clone, Copy)]
pub(crate) struct BinaryCodes<'a> {
    /// Blocks of [`LOOKUP_ROWS`] rows. Within a block, the first bytes of all rows come first, then the second bytes,
    /// and so on.
    pub(super) bits: &'a [u8],
    /// Scale of each row's product with its signs.
    pub(super) scales: &'a [f32],
}

impl BinaryCodes<'_> {
    /// Estimates the product of a query with the residuals of the rows at `places`. Calls `each` for runs of rows in
    /// order, with the first position and the estimates.
    pub(crate) fn estimate_products(
        self,
        kernels: Kernels,
        question: &BinaryQuery,
        places: Range<usize>,
        mut each: impl FnMut(usize, &[f32]),
    ) {
        let block_bytes = question.tables.row_bytes() * LOOKUP_ROWS;
        let (mut sums, mut products) = ([0; ROWS_PER_LOOKUP], [0.0; ROWS_PER_LOOKUP]);
        let mut first = places.start;
        while first < places.end {
            let block = first / LOOKUP_ROWS;
            let end = places.end.min(block * LOOKUP_ROWS + ROWS_PER_LOOKUP);
            let blocks = block..end.div_ceil(LOOKUP_ROWS);
            let sums = &mut sums[..blocks.len() * LOOKUP_ROWS];
            // The slice extends past these blocks, so that the kernel can prefetch the next ones.
            kernels.sum_lookups(&question.tables, &self.bits[block * block_bytes..], sums);
            let sums = &sums[first - block * LOOKUP_ROWS..];
            let products = &mut products[..end - first];
            for ((product, &sum), &scale) in
                products.iter_mut().zip(sums).zip(&self.scales[first..end])
            {
                *product = scale * (question.step_scale * f32::from(sum) - question.abs_sum);
            }
            each(first, products);
            first = end;
        }
    }
}

/// A query prepared for comparison with binary codes.
pub(crate) struct BinaryQuery {
    /// For each group of four components of the rotated query, the quantized sum of every subset; no entry is negative.
    tables: LookupTables,
    /// Twice the value of a table step: a flipped sign changes the signed sum by twice its component.
    step_scale: f32,
    /// Sum of the absolute values of all components.
    abs_sum: f32,
}

impl BinaryQuery {
    /// `question` must be as wide as a row of codes.
    pub(crate) fn new(question: &[f32]) -> Self {
        let mut turned = question.to_vec();
        RandomRotation::new(turned.len()).rotate(&mut turned);
        let fours = turned.as_chunks::<BITS>().0;
        let size = |four: &[f32; BITS]| four.iter().map(|x| x.abs()).sum::<f32>();
        // Largest table entry at which the sum of a row's entries still fits 16 bits.
        let most = (usize::from(u16::MAX) / fours.len().max(1)).min(usize::from(LOOKUP_MAX)) as f32;
        let step = fours.iter().map(size).fold(0.0, f32::max) / most;
        let tables: Vec<[u8; 1 << BITS]> =
            fours.iter().map(|four| lookup_table(four, step)).collect();
        let all = fours.iter().map(size).sum();
        Self { tables: LookupTables::new(&tables), step_scale: 2.0 * step, abs_sum: all }
    }
}

/// Sum of each subset of four components, in steps above the smallest subset sum.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to LOOKUP_MAX")]
fn lookup_table(four: &[f32; BITS], step: f32) -> [u8; 1 << BITS] {
    let least: f32 = four.iter().map(|x| x.min(0.0)).sum();
    std::array::from_fn(|choice| {
        let chosen = four.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1);
        let sum: f32 = chosen.map(|(_, number)| number).sum();
        ((sum - least) / step).round().clamp(0.0, f32::from(LOOKUP_MAX)) as u8
    })
}
