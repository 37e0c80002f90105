//! Graph queries: edges of an item, neighbours, neighbourhoods and paths.
//!
//! Owns which items are neighbours, and their order. Only [`edges`] knows how a segment stores edges.

mod edges;
mod places;
mod walk;

use crate::error::{Damage, SearchError};
use crate::ids::{EdgeId, ItemId, Row};
use crate::reading::snapshot::{Place, Snapshot};
use crate::segment::EdgeView;
use crate::top::Top;
use edges::{EDGES_TOGETHER, PartEdges, Strength};

pub use edges::{Direction, EdgeFilter};
pub use walk::{
    GRAPH_EDGES_MAX, GRAPH_NODES_MAX, HOPS_MAX, Neighbourhood, Path, Reached, Step, WalkLimits,
};

limit_table::limits! {
    pub(crate) const LIMITS = [walk];

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
    pub place: Place,
}

/// Sort key for edges of equal weight; the last two fields locate the edge by segment ordinal and row.
type Key = (EdgeId, Direction, u32, Row);

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
        let mut best: Top<Strength, Key> = Top::new(limit.min(NEIGHBOURS_MAX));
        if best.is_closed() || self.find(id)?.is_none() {
            return Ok(Vec::new());
        }
        let mut steps = self.stop.each(EDGES_TOGETHER);
        for (at, part) in (0u32..).zip(self.parts.iter()) {
            let edges = PartEdges::of(self, which, part)?;
            let Some(node) = edges.node_of(id)? else { continue };
            for &direction in which.directions() {
                for row in edges.rows(node, direction)? {
                    let row = row?;
                    steps.step()?;
                    if !edges.admits(row)? {
                        continue;
                    }
                    let strength = Strength(edges.weight(row)?);
                    let key = (edges.id(row)?, direction, at, row);
                    // Drops most edges of a hub before the costly look-up of their other end.
                    if !best.would_keep(strength, &key) {
                        continue;
                    }
                    let far = edges.far_node(row, direction)?;
                    if let Some(place) = self.place_of_node(&edges, at, far)?
                        && self.is_met(place, which)?
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
    pub fn each_edge<'s, E: From<SearchError> + From<Damage>>(
        &'s self,
        mut visit: impl FnMut(EdgeView<'s>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut steps = self.stop.each(EDGES_TOGETHER);
        for part in self.parts.iter() {
            let which = EdgeFilter::default();
            let edges = PartEdges::of(self, &which, part)?;
            for row in 0..part.segment.header().edges {
                steps.step()?;
                if edges.admits(row)? {
                    visit(part.segment.edge(row)?)?;
                }
            }
        }
        Ok(())
    }

    fn neighbour(&self, (_, direction, at, row): Key) -> Result<Neighbour<'_>, Damage> {
        let edge = self.parts[at as usize].segment.edge(row)?;
        let far = if direction == Direction::Out { edge.to } else { edge.from };
        // The edge was admitted because its node names a row here. If the look-up fails, that row is another item's.
        let place = self.find(far)?.ok_or_else(|| {
            Damage::new("SEG-18", format!("a node has a row, and there is no item {far}"))
        })?;
        Ok(Neighbour { edge, direction, place })
    }

    /// Row address of a node's item. The edge's own segment is tried first, as most items are there.
    fn place_of_node(
        &self,
        edges: &PartEdges<'_>,
        part: u32,
        node: u32,
    ) -> Result<Option<Place>, Damage> {
        match edges.item_row(node)? {
            Some(row) => Ok(Some(Place { part, row })),
            None => self.find_row(edges.item(node)?),
        }
    }

    /// Returns true if the item at `place` may be returned as a neighbour.
    fn is_met(&self, place: Place, which: &EdgeFilter) -> Result<bool, Damage> {
        let part = self.part(place);
        Ok(!part.state.tombstoned.contains(place.row)
            && which.hidden.as_ref().is_none_or(|hidden| !self.is_denied(hidden, place))
            && self.shows(place)?
            && !(which.current_only && self.is_superseded(part, place.row)?))
    }
}
