//! Older tool names of recall, for clients that know another catalog.
//!
//! Every name runs the governed path with its retrievers, limits and policy. No name selects a single retriever,
//! whatever the name suggests.

use serde_json::{Map, Value};

use super::arbitrate::{QUERY_CHARS_MAX, RESULTS, Wanted, governed_path, refuse_bounds};
use recalld_common::scope::Scope;
use recalld_tool_framework::args::{Text, args};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

args! {
    struct Named {
        query: Text<1, QUERY_CHARS_MAX> => "A question in plain words.",
    }
}

/// Catalog row of an older name.
const fn row(
    name: &'static str,
    title: &'static str,
    run: fn(&ToolContext<'_>, &Map<String, Value>) -> Result<Answer, ServiceError>,
) -> Tool {
    Tool {
        name,
        title,
        about: "An older name of retrieval_arbitrate_tool: the same governed recall and answer. \
                For clients that know this name; others use that one.",
        shape: Named::shape,
        results: RESULTS,
        scope: Some(Scope::BrainProxy),
        change: Change::Nothing,
        core: false,
        run,
        example: r#"{"query": "why was this chosen?"}"#,
    }
}

pub(super) const BRAIN_RECALL: Tool =
    row("brain_recall", "Recall (brain)", |context, raw| delegate(context, raw, "brain_recall"));

pub(super) const SEMANTIC: Tool =
    row("semantic_recall_tool", "Recall (semantic)", |context, raw| {
        delegate(context, raw, "semantic_recall_tool")
    });

pub(super) const KEYWORD: Tool = row("keyword_recall_tool", "Recall (keyword)", |context, raw| {
    delegate(context, raw, "keyword_recall_tool")
});

pub(super) const GRAPH: Tool = row("graph_recall_tool", "Recall (graph)", |context, raw| {
    delegate(context, raw, "graph_recall_tool")
});

/// Runs the governed path; the answer names the tool of the call.
fn delegate(
    context: &ToolContext<'_>,
    raw: &Map<String, Value>,
    name: &'static str,
) -> Result<Answer, ServiceError> {
    refuse_bounds(raw)?;
    let query = Named::parse(raw)?.query.0;
    governed_path(context, Wanted { query, compact: true, delegated_from: Some(name) })
}
