//! Duplicate scan: groups of near-duplicate current items, each with the item to retain.
//!
//! Each item is compared with its nearest neighbours, which bounds the work of a page. `recalld_recall::Twin` computes
//! the similarity.
//!
//! A group is led by its oldest item: an item without an older near-duplicate. Every other item belongs to its oldest
//! near-duplicate, if that item leads a group. Both rules depend only on the neighbours of the item. So the groups are
//! equal on every page, and no item is in two groups.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

use engine::{EdgeFilter, Filter, ItemId, ItemView, Micros, RowAddress};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::beside::{ComparedFacts, nearest, says_something};
use super::pages::{ITEMS_MAX, Page, Step, comes_behind, walk};
use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::own_kinds::CHUNK;
use recalld_common::scope::Scope;
use recalld_recall::{AccessView, Likeness, Room, Same, Twin, show};
use recalld_tool_framework::args::{Real, args};
use recalld_tool_framework::paging::{Cursor, PAGE_BYTES_MAX, Paging, ROWS_MAX};
use recalld_tool_framework::reading::seen_at;
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "duplicate_scan_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum neighbours by words, and by vector, compared with an item.
    const NEAREST_MAX: usize = 24;
    /// Maximum items per page whose neighbours are computed: the items of the page, and the members of their groups.
    const LOOKS_MAX: usize = 128;
    /// Maximum items of a group.
    const MEMBERS_MAX: usize = 20;
    /// Maximum counted edges of an item.
    const EDGES_COUNTED_MAX: usize = 64;
}

args! {
    struct Scan {
        threshold: Real<500, 1000> = Real(0.95) => "How alike, from 0.5 to 1, the same words.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: NAME,
    title: "Find duplicates",
    about: "Groups of near-identical current items, each with the one to keep and why; for cleaning up. Nothing is \
            changed. Texts that differ in a number, date, name or negation are no duplicates.",
    shape: Scan::shape,
    results: &[
        always("groups", Kind::List).says(
            "keep (id, kind, title, text, recorded_at), why, others (id, kind, title, recorded_at, score beside the \
             one to keep, same: text, words or most words, differs: words here and kept).",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| scan(context, raw),
    example: r#"{"threshold": 0.9}"#,
};

fn scan(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Scan::parse(raw)?;
    let paging = Paging::of(NAME, raw, wanted.cursor.as_ref())?;
    let snapshot = context.snapshot();
    let all = Filter { current_only: true, mask: snapshot.hidden()?, ..Filter::default() };
    let mut looking = Looking {
        context,
        snapshot: &snapshot,
        all: &all,
        least: least(wanted.threshold.0),
        known: HashMap::new(),
    };
    let mut page = Page::default();
    let mut room = Room::of(PAGE_BYTES_MAX);
    let next_cursor = walk(&snapshot, &paging, &all, |place| {
        if page.rows.len() == ROWS_MAX || looking.known.len() >= LOOKS_MAX {
            return Ok(Step::Full);
        }
        let Some(group) = looking.group_of(place)? else { return Ok(Step::Taken) };
        let row = group.facts();
        // A group larger than a page gets a page of its own.
        if !room.takes(&row) && !page.rows.is_empty() {
            return Ok(Step::Full);
        }
        add(&mut page, &looking, &group, json!(row))?;
        Ok(Step::Taken)
    })?;
    let bounds = json!({
        "items": ITEMS_MAX, "rows": ROWS_MAX, "bytes": PAGE_BYTES_MAX,
        "items_of_a_group": MEMBERS_MAX,
    });
    Ok(page.into_answer("groups", "No duplicates found here.", next_cursor, bounds))
}

fn add(
    page: &mut Page,
    looking: &Looking<'_, '_>,
    group: &Group<'_>,
    row: Value,
) -> Result<(), ServiceError> {
    let kept = &group.members[0];
    page.text.push_str(&format!("Keep {}: {}\n", names::of_item(&kept.item), group.why));
    for (other, likeness) in group.others() {
        let (id, score) = (names::of_item(&other.item), show::score(likeness.score));
        page.text.push_str(&format!("  {id}: {score}, the same {}\n", likeness.same.name()));
    }
    for member in &group.members {
        page.touched.push(seen_at(looking.snapshot, member.place)?);
    }
    page.left_out |= group.left_out;
    page.rows.push(row);
    Ok(())
}

/// An item similar to another item.
#[derive(Debug, Clone, Copy)]
struct Near {
    place: RowAddress,
    /// Position in the order by age.
    turn: (Micros, ItemId),
    score: f32,
}

/// Finds similar items and caches them per item.
struct Looking<'a, 's> {
    context: &'a ToolContext<'a>,
    snapshot: &'s AccessView<'a>,
    all: &'a Filter,
    /// Minimum similarity of two near-duplicates.
    least: f32,
    known: HashMap<RowAddress, Rc<[Near]>>,
}

impl<'s> Looking<'_, 's> {
    /// Items similar to an item, oldest first.
    fn near(&mut self, place: RowAddress) -> Result<Rc<[Near]>, ServiceError> {
        if let Some(near) = self.known.get(&place) {
            return Ok(Rc::clone(near));
        }
        let item = self.snapshot.item(place)?;
        let mut near = Vec::new();
        if says_something(&item) {
            let twin = Twin::of(self.snapshot, place)?;
            let beside =
                nearest(self.context, self.snapshot, (place, &item), NEAREST_MAX, self.all)?;
            for (other, _) in beside {
                self.snapshot.check_cancelled()?;
                let found = self.snapshot.item(other)?;
                if !says_something(&found) {
                    continue;
                }
                let likeness = twin.likeness(&Twin::of(self.snapshot, other)?);
                if let Some(likeness) = likeness.filter(|likeness| likeness.score >= self.least) {
                    let turn = (found.recorded_at, found.id);
                    near.push(Near { place: other, turn, score: likeness.score });
                }
            }
        }
        near.sort_by_key(|near| near.turn);
        let near: Rc<[Near]> = near.into();
        self.known.insert(place, Rc::clone(&near));
        Ok(near)
    }

    /// The group led by an item; `None` if the item leads none.
    fn group_of(&mut self, place: RowAddress) -> Result<Option<Group<'s>>, ServiceError> {
        let item = self.snapshot.item(place)?;
        let mut near = self.near(place)?.to_vec();
        let is_behind = |near: &Near| comes_behind(near.turn, (item.recorded_at, item.id));
        if near.is_empty() || near.iter().any(is_behind) {
            return Ok(None);
        }
        // Most similar first: a new member must be similar to all present members.
        near.sort_by(|one, other| {
            other.score.total_cmp(&one.score).then(one.turn.cmp(&other.turn))
        });
        let mut members = vec![Member::of(self, place)?];
        let mut left_out = false;
        for other in near {
            self.snapshot.check_cancelled()?;
            if members.len() == MEMBERS_MAX {
                left_out = true;
                break;
            }
            let oldest = self.near(other.place)?.first().map(|oldest| oldest.place);
            if oldest != Some(place) {
                continue;
            }
            let member = Member::of(self, other.place)?;
            let likeness = members.iter().map(|one| one.twin.likeness(&member.twin));
            if likeness.into_iter().all(|found| found.is_some_and(|it| it.score >= self.least)) {
                members.push(member);
            }
        }
        Ok((members.len() > 1).then(|| Group::of(members, left_out)))
    }
}

struct Member<'s> {
    place: RowAddress,
    item: ItemView<'s>,
    twin: Twin<'s>,
    merit: Merit,
}

/// Sort key for the item to retain; fields compare in order of declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Merit {
    /// True for a chunk of a file: a new ingest of the file would store the chunk again.
    is_piece: bool,
    edges: usize,
    has_source: bool,
    words: usize,
    turn: (Micros, ItemId),
}

impl<'s> Member<'s> {
    fn of(looking: &Looking<'_, 's>, place: RowAddress) -> Result<Self, ServiceError> {
        let snapshot = looking.snapshot;
        let item = snapshot.item(place)?;
        let which = EdgeFilter { mask: looking.all.mask.clone(), ..EdgeFilter::default() };
        let merit = Merit {
            is_piece: item.kind == CHUNK,
            edges: snapshot.neighbours(item.id, EDGES_COUNTED_MAX, &which)?.len(),
            has_source: item.source.is_some(),
            words: item.text.split_whitespace().count(),
            turn: (item.recorded_at, item.id),
        };
        Ok(Self { place, item, twin: Twin::of(snapshot, place)?, merit })
    }
}

/// Near-duplicates, the item to retain first.
struct Group<'s> {
    members: Vec<Member<'s>>,
    /// Reason for retaining the first item.
    why: String,
    /// True if the group has more members.
    left_out: bool,
}

impl<'s> Group<'s> {
    fn of(mut members: Vec<Member<'s>>, left_out: bool) -> Self {
        members.sort_by_key(|member| Reverse(member.merit));
        let why = why(members[0].merit, members[1].merit);
        Self { members, why, left_out }
    }

    /// All members but the item to retain, with their similarity to it.
    fn others(&self) -> impl Iterator<Item = (&Member<'s>, Likeness)> {
        let kept = &self.members[0].twin;
        let others = self.members[1..].iter();
        others.filter_map(move |other| Some((other, other.twin.likeness(kept)?)))
    }

    fn facts(&self) -> GroupFacts<'_> {
        let others = self.others().map(|(other, likeness)| {
            let [here, kept] = likeness.differs;
            let differs = (likeness.same == Same::MostWords).then_some(Differing { here, kept });
            OtherFacts {
                item: ComparedFacts::without_text(&other.item),
                score: show::score(likeness.score),
                same: likeness.same.name(),
                differs,
            }
        });
        GroupFacts {
            keep: ComparedFacts::with_text(&self.members[0].item),
            why: &self.why,
            others: others.collect(),
        }
    }
}

/// A group in an answer.
#[derive(Debug, Serialize)]
struct GroupFacts<'g> {
    keep: ComparedFacts<'g>,
    why: &'g str,
    others: Vec<OtherFacts<'g>>,
}

/// A near-duplicate of the item to retain.
#[derive(Debug, Serialize)]
struct OtherFacts<'g> {
    #[serde(flatten)]
    item: ComparedFacts<'g>,
    score: Value,
    same: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    differs: Option<Differing>,
}

/// Words in which two near-duplicates differ.
#[derive(Debug, Serialize)]
struct Differing {
    here: Vec<String>,
    kept: Vec<String>,
}

/// Reason for retaining the first item: its first advantage over the second-best item.
fn why(kept: Merit, second: Merit) -> String {
    if kept.is_piece != second.is_piece {
        return "it is a piece of a file, which would bring it again".to_owned();
    }
    if kept.edges != second.edges {
        return format!("it has more edges: {}, the next one {}", kept.edges, second.edges);
    }
    if kept.has_source != second.has_source {
        return "it has a source".to_owned();
    }
    if kept.words != second.words {
        let words = counted(kept.words, "word");
        return format!("it says more: {words}, the next one {}", second.words);
    }
    if kept.turn.0 != second.turn.0 {
        return "it is the newest".to_owned();
    }
    "nothing tells them apart".to_owned()
}

/// Converts the threshold to `f32`, the precision of scores, so that a score shown as the threshold reaches it.
fn least(threshold: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "it is from 0.5 to 1")]
    let least = threshold as f32;
    least
}
