//! `docstore_search_tool`: full-text search in documents.

use std::collections::HashMap;
use std::sync::Arc;

use engine::ledger::Effect;
use engine::{Filter, Hit, Snapshot, SourceId, hex};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::stored::{attributes, is_beneath, path_of};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_recall::show;
use recalld_tool_framework::args::{Text, args};
use recalld_tool_framework::paging::{Cursor, Paging, Row};
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext, touched};

const SEARCH_NAME: &str = "docstore_search_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum hits of one query over all pages.
    const HITS_MAX: usize = 1_000;
    /// Maximum characters of a snippet.
    const SNIPPET_CHARS: usize = 320;
    /// Maximum characters of a snippet before the first matched word.
    const BEFORE_CHARS: usize = 60;
}

/// Rows scanned between two checks for cancellation.
const ROWS_TOGETHER: usize = 1024;

args! {
    struct Asked {
        query: Text<1, 4096> => "Words.",
        path_prefix: Option<Text<1, 4096>> => "Absolute, or beneath a root.",
        modality: Option<Text<1, 64>> => "Only this one.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const SEARCH: Tool = Tool {
    name: SEARCH_NAME,
    title: "Search documents",
    about: "Find words in the current documents, the best passage first. For questions: retrieval_arbitrate_tool.",
    shape: Asked::shape,
    results: &[
        always("hits", Kind::List).says(
            "Each document_id, chunk_id, path, heading, line_start, line_end, snippet, score, \
             content_sha256 of the file.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| search(context, raw),
    example: r#"{"query": "relief boat"}"#,
};

fn search(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let paging = Paging::of(SEARCH_NAME, raw, wanted.cursor.as_ref())?;
    let snapshot = context.snapshot();
    let mut filter = Filter {
        kinds: vec!["chunk".to_owned()],
        modality: wanted.modality.map(|modality| modality.0),
        current_only: true,
        mask: snapshot.hidden()?,
        ..Filter::default()
    };
    if let Some(prefix) = &wanted.path_prefix {
        let beneath = beneath(&snapshot, &filter, &prefix.0)?;
        filter.allowlist = Some(Arc::new(beneath));
    }
    let hits = snapshot.search_words(&wanted.query.0, HITS_MAX, &filter)?;
    let given = usize::try_from(paging.after::<u64>()?.unwrap_or_default()).unwrap_or(HITS_MAX);
    let rows = hits.iter().enumerate().skip(given).map(|(at, hit)| {
        let shown = HitFacts::of(&snapshot, hit, &wanted.query.0)?;
        let read = touched(Effect::Read, snapshot.id(hit.address)?);
        Ok(Row::new(at as u64 + 1, json!(shown), shown.line()).touching([read]))
    });
    let page = paging.page(rows)?.cut_on_last(hits.len() == HITS_MAX, json!({"hits": HITS_MAX}));
    Ok(page.into_answer("hits", "Nothing of this in the documents."))
}

/// Chunks whose file is below a path prefix.
fn beneath(
    snapshot: &Snapshot,
    filter: &Filter,
    prefix: &str,
) -> Result<engine::ItemSet, ServiceError> {
    let mut known: HashMap<Option<SourceId>, bool> = HashMap::new();
    let mut places = Vec::new();
    let mut seen = 0_usize;
    snapshot.for_each_admitted(filter, |_, place| {
        seen += 1;
        if seen.is_multiple_of(ROWS_TOGETHER) {
            snapshot.check_cancelled()?;
        }
        let item = snapshot.item(place)?;
        let is_beneath = match known.get(&item.source) {
            Some(&known) => known,
            None => {
                let document = document_place(snapshot, item.source)?;
                let of = document.map(|place| snapshot.item(place)).transpose()?;
                let is_beneath = is_beneath(snapshot, of.as_ref().unwrap_or(&item), prefix)?;
                known.insert(item.source, is_beneath);
                is_beneath
            }
        };
        if is_beneath {
            places.push(place);
        }
        Ok::<(), ServiceError>(())
    })?;
    Ok(snapshot.item_set(&places))
}

/// The document row of a source.
fn document_place(
    snapshot: &Snapshot,
    source: Option<SourceId>,
) -> Result<Option<engine::RowAddress>, ServiceError> {
    let Some(source) = source else { return Ok(None) };
    for place in snapshot.items_by_source(source)? {
        if snapshot.kind(place)? == "document" {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// A chunk that matches the query.
#[derive(Debug, Serialize)]
struct HitFacts<'s> {
    /// Null in imported chunks without the attribute.
    #[serde(skip_serializing_if = "Value::is_null")]
    document_id: Value,
    chunk_id: String,
    path: String,
    heading: &'s str,
    #[serde(flatten)]
    lines: Option<LineRange>,
    snippet: String,
    score: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_sha256: Option<String>,
}

/// Lines of a chunk in its file.
#[derive(Debug, Serialize)]
struct LineRange {
    line_start: u32,
    line_end: u32,
}

impl<'s> HitFacts<'s> {
    fn of(snapshot: &'s Snapshot, hit: &Hit, query: &str) -> Result<Self, ServiceError> {
        let item = snapshot.item(hit.address)?;
        let source = item.source.map(|id| snapshot.source(id)).transpose()?.flatten();
        Ok(Self {
            document_id: attributes(&item)["document"].clone(),
            chunk_id: names::of_item(&item),
            path: path_of(snapshot, &item)?,
            heading: item.title,
            lines: item
                .span
                .as_ref()
                .map(|span| LineRange { line_start: span.line_start, line_end: span.line_end }),
            snippet: snippet(item.text, query),
            score: show::score(hit.score),
            content_sha256: source.map(|source| hex(&source.content_sha256)),
        })
    }

    fn line(&self) -> String {
        let line =
            self.lines.as_ref().map_or_else(String::new, |lines| lines.line_start.to_string());
        format!("{}:{line} {}\n", self.path, self.snippet)
    }
}

/// The part of a text around the first matched word, on one line.
fn snippet(text: &str, query: &str) -> String {
    let words: Vec<String> = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() > 2)
        .map(str::to_lowercase)
        .collect();
    let line: Vec<&str> = text.split_whitespace().collect();
    let has = |piece: &str| {
        let piece = piece.to_lowercase();
        words.iter().any(|word| piece.contains(word.as_str()))
    };
    let first = line.iter().position(|piece| has(piece)).unwrap_or_default();
    let mut start = first;
    let mut before = 0;
    while start > 0 {
        before += line.get(start - 1).map_or(0, |piece| piece.chars().count() + 1);
        if before > BEFORE_CHARS {
            break;
        }
        start -= 1;
    }
    let whole = line.get(start..).unwrap_or_default().join(" ");
    let mut snippet: String = whole.chars().take(SNIPPET_CHARS).collect();
    if snippet.len() < whole.len() {
        snippet.push_str("...");
    }
    if start > 0 { format!("...{snippet}") } else { snippet }
}
