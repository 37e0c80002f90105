//! Graph queries: edges of an item, neighbours, neighbourhoods and paths.
//!
//! Owns which items are neighbours, and their order. Only [`edges`] knows how a segment stores edges.

mod address_map;
mod edges;
mod traversal;

use crate::error::{CorruptionError, SearchError};
use crate::ids::{EdgeId, ItemId, Row};
use crate::query::snapshot::{RowAddress, Snapshot};
use crate::segment::EdgeView;
use crate::top_k::TopK;
use edges::{EDGES_PER_CANCEL_CHECK, EdgeWeight, SegmentEdges};

pub use edges::{Direction, EdgeFilter};
pub use traversal::{
    GRAPH_EDGES_MAX, GRAPH_NODES_MAX, GraphPath, HOPS_MAX, Neighbourhood, PathStep, ReachedItem,
    WalkLimits,
};

limit_table::limits! {
    pub(crate) const LIMITS = [traversal];

    /// Neighbours of one item returned by a call, strongest first.
    pub const NEIGHBOURS_MAX: usize = 4096;
}

/// An edge and the item at its other end.
#[derive(Debug, Clone)]
pub struct Neighbour<'a> {
    /// The edge.
    pub edge: EdgeView<'a>,
    /// Direction of the edge, seen from the item.
    pub direction: Direction,
    /// Row address of the item at the other end.
    pub address: RowAddress,
}

/// Sort key for edges of equal weight; the last two fields locate the edge by segment ordinal and row.
type EdgeKey = (EdgeId, Direction, u32, Row);

impl Snapshot {
    /// Returns the `limit` (at most [`NEIGHBOURS_MAX`]) strongest edges of `id` that `which` admits, strongest first,
    /// then by edge id. An edge from an item to itself is returned once per direction. Tombstoned edges and items are
    /// excluded, as are those not visible as of the snapshot's times.
    ///
    /// All edges of the item are examined; memory is bounded by `limit`.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn neighbours(
        &self,
        id: ItemId,
        limit: usize,
        which: &EdgeFilter,
    ) -> Result<Vec<Neighbour<'_>>, SearchError> {
        let mut best: TopK<EdgeWeight, EdgeKey> = TopK::new(limit.min(NEIGHBOURS_MAX));
        if best.is_closed() || self.find(id)?.is_none() {
            return Ok(Vec::new());
        }
        let mut steps = self.cancel.every(EDGES_PER_CANCEL_CHECK);
        for (at, part) in (0u32..).zip(self.segments.iter()) {
            let edges = SegmentEdges::open(self, which, part)?;
            let Some(node) = edges.node_of(id)? else { continue };
            for &direction in which.directions() {
                for row in edges.rows(node, direction)? {
                    let row = row?;
                    steps.tick()?;
                    if !edges.admits(row)? {
                        continue;
                    }
                    let strength = EdgeWeight(edges.weight(row)?);
                    let key = (edges.id(row)?, direction, at, row);
                    // Drops most edges of a hub before the costly look-up of their other end.
                    if !best.would_accept(strength, &key) {
                        continue;
                    }
                    let far = edges.other_node(row, direction)?;
                    if let Some(place) = self.row_address_of_node(&edges, at, far)?
                        && self.is_visible_neighbour(place, which)?
                    {
                        best.offer(strength, key);
                    }
                }
            }
        }
        let best = best.into_sorted().into_iter();
        Ok(best.map(|(_, key)| self.neighbour(key)).collect::<Result<_, _>>()?)
    }

    /// Calls `visit` with every edge that is not tombstoned and is visible as of the snapshot's times, in write order.
    ///
    /// # Errors
    /// Corruption, cancellation, or the error of `visit`.
    pub fn each_edge<'s, E: From<SearchError> + From<CorruptionError>>(
        &'s self,
        mut visit: impl FnMut(EdgeView<'s>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut steps = self.cancel.every(EDGES_PER_CANCEL_CHECK);
        for part in self.segments.iter() {
            let which = EdgeFilter::default();
            let edges = SegmentEdges::open(self, &which, part)?;
            for row in 0..part.segment.header().edges {
                steps.tick()?;
                if edges.admits(row)? {
                    visit(part.segment.edge(row)?)?;
                }
            }
        }
        Ok(())
    }

    fn neighbour(
        &self,
        (_, direction, at, row): EdgeKey,
    ) -> Result<Neighbour<'_>, CorruptionError> {
        let edge = self.segments[at as usize].segment.edge(row)?;
        let far = if direction == Direction::Out { edge.to } else { edge.from };
        // The edge was admitted because its node names a row here. If the look-up fails, that row is another item's.
        let place = self.find(far)?.ok_or_else(|| {
            CorruptionError::new("SEG-18", format!("a node has a row, and there is no item {far}"))
        })?;
        Ok(Neighbour { edge, direction, address: place })
    }

    /// Row address of a node's item. The edge's own segment is tried first, as most items are there.
    fn row_address_of_node(
        &self,
        edges: &SegmentEdges<'_>,
        part: u32,
        node: u32,
    ) -> Result<Option<RowAddress>, CorruptionError> {
        match edges.item_row(node)? {
            Some(row) => Ok(Some(RowAddress { segment_ord: part, row })),
            None => self.find_any_time(edges.item(node)?),
        }
    }

    /// Returns true if the item at `place` may be returned as a neighbour.
    fn is_visible_neighbour(
        &self,
        place: RowAddress,
        which: &EdgeFilter,
    ) -> Result<bool, CorruptionError> {
        let part = self.segment(place);
        Ok(!part.state.tombstoned.contains(place.row)
            && which.mask.as_ref().is_none_or(|hidden| !self.is_denied(hidden, place))
            && self.is_visible(place)?
            && !(which.current_only && self.is_superseded(part, place.row)?))
    }
}
