//! Reader of the term dictionary, an `fst` map whose bytes are not trusted.
//!
//! Owns the reading of fst version 3 bytes. The `fst` crate's own reader trusts its input: a wrong address makes it
//! panic, and its checksum does not protect against crafted bytes. This reader follows the same node tables
//! (format-spec/words.md, WRD-01 to WRD-05) and returns `CorruptionError`. Addresses decrease at every step, so no
//! traversal can loop; a path is bounded by `TERM_BYTES_MAX`. Only the bytes of visited nodes are requested.

use super::column_bytes::{ColumnBytes, read_all, read_part};
use super::fst_node::{NODES_AT, Node, broken_node, number};
use super::layout::TERM_BYTES_MAX;
use crate::error::CorruptionError;

/// Version and type in the first 16 bytes.
pub(super) const DICTIONARY_VERSION: u64 = 3;
pub(super) const DICTIONARY_TYPE: u64 = 0;
const FOOTER_BYTES: usize = 20;
/// Returns the checksum of the preceding bytes of a dictionary.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// Checked view of dictionary bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct FstDictionary<B> {
    bytes: B,
    /// End of the nodes; all node addresses are smaller.
    end: usize,
    root: usize,
    terms: u32,
}

impl<B: ColumnBytes> FstDictionary<B> {
    /// Checks header and footer; nodes are checked when they are visited.
    pub(super) fn open(bytes: B) -> Result<Self, CorruptionError> {
        let short = || {
            CorruptionError::new(
                "WRD-01",
                format!("dictionary of {} bytes is too short", bytes.size()),
            )
        };
        let end = bytes.size().checked_sub(FOOTER_BYTES).ok_or_else(short)?;
        let head = read_part(&bytes, 0, NODES_AT)?.filter(|_| end >= NODES_AT).ok_or_else(short)?;
        let (version, kind) = (number(&head[..8]), number(&head[8..]));
        if (version, kind) != (DICTIONARY_VERSION, DICTIONARY_TYPE) {
            return Err(CorruptionError::new(
                "WRD-01",
                format!("dictionary version {version} type {kind}, not 3 and 0"),
            ));
        }
        let tail = read_part(&bytes, end, FOOTER_BYTES)?.ok_or_else(short)?;
        let (keys, root) = (number(&tail[..8]), number(&tail[8..16]));
        let root = usize::try_from(root).ok().filter(|root| *root == 0 || *root == end - 1);
        let root = root.ok_or_else(|| {
            CorruptionError::new("WRD-01", "dictionary root is not its last node")
        })?;
        let terms = u32::try_from(keys).map_err(|_| {
            CorruptionError::new("WRD-01", format!("{keys} terms do not fit 32 bits"))
        })?;
        Ok(Self { bytes, end, root, terms })
    }

    /// Number of terms that the footer states.
    pub(super) fn terms(&self) -> u32 {
        self.terms
    }

    /// Returns the ordinal of `term`; `None` if no row has the term.
    pub(super) fn ordinal(&self, term: &[u8]) -> Result<Option<u32>, CorruptionError> {
        if self.terms == 0 || term.is_empty() || term.len() > TERM_BYTES_MAX {
            return Ok(None);
        }
        let mut node = self.node(self.root)?;
        let mut sum = 0_u64;
        for byte in term {
            let Some(i) = node.find(*byte) else { return Ok(None) };
            let (_, output, target) = node.transition(i);
            sum = sum.wrapping_add(output);
            node = self.node(target.ok_or_else(|| broken_node(node.start))?)?;
        }
        let Some(last) = node.last() else { return Ok(None) };
        let sum = sum.wrapping_add(last);
        let ordinal = u32::try_from(sum).ok().filter(|ordinal| *ordinal < self.terms);
        ordinal.map(Some).ok_or_else(|| {
            CorruptionError::new("WRD-03", format!("ordinal {sum} of {} terms", self.terms))
        })
    }

    /// Iterates over all terms in order.
    pub(super) fn terms_in_order(&self) -> FstTerms<'_, B> {
        FstTerms { dictionary: self, stack: Vec::new(), term: Vec::new(), next: 0, started: false }
    }

    /// Reads all bytes and checks the checksum, and that the nodes are adjacent and each is reachable from the root
    /// (WRD-04, WRD-05). The terms are checked by [`FstDictionary::terms_in_order`].
    pub(super) fn verify(&self) -> Result<(), CorruptionError> {
        let bytes = read_all(&self.bytes)?;
        let (before, stated) = bytes.split_at(bytes.len() - size_of::<u32>());
        let (found, stated) = (u64::from(checksum(before)), number(stated));
        if found != stated {
            return Err(CorruptionError::new(
                "WRD-04",
                format!("checksum {found:08x}, {stated:08x} stated"),
            ));
        }
        // Transitions lead to smaller addresses, so all transitions to a node are seen before the node. A target that
        // is not the last byte of a node stays counted in `open`.
        let mut reached = vec![false; self.end];
        let mut open = usize::from(self.root != 0);
        if let Some(root) = reached.get_mut(self.root) {
            *root = true;
        }
        let mut end = self.end;
        while end > NODES_AT {
            if !reached[end - 1] {
                let detail = format!("no path leads to the dictionary node at {}", end - 1);
                return Err(CorruptionError::new("WRD-05", detail));
            }
            open -= 1;
            let node = self.node(end - 1)?;
            for i in 0..node.count() {
                let target = node.transition(i).2.ok_or_else(|| broken_node(end - 1))?;
                if target != 0 && !std::mem::replace(&mut reached[target], true) {
                    open += 1;
                }
            }
            end = node.start;
        }
        match open {
            0 => Ok(()),
            _ => {
                Err(CorruptionError::new("WRD-05", "a transition leads into the middle of a node"))
            }
        }
    }

    fn node(&self, address: usize) -> Result<Node<'_>, CorruptionError> {
        Node::read(&self.bytes, self.end, address)
    }
}

/// Iterator over all terms in order. Checks that the terms ascend and that the ordinals count them (WRD-03).
pub(super) struct FstTerms<'d, B> {
    dictionary: &'d FstDictionary<B>,
    /// Path of nodes, each with its next transition and the sum of outputs before it. Depth at most `TERM_BYTES_MAX` +
    /// 1.
    stack: Vec<(Node<'d>, usize, u64)>,
    term: Vec<u8>,
    next: u32,
    started: bool,
}

impl<B: ColumnBytes> FstTerms<'_, B> {
    /// Returns the next term and its ordinal, which is the previous ordinal plus one; `None` after the last term.
    ///
    /// The work between two terms is bounded: a node without terms below it is damage, detected at its leaf.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], u32)>, CorruptionError> {
        if !self.started {
            self.started = true;
            let root = self.dictionary.node(self.dictionary.root)?;
            if root.last().is_some() {
                return Err(CorruptionError::new("WRD-03", "the dictionary holds an empty term"));
            }
            self.stack.push((root, 0, 0));
        }
        while let Some((node, next, sum)) = self.stack.last_mut() {
            if *next == node.count() {
                self.stack.pop();
                self.term.pop();
                continue;
            }
            let (input, output, target) = node.transition(*next);
            if *next > 0 && node.input(*next - 1) >= input {
                return Err(CorruptionError::new("WRD-03", "dictionary terms do not rise"));
            }
            *next += 1;
            let (target, sum) =
                (target.ok_or_else(|| broken_node(node.start))?, sum.wrapping_add(output));
            let child = self.dictionary.node(target)?;
            self.term.push(input);
            if self.term.len() > TERM_BYTES_MAX {
                return Err(CorruptionError::new(
                    "WRD-02",
                    format!("a dictionary path exceeds {TERM_BYTES_MAX} bytes"),
                ));
            }
            self.stack.push((child, 0, sum));
            match child.last() {
                Some(last) => return self.yield_term(sum.wrapping_add(last)),
                None if child.count() == 0 => {
                    return Err(CorruptionError::new(
                        "WRD-03",
                        "a dictionary path ends without a term",
                    ));
                }
                None => {}
            }
        }
        match self.next == self.dictionary.terms {
            true => Ok(None),
            false => Err(CorruptionError::new(
                "WRD-03",
                format!("{} terms, {} stated", self.next, self.dictionary.terms),
            )),
        }
    }

    fn yield_term(&mut self, ordinal: u64) -> Result<Option<(&[u8], u32)>, CorruptionError> {
        if ordinal != u64::from(self.next) || self.next == self.dictionary.terms {
            return Err(CorruptionError::new(
                "WRD-03",
                format!("ordinal {ordinal} where {} was due", self.next),
            ));
        }
        self.next += 1;
        Ok(Some((&self.term, self.next - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fulltext::fst_writer::FstWriter;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn build(terms: &BTreeSet<Vec<u8>>) -> Vec<u8> {
        let mut writer = FstWriter::new();
        terms.iter().for_each(|term| writer.push(term));
        writer.finish()
    }

    fn build_by_crate(terms: &BTreeSet<Vec<u8>>) -> Vec<u8> {
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
            prop::collection::vec(any::<u8>(), 1..=TERM_BYTES_MAX),
        ]
    }

    fn collect(dictionary: &FstDictionary<&[u8]>) -> Result<Vec<Vec<u8>>, CorruptionError> {
        let (mut walk, mut out) = (dictionary.terms_in_order(), Vec::new());
        while let Some((term, ordinal)) = walk.next()? {
            assert_eq!(ordinal as usize, out.len());
            out.push(term.to_vec());
        }
        Ok(out)
    }

    proptest! {
        #[test]
        fn dictionaries_agree_with_the_fst_crate(terms in prop::collection::btree_set(term(), 0..400), strange in term()) {
            let (ours, theirs) = (build(&terms), build_by_crate(&terms));
            // The crate sometimes evicts a node from its register, and writing the node again may even be shorter.
            prop_assert!(ours.len() <= theirs.len() + theirs.len() / 20);
            let map = fst::Map::new(&ours[..]).unwrap();
            for bytes in [&ours, &theirs] {
                let dictionary = FstDictionary::open(&bytes[..]).unwrap();
                dictionary.verify().unwrap();
                for term in terms.iter().chain([&strange]) {
                    let wanted = map.get(term).map(|ordinal| u32::try_from(ordinal).unwrap());
                    prop_assert_eq!(dictionary.ordinal(term).unwrap(), wanted);
                }
                prop_assert!(collect(&dictionary).unwrap().iter().eq(terms.iter()));
            }
        }

        #[test]
        fn hostile_dictionary_bytes_never_hang_or_panic(
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
                if let Ok(dictionary) = FstDictionary::open(&bytes[..end]) {
                    for term in &terms {
                        let _found = dictionary.ordinal(term);
                    }
                    let _terms = collect(&dictionary);
                    let _checked = dictionary.verify();
                    let sum = checksum(&bytes[..end - 4]).to_le_bytes();
                    bytes[end - 4..end].copy_from_slice(&sum);
                    let _checked = FstDictionary::open(&bytes[..end]).unwrap().verify();
                }
            }
        }
    }

    #[test]
    fn wide_nodes_are_read_through_their_transition_index() {
        for widest in [32, 33, 62, 63, 64, 254, 255] {
            let terms: BTreeSet<Vec<u8>> =
                (0..=widest).flat_map(|byte| [vec![byte], vec![byte, 7]]).collect();
            let bytes = build(&terms);
            assert_eq!(bytes, build_by_crate(&terms));
            let dictionary = FstDictionary::open(&bytes[..]).unwrap();
            assert!(collect(&dictionary).unwrap().iter().eq(terms.iter()));
            assert_eq!(dictionary.ordinal(&[3, 7]).unwrap(), Some(7));
            assert_eq!(dictionary.ordinal(&[3, 8]).unwrap(), None);
        }
    }

    #[test]
    fn nodes_reaching_out_of_bounds_are_rejected() {
        let good = build(&[b"bar".to_vec()].into());
        let rule = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            FstDictionary::open(&bad[..]).unwrap().ordinal(b"bar").unwrap_err().rule
        };
        // The deepest node: a one-byte delta, sizes, state.
        assert_eq!(good[NODES_AT..NODES_AT + 2], [0, 0x10]);
        assert_eq!(rule(NODES_AT, 3), "WRD-02", "a transition before the first node");
        assert_eq!(rule(NODES_AT + 1, 0x20), "WRD-02", "a node that begins before the first");
        assert_eq!(rule(NODES_AT + 1, 0x90), "WRD-02", "a width that is none");
        let mut writer = FstWriter::new();
        writer.push(&[7; TERM_BYTES_MAX]);
        let mut long = writer.finish();
        // An additional transition before the root.
        long.splice(long.len() - FOOTER_BYTES..long.len() - FOOTER_BYTES, [7, 0xC0]);
        let root = long.len() - FOOTER_BYTES + 8;
        let last = (long.len() - FOOTER_BYTES - 1) as u64;
        long[root..root + 8].copy_from_slice(&last.to_le_bytes());
        assert_eq!(collect(&FstDictionary::open(&long[..]).unwrap()).unwrap_err().rule, "WRD-02");
    }

    #[test]
    fn full_verification_finds_hidden_dictionary_corruption() {
        let terms: BTreeSet<Vec<u8>> =
            ["bar", "baz", "far"].map(|term| term.as_bytes().to_vec()).into();
        let good = build(&terms);
        let rule = |bytes: &[u8]| FstDictionary::open(bytes).unwrap().verify().unwrap_err().rule;
        let mut bad = good.clone();
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(rule(&bad), "WRD-04");
        // An unreachable node, as an erased term would leave behind, is inserted before all others. No transition
        // reaches back that far, so all transitions stay valid.
        let mut bad = good[..NODES_AT].to_vec();
        bad.push(0xC0 | 1);
        bad.extend_from_slice(&good[NODES_AT..good.len() - 12]);
        bad.extend_from_slice(&(good.len() as u64 - 20).to_le_bytes());
        let sum = checksum(&bad).to_le_bytes();
        bad.extend_from_slice(&sum);
        let dictionary = FstDictionary::open(&bad[..]).unwrap();
        assert!(collect(&dictionary).unwrap().iter().eq(terms.iter()), "terms are as before");
        assert_eq!(rule(&bad), "WRD-05");
        // The footer states 0 terms.
        let mut bad = good.clone();
        let keys = bad.len() - FOOTER_BYTES;
        bad[keys] = 0;
        assert_eq!(collect(&FstDictionary::open(&bad[..]).unwrap()).unwrap_err().rule, "WRD-03");
    }
}
