//! Walks over many edges: what lies within a few hops of some items, and the shortest way between
//! two.
//!
//! Breadth first, level by level, in an order that depends on what is stored and not on how it is
//! spread over segments: within a level the item reached by the strongest edge comes first, then the
//! one with the smaller id; an item that several edges of a level reach is reached by the strongest
//! of them, then by the one with the smaller id. Bounded by hops, by items kept and by edges looked
//! at; a walk that meets a bound says so.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use super::{Direction, EdgeFilter, PartEdges, Strength};
use crate::error::Damage;
use crate::ids::{EdgeId, ItemId, Row};
use crate::snapshot::{Place, Snapshot, Status};

/// Hops of one walk; more are not taken.
pub const HOPS_MAX: usize = 6;
/// Items that one walk keeps.
pub const GRAPH_NODES_MAX: usize = 1 << 16;
/// Edges that one walk looks at; with them are bounded its time and, at some 100 bytes for each, its
/// memory.
pub const GRAPH_EDGES_MAX: usize = 1 << 20;

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
    pub fn neighbourhood(
        &self,
        seeds: &[ItemId],
        hops: usize,
        which: &EdgeFilter,
        limits: WalkLimits,
    ) -> Result<Neighbourhood, Damage> {
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
    pub fn path(
        &self,
        from: ItemId,
        to: ItemId,
        hops: usize,
        which: &EdgeFilter,
        limits: WalkLimits,
    ) -> Result<Path, Damage> {
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
        let steps = met.map(|id| {
            let mut steps = ahead.way_back(id);
            steps.reverse();
            steps.extend(behind.way_back(id).into_iter().map(Step::reversed));
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

/// How an item can be reached from the level before; better is greater.
type Reach = (Strength, Reverse<EdgeId>);

/// An item that a level can go to, or one that it met and may not show.
enum Candidate {
    Hidden,
    Shown { reach: Reach, step: Step, place: Place },
}

/// A walk between two levels.
struct Walk<'a> {
    snapshot: &'a Snapshot,
    which: &'a EdgeFilter,
    /// Shown even where the filter would not.
    goal: Option<ItemId>,
    parts: Vec<PartEdges<'a>>,
    limits: WalkLimits,
    edges_seen: usize,
    nodes: Vec<Reached>,
    /// Where each item stands in `nodes`.
    known: HashMap<ItemId, usize>,
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
            goal,
            parts: parts.collect::<Result<_, _>>()?,
            limits: WalkLimits {
                nodes: limits.nodes.min(most.nodes),
                edges: limits.edges.min(most.edges),
            },
            edges_seen: 0,
            nodes: Vec::new(),
            known: HashMap::new(),
            level: 0..0,
            truncated: false,
        };
        for &id in seeds {
            let Some(place) = snapshot.find(id)? else { continue };
            if snapshot.status(place)? != Status::Tombstoned && !walk.known.contains_key(&id) {
                walk.keep(Reached { id, place, distance: 0, by: None });
            }
        }
        walk.level = 0..walk.nodes.len();
        Ok(walk)
    }

    /// Keeps one more item, or notes that there is no room for it.
    fn keep(&mut self, node: Reached) {
        if self.nodes.len() >= self.limits.nodes {
            self.truncated = true;
            return;
        }
        self.known.insert(node.id, self.nodes.len());
        self.nodes.push(node);
    }

    /// Goes one hop further.
    fn expand(&mut self) -> Result<(), Damage> {
        let mut found = HashMap::new();
        for at in self.level.clone() {
            if !self.look_around(self.nodes[at].id, &mut found)? {
                self.truncated = true;
                break;
            }
        }
        let mut shown: Vec<(Reverse<Strength>, ItemId, Place, Step)> = found
            .into_iter()
            .filter_map(|(id, candidate)| match candidate {
                Candidate::Hidden => None,
                Candidate::Shown { reach, step, place } => {
                    Some((Reverse(reach.0), id, place, step))
                }
            })
            .collect();
        shown.sort_unstable_by_key(|&(strength, id, ..)| (strength, id));
        let distance = self.nodes.last().map_or(0, |node| node.distance) + 1;
        let begin = self.nodes.len();
        for (_, id, place, step) in shown {
            self.keep(Reached { id, place, distance, by: Some(step) });
        }
        self.level = begin..self.nodes.len();
        Ok(())
    }

    /// Adds the ends of an item's edges to `found`; `false` when no more edges may be looked at.
    fn look_around(
        &mut self,
        from: ItemId,
        found: &mut HashMap<ItemId, Candidate>,
    ) -> Result<bool, Damage> {
        for &direction in self.which.directions() {
            for (at, edges) in (0u32..).zip(&self.parts) {
                for row in edges.rows(from, direction)? {
                    let row = row?;
                    if self.edges_seen == self.limits.edges {
                        return Ok(false);
                    }
                    self.edges_seen += 1;
                    if !edges.admits(row)? {
                        continue;
                    }
                    let to = edges.far_end(row, direction)?;
                    if self.known.contains_key(&to) {
                        continue;
                    }
                    let (edge, weight) = (edges.id(row)?, edges.weight(row)?);
                    let reach = (Strength(weight), Reverse(edge));
                    let step = Step { edge, weight, from, to, direction };
                    match found.entry(to) {
                        Entry::Vacant(entry) => {
                            entry.insert(match self.place_of(to, at, edges, (row, direction))? {
                                Some(place) => Candidate::Shown { reach, step, place },
                                None => Candidate::Hidden,
                            });
                        }
                        Entry::Occupied(mut entry) => {
                            if let Candidate::Shown { reach: best, step: by, .. } = entry.get_mut()
                                && reach > *best
                            {
                                (*best, *by) = (reach, step);
                            }
                        }
                    }
                }
            }
        }
        Ok(true)
    }

    /// Where an item that an edge leads to lies, if it may be shown.
    fn place_of(
        &self,
        id: ItemId,
        part: u32,
        edges: &PartEdges<'_>,
        seen_from: (Row, Direction),
    ) -> Result<Option<Place>, Damage> {
        let found = self.snapshot.far_place(edges, part, seen_from)?;
        let Some(place) = found else { return Ok(None) };
        let shown = self.goal == Some(id) || self.snapshot.is_met(place, self.which)?;
        Ok(shown.then_some(place))
    }

    /// The first item of the outermost level that the other walk has reached as well.
    fn meets(&self, other: &Self) -> Option<ItemId> {
        let level = self.nodes[self.level.clone()].iter();
        level.map(|node| node.id).find(|id| other.known.contains_key(id))
    }

    /// The steps by which an item was reached, last one first.
    fn way_back(&self, id: ItemId) -> Vec<Step> {
        let before = |step: &Step| self.nodes[self.known[&step.from]].by;
        std::iter::successors(self.nodes[self.known[&id]].by, before).collect()
    }
}
