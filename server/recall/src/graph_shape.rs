//! Graph statistics of a workspace: components, communities and degrees.
//!
//! Computes the statistics and caches them. Access control comes only from the visibility mask.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use engine::{Filter, ItemId, Micros, SearchError, Snapshot, SnapshotVersion, VisibilityMask};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Cached statistics of a workspace: one entry for each visibility mask.
    const KEPT_MAX: usize = 8;
    /// Rounds of label propagation; most graphs converge within ten.
    const ROUNDS_MAX: usize = 32;
}

/// Nodes between two checks for cancellation.
const NODES_TOGETHER: usize = 4096;

/// Cache of a workspace's graph statistics.
#[derive(Default)]
pub struct Shapes {
    kept: Mutex<Vec<Made>>,
}

/// Cached statistics with their snapshot version and visibility mask.
#[derive(Clone)]
pub struct Made {
    edition: SnapshotVersion,
    hidden: Option<Arc<VisibilityMask>>,
    /// Time of computation.
    pub at: Micros,
    /// The statistics.
    pub shape: Arc<Shape>,
}

impl Shapes {
    /// Returns the statistics of a snapshot's visible items, cached or computed.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn of(
        &self,
        snapshot: &Snapshot,
        hidden: Option<Arc<VisibilityMask>>,
        now: Micros,
    ) -> Result<Made, SearchError> {
        let edition = snapshot.version();
        let is_same = |made: &Made| {
            made.edition == edition
                && made.hidden.as_ref().map(Arc::as_ptr) == hidden.as_ref().map(Arc::as_ptr)
        };
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = kept().iter().find(|made| is_same(made)) {
            return Ok(made.clone());
        }
        let shape = Arc::new(Shape::of(snapshot, hidden.as_ref())?);
        let made = Made { edition, hidden, at: now, shape };
        let mut kept = kept();
        kept.retain(|other| other.edition == edition);
        kept.truncate(KEPT_MAX - 1);
        kept.insert(0, made.clone());
        Ok(made)
    }
}

/// Statistics of a graph.
#[derive(Debug, Default, PartialEq)]
pub struct Shape {
    /// Number of items.
    pub nodes: usize,
    /// Number of edges.
    pub edges: usize,
    /// Edges by relation.
    pub relations: BTreeMap<String, u64>,
    /// Connected components.
    pub components: usize,
    /// Items in the largest component.
    pub largest: usize,
    /// Items without an edge.
    pub isolated: usize,
    /// Communities of two or more items, each more densely linked within than to the outside.
    pub communities: usize,
    /// Degree of each node, ascending.
    degrees: Vec<u32>,
}

impl Shape {
    /// Computes the statistics of the visible items.
    fn of(snapshot: &Snapshot, hidden: Option<&Arc<VisibilityMask>>) -> Result<Self, SearchError> {
        let filter = Filter { mask: hidden.cloned(), ..Filter::default() };
        let mut ids: Vec<ItemId> = Vec::new();
        snapshot.for_each_admitted(&filter, |_, place| {
            ids.push(snapshot.id(place)?);
            Ok::<(), SearchError>(())
        })?;
        // Nodes are numbered by id: a merge of segments moves rows and must not change the communities.
        ids.sort_unstable();
        let numbers: HashMap<ItemId, u32> = ids.into_iter().zip(0..).collect();
        let mut relations: BTreeMap<String, u64> = BTreeMap::new();
        let mut edges: Vec<(u32, u32, f32)> = Vec::new();
        snapshot.each_edge(|edge| {
            if let (Some(&from), Some(&to)) = (numbers.get(&edge.from), numbers.get(&edge.to)) {
                edges.push((from, to, edge.weight));
                match relations.get_mut(edge.relation) {
                    Some(count) => *count += 1,
                    None => drop(relations.insert(edge.relation.to_owned(), 1)),
                }
            }
            Ok::<(), SearchError>(())
        })?;
        let shape = Self::of_edges(numbers.len(), &edges, &|| snapshot.check_cancelled())?;
        Ok(Self { relations, ..shape })
    }

    /// Computes the statistics of a graph with `nodes` nodes, unless `check` cancels.
    fn of_edges(
        nodes: usize,
        edges: &[(u32, u32, f32)],
        check: &dyn Fn() -> Result<(), SearchError>,
    ) -> Result<Self, SearchError> {
        let mut degrees = vec![0_u32; nodes];
        let mut joined = Joined::new(nodes);
        for &(from, to, _) in edges {
            for end in [from, to] {
                if let Some(degree) = degrees.get_mut(end as usize) {
                    *degree += 1;
                }
            }
            joined.join(from, to);
        }
        let sizes = joined.sizes();
        let communities = communities(nodes, edges, check)?;
        let isolated = degrees.iter().filter(|&&degree| degree == 0).count();
        degrees.sort_unstable();
        Ok(Self {
            nodes,
            edges: edges.len(),
            relations: BTreeMap::new(),
            components: sizes.len(),
            largest: sizes.into_iter().max().unwrap_or_default(),
            isolated,
            communities,
            degrees,
        })
    }

    /// Degree that `percent` percent of the nodes do not exceed (nearest rank).
    pub fn degree_at(&self, percent: usize) -> u32 {
        let rank = (self.degrees.len() * percent).div_ceil(100);
        self.degrees.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// Disjoint sets of nodes: union by size with path halving (Tarjan and van Leeuwen 1984).
struct Joined {
    above: Vec<u32>,
    size: Vec<u32>,
}

impl Joined {
    fn new(nodes: usize) -> Self {
        let above = (0..u32::try_from(nodes).unwrap_or(u32::MAX)).collect();
        Self { above, size: vec![1; nodes] }
    }

    fn top(&mut self, mut node: u32) -> u32 {
        while let Some(&above) = self.above.get(node as usize) {
            if above == node {
                break;
            }
            let higher = self.above.get(above as usize).copied().unwrap_or(above);
            if let Some(slot) = self.above.get_mut(node as usize) {
                *slot = higher;
            }
            node = higher;
        }
        node
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.top(one), self.top(other));
        if one == other {
            return;
        }
        let size = |node: u32| self.size.get(node as usize).copied().unwrap_or_default();
        let (large, small) = if size(one) < size(other) { (other, one) } else { (one, other) };
        let whole = size(large) + size(small);
        if let Some(slot) = self.above.get_mut(small as usize) {
            *slot = large;
        }
        if let Some(slot) = self.size.get_mut(large as usize) {
            *slot = whole;
        }
    }

    /// Returns the size of each set.
    fn sizes(&self) -> Vec<usize> {
        let tops = (0_u32..).zip(&self.above).filter(|(node, above)| node == *above);
        tops.filter_map(|(node, _)| self.size.get(node as usize))
            .map(|&size| size as usize)
            .collect()
    }
}

/// Counts communities of two or more nodes by weighted label propagation (Raghavan, Albert and Kumara 2007). Each node
/// in turn adopts the label of greatest total weight among its neighbours. If weights tie, the largest label wins, so
/// equal graphs result in equal communities. Stops after [`ROUNDS_MAX`] rounds, or if `check` cancels.
fn communities(
    nodes: usize,
    edges: &[(u32, u32, f32)],
    check: &dyn Fn() -> Result<(), SearchError>,
) -> Result<usize, SearchError> {
    let around = Around::of(nodes, edges);
    let mut labels: Vec<u32> = (0..u32::try_from(nodes).unwrap_or(u32::MAX)).collect();
    let mut weighed: HashMap<u32, f64> = HashMap::new();
    for _ in 0..ROUNDS_MAX {
        let mut changed = false;
        for node in 0..nodes {
            if node.is_multiple_of(NODES_TOGETHER) {
                check()?;
            }
            weighed.clear();
            for &(other, weight) in around.at(node) {
                if let Some(&label) = labels.get(other as usize) {
                    *weighed.entry(label).or_default() += f64::from(weight);
                }
            }
            let heavier = |one: &(&u32, &f64), other: &(&u32, &f64)| {
                one.1.total_cmp(other.1).then_with(|| one.0.cmp(other.0))
            };
            let best = weighed.iter().max_by(heavier).map(|(&label, _)| label);
            if let (Some(best), Some(label)) = (best, labels.get_mut(node))
                && *label != best
            {
                *label = best;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let mut sizes: HashMap<u32, usize> = HashMap::new();
    labels.iter().for_each(|&label| *sizes.entry(label).or_default() += 1);
    Ok(sizes.values().filter(|&&size| size > 1).count())
}

/// Adjacency list: the neighbours of each node in one array.
struct Around {
    /// Start of each node's neighbours, plus the end of the last.
    starts: Vec<usize>,
    ends: Vec<(u32, f32)>,
}

impl Around {
    fn of(nodes: usize, edges: &[(u32, u32, f32)]) -> Self {
        let mut starts = vec![0_usize; nodes + 1];
        let both = || edges.iter().filter(|(from, to, _)| from != to);
        let each =
            || both().flat_map(|&(from, to, weight)| [(from, to, weight), (to, from, weight)]);
        for (node, _, _) in each() {
            if let Some(count) = starts.get_mut(node as usize + 1) {
                *count += 1;
            }
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut ends = vec![(0, 0.0); starts.last().copied().unwrap_or_default()];
        for (node, other, weight) in each() {
            if let Some(slot) = next.get_mut(node as usize) {
                if let Some(end) = ends.get_mut(*slot) {
                    *end = (other, weight);
                }
                *slot += 1;
            }
        }
        Self { starts, ends }
    }

    fn at(&self, node: usize) -> &[(u32, f32)] {
        let range = self.starts.get(node).zip(self.starts.get(node + 1));
        range.and_then(|(&from, &to)| self.ends.get(from..to)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(nodes: usize, edges: &[(u32, u32)]) -> Shape {
        let edges: Vec<(u32, u32, f32)> = edges.iter().map(|&(a, b)| (a, b, 1.0)).collect();
        Shape::of_edges(nodes, &edges, &|| Ok(())).unwrap()
    }

    #[test]
    fn two_triangles_on_a_string_are_two_communities_of_one_component() {
        let it = shape(8, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)]);
        assert_eq!((it.components, it.largest, it.isolated, it.communities), (3, 6, 2, 2));
        assert_eq!((it.degree_at(50), it.degree_at(95), it.degree_at(100)), (2, 3, 3));
    }

    #[test]
    fn of_nothing_there_is_nothing() {
        assert_eq!(shape(0, &[]), Shape::default());
        let one = shape(1, &[(0, 0)]);
        assert_eq!((one.components, one.isolated, one.communities), (1, 0, 0));
    }

    #[test]
    fn a_call_that_is_over_gives_nothing() {
        let over = || Err(SearchError::Interrupted);
        assert_eq!(Shape::of_edges(3, &[(0, 1, 1.0)], &over), Err(SearchError::Interrupted));
    }

    proptest! {
        #[test]
        fn components_are_those_of_a_naive_walk(
            nodes in 1_usize..40,
            edges in prop::collection::vec((0_u32..40, 0_u32..40), 0..60),
        ) {
            let most = u32::try_from(nodes).unwrap();
            let edges: Vec<(u32, u32)> = edges.into_iter().map(|(a, b)| (a % most, b % most)).collect();
            let it = shape(nodes, &edges);
            let mut seen = vec![false; nodes];
            let mut sizes = Vec::new();
            for start in 0..nodes {
                let mut size = 0;
                let mut stack = vec![start];
                while let Some(node) = stack.pop() {
                    if std::mem::replace(&mut seen[node], true) {
                        continue;
                    }
                    size += 1;
                    for &(a, b) in &edges {
                        let (a, b) = (a as usize, b as usize);
                        if a == node { stack.push(b); }
                        if b == node { stack.push(a); }
                    }
                }
                if size > 0 { sizes.push(size); }
            }
            prop_assert_eq!(it.components, sizes.len());
            prop_assert_eq!(it.largest, sizes.into_iter().max().unwrap());
            prop_assert!(it.communities <= it.components.max(nodes / 2));
            prop_assert_eq!(it.degrees.iter().sum::<u32>() as usize, edges.len() * 2);
        }
    }
}
