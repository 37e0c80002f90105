//! `item_timeline_tool`: events of an item, or of the items found by a query, in order of time.
//!
//! Events are derived on each call from the recording times of items, edges and tombstones, and from ledger entries of
//! verifications. Nothing is stored for the timeline.

use std::collections::HashMap;

use engine::{EdgeFilter, Filter, ItemId, Micros, RowAddress, Status};
use serde_json::{Map, Value, json};

use super::found::find_ever;
use crate::verify::entries;
use crate::verify::entries::Period;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::Action;
use recalld_recall::{AccessView, show};
use recalld_tool_framework::args::{Id, Text, Time, args};
use recalld_tool_framework::paging::{Cursor, Paging, Row};
use recalld_tool_framework::reading::seen;
use recalld_tool_framework::results::{
    BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always, without_nulls,
};
use recalld_tool_framework::{ANSWER_KIND, Answer, Change, ServiceError, Tool, ToolContext};

const TIMELINE: &str = "item_timeline_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum items found by a query: the best.
    const FOUND_MAX: usize = 50;
    /// Maximum versions of an item whose events are listed: the newest.
    const TOLD_VERSIONS_MAX: usize = 200;
    /// Maximum edges listed per item: the strongest.
    const EDGES_MAX: usize = 100;
    /// Maximum verifications listed: the last.
    const VERIFIED_MAX: usize = 1_000;
    /// Maximum ledger windows searched for verifications, from the newest entry on. Without this bound, an item that
    /// was never verified would cause a scan of the whole ledger.
    const LEDGER_WINDOWS_MAX: usize = 2;
}

/// Tools whose calls count as verifications.
const VERIFIERS: [&str; 2] = ["brain_verify_claims_tool", "recall_staleness_check_tool"];

args! {
    struct Timeline {
        item_id: Option<Id> => "The item, with all its versions.",
        query: Option<Text<1, 4096>> => "Or words of items.",
        from: Option<Time> => "From then on.",
        to: Option<Time> => "Before then.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: TIMELINE,
    title: "Timeline",
    about: "What happened to an item, or to items with these words, oldest first: created, superseded, \
            tombstoned, linked, verified. Give item_id or query.",
    shape: Timeline::shape,
    results: &[
        always("events", Kind::List).says(
            "at, what, item {id, kind, title, status}, by; of superseded and linked also with (the other item's id), \
             of linked the relation. Verified: by you, or by anyone where you hold audit:read.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| timeline(context, raw),
    example: r#"{"item_id": "itm_00000000000000000000000001"}"#,
};

/// Sort key of an event: time in microseconds since 1970, and a key unique within that time.
type At = (i64, String);

struct Event {
    at: Micros,
    what: &'static str,
    place: RowAddress,
    by: String,
    /// The other item, with its row address and the relation.
    with: Option<(ItemId, RowAddress, String)>,
    /// Unique among events of one time.
    key: String,
}

fn timeline(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Timeline::parse(raw)?;
    let paging = Paging::of(TIMELINE, raw, wanted.cursor.as_ref())?;
    let period = Period::of(wanted.from.map(|at| at.0), wanted.to.map(|at| at.0))?;
    let snapshot = context.snapshot();
    let (places, is_cut) = places(&snapshot, (wanted.item_id, wanted.query))?;
    let mut told = Told { context, snapshot: &snapshot, events: Vec::new(), is_cut };
    for place in &places {
        snapshot.check_cancelled()?;
        told.stored(*place)?;
    }
    told.verified(&places)?;
    let Told { mut events, is_cut, .. } = told;
    let after = paging.after::<At>()?;
    events.retain(|event| {
        let is_later =
            after.as_ref().is_none_or(|after| (event.at.0, &event.key) > (after.0, &after.1));
        is_later && period.has(event.at)
    });
    events.sort_by(|a, b| (a.at, &a.key).cmp(&(b.at, &b.key)));
    let rows = events.into_iter().map(|event| {
        let mut told = Answer::plain(Value::Null, String::new());
        let row = shown(&snapshot, &event, &mut told)?;
        Ok(Row::new((event.at.0, event.key), row, told.text).touching(told.touched))
    });
    let mut answer = paging.page(rows)?.into_answer("events", "Nothing happened.");
    if is_cut {
        answer.structured["truncated"] = true.into();
        answer.structured["bounds"] = json!({
            "items": FOUND_MAX, "versions": TOLD_VERSIONS_MAX, "edges": EDGES_MAX, "verified": VERIFIED_MAX,
            "ledger_entries": entries::WINDOW_ENTRIES_MAX * LEDGER_WINDOWS_MAX as u64,
        });
    }
    Ok(answer)
}

/// Items whose events are listed; the flag is true if there are more.
fn places(
    snapshot: &AccessView<'_>,
    wanted: (Option<Id>, Option<Text<1, 4096>>),
) -> Result<(Vec<RowAddress>, bool), ServiceError> {
    match wanted {
        (Some(Id(id)), None) => of_chain(snapshot, id),
        (None, Some(Text(query))) => {
            let hidden = snapshot.hidden()?;
            let filter = Filter { mask: hidden, ..Filter::default() };
            let hits = snapshot.search_words(&query, FOUND_MAX + 1, &filter)?;
            let is_cut = hits.len() > FOUND_MAX;
            Ok((hits.into_iter().take(FOUND_MAX).map(|hit| hit.address).collect(), is_cut))
        }
        (None, None) => {
            Err(ServiceError::argument("item_id", "is missing; item_id or query is wanted"))
        }
        (Some(_), Some(_)) => {
            let why = "is given together with item_id; one of them is wanted";
            Err(ServiceError::argument("query", why))
        }
    }
}

fn of_chain(
    snapshot: &AccessView<'_>,
    id: ItemId,
) -> Result<(Vec<RowAddress>, bool), ServiceError> {
    find_ever(snapshot, id)?;
    let chain = snapshot.chain(id)?;
    let mut places = Vec::new();
    for place in chain.members.iter().rev().filter_map(|member| member.address) {
        snapshot.check_cancelled()?;
        if !may_know(snapshot, place)? {
            continue;
        }
        if places.len() == TOLD_VERSIONS_MAX {
            return Ok((places, true));
        }
        places.push(place);
    }
    Ok((places, chain.truncated))
}

/// Returns true if the caller may know of the item; always false for stored responses.
fn may_know(snapshot: &AccessView<'_>, place: RowAddress) -> Result<bool, ServiceError> {
    let item = snapshot.item(place)?;
    Ok(item.kind != ANSWER_KIND && snapshot.may_know(&item))
}

struct Told<'a> {
    context: &'a ToolContext<'a>,
    snapshot: &'a AccessView<'a>,
    events: Vec<Event>,
    is_cut: bool,
}

impl Told<'_> {
    fn add(
        &mut self,
        (at, what, by): (Micros, &'static str, &str),
        (place, id): (RowAddress, ItemId),
        with: Option<(ItemId, RowAddress, String)>,
        tag: &str,
    ) {
        let key = format!("{what} {id} {tag}");
        self.events.push(Event { at, what, place, by: by.to_owned(), with, key });
    }

    /// Adds the events recorded in the store.
    fn stored(&mut self, place: RowAddress) -> Result<(), ServiceError> {
        let snapshot = self.snapshot;
        let item = snapshot.item(place)?;
        let own = (place, item.id);
        self.add((item.recorded_at, "created", item.recorded_by), own, None, "");
        for newer in snapshot.direct_successors(item.id)? {
            if may_know(snapshot, newer)? {
                let by = snapshot.item(newer)?;
                let with = Some((by.id, newer, String::new()));
                let tag = by.id.to_string();
                self.add((by.recorded_at, "superseded", by.recorded_by), own, with, &tag);
            }
        }
        for (n, stone) in snapshot.tombstones(item.id.0)?.into_iter().enumerate() {
            self.add((stone.at, "tombstoned", stone.by), own, None, &n.to_string());
        }
        if snapshot.status(place)? == Status::Tombstoned {
            return Ok(());
        }
        let which = EdgeFilter { mask: snapshot.hidden()?, ..EdgeFilter::default() };
        let linked = snapshot.neighbours(item.id, EDGES_MAX + 1, &which)?;
        self.is_cut |= linked.len() > EDGES_MAX;
        for one in linked.into_iter().take(EDGES_MAX) {
            let edge = &one.edge;
            let far = if edge.from == item.id { edge.to } else { edge.from };
            let with = Some((far, one.address, edge.relation.to_owned()));
            let tag = format!("{} {}", edge.id, one.direction.name());
            self.add((edge.recorded_at, "linked", edge.recorded_by), own, with, &tag);
        }
        Ok(())
    }

    /// Adds the verifications recorded in the ledger.
    fn verified(&mut self, places: &[RowAddress]) -> Result<(), ServiceError> {
        let (context, snapshot) = (self.context, self.snapshot);
        let mut of: HashMap<[u8; 16], (RowAddress, ItemId)> = HashMap::new();
        for place in places {
            let id = snapshot.id(*place)?;
            of.insert(id.0.to_le_bytes(), (*place, id));
        }
        let is_auditor = entries::is_auditor(context);
        let newest = (u64::MAX, LEDGER_WINDOWS_MAX);
        let found = entries::newest(context, newest, VERIFIED_MAX + 1, |entry| {
            let is_wanted = VERIFIERS.contains(&&*entry.tool)
                && (is_auditor || entries::is_own(context, entry));
            let items = entry.touched.iter().filter(|one| of.contains_key(&one.item));
            if is_wanted { items.count() } else { 0 }
        })?;
        let mut left = VERIFIED_MAX;
        for entry in &found.entries {
            let mut items: Vec<_> =
                entry.touched.iter().filter_map(|one| of.get(&one.item)).collect();
            items.dedup();
            for own in items {
                if left == 0 {
                    self.is_cut = true;
                    return Ok(());
                }
                left -= 1;
                let at = (entries::at(entry), "verified", &*entry.principal);
                self.add(at, *own, None, &format!("{:020}", entry.seq));
            }
        }
        self.is_cut |= found.looked_to.is_some();
        Ok(())
    }
}

/// JSON of an event, as far as policy allows.
fn shown(
    snapshot: &AccessView<'_>,
    event: &Event,
    answer: &mut Answer,
) -> Result<Value, ServiceError> {
    let item = snapshot.item(event.place)?;
    let verdict = snapshot.judge(&item, Action::Read).0;
    answer.touched.push(seen(item.id, verdict));
    let status = snapshot.status(event.place)?;
    // A tombstoned item is known by its id only; its title is not shown.
    let title = (status != Status::Tombstoned).then(|| show::title(&item, verdict));
    let (with, relation) = match &event.with {
        Some((id, place, relation)) => {
            let name = names::item(snapshot.kind(*place)?, *id);
            (Some(name), (!relation.is_empty()).then_some(relation))
        }
        None => (None, None),
    };
    let row = without_nulls(json!({
        "at": names::time(event.at), "what": event.what, "by": event.by,
        "item": without_nulls(json!({
            "id": names::of_item(&item), "kind": item.kind, "title": title,
            "status": status.name(),
        })),
        "with": with, "relation": relation,
    }));
    answer.text.push_str(&format!(
        "{} {} {}: {}\n",
        names::time(event.at),
        event.what,
        names::of_item(&item),
        title.unwrap_or_default(),
    ));
    Ok(row)
}
