//! Partition of rows into IVF lists, by spherical k-means (`format-spec/index.md`, Building an index).
//!
//! All products are integers and nothing is random, so every machine builds the same lists.

use std::ops::Range;

use half::f16;
use kernels::{Kernels, QUESTIONS_MAX};

use super::file::list_count;
use crate::limits::{INDEX_ROUNDS, INDEX_SAMPLE};
use crate::segment::{EmbeddingColumns, Int8Embeddings, quantize};
use crate::throttle::Throttle;

/// Rows between two throttle checks: some milliseconds.
const ROWS_PER_THROTTLE_CHECK: usize = 128;
const _: () = assert!(ROWS_PER_THROTTLE_CHECK.is_multiple_of(QUESTIONS_MAX));

/// Centroids, and the lists of the rows nearest to each.
#[derive(Debug)]
pub(super) struct IvfPartition {
    pub(super) centroids: Centroids,
    /// Start and end of each list in `rows`.
    pub(super) offsets: Vec<u32>,
    /// Row numbers, list after list, ascending within a list.
    pub(super) rows: Vec<u32>,
}

impl IvfPartition {
    /// Returns `None` if the throttle cancels.
    pub(super) fn build(
        kernels: Kernels,
        embeddings: &EmbeddingColumns<'_>,
        dimensions: u32,
        pace: &dyn Throttle,
    ) -> Option<Self> {
        let rows = NormalizedRows::new(embeddings);
        let mut centroids = Centroids::initial(&rows, dimensions, list_count(rows.len()));
        let sample = EvenSample::new(rows.len(), INDEX_SAMPLE * centroids.count());
        let mut place = CentroidAssigner { kernels, products: Vec::new() };
        for _ in 0..INDEX_ROUNDS {
            let nearest = place.assign_all(&rows, sample, &centroids, pace)?;
            centroids = centroids.recomputed(&rows, sample, &nearest);
        }
        let all = EvenSample::new(rows.len(), rows.len());
        let nearest = place.assign_all(&rows, all, &centroids, pace)?;
        centroids.rescale(&rows, &nearest, pace)?;
        let (offsets, rows) = group_by_list(&nearest, centroids.count());
        Some(Self { centroids, offsets, rows })
    }
}

/// Evenly spaced sample of the numbers below `below`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EvenSample {
    below: usize,
    count: usize,
}

impl EvenSample {
    /// Samples `count` of the numbers below `below`, or all of them if `count` is larger.
    pub(crate) fn new(below: usize, count: usize) -> Self {
        Self { below, count: count.min(below) }
    }

    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// The sampled numbers at these positions, which must be below `count`.
    fn positions(self, places: Range<usize>) -> impl Iterator<Item = usize> + Clone {
        // The product may exceed 32 bits.
        let number = move |at: usize| at as u64 * self.below as u64 / self.count as u64;
        places.map(move |at| usize::try_from(number(at)).expect("it is below `below`"))
    }

    /// All sampled numbers, ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> + Clone {
        self.positions(0..self.count)
    }
}

/// Groups rows by their nearest list: returns the offsets of the lists, and the rows.
fn group_by_list(nearest: &[u32], lists: usize) -> (Vec<u32>, Vec<u32>) {
    let mut offsets = vec![0u32; lists + 1];
    nearest.iter().for_each(|&list| offsets[list as usize + 1] += 1);
    for list in 0..lists {
        offsets[list + 1] += offsets[list];
    }
    let mut ends = offsets.clone();
    let mut rows = vec![0u32; nearest.len()];
    for (row, &list) in (0u32..).zip(nearest) {
        let end = &mut ends[list as usize];
        rows[*end as usize] = row;
        *end += 1;
    }
    (offsets, rows)
}

/// Int8 codes of rows, with the norms that scale each row to length 1.
pub(super) struct NormalizedRows<'a> {
    coded: Int8Embeddings<'a>,
    norms: &'a [f32],
}

impl<'a> NormalizedRows<'a> {
    pub(super) fn new(embeddings: &EmbeddingColumns<'a>) -> Self {
        Self { coded: embeddings.coded, norms: embeddings.norms }
    }

    pub(super) fn len(&self) -> usize {
        self.norms.len()
    }

    /// Codes per row, including the padding.
    pub(super) fn row_codes(&self) -> usize {
        self.coded.codes_per_row
    }

    /// Components of the normalized row, dequantized from its codes; the padding is zeros.
    pub(super) fn row_values(&self, row: usize) -> impl Iterator<Item = f32> {
        let factor = self.row_scale(row);
        self.codes(row).iter().map(move |&code| factor * f32::from(code))
    }

    fn codes(&self, row: usize) -> &'a [i8] {
        &self.coded.codes[row * self.coded.codes_per_row..][..self.coded.codes_per_row]
    }

    /// Value of a code step in the normalized row; 0 if the row has no direction.
    fn row_scale(&self, row: usize) -> f32 {
        let factor = self.coded.scales[row] / self.norms[row];
        if factor.is_finite() && factor > 0.0 { factor } else { 0.0 }
    }
}

/// Centroids as int8 codes. At the end, each centroid is as long as the mean projection of its rows on it.
#[derive(Debug)]
pub(super) struct Centroids {
    dimensions: usize,
    /// Codes per centroid, including the padding.
    width: usize,
    pub(super) codes: Vec<i8>,
    /// Value of a code step, per centroid.
    pub(super) scales: Vec<f32>,
}

impl Centroids {
    /// Initial centroids: evenly spaced rows.
    fn initial(rows: &NormalizedRows<'_>, dimensions: u32, lists: usize) -> Self {
        let width = rows.coded.codes_per_row;
        let (codes, scales) = (vec![0; lists * width], vec![0.0; lists]);
        let mut centroids = Self { dimensions: dimensions as usize, width, codes, scales };
        for (list, row) in EvenSample::new(rows.len(), lists).iter().enumerate() {
            centroids.put(list, rows.codes(row), rows.row_scale(row));
        }
        centroids
    }

    pub(super) fn count(&self) -> usize {
        self.scales.len()
    }

    /// Components of a centroid, dequantized; the padding is zeros.
    pub(super) fn centroid_values(&self, list: usize) -> impl Iterator<Item = f32> {
        let scale = self.scales[list];
        self.codes[list * self.width..][..self.width]
            .iter()
            .map(move |&code| scale * f32::from(code))
    }

    /// Dot product of a centroid with a vector, which must be as wide as the codes.
    pub(super) fn product(&self, list: usize, vector: &[f32]) -> f32 {
        self.centroid_values(list).zip(vector).map(|(number, x)| number * x).sum()
    }

    /// Returns the list with the largest score, given a row's integer products with all centroids.
    fn nearest(&self, products: impl Iterator<Item = i32>) -> u32 {
        let mut best = (0u32, f32::NEG_INFINITY);
        for ((list, product), &scale) in (0u32..).zip(products).zip(&self.scales) {
            let score = product as f32 * scale;
            if score > best.1 {
                best = (list, score);
            }
        }
        best.0
    }

    /// Recomputes each centroid as the mean of the sampled rows nearest to it.
    fn recomputed(self, rows: &NormalizedRows<'_>, sample: EvenSample, nearest: &[u32]) -> Self {
        let mut sums = vec![0.0f32; self.count() * self.dimensions];
        let mut sizes = vec![0u32; self.count()];
        for (row, &list) in sample.iter().zip(nearest) {
            let factor = rows.row_scale(row);
            let sum = &mut sums[list as usize * self.dimensions..][..self.dimensions];
            for (sum, &code) in sum.iter_mut().zip(rows.codes(row)) {
                *sum += factor * f32::from(code);
            }
            sizes[list as usize] += 1;
        }
        let mut moved = Self { codes: vec![0; self.codes.len()], ..self };
        let mut strays = reseed_rows(sample, nearest, &sizes).into_iter();
        for list in 0..moved.count() {
            if sizes[list] == 0 {
                if let Some(row) = strays.next() {
                    moved.put(list, rows.codes(row), rows.row_scale(row));
                }
            } else {
                moved.put_mean(list, &sums[list * moved.dimensions..][..moved.dimensions]);
            }
        }
        moved
    }

    /// Scales each centroid to the mean projection of its rows. A product with the centroid then equals the mean score
    /// of the rows of its list, and the rows' residuals are smallest. Returns `None` if the throttle cancels.
    fn rescale(
        &mut self,
        rows: &NormalizedRows<'_>,
        nearest: &[u32],
        pace: &dyn Throttle,
    ) -> Option<()> {
        let mut sums = vec![(0.0f32, 0u32); self.count()];
        for (row, &list) in nearest.iter().enumerate() {
            if row % ROWS_PER_THROTTLE_CHECK == 0 && !pace.after_work() {
                return None;
            }
            let products =
                rows.row_values(row).zip(self.centroid_values(list as usize)).map(|(x, y)| x * y);
            let (sum, count) = &mut sums[list as usize];
            (*sum, *count) = (*sum + products.sum::<f32>(), *count + 1);
        }
        for (list, (sum, count)) in sums.into_iter().enumerate() {
            let square = self.centroid_values(list).map(|x| x * x).sum::<f32>();
            let share = sum / (square * count as f32);
            self.scales[list] *= if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 };
        }
        Some(())
    }

    /// Copies a row into a centroid. A code of -128, which a corrupt segment may have, is raised to -127 (IDX-10).
    fn put(&mut self, list: usize, codes: &[i8], scale: f32) {
        let own = &mut self.codes[list * self.width..][..self.dimensions];
        for (own, &code) in own.iter_mut().zip(codes) {
            *own = code.max(-i8::MAX);
        }
        self.scales[list] = scale;
    }

    /// Sets a centroid to a sum of rows, scaled to length 1. A sum of 0 gives a centroid that is near no row.
    fn put_mean(&mut self, list: usize, sum: &[f32]) {
        let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
        let unit = |x: &f32| f16::from_f32(if length > 0.0 { x / length } else { 0.0 });
        let mean: Vec<f16> = sum.iter().map(unit).collect();
        let codes = &mut self.codes[list * self.width..][..self.width];
        self.scales[list] = quantize(&mean, codes).0;
    }
}

/// Sampled rows of the fullest list, to reseed the centroids that no row is nearest to.
fn reseed_rows(sample: EvenSample, nearest: &[u32], sizes: &[u32]) -> Vec<usize> {
    let empty = sizes.iter().filter(|&&size| size == 0).count();
    let fullest = (0u32..).zip(sizes).max_by_key(|&(_, size)| size).map_or(0, |(list, _)| list);
    let there = sample.iter().zip(nearest).filter(|&(_, &list)| list == fullest);
    let there: Vec<usize> = there.map(|(row, _)| row).collect();
    EvenSample::new(there.len(), empty).iter().map(|at| there[at]).collect()
}

/// Assigns rows to their nearest centroids; `products` is scratch space.
struct CentroidAssigner {
    kernels: Kernels,
    products: Vec<i32>,
}

impl CentroidAssigner {
    /// Returns the list of each sampled row, or `None` if the throttle cancels.
    fn assign_all(
        &mut self,
        rows: &NormalizedRows<'_>,
        which: EvenSample,
        centroids: &Centroids,
        pace: &dyn Throttle,
    ) -> Option<Vec<u32>> {
        let mut nearest = Vec::with_capacity(which.count());
        for first in (0..which.count()).step_by(QUESTIONS_MAX) {
            if first % ROWS_PER_THROTTLE_CHECK == 0 && !pace.after_work() {
                return None;
            }
            let end = (first + QUESTIONS_MAX).min(which.count());
            self.assign_block(rows, which.positions(first..end), centroids, &mut nearest);
        }
        Some(nearest)
    }

    /// Assigns up to `QUESTIONS_MAX` rows, which the kernels compare with all centroids in one pass over the centroids.
    fn assign_block(
        &mut self,
        rows: &NormalizedRows<'_>,
        which: impl Iterator<Item = usize>,
        centroids: &Centroids,
        nearest: &mut Vec<u32>,
    ) {
        let widened = |row: usize| rows.codes(row).iter().map(|&code| i16::from(code)).collect();
        let codes: Vec<Vec<i16>> = which.map(widened).collect();
        let codes: Vec<&[i16]> = codes.iter().map(Vec::as_slice).collect();
        let (queries, count) = (self.kernels.code_queries(&codes), codes.len());
        self.products.resize(centroids.count() * count, 0);
        self.kernels.dot_codes(&queries, &centroids.codes, &mut self.products);
        let of = |at: usize| self.products[at..].iter().step_by(count).copied();
        nearest.extend((0..count).map(|at| centroids.nearest(of(at))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_sample_covers_the_whole_range() {
        let spread = |below, count| EvenSample::new(below, count).iter().collect::<Vec<_>>();
        assert_eq!(spread(10, 4), [0, 2, 5, 7]);
        assert_eq!(spread(3, 9), [0, 1, 2]);
        assert_eq!(spread(0, 9), [0; 0]);
        // The largest table and sample: their product takes 45 bits.
        let largest = EvenSample::new(1 << 26, 1 << 19);
        assert_eq!(largest.positions(524_287..524_288).next(), Some(524_287 << 7));
    }
}
