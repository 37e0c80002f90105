//! `sensitivity_events_tool`: items withheld, redacted, raised, lowered or erased.

use engine::ledger::{Effect, Entry, TouchedItem};
use serde_json::{Map, Value, json};

use super::entries::{self, Period};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_tool_framework::args::{Time, args};
use recalld_tool_framework::paging::{Cursor, Paging, ROWS_MAX, Row};
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const EVENTS: &str = "sensitivity_events_tool";

args! {
    struct Wanted {
        from: Option<Time> => "From then on.",
        to: Option<Time> => "Before then.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: EVENTS,
    title: "Sensitivity events",
    about: "Items that policy withheld or redacted, or that were raised, lowered or erased; newest first.",
    shape: Wanted::shape,
    results: &[
        always("events", Kind::List).says(
            "at, item_id, what (withheld, redacted, raised, lowered, erased), rule, principal, tool, seq. Of a \
             call that touched more than 64 items the first are listed.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::AuditRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| events(context, raw),
    example: r#"{"from": "2026-01-01T00:00:00Z"}"#,
};

/// Position of an event: sequence number of the entry, and index among its items.
type At = (u64, usize);

fn events(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Wanted::parse(raw)?;
    let paging = Paging::of(EVENTS, raw, wanted.cursor.as_ref())?;
    let period = Period::of(wanted.from.map(|at| at.0), wanted.to.map(|at| at.0))?;
    let after = paging.after::<At>()?;
    let is_later = |seq: u64, place: usize| {
        after.is_none_or(|(last, given)| seq < last || seq == last && place > given)
    };
    let of = |entry: &Entry| -> Vec<(usize, TouchedItem)> {
        if !period.has(entries::at(entry)) {
            return Vec::new();
        }
        let placed = entry.touched.iter().copied().enumerate();
        let events =
            placed.filter(|(_, one)| !matches!(one.effect, Effect::Read | Effect::Written));
        events.filter(|(place, _)| is_later(entry.seq, *place)).collect()
    };
    let up_to = after.map_or(u64::MAX, |(last, _)| last);
    let found = entries::newest(context, (up_to, entries::WINDOWS_MAX), ROWS_MAX + 1, |entry| {
        of(entry).len()
    })?;
    let listed = found.entries.iter().flat_map(|entry| {
        of(entry).into_iter().map(move |(place, one)| Ok(row(entry, place, one)))
    });
    let mut page = paging.page(listed)?;
    if let (None, Some(looked_to)) = (&page.next_cursor, found.looked_to) {
        page.next_cursor = Some(paging.cursor(&(looked_to, usize::MAX)));
    }
    Ok(page.into_answer("events", "No such events."))
}

fn row(entry: &Entry, place: usize, one: TouchedItem) -> Row<(u64, usize)> {
    let (at, id) = (names::time(entries::at(entry)), entries::item_name(one.item));
    let (what, Entry { rule, principal, .. }) = (one.effect.word(), entry);
    let line = format!("{at} {id} {what} by {rule} for {principal}\n");
    let shown = json!({
        "at": at, "item_id": id, "what": what, "rule": rule, "principal": principal,
        "tool": entry.tool, "seq": entry.seq,
    });
    Row::new((entry.seq, place), shown, line)
}
