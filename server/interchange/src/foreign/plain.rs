//! JSON Lines, or a list, of objects with arbitrary keys. The usual names for text, title and time are recognised; all
//! other fields become attributes.

use std::path::Path;

use serde_json::Value;

use super::error::ForeignError;
use super::out::{Item, Out, rest, tags, text};
use super::stream;
use super::times::time;

const TEXTS: [&str; 8] =
    ["text", "content", "memory", "body", "message", "note", "fact", "document"];
const TITLES: [&str; 4] = ["title", "name", "subject", "headline"];
const TIMES: [&str; 8] =
    ["recorded_at", "updated_at", "created_at", "timestamp", "created", "updated", "date", "time"];
const IDS: [&str; 5] = ["ref", "id", "uuid", "_id", "key"];
const KINDS: [&str; 3] = ["kind", "type", "category"];

pub(super) fn translate(path: &Path, out: &mut Out<'_>) -> Result<(), ForeignError> {
    if stream::first_byte(path)? == Some(b'[') || stream::first_line(path)?.is_none() {
        return stream::elements(path, stream::open(path)?, &[], &mut |_, at, value| {
            write(&value, &format!("entry {}", at + 1), out)
        });
    }
    stream::lines(path, stream::open(path)?, |at, value| {
        let place = format!("line {at}");
        match value {
            Ok(value) => write(&value, &place, out),
            Err(why) => {
                out.skip(&place, format!("is not whole JSON: {why}"));
                Ok(())
            }
        }
    })
}

fn write(value: &Value, place: &str, out: &mut Out<'_>) -> Result<(), ForeignError> {
    let said = match value {
        Value::String(said) => said.as_str(),
        object => text(object, &TEXTS),
    };
    if said.trim().is_empty() {
        out.skip(place, format!("has no text under any of: {}", TEXTS.join(", ")));
        return Ok(());
    }
    let number = || IDS.iter().find_map(|name| value[*name].as_i64()).map(|id| id.to_string());
    let key = match text(value, &IDS) {
        "" => number().unwrap_or_else(|| said.to_owned()),
        id => id.to_owned(),
    };
    let taken: Vec<&str> =
        [&TEXTS[..], &TITLES, &TIMES, &IDS, &KINDS, &["tags", "labels"]].concat();
    let tagged =
        if value["tags"].is_null() { tags(&value["labels"]) } else { tags(&value["tags"]) };
    out.item(Item {
        key,
        kind: text(value, &KINDS).to_owned(),
        title: text(value, &TITLES).to_owned(),
        text: said.to_owned(),
        tags: tagged,
        at: TIMES.iter().find_map(|name| time(&value[*name])),
        attributes: rest(value, &taken),
        ..Item::default()
    })?;
    Ok(())
}
