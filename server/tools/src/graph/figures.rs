//! `graphrag_status_tool`: size and connectivity of the graph that the caller may see.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::limits::NAMES_COUNTED_MAX;
use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_tool_framework::args::args;
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

args! {
    struct Asked {}
}

pub(super) const STATUS: Tool = Tool {
    name: "graphrag_status_tool",
    title: "Graph figures",
    about: "How many items and links there are, and how they hang together.",
    shape: Asked::shape,
    results: &[
        always("nodes", Kind::Integer).says("Items that the caller may know and searches find."),
        always("edges", Kind::Integer).says("Links between them."),
        always("edges_by_relation", Kind::Object)
            .says("Links of each relation, the most frequent ones."),
        always("components", Kind::Integer)
            .says("Parts that no link joins, single items among them."),
        always("largest_component", Kind::Integer).says("Items of the largest one."),
        always("isolated", Kind::Integer).says("Items without a link."),
        always("communities", Kind::Integer).says(
            "Groups of two or more that are linked more among themselves, by label propagation.",
        ),
        always("degree", Kind::Object).says("Links of an item: p50, p95, max."),
        always("built_at", Kind::Text).says("When these figures were made."),
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| status(context, raw),
    example: "{}",
};

fn status(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    Asked::parse(raw)?;
    let snapshot = context.snapshot();
    let hidden = snapshot.hidden()?;
    let now = context.services.clock.now();
    let made = context.workspace.shapes.of(&snapshot, hidden, now)?;
    let shape = &made.shape;
    let mut relations: Vec<(&String, &u64)> = shape.relations.iter().collect();
    relations.sort_by(|(_, one), (_, other)| other.cmp(one));
    relations.truncate(NAMES_COUNTED_MAX);
    let relations: BTreeMap<&String, &u64> = relations.into_iter().collect();
    let structured = json!({
        "nodes": shape.nodes, "edges": shape.edges, "edges_by_relation": relations,
        "components": shape.components, "largest_component": shape.largest,
        "isolated": shape.isolated, "communities": shape.communities,
        "degree": {
            "p50": shape.degree_at(50), "p95": shape.degree_at(95), "max": shape.degree_at(100),
        },
        "built_at": names::time(made.at),
    });
    let text = format!(
        "{}, {}, {} (the largest has {}), {} communities, {} without a link",
        counted(shape.nodes, "item"),
        counted(shape.edges, "link"),
        counted(shape.components, "component"),
        counted(shape.largest, "item"),
        shape.communities,
        counted(shape.isolated, "item"),
    );
    Ok(Answer::plain(structured, text))
}
