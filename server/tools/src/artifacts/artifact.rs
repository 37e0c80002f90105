use engine::RowAddress;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use recalld_common::names;
use recalld_common::own_kinds::ARTIFACT;
use recalld_policy::Verdict;
use recalld_recall::{AccessView, show};
use recalld_tool_framework::args::choices;
use recalld_tool_framework::reading::seen;
use recalld_tool_framework::records::{Record, reference};
use recalld_tool_framework::{Answer, ServiceError};

/// Description of the fields of an artifact in a result.
pub(super) const SHOWN: &str = "artifact_id, item_id of its newest version, kind, name, content_sha256, path, state, \
                     attributes, issued_at, updated_at, by.";

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

/// An artifact, as far as policy allows.
#[derive(Debug, Serialize)]
pub(super) struct ArtifactFacts<'s> {
    pub(super) artifact_id: String,
    pub(super) item_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Value>,
    name: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_sha256: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_at: Option<Value>,
    updated_at: String,
    by: &'s str,
}

impl<'s> ArtifactFacts<'s> {
    /// Collects the facts of an artifact, and records in the answer that they are shown.
    pub(super) fn of(
        snapshot: &'s AccessView<'_>,
        place: RowAddress,
        answer: &mut Answer,
    ) -> Result<Self, ServiceError> {
        let record = Record::of(snapshot, place)?;
        let verdict = record.verdict(snapshot);
        answer.touched.push(seen(record.item.id, verdict));
        let attribute = |name: &str| record.attribute(name).cloned();
        let open = |name| attribute(name).filter(|_| verdict == Verdict::Allow);
        Ok(Self {
            artifact_id: record.name(),
            item_id: names::of_item(&record.item),
            kind: open("kind"),
            name: open("name").unwrap_or_else(|| show::title(&record.item, verdict).into()),
            content_sha256: open("content_sha256"),
            path: open("path"),
            state: attribute("state"),
            attributes: open("given"),
            issued_at: attribute("issued_at"),
            updated_at: names::time(record.item.recorded_at),
            by: record.item.recorded_by,
        })
    }

    /// The artifact as a line of text.
    pub(super) fn line(&self) -> String {
        let word =
            |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let (state, kind) = (word(self.state.as_ref()), word(self.kind.as_ref()));
        format!("{} is {state}: {kind} {}\n", self.artifact_id, word(Some(&self.name)))
    }
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
