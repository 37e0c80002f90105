//! Detects the format of a file or folder by its content, not by its name alone.

use std::path::Path;

use serde_json::Value;

use super::error::ForeignError;
use super::shape::Shape;
use super::{entities, stream};

/// Line types of this project's own JSONL export.
const OWN_TYPES: [&str; 4] = ["source", "item", "edge", "tombstone"];
/// Chat files in the folder or archive of an export.
const CHATS: [&str; 2] = ["conversations.json", "projects.json"];

pub(super) fn shape_of(path: &Path) -> Result<Option<Shape>, ForeignError> {
    if path.is_dir() {
        let has_chats = CHATS.iter().any(|name| path.join(name).exists());
        return if has_chats { of_list(path).map(Some) } else { Ok(Some(Shape::Vault)) };
    }
    if stream::is_archive(path)? {
        return of_list(path).map(Some);
    }
    match stream::first_byte(path)? {
        Some(b'[') => of_list(path).map(Some),
        Some(b'{') => match stream::first_line(path)? {
            Some(line) if !is_wrapped(&line) => Ok(of_line(&line)),
            _ => of_list(path).map(Some),
        },
        _ => Ok(None), // no JSON at all: which lines are bad is for the import to say
    }
}

/// Returns true if an object is an entire export of several records on one line.
fn is_wrapped(value: &Value) -> bool {
    let has = |name: &&str| value[*name].is_array();
    let is_line = value.get("type").is_some();
    ["memories", "results", "history"].iter().any(has)
        || !is_line && entities::LISTS.iter().any(has)
}

/// Detects the format of a JSON Lines file by its first line; `None` for the own format.
fn of_line(line: &Value) -> Option<Shape> {
    match line["type"].as_str() {
        Some("entity" | "relation") => Some(Shape::McpMemory),
        Some(kind) if OWN_TYPES.contains(&kind) => None,
        _ if line["entityType"].is_string() || line["relationType"].is_string() => {
            Some(Shape::McpMemory)
        }
        _ if is_mem0(line) => Some(Shape::Mem0),
        _ => Some(Shape::Plain),
    }
}

fn of_list(path: &Path) -> Result<Shape, ForeignError> {
    let mut first = None;
    let read = stream::of_files(path, &CHATS, &mut |name, _, value| {
        first = Some((name.to_owned(), value));
        Err(ForeignError::Cancelled) // one is enough
    });
    let Some((name, value)) = first else {
        read?;
        return Ok(Shape::Plain);
    };
    Ok(match name.as_str() {
        "memories" => Shape::McpMemoryService,
        "results" | "history" => Shape::Mem0,
        name if entities::LISTS.contains(&name) => Shape::McpMemory,
        _ if value["mapping"].is_object() => Shape::Chatgpt,
        _ if value["chat_messages"].is_array() || value["prompt_template"].is_string() => {
            Shape::Claude
        }
        _ if value["content_hash"].is_string() => Shape::McpMemoryService,
        _ if is_mem0(&value) => Shape::Mem0,
        _ => of_line(&value).unwrap_or(Shape::Plain),
    })
}

fn is_mem0(value: &Value) -> bool {
    value["memory_id"].is_string() || value["memory"].is_string() && value["id"].is_string()
}
