//! How deep the lists of an index must be searched, by measurement (`format-spec/index.md`, Measuring).
//!
//! Rows of the segment are asked for their neighbours, by an exact search beside the order in which the
//! lists would be looked at.

use half::slice::HalfFloatSliceExt;
use kernels::Kernels;

use super::clusters::{Clusters, Spread};
use crate::error::Damage;
use crate::limits::{INDEX_QUESTIONS, INDEX_RECALL_MIN_PERMILLE, INDEX_RECALL_PERMILLE};
use crate::ordered::Ordered;
use crate::pace::Pace;
use crate::segment::Embeddings;
use crate::top::Top;

/// What recall is told for.
const BEST: usize = 10;
/// A question lies farther from the rows than they from one another, so that its nearest are those of a
/// row and as many times more.
const QUESTIONS_LIE_FARTHER: usize = 5;
/// Neighbours that are looked for.
pub(crate) const NEIGHBOURS: usize = BEST * QUESTIONS_LIE_FARTHER;
/// Rows that all questions are compared with before the next ones: their halves stay in a core's cache.
const BLOCK_ROWS: usize = 256;
/// An index by which a question looks at more than one row in so many, in the mean, gains nothing
/// over a scan, which reads them in order.
pub(crate) const LOOKED_AT_GAINS: u64 = 2;

/// How deep to search, and what that finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) depth: u32,
    pub(super) asked: u32,
    pub(super) found: u32,
}

/// `None` where the pace ended it.
pub(super) fn measure(
    kernels: Kernels,
    embeddings: &Embeddings<'_>,
    clusters: &Clusters,
    pace: &dyn Pace,
) -> Result<Option<Measured>, Damage> {
    let questions = Spread::of(embeddings.len(), 2 * INDEX_QUESTIONS);
    let questions: Vec<usize> = questions.all().collect();
    let Some(near) = nearest(kernels, embeddings, &questions, pace)? else { return Ok(None) };
    let mut list_of = vec![0u32; embeddings.len()];
    for (list, ends) in (0u32..).zip(clusters.offsets.windows(2)) {
        let rows = &clusters.rows[ends[0] as usize..ends[1] as usize];
        rows.iter().for_each(|&row| list_of[row as usize] = list);
    }
    let (mut choosing, mut measuring, mut orders) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (&question, near)) in questions.iter().zip(&near).enumerate() {
        let order = Order::of(kernels, embeddings, clusters, question);
        let needed = near.iter().map(|&row| order.before[list_of[row as usize] as usize] + 1);
        if at % 2 == 0 {
            choosing.extend(needed);
        } else {
            measuring.extend(needed);
            orders.push(order.ends);
        }
    }
    let rows = u32::try_from(embeddings.len()).expect("SEG-21 bounds a table");
    let gains = |depth: &u32| finds_enough(&measuring, *depth) && gains(*depth, &orders, rows);
    let depth = depth_for(&mut choosing).filter(gains).unwrap_or(rows);
    let count = |depths: usize| u32::try_from(depths).expect("questions times neighbours");
    let found = reached(&measuring, depth);
    Ok(Some(Measured { depth, asked: count(measuring.len()), found: count(found) }))
}

/// The least depth that reaches enough of those that needed these; `None` where there are none.
fn depth_for(needed: &mut [u32]) -> Option<u32> {
    needed.sort_unstable();
    let enough = (needed.len() * INDEX_RECALL_PERMILLE).div_ceil(1000);
    enough.checked_sub(1).map(|last| needed[last])
}

/// How many of the neighbours that needed these depths are found at this one.
fn reached(needed: &[u32], depth: u32) -> usize {
    needed.iter().filter(|&&needed| needed <= depth).count()
}

/// Whether those that had no part in choosing the depth find what was promised; not where nobody was asked.
fn finds_enough(needed: &[u32], depth: u32) -> bool {
    !needed.is_empty() && reached(needed, depth) * 1000 >= needed.len() * INDEX_RECALL_MIN_PERMILLE
}

/// Whether questions look at few enough rows at this depth. A list is looked at whole, the one in which
/// the depth is reached too, and it may be longer than all before it.
fn gains(depth: u32, orders: &[Vec<u32>], rows: u32) -> bool {
    let looked_at = |ends: &Vec<u32>| {
        let last = ends.partition_point(|&end| end < depth);
        u64::from(ends.get(last).copied().unwrap_or(rows))
    };
    let all: u64 = orders.iter().map(looked_at).sum();
    all * LOOKED_AT_GAINS <= u64::from(rows) * orders.len() as u64
}

/// The rows nearest to each of the questions, which are rows too, without the row itself.
fn nearest(
    kernels: Kernels,
    embeddings: &Embeddings<'_>,
    questions: &[usize],
    pace: &dyn Pace,
) -> Result<Option<Vec<Vec<u32>>>, Damage> {
    let width = embeddings.row_halves;
    let mut queries = vec![0.0f32; questions.len() * width];
    for (&row, query) in questions.iter().zip(queries.chunks_exact_mut(width)) {
        embeddings.halves(row, row + 1)?.convert_to_f32_slice(query);
    }
    let mut tops = vec![Top::<Ordered, u32>::new(NEIGHBOURS); questions.len()];
    let mut products = [0.0; BLOCK_ROWS];
    for first in (0..embeddings.len()).step_by(BLOCK_ROWS) {
        if !pace.worked() {
            return Ok(None);
        }
        let end = (first + BLOCK_ROWS).min(embeddings.len());
        let (halves, norms) = (embeddings.halves(first, end)?, &embeddings.norms[first..end]);
        let products = &mut products[..end - first];
        for ((&row, query), top) in questions.iter().zip(queries.chunks_exact(width)).zip(&mut tops)
        {
            kernels.dot_rows(query, halves, products);
            for ((other, &product), &norm) in (first..).zip(&*products).zip(norms) {
                if other != row && norm > 0.0 {
                    let other = u32::try_from(other).expect("SEG-21 bounds a table");
                    top.offer(Ordered::of(product / norm), other);
                }
            }
        }
    }
    let rows = |top: Top<Ordered, u32>| top.into_sorted().into_iter().map(|(_, row)| row).collect();
    Ok(Some(tops.into_iter().map(rows).collect()))
}

/// The order in which one question looks at lists.
struct Order {
    /// For each list, rows that are looked at before it.
    before: Vec<u32>,
    /// Rows looked at up to the end of the first list, of the second one, ...
    ends: Vec<u32>,
}

impl Order {
    /// That of a row which is the question.
    fn of(
        kernels: Kernels,
        embeddings: &Embeddings<'_>,
        clusters: &Clusters,
        question: usize,
    ) -> Self {
        let coded = &embeddings.coded;
        let codes = &coded.codes[question * coded.row_codes..][..coded.row_codes];
        let codes: Vec<i16> = codes.iter().map(|&code| i16::from(code)).collect();
        let mut products = vec![0; clusters.centroids.count()];
        let codes = kernels.code_queries(&[&codes]);
        kernels.dot_codes(&codes, &clusters.centroids.codes, &mut products);
        let score =
            |list: usize| Ordered::of(products[list] as f32 * clusters.centroids.scales[list]);
        let mut order: Vec<usize> = (0..products.len()).collect();
        order.sort_by_key(|&list| std::cmp::Reverse(score(list)));
        let (mut before, mut ends, mut sum) = (vec![0; order.len()], Vec::new(), 0);
        for list in order {
            before[list] = sum;
            sum += clusters.offsets[list + 1] - clusters.offsets[list];
            ends.push(sum);
        }
        Self { before, ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_depth_that_finds_too_little_for_others_is_not_enough() {
        let needed: Vec<u32> = (1..=1000).collect();
        assert!(finds_enough(&needed, 990));
        assert!(!finds_enough(&needed, 989));
        assert!(!finds_enough(&[], 1), "nobody was asked");
    }
}
