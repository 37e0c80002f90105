//! mem0: memories and their previous versions from the history.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::error::ForeignError;
use super::out::{Item, Out, rest, tags, text};
use super::stream;
use super::times::time;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Rows of history of one memory.
    const HISTORY_MAX: usize = 10_000;
}

/// A memory's current record and its history.
#[derive(Default)]
struct Memory {
    now: Option<Value>,
    history: Vec<Value>,
}

pub(super) fn translate(path: &Path, out: &mut Out<'_>) -> Result<(), ForeignError> {
    let mut memories: BTreeMap<String, Memory> = BTreeMap::new();
    let mut each = |place: String, value: Value, out: &mut Out<'_>| {
        let of = text(&value, &["memory_id"]);
        let id = text(&value, &["id"]);
        if !of.is_empty() {
            let memory = memories.entry(of.to_owned()).or_default();
            if memory.history.len() == HISTORY_MAX {
                return out.skip(
                    &place,
                    format!("its memory has more than {HISTORY_MAX} rows of history"),
                );
            }
            memory.history.push(value);
        } else if !id.is_empty() && value["memory"].is_string() {
            // An export may include a memory's history in its record.
            let history = value["history"].as_array().cloned().unwrap_or_default();
            let memory = memories.entry(id.to_owned()).or_default();
            let room = HISTORY_MAX.saturating_sub(memory.history.len());
            if history.len() > room {
                let why =
                    format!("has more than {HISTORY_MAX} rows of history; the last are left out");
                out.skip(&place, why);
            }
            memory.history.extend(history.into_iter().take(room));
            memory.now = Some(value);
        } else {
            out.skip(&place, "has neither `id` and `memory` nor `memory_id`");
        }
    };
    if stream::first_line(path)?.is_some_and(|line| {
        line["results"].is_null() && line["history"].is_null() && line.is_object()
    }) {
        stream::lines(path, stream::open(path)?, |at, value| {
            let place = format!("line {at}");
            match value {
                Ok(value) => each(place, value, out),
                Err(why) => out.skip(&place, format!("is not whole JSON: {why}")),
            }
            Ok(())
        })?;
    } else {
        stream::elements(path, stream::open(path)?, &[], &mut |name, at, value| {
            each(format!("{name} {}", at + 1), value, out);
            Ok(())
        })?;
    }
    for (id, memory) in memories {
        memory.write(&id, out)?;
    }
    Ok(())
}

impl Memory {
    /// Writes the memory's versions, oldest first; each supersedes the previous one.
    fn write(mut self, id: &str, out: &mut Out<'_>) -> Result<(), ForeignError> {
        let at = |row: &Value| time(&row["updated_at"]).or_else(|| time(&row["created_at"]));
        self.history.sort_by_key(|row| at(row).map(|at| at.0));
        let mut versions: Vec<Item> = Vec::new();
        let mut is_gone = false;
        for row in &self.history {
            let (old, new) = (text(row, &["old_memory"]), text(row, &["new_memory"]));
            is_gone =
                row["event"].as_str().is_some_and(|event| event.eq_ignore_ascii_case("delete"))
                    || row["is_deleted"] == true
                    || row["is_deleted"] == 1;
            // If the previous version has no row of its own, `old_memory` is all that is left of its text.
            if !old.is_empty() && versions.last().is_none_or(|last| last.text != old) {
                versions.push(version(id, old, time(&row["created_at"]), row));
            }
            if !new.is_empty() && !is_gone && versions.last().is_none_or(|last| last.text != new) {
                versions.push(version(id, new, at(row), row));
            }
        }
        if let Some(now) = &self.now {
            let said = text(now, &["memory"]);
            is_gone = false;
            if versions.last().is_some_and(|last| last.text == said) {
                versions.pop();
            }
            let mut newest = version(id, said, at(now), now);
            newest.tags = tags(&now["categories"]);
            newest.valid_to = time(&now["expiration_date"]);
            newest.attributes = rest(
                now,
                &[
                    "id",
                    "memory",
                    "history",
                    "created_at",
                    "updated_at",
                    "score",
                    "categories",
                    "expiration_date",
                ],
            );
            versions.push(newest);
        }
        let last = versions.len().saturating_sub(1);
        let mut before: Option<String> = None;
        for (nth, version) in versions.into_iter().enumerate() {
            let is_gone = is_gone && nth == last;
            before =
                out.item(Item { supersedes: before.into_iter().collect(), is_gone, ..version })?;
        }
        Ok(())
    }
}

fn version(id: &str, said: &str, at: Option<engine::Micros>, row: &Value) -> Item {
    let attributes = rest(
        row,
        &[
            "id",
            "memory_id",
            "memory",
            "old_memory",
            "new_memory",
            "event",
            "created_at",
            "updated_at",
            "is_deleted",
        ],
    );
    Item {
        key: id.to_owned(),
        kind: "memory".to_owned(),
        text: said.to_owned(),
        at,
        attributes,
        ..Item::default()
    }
}
