use engine::Batch;
use recalld_common::counted::counted;
use serde_json::{Value, json};

/// Bad lines that are listed; further ones are only counted.
const BAD_NAMED_MAX: usize = 100;

/// Lines that were left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BadLines {
    /// Number of bad lines.
    pub count: u64,
    /// The first bad lines found: line number and reason.
    pub named: Vec<(u32, String)>,
}

impl BadLines {
    pub(super) fn add(&mut self, number: u32, why: String) {
        self.count += 1;
        if self.named.len() < BAD_NAMED_MAX {
            self.named.push((number, why));
            self.named.sort();
        }
    }
}

/// Result of an import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Sources written, including sources that are only named by items.
    pub sources: u64,
    /// Items written.
    pub items: u64,
    /// Items that the written items supersede.
    pub superseded: u64,
    /// Edges written.
    pub edges: u64,
    /// Tombstones written.
    pub tombstones: u64,
    /// Items embedded for the import; unchanged items are not embedded.
    pub embedded: u64,
    /// Lines whose content is already stored.
    pub unchanged: u64,
    /// Rows that got a new id because another row has theirs.
    pub renamed: u64,
    /// Lines left out.
    pub bad: BadLines,
    /// True if the report only predicts a write.
    pub nothing_written: bool,
}

impl Report {
    /// Counts the rows of a batch.
    pub(super) fn of(batch: &Batch) -> Self {
        Self {
            sources: batch.sources.len() as u64,
            items: batch.items.len() as u64,
            superseded: batch.items.iter().map(|item| item.supersedes.len() as u64).sum(),
            edges: batch.edges.len() as u64,
            tombstones: batch.tombstones.len() as u64,
            ..Self::default()
        }
    }

    /// Adds the counts of written rows.
    pub(super) fn add(&mut self, written: &Self) {
        self.sources += written.sources;
        self.items += written.items;
        self.superseded += written.superseded;
        self.edges += written.edges;
        self.tombstones += written.tombstones;
    }

    /// The report as printed by `recalld import --json`.
    pub fn to_json(&self) -> Value {
        let bad = self.bad.named.iter().map(|(line, why)| json!({"line": line, "reason": why}));
        json!({
            "sources": self.sources, "items": self.items, "superseded": self.superseded,
            "edges": self.edges, "tombstones": self.tombstones, "embedded": self.embedded,
            "unchanged": self.unchanged, "renamed": self.renamed, "bad_count": self.bad.count,
            "bad": bad.collect::<Vec<_>>(), "nothing_written": self.nothing_written,
        })
    }

    /// The report as text, one line per bad line.
    pub fn readable(&self) -> String {
        let mut text = format!(
            "{}{}, {} ({} superseded), {}, {}; {} embedded, {} unchanged, {} with a new id, {}",
            if self.nothing_written { "(nothing was written) " } else { "" },
            counted(self.sources, "source"),
            counted(self.items, "item"),
            self.superseded,
            counted(self.edges, "edge"),
            counted(self.tombstones, "tombstone"),
            counted(self.embedded, "text"),
            counted(self.unchanged, "line"),
            counted(self.renamed, "row"),
            counted(self.bad.count, "bad line"),
        );
        for (line, why) in &self.bad.named {
            text.push_str(&format!("\nline {line}: {why}"));
        }
        text
    }
}
