//! Node of the term dictionary, read in place.
//!
//! Owns the node tables of format-spec/words.md (fst version 3). The meaning of a path is left to the caller.

use super::column_bytes::ColumnBytes;
use crate::error::CorruptionError;

/// Start of the nodes, after version and type.
pub(super) const NODES_AT: usize = 16;
/// Number of transitions above which a node has an index.
pub(super) const INDEXED_ABOVE: usize = 32;
/// Inputs that a node with a single transition encodes in its state byte.
pub(super) const COMMON_INPUTS: &[u8; 63] =
    b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG";

const INDEX_BYTES: u16 = 256;
/// State byte, the preceding byte (input or count) and sizes byte.
const NODE_HEAD_BYTES: usize = 3;
const NUMBER_BYTES_MAX: u8 = 8;

/// Node whose bytes all lie within the dictionary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    /// Bytes of the node, including its state byte.
    bytes: &'a [u8],
    /// Offset of the node's first byte in the dictionary.
    pub(super) start: usize,
    /// Number of transitions.
    count: u16,
    /// Bytes after the inputs, or after the delta of a single transition.
    head: u16,
    delta_bytes: u8,
    output_bytes: u8,
    state: u8,
    /// Input of a single transition.
    input: u8,
}

/// Values of the top bits of a state byte: one transition, or a final node.
const SINGLE: u8 = 0x80;
const SINGLE_NEXT: u8 = 0xC0;
const FINAL: u8 = 0x40;

pub(super) fn broken_node(address: usize) -> CorruptionError {
    CorruptionError::new(
        "WRD-02",
        format!("dictionary node at {address} reaches outside the dictionary"),
    )
}

/// Decodes a little-endian number of up to 8 bytes.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl<'a> Node<'a> {
    /// Reads the node whose last byte is at `address`, which must be below `end`, and checks that the node is within
    /// the dictionary.
    pub(super) fn read<B: ColumnBytes>(
        dictionary: &'a B,
        end: usize,
        address: usize,
    ) -> Result<Self, CorruptionError> {
        if address == 0 {
            return Ok(Self {
                bytes: &[],
                start: 0,
                count: 0,
                head: 0,
                delta_bytes: 0,
                output_bytes: 0,
                state: FINAL,
                input: 0,
            });
        }
        if address < NODES_AT || address >= end {
            return Err(broken_node(address));
        }
        let head_at = (address + 1 - NODE_HEAD_BYTES).max(NODES_AT);
        let head = dictionary.range(head_at, address + 1)?;
        let node = Self::parse_head(head).ok_or_else(|| broken_node(address))?;
        let start = (address + 1)
            .checked_sub(node.size())
            .filter(|start| *start >= NODES_AT)
            .ok_or_else(|| broken_node(address))?;
        let bytes = match head.len().checked_sub(node.size()) {
            Some(before) => &head[before..],
            None => dictionary.range(start, address + 1)?,
        };
        Ok(Self { bytes, start, ..node })
    }

    /// Decodes the layout of a node from its last bytes: up to [`NODE_HEAD_BYTES`], including the state byte. `None` if
    /// there are too few bytes or a width is invalid.
    fn parse_head(head: &[u8]) -> Option<Self> {
        let (state, mut rest) = head.split_last()?;
        let (single, low) = (state & SINGLE != 0, state & 0x3F);
        let (mut input, mut count, mut used) = (0, 1, 1);
        match (single, low) {
            (true, 1..) => input = COMMON_INPUTS[usize::from(low) - 1],
            (false, 1..) => count = u16::from(low),
            (_, 0) => {
                let (stated, before) = rest.split_last()?;
                (rest, used) = (before, used + 1);
                match (single, *stated) {
                    (true, stated) => input = stated,
                    (false, 1) => count = 256,
                    (false, stated) => count = u16::from(stated),
                }
            }
        }
        let mut sizes = 0;
        if state & SINGLE_NEXT != SINGLE_NEXT {
            sizes = *rest.last()?;
            used += 1;
        }
        if !single && usize::from(count) > INDEXED_ABOVE {
            used += INDEX_BYTES;
        }
        let (delta_bytes, output_bytes) = (sizes >> 4, sizes & 15);
        (delta_bytes.max(output_bytes) <= NUMBER_BYTES_MAX).then_some(Self {
            bytes: &[],
            start: 0,
            count,
            head: used,
            delta_bytes,
            output_bytes,
            state: *state,
            input,
        })
    }

    /// Length of the node in bytes.
    fn size(&self) -> usize {
        let (delta, output) = (usize::from(self.delta_bytes), usize::from(self.output_bytes));
        let input = usize::from(self.state & SINGLE == 0);
        let last = if self.is_final() { output } else { 0 };
        usize::from(self.head) + self.count() * (input + delta + output) + last
    }

    fn is_final(&self) -> bool {
        self.state & SINGLE_NEXT == FINAL
    }

    /// Final output, if a term ends at this node.
    pub(super) fn last(&self) -> Option<u64> {
        // The final node at address 0 has no bytes.
        self.is_final().then(|| number(&self.bytes[..usize::from(self.output_bytes)]))
    }

    /// Number of transitions.
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Returns the transition for `byte`.
    pub(super) fn find(&self, byte: u8) -> Option<usize> {
        if self.state & SINGLE != 0 {
            return (self.input == byte).then_some(0);
        }
        let (tail, count) = (self.bytes.len() - usize::from(self.head), self.count());
        if count > INDEXED_ABOVE {
            // The index is the first part after the inputs.
            let i = usize::from(self.bytes[tail + usize::from(byte)]);
            return (i < count).then_some(i);
        }
        let inputs = &self.bytes[tail - count..tail];
        inputs.iter().rposition(|input| *input == byte).map(|at| count - 1 - at)
    }

    /// Returns the input of transition `i`, which must be below the count.
    pub(super) fn input(&self, i: usize) -> u8 {
        match self.state & SINGLE {
            0 => self.bytes[self.bytes.len() - usize::from(self.head) - 1 - i],
            _ => self.input,
        }
    }

    /// Returns input, output and target of transition `i`, which must be below the count. The target is `None` if it is
    /// outside the dictionary.
    pub(super) fn transition(&self, i: usize) -> (u8, u64, Option<usize>) {
        if self.state & SINGLE_NEXT == SINGLE_NEXT {
            let target = Some(self.start - 1).filter(|target| *target >= NODES_AT);
            return (self.input, 0, target);
        }
        let (delta, output) = (usize::from(self.delta_bytes), usize::from(self.output_bytes));
        let inputs = if self.state & SINGLE == 0 { self.count() } else { 0 };
        let deltas_end = self.bytes.len() - usize::from(self.head) - inputs;
        let outputs_end = deltas_end - self.count() * delta;
        let cell = |end: usize, bytes: usize| {
            let end = end - i * bytes;
            number(&self.bytes[end - bytes..end])
        };
        let target = match usize::try_from(cell(deltas_end, delta)) {
            Ok(0) => Some(0),
            Ok(delta) => self.start.checked_sub(delta).filter(|target| *target >= NODES_AT),
            Err(_) => None,
        };
        (self.input(i), cell(outputs_end, output), target)
    }
}
