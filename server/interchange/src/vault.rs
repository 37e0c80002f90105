//! Exports lines as a folder of Markdown notes (`format-spec/vault.md`), for people and for programs that use such
//! folders.
//!
//! Reads the lines of `format-spec/export.md`, without knowledge of a store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use serde_json::{Value, json};

use recalld_common::own_kinds::is_own;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Characters of a note's name.
    const NAME_CHARS: usize = 80;
    /// Bytes of a note's name: the usual limit of file systems, less the end of an id and the extension.
    const NAME_BYTES: usize = 230;
    /// Older versions listed in a note.
    const EARLIER_MAX: usize = 50;
    /// Characters of an older version.
    const EARLIER_CHARS: usize = 2_000;
    /// Characters of an id's end that distinguish two notes of one name.
    const ID_CHARS: usize = 6;
}

/// Folders and files are accessible to their owner only, like the store.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Result of an export to notes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Notes.
    pub notes: u64,
    /// Links between notes.
    pub links: u64,
    /// Older versions listed in the notes of their successors.
    pub earlier: u64,
}

impl Report {
    /// `{notes, links, earlier}`.
    pub fn to_json(self) -> Value {
        json!({"notes": self.notes, "links": self.links, "earlier": self.earlier})
    }
}

/// Items and edges of the lines, by id.
#[derive(Default)]
struct Held {
    items: BTreeMap<String, Value>,
    /// Successor of each superseded item.
    newer: HashMap<String, String>,
    /// Edges by start item: relation, end item, note.
    edges: HashMap<String, Vec<(String, String, String)>>,
}

/// Writes the notes of these lines into an empty folder. `tell` receives the number of written notes and of all notes.
///
/// # Errors
/// A line cannot be read, or a file cannot be written.
pub fn write(
    lines: &mut impl BufRead,
    folder: &Path,
    tell: &mut dyn FnMut(u64, u64),
) -> io::Result<Report> {
    let held = held(lines)?;
    let names = names(&held);
    let mut report = Report::default();
    for (id, (kind, name)) in &names {
        let item = &held.items[id];
        let note = note(&held, &names, id, item, &mut report);
        put(&folder.join(kind), &format!("{name}.md"), &note)
            .map_err(|error| io::Error::new(error.kind(), format!("{kind}/{name}.md: {error}")))?;
        report.notes += 1;
        tell(report.notes, names.len() as u64);
    }
    Ok(report)
}

fn put(folder: &Path, name: &str, note: &str) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(FILE_MODE).open(folder.join(name))?;
    file.write_all(note.as_bytes())
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn held(lines: &mut impl BufRead) -> io::Result<Held> {
    let mut held = Held::default();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(&line?)?;
        // An item that was superseded by a hidden or erased item does not become current again.
        let newer = text(&line, if line["type"] == "tombstone" { "target" } else { "id" });
        for older in line["supersedes"].as_array().into_iter().flatten() {
            held.newer.insert(older.as_str().unwrap_or_default().to_owned(), newer.to_owned());
        }
        if line["tombstoned"] == true {
            continue;
        }
        match text(&line, "type") {
            "item" if is_own(text(&line, "kind")) && line["searchable"] != false => {
                held.items.insert(text(&line, "id").to_owned(), line);
            }
            "edge" => {
                let [to, relation, note] =
                    ["to", "relation", "note"].map(|name| text(&line, name).to_owned());
                held.edges
                    .entry(text(&line, "from").to_owned())
                    .or_default()
                    .push((relation, to, note));
            }
            _ => {}
        }
    }
    Ok(held)
}

/// Returns the folder and name of the note of each current item. Names are unique regardless of case and folder,
/// because links have no folder.
fn names(held: &Held) -> BTreeMap<String, (String, String)> {
    let (mut names, mut taken) = (BTreeMap::new(), HashSet::new());
    for (id, item) in &held.items {
        if held.newer.contains_key(id) {
            continue;
        }
        let mut name = file_name(text(item, "title"));
        if !taken.insert(name.to_lowercase()) {
            let end = id.len().saturating_sub(ID_CHARS);
            name = format!("{name} {}", &id[end..]);
            if !taken.insert(name.to_lowercase()) {
                name = id.clone();
                taken.insert(id.to_lowercase());
            }
        }
        names.insert(id.clone(), (file_name(text(item, "kind")), name));
    }
    names
}

/// Returns a name that is valid in every file system and wiki link.
fn file_name(title: &str) -> String {
    let is_plain = |c: char| !c.is_control() && !"/\\:*?\"<>|#^[]".contains(c);
    let name: String = title.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect();
    let name: Vec<&str> = name.split_whitespace().collect();
    let mut name: String = name.join(" ").chars().take(NAME_CHARS).collect();
    name.truncate(name.floor_char_boundary(NAME_BYTES));
    let name = name.trim_matches(['.', ' ']);
    if name.is_empty() { "untitled".to_owned() } else { name.to_owned() }
}

fn note(
    held: &Held,
    names: &BTreeMap<String, (String, String)>,
    id: &str,
    item: &Value,
    report: &mut Report,
) -> String {
    let mut out = format!("---\n{}---\n\n{}\n", front(id, item), text(item, "text").trim_end());
    let links = held.edges.get(id).into_iter().flatten();
    let links = links.filter_map(|(relation, to, note)| {
        let (_, name) = names.get(newest(held, to))?;
        let note =
            if note.is_empty() { String::new() } else { format!(" ({})", note.replace('\n', " ")) };
        Some(format!("- {relation} [[{name}]]{note}\n"))
    });
    let links: Vec<String> = links.collect();
    if !links.is_empty() {
        out.push_str(&format!("\n## Relations\n\n{}", links.concat()));
        report.links += links.len() as u64;
    }
    let earlier = earlier(held, item);
    if !earlier.is_empty() {
        out.push_str("\n## Earlier\n");
        for older in &earlier {
            let said: String = text(older, "text").chars().take(EARLIER_CHARS).collect();
            out.push_str(&format!("\n{}\n\n", text(older, "recorded_at")));
            out.extend(said.lines().map(|line| format!("> {line}\n")));
        }
        report.earlier += earlier.len() as u64;
    }
    out
}

/// Returns the current successor of an item.
fn newest<'a>(held: &'a Held, id: &'a str) -> &'a str {
    let mut at = id;
    for _ in 0..=held.newer.len() {
        let Some(newer) = held.newer.get(at) else { break };
        at = newer;
    }
    at
}

/// Returns the previous versions, newest first.
fn earlier<'h>(held: &'h Held, item: &'h Value) -> Vec<&'h Value> {
    let (mut found, mut met, mut waiting) = (Vec::new(), HashSet::new(), vec![item]);
    while let Some(next) = waiting.pop().filter(|_| found.len() < EARLIER_MAX) {
        for older in next["supersedes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if let Some(older) = held.items.get(older).filter(|_| met.insert(older)) {
                found.push(older);
                waiting.push(older);
            }
        }
    }
    found.sort_by_key(|older| std::cmp::Reverse(text(older, "recorded_at").to_owned()));
    found
}

/// Returns an item's fields as YAML; the values are JSON, a subset of YAML.
fn front(id: &str, item: &Value) -> String {
    let mut out = String::new();
    let mut put = |name: &str, value: &Value| {
        let is_empty = value.is_null() || value.as_str() == Some("");
        if !is_empty {
            out.push_str(&format!("{name}: {value}\n"));
        }
    };
    put("title", &item["title"]);
    put("type", &item["kind"]);
    put("permalink", &json!(id));
    for (name, field) in [
        ("tags", "tags"),
        ("created", "recorded_at"),
        ("by", "recorded_by"),
        ("valid_from", "valid_from"),
        ("valid_to", "valid_to"),
        ("sensitivity", "sensitivity"),
        ("gates", "gates"),
        ("attributes", "attributes"),
    ] {
        put(name, &item[field]);
    }
    put("source", &item["source"]["uri"]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_files_and_links_can_have() {
        for (title, name) in [
            ("Plain title", "Plain title"),
            ("a/b: c?  [d]#e", "a b c d e"),
            ("..", "untitled"),
            ("", "untitled"),
            ("line\nbreak", "line break"),
        ] {
            assert_eq!(file_name(title), name);
        }
        assert_eq!(file_name(&"x".repeat(200)).len(), NAME_CHARS);
        assert_eq!(file_name(&"\u{1f4a1}".repeat(200)).len(), NAME_BYTES / 4 * 4);
    }
}
