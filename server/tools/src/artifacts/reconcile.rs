//! Comparison of an artifact with the hash that it was issued with.

use std::borrow::Cow;

use engine::{ItemDraft, hex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::artifact::{ArtifactFacts, SHOWN, State, in_words};
use recalld_common::own_kinds::ARTIFACT;
use recalld_common::scope::Scope;
use recalld_fs_util::roots::Refused;
use recalld_recall::AccessView;
use recalld_tool_framework::args::{Id, Sha256, Text, args};
use recalld_tool_framework::records::{Record, current};
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::writing::{Key, StoredId, Tell, Writing, may_change};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "reconcile_artifact_id_tool";

args! {
    struct Compared {
        artifact_id: Id => "The artifact.",
        content_sha256: Option<Sha256> => "What it is now; or give path.",
        path: Option<Text<1, 4096>> => "Where it lies, beneath an ingest root.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const RECONCILE: Tool = Tool {
    name: NAME,
    title: "Compare an artifact",
    about: "Say whether an artifact is still what was issued, by its hash or its file. A change is put on record.",
    shape: Compared::shape,
    results: &[
        always("result", Kind::Text)
            .says("match, changed, missing (no such file), or unknown (no hash was on record; now there is)."),
        always("artifact", Kind::Object).says(SHOWN),
    ],
    scope: Some(Scope::MemoryWrite),
    change: Change::AddsOnce,
    core: false,
    run: |context, raw| reconcile(context, raw),
    example: r#"{"artifact_id": "art_00000000000000000000000009", "path": "README.md"}"#,
};

/// Idempotency record.
#[derive(Debug, Serialize, Deserialize)]
struct ComparisonRecord {
    id: StoredId,
    result: Cow<'static, str>,
}

fn reconcile(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Compared::parse(raw)?;
    let mut writing = Writing::begin(context, NAME, &wanted.idempotency_key, raw);
    let tell: Tell<'_, ComparisonRecord> = &told;
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let Id(id) = wanted.artifact_id;
    let artifact = current(writing.snapshot(), ARTIFACT, "artifact_id", id)?;
    may_change(writing.snapshot(), "artifact_id", &artifact.item)?;
    let found = match (wanted.content_sha256, &wanted.path) {
        (Some(sha256), None) => Some(sha256.to_hex()),
        (None, Some(path)) => of_file(context, &path.0)?,
        _ => {
            let why = "give content_sha256 or path, one of the two";
            return Err(ServiceError::argument("content_sha256", why));
        }
    };
    let (result, state) = compared(&artifact, found.as_deref());
    let id = StoredId::of(ARTIFACT, artifact.id);
    let mut record = ComparisonRecord { id, result: result.into() };
    let is_same = artifact.text("state") == state.name()
        && found.as_ref().is_none_or(|found| artifact.text("content_sha256") == found);
    if is_same {
        if wanted.idempotency_key.is_none() {
            return told(writing.snapshot(), &record);
        }
    } else {
        let mut attributes = artifact.attributes.clone();
        // The issued hash is retained, so that a return to it is detected.
        let issued = artifact.attributes.get("content_sha256").cloned();
        if let Some(issued) = issued {
            attributes.entry("issued_sha256").or_insert(issued);
        }
        attributes.extend(found.map(|found| ("content_sha256".to_owned(), found.into())));
        attributes.insert("state".to_owned(), state.name().into());
        let text = in_words(&attributes);
        let item = ItemDraft { text, ..artifact.next(attributes) };
        record.id = StoredId::of(ARTIFACT, writing.add(item)?);
    }
    writing.commit(&record, tell)?.or_overtaken("artifact_id")
}

/// SHA-256 of a file; `None` if the file does not exist.
fn of_file(context: &ToolContext<'_>, path: &str) -> Result<Option<String>, ServiceError> {
    let refused = |why: String| ServiceError::argument("path", why);
    let file = match context.workspace.roots().resolve(path) {
        Ok(file) if file.is_folder() => return Err(refused("is a folder; name a file".to_owned())),
        Ok(file) => file,
        Err(Refused::Missing) => return Ok(None),
        Err(why) => return Err(refused(why.to_string())),
    };
    let hashed = file.sha256(&|| context.is_over()).map_err(|error| refused(error.to_string()))?;
    Ok(Some(hex(&hashed.ok_or(ServiceError::Cancelled)?)))
}

/// Compares an artifact with the hash found now; returns the result word and the new state.
fn compared(record: &Record<'_>, found: Option<&str>) -> (&'static str, State) {
    let issued = match record.text("issued_sha256") {
        "" => record.text("content_sha256"),
        issued => issued,
    };
    match found {
        None => ("missing", State::Missing),
        Some(_) if issued.is_empty() => ("unknown", State::Issued),
        Some(found) if found == issued => ("match", State::Issued),
        Some(_) => ("changed", State::Changed),
    }
}

fn told(snapshot: &AccessView<'_>, record: &ComparisonRecord) -> Result<Answer, ServiceError> {
    let (place, item) = record.id.find(snapshot)?;
    let newest = item.reference.map(|reference| snapshot.find_ref(reference)).transpose()?;
    let place = newest.flatten().unwrap_or(place);
    let mut answer = Answer::plain(Value::Null, String::new());
    let artifact = ArtifactFacts::of(snapshot, place, &mut answer)?;
    let result = &record.result;
    answer.text = format!("{result}\n{}", artifact.line());
    answer.structured = json!({"result": result, "artifact": artifact});
    Ok(answer)
}
