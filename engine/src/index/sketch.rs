//! Rows as one bit for each number: enough to tell how near a row is, within a few hundredths.
//!
//! What a row has beside its centroid is turned ([`Rotation`]) and only its signs are kept, with one number
//! by which their product with a turned question is, in the mean, the product of both (Gao and Long 2024,
//! "RaBitQ: quantizing high-dimensional vectors with a theoretical error bound for approximate nearest
//! neighbor search"). The error is that of a sum of many small parts whatever the rows are like, which is
//! why it can be measured with a few questions. Must not know which rows are looked at, nor for whom.

use std::ops::Range;

use kernels::{Kernels, LOOKUP_MAX, LOOKUP_ROWS, LookupTables};

use super::rotation::Rotation;

/// Bits of a half-byte, and so numbers of a question that one table stands for.
const BITS: usize = 4;
/// Places whose sums are made at a time.
const PLACES_TOGETHER: usize = 8 * LOOKUP_ROWS;
/// How many blocks the sketches of so many rows take.
pub(super) fn blocks_of(rows: usize) -> usize {
    rows.div_ceil(LOOKUP_ROWS)
}

/// The sketches of some rows, in the order of an index's lists.
#[derive(Clone, Copy)]
pub(crate) struct Sketches<'a> {
    /// Block after block of [`LOOKUP_ROWS`] places; in each, byte after byte of a row, those of all places.
    pub(super) bits: &'a [u8],
    /// What a row's product with signs counts.
    pub(super) scales: &'a [f32],
}

impl Sketches<'_> {
    /// About the product of a question with what each row of some places has beside its centroid: for each
    /// few places in their order, the first of them and the numbers.
    pub(crate) fn products(
        self,
        kernels: Kernels,
        question: &SketchQuestion,
        places: Range<usize>,
        mut each: impl FnMut(usize, &[f32]),
    ) {
        let block_bytes = question.tables.row_bytes() * LOOKUP_ROWS;
        let (mut sums, mut products) = ([0; PLACES_TOGETHER], [0.0; PLACES_TOGETHER]);
        let mut first = places.start;
        while first < places.end {
            let block = first / LOOKUP_ROWS;
            let end = places.end.min(block * LOOKUP_ROWS + PLACES_TOGETHER);
            let blocks = block..end.div_ceil(LOOKUP_ROWS);
            let sums = &mut sums[..blocks.len() * LOOKUP_ROWS];
            // What follows is there too, so that memory is asked for it in time.
            kernels.sum_lookups(&question.tables, &self.bits[block * block_bytes..], sums);
            let sums = &sums[first - block * LOOKUP_ROWS..];
            let products = &mut products[..end - first];
            for ((product, &sum), &scale) in
                products.iter_mut().zip(sums).zip(&self.scales[first..end])
            {
                *product = scale * (question.per_sum * f32::from(sum) - question.all);
            }
            each(first, products);
            first = end;
        }
    }
}

/// A question as sketches are compared with it.
pub(crate) struct SketchQuestion {
    /// For each four numbers of the turned question, and each choice among them, about what these come to;
    /// none is negative.
    tables: LookupTables,
    /// What an entry counts, twice: for a sign that is set, and for one that is not.
    per_sum: f32,
    /// The sum of all numbers' sizes.
    all: f32,
}

impl SketchQuestion {
    /// `question` is as wide as a row of codes.
    pub(crate) fn of(question: &[f32]) -> Self {
        let mut turned = question.to_vec();
        Rotation::new(turned.len()).turn(&mut turned);
        let fours = turned.as_chunks::<BITS>().0;
        let size = |four: &[f32; BITS]| four.iter().map(|x| x.abs()).sum::<f32>();
        // As large as they may be: all of a row's entries fit 16 bits.
        let most = (usize::from(u16::MAX) / fours.len().max(1)).min(usize::from(LOOKUP_MAX)) as f32;
        let step = fours.iter().map(size).fold(0.0, f32::max) / most;
        let tables: Vec<[u8; 1 << BITS]> = fours.iter().map(|four| table(four, step)).collect();
        let all = fours.iter().map(size).sum();
        Self { tables: LookupTables::new(&tables), per_sum: 2.0 * step, all }
    }
}

/// For each choice among four numbers, how many steps they come to above the least that any choice does.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to LOOKUP_MAX")]
fn table(four: &[f32; BITS], step: f32) -> [u8; 1 << BITS] {
    let least: f32 = four.iter().map(|x| x.min(0.0)).sum();
    std::array::from_fn(|choice| {
        let chosen = four.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1);
        let sum: f32 = chosen.map(|(_, number)| number).sum();
        ((sum - least) / step).round().clamp(0.0, f32::from(LOOKUP_MAX)) as u8
    })
}
