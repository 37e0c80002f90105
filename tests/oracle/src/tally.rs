//! Counts of compared texts and differences.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::Outcome;
use crate::compare::Pair;

/// After this many differences, the rest most likely repeats them.
const DIFFERENCES_MAX: usize = 20;

/// Counts of all threads.
#[derive(Default)]
pub struct Tally {
    counts: Mutex<BTreeMap<&'static str, Count>>,
    found: Mutex<usize>,
}

#[derive(Default)]
struct Count {
    strings: u64,
    bytes: u64,
    ids: u64,
}

impl Tally {
    /// Compares one text and counts it; a difference is printed in minimized form.
    pub fn add(
        &self,
        kind: &'static str,
        pair: &mut Pair,
        text: &str,
        limit: Option<usize>,
    ) -> Outcome<()> {
        let ids = pair.reference(text, limit)?;
        {
            let mut counts = self.counts.lock().expect("no thread panics");
            let count = counts.entry(kind).or_default();
            count.strings += 1;
            count.bytes += text.len() as u64;
            count.ids += ids.len() as u64;
        }
        if ids == pair.ours(text, limit) {
            return Ok(());
        }
        let small = pair.shrink(text, limit)?;
        println!("DIFFERENCE ({kind}) under {}, cut off at {limit:?}:", pair.name());
        println!("  text      {}", escaped(&small));
        println!("  reference {:?}", pair.reference(&small, limit)?);
        println!("  ours      {:?}", pair.ours(&small, limit));
        let mut found = self.found.lock().expect("no thread panics");
        *found += 1;
        if *found >= DIFFERENCES_MAX {
            return Err(format!("{DIFFERENCES_MAX} differences, which is enough").into());
        }
        Ok(())
    }

    /// Number of differences.
    pub fn differences(&self) -> usize {
        *self.found.lock().expect("no thread panics")
    }

    /// Prints the counts, one line per kind.
    pub fn print(&self) {
        for (kind, count) in self.counts.lock().expect("no thread panics").iter() {
            let Count { strings, bytes, ids } = count;
            println!("{kind:20} {strings:>10} texts {bytes:>14} bytes {ids:>12} ids");
        }
        println!("{} differences", self.differences());
    }
}

/// Formats a text as an ASCII Rust literal.
fn escaped(text: &str) -> String {
    format!("\"{}\"", text.escape_default())
}
