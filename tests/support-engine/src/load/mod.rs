//! A load for a store that will be cut short: by a kill, a power cut, a system call that fails.
//!
//! Owns what the load writes, what it says has been acknowledged, and what must be there afterwards. Knows
//! nothing of how it is cut short: `tests/support-engine/tests/crash.rs` and the scripts of `tests/campaigns/` do that.

mod check;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use engine::ItemId;

pub use check::check;
pub use work::{Plan, run};

/// Heap bytes of the tail at which the load's stores are sealed: every few batches.
const TAIL_BYTES_SEAL: usize = 24 << 10;
/// Bytes of what a seal merges, so that some small tails join the segment before and others do not.
const MERGE_BYTES_MAX: usize = 96 << 10;
/// Items of a batch: one, two, ... and again one.
const ITEMS_MAX: usize = 4;

/// What stands in the text of every item, and nowhere else in a store: when the item is erased, no
/// file may have it.
fn token(batch: &str, item: usize) -> String {
    format!("<{batch}:{item}>")
}

/// A batch that was acknowledged.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    /// Its commit.
    pub seq: u64,
    /// Ids of its items, in their order.
    pub items: Vec<ItemId>,
}

/// All that a load has said on its standard output, line by line.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// `wrote NAME SEQ ID,ID,...`: batches by name.
    pub batches: BTreeMap<String, Acknowledged>,
    /// `maybe NAME SEQ ID,ID,...`: the same where a power cut had begun, so that it need not be there.
    pub maybe: BTreeMap<String, Acknowledged>,
    /// `hid ID`: a tombstone was acknowledged.
    pub hidden: BTreeSet<ItemId>,
    /// `erasing ID`: an erasure was asked for and may have happened.
    pub erasing: BTreeSet<ItemId>,
    /// `erased ID`: and was acknowledged.
    pub erased: BTreeSet<ItemId>,
}

impl Heard {
    /// Takes a whole line, without its line feed; says whether it acknowledged a commit.
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

    /// Takes a file of lines, the last of which may have been cut.
    pub fn hear_all(&mut self, text: &str) {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            self.hear(line);
        }
    }

    /// How many commits were acknowledged.
    pub fn commits(&self) -> u64 {
        (self.batches.len() + self.hidden.len() + self.erased.len()) as u64
    }
}
