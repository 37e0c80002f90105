//! The graph: the edges of an item, its neighbours, what lies around it, ways between items.
//!
//! Owns who is a neighbour and in which order. Must not know how a segment keeps its edges: that is
//! [`edges`]' to know.

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

    /// Neighbours of one item that are given at once: the strongest of them, however many there are.
    pub const NEIGHBOURS_MAX: usize = 4096;
}

/// An edge and the item at its other end.
#[derive(Debug, Clone)]
pub struct Neighbour<'a> {
    /// The edge.
    pub edge: EdgeView<'a>,
    /// Which way it runs.
    pub direction: Direction,
    /// The item at the other end.
    pub place: Place,
}

/// What orders edges of one weight, and where the edge lies: part and row.
type Key = (EdgeId, Direction, u32, Row);

impl Snapshot {
    /// The `limit` (at most [`NEIGHBOURS_MAX`]) strongest edges of `id` that `which` lets pass,
    /// strongest first, then in order of edge id; an edge from an item to itself comes once for
    /// each direction. Tombstoned edges and items are left out, and so is what the snapshot's moment
    /// does not show.
    ///
    /// All edges of the item are looked at; memory is that of `limit` of them.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
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
                    // Most edges of a hub end here, before their other end is looked for.
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

    /// Tells `visit` of every edge that is not tombstoned and that the snapshot's moment shows, in the order in which
    /// they were written.
    ///
    /// # Errors
    /// Damage, the snapshot's stop, or what `visit` says.
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
        // It was kept because its node names a row here; the row is another item's where this fails.
        let place = self.find(far)?.ok_or_else(|| {
            Damage::new("SEG-18", format!("a node has a row, and there is no item {far}"))
        })?;
        Ok(Neighbour { edge, direction, place })
    }

    /// Where the item of a node lies. Looked for beside its edges first: most are there.
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

    /// Whether the item at a place may be shown as a neighbour.
    fn is_met(&self, place: Place, which: &EdgeFilter) -> Result<bool, Damage> {
        let part = self.part(place);
        Ok(!part.state.tombstoned.contains(place.row)
            && which.hidden.as_ref().is_none_or(|hidden| !self.is_denied(hidden, place))
            && self.shows(place)?
            && !(which.current_only && self.is_superseded(part, place.row)?))
    }
}
