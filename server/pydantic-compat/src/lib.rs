//! The bodies of the HTTP API: what is accepted, and the 422 answer to what is not.
//!
//! Owns the request models and the rules of FastAPI with pydantic 2 about them, field for field: which order
//! the errors have, what they say, what is coerced. Knows bytes and a content type; must not know HTTP, and
//! nothing of what a recall does. The truth is `tests/golden/fastapi`, which asks the originals.
#![forbid(unsafe_code)]

mod coerce;
mod fields;
mod json;
mod problem;
mod render;
mod text;

pub use fields::{
    Field, Flag, Int, OptionalText, RecallRequest, SemanticRecallRequest, Shape, Text,
};
pub use problem::Invalid;

use fields::Model;
use json::{Json, Unreadable};
use problem::Problem;

/// Reads the body of POST /recall.
///
/// # Errors
/// [`Invalid`]: the status and body to answer with.
pub fn recall(content_type: Option<&str>, body: &[u8]) -> Result<RecallRequest, Invalid> {
    read(content_type, body)
}

/// Reads the body of POST /semantic-recall.
///
/// # Errors
/// [`Invalid`]: the status and body to answer with.
pub fn semantic_recall(
    content_type: Option<&str>,
    body: &[u8],
) -> Result<SemanticRecallRequest, Invalid> {
    read(content_type, body)
}

fn read<M: Model>(content_type: Option<&str>, body: &[u8]) -> Result<M, Invalid> {
    if body.is_empty() {
        return Err(Invalid::because(Problem::no_body()));
    }
    let given = if is_json(content_type) {
        json::parse(body).map_err(|why| match why {
            Unreadable::Syntax { at, message } => Invalid::because(Problem::syntax(at, message)),
            Unreadable::Other => Invalid::unreadable(),
        })?
    } else {
        // What does not say it is JSON goes on as the text it is, and a text is no object.
        Json::Text(String::from_utf8_lossy(body).into_owned().into_bytes())
    };
    let Json::Object(entries) = given else {
        return Err(Invalid::because(Problem::no_object(given)));
    };
    M::read(&entries).map_err(Invalid::all)
}

/// Whether a header value means JSON, as Python's `email.message` splits it: `application/json` or
/// `application/...+json`, whatever parameters follow.
fn is_json(content_type: Option<&str>) -> bool {
    let Some(value) = content_type else { return false };
    let kind = value.split(';').next().unwrap_or(value).trim().to_ascii_lowercase();
    let Some((main, sub)) = kind.split_once('/') else { return false };
    main == "application" && !sub.contains('/') && (sub == "json" || sub.ends_with("+json"))
}
