//! The lists of `tokenizer.json`: words, special tokens, and template tokens.
//!
//! This module bounds them. Every id that it returns is below the number of rows of the model's word table.

use serde_json::Value;

use crate::OpenError;
use crate::config::{Settings, brief};
use crate::vocabulary::Vocabulary;

const SPECIAL_MAX: usize = 1024;
/// Limit of a [`Vocabulary`], for error messages.
const PREFIXES_MAX: &str = "entries of at most 16 million distinct prefixes";
/// Most template tokens before or after the text.
const FRAME_MAX: usize = 8;

pub(crate) fn read_vocabulary(
    settings: &Settings,
    ids_max: usize,
) -> Result<Vocabulary, OpenError> {
    let Some(entries) = settings.at("model.vocab").as_object() else {
        let found = brief(settings.at("model.vocab"));
        return Err(settings.unsupported("model.vocab", found, "an object of words".into()));
    };
    let mut vocabulary = Vocabulary::new();
    for (entry, id) in entries {
        let id = read_id(settings, "model.vocab", id, ids_max)?;
        if !vocabulary.insert(entry.as_bytes(), id) {
            return Err(settings.unsupported("model.vocab", entries.len(), PREFIXES_MAX.into()));
        }
    }
    Ok(vocabulary)
}

/// Reads the tokens that are found in raw text. A token that is also a word has that word's id, whatever its own entry
/// says, as in the reference.
pub(crate) fn read_special(
    settings: &Settings,
    words: &Vocabulary,
    ids_max: usize,
) -> Result<Vocabulary, OpenError> {
    let field = "added_tokens";
    let tokens = settings.at(field).as_array().map_or(&[][..], Vec::as_slice);
    if tokens.len() > SPECIAL_MAX {
        let wanted = format!("at most {SPECIAL_MAX} tokens");
        return Err(settings.unsupported(field, tokens.len(), wanted));
    }
    let mut special = Vocabulary::new();
    for token in tokens {
        let content = token["content"].as_str().unwrap_or_default();
        let asks = ["single_word", "lstrip", "rstrip", "normalized"];
        let asked = asks.iter().find(|name| token[**name] == Value::Bool(true));
        if let Some(asked) = asked {
            let found = format!("{asked} for {content:?}");
            return Err(settings.unsupported(field, found, "tokens matched as they stand".into()));
        }
        if content.is_empty() {
            let wanted = "tokens with a content".into();
            return Err(settings.unsupported(field, brief(token), wanted));
        }
        let id = read_id(settings, field, &token["id"], ids_max)?;
        let id = words.find(content.as_bytes()).unwrap_or(id);
        if !special.insert(content.as_bytes(), id) {
            return Err(settings.unsupported(field, tokens.len(), PREFIXES_MAX.into()));
        }
    }
    Ok(special)
}

/// Reads the template tokens before and after a single text.
pub(crate) fn read_frame(
    settings: &Settings,
    ids_max: usize,
) -> Result<(Vec<u32>, Vec<u32>), OpenError> {
    let field = "post_processor.type";
    settings.text(field, None, &["TemplateProcessing", "BertProcessing"])?;
    let post = settings.at("post_processor");
    if settings.at(field) == "BertProcessing" {
        let id = |name: &str| read_id(settings, "post_processor", &post[name][1], ids_max);
        return Ok((vec![id("cls")?], vec![id("sep")?]));
    }
    let template = post["single"].as_array().map_or(&[][..], Vec::as_slice);
    let place = template.iter().position(|part| part["Sequence"]["id"] == "A");
    let wanted = || format!("the text once and at most {FRAME_MAX} special tokens");
    let (Some(place), true) = (place, template.len() <= FRAME_MAX) else {
        let found = brief(&post["single"]);
        return Err(settings.unsupported("post_processor.single", found, wanted()));
    };
    let ids = |parts: &[Value]| -> Result<Vec<u32>, OpenError> {
        let mut ids = Vec::new();
        for part in parts {
            let name = part["SpecialToken"]["id"].as_str().unwrap_or_default();
            let known = post["special_tokens"][name]["ids"].as_array();
            let known = known.filter(|known| (1..=FRAME_MAX).contains(&known.len()));
            let Some(known) = known else {
                let found = brief(part);
                return Err(settings.unsupported("post_processor.single", found, wanted()));
            };
            for id in known {
                ids.push(read_id(settings, "post_processor.special_tokens", id, ids_max)?);
            }
        }
        Ok(ids)
    };
    let (before, after) = template.split_at(place);
    Ok((ids(before)?, ids(&after[1..])?))
}

fn read_id(settings: &Settings, field: &str, id: &Value, ids_max: usize) -> Result<u32, OpenError> {
    let number = id.as_u64().and_then(|id| u32::try_from(id).ok());
    number.filter(|&id| (id as usize) < ids_max).ok_or_else(|| {
        let wanted = format!("ids below the model's vocab_size {ids_max}");
        settings.unsupported(field, brief(id), wanted)
    })
}
