//! Which edges a question is about, and those of one part in its terms: codes instead of names.
//!
//! The one place of the graph that knows how a segment keeps its edges.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::Damage;
use crate::ids::{EdgeId, ItemId, Row};
use crate::layout::{EDGE_FROM_NODE, EDGE_ID, EDGE_RELATION, EDGE_TO_NODE, EDGE_WEIGHT};
use crate::part::Part;
use crate::reading::hidden::Hidden;
use crate::reading::moment::Times;
use crate::reading::snapshot::Snapshot;
use crate::segment::{EdgeRows, View};

/// Edges that are looked at between two looks at whether the walk is still wanted.
pub(super) const EDGES_TOGETHER: u32 = 1024;

/// Which way an edge runs, seen from an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the item to its neighbour.
    Out,
    /// From the neighbour to the item.
    In,
}

impl Direction {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }

    /// The same edge, seen from its other end.
    pub fn reversed(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Out,
        }
    }
}

/// Which edges count.
#[derive(Debug, Clone, Default)]
pub struct EdgeFilter {
    /// Only these relations; all where empty.
    pub relations: Vec<String>,
    /// Only edges that run this way, seen from where a step starts.
    pub direction: Option<Direction>,
    /// Only edges to items that no newer one replaces.
    pub current_only: bool,
    /// No edges to items that are hidden altogether.
    pub hidden: Option<Arc<Hidden>>,
}

impl EdgeFilter {
    pub(super) fn directions(&self) -> &'static [Direction] {
        match self.direction {
            None => &[Direction::Out, Direction::In],
            Some(Direction::Out) => &[Direction::Out],
            Some(Direction::In) => &[Direction::In],
        }
    }
}

/// A weight, in its total order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Strength(pub(super) f32);

impl Eq for Strength {}

impl Ord for Strength {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Strength {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) struct PartEdges<'a> {
    part: &'a Part,
    relations: Option<(View<'a, u32>, Vec<u32>)>,
    times: Times<'a>,
    ids: View<'a, u128>,
    weights: View<'a, f32>,
    /// Nodes where edges start and end.
    ends: [View<'a, u32>; 2],
}

impl<'a> PartEdges<'a> {
    pub(super) fn of(
        snapshot: &Snapshot,
        which: &EdgeFilter,
        part: &'a Part,
    ) -> Result<Self, Damage> {
        let segment = &*part.segment;
        let relations = if which.relations.is_empty() {
            None
        } else {
            let codes = which.relations.iter().map(|name| segment.symbol_code(name));
            let codes = codes.collect::<Result<Vec<_>, _>>()?;
            Some((segment.view(EDGE_RELATION)?, codes.into_iter().flatten().collect()))
        };
        Ok(Self {
            part,
            relations,
            times: Times::of_edges(snapshot.moment(), segment)?,
            ids: segment.view(EDGE_ID)?,
            weights: segment.view(EDGE_WEIGHT)?,
            ends: [segment.view(EDGE_FROM_NODE)?, segment.view(EDGE_TO_NODE)?],
        })
    }

    /// The node of an item, if an edge of the part joins it.
    pub(super) fn node_of(&self, id: ItemId) -> Result<Option<u32>, Damage> {
        self.part.segment.node_of(id)
    }

    /// Rows of the edges that start (`Out`) or end (`In`) at a node, in the order in which they
    /// were written.
    pub(super) fn rows(&self, node: u32, direction: Direction) -> Result<EdgeRows<'a>, Damage> {
        match direction {
            Direction::Out => self.part.segment.out_rows(node),
            Direction::In => self.part.segment.in_rows(node),
        }
    }

    /// Whether the edge is there, at the snapshot's moment, and of a relation that is wanted.
    pub(super) fn admits(&self, row: Row) -> Result<bool, Damage> {
        if self.part.state.edges_tombstoned.contains(row) {
            return Ok(false);
        }
        if let Some((relations, wanted)) = &self.relations
            && !wanted.contains(&relations.get(row as usize)?)
        {
            return Ok(false);
        }
        self.times.shows(row)
    }

    pub(super) fn id(&self, row: Row) -> Result<EdgeId, Damage> {
        self.ids.get(row as usize).map(EdgeId)
    }

    pub(super) fn weight(&self, row: Row) -> Result<f32, Damage> {
        self.weights.get(row as usize)
    }

    /// The node at the end of an edge that is away from where it is seen.
    pub(super) fn far_node(&self, row: Row, direction: Direction) -> Result<u32, Damage> {
        let [from, to] = &self.ends;
        let far = if direction == Direction::Out { to } else { from };
        far.get(row as usize)
    }

    /// The item of a node.
    pub(super) fn item(&self, node: u32) -> Result<ItemId, Damage> {
        self.part.segment.node_id(node)
    }

    /// The row of a node's item, where it lies in this part.
    pub(super) fn item_row(&self, node: u32) -> Result<Option<Row>, Damage> {
        self.part.segment.node_row(node)
    }
}
