//! Calibration of the margins by measured recall (`format-spec/index.md`, Measuring).
//!
//! Sample queries are made from rows of the segment. Their exact neighbours are compared with the scores estimated from
//! centroids and binary codes.

use half::slice::HalfFloatSliceExt;
use kernels::Kernels;

use super::clusters::{Clusters, Spread};
use super::measurement::Measured;
use super::sketch::{SketchQuestion, Sketches};
use crate::error::Damage;
use crate::limits::{INDEX_QUESTION_ROWS_MAX, INDEX_QUESTIONS};
use crate::ordered::Ordered;
use crate::pace::Pace;
use crate::segment::Embeddings;
use crate::top::Top;

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
const ROWS_APART: usize = 37;
impl Measured {
    /// Returns true if a row with these estimates is scored exactly at score floor `floor`.
    fn passes(&self, seems: &Seems, floor: f32) -> bool {
        seems.list >= floor - self.list_margin && seems.sketch >= floor - self.sketch_margin
    }
}

/// Returns `None` if the throttle cancels.
pub(super) fn measure(
    kernels: Kernels,
    embeddings: &Embeddings<'_>,
    clusters: &Clusters,
    sketches: Sketches<'_>,
    pace: &dyn Pace,
) -> Result<Option<Measured>, Damage> {
    let questions = questions(embeddings)?;
    let Some(near) = nearest(kernels, embeddings, &questions, pace)? else { return Ok(None) };
    let made = Made { kernels, clusters, sketches, places: places_of(clusters) };
    let asked: Vec<(&Question, &Vec<Near>)> = questions.iter().zip(&near).collect();
    let (choosing, measuring): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(q, _)| q.chooses);
    let (mut below_list, mut below_sketch) = (Vec::new(), Vec::new());
    for (question, near) in choosing {
        if !pace.worked() {
            return Ok(None);
        }
        let sketched = SketchQuestion::of(&question.vector);
        for (near, seems) in near.iter().zip(made.seem(question, &sketched, near)) {
            below_list.push(near.score - seems.list);
            below_sketch.push(near.score - seems.sketch);
        }
    }
    let mut measured = Measured {
        asked: 0,
        found: 0,
        looked_at: 0,
        list_margin: margin(&below_list),
        sketch_margin: margin(&below_sketch),
    };
    let (count, mut looked_at) = (measuring.len() as u64, 0);
    for (question, near) in measuring {
        if !pace.worked() {
            return Ok(None);
        }
        let Some(worst) = near.last() else { continue };
        let sketched = SketchQuestion::of(&question.vector);
        let seem = made.seem(question, &sketched, near);
        let passes = |(near, seems): &(&Near, &Seems)| measured.passes(seems, near.score);
        let found = near.iter().zip(&seem).filter(passes).count();
        measured.asked += u32::try_from(near.len()).expect("NEIGHBOURS bounds it");
        measured.found += u32::try_from(found).expect("NEIGHBOURS bounds it");
        looked_at += made.looked_at(question, &sketched, &measured, worst.score);
    }
    let mean = looked_at.div_ceil(count.max(1));
    measured.looked_at = u32::try_from(mean).expect("SEG-21 bounds a table");
    Ok(Some(measured))
}

/// Smallest non-negative multiple of a step that is at least every gap. The rounding hides the last bits of sums, in
/// which machines differ.
fn margin(below: &[f32]) -> f32 {
    (below.iter().copied().fold(0.0, f32::max) * STEPS).ceil() / STEPS
}

/// A sample query: the mean of a few rows. A query of a single row has that row as its nearest; a user's query is
/// farther from all rows, as a mean of several is.
struct Question {
    rows: Vec<usize>,
    /// Unit vector, as wide as a row of codes.
    vector: Vec<f32>,
    /// True if the query chooses the margins; false if it measures the recall.
    chooses: bool,
}

/// Makes the sample queries; fewer if the segment has few rows, or rows without direction.
fn questions(embeddings: &Embeddings<'_>) -> Result<Vec<Question>, Damage> {
    let rows: Vec<usize> = Spread::of(embeddings.len(), 2 * INDEX_QUESTIONS).all().collect();
    let (halves, width) = (embeddings.row_halves, embeddings.coded.row_codes);
    let mut questions = Vec::new();
    for at in 0..rows.len() {
        let count = at / 2 % INDEX_QUESTION_ROWS_MAX + 1;
        let own = (0..count).map(|row| rows[(at + row * ROWS_APART) % rows.len()]);
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
            questions.push(Question { rows: own, vector, chooses: at % 2 == 0 });
        }
    }
    Ok(questions)
}

/// An exact neighbour of a sample query, with its cosine.
struct Near {
    row: u32,
    score: f32,
}

/// Exact neighbours of each sample query, best first, without the rows that the query is made of.
fn nearest(
    kernels: Kernels,
    embeddings: &Embeddings<'_>,
    questions: &[Question],
    pace: &dyn Pace,
) -> Result<Option<Vec<Vec<Near>>>, Damage> {
    let mut tops = vec![Top::<Ordered, u32>::new(NEIGHBOURS); questions.len()];
    let mut products = [0.0; BLOCK_ROWS];
    for first in (0..embeddings.len()).step_by(BLOCK_ROWS) {
        if !pace.worked() {
            return Ok(None);
        }
        let end = (first + BLOCK_ROWS).min(embeddings.len());
        let (halves, norms) = (embeddings.halves(first, end)?, &embeddings.norms[first..end]);
        let products = &mut products[..end - first];
        for (question, top) in questions.iter().zip(&mut tops) {
            kernels.dot_rows(&question.vector[..embeddings.row_halves], halves, products);
            for ((row, &product), &norm) in (first..).zip(&*products).zip(norms) {
                if norm > 0.0 && !question.rows.contains(&row) {
                    let row = u32::try_from(row).expect("SEG-21 bounds a table");
                    top.offer(Ordered::of(product / norm), row);
                }
            }
        }
    }
    let near = |(score, row): (Ordered, u32)| Near { row, score: score.number() };
    let rows = |top: Top<Ordered, u32>| top.into_sorted().into_iter().map(near).collect();
    Ok(Some(tops.into_iter().map(rows).collect()))
}

/// Position in list order, and list, of each row.
fn places_of(clusters: &Clusters) -> Vec<(u32, u32)> {
    let mut places = vec![(0, 0); clusters.rows.len()];
    for (list, ends) in (0..).zip(clusters.offsets.windows(2)) {
        for place in ends[0]..ends[1] {
            places[clusters.rows[place as usize] as usize] = (place, list);
        }
    }
    places
}

/// Scores of a row as estimated from its list's centroid, and from its binary code.
struct Seems {
    list: f32,
    sketch: f32,
}

/// The index under construction, complete but for its margins.
struct Made<'a> {
    kernels: Kernels,
    clusters: &'a Clusters,
    sketches: Sketches<'a>,
    places: Vec<(u32, u32)>,
}

impl Made<'_> {
    /// Estimates the scores of the exact neighbours of a query.
    fn seem(&self, question: &Question, sketched: &SketchQuestion, near: &[Near]) -> Vec<Seems> {
        let seems = |near: &Near| {
            let (place, list) = self.places[near.row as usize];
            let list = self.clusters.centroids.product(list as usize, &question.vector);
            let mut sketch = list;
            let places = place as usize..place as usize + 1;
            self.sketches.products(self.kernels, sketched, places, |_, products| {
                sketch += products[0];
            });
            Seems { list, sketch }
        };
        near.iter().map(seems).collect()
    }

    /// Number of rows that a search scores by their int8 codes, once its score floor is `worst`.
    fn looked_at(
        &self,
        question: &Question,
        sketched: &SketchQuestion,
        measured: &Measured,
        worst: f32,
    ) -> u64 {
        let mut looked_at = 0;
        for (at, ends) in self.clusters.offsets.windows(2).enumerate() {
            let list = self.clusters.centroids.product(at, &question.vector);
            if list < worst - measured.list_margin {
                continue;
            }
            let places = ends[0] as usize..ends[1] as usize;
            self.sketches.products(self.kernels, sketched, places, |_, products| {
                let seem = products.iter().map(|product| Seems { list, sketch: list + product });
                looked_at += seem.filter(|seems| measured.passes(seems, worst)).count() as u64;
            });
        }
        looked_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_above_all_and_never_negative() {
        assert_eq!(margin(&[0.25, 0.25 + 1e-6, -3.0]), 0.25 + 1.0 / STEPS);
        assert_eq!(margin(&[0.25]), 0.25);
        assert_eq!(margin(&[-0.5, -0.25]), 0.0);
        assert_eq!(margin(&[]), 0.0);
    }
}
