//! Calibration of the margins by measured recall (`format-spec/index.md`, Measuring).
//!
//! Sample queries are made from rows of the segment. Their exact neighbours are compared with the scores estimated from
//! centroids and binary codes.

use half::slice::HalfFloatSliceExt;
use kernels::Kernels;

use super::binary_quantization::{BinaryCodes, BinaryQuery};
use super::ivf::{EvenSample, IvfPartition};
use super::margins::ProbeMargins;
use crate::error::CorruptionError;
use crate::limits::{INDEX_QUESTION_ROWS_MAX, INDEX_QUESTIONS};
use crate::segment::EmbeddingColumns;
use crate::throttle::Throttle;
use crate::top_k::TopK;
use crate::total_order::TotalF32;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Exact neighbours per sample query, for which recall is stated.
    const NEIGHBOURS: usize = 10;
    /// Rows that all sample queries are compared with before the next block: their half-precision values stay in a
    /// core's cache.
    const BLOCK_ROWS: usize = 256;
}

/// Steps of a margin per unit of score.
const STEPS: f32 = 1024.0;
/// Distance, within the sampled rows, between the rows of one query; odd, so that no two queries use the same rows.
const QUERY_ROW_STRIDE: usize = 37;
impl ProbeMargins {
    /// Returns true if a row with these estimates is scored exactly at score floor `floor`.
    fn is_candidate(&self, seems: &EstimatedScores, floor: f32) -> bool {
        seems.list >= floor - self.list_margin && seems.binary >= floor - self.sketch_margin
    }
}

/// Returns `None` if the throttle cancels.
pub(super) fn calibrate(
    kernels: Kernels,
    embeddings: &EmbeddingColumns<'_>,
    clusters: &IvfPartition,
    sketches: BinaryCodes<'_>,
    pace: &dyn Throttle,
) -> Result<Option<ProbeMargins>, CorruptionError> {
    let questions = sample_queries(embeddings)?;
    let Some(near) = exact_neighbours(kernels, embeddings, &questions, pace)? else {
        return Ok(None);
    };
    let made = CalibratedIndex {
        kernels,
        clusters,
        binary_codes: sketches,
        list_positions: list_positions(clusters),
    };
    let asked: Vec<(&SampleQuery, &Vec<ExactNeighbour>)> = questions.iter().zip(&near).collect();
    let (choosing, measuring): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|(q, _)| q.is_training);
    let (mut below_list, mut below_sketch) = (Vec::new(), Vec::new());
    for (question, near) in choosing {
        if !pace.after_work() {
            return Ok(None);
        }
        let sketched = BinaryQuery::new(&question.vector);
        for (near, seems) in near.iter().zip(made.estimate(question, &sketched, near)) {
            below_list.push(near.score - seems.list);
            below_sketch.push(near.score - seems.binary);
        }
    }
    let mut measured = ProbeMargins {
        neighbours_wanted: 0,
        neighbours_found: 0,
        rows_scored_mean: 0,
        list_margin: margin(&below_list),
        sketch_margin: margin(&below_sketch),
    };
    let (count, mut looked_at) = (measuring.len() as u64, 0);
    for (question, near) in measuring {
        if !pace.after_work() {
            return Ok(None);
        }
        let Some(worst) = near.last() else { continue };
        let sketched = BinaryQuery::new(&question.vector);
        let seem = made.estimate(question, &sketched, near);
        let passes = |(near, seems): &(&ExactNeighbour, &EstimatedScores)| {
            measured.is_candidate(seems, near.score)
        };
        let found = near.iter().zip(&seem).filter(passes).count();
        measured.neighbours_wanted += u32::try_from(near.len()).expect("NEIGHBOURS bounds it");
        measured.neighbours_found += u32::try_from(found).expect("NEIGHBOURS bounds it");
        looked_at += made.rows_scored(question, &sketched, &measured, worst.score);
    }
    let mean = looked_at.div_ceil(count.max(1));
    measured.rows_scored_mean = u32::try_from(mean).expect("SEG-21 bounds a table");
    Ok(Some(measured))
}

/// Smallest non-negative multiple of a step that is at least every gap. The rounding hides the last bits of sums, in
/// which machines differ.
fn margin(below: &[f32]) -> f32 {
    (below.iter().copied().fold(0.0, f32::max) * STEPS).ceil() / STEPS
}

/// A sample query: the mean of a few rows. A query of a single row has that row as its nearest; a user's query is
/// farther from all rows, as a mean of several is.
struct SampleQuery {
    rows: Vec<usize>,
    /// Unit vector, as wide as a row of codes.
    vector: Vec<f32>,
    /// True if the query chooses the margins; false if it measures the recall.
    is_training: bool,
}

/// Makes the sample queries; fewer if the segment has few rows, or rows without direction.
fn sample_queries(embeddings: &EmbeddingColumns<'_>) -> Result<Vec<SampleQuery>, CorruptionError> {
    let rows: Vec<usize> = EvenSample::new(embeddings.len(), 2 * INDEX_QUESTIONS).iter().collect();
    let (halves, width) = (embeddings.halves_per_row, embeddings.coded.codes_per_row);
    let mut questions = Vec::new();
    for at in 0..rows.len() {
        let count = at / 2 % INDEX_QUESTION_ROWS_MAX + 1;
        let own = (0..count).map(|row| rows[(at + row * QUERY_ROW_STRIDE) % rows.len()]);
        let own: Vec<usize> = own.collect();
        let (mut vector, mut row) = (vec![0.0f32; width.max(halves)], vec![0.0f32; halves]);
        for &at in &own {
            embeddings.halves(at, at + 1)?.convert_to_f32_slice(&mut row);
            let norm = embeddings.norms[at];
            let units = row.iter().map(|x| if norm > 0.0 { x / norm } else { 0.0 });
            vector.iter_mut().zip(units).for_each(|(sum, x)| *sum += x);
        }
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > 0.0 && length.is_finite() {
            vector.iter_mut().for_each(|x| *x /= length);
            questions.push(SampleQuery { rows: own, vector, is_training: at % 2 == 0 });
        }
    }
    Ok(questions)
}

/// An exact neighbour of a sample query, with its cosine.
struct ExactNeighbour {
    row: u32,
    score: f32,
}

/// Exact neighbours of each sample query, best first, without the rows that the query is made of.
fn exact_neighbours(
    kernels: Kernels,
    embeddings: &EmbeddingColumns<'_>,
    questions: &[SampleQuery],
    pace: &dyn Throttle,
) -> Result<Option<Vec<Vec<ExactNeighbour>>>, CorruptionError> {
    let mut tops = vec![TopK::<TotalF32, u32>::new(NEIGHBOURS); questions.len()];
    let mut products = [0.0; BLOCK_ROWS];
    for first in (0..embeddings.len()).step_by(BLOCK_ROWS) {
        if !pace.after_work() {
            return Ok(None);
        }
        let end = (first + BLOCK_ROWS).min(embeddings.len());
        let (halves, norms) = (embeddings.halves(first, end)?, &embeddings.norms[first..end]);
        let products = &mut products[..end - first];
        for (question, top) in questions.iter().zip(&mut tops) {
            kernels.dot_rows(&question.vector[..embeddings.halves_per_row], halves, products);
            for ((row, &product), &norm) in (first..).zip(&*products).zip(norms) {
                if norm > 0.0 && !question.rows.contains(&row) {
                    let row = u32::try_from(row).expect("SEG-21 bounds a table");
                    top.offer(TotalF32::new(product / norm), row);
                }
            }
        }
    }
    let near = |(score, row): (TotalF32, u32)| ExactNeighbour { row, score: score.to_f32() };
    let rows = |top: TopK<TotalF32, u32>| top.into_sorted().into_iter().map(near).collect();
    Ok(Some(tops.into_iter().map(rows).collect()))
}

/// Position in list order, and list, of each row.
fn list_positions(clusters: &IvfPartition) -> Vec<(u32, u32)> {
    let mut places = vec![(0, 0); clusters.rows.len()];
    for (list, ends) in (0..).zip(clusters.offsets.windows(2)) {
        for place in ends[0]..ends[1] {
            places[clusters.rows[place as usize] as usize] = (place, list);
        }
    }
    places
}

/// Scores of a row as estimated from its list's centroid, and from its binary code.
struct EstimatedScores {
    list: f32,
    binary: f32,
}

/// The index under construction, complete but for its margins.
struct CalibratedIndex<'a> {
    kernels: Kernels,
    clusters: &'a IvfPartition,
    binary_codes: BinaryCodes<'a>,
    list_positions: Vec<(u32, u32)>,
}

impl CalibratedIndex<'_> {
    /// Estimates the scores of the exact neighbours of a query.
    fn estimate(
        &self,
        question: &SampleQuery,
        sketched: &BinaryQuery,
        near: &[ExactNeighbour],
    ) -> Vec<EstimatedScores> {
        let seems = |near: &ExactNeighbour| {
            let (place, list) = self.list_positions[near.row as usize];
            let list = self.clusters.centroids.product(list as usize, &question.vector);
            let mut sketch = list;
            let places = place as usize..place as usize + 1;
            self.binary_codes.estimate_products(self.kernels, sketched, places, |_, products| {
                sketch += products[0];
            });
            EstimatedScores { list, binary: sketch }
        };
        near.iter().map(seems).collect()
    }

    /// Number of rows that a search scores by their int8 codes, once its score floor is `worst`.
    fn rows_scored(
        &self,
        question: &SampleQuery,
        sketched: &BinaryQuery,
        measured: &ProbeMargins,
        worst: f32,
    ) -> u64 {
        let mut looked_at = 0;
        for (at, ends) in self.clusters.offsets.windows(2).enumerate() {
            let list = self.clusters.centroids.product(at, &question.vector);
            if list < worst - measured.list_margin {
                continue;
            }
            let places = ends[0] as usize..ends[1] as usize;
            self.binary_codes.estimate_products(self.kernels, sketched, places, |_, products| {
                let seem =
                    products.iter().map(|product| EstimatedScores { list, binary: list + product });
                looked_at +=
                    seem.filter(|seems| measured.is_candidate(seems, worst)).count() as u64;
            });
        }
        looked_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margin_covers_every_shortfall_and_is_not_negative() {
        assert_eq!(margin(&[0.25, 0.25 + 1e-6, -3.0]), 0.25 + 1.0 / STEPS);
        assert_eq!(margin(&[0.25]), 0.25);
        assert_eq!(margin(&[-0.5, -0.25]), 0.0);
        assert_eq!(margin(&[]), 0.0);
    }
}
