//! Writer of the term dictionary: a minimal automaton, built node by node from sorted terms.
//!
//! Owns the writing of fst version 3 bytes (format-spec/words.md, dictionary). The meaning of an ordinal is left to the
//! caller. Source: Daciuk, Mihov, Watson and Watson, "Incremental construction of minimal acyclic finite-state
//! automata" (2000), section 3, for sorted input.
//!
//! Ordinals ascend with the terms. So the difference between a term's ordinal and the outputs of its prefix always
//! belongs to the transition at which the term leaves its predecessor. No output is ever moved, and no final output is
//! written.
//!
//! The bytes depend on the terms alone. The cost is proportional to the terms, because the register of nodes starts
//! empty and doubles on demand. The `fst` crate clears 20,000 cells for each dictionary, which was most of the cost of
//! a small segment.

use super::fst_dictionary::{DICTIONARY_TYPE, DICTIONARY_VERSION, checksum};
use super::fst_node::{COMMON_INPUTS, INDEXED_ABOVE, Node};
use super::layout::TERM_BYTES_MAX;

/// Position of each input byte in [`COMMON_INPUTS`], counted from 1; 0 if absent.
const COMMON_CODES: [u8; 256] = {
    let mut codes = [0; 256];
    let mut code = 1;
    while code as usize <= COMMON_INPUTS.len() {
        codes[COMMON_INPUTS[code as usize - 1] as usize] = code;
        code += 1;
    }
    codes
};

/// Maximum number of register slots, 8 bytes each: enough for about 800,000 distinct nodes, those of some 300,000
/// terms. Beyond this number, nodes evict each other and the dictionary becomes a little larger.
const REGISTER_SLOTS_MAX: usize = 1 << 20;
/// Number of register slots at the first node.
const REGISTER_SLOTS_MIN: usize = 64;
/// Maximum number of slots that a search probes, so that crafted terms cannot make it long.
const REGISTER_PROBES_MAX: usize = 16;
const _: () = assert!(REGISTER_SLOTS_MIN.is_power_of_two() && REGISTER_SLOTS_MAX.is_power_of_two());

pub(super) struct FstWriter {
    out: Vec<u8>,
    /// Nodes along the last term, the root first: one more than the term has bytes. Nodes beyond are retained for reuse
    /// of their memory.
    path: Vec<OpenNode>,
    last: Vec<u8>,
    terms: u32,
    /// Address of the last written node.
    last_node: usize,
    register: Register,
}

/// Node to which transitions may still be added.
#[derive(Default)]
struct OpenNode {
    is_final: bool,
    /// Complete transitions, in ascending order of input.
    transitions: Vec<Transition>,
    /// Output of the last term's transition from this node.
    output: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Transition {
    input: u8,
    output: u32,
    target: usize,
}

impl FstWriter {
    /// Begins an empty dictionary.
    pub(super) fn new() -> Self {
        Self::with_register(REGISTER_SLOTS_MAX)
    }

    fn with_register(slots_max: usize) -> Self {
        let mut out = Vec::new();
        out.extend_from_slice(&DICTIONARY_VERSION.to_le_bytes());
        out.extend_from_slice(&DICTIONARY_TYPE.to_le_bytes());
        Self {
            out,
            path: vec![OpenNode::default()],
            last: Vec::new(),
            terms: 0,
            last_node: 0,
            register: Register { slots: Vec::new(), used: 0, slots_max },
        }
    }

    /// Adds a term of 1 to [`TERM_BYTES_MAX`] bytes. Terms must ascend.
    pub(super) fn push(&mut self, term: &[u8]) {
        assert!(
            term > self.last.as_slice() && term.len() <= TERM_BYTES_MAX,
            "terms rise and are bounded"
        );
        let shared = term.iter().zip(&self.last).take_while(|(a, b)| a == b).count();
        self.close(shared);
        let spent: u32 = self.path[..shared].iter().map(|node| node.output).sum();
        self.path[shared].output = self.terms - spent;
        self.last.truncate(shared);
        self.last.extend_from_slice(&term[shared..]);
        for depth in shared + 1..=term.len() {
            if depth == self.path.len() {
                self.path.push(OpenNode::default());
            }
            let node = &mut self.path[depth];
            node.transitions.clear();
            node.output = 0;
            node.is_final = depth == term.len();
        }
        self.terms = self.terms.checked_add(1).expect("SEGMENT_POSTINGS_MAX bounds the terms");
    }

    /// Returns the finished bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.close(0);
        let root = self.node(0);
        self.out.extend_from_slice(&u64::from(self.terms).to_le_bytes());
        self.out.extend_from_slice(&(root as u64).to_le_bytes());
        let sum = checksum(&self.out);
        self.out.extend_from_slice(&sum.to_le_bytes());
        self.out
    }

    /// Writes the nodes of the last term below `depth`, the deepest first.
    fn close(&mut self, depth: usize) {
        for below in (depth + 1..=self.last.len()).rev() {
            let target = self.node(below);
            let parent = &mut self.path[below - 1];
            let (input, output) = (self.last[below - 1], parent.output);
            parent.transitions.push(Transition { input, output, target });
        }
    }

    /// Returns the address of a node equal to the open node at `depth`; writes the node if there is none.
    fn node(&mut self, depth: usize) -> usize {
        let node = &self.path[depth];
        if node.is_final && node.transitions.is_empty() {
            return 0;
        }
        let hash = node.hash();
        if let Some(known) = self.register.find(hash, |address| node.is_at(&self.out, address)) {
            return known;
        }
        node.write(&mut self.out, self.last_node);
        self.last_node = self.out.len() - 1;
        self.register.insert(hash, self.last_node);
        self.last_node
    }
}

impl OpenNode {
    /// FNV-1a over the fields of the node, mixed and folded to 32 bits.
    fn hash(&self) -> u32 {
        let mut hash = 0xCBF2_9CE4_8422_2325_u64;
        let mut mix = |number: u64| hash = (hash ^ number).wrapping_mul(0x0000_0100_0000_01B3);
        mix(u64::from(self.is_final));
        for transition in &self.transitions {
            mix(u64::from(transition.input) << 32 | u64::from(transition.output));
            mix(transition.target as u64);
        }
        hash = (hash ^ hash >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        u32::try_from(hash >> 32).expect("32 bits are left")
    }

    /// Returns true if the node at `address` equals this node.
    fn is_at(&self, out: &[u8], address: usize) -> bool {
        Node::read(&out, out.len(), address).is_ok_and(|node| {
            node.last().is_some() == self.is_final
                && node.count() == self.transitions.len()
                && self.transitions.iter().enumerate().all(|(i, wanted)| {
                    let (input, output, target) = node.transition(i);
                    (input, output) == (wanted.input, u64::from(wanted.output))
                        && target == Some(wanted.target)
                })
        })
    }

    /// Appends the bytes of the node; `newest` is the address of the previous node.
    fn write(&self, out: &mut Vec<u8>, newest: usize) {
        match self.transitions.as_slice() {
            [only] if !self.is_final => write_one(*only, out, newest),
            _ => self.write_any(out),
        }
    }

    fn write_any(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let transitions = self.transitions.iter().rev();
        let delta = |transition: &Transition| match transition.target {
            0 => 0,
            target => (start - target) as u64,
        };
        let delta_bytes = transitions.clone().map(|to| byte_width(delta(to))).max().unwrap_or(0);
        let most = transitions.clone().map(|to| to.output).max().unwrap_or(0);
        let output_bytes = if most == 0 { 0 } else { byte_width(u64::from(most)) };
        if self.is_final {
            put(out, 0, output_bytes);
        }
        for transition in transitions.clone() {
            put(out, u64::from(transition.output), output_bytes);
        }
        for transition in transitions.clone() {
            put(out, delta(transition), delta_bytes);
        }
        out.extend(transitions.map(|transition| transition.input));
        let count = self.transitions.len();
        if count > INDEXED_ABOVE {
            let mut index = [u8::MAX; 256];
            for (i, transition) in (0..=u8::MAX).zip(&self.transitions) {
                index[usize::from(transition.input)] = i;
            }
            out.extend_from_slice(&index);
        }
        out.push(sizes(delta_bytes, output_bytes));
        let few = u8::try_from(count).ok().filter(|few| (1..=0x3F).contains(few));
        if few.is_none() {
            // 256 is encoded as 1, because a count of 1 is encoded in the low bits of the state byte instead.
            out.push(u8::try_from(count).unwrap_or(1));
        }
        out.push(if self.is_final { 0x40 } else { 0 } | few.unwrap_or(0));
    }
}

fn write_one(only: Transition, out: &mut Vec<u8>, newest: usize) {
    let common = COMMON_CODES[usize::from(only.input)];
    let start = out.len();
    let next = only.target == newest && only.target != 0 && only.output == 0;
    if !next {
        let output_bytes = if only.output == 0 { 0 } else { byte_width(u64::from(only.output)) };
        put(out, u64::from(only.output), output_bytes);
        let delta = if only.target == 0 { 0 } else { (start - only.target) as u64 };
        let delta_bytes = byte_width(delta);
        put(out, delta, delta_bytes);
        out.push(sizes(delta_bytes, output_bytes));
    }
    if common == 0 {
        out.push(only.input);
    }
    out.push(if next { 0xC0 } else { 0x80 } | common);
}

/// Number of bytes needed for `number`, at least 1.
fn byte_width(number: u64) -> usize {
    ((u64::BITS - number.leading_zeros()).div_ceil(8) as usize).max(1)
}

fn put(out: &mut Vec<u8>, number: u64, bytes: usize) {
    out.extend_from_slice(&number.to_le_bytes()[..bytes]);
}

fn sizes(delta_bytes: usize, output_bytes: usize) -> u8 {
    u8::try_from(delta_bytes << 4 | output_bytes).expect("at most 8 each")
}

/// Written nodes by hash: an open-addressing table that grows with their number.
struct Register {
    slots: Vec<RegisterSlot>,
    used: usize,
    slots_max: usize,
}

/// Slot of the register. Address 0 marks an empty slot, because no node is written at address 0.
#[derive(Debug, Clone, Copy, Default)]
struct RegisterSlot {
    hash: u32,
    address: u32,
}

impl Register {
    fn find(&self, hash: u32, is_same: impl Fn(usize) -> bool) -> Option<usize> {
        self.probes(hash)
            .map(|at| self.slots[at])
            .take_while(|slot| slot.address != 0)
            .find(|slot| slot.hash == hash && is_same(slot.address as usize))
            .map(|slot| slot.address as usize)
    }

    fn insert(&mut self, hash: u32, address: usize) {
        // Nodes above 4 GiB are not shared.
        let Ok(address) = u32::try_from(address) else { return };
        let slot = RegisterSlot { hash, address };
        let full = self.used * 2 >= self.slots.len() || self.free(hash).is_none();
        if full && self.slots.len() < self.slots_max {
            let larger = (self.slots.len() * 2).max(REGISTER_SLOTS_MIN).min(self.slots_max);
            let old = std::mem::replace(&mut self.slots, vec![RegisterSlot::default(); larger]);
            self.used = 0;
            for slot in old.into_iter().filter(|slot| slot.address != 0) {
                self.insert_at_probe(slot);
            }
        }
        self.insert_at_probe(slot);
    }

    /// Stores the slot in the first empty place of its probe sequence; if all are occupied, replaces the first.
    fn insert_at_probe(&mut self, slot: RegisterSlot) {
        let free = self.free(slot.hash);
        self.used += usize::from(free.is_some());
        if let Some(at) = free.or_else(|| self.probes(slot.hash).next()) {
            self.slots[at] = slot;
        }
    }

    fn free(&self, hash: u32) -> Option<usize> {
        self.probes(hash).find(|at| self.slots[*at].address == 0)
    }

    fn probes(&self, hash: u32) -> impl Iterator<Item = usize> + use<> {
        let (home, slots) = (hash as usize, self.slots.len());
        (0..REGISTER_PROBES_MAX.min(slots)).map(move |step| (home + step) & (slots - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fst_dictionary::FstDictionary;
    use super::*;

    /// Returns distinct words of mixed syllables, sorted.
    fn vocabulary(count: usize) -> Vec<String> {
        const SYLLABLES: [&str; 24] = [
            "an", "ber", "con", "dis", "er", "fol", "gen", "hap", "in", "ist", "ka", "less",
            "ment", "ness", "or", "pre", "qui", "re", "s", "ton", "un", "ver", "work", "y",
        ];
        let mut words = std::collections::BTreeSet::new();
        let mut seed = 1_u64;
        while words.len() < count {
            let mut word = String::new();
            for _ in 0..2 + seed % 4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                word += SYLLABLES[usize::try_from(seed >> 40).unwrap() % SYLLABLES.len()];
            }
            words.insert(word);
        }
        words.into_iter().collect()
    }

    fn write(terms: &[String], slots_max: usize) -> Vec<u8> {
        let mut writer = FstWriter::with_register(slots_max);
        terms.iter().for_each(|term| writer.push(term.as_bytes()));
        writer.finish()
    }

    #[test]
    fn large_dictionary_is_as_small_as_the_fst_crate_writes() {
        let terms = vocabulary(50_000);
        let ours = write(&terms, REGISTER_SLOTS_MAX);
        let mut theirs = fst::MapBuilder::memory();
        for (term, ordinal) in terms.iter().zip(0..) {
            theirs.insert(term, ordinal).unwrap();
        }
        let theirs = theirs.into_inner().unwrap();
        let most = theirs.len() + theirs.len() / 50;
        assert!(ours.len() <= most, "{} bytes, the crate's {}", ours.len(), theirs.len());
        let map = fst::Map::new(&ours[..]).unwrap();
        let dictionary = FstDictionary::open(&theirs[..]).unwrap();
        dictionary.verify().unwrap();
        for (term, ordinal) in terms.iter().zip(0_u32..) {
            assert_eq!(map.get(term), Some(u64::from(ordinal)));
            assert_eq!(dictionary.ordinal(term.as_bytes()).unwrap(), Some(ordinal));
        }
    }

    #[test]
    fn full_register_only_grows_the_output() {
        let terms = vocabulary(5_000);
        let (large, small) = (write(&terms, REGISTER_SLOTS_MAX), write(&terms, 64));
        assert!(small.len() > large.len() && small.len() < large.len() * 3);
        let dictionary = FstDictionary::open(&small[..]).unwrap();
        dictionary.verify().unwrap();
        for (term, ordinal) in terms.iter().zip(0..) {
            assert_eq!(dictionary.ordinal(term.as_bytes()).unwrap(), Some(ordinal));
        }
    }

    #[test]
    #[should_panic(expected = "terms rise")]
    fn unsorted_terms_panic() {
        let mut writer = FstWriter::new();
        writer.push(b"b");
        writer.push(b"b");
    }
}
