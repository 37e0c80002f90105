//! Writes converted lines: ids and refs that are equal in a second import, texts within the store's limits, and a list
//! of what was left out.

use std::collections::HashSet;
use std::io::Write;

use engine::limits::{LIST_MAX, NAME_BYTES_MAX, REF_BYTES_MAX, TEXT_BYTES_MAX};
use engine::{ItemId, Micros};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::error::ForeignError;
use super::shape::Shape;
use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::own_kinds::OWN_KINDS;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Skipped records that are listed; further ones are only counted.
    pub const SKIPPED_NAMED_MAX: usize = 100;
    /// Edges of one import: each is held in memory until all items are written and its ends are known.
    const EDGES_MAX: usize = 2_000_000;
    const TITLE_CHARS: usize = 300;
    /// Characters of a kind, a tag or a relation.
    const WORD_CHARS: usize = 60;
    /// Bytes of an item's attributes as JSON; the store accepts twice as much.
    const ATTRIBUTES_BYTES_MAX: usize = 32 << 10;
    /// Characters of the place in a skip report.
    const PLACE_CHARS: usize = 120;
}

/// A record or part that was not converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Position in the export.
    pub place: String,
    /// Reason for which the record was left out.
    pub why: String,
}

/// An item to write.
#[derive(Debug, Default)]
pub(super) struct Item {
    /// Identifier of the record within its source format; the item's ref is derived from the key.
    pub(super) key: String,
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) text: String,
    pub(super) tags: Vec<String>,
    pub(super) attributes: Map<String, Value>,
    pub(super) at: Option<Micros>,
    pub(super) valid_to: Option<Micros>,
    /// Ids of the replaced items, as returned by [`Out::item`].
    pub(super) supersedes: Vec<String>,
    pub(super) is_gone: bool,
    /// Part of the import from which the item comes, such as a file of a folder.
    pub(super) part: String,
}

/// An edge to write, by the refs of its ends.
struct Edge {
    from: String,
    to: String,
    relation: String,
    note: String,
    at: Option<Micros>,
    place: String,
}

/// Writer of converted lines.
pub(super) struct Out<'a> {
    to: &'a mut dyn Write,
    shape: Shape,
    /// Name of the imported file or folder, without parent folders.
    name: String,
    cancelled: &'a dyn Fn() -> bool,
    refs: HashSet<String>,
    ids: HashSet<String>,
    edges: Vec<Edge>,
    done: Translated,
}

impl<'a> Out<'a> {
    pub(super) fn new(
        to: &'a mut dyn Write,
        shape: Shape,
        name: &str,
        cancelled: &'a dyn Fn() -> bool,
    ) -> Self {
        let done = Translated { shape, items: 0, edges: 0, skipped: Vec::new(), skipped_count: 0 };
        Self {
            to,
            shape,
            name: name.to_owned(),
            cancelled,
            refs: HashSet::new(),
            ids: HashSet::new(),
            edges: Vec::new(),
            done,
        }
    }

    /// Records a skipped part and the reason.
    pub(super) fn skip(&mut self, place: &str, why: impl Into<String>) {
        self.done.skipped_count += 1;
        if self.done.skipped.len() < SKIPPED_NAMED_MAX {
            let place = place.chars().filter(|c| !c.is_control()).take(PLACE_CHARS).collect();
            self.done.skipped.push(Skipped { place, why: why.into() });
        }
    }

    /// Returns the ref of a key, which is equal in a second import.
    fn reference(&self, key: &str) -> String {
        let whole = format!("{}:{key}", self.shape.name());
        let is_fit = whole.len() <= REF_BYTES_MAX && !whole.chars().any(char::is_control);
        if is_fit { whole } else { format!("{}:{:032x}", self.shape.name(), hash(&[key])) }
    }

    /// Writes an item and returns its id; `None` if the item has no text.
    pub(super) fn item(&mut self, item: Item) -> Result<Option<String>, ForeignError> {
        if (self.cancelled)() {
            return Err(ForeignError::Cancelled);
        }
        let place = if item.title.is_empty() { &item.key } else { &item.title }.clone();
        if item.text.trim().is_empty() {
            self.skip(&place, "has no text");
            return Ok(None);
        }
        let reference = self.reference(&item.key);
        let kind = kind(&item.kind);
        let id = names::item(&kind, id_of(&reference, &item));
        if !self.ids.insert(id.clone()) {
            return Ok(Some(id)); // said twice
        }
        let text = cut_bytes(&item.text, TEXT_BYTES_MAX);
        if text.len() < item.text.len() {
            self.skip(&place, format!("its text is cut after {TEXT_BYTES_MAX} bytes"));
        }
        let line = self.line(&item, &id, &kind, &reference, text);
        self.write(&line)?;
        self.refs.insert(reference);
        self.done.items += 1;
        Ok(Some(id))
    }

    fn line(&mut self, item: &Item, id: &str, kind: &str, reference: &str, text: &str) -> Value {
        let place = &item.key;
        let mut tags: Vec<String> = Vec::new();
        for tag in
            item.tags.iter().map(|tag| cut_chars(tag.trim().trim_start_matches('#'), WORD_CHARS))
        {
            if !tag.is_empty() && !tags.contains(&tag) && tags.len() < LIST_MAX {
                tags.push(tag);
            }
        }
        let mut line = json!({
            "type": "item", "id": id, "ref": reference, "kind": kind, "text": text,
            "title": title(&item.title, text), "via": "recalld import",
            "source": {"kind": "import", "uri": self.uri(&item.part)},
        });
        if !tags.is_empty() {
            line["tags"] = tags.into();
        }
        let attributes = Value::Object(item.attributes.clone());
        if attributes.to_string().len() > ATTRIBUTES_BYTES_MAX {
            let why = format!(
                "its other fields have more than {ATTRIBUTES_BYTES_MAX} bytes and are left out"
            );
            self.skip(place, why);
        } else if !item.attributes.is_empty() {
            line["attributes"] = attributes;
        }
        for (name, at) in [("recorded_at", item.at), ("valid_to", item.valid_to)] {
            if let Some(at) = at {
                line[name] = names::time(at).into();
            }
        }
        if !item.supersedes.is_empty() {
            line["supersedes"] = json!(item.supersedes);
        }
        if item.is_gone {
            line["tombstoned"] = true.into();
        }
        line
    }

    fn uri(&self, part: &str) -> String {
        let (shape, name) = (self.shape.name(), &self.name);
        if part.is_empty() { format!("{shape}:{name}") } else { format!("{shape}:{name}/{part}") }
    }

    /// Stores an edge between two keys until all items are written.
    pub(super) fn edge(
        &mut self,
        from: &str,
        to: &str,
        relation: &str,
        note: &str,
        at: Option<Micros>,
    ) {
        let place = format!("{from} {relation} {to}");
        if self.edges.len() == EDGES_MAX {
            return self.skip(&place, format!("there are more than {EDGES_MAX} relations"));
        }
        self.edges.push(Edge {
            from: self.reference(from),
            to: self.reference(to),
            relation: word(relation, "related_to"),
            note: cut_chars(note, TITLE_CHARS),
            at,
            place,
        });
    }

    /// Writes the edges whose two ends were written.
    pub(super) fn end(mut self) -> Result<Translated, ForeignError> {
        let mut known = HashSet::new();
        for edge in std::mem::take(&mut self.edges) {
            if (self.cancelled)() {
                return Err(ForeignError::Cancelled);
            }
            let missing = [&edge.from, &edge.to].into_iter().find(|end| !self.refs.contains(*end));
            if let Some(missing) = missing {
                let name = missing.split_once(':').map_or(missing.as_str(), |(_, key)| key);
                self.skip(&edge.place, format!("there is no `{}`", cut_chars(name, PLACE_CHARS)));
                continue;
            }
            if !known.insert(hash(&[&edge.from, &edge.to, &edge.relation])) {
                continue; // said twice
            }
            let mut line = json!({
                "type": "edge", "from": edge.from, "to": edge.to, "relation": edge.relation,
            });
            if !edge.note.is_empty() {
                line["note"] = edge.note.into();
            }
            if let Some(at) = edge.at {
                line["recorded_at"] = names::time(at).into();
            }
            self.write(&line)?;
            self.done.edges += 1;
        }
        Ok(self.done)
    }

    fn write(&mut self, line: &Value) -> Result<(), ForeignError> {
        writeln!(self.to, "{line}").map_err(ForeignError::Writing)
    }
}

/// Returns the id of an item: its time, as in every id, and a hash of its content. A version of an item thus has the
/// same id in every import.
fn id_of(reference: &str, item: &Item) -> ItemId {
    let at = item.at.map_or(String::new(), |at| at.0.to_string());
    let hash = hash(&[reference, &item.text, &item.title, &at]);
    let millis = item.at.map_or(0, |at| at.0.max(0).unsigned_abs() / 1000) & ((1 << 48) - 1);
    ItemId(u128::from(millis) << 80 | hash >> 48)
}

fn hash(parts: &[&str]) -> u128 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let hash: [u8; 32] = hash.finalize().into();
    let (half, _) = hash.split_first_chunk().expect("16 of 32 bytes");
    u128::from_le_bytes(*half)
}

/// Converts a kind to one word that is not reserved by the service.
fn kind(given: &str) -> String {
    let kind = word(given, "note");
    if OWN_KINDS.contains(&&*kind) { format!("{kind}_note") } else { kind }
}

/// Converts text to lower-case letters, digits and underscores; `or` if nothing is left.
pub(super) fn word(given: &str, or: &str) -> String {
    let mut out = String::new();
    for c in given.trim().chars().take(WORD_CHARS) {
        if c.is_alphanumeric() {
            out.extend(c.to_lowercase());
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
    }
    let out = cut_bytes(out.trim_end_matches('_'), NAME_BYTES_MAX).to_owned();
    if out.is_empty() { or.to_owned() } else { out }
}

/// Returns the title, or the first line of the text if the title is empty.
fn title(given: &str, text: &str) -> String {
    let line =
        |text: &str| text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    let title = line(given).or_else(|| line(text)).unwrap_or_default();
    cut_chars(&title, TITLE_CHARS)
}

pub(super) fn cut_chars(text: &str, chars: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(chars).collect()
}

fn cut_bytes(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns the string of an object under the first of `names` that has one.
pub(super) fn text<'v>(object: &'v Value, names: &[&str]) -> &'v str {
    names.iter().find_map(|name| object[*name].as_str()).unwrap_or_default()
}

/// Returns the fields of an object that are not in `taken` and not null.
pub(super) fn rest(object: &Value, taken: &[&str]) -> Map<String, Value> {
    let fields = object.as_object().into_iter().flatten();
    let kept = fields.filter(|(name, value)| !taken.contains(&name.as_str()) && !value.is_null());
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Reads tags from a list of strings, or from one string separated by commas.
pub(super) fn tags(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::String(text) => text.split(',').map(|tag| tag.trim().to_owned()).collect(),
        _ => Vec::new(),
    }
}

/// Result of a conversion.
#[derive(Debug)]
pub struct Translated {
    /// Source format of the file.
    pub shape: Shape,
    /// Number of items written.
    pub items: u64,
    /// Number of edges written.
    pub edges: u64,
    /// Skipped records, at most [`SKIPPED_NAMED_MAX`].
    pub skipped: Vec<Skipped>,
    /// Number of all skipped records.
    pub skipped_count: u64,
}

impl Translated {
    /// `{shape, items, edges, skipped[] {place, why}, skipped_count}`.
    pub fn to_json(&self) -> Value {
        let skipped = self.skipped.iter().map(|it| json!({"place": it.place, "why": it.why}));
        json!({
            "shape": self.shape.name(), "items": self.items, "edges": self.edges,
            "skipped": skipped.collect::<Vec<_>>(), "skipped_count": self.skipped_count,
        })
    }

    /// The result as text, one line per skipped record.
    pub fn readable(&self) -> String {
        let mut text = format!(
            "read as {}: {}, {}, {} skipped",
            self.shape.name(),
            counted(self.items, "item"),
            counted(self.edges, "edge"),
            self.skipped_count
        );
        for Skipped { place, why } in &self.skipped {
            text.push_str(&format!("\nskipped {place}: {why}"));
        }
        text
    }
}
