//! Graph columns of a segment: nodes, and for each node a packed list of its outgoing and incoming edge rows (SEG-18,
//! SEG-19).
//!
//! Owns packing and unpacking, for which only the order of ids matters.

use super::reader::Segment;
use crate::error::CorruptionError;
use crate::ids::{ItemId, Row};
use crate::layout::*;

/// The longest LEB128 of a `u32`.
const PACKED_BYTES_MAX: usize = 5;

/// Packed lists of edge rows, one list per node: the columns `*_offsets` and `*_bytes`.
pub(crate) struct PackedAdjacency {
    pub(crate) offsets: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
}

impl PackedAdjacency {
    /// Packs the rows: edge `row` belongs to node `ends[row]`, which is below `nodes`. If the lists are longer than a
    /// `u32` offset can address, returns `None` (SEG-21).
    pub(crate) fn pack(nodes: usize, ends: &[u32]) -> Option<Self> {
        // Counting sort: within a node, the rows stay in order.
        let mut starts = vec![0u32; nodes + 1];
        for &node in ends {
            starts[node as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut rows = vec![0u32; ends.len()];
        let mut next = starts.clone();
        for (row, &node) in (0..).zip(ends) {
            let slot = &mut next[node as usize];
            rows[*slot as usize] = row;
            *slot += 1;
        }
        let mut packed = Self { offsets: Vec::with_capacity(nodes + 1), bytes: Vec::new() };
        packed.offsets.push(0);
        for bounds in starts.array_windows::<2>() {
            let mut before = 0;
            for &row in &rows[bounds[0] as usize..bounds[1] as usize] {
                // The first row has no predecessor, so its difference is the row itself.
                push_leb128(row - before, &mut packed.bytes);
                before = row;
            }
            packed.offsets.push(u32::try_from(packed.bytes.len()).ok()?);
        }
        Some(packed)
    }
}

fn push_leb128(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

/// Decodes a number in its shortest LEB128 form and returns its length in bytes.
fn read_leb128(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut number = 0u64;
    for (at, &byte) in bytes.iter().take(PACKED_BYTES_MAX).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            let shortest = at == 0 || byte != 0;
            return Some((u32::try_from(number).ok().filter(|_| shortest)?, at + 1));
        }
    }
    None
}

/// Returns the items that have an edge, in ascending order.
pub(crate) fn sorted_nodes(mut ends: Vec<u128>) -> Vec<u128> {
    // The stable sort merges input that consists of several sorted runs instead of sorting from scratch.
    ends.sort();
    ends.dedup();
    ends
}

/// Iterator over the edge rows of one node, in ascending order.
pub(crate) struct EdgeRows<'seg> {
    segment: &'seg Segment,
    column: Column,
    rest: &'seg [u8],
    previous: Option<Row>,
}

impl EdgeRows<'_> {
    fn read(&mut self) -> Result<Row, CorruptionError> {
        let wrong = |detail: String| self.segment.damage("SEG-19", self.column, detail);
        let Some((number, bytes)) = read_leb128(self.rest) else {
            return Err(wrong("a row is not in LEB128".to_owned()));
        };
        let row = match self.previous {
            None => Some(number),
            Some(before) => before.checked_add(number).filter(|_| number > 0),
        };
        let edges = self.segment.header().edges;
        let Some(row) = row.filter(|&row| row < edges) else {
            return Err(wrong(format!("{number} after {:?} is no row of {edges}", self.previous)));
        };
        self.rest = &self.rest[bytes..];
        self.previous = Some(row);
        Ok(row)
    }
}

impl Iterator for EdgeRows<'_> {
    type Item = Result<Row, CorruptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

impl Segment {
    /// Returns the node of an item; `None` if the item has no edge in this segment.
    pub(crate) fn node_of(&self, id: ItemId) -> Result<Option<u32>, CorruptionError> {
        let nodes = self.column::<u128>(NODE_ID)?;
        let at = nodes.lower_bound(|found| *found < id.0)?;
        let found = at < nodes.len() && nodes.get(at)? == id.0;
        Ok(found.then(|| u32::try_from(at).expect("nodes are counted in 32 bits at opening")))
    }

    /// Returns the item id of a node.
    pub(crate) fn node_id(&self, node: u32) -> Result<ItemId, CorruptionError> {
        self.column(NODE_ID)?.get(node as usize).map(ItemId)
    }

    /// Returns the row of a node's item; `None` if the item is in another segment.
    pub(crate) fn node_row(&self, node: u32) -> Result<Option<Row>, CorruptionError> {
        let row: u32 = self.column(NODE_ROW)?.get(node as usize)?;
        if row != NO_ROW && row >= self.header().items {
            let detail = format!("node {node}: row {row} of {} items", self.header().items);
            return Err(self.damage("SEG-12", NODE_ROW, detail));
        }
        Ok((row != NO_ROW).then_some(row))
    }

    /// Returns the start node and the end node of an edge.
    pub(crate) fn edge_nodes(&self, row: Row) -> Result<(u32, u32), CorruptionError> {
        let at = row as usize;
        Ok((self.column(EDGE_FROM_NODE)?.get(at)?, self.column(EDGE_TO_NODE)?.get(at)?))
    }

    /// Returns the rows of the edges that start at a node.
    pub(crate) fn out_rows(&self, node: u32) -> Result<EdgeRows<'_>, CorruptionError> {
        self.adjacency_rows(OUT_OFFSETS, OUT_BYTES, node)
    }

    /// Returns the rows of the edges that end at a node.
    pub(crate) fn in_rows(&self, node: u32) -> Result<EdgeRows<'_>, CorruptionError> {
        self.adjacency_rows(IN_OFFSETS, IN_BYTES, node)
    }

    fn adjacency_rows(
        &self,
        offsets: Column,
        column: Column,
        node: u32,
    ) -> Result<EdgeRows<'_>, CorruptionError> {
        let rest = self.list::<u8>(offsets, column, node)?;
        Ok(EdgeRows { segment: self, column, rest, previous: None })
    }

    /// Returns true if an edge starts or ends at the item.
    pub(crate) fn is_node(&self, id: ItemId) -> Result<bool, CorruptionError> {
        self.node_of(id).map(|node| node.is_some())
    }

    /// Returns the rows of the edges that start at an item, in ascending order.
    #[cfg(test)]
    pub(crate) fn edge_rows_from(&self, id: ItemId) -> Result<Vec<Row>, CorruptionError> {
        self.node_of(id)?.map_or(Ok(Vec::new()), |node| self.out_rows(node)?.collect())
    }

    /// Returns the rows of the edges that end at an item, in ascending order.
    #[cfg(test)]
    pub(crate) fn edge_rows_to(&self, id: ItemId) -> Result<Vec<Row>, CorruptionError> {
        self.node_of(id)?.map_or(Ok(Vec::new()), |node| self.in_rows(node)?.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leb128_roundtrips_and_overlong_forms_are_rejected() {
        for number in [0, 1, 127, 128, 300, 16_383, 16_384, 1 << 28, u32::MAX] {
            let mut bytes = Vec::new();
            push_leb128(number, &mut bytes);
            assert_eq!(read_leb128(&bytes), Some((number, bytes.len())));
            assert_eq!(read_leb128(&bytes[..bytes.len() - 1]), None, "{number} cut");
        }
        for bad in [&[0x80, 0][..], &[0xff, 0xff, 0xff, 0xff, 0x10], &[0x80; 6], &[]] {
            assert_eq!(read_leb128(bad), None, "{bad:x?}");
        }
    }

    #[test]
    fn adjacency_lists_hold_their_edge_rows_in_order() {
        let packed = PackedAdjacency::pack(4, &[2, 0, 2, 2, 3]).unwrap();
        assert_eq!(packed.offsets, [0, 1, 1, 4, 5]);
        assert_eq!(packed.bytes, [1, 0, 2, 1, 4]);
    }
}
