//! `search` and `fetch`: the pair of tools that some clients expect by name.
//!
//! `search` returns ids, titles and addresses; `fetch` returns one text with string metadata. Both repeat their result
//! as JSON in the single text block, because these clients read only that block. Retrieval is the governed path.

use engine::ItemView;
use serde_json::{Map, Value, json};

use super::arbitrate::{
    QUERY_CHARS_MAX, RecallItem, Wanted, governed_as, grounding_token, refuse_bounds,
};
use super::text::one_line;
use crate::docstore;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::show;
use recalld_recall::show::{ItemFacts, REDACTED};
use recalld_tool_framework::args::{Id, Text, args};
use recalld_tool_framework::reading::{find, seen};
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::{
    ANSWER_KIND, Answer, Change, ServiceError, Tool, ToolContext, decision_of,
};

const SEARCH_NAME: &str = "search";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of a text in one answer.
    const TEXT_BYTES_MAX: usize = 64 << 10;
    /// Maximum characters of a title made from a text.
    const TITLE_CHARS_MAX: usize = 80;
}

const DOCUMENT: &str = "document";
const NO_SUCH_ITEM: &str = "there is no such item, document or chunk";

args! {
    struct Search {
        query: Text<1, QUERY_CHARS_MAX> => "A question in plain words.",
    }
}

args! {
    struct Fetch {
        id: Id => "An id that search gave.",
    }
}

pub(super) const SEARCH: Tool = Tool {
    name: SEARCH_NAME,
    title: "Search",
    about: "Search memory and documents: ids, titles and addresses, the best first; read one with fetch. For \
            connectors; others use retrieval_arbitrate_tool.",
    shape: Search::shape,
    results: &[always("results", Kind::List).says("The best first: id, title, url.")],
    scope: Some(Scope::BrainProxy),
    change: Change::Nothing,
    core: false,
    run: |context, raw| search(context, raw),
    example: r#"{"query": "what fuel does the beacon burn?"}"#,
};

pub(super) const FETCH: Tool = Tool {
    name: "fetch",
    title: "Fetch",
    about: "The text of one result of search, with what is known of it; metadata says whether something newer stands \
            in its place. For connectors.",
    shape: Fetch::shape,
    results: &[
        always("id", Kind::Text).says("Its id."),
        always("title", Kind::Text).says("Its title."),
        always("text", Kind::Text).says("Its text, at most 64 KiB."),
        always("url", Kind::Text).says("Its source where that is on the web, else its resource here."),
        always("metadata", Kind::Object).says(
            "Texts: kind, status, superseded_by, sensitivity, recorded_at, recorded_by, source, lines, valid_from, \
             valid_to, tags, content_sha256, grounding_token; truncated and read_on where the text was cut.",
        ),
    ],
    scope: Some(Scope::BrainProxy),
    change: Change::Nothing,
    core: false,
    run: |context, raw| fetch(context, raw),
    example: r#"{"id": "itm_00000000000000000000000002"}"#,
};

fn search(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    refuse_bounds(raw)?;
    let query = Search::parse(raw)?.query.0;
    let wanted = Wanted { query, compact: true, delegated_from: Some(SEARCH_NAME) };
    governed_as(context, wanted, |found| {
        let results: Vec<Value> = found.items().map(result).collect();
        as_json(json!({"results": results}))
    })
}

fn result(item: &RecallItem<'_>) -> Value {
    let source = item.source.as_ref().map(|source| source.uri);
    json!({
        "id": item.id, "title": titled(item.title, item.said(), &item.id),
        "url": url(source, item.kind, &item.id),
    })
}

/// The title, or a title made of the text or the id; never empty, because clients display the title.
fn titled(title: &str, text: &str, id: &str) -> String {
    let made = || one_line(text, TITLE_CHARS_MAX);
    let title = if title.trim().is_empty() { made() } else { title.to_owned() };
    if title.is_empty() { id.to_owned() } else { title }
}

/// Link for a reader: the source if it is on the web, otherwise the resource of this service.
fn url(source: Option<&str>, kind: &str, id: &str) -> String {
    let is_web = |uri: &&str| uri.starts_with("https://") || uri.starts_with("http://");
    match source.filter(is_web) {
        Some(uri) => uri.to_owned(),
        None if kind == DOCUMENT => format!("memory://document/{id}"),
        None => format!("memory://item/{id}"),
    }
}

fn fetch(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let Fetch { id: Id(id) } = Fetch::parse(raw)?;
    let snapshot = context.snapshot();
    let missing = || ServiceError::Missing { field: "id", why: NO_SUCH_ITEM.to_owned() };
    let (place, item) = find(&snapshot, "id", id).map_err(in_our_words)?;
    if item.kind == ANSWER_KIND {
        return Err(missing());
    }
    let (verdict, rule) = snapshot.judge(&item, Action::Read);
    let (text, is_cut) = text_of(context, &item, verdict)?;
    let facts = ItemFacts::of(&snapshot, place, verdict)?;
    let name = names::of_item(&item);
    let mut metadata = metadata(context, &item, &facts, verdict);
    if is_cut {
        metadata.insert("truncated".into(), "true".into());
        metadata.insert("read_on".into(), read_on(&item, &name, text.len()).into());
    }
    let shown = json!({
        "id": name, "title": titled(show::title(&item, verdict), &text, &name),
        "url": url(facts.source.as_ref().map(|source| source.uri), item.kind, &name),
        "text": text, "metadata": metadata,
    });
    let mut answer = as_json(shown);
    answer.touched.push(seen(id, verdict));
    answer.decision = decision_of(verdict);
    answer.rule = rule.to_string();
    Ok(answer)
}

/// Replaces the "no such item" message by one that covers items, documents and chunks.
fn in_our_words(mut error: ServiceError) -> ServiceError {
    if let ServiceError::Missing { why, .. } | ServiceError::Denied { why, .. } = &mut error
        && *why == recalld_tool_framework::reading::NO_SUCH_ITEM
    {
        NO_SUCH_ITEM.clone_into(why);
    }
    error
}

/// Text of an item as far as policy and the byte limit allow; the flag is true if there is more. The text of a document
/// is that of its chunks.
fn text_of(
    context: &ToolContext<'_>,
    item: &ItemView<'_>,
    verdict: Verdict,
) -> Result<(String, bool), ServiceError> {
    if verdict != Verdict::Allow {
        return Ok((REDACTED.to_owned(), false));
    }
    if item.kind == DOCUMENT {
        let whole = docstore::whole(context, item.id, TEXT_BYTES_MAX)?;
        return Ok((whole.text, whole.truncated));
    }
    let end = item.text.floor_char_boundary(TEXT_BYTES_MAX);
    Ok((item.text[..end].to_owned(), end < item.text.len()))
}

/// Hint for reading the rest of a truncated text.
fn read_on(item: &ItemView<'_>, name: &str, bytes: usize) -> String {
    match item.kind {
        DOCUMENT => format!("docstore_get_document_tool, document_id {name}, offset {bytes}"),
        _ => format!("the text has {} bytes; {bytes} are given", item.text.len()),
    }
}

/// Metadata of an item, with string values only.
fn metadata(
    context: &ToolContext<'_>,
    item: &ItemView<'_>,
    facts: &ItemFacts<'_>,
    verdict: Verdict,
) -> Map<String, Value> {
    let tags = (verdict == Verdict::Allow && !item.tags.is_empty()).then(|| item.tags.join(", "));
    let lines = item.span.map(|span| format!("{}-{}", span.line_start, span.line_end));
    let known = [
        ("kind", Some(item.kind.to_owned())),
        ("status", Some(facts.status.to_owned())),
        ("superseded_by", facts.superseded_by.clone()),
        ("sensitivity", Some(item.sensitivity.name().to_owned())),
        ("recorded_at", Some(names::time(item.recorded_at))),
        ("recorded_by", Some(item.recorded_by.to_owned())),
        ("source", facts.source.as_ref().map(|source| source.uri.to_owned())),
        ("lines", lines),
        ("valid_from", item.valid_from.map(names::time)),
        ("valid_to", item.valid_to.map(names::time)),
        ("tags", tags),
        ("content_sha256", Some(facts.content_sha256.clone())),
        ("grounding_token", Some(grounding_token(context, item, verdict))),
    ];
    let known =
        known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
    known.collect()
}

/// Output with `result` as structured content and as JSON text.
fn as_json(result: Value) -> Answer {
    let text = result.to_string();
    Answer::plain(result, text)
}
