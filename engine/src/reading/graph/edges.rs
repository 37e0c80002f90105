//! The edges of one part, in the terms of a question: codes instead of names.
//!
//! The one place of the graph that knows how a segment keeps its edges.

use super::{Direction, EdgeFilter};
use crate::error::Damage;
use crate::ids::{EdgeId, ItemId, Row};
use crate::layout::{EDGE_FROM_NODE, EDGE_ID, EDGE_RELATION, EDGE_TO_NODE, EDGE_WEIGHT};
use crate::part::Part;
use crate::reading::moment::Times;
use crate::reading::snapshot::Snapshot;
use crate::segment::{EdgeRows, View};

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
