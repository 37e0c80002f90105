//! `brain_institutional_graph_tool`: neighbourhood of an item or a topic, as lists and as a picture.

use std::collections::HashSet;

use engine::{Direction, EdgeFilter, EdgeId, EdgeView, ItemId, ReachedItem, Snapshot, WalkLimits};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::edges::{EdgeFacts, Relations, which};
use crate::recall::arbitrate::RecallContext;
use recalld_common::counted::counted;
use recalld_common::scope::Scope;
use recalld_recall::{Plan, Question, Room};
use recalld_tool_framework::args::{Id, Int, Text, args, choices};
use recalld_tool_framework::reading::{ItemSummary, find, seen_at};
use recalld_tool_framework::results::{BOUNDS, Kind, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum items in one picture.
    const NODES_MAX: usize = 200;
    /// Maximum edges in one picture.
    const EDGES_MAX: usize = 600;
    /// Maximum seeds of a topic: the best items that recall finds.
    const SEEDS_MAX: usize = 5;
    /// Maximum bytes of nodes and edges in one answer, as JSON; the picture repeats the same data.
    const BYTES_MAX: usize = 32 << 10;
    /// Maximum characters of a label; longer labels make the picture unreadable.
    const LABEL_CHARS_MAX: usize = 60;
    /// Characters retained at the end of a truncated label, because titles of one kind, and paths, often begin alike.
    const LABEL_END_CHARS: usize = 20;
    /// Maximum characters of the picture in the human-readable part.
    const PREVIEW_CHARS: usize = 4_000;
}

/// Marks the place where a label was truncated.
const CUT: &str = "...";

choices! {
    enum Format { Json = "json", Mermaid = "mermaid", Dot = "dot" }
}

args! {
    struct Around {
        topic: Option<Text<1, 4096>> => "Words; or give item_id.",
        item_id: Option<Id> => "The item in the middle.",
        depth: Int<1, 3> = Int(1) => "How many links away.",
        relations: Relations => "Only these.",
        format: Format = Format::Json => "How the picture is written; json: as lines of text.",
    }
}

pub(super) const GRAPH: Tool = Tool {
    name: "brain_institutional_graph_tool",
    title: "Graph around a topic",
    about: "What is linked around a topic or an item: nodes, edges, and a picture to show.",
    shape: Around::shape,
    results: &[
        always("nodes", Kind::List)
            .says("The nearest first: id, kind, title, status, recorded_at, distance from the middle."),
        always("edges", Kind::List)
            .says("Between them: edge_id, from_id, to_id, relation, weight, note, recorded_at, by, status."),
        always("picture", Kind::Text).says("The same, in the format that was asked for."),
        TRUNCATED,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| around(context, raw),
    example: r#"{"item_id": "itm_00000000000000000000000003", "format": "mermaid"}"#,
};

/// An item in the picture.
#[derive(Debug, Serialize)]
struct NodeFacts<'s> {
    #[serde(flatten)]
    item: ItemSummary<'s>,
    /// Number of edges from the nearest seed.
    distance: usize,
}

fn around(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Around::parse(raw)?;
    let snapshot = context.snapshot();
    let seeds = match (wanted.item_id, wanted.topic) {
        (Some(Id(id)), None) => vec![find(&snapshot, "item_id", id)?.1.id],
        (None, Some(topic)) => on_topic(context, topic.0)?,
        _ => return Err(ServiceError::argument("topic", "give topic or item_id, one of the two")),
    };
    let which = which(&snapshot, wanted.relations)?;
    let depth = usize::try_from(wanted.depth.0).unwrap_or_default();
    let limits = WalkLimits { nodes: NODES_MAX, ..WalkLimits::default() };
    let found = snapshot.neighbourhood(&seeds, depth, &which, limits)?;
    let mut room = Room::of(BYTES_MAX);
    let (mut nodes, mut touched) = (Vec::with_capacity(found.nodes.len()), Vec::new());
    for node in &found.nodes {
        let item = ItemSummary::of(&snapshot, node.address)?;
        let shown = NodeFacts { item, distance: node.distance };
        if !room.takes(&shown) {
            break;
        }
        nodes.push(shown);
        touched.push(seen_at(&snapshot, node.address)?);
    }
    let shown = found.nodes.get(..nodes.len()).unwrap_or_default();
    let (between, mut is_cut) = edges_between(&snapshot, shown, &which)?;
    let mut edges = Vec::with_capacity(between.len());
    for edge in &between {
        let edge = EdgeFacts::of(&snapshot, edge, "active")?;
        if !room.takes(&edge) {
            break;
        }
        edges.push(edge);
    }
    is_cut |= nodes.len() < found.nodes.len() || edges.len() < between.len();
    let picture = match wanted.format {
        Format::Json => in_lines(&nodes, &edges),
        Format::Mermaid => mermaid(&nodes, &edges),
        Format::Dot => dot(&nodes, &edges),
    };
    let truncated = found.truncated || is_cut;
    let preview: String = picture.chars().take(PREVIEW_CHARS).collect();
    let text =
        format!("{}, {}\n{preview}", counted(nodes.len(), "item"), counted(edges.len(), "link"));
    let mut structured =
        json!({"nodes": nodes, "edges": edges, "picture": picture, "truncated": truncated});
    if truncated {
        structured["bounds"] = json!({"nodes": NODES_MAX, "edges": EDGES_MAX, "bytes": BYTES_MAX});
    }
    Ok(Answer { touched, ..Answer::plain(structured, text) })
}

/// Seeds of a topic, best first, as found by recall.
fn on_topic(context: &ToolContext<'_>, topic: String) -> Result<Vec<ItemId>, ServiceError> {
    let now = Some(context.services.clock.now());
    let plan = Plan::governed(Question { text: topic, now, ..Question::default() });
    let recall = RecallContext::now(context);
    let outcome = recall.run(&plan)?;
    let best = outcome.items.iter().take(SEEDS_MAX);
    Ok(best.map(|found| recall.view.snapshot.id(found.place)).collect::<Result<_, _>>()?)
}

/// Edges between these items, in the order of their start items; the flag is true if there are more.
fn edges_between<'s>(
    snapshot: &'s Snapshot,
    nodes: &[ReachedItem],
    which: &EdgeFilter,
) -> Result<(Vec<EdgeView<'s>>, bool), ServiceError> {
    let ids: HashSet<ItemId> = nodes.iter().map(|node| node.id).collect();
    let which = EdgeFilter { direction: Some(Direction::Out), ..which.clone() };
    let mut seen: HashSet<EdgeId> = HashSet::new();
    let mut edges = Vec::new();
    for node in nodes {
        for neighbour in snapshot.neighbours(node.id, engine::NEIGHBOURS_MAX, &which)? {
            if !ids.contains(&neighbour.edge.to) || !seen.insert(neighbour.edge.id) {
                continue;
            }
            if edges.len() == EDGES_MAX {
                return Ok((edges, true));
            }
            edges.push(neighbour.edge);
        }
    }
    Ok((edges, false))
}

/// Label of a node: its title on one line, truncated. For a chunk, the label is the innermost heading, because all
/// chunk titles of a document begin alike.
fn label(title: &str) -> String {
    let title = title.rsplit(" > ").next().unwrap_or_default();
    let plain: Vec<char> = title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if plain.len() <= LABEL_CHARS_MAX {
        return plain.into_iter().collect();
    }
    let (begin, _) = plain.split_at(LABEL_CHARS_MAX - LABEL_END_CHARS - CUT.len());
    let (_, end) = plain.split_at(plain.len() - LABEL_END_CHARS);
    let text = |part: &[char]| part.iter().collect::<String>();
    format!("{}{CUT}{}", text(begin).trim_end(), text(end).trim_start())
}

/// Text with a line per node, followed by an indented line for each edge that starts there.
fn in_lines(nodes: &[NodeFacts<'_>], edges: &[EdgeFacts<'_>]) -> String {
    let title = |id: &str| {
        let node = nodes.iter().find(|node| node.item.id == id);
        node.map(|node| label(node.item.title)).unwrap_or_default()
    };
    let mut lines = String::new();
    for NodeFacts { item, .. } in nodes {
        lines.push_str(&format!("{} ({})\n", label(item.title), item.id));
        for edge in edges.iter().filter(|edge| edge.from_id == item.id) {
            lines.push_str(&format!("  -[{}]-> {}\n", edge.relation, title(&edge.to_id)));
        }
    }
    lines
}

/// Mermaid flowchart. In quoted labels, special characters are replaced by Mermaid entity codes.
fn mermaid(nodes: &[NodeFacts<'_>], edges: &[EdgeFacts<'_>]) -> String {
    let quoted = |text: &str| {
        let mut quoted = String::new();
        for c in text.chars() {
            match c {
                '"' | '#' | '&' | '<' | '>' | '`' | '|' | '[' | ']' | '{' | '}' | '(' | ')'
                | '\\' => {
                    quoted.push_str(&format!("#{};", u32::from(c)));
                }
                other => quoted.push(other),
            }
        }
        quoted
    };
    let mut picture = String::from("flowchart LR\n");
    for NodeFacts { item, .. } in nodes {
        picture.push_str(&format!("  {}[\"{}\"]\n", item.id, quoted(&label(item.title))));
    }
    for EdgeFacts { from_id, to_id, relation, .. } in edges {
        picture.push_str(&format!("  {from_id} -->|\"{}\"| {to_id}\n", quoted(relation)));
    }
    picture
}

/// Graphviz DOT. In quoted strings, `"` and `\` are escaped.
fn dot(nodes: &[NodeFacts<'_>], edges: &[EdgeFacts<'_>]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut picture = String::from("digraph memory {\n  rankdir=LR;\n");
    for NodeFacts { item, .. } in nodes {
        let (id, label) = (quoted(&item.id), quoted(&label(item.title)));
        picture.push_str(&format!("  {id} [label={label}];\n"));
    }
    for edge in edges {
        let (from, to) = (quoted(&edge.from_id), quoted(&edge.to_id));
        let relation = quoted(edge.relation);
        picture.push_str(&format!("  {from} -> {to} [label={relation}];\n"));
    }
    picture.push_str("}\n");
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_label_is_cut_in_its_middle() {
        assert_eq!(label("Guide > Chapter 2 > The lens\nof Gull Rock"), "The lens of Gull Rock");
        let exact = "x".repeat(LABEL_CHARS_MAX);
        assert_eq!(label(&exact), exact);
        let path = format!("server/{}/paths.rs", "src/".repeat(30));
        let cut = label(&path);
        assert_eq!(cut.chars().count(), LABEL_CHARS_MAX, "{cut}");
        assert!(cut.starts_with("server/src/") && cut.ends_with("/paths.rs"), "{cut}");
        assert!(cut.contains(CUT), "{cut}");
        let wide = "\u{e9}".repeat(200);
        assert_eq!(label(&wide).chars().count(), LABEL_CHARS_MAX);
    }
}
