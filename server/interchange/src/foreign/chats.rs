//! ChatGPT: conversations, each exported with all its branches.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};

use super::error::ForeignError;
use super::out::{Item, Out, text};
use super::stream;
use super::times::time;
use recalld_common::counted::counted;

/// Name of the file in an export.
const FILE: &str = "conversations.json";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Messages of one conversation.
    const MESSAGES_MAX: usize = 20_000;
}

/// Roles that are imported; other messages are the program's own.
const SPEAKERS: [&str; 2] = ["user", "assistant"];

pub(super) fn translate(path: &Path, out: &mut Out<'_>) -> Result<(), ForeignError> {
    stream::of_files(path, &[FILE], &mut |_, at, conversation| {
        let place = format!("conversation {}", at + 1);
        if !conversation["mapping"].is_object() {
            out.skip(&place, "has no `mapping`");
            return Ok(());
        }
        write(&conversation, &place, out)
    })
}

fn write(conversation: &Value, place: &str, out: &mut Out<'_>) -> Result<(), ForeignError> {
    let path = newest_branch(conversation);
    if path.len() == MESSAGES_MAX {
        let why = format!("has {MESSAGES_MAX} messages or more; those before are left out");
        out.skip(place, why);
    }
    let title = text(conversation, &["title"]);
    let own = match text(conversation, &["conversation_id", "id"]) {
        "" => format!("{title} {}", conversation["create_time"]),
        id => id.to_owned(),
    };
    let mut chat = Chat::begin("chatgpt", &own, title, time(&conversation["create_time"]));
    for (id, message) in path {
        let said = parts(&message["content"]);
        let role = text(&message["author"], &["role"]);
        let is_hidden = message["metadata"]["is_visually_hidden_from_conversation"] == true;
        if is_hidden || !SPEAKERS.contains(&role) || said.trim().is_empty() {
            continue;
        }
        chat.add(id, role, said, time(&message["create_time"]));
    }
    chat.write(place, out)
}

/// Returns the messages from the first to the last one shown. Other branches are abandoned attempts.
fn newest_branch(conversation: &Value) -> Vec<(&str, &Value)> {
    let mapping = &conversation["mapping"];
    let nodes = || mapping.as_object().into_iter().flatten();
    let leaf = conversation["current_node"].as_str().filter(|node| mapping.get(*node).is_some());
    let newest = || {
        // A child that the export lacks is ignored.
        let is_there = |child: &Value| child.as_str().is_some_and(|id| mapping.get(id).is_some());
        let is_leaf = |node: &Value| {
            node["children"].as_array().is_none_or(|children| !children.iter().any(is_there))
        };
        let leaves = nodes().filter(|(_, node)| is_leaf(node));
        leaves
            .max_by_key(|(_, node)| time(&node["message"]["create_time"]).map(|at| at.0))
            .map(|(id, _)| id.as_str())
    };
    let (mut path, mut met) = (Vec::new(), HashSet::new());
    let mut next = leaf.or_else(newest);
    while let Some(id) = next.filter(|id| met.insert(*id) && path.len() < MESSAGES_MAX) {
        let Some((id, node)) = mapping.as_object().and_then(|nodes| nodes.get_key_value(id)) else {
            break;
        };
        if node["message"].is_object() {
            path.push((id.as_str(), &node["message"]));
        }
        next = node["parent"].as_str();
    }
    path.reverse();
    path
}

/// Returns the text of a message; images and other parts are represented by their content type.
fn parts(content: &Value) -> String {
    if let Some(said) = content["text"].as_str() {
        return said.to_owned();
    }
    let parts = content["parts"].as_array().into_iter().flatten();
    let said = parts.map(|part| match part {
        Value::String(said) => said.clone(),
        other => match text(other, &["text"]) {
            "" => format!("[{}]", text(other, &["content_type"])),
            said => said.to_owned(),
        },
    });
    said.collect::<Vec<_>>().join("\n")
}

/// A conversation of any program: one item for the whole, one per message, and edges for membership and reply order.
pub(super) struct Chat {
    key: String,
    from: &'static str,
    title: String,
    at: Option<engine::Micros>,
    messages: Vec<Item>,
}

impl Chat {
    pub(super) fn begin(
        from: &'static str,
        key: &str,
        title: &str,
        at: Option<engine::Micros>,
    ) -> Self {
        Self { key: key.to_owned(), from, title: title.to_owned(), at, messages: Vec::new() }
    }

    pub(super) fn add(&mut self, id: &str, role: &str, said: String, at: Option<engine::Micros>) {
        let title =
            if self.title.is_empty() { role.to_owned() } else { format!("{role}: {}", self.title) };
        let attributes = json!({"role": role, "conversation": self.key});
        self.messages.push(Item {
            key: format!("{}/{id}", self.key),
            kind: "message".to_owned(),
            title,
            text: said,
            tags: vec![self.from.to_owned(), role.to_owned()],
            attributes: attributes.as_object().cloned().unwrap_or_default(),
            at: at.or(self.at),
            ..Item::default()
        });
    }

    pub(super) fn write(self, place: &str, out: &mut Out<'_>) -> Result<(), ForeignError> {
        let Some(first) = self.messages.first() else {
            out.skip(place, "has no message with words that was shown");
            return Ok(());
        };
        let title = if self.title.is_empty() { first.text.clone() } else { self.title };
        let messages = counted(self.messages.len(), "message");
        let about = format!("{title}\n\n{messages}, the first: {}", first.text);
        out.item(Item {
            key: self.key.clone(),
            kind: "conversation".to_owned(),
            title,
            text: about,
            tags: vec![self.from.to_owned()],
            at: self.at,
            ..Item::default()
        })?;
        let mut before: Option<String> = None;
        for message in self.messages {
            let (key, at) = (message.key.clone(), message.at);
            if out.item(message)?.is_none() {
                continue;
            }
            out.edge(&key, &self.key, "part_of", "", at);
            if let Some(before) = before.replace(key.clone()) {
                out.edge(&key, &before, "follows", "", at);
            }
        }
        Ok(())
    }
}
