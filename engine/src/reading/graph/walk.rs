//! Walks over many edges: what lies within a few hops of some items, and the shortest way between
//! two.
//!
//! Breadth first, level by level, in an order that depends on what is stored and not on how it is
//! spread over segments: within a level the item reached by the strongest edge comes first, then the
//! one with the smaller id; an item that several edges of a level reach is reached by the strongest
//! of them, then by the one with the smaller id. Bounded by hops, by items kept and by edges looked
//! at; a walk that meets a bound says so.

use std::cmp::{Ordering, Reverse};
use std::collections::hash_map::Entry;
use std::ops::Range;

use super::edges::{Direction, EDGES_TOGETHER, EdgeFilter, PartEdges, Strength};
use super::places::PlaceMap;
use crate::error::{Damage, SearchError};
use crate::ids::{EdgeId, ItemId, Row};
use crate::reading::snapshot::{Place, Snapshot, Status};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Hops of one walk; more are not taken.
    pub const HOPS_MAX: usize = 6;
    /// Items that one walk keeps.
    pub const GRAPH_NODES_MAX: usize = 1 << 16;
    /// Edges that one walk looks at; with them are bounded its time and, at some 100 bytes for each, its
    /// memory.
    pub const GRAPH_EDGES_MAX: usize = 1 << 20;
}

/// How much of the graph a walk may see. Larger numbers than the default ones do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkLimits {
    /// Items kept, seeds among them: the nearest, then the strongest.
    pub nodes: usize,
    /// Edges looked at, wanted or not: those of nearer items first, and of one item the outgoing
    /// ones first, oldest first.
    pub edges: usize,
}

impl Default for WalkLimits {
    fn default() -> Self {
        Self { nodes: GRAPH_NODES_MAX, edges: GRAPH_EDGES_MAX }
    }
}

/// One edge of a way, in the direction of walking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The edge.
    pub edge: EdgeId,
    /// Its weight.
    pub weight: f32,
    /// The item where the step starts.
    pub from: ItemId,
    /// The item where it ends.
    pub to: ItemId,
    /// Whether the edge runs the same way (`Out`) or the other (`In`).
    pub direction: Direction,
}

/// An item that a walk reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// Its id.
    pub id: ItemId,
    /// Where it lies.
    pub place: Place,
    /// Hops from the nearest seed; 0 for a seed.
    pub distance: usize,
    /// The edge it was reached by; `None` for a seed.
    pub by: Option<Step>,
}

/// What lies around some items.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Neighbourhood {
    /// Nearest first; the seeds in the order given, the others strongest first, then by id.
    pub nodes: Vec<Reached>,
    /// A limit was met: there is more.
    pub truncated: bool,
}

/// What a search for a way between two items found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path {
    /// The steps; none for the way from an item to itself, `None` where no way was found.
    pub steps: Option<Vec<Step>>,
    /// A limit was met: there may be a way, or a shorter one, that was not seen.
    pub truncated: bool,
}

impl Snapshot {
    /// The items within `hops` (at most [`HOPS_MAX`]) of `seeds`. Seeds that are not there or
    /// tombstoned are left out; what the moment or `which` does not show is neither given nor walked
    /// through.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn neighbourhood(
        &self,
        seeds: &[ItemId],
        hops: usize,
        which: &EdgeFilter,
        limits: WalkLimits,
    ) -> Result<Neighbourhood, SearchError> {
        let mut walk = Walk::begin(self, seeds, which, limits, None)?;
        for _ in 0..hops.min(HOPS_MAX) {
            if walk.level.is_empty() {
                break;
            }
            walk.expand()?;
        }
        Ok(Neighbourhood { nodes: walk.nodes, truncated: walk.truncated })
    }

    /// A shortest way of at most `hops` (at most [`HOPS_MAX`]) steps. Walks from both ends, so that
    /// each side goes only half as deep, with half of the limits each.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn path(
        &self,
        from: ItemId,
        to: ItemId,
        hops: usize,
        which: &EdgeFilter,
        limits: WalkLimits,
    ) -> Result<Path, SearchError> {
        let limits = WalkLimits { nodes: limits.nodes / 2, edges: limits.edges / 2 };
        let back =
            EdgeFilter { direction: which.direction.map(Direction::reversed), ..which.clone() };
        let mut ahead = Walk::begin(self, &[from], which, limits, Some(to))?;
        let mut behind = Walk::begin(self, &[to], &back, limits, Some(from))?;
        let mut met = ahead.meets(&behind);
        for _ in 0..hops.min(HOPS_MAX) {
            // Where one side has nowhere to go, all there was on it has been compared.
            if met.is_some() || ahead.level.is_empty() || behind.level.is_empty() {
                break;
            }
            met = if ahead.level.len() <= behind.level.len() {
                ahead.expand()?;
                ahead.meets(&behind)
            } else {
                behind.expand()?;
                behind.meets(&ahead)
            };
        }
        let truncated = ahead.truncated || behind.truncated;
        let steps = met.map(|place| {
            let mut steps = ahead.way_back(place);
            steps.reverse();
            steps.extend(behind.way_back(place).into_iter().map(Step::reversed));
            steps
        });
        Ok(Path { steps, truncated })
    }
}

impl Step {
    fn reversed(self) -> Self {
        Self { from: self.to, to: self.from, direction: self.direction.reversed(), ..self }
    }
}

/// The best way so far to an item that the next level may hold.
struct Candidate {
    shown: bool,
    weight: f32,
    /// The edge: part, row, and which way it is walked.
    part: u32,
    row: Row,
    direction: Direction,
    /// Where the edge starts, among the walk's items.
    before: usize,
    /// Where it ends, as a node of the edge's part.
    node: u32,
}

/// How an item was come to, beside what [`Reached`] says.
#[derive(Clone, Copy)]
struct Trail {
    /// The item before it; itself for a seed.
    before: usize,
    /// A part that has it as a node, so that it need not be looked for there.
    node: Option<(u32, u32)>,
}

/// A walk between two levels.
struct Walk<'a> {
    snapshot: &'a Snapshot,
    which: &'a EdgeFilter,
    /// Shown even where the filter would not.
    goal: Option<Place>,
    parts: Vec<PartEdges<'a>>,
    limits: WalkLimits,
    edges_seen: usize,
    nodes: Vec<Reached>,
    /// Of each of `nodes`.
    trails: Vec<Trail>,
    /// Where each item stands in `nodes`.
    known: PlaceMap<usize>,
    /// The outermost items, as a range of `nodes`.
    level: Range<usize>,
    truncated: bool,
}

impl<'a> Walk<'a> {
    fn begin(
        snapshot: &'a Snapshot,
        seeds: &[ItemId],
        which: &'a EdgeFilter,
        limits: WalkLimits,
        goal: Option<ItemId>,
    ) -> Result<Self, Damage> {
        let parts = snapshot.parts.iter().map(|part| PartEdges::of(snapshot, which, part));
        let most = WalkLimits::default();
        let mut walk = Self {
            snapshot,
            which,
            goal: goal.map_or(Ok(None), |id| snapshot.find_row(id))?,
            parts: parts.collect::<Result<_, _>>()?,
            limits: WalkLimits {
                nodes: limits.nodes.min(most.nodes),
                edges: limits.edges.min(most.edges),
            },
            edges_seen: 0,
            nodes: Vec::new(),
            trails: Vec::new(),
            known: PlaceMap::default(),
            level: 0..0,
            truncated: false,
        };
        for &id in seeds {
            let Some(place) = snapshot.find(id)? else { continue };
            if snapshot.status(place)? != Status::Tombstoned && !walk.known.contains_key(&place) {
                let trail = Trail { before: walk.nodes.len(), node: None };
                walk.keep(Reached { id, place, distance: 0, by: None }, trail);
            }
        }
        walk.level = 0..walk.nodes.len();
        Ok(walk)
    }

    /// Keeps one more item, or notes that there is no room for it.
    fn keep(&mut self, node: Reached, trail: Trail) {
        if self.nodes.len() >= self.limits.nodes {
            self.truncated = true;
            return;
        }
        self.known.insert(node.place, self.nodes.len());
        self.nodes.push(node);
        self.trails.push(trail);
    }

    /// Goes one hop further.
    fn expand(&mut self) -> Result<(), SearchError> {
        let mut found = PlaceMap::default();
        for at in self.level.clone() {
            if !self.look_around(at, &mut found)? {
                self.truncated = true;
                break;
            }
        }
        let mut shown = Vec::with_capacity(found.len());
        let mut steps = self.snapshot.stop.each(EDGES_TOGETHER);
        for (place, candidate) in found {
            steps.step()?;
            if candidate.shown {
                let id = self.parts[candidate.part as usize].item(candidate.node)?;
                shown.push((Reverse(Strength(candidate.weight)), id, place, candidate));
            }
        }
        shown.sort_unstable_by_key(|&(strength, id, ..)| (strength, id));
        let distance = self.nodes.last().map_or(0, |node| node.distance) + 1;
        let begin = self.nodes.len();
        for (_, id, place, it) in shown {
            steps.step()?;
            if self.nodes.len() >= self.limits.nodes {
                self.truncated = true;
                break;
            }
            let step = Step {
                edge: self.edge(&it)?,
                weight: it.weight,
                from: self.nodes[it.before].id,
                to: id,
                direction: it.direction,
            };
            let trail = Trail { before: it.before, node: Some((it.part, it.node)) };
            self.keep(Reached { id, place, distance, by: Some(step) }, trail);
        }
        self.level = begin..self.nodes.len();
        Ok(())
    }

    /// Adds the ends of an item's edges to `found`; `false` when no more edges may be looked at.
    fn look_around(
        &mut self,
        before: usize,
        found: &mut PlaceMap<Candidate>,
    ) -> Result<bool, SearchError> {
        let (id, known_node) = (self.nodes[before].id, self.trails[before].node);
        let mut steps = self.snapshot.stop.each(EDGES_TOGETHER);
        steps.step()?; // many items may have few edges each
        let mut starts = Vec::with_capacity(self.parts.len());
        for (part, edges) in (0u32..).zip(&self.parts) {
            starts.push(match known_node {
                Some((at, node)) if at == part => Some(node),
                _ => edges.node_of(id)?,
            });
        }
        for &direction in self.which.directions() {
            for (part, edges) in (0u32..).zip(&self.parts) {
                let Some(start) = starts[part as usize] else { continue };
                for row in edges.rows(start, direction)? {
                    let row = row?;
                    steps.step()?;
                    if self.edges_seen == self.limits.edges {
                        return Ok(false);
                    }
                    self.edges_seen += 1;
                    if !edges.admits(row)? {
                        continue;
                    }
                    let node = edges.far_node(row, direction)?;
                    let place = self.snapshot.place_of_node(edges, part, node)?;
                    // An item that was erased has no place, and cannot be shown.
                    let Some(place) = place.filter(|place| !self.known.contains_key(place)) else {
                        continue;
                    };
                    let weight = edges.weight(row)?;
                    let next =
                        Candidate { shown: true, weight, part, row, direction, before, node };
                    self.offer(place, next, found)?;
                }
            }
        }
        Ok(true)
    }

    /// Keeps the better of two ways to an item: by the stronger edge, then by that of the smaller id.
    fn offer(
        &self,
        place: Place,
        next: Candidate,
        found: &mut PlaceMap<Candidate>,
    ) -> Result<(), Damage> {
        match found.entry(place) {
            Entry::Vacant(entry) => {
                let shown = self.goal == Some(place) || self.snapshot.is_met(place, self.which)?;
                entry.insert(Candidate { shown, ..next });
            }
            Entry::Occupied(mut entry) => {
                let best = entry.get();
                let order = Strength(next.weight).cmp(&Strength(best.weight));
                let is_better = match order {
                    Ordering::Equal => self.edge(&next)? < self.edge(best)?,
                    order => order.is_gt(),
                };
                if is_better {
                    let shown = best.shown;
                    entry.insert(Candidate { shown, ..next });
                }
            }
        }
        Ok(())
    }

    fn edge(&self, candidate: &Candidate) -> Result<EdgeId, Damage> {
        self.parts[candidate.part as usize].id(candidate.row)
    }

    /// The first item of the outermost level that the other walk has reached as well.
    fn meets(&self, other: &Self) -> Option<Place> {
        let level = self.nodes[self.level.clone()].iter();
        level.map(|node| node.place).find(|place| other.known.contains_key(place))
    }

    /// The steps by which an item was reached, last one first.
    fn way_back(&self, place: Place) -> Vec<Step> {
        let mut at = self.known[&place];
        let mut steps = Vec::new();
        while let Some(step) = self.nodes[at].by {
            steps.push(step);
            at = self.trails[at].before;
        }
        steps
    }
}
