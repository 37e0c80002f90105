use std::collections::HashMap;

use engine::{ItemId, Snapshot, hex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::artifact::{ArtifactFacts, SHOWN, State, in_words, ref_of};
use recalld_common::names;
use recalld_common::own_kinds::ARTIFACT;
use recalld_common::scope::Scope;
use recalld_recall::{AccessView, Room};
use recalld_tool_framework::args::{AnyObject, List, Sha256, Text, args, object};
use recalld_tool_framework::records::{FIRST, draft};
use recalld_tool_framework::results::{Kind, always, without_nulls};
use recalld_tool_framework::writing::{Committed, Key, StoredId, Tell, Writing};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NEW: &str = "issue_artifact_id_tool";
const MANY: &str = "issue_artifact_id_bundle_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of the attributes in a call.
    const GIVEN_BYTES_MAX: usize = 8 << 10;
    /// Maximum bytes of the artifacts returned in full, as JSON; the rest is returned as ids and state.
    const TOLD_BYTES_MAX: usize = 48 << 10;
    /// Maximum artifacts of one bundle.
    const BUNDLE_MAX: usize = 100;
    /// Maximum attempts if another call issues one of the artifacts concurrently.
    const TRIES_MAX: usize = 3;
}

args! {
    struct NewArtifact {
        kind: Text<1, 64> => "Such as build, report, dataset.",
        name: Text<1, 500> => "Its name.",
        content_sha256: Option<Sha256> => "Of its bytes, in hex; read from path if left out.",
        path: Option<Text<1, 4096>> => "Where it lies.",
        attributes: Option<AnyObject<GIVEN_BYTES_MAX>> => "What else is to be kept.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

object! {
    /// An artifact of a bundle.
    struct Member {
        kind: Text<1, 64> => "Such as build, report, dataset.",
        name: Text<1, 500> => "Its name.",
        content_sha256: Option<Sha256> => "Of its bytes.",
        path: Option<Text<1, 4096>> => "Where it lies.",
        attributes: Option<AnyObject<GIVEN_BYTES_MAX>> => "What else is to be kept.",
    }
}

args! {
    struct Bundle {
        artifacts: List<Member, 1, BUNDLE_MAX> => "Each as issue_artifact_id_tool takes it.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const ONE: Tool = Tool {
    name: NEW,
    title: "Issue an artifact id",
    about: "Give a thing an id that is known here. The same kind, name and hash have the same id.",
    shape: NewArtifact::shape,
    results: &[
        always("artifact", Kind::Object).says(SHOWN),
        always("created", Kind::Flag).says("False where it had its id already."),
    ],
    scope: Some(Scope::MemoryWrite),
    change: Change::AddsOnce,
    core: false,
    run: |context, raw| one(context, raw),
    example: r#"{"kind": "report", "name": "weekly figures", "attributes": {"week": 3}}"#,
};

pub(super) const BUNDLE: Tool = Tool {
    name: MANY,
    title: "Issue many artifact ids",
    about: "The same for up to 100 things: all of them get their ids, or none and why.",
    shape: Bundle::shape,
    results: &[
        always("artifacts", Kind::List)
            .says("In the order given, as `artifact` of issue_artifact_id_tool."),
        always("created", Kind::Integer).says("How many had no id before."),
        always("truncated", Kind::Flag)
            .says("Whether the last ones had no room, and are told by artifact_id, item_id and state alone."),
    ],
    scope: Some(Scope::MemoryWrite),
    change: Change::AddsOnce,
    core: false,
    run: |context, raw| many(context, raw),
    example: r#"{"artifacts": [{"kind": "build", "name": "recalld 0.1"}, {"kind": "log", "name": "build log"}]}"#,
};

fn one(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = NewArtifact::parse(raw)?;
    let NewArtifact { kind, name, content_sha256, path, attributes, idempotency_key } = wanted;
    let member = Member { kind, name, content_sha256, path, attributes };
    let tell: Tell<'_, IssueRecord> = &|snapshot, record| {
        let Issued { artifacts, mut answer, .. } = Issued::of(snapshot, record)?;
        // One artifact alone always has room.
        answer.structured = json!({"artifact": artifacts.first(), "created": record.created == 1});
        Ok(answer)
    };
    issued(context, NEW, (&idempotency_key, raw), &[("path".to_owned(), member)], tell)
}

fn many(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Bundle::parse(raw)?;
    let members = wanted.artifacts.0.into_iter().enumerate();
    let members: Vec<(String, Member)> =
        members.map(|(at, member)| (format!("artifacts: member {at}, path"), member)).collect();
    let tell: Tell<'_, IssueRecord> = &|snapshot, record| {
        let Issued { artifacts, truncated, mut answer } = Issued::of(snapshot, record)?;
        answer.structured = json!({
            "artifacts": artifacts, "created": record.created, "truncated": truncated,
        });
        Ok(answer)
    };
    issued(context, MANY, (&wanted.idempotency_key, raw), &members, tell)
}

/// Idempotency record of both tools.
#[derive(Debug, Serialize, Deserialize)]
struct IssueRecord {
    ids: Vec<StoredId>,
    /// Number of artifacts that had no id before.
    created: usize,
}

/// Issues all of these artifacts in one batch. Each member comes with the field name for errors about its path.
fn issued(
    context: &ToolContext<'_>,
    tool: &'static str,
    (key, raw): (&Key, &Map<String, Value>),
    members: &[(String, Member)],
    tell: Tell<'_, IssueRecord>,
) -> Result<Answer, ServiceError> {
    let hashed = members.iter().map(|(field, member)| {
        let sha256 = sha256_of(context, field, member)?;
        let reference = ref_of(&member.kind.0, &member.name.0, sha256.as_deref());
        Ok((member, sha256, reference))
    });
    let hashed = hashed.collect::<Result<Vec<_>, ServiceError>>()?;
    for _ in 0..TRIES_MAX {
        let mut writing = Writing::begin(context, tool, key, raw);
        if let Some(first) = writing.first_answer(tell)? {
            return Ok(first);
        }
        let mut ids: HashMap<&str, ItemId> = HashMap::new();
        let mut record = IssueRecord { ids: Vec::new(), created: 0 };
        for (member, sha256, reference) in &hashed {
            let known = match ids.get(reference.as_str()) {
                Some(&id) => Some(id),
                None => known(writing.snapshot(), reference)?,
            };
            let id = match known {
                Some(id) => id,
                None => {
                    record.created += 1;
                    add(context, &mut writing, (member, sha256.as_deref(), reference))?
                }
            };
            ids.insert(reference, id);
            record.ids.push(StoredId::of(ARTIFACT, id));
        }
        if record.created == 0 && key.is_none() {
            return tell(writing.snapshot(), &record);
        }
        // If another call has issued one of the artifacts meanwhile, the next attempt finds that artifact.
        if let Committed::Stored(answer) = writing.commit(&record, tell)? {
            return Ok(answer);
        }
        context.workspace.store.sync()?;
    }
    Err(ServiceError::argument("name", "was issued by another call meanwhile; try again"))
}

/// The current version of the artifact with this ref.
fn known(snapshot: &Snapshot, reference: &str) -> Result<Option<ItemId>, ServiceError> {
    Ok(snapshot.find_ref(reference)?.map(|place| snapshot.id(place)).transpose()?)
}

/// The hash in the arguments, or the hash of the file at the path.
fn sha256_of(
    context: &ToolContext<'_>,
    field: &str,
    member: &Member,
) -> Result<Option<String>, ServiceError> {
    if let Some(sha256) = member.content_sha256 {
        return Ok(Some(sha256.to_hex()));
    }
    let Some(path) = &member.path else { return Ok(None) };
    let refused = |why: String| ServiceError::argument(field, why);
    let file =
        context.workspace.roots().resolve(&path.0).map_err(|why| refused(why.to_string()))?;
    if file.is_folder() {
        return Err(refused("is a folder; name a file, or give content_sha256".to_owned()));
    }
    let hashed = file.sha256(&|| context.is_over()).map_err(|error| refused(error.to_string()))?;
    Ok(Some(hex(&hashed.ok_or(ServiceError::Cancelled)?)))
}

fn add(
    context: &ToolContext<'_>,
    writing: &mut Writing<'_>,
    (member, sha256, reference): (&Member, Option<&str>, &str),
) -> Result<ItemId, ServiceError> {
    let id = context.workspace.store.new_item_id();
    let path = member.path.as_ref().map(|path| &path.0);
    let attributes = without_nulls(json!({
        "kind": member.kind.0, "name": member.name.0, "content_sha256": sha256, "path": path,
        "state": State::Issued.name(), "given": member.attributes.as_ref().map(|given| &given.0),
        "issued_at": names::time(writing.now()), FIRST: names::item(ARTIFACT, id),
    }));
    let attributes = attributes.as_object().cloned().unwrap_or_default();
    let mut item = draft(ARTIFACT, id, attributes.clone());
    item.id = Some(id);
    item.reference = Some(reference.to_owned());
    item.title = format!("{} {}", member.kind.0, member.name.0);
    item.text = in_words(&attributes);
    writing.add(item)
}

/// The artifacts of a response.
struct Issued {
    artifacts: Vec<Value>,
    /// True if the last artifacts are given by ids and state alone.
    truncated: bool,
    /// The effects on the artifacts and their lines of text.
    answer: Answer,
}

impl Issued {
    fn of(snapshot: &AccessView<'_>, record: &IssueRecord) -> Result<Self, ServiceError> {
        let mut answer = Answer::plain(Value::Null, String::new());
        let mut artifacts = Vec::with_capacity(record.ids.len());
        let mut room = Room::of(TOLD_BYTES_MAX);
        for id in &record.ids {
            let (place, item) = id.find(snapshot)?;
            let newest =
                item.reference.map(|reference| snapshot.find_ref(reference)).transpose()?;
            let place = newest.flatten().unwrap_or(place);
            let artifact = ArtifactFacts::of(snapshot, place, &mut answer)?;
            if room.takes(&artifact) {
                answer.text.push_str(&artifact.line());
                artifacts.push(json!(artifact));
            } else {
                let ArtifactFacts { artifact_id, item_id, state, .. } = artifact;
                artifacts.push(json!({
                    "artifact_id": artifact_id, "item_id": item_id, "state": state,
                }));
            }
        }
        Ok(Self { artifacts, truncated: room.is_over(), answer })
    }
}
