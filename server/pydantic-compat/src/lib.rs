//! Request bodies of the HTTP API: validation, and the 422 response to an invalid body.
//!
//! Implements the request models and the rules of FastAPI with pydantic 2 field by field: order and text of the errors,
//! and coercion. Knows bytes and a content type, but neither HTTP nor recall. The reference is `tests/golden/fastapi`,
//! recorded from the original programs.
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
/// [`Invalid`] with the status and body of the response.
pub fn recall(content_type: Option<&str>, body: &[u8]) -> Result<RecallRequest, Invalid> {
    read(content_type, body)
}

/// Reads the body of POST /semantic-recall.
///
/// # Errors
/// [`Invalid`] with the status and body of the response.
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
        // A body without a JSON content type is treated as text, and a text is not an object.
        Json::Text(String::from_utf8_lossy(body).into_owned().into_bytes())
    };
    let Json::Object(entries) = given else {
        return Err(Invalid::because(Problem::no_object(given)));
    };
    M::read(&entries).map_err(Invalid::all)
}

/// Returns true if a header value denotes JSON, split like Python's `email.message`: `application/json` or
/// `application/...+json`, with any parameters.
fn is_json(content_type: Option<&str>) -> bool {
    let Some(value) = content_type else { return false };
    let kind = value.split(';').next().unwrap_or(value).trim().to_ascii_lowercase();
    let Some((main, sub)) = kind.split_once('/') else { return false };
    main == "application" && !sub.contains('/') && (sub == "json" || sub.ends_with("+json"))
}
