use engine::{RowAddress, Snapshot};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use recalld_common::names;
use recalld_common::own_kinds::ARTIFACT;
use recalld_policy::Verdict;
use recalld_recall::show;
use recalld_tool_framework::args::choices;
use recalld_tool_framework::reading::seen;
use recalld_tool_framework::records::{Record, reference};
use recalld_tool_framework::results::without_nulls;
use recalld_tool_framework::{Answer, Context, ServiceError};

/// Description of the fields of an artifact in a result.
pub(super) const SHOWN: &str = "artifact_id, item_id of its newest version, kind, name, content_sha256, path, state, attributes, \
                     issued_at, updated_at, by.";

choices! {
    /// State of an artifact at its last comparison.
    pub(super) enum State { Issued = "issued", Changed = "changed", Missing = "missing" }
}

/// The ref of an artifact: artifacts of equal kind, name and hash have an equal ref.
pub(super) fn ref_of(kind: &str, name: &str, sha256: Option<&str>) -> String {
    // Length prefixes separate kind and name, which would otherwise be ambiguous.
    let named = format!("{}:{kind}{}:{name}{}", kind.len(), name.len(), sha256.unwrap_or_default());
    reference(ARTIFACT, &engine::hex(&Sha256::digest(named)))
}

/// An artifact as JSON and as a line of text, as far as policy allows.
pub(super) fn shown(
    context: &Context<'_>,
    snapshot: &Snapshot,
    place: RowAddress,
    answer: &mut Answer,
) -> Result<(Value, String), ServiceError> {
    let record = Record::of(snapshot, place)?;
    let verdict = record.verdict(context);
    answer.touched.push(seen(record.item.id, verdict));
    let attribute = |name: &str| record.attributes.get(name).cloned();
    let open = |name| attribute(name).filter(|_| verdict == Verdict::Allow);
    let shown = without_nulls(json!({
        "artifact_id": record.name(), "item_id": names::of_item(&record.item),
        "kind": open("kind"),
        "name": open("name").unwrap_or_else(|| show::title(&record.item, verdict).into()),
        "content_sha256": open("content_sha256"), "path": open("path"), "state": attribute("state"),
        "attributes": open("given"), "issued_at": attribute("issued_at"),
        "updated_at": names::time(record.item.recorded_at), "by": record.item.recorded_by,
    }));
    let word = |name: &str| shown[name].as_str().unwrap_or_default();
    let line = format!(
        "{} is {}: {} {}\n",
        word("artifact_id"),
        word("state"),
        word("kind"),
        word("name")
    );
    Ok((shown, line))
}

/// Searchable text of an artifact.
pub(super) fn in_words(attributes: &Map<String, Value>) -> String {
    let word = |name: &str| attributes.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut text = format!("{} {}", word("kind"), word("name"));
    for (label, name) in [("path", "path"), ("SHA-256", "content_sha256"), ("state", "state")] {
        if !word(name).is_empty() {
            text.push_str(&format!("\n{label}: {}", word(name)));
        }
    }
    if let Some(given) = attributes.get("given") {
        text.push_str(&format!("\n{given}"));
    }
    text
}
