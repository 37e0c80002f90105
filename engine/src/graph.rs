//! The graph: edges of an item, its neighbours, strongest first.

use crate::error::Damage;
use crate::ids::ItemId;
use crate::segment::EdgeView;
use crate::snapshot::{Part, Place, Snapshot, Status};

/// Edges of one item that are looked at; a hub with more shows the oldest of them.
pub const EDGES_PER_ITEM_MAX: usize = 4096;

/// Which way an edge runs, seen from an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

impl Snapshot {
    /// Items joined to `id` by an edge, strongest first, then in order of edge id. Tombstoned
    /// edges and items are left out; superseded items are not.
    pub fn neighbours(&self, id: ItemId) -> Result<Vec<Neighbour<'_>>, Damage> {
        let mut found = Vec::new();
        for part in self.parts.iter() {
            self.collect(part, id, Direction::Out, &mut found)?;
            self.collect(part, id, Direction::In, &mut found)?;
        }
        found.sort_by(|a, b| {
            b.edge.weight.total_cmp(&a.edge.weight).then(a.edge.id.cmp(&b.edge.id))
        });
        Ok(found)
    }

    fn collect<'a>(
        &'a self,
        part: &'a Part,
        id: ItemId,
        direction: Direction,
        found: &mut Vec<Neighbour<'a>>,
    ) -> Result<(), Damage> {
        let rows = match direction {
            Direction::Out => part.segment.edge_rows_from(id)?,
            Direction::In => part.segment.edge_rows_to(id)?,
        };
        for row in rows {
            if found.len() == EDGES_PER_ITEM_MAX {
                break;
            }
            if part.state.edges_tombstoned.contains(row) {
                continue;
            }
            let edge = part.segment.edge(row)?;
            let other = if direction == Direction::Out { edge.to } else { edge.from };
            let visible = |place: &Place| self.status(*place) != Status::Tombstoned;
            if let Some(place) = self.find(other)?.filter(visible) {
                found.push(Neighbour { edge, direction, place });
            }
        }
        Ok(())
    }
}
