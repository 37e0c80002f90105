//! `get_item_tool`: one full item, as it is now or as of a past time.

use engine::{AsOf, EdgeFilter, ItemId, ItemView, NEIGHBOURS_MAX, RowAddress, Status};
use serde::Serialize;
use serde_json::{Map, Value, json};

use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::show::ItemFacts;
use recalld_recall::{AccessView, show};
use recalld_tool_framework::args::{Id, Time, args};
use recalld_tool_framework::reading::{find, seen};
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::{
    ANSWER_KIND, Answer, Change, ServiceError, Tool, ToolContext, decision_of,
};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of a text in the answer; longer texts are documents.
    pub(super) const SHOWN_TEXT_BYTES_MAX: usize = 40 << 10;
    /// Maximum bytes of attributes in the answer.
    const SHOWN_ATTRIBUTES_BYTES_MAX: usize = 12 << 10;
    /// Maximum characters of a text in the human-readable part.
    const PREVIEW_CHARS_MAX: usize = 1_000;
}

args! {
    struct GetItem {
        item_id: Id => "The item.",
        as_of: Option<Time> => "Its version that was current then.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: "get_item_tool",
    title: "Get an item",
    about: "One memory whole: text, provenance, policy, what it supersedes and what supersedes it. \
            Not for documents: use docstore_get_document_tool.",
    shape: GetItem::shape,
    results: &[
        always("item", Kind::Object).says(
            "id, ref, kind, title, text, modality, tags, status, superseded_by, supersedes, source, \
             provenance, validity, policy, content_sha256, attributes, and edges: count and whether \
             there are more than it says.",
        ),
        always("truncated", Kind::Flag)
            .says("Whether text or attributes were longer than an answer may be."),
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| get(context, raw),
    example: r#"{"item_id": "itm_00000000000000000000000002"}"#,
};

fn get(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = GetItem::parse(raw)?;
    let snapshot = context.snapshot();
    let Id(id) = wanted.item_id;
    let (place, item) = find(&snapshot, "item_id", id)?;
    if item.kind == ANSWER_KIND {
        let why = super::found::NO_SUCH_ITEM.to_owned();
        return Err(ServiceError::Missing { field: "item_id", why });
    }
    let Some(Time(as_of)) = wanted.as_of else { return shown(&snapshot, place) };
    let then = snapshot.with_as_of(AsOf { known_at: Some(as_of), valid_at: None });
    let place = version_at(&snapshot, &then, id)?;
    shown(&then, place)
}

/// The version of an item that was current in `then`; if there are several, the last written.
fn version_at(
    now: &AccessView<'_>,
    then: &AccessView<'_>,
    id: ItemId,
) -> Result<RowAddress, ServiceError> {
    for member in now.chain(id)?.members.iter().rev() {
        now.check_cancelled()?;
        let Some(place) = then.find(member.id)? else { continue };
        if then.status(place)? == Status::Current && then.may_know(&then.item(place)?) {
            return Ok(place);
        }
    }
    let why = "no version of the item stood then".to_owned();
    Err(ServiceError::Missing { field: "as_of", why })
}

/// The facts of an item, with its attributes and the number of its edges.
#[derive(Debug, Serialize)]
struct WholeItem<'s> {
    #[serde(flatten)]
    facts: ItemFacts<'s>,
    /// Null if redacted, too long or missing.
    #[serde(skip_serializing_if = "Value::is_null")]
    attributes: Value,
    edges: EdgeCount,
}

#[derive(Debug, Serialize)]
struct EdgeCount {
    count: usize,
    more: bool,
}

fn shown(snapshot: &AccessView<'_>, place: RowAddress) -> Result<Answer, ServiceError> {
    let item = snapshot.item(place)?;
    let (verdict, rule) = snapshot.judge(&item, Action::Read);
    let mut facts = ItemFacts::of(snapshot, place, verdict)?;
    let (mut truncated, mut attributes) = (false, Value::Null);
    if verdict == Verdict::Allow {
        let fits = item.attributes.len() <= SHOWN_ATTRIBUTES_BYTES_MAX;
        truncated = facts.cut_text(SHOWN_TEXT_BYTES_MAX) || !fits;
        if fits {
            attributes = serde_json::from_str(item.attributes).unwrap_or_default();
        }
    }
    let preview: String = facts.text.chars().take(PREVIEW_CHARS_MAX).collect();
    let title = show::title_beyond(facts.title, &preview);
    let text = format!(
        "{} ({}, {}){}{title}\n{preview}",
        facts.id,
        facts.kind,
        facts.status,
        if title.is_empty() { "" } else { ": " },
    );
    let item_facts = WholeItem { facts, attributes, edges: edges(snapshot, &item)? };
    let structured = json!({"item": item_facts, "truncated": truncated});
    let mut answer = Answer::plain(structured, text);
    answer.touched.push(seen(item.id, verdict));
    answer.decision = decision_of(verdict);
    answer.rule = rule.to_string();
    Ok(answer)
}

/// Number of edges to items that the caller may know.
fn edges(snapshot: &AccessView<'_>, item: &ItemView<'_>) -> Result<EdgeCount, ServiceError> {
    let which = EdgeFilter { mask: snapshot.hidden()?, ..EdgeFilter::default() };
    let count = snapshot.neighbours(item.id, NEIGHBOURS_MAX, &which)?.len();
    Ok(EdgeCount { count, more: count == NEIGHBOURS_MAX })
}
