//! The reference MCP memory server: entities with observations, and relations between them.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::error::ForeignError;
use super::out::{Item, Out, text};
use super::stream;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Observations of one entity.
    const OBSERVATIONS_MAX: usize = 10_000;
}

/// Names of the lists in a graph that is one object.
pub(super) const LISTS: [&str; 2] = ["entities", "relations"];

/// An entity, merged from its lines.
struct Entity {
    kind: String,
    observations: Vec<String>,
    rest: Map<String, Value>,
}

pub(super) fn translate(path: &Path, out: &mut Out<'_>) -> Result<(), ForeignError> {
    let mut entities: HashMap<String, Entity> = HashMap::new();
    let mut order = Vec::new();
    let mut each = |place: String, value: Result<Value, String>, out: &mut Out<'_>| {
        let value = match value {
            Ok(value) => value,
            Err(why) => return out.skip(&place, format!("is not whole JSON: {why}")),
        };
        let [from, to] = [&["from", "from_id"], &["to", "to_id"]].map(|names| text(&value, names));
        let name = text(&value, &["name", "entityName", "id"]);
        if !from.is_empty() && !to.is_empty() {
            let relation = text(&value, &["relationType", "relation_type"]);
            out.edge(from, to, relation, "", None);
        } else if !name.is_empty() {
            let entity = entities.entry(name.to_owned()).or_insert_with(|| {
                order.push(name.to_owned());
                let kind = text(&value, &["entityType", "entity_type"]).to_owned();
                Entity { kind, observations: Vec::new(), rest: Map::new() }
            });
            entity.take(&value, &place, out);
        } else {
            out.skip(&place, "is neither an entity with a name nor a relation with two ends");
        }
    };
    if stream::first_byte(path)? == Some(b'[') || is_graph(path)? {
        stream::elements(path, stream::open(path)?, &LISTS, &mut |list, at, value| {
            let list = if list.is_empty() { "entry" } else { list };
            each(format!("{list} {}", at + 1), Ok(value), out);
            Ok(())
        })?;
    } else {
        stream::lines(path, stream::open(path)?, |at, value| {
            each(format!("line {at}"), value, out);
            Ok(())
        })?;
    }
    for name in order {
        if let Some(entity) = entities.remove(&name) {
            out.item(entity.into_item(name))?;
        }
    }
    Ok(())
}

/// Returns true if a file is one object with lists, as returned by `read_graph`.
fn is_graph(path: &Path) -> Result<bool, ForeignError> {
    if stream::first_line(path)?.is_some_and(|line| line.get("type").is_some()) {
        return Ok(false);
    }
    let mut is_it = false;
    // A file that is not JSON as a whole may still have valid lines.
    let _broken_off = stream::elements(path, stream::open(path)?, &LISTS, &mut |_, _, _| {
        is_it = true;
        Err(ForeignError::Cancelled) // one is enough
    });
    Ok(is_it)
}

impl Entity {
    /// Adds the content of one line; all lines with one name describe one entity.
    fn take(&mut self, value: &Value, place: &str, out: &mut Out<'_>) {
        for observation in value["observations"].as_array().into_iter().flatten() {
            let said = match observation {
                Value::String(text) => text.clone(),
                other => text(other, &["content", "contents", "text"]).to_owned(),
            };
            if said.trim().is_empty() || self.observations.contains(&said) {
                continue;
            }
            if self.observations.len() == OBSERVATIONS_MAX {
                return out.skip(place, format!("has more than {OBSERVATIONS_MAX} observations"));
            }
            self.observations.push(said);
        }
        let taken =
            ["type", "name", "entityName", "id", "entityType", "entity_type", "observations"];
        self.rest.extend(super::out::rest(value, &taken));
    }

    fn into_item(self, name: String) -> Item {
        let mut text =
            if self.kind.is_empty() { name.clone() } else { format!("{name} ({})", self.kind) };
        for observation in &self.observations {
            text.push_str(&format!("\n- {observation}"));
        }
        let mut attributes = self.rest;
        if !self.kind.is_empty() {
            attributes.insert("entity_type".to_owned(), self.kind.clone().into());
        }
        Item {
            title: name.clone(),
            key: name,
            kind: "entity".to_owned(),
            text,
            attributes,
            tags: if self.kind.is_empty() { Vec::new() } else { vec![self.kind] },
            ..Item::default()
        }
    }
}
