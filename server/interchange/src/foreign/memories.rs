//! mcp-memory-service: memories with tags and replacements.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::Value;

use super::error::ForeignError;
use super::out::{Item, Out, rest, tags, text};
use super::stream;
use super::times::time;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Memories of one file: all must be in memory before the first is written, because a replaced memory is written
    /// before its replacement.
    const MEMORIES_MAX: usize = 1_000_000;
    /// Memories that one memory may replace, equal to the store's limit.
    const REPLACED_MAX: usize = 64;
}

/// Fields with a counterpart in an item; all other fields become attributes.
const TAKEN: [&str; 10] = [
    "content",
    "content_hash",
    "tags",
    "created_at",
    "created_at_iso",
    "updated_at",
    "updated_at_iso",
    "memory_type",
    "parent_id",
    "superseded_by",
];

pub(super) fn translate(path: &Path, out: &mut Out<'_>) -> Result<(), ForeignError> {
    let mut memories = Vec::new();
    stream::elements(path, stream::open(path)?, &["memories"], &mut |_, at, value| {
        let place = format!("memory {}", at + 1);
        if text(&value, &["content"]).is_empty() {
            out.skip(&place, "has no `content`");
        } else if memories.len() == MEMORIES_MAX {
            out.skip(&place, format!("there are more than {MEMORIES_MAX}"));
        } else {
            memories.push(value);
        }
        Ok(())
    })?;
    // Replaced memories by the key of their replacement.
    let mut olders: HashMap<String, Vec<String>> = HashMap::new();
    for memory in &memories {
        let newer = text(memory, &["superseded_by"]);
        if !newer.is_empty() {
            olders.entry(newer.to_owned()).or_default().push(key(memory));
        }
    }
    let mut ids: HashMap<String, String> = HashMap::new();
    for memory in in_order(memories, &olders) {
        let own = key(&memory);
        let replaced = olders.get(&own).into_iter().flatten().filter_map(|older| ids.get(older));
        let mut replaced: Vec<String> = replaced.cloned().collect();
        if replaced.len() > REPLACED_MAX {
            let why = format!("replaces more than {REPLACED_MAX}; those beyond stay as they are");
            out.skip(&own, why);
            replaced.truncate(REPLACED_MAX);
        }
        let item = item(&memory, &own, replaced);
        if let Some(id) = out.item(item)? {
            ids.insert(own.clone(), id);
        }
        let parent = text(&memory, &["parent_id"]);
        if !parent.is_empty() {
            out.edge(&own, parent, "derived_from", "", None);
        }
    }
    Ok(())
}

fn key(memory: &Value) -> String {
    let hash = text(memory, &["content_hash", "id"]);
    if hash.is_empty() { text(memory, &["content"]).to_owned() } else { hash.to_owned() }
}

/// Sorts replaced memories before their replacements; a cycle is broken at its first repeated memory.
fn in_order(memories: Vec<Value>, olders: &HashMap<String, Vec<String>>) -> Vec<Value> {
    let keys: Vec<String> = memories.iter().map(key).collect();
    let place: HashMap<&str, usize> =
        keys.iter().enumerate().map(|(at, key)| (key.as_str(), at)).collect();
    let before = |at: usize| {
        let olders = olders.get(&keys[at]).into_iter().flatten();
        olders.filter_map(|older| place.get(older.as_str()).copied())
    };
    let (mut order, mut entered) = (Vec::new(), HashSet::new());
    for at in 0..memories.len() {
        // Depth-first search: each memory is visited on entry, when its predecessors are pushed, and again on exit.
        let mut waiting = vec![(at, false)];
        while let Some((at, is_way_out)) = waiting.pop() {
            if is_way_out {
                order.push(at);
            } else if entered.insert(at) {
                waiting.push((at, true));
                waiting.extend(before(at).map(|older| (older, false)));
            }
        }
    }
    let mut memories: Vec<Option<Value>> = memories.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| memories[at].take()).collect()
}

fn item(memory: &Value, own: &str, supersedes: Vec<String>) -> Item {
    let at = ["updated_at", "updated_at_iso", "created_at", "created_at_iso"]
        .iter()
        .find_map(|name| time(&memory[*name]));
    let kind = text(memory, &["memory_type"]);
    Item {
        key: own.to_owned(),
        kind: if kind.is_empty() { "memory".to_owned() } else { kind.to_owned() },
        text: text(memory, &["content"]).to_owned(),
        tags: tags(&memory["tags"]),
        attributes: rest(memory, &TAKEN),
        at,
        supersedes,
        ..Item::default()
    }
}
