//! Tools that add and remove edges between items.

use engine::ledger::Effect;
use engine::{Direction, EdgeDraft, EdgeFilter, EdgeId, ItemId, NEIGHBOURS_MAX, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::edges::{EdgeFacts, RELATION_CHARS_MAX};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_recall::AccessView;
use recalld_tool_framework::args::{Edge, Id, Real, Text, args};
use recalld_tool_framework::reading::find;
use recalld_tool_framework::results::{Kind, Output, always};
use recalld_tool_framework::writing::{Key, Tell, Writing, may_change, refuse_secret};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NEW: &str = "link_items_tool";
const END: &str = "unlink_items_tool";
const EDGE: Output = always("edge", Kind::Object)
    .says("edge_id, from_id, to_id, relation, weight, note, recorded_at, by, status.");

args! {
    struct NewLink {
        from_id: Id => "Where the link starts.",
        to_id: Id => "Where it ends.",
        relation: Text<1, RELATION_CHARS_MAX> => "A word such as depends_on.",
        weight: Real<0, 1000> = Real(1.0) => "How strong.",
        note: Option<Text<1, 1000>> => "Why.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

args! {
    struct Ended {
        edge_id: Edge => "The link.",
        reason: Text<1, 1000> => "Why.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const LINK: Tool = Tool {
    name: NEW,
    title: "Link items",
    about: "Note that an item has to do with another, and how. A link that is there already is not made twice.",
    shape: NewLink::shape,
    results: &[EDGE, always("created", Kind::Flag).says("False where it was there already.")],
    scope: Some(Scope::MemoryWrite),
    change: Change::AddsOnce,
    core: false,
    run: |context, raw| link(context, raw),
    example: r#"{"from_id": "itm_00000000000000000000000003",
                 "to_id": "itm_00000000000000000000000002", "relation": "explains"}"#,
};

pub(super) const UNLINK: Tool = Tool {
    name: END,
    title: "Take a link away",
    about: "Hide a link that does not hold. The items stay.",
    shape: Ended::shape,
    results: &[EDGE],
    scope: Some(Scope::MemoryWrite),
    change: Change::Removes,
    core: false,
    run: |context, raw| unlink(context, raw),
    example: r#"{"edge_id": "edg_0000000000000000000000000b", "reason": "it was wrong"}"#,
};

/// Idempotency record of both tools.
#[derive(Debug, Serialize, Deserialize)]
struct LinkRecord {
    edge: String,
    /// False if the edge existed before the call; `None` if the call removed the edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<bool>,
}

/// The result of both tools.
#[derive(Debug, Serialize)]
struct LinkAnswer<'s> {
    edge: EdgeFacts<'s>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<bool>,
}

fn link(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = NewLink::parse(raw)?;
    let mut writing = Writing::begin(context, NEW, &wanted.idempotency_key, raw);
    let tell: Tell<'_, LinkRecord> = &told;
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let relation = wanted.relation.0;
    check_relation(&relation)?;
    wanted.note.iter().try_for_each(|note| refuse_secret("note", &note.0))?;
    let (Id(from), Id(to)) = (wanted.from_id, wanted.to_id);
    if from == to {
        return Err(ServiceError::argument("to_id", "is the item itself; another is wanted"));
    }
    for (field, id) in [("from_id", from), ("to_id", to)] {
        let (_, item) = find(writing.snapshot(), field, id)?;
        may_change(writing.snapshot(), field, &item)?;
    }
    if let Some(edge) = between(writing.snapshot(), (from, to), &relation)? {
        let record = LinkRecord { edge: names::edge(edge), created: Some(false) };
        let answer = match wanted.idempotency_key {
            Some(_) => writing.commit(&record, tell)?.or_overtaken("from_id")?,
            None => told(writing.snapshot(), &record)?,
        };
        return Ok(answer.touching(Effect::Read, [from, to]));
    }
    #[expect(clippy::cast_possible_truncation, reason = "weights are stored as f32")]
    let weight = wanted.weight.0 as f32;
    let edge = writing.add_edge(EdgeDraft {
        id: None,
        from,
        to,
        relation,
        weight,
        source: None,
        recorded_at: None,
        recorded_by: String::new(),
        valid_from: None,
        valid_to: None,
        note: wanted.note.map(|note| note.0).unwrap_or_default(),
    });
    let record = LinkRecord { edge: names::edge(edge), created: Some(true) };
    let answer = writing.commit(&record, tell)?.or_overtaken("from_id")?;
    Ok(answer.touching(Effect::Written, [from, to]))
}

/// Restricts a relation to one word that needs no escaping in a picture, a query path or an export.
fn check_relation(relation: &str) -> Result<(), ServiceError> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    if relation.chars().all(plain) {
        return Ok(());
    }
    let why =
        "has other characters than letters, digits, `_`, `-`, `.` and `:`; one word is wanted";
    Err(ServiceError::argument("relation", why))
}

/// Finds the edge of this relation between two items, among the `NEIGHBOURS_MAX` strongest edges of the first.
fn between(
    snapshot: &Snapshot,
    (from, to): (ItemId, ItemId),
    relation: &str,
) -> Result<Option<EdgeId>, ServiceError> {
    let which = EdgeFilter {
        relations: vec![relation.to_owned()],
        direction: Some(Direction::Out),
        ..EdgeFilter::default()
    };
    let edges = snapshot.neighbours(from, NEIGHBOURS_MAX, &which)?;
    Ok(edges.iter().find(|neighbour| neighbour.edge.to == to).map(|neighbour| neighbour.edge.id))
}

fn unlink(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Ended::parse(raw)?;
    let mut writing = Writing::begin(context, END, &wanted.idempotency_key, raw);
    let tell: Tell<'_, LinkRecord> = &told;
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    refuse_secret("reason", &wanted.reason.0)?;
    let Edge(id) = wanted.edge_id;
    let ends = ends_of(writing.snapshot(), id)?;
    for end in ends {
        let (_, item) = find(writing.snapshot(), "edge_id", end)?;
        may_change(writing.snapshot(), "edge_id", &item)?;
    }
    writing.bury(id.0, &wanted.reason.0, false);
    let record = LinkRecord { edge: names::edge(id), created: None };
    let answer = writing.commit(&record, tell)?.or_overtaken("edge_id")?;
    Ok(answer.touching(Effect::Written, ends))
}

/// Ends of a visible edge. If the caller may not know one end, the edge does not exist for the caller.
fn ends_of(snapshot: &AccessView<'_>, id: EdgeId) -> Result<[ItemId; 2], ServiceError> {
    let missing =
        || ServiceError::Missing { field: "edge_id", why: "there is no such link".to_owned() };
    let (edge, is_hidden) = snapshot.find_edge(id)?.ok_or_else(missing)?;
    if is_hidden {
        return Err(missing());
    }
    for end in [edge.from, edge.to] {
        find(snapshot, "edge_id", end).map_err(|error| match error {
            ServiceError::Missing { .. } => missing(),
            ServiceError::Denied { field, item, rule, .. } => {
                ServiceError::Denied { field, item, rule, why: "there is no such link".to_owned() }
            }
            other => other,
        })?;
    }
    Ok([edge.from, edge.to])
}

fn told(snapshot: &AccessView<'_>, record: &LinkRecord) -> Result<Answer, ServiceError> {
    let id = names::parse_edge(&record.edge);
    let missing =
        || ServiceError::Missing { field: "edge_id", why: "it was erased since".to_owned() };
    let found = id.ok().map(|id| snapshot.find_edge(id)).transpose()?.flatten();
    let (edge, is_hidden) = found.ok_or_else(missing)?;
    let status = if is_hidden { "tombstoned" } else { "active" };
    let edge = EdgeFacts::of(snapshot, &edge, status)?;
    let how = match record.created {
        Some(false) => "was there already",
        Some(true) => "is made",
        None => "is taken away",
    };
    let EdgeFacts { edge_id, from_id, to_id, relation, .. } = &edge;
    let text = format!("{edge_id} {how}: {from_id} -[{relation}]-> {to_id}");
    Ok(Answer::plain(json!(LinkAnswer { edge, created: record.created }), text))
}
