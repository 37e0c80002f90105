//! The term dictionary: an `fst` map that is read with checks.
//!
//! Owns the reading of fst version 3 bytes. The `fst` crate builds them, but its reader trusts
//! them: a wrong address makes it panic, and its checksum is no defence against bytes made on
//! purpose. This reader follows the same node tables (format-spec/words.md, WRD-01 to WRD-03) and
//! answers `Damage`. Addresses fall at every step, so no walk can loop; a path is bounded by
//! `TERM_BYTES_MAX`.

use super::layout::TERM_BYTES_MAX;
use super::{Damage, damage};

const NODES_AT: usize = 16;
const TAIL_BYTES: usize = 20;
const INDEXED_ABOVE: usize = 32;
const COMMON_INPUTS: &[u8; 63] = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG";

/// A checked view of dictionary bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dictionary<'a> {
    /// Everything before the tail; node addresses index it.
    nodes: &'a [u8],
    root: usize,
    terms: u32,
}

/// How a node spells its transitions.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// One transition with everything known.
    One { input: u8, output: u64, target: usize },
    /// Any number; positions of the arrays, which lie in falling order of index.
    Any { inputs_end: usize, index: Option<usize>, deltas_end: usize, outputs_end: usize },
}

#[derive(Debug, Clone, Copy)]
struct Node {
    start: usize,
    count: usize,
    delta_bytes: usize,
    output_bytes: usize,
    last: Option<u64>,
    shape: Shape,
}

fn broken(address: usize) -> Damage {
    damage("WRD-02", format!("dictionary node at {address} reaches outside the dictionary"))
}

impl<'a> Dictionary<'a> {
    /// Checks head and tail; nodes are checked as they are visited.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, Damage> {
        let number = |at: usize| -> Result<u64, Damage> {
            let cell = bytes.get(at..at + 8).and_then(|cell| cell.try_into().ok());
            cell.map(u64::from_le_bytes).ok_or_else(|| {
                damage("WRD-01", format!("dictionary of {} bytes is too short", bytes.len()))
            })
        };
        let tail =
            bytes.len().checked_sub(TAIL_BYTES).filter(|tail| *tail >= NODES_AT).ok_or_else(
                || damage("WRD-01", format!("dictionary of {} bytes is too short", bytes.len())),
            )?;
        let (version, kind) = (number(0)?, number(8)?);
        if (version, kind) != (3, 0) {
            return Err(damage(
                "WRD-01",
                format!("dictionary version {version} type {kind}, not 3 and 0"),
            ));
        }
        let (keys, root) = (number(tail)?, number(tail + 8)?);
        let root = usize::try_from(root).ok().filter(|root| *root == 0 || *root == tail - 1);
        let root = root.ok_or_else(|| damage("WRD-01", "dictionary root is not its last node"))?;
        let terms = u32::try_from(keys)
            .map_err(|_| damage("WRD-01", format!("{keys} terms do not fit 32 bits")))?;
        Ok(Self { nodes: &bytes[..tail], root, terms })
    }

    /// Number of terms that the tail states.
    pub(super) fn terms(&self) -> u32 {
        self.terms
    }

    /// The ordinal of `term`, or `None` when no row has it.
    pub(super) fn ordinal(&self, term: &[u8]) -> Result<Option<u32>, Damage> {
        if self.terms == 0 || term.is_empty() || term.len() > TERM_BYTES_MAX {
            return Ok(None);
        }
        let mut node = self.node(self.root)?;
        let mut sum = 0_u64;
        for byte in term {
            let Some(i) = self.find(&node, *byte)? else { return Ok(None) };
            let (_, output, target) = self.transition(&node, i)?;
            sum = sum.wrapping_add(output);
            node = self.child(&node, target)?;
        }
        let Some(last) = node.last else { return Ok(None) };
        let sum = sum.wrapping_add(last);
        let ordinal = u32::try_from(sum).ok().filter(|ordinal| *ordinal < self.terms);
        ordinal
            .map(Some)
            .ok_or_else(|| damage("WRD-03", format!("ordinal {sum} of {} terms", self.terms)))
    }

    /// Walks all terms in order.
    pub(super) fn walk(&self) -> Walk<'a> {
        Walk { dictionary: *self, stack: Vec::new(), term: Vec::new(), next: 0, started: false }
    }

    fn child(&self, parent: &Node, target: usize) -> Result<Node, Damage> {
        // Falling addresses are what ends every walk.
        if target != 0 && target >= parent.start {
            return Err(broken(target));
        }
        self.node(target)
    }

    fn byte(&self, at: usize) -> Result<u8, Damage> {
        self.nodes.get(at).copied().filter(|_| at >= NODES_AT).ok_or_else(|| broken(at))
    }

    /// The number of `bytes` bytes that ends just before `end`.
    fn number(&self, end: usize, bytes: usize) -> Result<u64, Damage> {
        let start =
            end.checked_sub(bytes).filter(|start| *start >= NODES_AT).ok_or_else(|| broken(end))?;
        let mut cell = [0; 8];
        let from =
            self.nodes.get(start..end).filter(|from| from.len() <= 8).ok_or_else(|| broken(end))?;
        cell[..from.len()].copy_from_slice(from);
        Ok(u64::from_le_bytes(cell))
    }

    /// Reads the node whose last byte is at `address`.
    fn node(&self, address: usize) -> Result<Node, Damage> {
        if address == 0 {
            let shape = Shape::Any { inputs_end: 0, index: None, deltas_end: 0, outputs_end: 0 };
            return Ok(Node {
                start: 0,
                count: 0,
                delta_bytes: 0,
                output_bytes: 0,
                last: Some(0),
                shape,
            });
        }
        let state = self.byte(address)?;
        if state & 0x80 == 0 { self.any(address, state) } else { self.one(address, state) }
    }

    fn one(&self, address: usize, state: u8) -> Result<Node, Damage> {
        let mut at = address;
        let input = match usize::from(state & 0x3F).checked_sub(1) {
            Some(common) => COMMON_INPUTS[common],
            None => {
                at -= 1;
                self.byte(at)?
            }
        };
        let node = |start, output, target| Node {
            start,
            count: 1,
            delta_bytes: 0,
            output_bytes: 0,
            last: None,
            shape: Shape::One { input, output, target },
        };
        if state & 0x40 != 0 {
            return Ok(node(at, 0, at - 1));
        }
        at -= 1;
        let sizes = self.byte(at)?;
        let (delta_bytes, output_bytes) = (usize::from(sizes >> 4), usize::from(sizes & 15));
        let delta = self.number(at, delta_bytes)?;
        let output = self.number(at - delta_bytes, output_bytes)?;
        let start = at - delta_bytes - output_bytes;
        Ok(node(start, output, target(start, delta)?))
    }

    fn any(&self, address: usize, state: u8) -> Result<Node, Damage> {
        let mut at = address;
        let mut count = usize::from(state & 0x3F);
        if count == 0 {
            at -= 1;
            count = match self.byte(at)? {
                1 => 256,
                n => usize::from(n),
            };
        }
        at -= 1;
        let sizes = self.byte(at)?;
        let (delta_bytes, output_bytes) = (usize::from(sizes >> 4), usize::from(sizes & 15));
        let step = |at: usize, bytes: usize| {
            at.checked_sub(bytes).filter(|at| *at >= NODES_AT).ok_or_else(|| broken(address))
        };
        let mut index = None;
        if count > INDEXED_ABOVE {
            at = step(at, 256)?;
            index = Some(at);
        }
        let inputs_end = at;
        let deltas_end = step(at, count)?;
        let outputs_end = step(deltas_end, count * delta_bytes)?;
        let mut start = step(outputs_end, count * output_bytes)?;
        let mut last = None;
        if state & 0x40 != 0 {
            last = Some(self.number(start, output_bytes)?);
            start = step(start, output_bytes)?;
        }
        let shape = Shape::Any { inputs_end, index, deltas_end, outputs_end };
        Ok(Node { start, count, delta_bytes, output_bytes, last, shape })
    }

    /// The transition of `node` for `byte`.
    fn find(&self, node: &Node, byte: u8) -> Result<Option<usize>, Damage> {
        match node.shape {
            Shape::One { input, .. } => Ok((input == byte).then_some(0)),
            Shape::Any { index: Some(index), .. } => {
                let i = usize::from(self.byte(index + usize::from(byte))?);
                Ok((i < node.count).then_some(i))
            }
            Shape::Any { inputs_end, .. } => {
                let inputs =
                    self.nodes.get(inputs_end - node.count..inputs_end).unwrap_or_default();
                Ok(inputs.iter().rposition(|input| *input == byte).map(|at| node.count - 1 - at))
            }
        }
    }

    /// Input, output and target of transition `i`, which is below `node.count`.
    fn transition(&self, node: &Node, i: usize) -> Result<(u8, u64, usize), Damage> {
        match node.shape {
            Shape::One { input, output, target } => Ok((input, output, target)),
            Shape::Any { inputs_end, deltas_end, outputs_end, .. } => {
                let input = self.byte(inputs_end - 1 - i)?;
                let delta = self.number(deltas_end - i * node.delta_bytes, node.delta_bytes)?;
                let output = self.number(outputs_end - i * node.output_bytes, node.output_bytes)?;
                Ok((input, output, target(node.start, delta)?))
            }
        }
    }
}

fn target(start: usize, delta: u64) -> Result<usize, Damage> {
    match usize::try_from(delta) {
        Ok(0) => Ok(0),
        Ok(delta) => start.checked_sub(delta).ok_or_else(|| broken(start)),
        Err(_) => Err(broken(start)),
    }
}

/// All terms of a dictionary in order, each checked to rise and to count (WRD-03).
pub(super) struct Walk<'a> {
    dictionary: Dictionary<'a>,
    /// Node, next transition, sum of outputs on the way in. At most `TERM_BYTES_MAX` + 1 deep.
    stack: Vec<(Node, usize, u64)>,
    term: Vec<u8>,
    next: u32,
    started: bool,
}

impl Walk<'_> {
    /// The next term, whose ordinal is one more than the last one's; `None` after the last.
    ///
    /// Work between two terms is bounded: a node without terms below it is damage, found at its
    /// leaf.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], u32)>, Damage> {
        if !self.started {
            self.started = true;
            if self.dictionary.terms == 0 {
                return Ok(None);
            }
            let root = self.dictionary.node(self.dictionary.root)?;
            if root.last.is_some() {
                return Err(damage("WRD-03", "the dictionary holds an empty term"));
            }
            self.stack.push((root, 0, 0));
        }
        while let Some((node, next, sum)) = self.stack.last_mut() {
            if *next == node.count {
                self.stack.pop();
                self.term.pop();
                continue;
            }
            let (input, output, target) = self.dictionary.transition(node, *next)?;
            if *next > 0 && self.dictionary.transition(node, *next - 1)?.0 >= input {
                return Err(damage("WRD-03", "dictionary terms do not rise"));
            }
            *next += 1;
            let (parent, sum) = (*node, sum.wrapping_add(output));
            let child = self.dictionary.child(&parent, target)?;
            self.term.push(input);
            if self.term.len() > TERM_BYTES_MAX {
                return Err(damage(
                    "WRD-02",
                    format!("a dictionary path exceeds {TERM_BYTES_MAX} bytes"),
                ));
            }
            self.stack.push((child, 0, sum));
            match child.last {
                Some(last) => return self.found(sum.wrapping_add(last)),
                None if child.count == 0 => {
                    return Err(damage("WRD-03", "a dictionary path ends without a term"));
                }
                None => {}
            }
        }
        match self.next == self.dictionary.terms {
            true => Ok(None),
            false => Err(damage(
                "WRD-03",
                format!("{} terms, {} stated", self.next, self.dictionary.terms),
            )),
        }
    }

    fn found(&mut self, ordinal: u64) -> Result<Option<(&[u8], u32)>, Damage> {
        if ordinal != u64::from(self.next) || self.next == self.dictionary.terms {
            return Err(damage("WRD-03", format!("ordinal {ordinal} where {} was due", self.next)));
        }
        self.next += 1;
        Ok(Some((&self.term, self.next - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn build(terms: &BTreeSet<Vec<u8>>) -> Vec<u8> {
        let mut builder = fst::MapBuilder::memory();
        for (term, ordinal) in terms.iter().zip(0..) {
            builder.insert(term, ordinal).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn term() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(prop::sample::select(b"abeE/~\x00\xFF".to_vec()), 1..6),
            prop::collection::vec(any::<u8>(), 1..3),
            prop::collection::vec(any::<u8>(), 1..TERM_BYTES_MAX),
        ]
    }

    fn collect(dictionary: &Dictionary<'_>) -> Result<Vec<Vec<u8>>, Damage> {
        let (mut walk, mut out) = (dictionary.walk(), Vec::new());
        while let Some((term, ordinal)) = walk.next()? {
            assert_eq!(ordinal as usize, out.len());
            out.push(term.to_vec());
        }
        Ok(out)
    }

    proptest! {
        #[test]
        fn reads_what_the_fst_crate_writes(terms in prop::collection::btree_set(term(), 0..400), strange in term()) {
            let bytes = build(&terms);
            let dictionary = Dictionary::open(&bytes).unwrap();
            let map = fst::Map::new(&bytes[..]).unwrap();
            for term in terms.iter().chain([&strange]) {
                let wanted = map.get(term).map(|ordinal| u32::try_from(ordinal).unwrap());
                prop_assert_eq!(dictionary.ordinal(term).unwrap(), wanted);
            }
            prop_assert!(collect(&dictionary).unwrap().iter().eq(terms.iter()));
        }

        #[test]
        fn hostile_bytes_end_in_an_answer(
            terms in prop::collection::btree_set(term(), 0..100),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = build(&terms);
            for (at, value) in &flips {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            for end in [bytes.len(), cut.index(bytes.len())] {
                if let Ok(dictionary) = Dictionary::open(&bytes[..end]) {
                    for term in &terms {
                        let _found = dictionary.ordinal(term);
                    }
                    let _terms = collect(&dictionary);
                }
            }
        }
    }

    #[test]
    fn wide_nodes_are_read_through_their_index() {
        let terms: BTreeSet<Vec<u8>> =
            (0..=255).flat_map(|byte| [vec![byte], vec![byte, 7]]).collect();
        let bytes = build(&terms);
        let dictionary = Dictionary::open(&bytes).unwrap();
        assert!(collect(&dictionary).unwrap().iter().eq(terms.iter()));
        assert_eq!(dictionary.ordinal(&[3, 7]).unwrap(), Some(7));
        assert_eq!(dictionary.ordinal(&[3, 8]).unwrap(), None);
    }
}
