//! Builds the nodes of a merged segment and their adjacency lists (SEG-18, SEG-19).

use super::columns::ColumnMerger;
use super::error::MergeError;
use super::input::MergeInput;
use crate::error::CorruptionError;
use crate::ids::{ItemId, Row};
use crate::layout::*;
use crate::segment::{EdgeEndpoints, sorted_nodes};

/// Nodes of an input with retained edges: old number and id, ascending.
type JoinedNodes = Vec<(u32, u128)>;

impl ColumnMerger<'_, '_> {
    pub(super) fn endpoints(&mut self) -> Result<(), MergeError> {
        let joined =
            self.inputs.iter().map(joined_nodes).collect::<Result<Vec<JoinedNodes>, _>>()?;
        let nodes = sorted_nodes(joined.iter().flatten().map(|&(_, id)| id).collect());
        if u32::try_from(nodes.len()).is_err() {
            let why = format!("{} nodes; a u32 numbers them", nodes.len());
            return Err(MergeError::TooLarge(why));
        }
        let mut rows = vec![NO_ROW; nodes.len()];
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for (input, joined) in self.inputs.iter().zip(&joined) {
            let numbers = renumber_nodes(input, joined, &nodes)?;
            let of_nodes = input.segment.column::<u32>(NODE_ROW)?;
            for &(node, _) in joined {
                let row = of_nodes.get(node as usize)?;
                if row == NO_ROW {
                    continue;
                }
                if row >= input.segment.header().items {
                    let detail = format!("node {node}: there is no row {row}");
                    return Err(input.segment.damage("SEG-12", NODE_ROW, detail).into());
                }
                let new = input.rows.items.new_row(row).unwrap_or(NO_ROW);
                rows[numbers[node as usize] as usize] = new;
            }
            for (column, ends) in [(EDGE_FROM_NODE, &mut from), (EDGE_TO_NODE, &mut to)] {
                let cells = input.segment.column::<u32>(column)?;
                for run in input.rows.edges.runs() {
                    let run = cells.range(run.start, run.end)?.iter();
                    ends.extend(run.map(|&node| numbers[node as usize]));
                }
            }
        }
        for (row, &id) in rows.iter_mut().zip(&nodes).filter(|(row, _)| **row == NO_ROW) {
            *row = find_merged_row(self.inputs, ItemId(id))?.unwrap_or(NO_ROW);
        }
        let ends = EdgeEndpoints { nodes: &nodes, rows: &rows, from: &from, to: &to };
        self.file.endpoints(&ends)?.ok_or_else(|| {
            MergeError::TooLarge("lists of edges are longer than a u32 can count".to_owned())
        })
    }
}

/// Finds an item in any input; returns its row in the merged segment.
fn find_merged_row(inputs: &[MergeInput<'_>], id: ItemId) -> Result<Option<Row>, CorruptionError> {
    for input in inputs {
        if let Some(row) = input.segment.row_of_item(id)? {
            return Ok(input.rows.items.new_row(row));
        }
    }
    Ok(None)
}

/// Collects the nodes of the retained edges. On success, every node number of these edges is valid.
fn joined_nodes(input: &MergeInput<'_>) -> Result<JoinedNodes, CorruptionError> {
    let nodes = input.segment.column::<u128>(NODE_ID)?;
    let mut is_joined = vec![false; nodes.len()];
    for column in [EDGE_FROM_NODE, EDGE_TO_NODE] {
        let ends = input.segment.column::<u32>(column)?;
        for run in input.rows.edges.runs() {
            for &node in ends.range(run.start, run.end)? {
                let Some(joined) = is_joined.get_mut(node as usize) else {
                    let detail = format!("node {node} of {}", nodes.len());
                    return Err(input.segment.damage("SEG-19", column, detail));
                };
                *joined = true;
            }
        }
    }
    let numbered = (0u32..).zip(nodes.all()?).zip(is_joined);
    let joined = numbered.filter(|&(_, joined)| joined).map(|((node, &id), _)| (node, id));
    Ok(joined.collect())
}

/// Maps an input's old node numbers to new ones; entries of nodes without retained edges are meaningless.
fn renumber_nodes(
    input: &MergeInput<'_>,
    joined: &JoinedNodes,
    nodes: &[u128],
) -> Result<Vec<u32>, CorruptionError> {
    let mut numbers = vec![0; joined.last().map_or(0, |&(node, _)| node as usize + 1)];
    let mut new = 0;
    for pair in joined.array_windows::<2>() {
        if pair[0].1 >= pair[1].1 {
            let detail = format!("node {} is not above the one before", pair[1].0);
            return Err(input.segment.damage("SEG-18", NODE_ID, detail));
        }
    }
    for &(node, id) in joined {
        // Both lists ascend, and every joined node is among the new nodes.
        while nodes[new] < id {
            new += 1;
        }
        numbers[node as usize] = u32::try_from(new).expect("the caller counted them");
    }
    Ok(numbers)
}
