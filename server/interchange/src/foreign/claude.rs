//! Claude: conversations with their attachments, and projects with their documents.

use std::path::Path;

use serde_json::Value;

use super::chats::Chat;
use super::error::ForeignError;
use super::out::{Item, Out, text};
use super::stream;
use super::times::time;

/// The files of an export.
const FILES: [&str; 2] = ["conversations.json", "projects.json"];
const TAG: &str = "claude";

pub(super) fn translate(path: &Path, out: &mut Out<'_>) -> Result<(), ForeignError> {
    stream::of_files(path, &FILES, &mut |_, at, value| {
        let place = format!("entry {}", at + 1);
        if value["chat_messages"].is_array() {
            conversation(&value, &place, out)
        } else if value["docs"].is_array() || value["prompt_template"].is_string() {
            project(&value, out)
        } else {
            out.skip(&place, "is neither a conversation (`chat_messages`) nor a project (`docs`)");
            Ok(())
        }
    })
}

fn conversation(value: &Value, place: &str, out: &mut Out<'_>) -> Result<(), ForeignError> {
    let name = text(value, &["name"]);
    let key = match text(value, &["uuid"]) {
        "" => format!("{name} {}", value["created_at"]),
        uuid => uuid.to_owned(),
    };
    let mut chat = Chat::begin(TAG, &key, name, time(&value["created_at"]));
    for (nth, message) in value["chat_messages"].as_array().into_iter().flatten().enumerate() {
        let role = match text(message, &["sender"]) {
            "human" | "user" => "user",
            _ => "assistant",
        };
        let said = said(message);
        if !said.trim().is_empty() {
            let id = match text(message, &["uuid"]) {
                "" => (nth + 1).to_string(),
                uuid => uuid.to_owned(),
            };
            chat.add(&id, role, said, time(&message["created_at"]));
        }
    }
    chat.write(place, out)
}

/// Returns the text of a message, followed by the text of its attachments.
fn said(message: &Value) -> String {
    let blocks = message["content"].as_array().into_iter().flatten();
    let blocks: Vec<&str> =
        blocks.map(|block| text(block, &["text"])).filter(|said| !said.is_empty()).collect();
    let mut said =
        if blocks.is_empty() { text(message, &["text"]).to_owned() } else { blocks.join("\n") };
    for attached in message["attachments"].as_array().into_iter().flatten() {
        let content = text(attached, &["extracted_content"]);
        if !content.is_empty() {
            let name = text(attached, &["file_name"]);
            let name = if name.is_empty() { "attachment" } else { name };
            said.push_str(&format!("\n\n[{name}]\n{content}"));
        }
    }
    said
}

fn project(value: &Value, out: &mut Out<'_>) -> Result<(), ForeignError> {
    let name = text(value, &["name"]);
    let key = match text(value, &["uuid"]) {
        "" => name.to_owned(),
        uuid => uuid.to_owned(),
    };
    let about = [name, text(value, &["description"]), text(value, &["prompt_template"])];
    let about: Vec<&str> = about.into_iter().filter(|part| !part.is_empty()).collect();
    let at = time(&value["updated_at"]).or_else(|| time(&value["created_at"]));
    let item = |key: &str, kind: &str, title: &str, text: String, at| Item {
        key: key.to_owned(),
        kind: kind.to_owned(),
        title: title.to_owned(),
        text,
        at,
        tags: vec![TAG.to_owned()],
        ..Item::default()
    };
    out.item(item(&key, "project", name, about.join("\n\n"), at))?;
    for (nth, doc) in value["docs"].as_array().into_iter().flatten().enumerate() {
        let filename = text(doc, &["filename"]);
        let id = match text(doc, &["uuid"]) {
            "" => format!("{} {filename}", nth + 1),
            uuid => uuid.to_owned(),
        };
        let own = format!("{key}/{id}");
        let content = text(doc, &["content"]).to_owned();
        if out.item(item(&own, "reference", filename, content, time(&doc["created_at"])))?.is_some()
        {
            out.edge(&own, &key, "part_of", "", None);
        }
    }
    Ok(())
}
