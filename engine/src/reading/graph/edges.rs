//! Edge filters, and a segment's edges resolved for a filter: symbol codes in place of names.
//!
//! Only this module of the graph knows how a segment stores edges.

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

/// Edges examined between two cancellation checks.
pub(super) const EDGES_TOGETHER: u32 = 1024;

/// Direction of an edge, seen from an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the item to its neighbour.
    Out,
    /// From the neighbour to the item.
    In,
}

impl Direction {
    /// Name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }

    /// Direction of the edge, seen from its other end.
    pub fn reversed(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Out,
        }
    }
}

/// Conditions on the edges that a query follows.
#[derive(Debug, Clone, Default)]
pub struct EdgeFilter {
    /// Allowed relations; all if empty.
    pub relations: Vec<String>,
    /// Required direction, seen from the item where a step starts; both if `None`.
    pub direction: Option<Direction>,
    /// Excludes edges to superseded items.
    pub current_only: bool,
    /// Visibility mask of the caller: excludes edges to denied items.
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

/// Edge weight, ordered by `f32::total_cmp`.
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
    /// Start and end nodes of the edges.
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

    /// Node of an item; `None` if no edge of the segment joins the item.
    pub(super) fn node_of(&self, id: ItemId) -> Result<Option<u32>, Damage> {
        self.part.segment.node_of(id)
    }

    /// Rows of the edges that start (`Out`) or end (`In`) at a node, in write order.
    pub(super) fn rows(&self, node: u32, direction: Direction) -> Result<EdgeRows<'a>, Damage> {
        match direction {
            Direction::Out => self.part.segment.out_rows(node),
            Direction::In => self.part.segment.in_rows(node),
        }
    }

    /// Returns true if the edge is not tombstoned, has an allowed relation, and is visible as of the snapshot's times.
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

    /// Node at the other end of an edge.
    pub(super) fn far_node(&self, row: Row, direction: Direction) -> Result<u32, Damage> {
        let [from, to] = &self.ends;
        let far = if direction == Direction::Out { to } else { from };
        far.get(row as usize)
    }

    pub(super) fn item(&self, node: u32) -> Result<ItemId, Damage> {
        self.part.segment.node_id(node)
    }

    /// Row of a node's item, if the item is in this segment.
    pub(super) fn item_row(&self, node: u32) -> Result<Option<Row>, Damage> {
        self.part.segment.node_row(node)
    }
}
