//! `recall_staleness_check_tool`: rechecks recalled items, selected by id, by grounding token or by age.
//!
//! This module parses the arguments and orders the answer. `standing` checks one item.

mod standing;

use std::cmp::Reverse;

use engine::{Filter, ItemId, Micros, RowAddress, TopK};
use serde_json::{Map, Value, json};

use recalld_audit::{Grounded, check, tenant_hash};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_recall::{AccessView, Room};
use recalld_tool_framework::args::{Argument, Id, Int, List, Shown, Text, args};
use recalld_tool_framework::paging::{Cursor, PAGE_BYTES_MAX, Paging, ROWS_MAX, Row, not_ours};
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};
use standing::{AskedItem, Judge, Standing};

const NAME: &str = "recall_staleness_check_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [standing];

    /// Maximum ids or tokens of a call.
    const ASKED_MAX: usize = 100;
    /// Maximum characters of a token argument; a valid token is shorter.
    const TOKEN_CHARS_MAX: usize = 512;
    /// Maximum age in days: a hundred years.
    const DAYS_MAX: i64 = 36_525;
}

const DAY_MICROS: i64 = 86_400 * 1_000_000;

/// An item id, with its text in the argument.
struct Given {
    text: String,
    id: ItemId,
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Argument for Given {
    fn schema() -> Value {
        Id::schema()
    }

    fn read(value: &Value) -> Result<Self, String> {
        let Id(id) = Id::read(value)?;
        Ok(Self { text: value.as_str().unwrap_or_default().to_owned(), id })
    }
}

impl Shown for Given {
    fn shown(&self) -> Option<Value> {
        None
    }
}

args! {
    struct Asked {
        item_ids: Option<List<Given, 1, ASKED_MAX>> => "These; or give tokens.",
        grounding_tokens: Option<List<Text<1, TOKEN_CHARS_MAX>, 1, ASKED_MAX>> => "As recall gave them; or give days.",
        older_than_days: Option<Int<1, DAYS_MAX>> => "All that stands and is as old.",
        cursor: Option<Cursor> => "With older_than_days: next_cursor of the page before.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: NAME,
    title: "Check staleness",
    about: "Whether items recalled earlier still stand, and what is there now; files are compared with what was read \
            of them. Ask before you act on something old. Not for whether it is true: brain_verify_claims_tool.",
    shape: Asked::shape,
    results: &[
        always("items", Kind::List).says(
            "In the order given, else the oldest first: id as it was given, grounding_token, status (fresh, \
             superseded, tombstoned, expired, source_changed, source_missing, unknown), why, and now: what is there.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::BrainProxy),
    change: Change::Nothing,
    core: false,
    run: |context, raw| checked(context, raw),
    example: r#"{"item_ids": ["itm_00000000000000000000000001", "doc_00000000000000000000000004"]}"#,
};

fn checked(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let asked = Asked::parse(raw)?;
    let snapshot = context.snapshot();
    let mut judge = Judge::new(context, &snapshot);
    if asked.cursor.is_some() && asked.older_than_days.is_none() {
        let why = "goes on with older_than_days alone; leave it out";
        return Err(ServiceError::argument("cursor", why));
    }
    match (asked.item_ids, asked.grounding_tokens, asked.older_than_days) {
        (Some(List(ids)), None, None) => of_all(ids.iter().map(|given| {
            let standing = judge.by_id(given.id, None)?;
            Ok((AskedItem { id: Some(given.text.clone()), ..AskedItem::default() }, standing))
        })),
        (None, Some(List(tokens)), None) => {
            of_all(tokens.iter().map(|token| by_token(context, &mut judge, &token.0)))
        }
        (None, None, Some(Int(days))) => {
            let paging = Paging::of(NAME, raw, asked.cursor.as_ref())?;
            older(context, &snapshot, &paging, days, judge)
        }
        _ => {
            let why = "give item_ids, grounding_tokens or older_than_days, one of the three";
            Err(ServiceError::argument("item_ids", why))
        }
    }
}

/// Resolves a token to its item and checks the item.
fn by_token(
    context: &ToolContext<'_>,
    judge: &mut Judge<'_>,
    token: &str,
) -> Result<(AskedItem, Standing), ServiceError> {
    let tenant = tenant_hash(&context.workspace.name);
    let asked = AskedItem { id: None, grounding_token: Some(token.to_owned()) };
    let Grounded { item, content, .. } =
        match check(token, &context.workspace.signer.verifier(), &tenant) {
            Ok(grounded) => grounded,
            Err(fault) => return Ok((asked, Standing::unknown(&fault.to_string()))),
        };
    let id = ItemId(u128::from_le_bytes(item));
    let standing = judge.by_id(id, Some(content))?;
    Ok((AskedItem { id: standing.name.clone(), ..asked }, standing))
}

/// Answer for the requested items, in request order.
fn of_all(
    judged: impl Iterator<Item = Result<(AskedItem, Standing), ServiceError>>,
) -> Result<Answer, ServiceError> {
    let mut room = Room::of(PAGE_BYTES_MAX);
    let mut answer = Answer::plain(Value::Null, String::new());
    let mut rows = Vec::new();
    for one in judged {
        let (asked, standing) = one?;
        let (row, line) = standing.shown(asked);
        if room.takes(&row) {
            answer.text.push_str(&line);
            rows.push(json!(row));
        }
        answer.touched.extend(standing.touched);
    }
    answer.structured = json!({"items": rows, "truncated": room.is_over()});
    if room.is_over() {
        answer.structured["bounds"] = json!({"bytes": PAGE_BYTES_MAX});
    }
    Ok(answer)
}

/// A page of current items recorded at least `days` days ago, oldest first.
fn older(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    paging: &Paging,
    days: i64,
    mut judge: Judge<'_>,
) -> Result<Answer, ServiceError> {
    let until =
        Micros(context.services.clock.now().0.saturating_sub(days.saturating_mul(DAY_MICROS)));
    let filter = Filter { current_only: true, mask: snapshot.hidden()?, ..Filter::default() };
    let after = match paging.after::<(i64, String)>()? {
        Some((at, id)) => Some((Micros(at), id.parse::<ItemId>().map_err(|_| not_ours())?)),
        None => None,
    };
    let mut top: TopK<Reverse<Micros>, (ItemId, RowAddress)> = TopK::new(ROWS_MAX + 1);
    snapshot.for_each_admitted(&filter, |at, place| {
        if at <= until {
            let key = (snapshot.id(place)?, place);
            let is_later = after.is_none_or(|after| (at, key.0) > after);
            if is_later && top.would_accept(Reverse(at), &key) {
                top.offer(Reverse(at), key);
            }
        }
        Ok::<(), ServiceError>(())
    })?;
    let rows = top.into_sorted().into_iter().map(|(Reverse(at), (id, _))| {
        let standing = judge.by_id(id, None)?;
        let name = standing.name.clone().unwrap_or_else(|| names::item("", id));
        let asked = AskedItem { id: Some(name), ..AskedItem::default() };
        let (row, line) = standing.shown(asked);
        Ok(Row::new((at.0, id.to_string()), json!(row), line).touching(standing.touched))
    });
    Ok(paging.page(rows)?.into_answer("items", "Nothing that stands is as old."))
}
