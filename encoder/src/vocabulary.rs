//! The vocabulary as a byte trie: finds the longest entry that starts a word in one descent.
//!
//! Edges are in one open-addressed table keyed by (node, byte), so a step is one probe and a lookup allocates nothing.

/// A trie node, numbered in order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(u32);

pub(crate) const ROOT: Node = Node(0);

/// Marks a node at which no entry ends.
const NO_ID: u32 = u32::MAX;
/// Most nodes: a node and a byte together are one 32-bit key.
const NODES_MAX: usize = 1 << 24;
/// Table slots before the first growth; a power of two, as is every later size.
const SLOTS_MIN: usize = 1 << 10;

#[derive(Clone, Copy)]
struct Edge {
    /// Node and byte, `node << 8 | byte`.
    key: u32,
    /// Target node; never zero, as no edge leads to the root. Zero marks a free slot.
    to: u32,
}

const FREE: Edge = Edge { key: 0, to: 0 };

pub(crate) struct Vocabulary {
    edges: Vec<Edge>,
    /// Id of the entry that ends at each node, or `NO_ID`.
    ids: Vec<u32>,
}

impl Vocabulary {
    pub(crate) fn new() -> Vocabulary {
        Vocabulary { edges: vec![FREE; SLOTS_MIN], ids: vec![NO_ID] }
    }

    /// Adds an entry; a later entry of the same bytes replaces it. Returns false if the trie is full.
    pub(crate) fn insert(&mut self, entry: &[u8], id: u32) -> bool {
        let mut node = ROOT;
        for &byte in entry {
            node = match self.step(node, byte) {
                Some(next) => next,
                None if self.ids.len() < NODES_MAX => self.grow(node, byte),
                None => return false,
            };
        }
        self.ids[node.0 as usize] = id;
        true
    }

    /// Returns the node at the end of `prefix`, if any entry starts with it.
    pub(crate) fn walk(&self, prefix: &[u8]) -> Option<Node> {
        prefix.iter().try_fold(ROOT, |node, &byte| self.step(node, byte))
    }

    /// Finds the longest entry that continues from `node` along the start of `bytes`, and returns its length, at least
    /// one byte, and its id.
    pub(crate) fn longest(&self, node: Node, bytes: &[u8]) -> Option<(usize, u32)> {
        let mut node = node;
        let mut best = None;
        for (taken, &byte) in bytes.iter().enumerate() {
            let Some(next) = self.step(node, byte) else { break };
            node = next;
            let id = self.ids[node.0 as usize];
            if id != NO_ID {
                best = Some((taken + 1, id));
            }
        }
        best
    }

    /// Returns the id of exactly this entry.
    pub(crate) fn find(&self, entry: &[u8]) -> Option<u32> {
        let node = self.walk(entry)?;
        Some(self.ids[node.0 as usize]).filter(|&id| id != NO_ID)
    }

    fn step(&self, node: Node, byte: u8) -> Option<Node> {
        let edge = self.edges[self.slot(key(node, byte))];
        (edge.to != 0).then_some(Node(edge.to))
    }

    fn grow(&mut self, from: Node, byte: u8) -> Node {
        // At most half full, so that a probe is short and always finds a free slot.
        if self.ids.len() * 2 > self.edges.len() {
            let doubled = vec![FREE; self.edges.len() * 2];
            for edge in std::mem::replace(&mut self.edges, doubled) {
                if edge.to != 0 {
                    let slot = self.slot(edge.key);
                    self.edges[slot] = edge;
                }
            }
        }
        let to = u32::try_from(self.ids.len()).expect("NODES_MAX is below 2^32");
        self.ids.push(NO_ID);
        let key = key(from, byte);
        let slot = self.slot(key);
        self.edges[slot] = Edge { key, to };
        Node(to)
    }

    /// Returns the slot of `key`, or the free slot where it belongs.
    fn slot(&self, key: u32) -> usize {
        let mask = self.edges.len() - 1;
        // Fibonacci hashing (Knuth, volume 3, 6.4): the high bits of the product are well mixed.
        let mut slot = (key.wrapping_mul(0x9E37_79B9) >> 8) as usize & mask;
        while self.edges[slot].to != 0 && self.edges[slot].key != key {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

fn key(node: Node, byte: u8) -> u32 {
    node.0 << 8 | u32::from(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_longest_entry_from_either_start() {
        let mut words = Vocabulary::new();
        for (id, entry) in ["un", "unaff", "##able", "##a", "u"].iter().enumerate() {
            assert!(words.insert(entry.as_bytes(), u32::try_from(id).unwrap()));
        }
        assert_eq!(words.longest(ROOT, b"unaffable"), Some((5, 1)));
        assert_eq!(words.longest(ROOT, b"unafable"), Some((2, 0)));
        assert_eq!(words.longest(ROOT, b"x"), None);
        let inside = words.walk(b"##").unwrap();
        assert_eq!(words.longest(inside, b"able"), Some((4, 2)));
        assert_eq!(words.longest(inside, b"abs"), Some((1, 3)));
        assert_eq!(words.find(b"unaf"), None);
        assert_eq!(words.find(b"unaff"), Some(1));
    }

    #[test]
    fn holds_more_entries_than_its_first_table() {
        let mut words = Vocabulary::new();
        for id in 0..50_000_u32 {
            assert!(words.insert(format!("w{id:x}").as_bytes(), id));
        }
        for id in 0..50_000_u32 {
            assert_eq!(words.find(format!("w{id:x}").as_bytes()), Some(id));
        }
    }
}
