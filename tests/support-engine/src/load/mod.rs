//! A load for a store that is interrupted by a kill, a power cut or a failing system call.
//!
//! This module defines the writes, the output that acknowledges them, and the required state afterwards. The
//! interruption is up to `tests/support-engine/tests/crash.rs` and the scripts of `tests/campaigns/`.

mod check;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use engine::ItemId;

pub use check::check;
pub use work::{Plan, run};

/// Heap bytes of the tail at which the load's stores are sealed: every few batches.
const TAIL_BYTES_SEAL: usize = 24 << 10;
/// Most bytes that a seal merges, so that some small tails join the segment before and others do not.
const MERGE_BYTES_MAX: usize = 96 << 10;
/// Items per batch: one, two, ... up to this many, then one again.
const ITEMS_MAX: usize = 4;

/// Token in the text of each item, found nowhere else in a store: once the item is erased, no file may contain it.
fn token(batch: &str, item: usize) -> String {
    format!("<{batch}:{item}>")
}

/// An acknowledged batch.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    /// Sequence number of the commit.
    pub seq: u64,
    /// Ids of the batch's items, in order.
    pub items: Vec<ItemId>,
}

/// Everything that a load has printed, line by line.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// `wrote NAME SEQ ID,ID,...`: batches by name.
    pub batches: BTreeMap<String, Acknowledged>,
    /// `maybe NAME SEQ ID,ID,...`: batches acknowledged after a power cut began, which need not exist.
    pub maybe: BTreeMap<String, Acknowledged>,
    /// `hid ID`: a tombstone was acknowledged.
    pub hidden: BTreeSet<ItemId>,
    /// `erasing ID`: an erasure was requested and may have happened.
    pub erasing: BTreeSet<ItemId>,
    /// `erased ID`: the erasure was acknowledged.
    pub erased: BTreeSet<ItemId>,
}

impl Heard {
    /// Parses a whole line without its line feed; returns true if the line acknowledges a commit.
    pub fn hear(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        let id = |text: &str| text.parse::<ItemId>().expect("an id of the load");
        match words[..] {
            [what @ ("wrote" | "maybe"), name, seq, items] => {
                let seq = seq.parse().expect("a commit number of the load");
                let items = items.split(',').map(id).collect();
                let is_sure = what == "wrote";
                let batches = if is_sure { &mut self.batches } else { &mut self.maybe };
                batches.insert(name.to_owned(), Acknowledged { seq, items });
                is_sure
            }
            ["hid", item] => self.hidden.insert(id(item)),
            ["erased", item] => self.erased.insert(id(item)),
            ["erasing", item] => {
                self.erasing.insert(id(item));
                false
            }
            ["open"] => false,
            _ => panic!("not a line of the load: {line}"),
        }
    }

    /// Parses a file of lines, the last of which may be truncated.
    pub fn hear_all(&mut self, text: &str) {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            self.hear(line);
        }
    }

    /// Number of acknowledged commits.
    pub fn commits(&self) -> u64 {
        (self.batches.len() + self.hidden.len() + self.erased.len()) as u64
    }
}
