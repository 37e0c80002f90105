//! docstore: ingested documents, whole and in pieces.
//!
//! Owns the family's rows. What is stored of a file is `ingest`'s to know (format-spec/wire.md, Ingest).

mod chunk;
mod document;
mod history;
mod lines;
mod manifest;
mod outline;
mod search;

pub use document::GET_DOCUMENT;
pub use document::whole;
pub(crate) use manifest::shown as described;

use engine::{ItemView, Place, Snapshot};
use serde_json::Value;

use recalld_fs_util::uri;
use recalld_policy::{Action, Verdict};
use recalld_tool_framework::args::Id;
use recalld_tool_framework::{Context, Family, ToolError};

/// The family `docstore`.
pub static FAMILY: Family = Family {
    name: "docstore",
    about: "Read the documents that were ingested.",
    tools: &[
        manifest::MANIFEST,
        search::SEARCH,
        document::GET,
        chunk::GET,
        lines::GET,
        outline::GET,
        history::HISTORY,
    ],
};

/// What is stored with an item beside its text.
fn attributes(item: &ItemView<'_>) -> Value {
    serde_json::from_str(item.attributes).unwrap_or_default()
}

/// The path of the file that an item comes from; of a text that was given, where it is from.
fn path_of(snapshot: &Snapshot, item: &ItemView<'_>) -> Result<String, ToolError> {
    let source = item.source.map(|id| snapshot.source(id)).transpose()?.flatten();
    let path = source.as_ref().and_then(|source| uri::to_path(source.uri));
    let told = || attributes(item)["path"].as_str().map(str::to_owned);
    let given = || source.as_ref().map(|source| source.uri.to_owned());
    Ok(path.or_else(told).or_else(given).unwrap_or_default())
}

/// Whether a file lies beneath a prefix of its path, or of its path beneath its root.
fn is_beneath(snapshot: &Snapshot, item: &ItemView<'_>, prefix: &str) -> Result<bool, ToolError> {
    if path_of(snapshot, item)?.starts_with(prefix) {
        return Ok(true);
    }
    Ok(attributes(item)["path"].as_str().is_some_and(|path| path.starts_with(prefix)))
}

/// The document that an argument names, by its id or its path, which the caller may read.
fn named(
    context: &Context<'_>,
    snapshot: &Snapshot,
    (id, path): (Option<Id>, Option<&str>),
) -> Result<Place, ToolError> {
    let (field, why, place) = match (id, path) {
        (Some(id), None) => {
            let why = document::NO_SUCH_DOCUMENT.to_owned();
            ("document_id", why, document::by_id(snapshot, id)?)
        }
        (None, Some(path)) => {
            ("path", document::nothing_from(path), document::by_path(context, snapshot, path)?)
        }
        _ => {
            let why = "give document_id or path, one of the two";
            return Err(ToolError::argument("document_id", why));
        }
    };
    let item = snapshot.item(place)?;
    // To someone who may not read it, a document does not exist.
    let (verdict, rule) = context.judge(&item, Action::Read);
    if verdict == Verdict::Allow {
        return Ok(place);
    }
    Err(ToolError::Denied { field, why, item: item.id, rule: rule.to_string() })
}
