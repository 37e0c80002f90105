//! Neighbours of an item, and the shortest path between two items.

use engine::ledger::TouchedItem;
use engine::{
    Direction, EdgeFilter, ItemId, NEIGHBOURS_MAX, Neighbour, PathStep, RowAddress, Snapshot,
    WalkLimits,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::edges::{EdgeFacts, Relations, note_of, which};
use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_recall::{AccessView, show};
use recalld_tool_framework::args::{Id, Int, args, choices};
use recalld_tool_framework::paging::{Cursor, Paging, Row, not_ours};
use recalld_tool_framework::reading::{ItemSummary, find, seen_at};
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always, sometimes};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const LIST: &str = "graph_neighbors_tool";

choices! {
    enum Way { Out = "out", In = "in", Both = "both" }
}

args! {
    struct Neighbors {
        item_id: Id => "The item.",
        relations: Relations => "Only these.",
        direction: Way = Way::Both => "Seen from the item.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

args! {
    struct Between {
        from_id: Id => "Where the path starts.",
        to_id: Id => "Where it ends.",
        max_hops: Int<1, 6> = Int(4) => "The longest to look for.",
    }
}

pub(super) const NEIGHBORS: Tool = Tool {
    name: LIST,
    title: "Neighbours",
    about: "The items that an item is linked with, the strongest link first.",
    shape: Neighbors::shape,
    results: &[
        always("neighbors", Kind::List).says(
            "Each {edge_id, relation, direction, weight, note, item}; the item: id, kind, title, status, \
             recorded_at.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| neighbors(context, raw),
    example: r#"{"item_id": "itm_00000000000000000000000003"}"#,
};

pub(super) const PATH: Tool = Tool {
    name: "graph_path_tool",
    title: "Path between items",
    about: "A shortest path of links between two items, whichever way they run.",
    shape: Between::shape,
    results: &[
        always("found", Kind::Flag).says("Whether there is one within max_hops."),
        sometimes("items", Kind::List)
            .says("From the first to the last: id, kind, title, status, recorded_at."),
        sometimes("edges", Kind::List)
            .says(
                "Between them, in order: edge_id, from_id, to_id, relation, weight, note, recorded_at, by, \
                 status.",
            ),
        TRUNCATED,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| path(context, raw),
    example: r#"{"from_id": "itm_00000000000000000000000002", "to_id": "itm_00000000000000000000000003"}"#,
};

/// Sort key of a neighbour: bits of the edge weight, edge id, and true for an outgoing edge.
type Key = (u32, String, bool);

fn key_of(neighbour: &Neighbour<'_>) -> Key {
    let edge = &neighbour.edge;
    // Adding 0.0 turns -0.0 into 0.0; the two compare equal but differ in their bits.
    ((edge.weight + 0.0).to_bits(), edge.id.to_string(), neighbour.direction == Direction::Out)
}

/// Returns true if a row comes after the last returned row. Weights are not negative, so their bits sort like the
/// weights.
fn is_after(key: &Key, last: &Key) -> bool {
    let order = last.0.cmp(&key.0).then_with(|| key.1.cmp(&last.1));
    order.then_with(|| last.2.cmp(&key.2)).is_gt()
}

fn neighbors(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Neighbors::parse(raw)?;
    let paging = Paging::of(LIST, raw, wanted.cursor.as_ref())?;
    let snapshot = context.snapshot();
    let (_, item) = find(&snapshot, "item_id", wanted.item_id.0)?;
    let direction = match wanted.direction {
        Way::Out => Some(Direction::Out),
        Way::In => Some(Direction::In),
        Way::Both => None,
    };
    let which = EdgeFilter { direction, ..which(&snapshot, wanted.relations)? };
    let all = snapshot.neighbours(item.id, NEIGHBOURS_MAX, &which)?;
    let last = paging.after::<Key>()?;
    if last.as_ref().is_some_and(|last| !f32::from_bits(last.0).is_finite()) {
        return Err(not_ours());
    }
    let is_whole = all.len() < NEIGHBOURS_MAX;
    let later =
        all.iter().filter(|it| last.as_ref().is_none_or(|last| is_after(&key_of(it), last)));
    let rows = later.map(|neighbour| {
        let shown = NeighbourRow::of(&snapshot, neighbour)?;
        let seen = seen_at(&snapshot, neighbour.address)?;
        Ok(Row::new(key_of(neighbour), json!(shown), shown.line()).touching([seen]))
    });
    let bounds = json!({"neighbors": NEIGHBOURS_MAX});
    let page = paging.page(rows)?.cut_on_last(!is_whole, bounds);
    Ok(page.into_answer("neighbors", "Nothing is linked with it."))
}

/// An edge of the item, with the item at the other end.
#[derive(Debug, Serialize)]
struct NeighbourRow<'s> {
    edge_id: String,
    relation: &'s str,
    direction: &'static str,
    weight: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'s str>,
    item: ItemSummary<'s>,
}

impl<'s> NeighbourRow<'s> {
    fn of(snapshot: &'s AccessView<'_>, neighbour: &Neighbour<'s>) -> Result<Self, ServiceError> {
        let edge = &neighbour.edge;
        Ok(Self {
            edge_id: names::edge(edge.id),
            relation: edge.relation,
            direction: neighbour.direction.name(),
            weight: show::score(edge.weight),
            note: note_of(edge),
            item: ItemSummary::of(snapshot, neighbour.address)?,
        })
    }

    fn line(&self) -> String {
        let arrow = if self.direction == Direction::Out.name() { "->" } else { "<-" };
        format!("{arrow} {}: {} ({})\n", self.relation, self.item.title, self.item.id)
    }
}

fn path(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Between::parse(raw)?;
    let snapshot = context.snapshot();
    let (_, from) = find(&snapshot, "from_id", wanted.from_id.0)?;
    let (_, to) = find(&snapshot, "to_id", wanted.to_id.0)?;
    let which = which(&snapshot, None)?;
    let hops = usize::try_from(wanted.max_hops.0).unwrap_or_default();
    let limits = WalkLimits::default();
    let found = snapshot.path(from.id, to.id, hops, &which, limits)?;
    let mut structured = json!({"found": found.steps.is_some(), "truncated": found.truncated});
    if found.truncated {
        structured["bounds"] = json!({"nodes": limits.nodes, "edges": limits.edges});
    }
    let Some(steps) = found.steps else {
        let text = format!("No path of at most {}.", counted(hops, "link"));
        return Ok(Answer::plain(structured, text));
    };
    let ids: Vec<ItemId> = [from.id].into_iter().chain(steps.iter().map(|step| step.to)).collect();
    let places = ids.iter().map(|&id| Ok(find(&snapshot, "to_id", id)?.0));
    let places = places.collect::<Result<Vec<RowAddress>, ServiceError>>()?;
    let items = places.iter().map(|&place| ItemSummary::of(&snapshot, place));
    let items = items.collect::<Result<Vec<_>, ServiceError>>()?;
    let seen = places.iter().map(|&place| seen_at(&snapshot, place));
    let touched = seen.collect::<Result<Vec<TouchedItem>, ServiceError>>()?;
    let edges = steps.iter().map(|step| edge_of(&snapshot, step));
    let edges = edges.collect::<Result<Vec<_>, ServiceError>>()?;
    let text = in_words(&items, &steps, &edges);
    structured["items"] = json!(items);
    structured["edges"] = json!(edges);
    Ok(Answer { touched, ..Answer::plain(structured, text) })
}

/// The edge of a step; `None` if it was erased meanwhile.
fn edge_of<'s>(
    snapshot: &'s Snapshot,
    step: &PathStep,
) -> Result<Option<EdgeFacts<'s>>, ServiceError> {
    let found = snapshot.find_edge(step.edge)?;
    Ok(found.map(|(edge, _)| EdgeFacts::of(snapshot, &edge, "active")).transpose()?)
}

fn in_words(
    items: &[ItemSummary<'_>],
    steps: &[PathStep],
    edges: &[Option<EdgeFacts<'_>>],
) -> String {
    let mut text = items.first().map(|item| item.title.to_owned()).unwrap_or_default();
    for ((step, edge), item) in steps.iter().zip(edges).zip(items.iter().skip(1)) {
        let relation = edge.as_ref().map(|edge| edge.relation).unwrap_or_default();
        let way = match step.direction {
            Direction::Out => format!("-[{relation}]->"),
            Direction::In => format!("<-[{relation}]-"),
        };
        text.push_str(&format!(" {way} {}", item.title));
    }
    text
}
