//! The meaning of a question: the stored embeddings nearest to it, by an exact scan.

use std::cmp::Ordering;

use half::f16;
use kernels::Kernels;

use super::Hit;
use crate::error::Damage;
use crate::ids::ItemId;
use crate::layout::{VECTOR_HALVES, VECTOR_ITEM, VECTOR_NORM, row_halves};
use crate::snapshot::{Filter, Part, PartFilter, Place, Snapshot};
use crate::top::Top;

/// Rows scored before the best of them are looked at: the scores stay in the first-level cache.
const BLOCK_ROWS: usize = 256;

/// A cosine, in its total order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cosine(f32);

impl Eq for Cosine {}

impl Ord for Cosine {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Cosine {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

type Best = Top<Cosine, (ItemId, Place)>;

impl Snapshot {
    /// The `limit` items whose stored f16 vectors have the largest cosine with `query`, best
    /// first, equal ones in order of id. Exact: every row that `filter` admits is scored.
    ///
    /// `query` is as wide as the store's model; otherwise nothing is found.
    pub fn nearest(
        &self,
        kernels: &Kernels,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Hit>, Damage> {
        let length = query.iter().map(|x| x * x).sum::<f32>().sqrt();
        let mut top = Top::new(limit);
        if limit > 0 && length > 0.0 && length.is_finite() {
            for (at, part) in (0u32..).zip(self.parts.iter()) {
                if part.segment.header().dimensions as usize == query.len() {
                    scan(part, at, kernels, query, length, filter, &mut top)?;
                }
            }
        }
        let best = top.into_sorted().into_iter();
        Ok(best.map(|(score, (_, place))| Hit { place, score: score.0 }).collect())
    }
}

fn scan(
    part: &Part,
    at: u32,
    kernels: &Kernels,
    query: &[f32],
    length: f32,
    filter: &Filter,
    top: &mut Best,
) -> Result<(), Damage> {
    let admitted = PartFilter::of(filter, part)?;
    let halves: &[f16] = part.segment.view(VECTOR_HALVES)?.all()?;
    let norms: &[f32] = part.segment.view(VECTOR_NORM)?.all()?;
    let items: &[u32] = part.segment.view(VECTOR_ITEM)?.all()?;
    // Rows are padded with zeros, which add nothing to a product.
    let width = row_halves(part.segment.header().dimensions);
    let mut query = query.to_vec();
    query.resize(width, 0.0);
    let mut scores = [0.0; BLOCK_ROWS];
    let blocks = halves.chunks(BLOCK_ROWS * width);
    for (first, rows) in (0..).step_by(BLOCK_ROWS).zip(blocks) {
        let scores = &mut scores[..rows.len() / width];
        kernels.dot_rows(&query, rows, scores);
        for (i, &dot) in scores.iter().enumerate() {
            let norm = norms[first + i] * length;
            // The sum makes -0 of a kernel's choosing a plain 0, equal to every other.
            let score = if norm > 0.0 { dot / norm + 0.0 } else { 0.0 };
            if !score.is_finite() {
                let detail = format!("vector {} is not finite", first + i);
                return Err(Damage::new("SEG-16", detail).within(part.segment.name()));
            }
            if top.floor().is_some_and(|floor| Cosine(score) < floor) {
                continue;
            }
            let row = items[first + i];
            if admitted.admits(row)? {
                top.offer(Cosine(score), (part.segment.item_id(row)?, Place { part: at, row }));
            }
        }
    }
    Ok(())
}
