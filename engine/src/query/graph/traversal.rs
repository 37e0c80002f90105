//! Graph traversals: the neighbourhood of items within a few hops, and the shortest path between two items.
//!
//! Breadth first, level by level, in an order that depends on the stored edges and not on their distribution over
//! segments. Within a level, the item reached by the strongest edge comes first, then the item with the smaller id. An
//! item that several edges of a level reach is reached by the strongest edge, then by the edge with the smaller id.
//! Hops, items kept and edges examined are bounded; a traversal that meets a bound is marked as truncated.

use std::cmp::{Ordering, Reverse};
use std::collections::hash_map::Entry;
use std::ops::Range;

use super::address_map::AddressMap;
use super::edges::{Direction, EDGES_PER_CANCEL_CHECK, EdgeFilter, EdgeWeight, SegmentEdges};
use crate::error::{CorruptionError, SearchError};
use crate::ids::{EdgeId, ItemId, Row};
use crate::query::snapshot::{RowAddress, Snapshot, Status};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Hops of one traversal; larger requests are capped.
    pub const HOPS_MAX: usize = 6;
    /// Items kept by one traversal.
    pub const GRAPH_NODES_MAX: usize = 1 << 16;
    /// Edges examined by one traversal, which bounds its time and, at some 100 bytes per edge, its memory.
    pub const GRAPH_EDGES_MAX: usize = 1 << 20;
}

/// Bounds of a traversal. Values above the defaults are capped to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkLimits {
    /// Items kept, including the seeds: the nearest, then the strongest.
    pub nodes: usize,
    /// Edges examined, admitted or not: those of nearer items first; per item outgoing edges first, oldest first.
    pub edges: usize,
}

impl Default for WalkLimits {
    fn default() -> Self {
        Self { nodes: GRAPH_NODES_MAX, edges: GRAPH_EDGES_MAX }
    }
}

/// An edge of a path, in the direction of the traversal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathStep {
    /// Id of the edge.
    pub edge: EdgeId,
    /// Weight of the edge.
    pub weight: f32,
    /// Item at which the step starts.
    pub from: ItemId,
    /// Item at which the step ends.
    pub to: ItemId,
    /// `Out` if the edge runs in the direction of the traversal, `In` if it runs against the traversal.
    pub direction: Direction,
}

/// An item that a traversal reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReachedItem {
    /// Id of the item.
    pub id: ItemId,
    /// Row address of the item.
    pub address: RowAddress,
    /// Hops from the nearest seed; 0 for a seed.
    pub distance: usize,
    /// Edge by which the item was reached; `None` for a seed.
    pub via: Option<PathStep>,
}

/// Items around the seeds of a traversal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Neighbourhood {
    /// Items, nearest first: the seeds in the order given, the others strongest first, then by id.
    pub nodes: Vec<ReachedItem>,
    /// True if a bound was met, so there are more items.
    pub truncated: bool,
}

/// Result of a search for a path between two items.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GraphPath {
    /// Steps of the path: empty from an item to itself, `None` if no path was found.
    pub steps: Option<Vec<PathStep>>,
    /// True if a bound was met, so a path, or a shorter path, may have been missed.
    pub truncated: bool,
}

impl Snapshot {
    /// Returns the items within `hops` (at most [`HOPS_MAX`]) of `seeds`. Missing and tombstoned seeds are ignored.
    /// Items not visible as of the snapshot's times, or excluded by `which`, are neither returned nor traversed.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn neighbourhood(
        &self,
        seeds: &[ItemId],
        hops: usize,
        which: &EdgeFilter,
        limits: WalkLimits,
    ) -> Result<Neighbourhood, SearchError> {
        let mut walk = Traversal::begin(self, seeds, which, limits, None)?;
        for _ in 0..hops.min(HOPS_MAX) {
            if walk.level.is_empty() {
                break;
            }
            walk.expand()?;
        }
        Ok(Neighbourhood { nodes: walk.nodes, truncated: walk.truncated })
    }

    /// Returns a shortest path of at most `hops` (at most [`HOPS_MAX`]) steps. The search is bidirectional, so each
    /// side goes half as deep, with half of each limit.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn path(
        &self,
        from: ItemId,
        to: ItemId,
        hops: usize,
        which: &EdgeFilter,
        limits: WalkLimits,
    ) -> Result<GraphPath, SearchError> {
        let limits = WalkLimits { nodes: limits.nodes / 2, edges: limits.edges / 2 };
        let back =
            EdgeFilter { direction: which.direction.map(Direction::reversed), ..which.clone() };
        let mut ahead = Traversal::begin(self, &[from], which, limits, Some(to))?;
        let mut behind = Traversal::begin(self, &[to], &back, limits, Some(from))?;
        let mut met = ahead.meeting_point(&behind);
        for _ in 0..hops.min(HOPS_MAX) {
            // An empty level means that everything reachable from that side has been compared.
            if met.is_some() || ahead.level.is_empty() || behind.level.is_empty() {
                break;
            }
            met = if ahead.level.len() <= behind.level.len() {
                ahead.expand()?;
                ahead.meeting_point(&behind)
            } else {
                behind.expand()?;
                behind.meeting_point(&ahead)
            };
        }
        let truncated = ahead.truncated || behind.truncated;
        let steps = met.map(|place| {
            let mut steps = ahead.path_back(place);
            steps.reverse();
            steps.extend(behind.path_back(place).into_iter().map(PathStep::reversed));
            steps
        });
        Ok(GraphPath { steps, truncated })
    }
}

impl PathStep {
    fn reversed(self) -> Self {
        Self { from: self.to, to: self.from, direction: self.direction.reversed(), ..self }
    }
}

/// Best edge so far to an item of the next level.
struct FrontierCandidate {
    is_visible: bool,
    weight: f32,
    /// Segment ordinal of the edge; its row and direction follow.
    segment_ord: u32,
    row: Row,
    direction: Direction,
    /// Index, in the traversal's items, of the edge's start.
    predecessor: usize,
    /// The edge's end, as a node of the edge's segment.
    node: u32,
}

/// Predecessor of a [`ReachedItem`] item.
#[derive(Clone, Copy)]
struct Predecessor {
    /// Index of the preceding item; the item's own index for a seed.
    index: usize,
    /// Segment ordinal and node of the item in one segment, which saves a look-up there.
    node: Option<(u32, u32)>,
}

/// State of a traversal between two levels.
struct Traversal<'a> {
    snapshot: &'a Snapshot,
    which: &'a EdgeFilter,
    /// Target of a path search, visible even if the filter excludes it.
    goal: Option<RowAddress>,
    segments: Vec<SegmentEdges<'a>>,
    limits: WalkLimits,
    edges_seen: usize,
    nodes: Vec<ReachedItem>,
    /// Predecessors, parallel to `nodes`.
    predecessors: Vec<Predecessor>,
    /// Index in `nodes` of each visited item.
    visited: AddressMap<usize>,
    /// Range of the outermost level in `nodes`.
    level: Range<usize>,
    truncated: bool,
}

impl<'a> Traversal<'a> {
    fn begin(
        snapshot: &'a Snapshot,
        seeds: &[ItemId],
        which: &'a EdgeFilter,
        limits: WalkLimits,
        goal: Option<ItemId>,
    ) -> Result<Self, CorruptionError> {
        let parts = snapshot.segments.iter().map(|part| SegmentEdges::open(snapshot, which, part));
        let most = WalkLimits::default();
        let mut walk = Self {
            snapshot,
            which,
            goal: goal.map_or(Ok(None), |id| snapshot.find_any_time(id))?,
            segments: parts.collect::<Result<_, _>>()?,
            limits: WalkLimits {
                nodes: limits.nodes.min(most.nodes),
                edges: limits.edges.min(most.edges),
            },
            edges_seen: 0,
            nodes: Vec::new(),
            predecessors: Vec::new(),
            visited: AddressMap::default(),
            level: 0..0,
            truncated: false,
        };
        for &id in seeds {
            let Some(place) = snapshot.find(id)? else { continue };
            if snapshot.status(place)? != Status::Tombstoned && !walk.visited.contains_key(&place) {
                let trail = Predecessor { index: walk.nodes.len(), node: None };
                walk.visit(ReachedItem { id, address: place, distance: 0, via: None }, trail);
            }
        }
        walk.level = 0..walk.nodes.len();
        Ok(walk)
    }

    /// Adds an item, or marks the traversal as truncated if the bound is reached.
    fn visit(&mut self, node: ReachedItem, trail: Predecessor) {
        if self.nodes.len() >= self.limits.nodes {
            self.truncated = true;
            return;
        }
        self.visited.insert(node.address, self.nodes.len());
        self.nodes.push(node);
        self.predecessors.push(trail);
    }

    /// Advances the traversal by one hop.
    fn expand(&mut self) -> Result<(), SearchError> {
        let mut found = AddressMap::default();
        for at in self.level.clone() {
            if !self.expand_item(at, &mut found)? {
                self.truncated = true;
                break;
            }
        }
        let mut shown = Vec::with_capacity(found.len());
        let mut steps = self.snapshot.cancel.every(EDGES_PER_CANCEL_CHECK);
        for (place, candidate) in found {
            steps.tick()?;
            if candidate.is_visible {
                let id = self.segments[candidate.segment_ord as usize].item(candidate.node)?;
                shown.push((Reverse(EdgeWeight(candidate.weight)), id, place, candidate));
            }
        }
        shown.sort_unstable_by_key(|&(strength, id, ..)| (strength, id));
        let distance = self.nodes.last().map_or(0, |node| node.distance) + 1;
        let begin = self.nodes.len();
        for (_, id, place, it) in shown {
            steps.tick()?;
            if self.nodes.len() >= self.limits.nodes {
                self.truncated = true;
                break;
            }
            let step = PathStep {
                edge: self.edge(&it)?,
                weight: it.weight,
                from: self.nodes[it.predecessor].id,
                to: id,
                direction: it.direction,
            };
            let trail =
                Predecessor { index: it.predecessor, node: Some((it.segment_ord, it.node)) };
            self.visit(ReachedItem { id, address: place, distance, via: Some(step) }, trail);
        }
        self.level = begin..self.nodes.len();
        Ok(())
    }

    /// Adds the ends of an item's edges to `found`; returns false if the edge bound is reached.
    fn expand_item(
        &mut self,
        before: usize,
        found: &mut AddressMap<FrontierCandidate>,
    ) -> Result<bool, SearchError> {
        let (id, known_node) = (self.nodes[before].id, self.predecessors[before].node);
        let mut steps = self.snapshot.cancel.every(EDGES_PER_CANCEL_CHECK);
        steps.tick()?; // many items may have few edges each
        let mut starts = Vec::with_capacity(self.segments.len());
        for (part, edges) in (0u32..).zip(&self.segments) {
            starts.push(match known_node {
                Some((at, node)) if at == part => Some(node),
                _ => edges.node_of(id)?,
            });
        }
        for &direction in self.which.directions() {
            for (part, edges) in (0u32..).zip(&self.segments) {
                let Some(start) = starts[part as usize] else { continue };
                for row in edges.rows(start, direction)? {
                    let row = row?;
                    steps.tick()?;
                    if self.edges_seen == self.limits.edges {
                        return Ok(false);
                    }
                    self.edges_seen += 1;
                    if !edges.admits(row)? {
                        continue;
                    }
                    let node = edges.other_node(row, direction)?;
                    let place = self.snapshot.row_address_of_node(edges, part, node)?;
                    // An erased item has no row address and cannot be returned.
                    let Some(place) = place.filter(|place| !self.visited.contains_key(place))
                    else {
                        continue;
                    };
                    let weight = edges.weight(row)?;
                    let next = FrontierCandidate {
                        is_visible: true,
                        weight,
                        segment_ord: part,
                        row,
                        direction,
                        predecessor: before,
                        node,
                    };
                    self.relax(place, next, found)?;
                }
            }
        }
        Ok(true)
    }

    /// Keeps the better of two edges to an item: the stronger, then the edge with the smaller id.
    fn relax(
        &self,
        place: RowAddress,
        next: FrontierCandidate,
        found: &mut AddressMap<FrontierCandidate>,
    ) -> Result<(), CorruptionError> {
        match found.entry(place) {
            Entry::Vacant(entry) => {
                let shown = self.goal == Some(place)
                    || self.snapshot.is_visible_neighbour(place, self.which)?;
                entry.insert(FrontierCandidate { is_visible: shown, ..next });
            }
            Entry::Occupied(mut entry) => {
                let best = entry.get();
                let order = EdgeWeight(next.weight).cmp(&EdgeWeight(best.weight));
                let is_better = match order {
                    Ordering::Equal => self.edge(&next)? < self.edge(best)?,
                    order => order.is_gt(),
                };
                if is_better {
                    let shown = best.is_visible;
                    entry.insert(FrontierCandidate { is_visible: shown, ..next });
                }
            }
        }
        Ok(())
    }

    fn edge(&self, candidate: &FrontierCandidate) -> Result<EdgeId, CorruptionError> {
        self.segments[candidate.segment_ord as usize].id(candidate.row)
    }

    /// First item of the outermost level that the other traversal has visited as well.
    fn meeting_point(&self, other: &Self) -> Option<RowAddress> {
        let level = self.nodes[self.level.clone()].iter();
        level.map(|node| node.address).find(|place| other.visited.contains_key(place))
    }

    /// Steps by which an item was reached, last step first.
    fn path_back(&self, place: RowAddress) -> Vec<PathStep> {
        let mut at = self.visited[&place];
        let mut steps = Vec::new();
        while let Some(step) = self.nodes[at].via {
            steps.push(step);
            at = self.predecessors[at].index;
        }
        steps
    }
}
