//! Contradiction scan: pairs of current items on one subject that differ.
//!
//! Each item is compared with its nearest neighbours by words and by vector, which bounds the work of a page.
//! `recalld_claim_check` decides if two items differ.

use std::sync::Arc;

use engine::{Filter, ItemView, RowAddress, SearchError};
use serde_json::{Map, Value, json};

use super::beside::{ComparedFacts, nearest, says_something};
use super::pages::{ITEMS_MAX, Page, Step, comes_behind, walk};
use recalld_claim_check::{Difference, Prose, difference};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_embedding::encoders::View;
use recalld_recall::{AccessView, show};
use recalld_tool_framework::args::{Text, args};
use recalld_tool_framework::paging::{Cursor, Paging, ROWS_MAX};
use recalld_tool_framework::reading::seen_at;
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "contradiction_scan_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum neighbours by words, and by vector, compared with an item.
    const NEAREST_MAX: usize = 12;
    /// Maximum pairs reported for one item.
    const PAIRS_EACH_MAX: usize = 5;
    /// Maximum items selected for a topic.
    const TOPIC_ITEMS_MAX: usize = 200;
    /// Maximum items selected for a topic by vector, if no item has its words.
    const TOPIC_NEAREST_MAX: usize = 20;
}

/// Minimum score of an item about a topic, as a share of the best score. Items below share only a common word with the
/// topic.
const TOPIC_SHARE_MIN: f32 = 0.5;

args! {
    struct Scan {
        topic: Option<Text<1, 1024>> => "Only items about this.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: NAME,
    title: "Find contradictions",
    about: "Pairs of current items that speak of the same and differ in a negation, number, date or value; for \
            cleaning up. Finds what rules can tell, not every contradiction.",
    shape: Scan::shape,
    results: &[
        always("pairs", Kind::List).says(
            "one and other (id, kind, title, text, recorded_at; one is the newer), why (negation, number, date, \
             value), says (what each says there), score.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| scan(context, raw),
    example: r#"{"topic": "beacon"}"#,
};

fn scan(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Scan::parse(raw)?;
    let paging = Paging::of(NAME, raw, wanted.cursor.as_ref())?;
    let view = context.view();
    let snapshot = &view.snapshot;
    let all = Filter { current_only: true, mask: snapshot.hidden()?, ..Filter::default() };
    let mut among = all.clone();
    let mut cut = false;
    if let Some(Text(topic)) = &wanted.topic {
        let about = about(context, &view, topic, &all)?;
        cut = about.len() == TOPIC_ITEMS_MAX;
        among.allowlist = Some(Arc::new(snapshot.item_set(&about)));
    }
    let mut page = Page { left_out: cut, ..Page::default() };
    let next_cursor = walk(snapshot, &paging, &among, |place| {
        if page.rows.len() + PAIRS_EACH_MAX > ROWS_MAX {
            return Ok(Step::Full);
        }
        add(&mut page, context, snapshot, place, &all)?;
        Ok(Step::Taken)
    })?;
    let bounds = json!({
        "items": ITEMS_MAX, "rows": ROWS_MAX, "pairs_of_an_item": PAIRS_EACH_MAX,
        "items_of_a_topic": TOPIC_ITEMS_MAX,
    });
    Ok(page.into_answer("pairs", "No contradictions found here.", next_cursor, bounds))
}

/// Items on a topic by full-text search, with at least half of the best score; the nearest by vector if full-text
/// search finds none.
fn about(
    context: &ToolContext<'_>,
    view: &View<AccessView<'_>>,
    topic: &str,
    all: &Filter,
) -> Result<Vec<RowAddress>, SearchError> {
    let mut hits = view.snapshot.search_words(topic, TOPIC_ITEMS_MAX, all)?;
    let least = hits.first().map_or(0.0, |best| best.score * TOPIC_SHARE_MIN);
    hits.retain(|hit| hit.score >= least);
    let hits = match hits.is_empty() {
        false => hits,
        true => {
            let kernels = &context.services.encoding.kernels;
            view.snapshot.nearest(kernels, &view.embedder.embed(topic), TOPIC_NEAREST_MAX, all)?
        }
    };
    Ok(hits.into_iter().map(|hit| hit.address).collect())
}

/// Compares an item with its nearest neighbours that come after it in list order, so each pair is found once.
fn add(
    page: &mut Page,
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    place: RowAddress,
    all: &Filter,
) -> Result<(), ServiceError> {
    let item = snapshot.item(place)?;
    if !says_something(&item) {
        return Ok(());
    }
    let prose = Prose::of(item.title, item.text);
    let mut told = 0;
    for (near, cosine) in nearest(context, snapshot, (place, &item), NEAREST_MAX, all)? {
        snapshot.check_cancelled()?;
        let other = snapshot.item(near)?;
        let is_met_later =
            !comes_behind((other.recorded_at, other.id), (item.recorded_at, item.id));
        if is_met_later || !says_something(&other) || !may_conflict(&item, &other) {
            continue;
        }
        let found = difference(&prose, &Prose::of(other.title, other.text), cosine);
        let Some((found, score)) = found else { continue };
        if told == PAIRS_EACH_MAX {
            page.left_out = true;
            break;
        }
        told += 1;
        tell(page, &item, &other, &found, score);
        page.touched.push(seen_at(snapshot, place)?);
        page.touched.push(seen_at(snapshot, near)?);
    }
    Ok(())
}

fn tell(
    page: &mut Page,
    item: &ItemView<'_>,
    other: &ItemView<'_>,
    found: &Difference,
    score: f32,
) {
    let (one, two) = (names::of_item(item), names::of_item(other));
    let why = found.kind.name();
    page.text
        .push_str(&format!("{one} and {two}: {why}: {} against {}\n", found.claimed, found.known));
    page.rows.push(json!({
        "one": ComparedFacts::with_text(item), "other": ComparedFacts::with_text(other),
        "why": why, "says": [found.claimed, found.known],
        "score": show::score(score),
    }));
}

/// Returns true if both items can be valid at one time and neither supersedes the other.
fn may_conflict(one: &ItemView<'_>, other: &ItemView<'_>) -> bool {
    let ends_before = |one: &ItemView<'_>, other: &ItemView<'_>| {
        one.valid_to.is_some_and(|to| other.valid_from.is_some_and(|from| to <= from))
    };
    let replaces = |one: &ItemView<'_>, other: &ItemView<'_>| one.supersedes.contains(&other.id);
    !ends_before(one, other)
        && !ends_before(other, one)
        && !replaces(one, other)
        && !replaces(other, one)
}
