//! Edge filters, and a segment's edges resolved for a filter: symbol codes in place of names.
//!
//! Only this module of the graph knows how a segment stores edges.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::CorruptionError;
use crate::ids::{EdgeId, ItemId, Row};
use crate::layout::{EDGE_FROM_NODE, EDGE_ID, EDGE_RELATION, EDGE_TO_NODE, EDGE_WEIGHT};
use crate::query::as_of::TimeColumns;
use crate::query::snapshot::Snapshot;
use crate::query::visibility::VisibilityMask;
use crate::segment::{ColumnView, EdgeRows};
use crate::segment_snapshot::SegmentSnapshot;

/// Edges examined between two cancellation checks.
pub(super) const EDGES_PER_CANCEL_CHECK: u32 = 1024;

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
    pub mask: Option<Arc<VisibilityMask>>,
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
pub(super) struct EdgeWeight(pub(super) f32);

impl Eq for EdgeWeight {}

impl Ord for EdgeWeight {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for EdgeWeight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) struct SegmentEdges<'a> {
    segment: &'a SegmentSnapshot,
    relations: Option<(ColumnView<'a, u32>, Vec<u32>)>,
    time_columns: TimeColumns<'a>,
    ids: ColumnView<'a, u128>,
    weights: ColumnView<'a, f32>,
    /// Start and end nodes of the edges.
    ends: [ColumnView<'a, u32>; 2],
}

impl<'a> SegmentEdges<'a> {
    pub(super) fn open(
        snapshot: &Snapshot,
        which: &EdgeFilter,
        part: &'a SegmentSnapshot,
    ) -> Result<Self, CorruptionError> {
        let segment = &*part.segment;
        let relations = if which.relations.is_empty() {
            None
        } else {
            let codes = which.relations.iter().map(|name| segment.symbol_code(name));
            let codes = codes.collect::<Result<Vec<_>, _>>()?;
            Some((segment.column(EDGE_RELATION)?, codes.into_iter().flatten().collect()))
        };
        Ok(Self {
            segment: part,
            relations,
            time_columns: TimeColumns::for_edges(snapshot.as_of(), segment)?,
            ids: segment.column(EDGE_ID)?,
            weights: segment.column(EDGE_WEIGHT)?,
            ends: [segment.column(EDGE_FROM_NODE)?, segment.column(EDGE_TO_NODE)?],
        })
    }

    /// Node of an item; `None` if no edge of the segment joins the item.
    pub(super) fn node_of(&self, id: ItemId) -> Result<Option<u32>, CorruptionError> {
        self.segment.segment.node_of(id)
    }

    /// Rows of the edges that start (`Out`) or end (`In`) at a node, in write order.
    pub(super) fn rows(
        &self,
        node: u32,
        direction: Direction,
    ) -> Result<EdgeRows<'a>, CorruptionError> {
        match direction {
            Direction::Out => self.segment.segment.out_rows(node),
            Direction::In => self.segment.segment.in_rows(node),
        }
    }

    /// Returns true if the edge is not tombstoned, has an allowed relation, and is visible as of the snapshot's times.
    pub(super) fn admits(&self, row: Row) -> Result<bool, CorruptionError> {
        if self.segment.state.edges_tombstoned.contains(row) {
            return Ok(false);
        }
        if let Some((relations, wanted)) = &self.relations
            && !wanted.contains(&relations.get(row as usize)?)
        {
            return Ok(false);
        }
        self.time_columns.is_visible(row)
    }

    pub(super) fn id(&self, row: Row) -> Result<EdgeId, CorruptionError> {
        self.ids.get(row as usize).map(EdgeId)
    }

    pub(super) fn weight(&self, row: Row) -> Result<f32, CorruptionError> {
        self.weights.get(row as usize)
    }

    /// Node at the other end of an edge.
    pub(super) fn other_node(
        &self,
        row: Row,
        direction: Direction,
    ) -> Result<u32, CorruptionError> {
        let [from, to] = &self.ends;
        let far = if direction == Direction::Out { to } else { from };
        far.get(row as usize)
    }

    pub(super) fn item(&self, node: u32) -> Result<ItemId, CorruptionError> {
        self.segment.segment.node_id(node)
    }

    /// Row of a node's item, if the item is in this segment.
    pub(super) fn item_row(&self, node: u32) -> Result<Option<Row>, CorruptionError> {
        self.segment.segment.node_row(node)
    }
}
