//! Graph columns of a segment: nodes, and for each node a packed list of its outgoing and incoming edge rows (SEG-18,
//! SEG-19).
//!
//! Owns packing and unpacking, for which only the order of ids matters.

use super::sealed::Segment;
use crate::error::Damage;
use crate::ids::{ItemId, Row};
use crate::layout::*;

/// The longest LEB128 of a `u32`.
const PACKED_BYTES_MAX: usize = 5;

/// Packed lists of edge rows, one list per node: the columns `*_offsets` and `*_bytes`.
pub(crate) struct Packed {
    pub(crate) offsets: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
}

impl Packed {
    /// Packs the rows: edge `row` belongs to node `ends[row]`, which is below `nodes`. If the lists are longer than a
    /// `u32` offset can address, returns `None` (SEG-21).
    pub(crate) fn of(nodes: usize, ends: &[u32]) -> Option<Self> {
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
pub(crate) fn nodes_of(mut ends: Vec<u128>) -> Vec<u128> {
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
    before: Option<Row>,
}

impl EdgeRows<'_> {
    fn read(&mut self) -> Result<Row, Damage> {
        let wrong = |detail: String| self.segment.wrong("SEG-19", self.column, detail);
        let Some((number, bytes)) = read_leb128(self.rest) else {
            return Err(wrong("a row is not in LEB128".to_owned()));
        };
        let row = match self.before {
            None => Some(number),
            Some(before) => before.checked_add(number).filter(|_| number > 0),
        };
        let edges = self.segment.header().edges;
        let Some(row) = row.filter(|&row| row < edges) else {
            return Err(wrong(format!("{number} after {:?} is no row of {edges}", self.before)));
        };
        self.rest = &self.rest[bytes..];
        self.before = Some(row);
        Ok(row)
    }
}

impl Iterator for EdgeRows<'_> {
    type Item = Result<Row, Damage>;

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
    pub(crate) fn node_of(&self, id: ItemId) -> Result<Option<u32>, Damage> {
        let nodes = self.view::<u128>(NODE_ID)?;
        let at = nodes.lower_bound(|found| *found < id.0)?;
        let found = at < nodes.len() && nodes.get(at)? == id.0;
        Ok(found.then(|| u32::try_from(at).expect("nodes are counted in 32 bits at opening")))
    }

    /// Returns the item id of a node.
    pub(crate) fn node_id(&self, node: u32) -> Result<ItemId, Damage> {
        self.view(NODE_ID)?.get(node as usize).map(ItemId)
    }

    /// Returns the row of a node's item; `None` if the item is in another segment.
    pub(crate) fn node_row(&self, node: u32) -> Result<Option<Row>, Damage> {
        let row: u32 = self.view(NODE_ROW)?.get(node as usize)?;
        if row != NO_ROW && row >= self.header().items {
            let detail = format!("node {node}: row {row} of {} items", self.header().items);
            return Err(self.wrong("SEG-12", NODE_ROW, detail));
        }
        Ok((row != NO_ROW).then_some(row))
    }

    /// Returns the start node and the end node of an edge.
    pub(crate) fn edge_nodes(&self, row: Row) -> Result<(u32, u32), Damage> {
        let at = row as usize;
        Ok((self.view(EDGE_FROM_NODE)?.get(at)?, self.view(EDGE_TO_NODE)?.get(at)?))
    }

    /// Returns the rows of the edges that start at a node.
    pub(crate) fn out_rows(&self, node: u32) -> Result<EdgeRows<'_>, Damage> {
        self.rows_at(OUT_OFFSETS, OUT_BYTES, node)
    }

    /// Returns the rows of the edges that end at a node.
    pub(crate) fn in_rows(&self, node: u32) -> Result<EdgeRows<'_>, Damage> {
        self.rows_at(IN_OFFSETS, IN_BYTES, node)
    }

    fn rows_at(&self, offsets: Column, column: Column, node: u32) -> Result<EdgeRows<'_>, Damage> {
        let rest = self.list::<u8>(offsets, column, node)?;
        Ok(EdgeRows { segment: self, column, rest, before: None })
    }

    /// Returns true if an edge starts or ends at the item.
    pub(crate) fn joins(&self, id: ItemId) -> Result<bool, Damage> {
        self.node_of(id).map(|node| node.is_some())
    }

    /// Returns the rows of the edges that start at an item, in ascending order.
    #[cfg(test)]
    pub(crate) fn edge_rows_from(&self, id: ItemId) -> Result<Vec<Row>, Damage> {
        self.node_of(id)?.map_or(Ok(Vec::new()), |node| self.out_rows(node)?.collect())
    }

    /// Returns the rows of the edges that end at an item, in ascending order.
    #[cfg(test)]
    pub(crate) fn edge_rows_to(&self, id: ItemId) -> Result<Vec<Row>, Damage> {
        self.node_of(id)?.map_or(Ok(Vec::new()), |node| self.in_rows(node)?.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_longer_forms_are_refused() {
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
    fn lists_hold_the_rows_of_their_node_in_order() {
        let packed = Packed::of(4, &[2, 0, 2, 2, 3]).unwrap();
        assert_eq!(packed.offsets, [0, 1, 1, 4, 5]);
        assert_eq!(packed.bytes, [1, 0, 2, 1, 4]);
    }
}
