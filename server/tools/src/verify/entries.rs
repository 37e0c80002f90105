//! Entries of the workspace's ledger, as tools read them: looked through from the newest on, and shown.
//!
//! A ledger is read forwards alone, so it is looked through in windows, the newest first. How many of them a call
//! may look at is bounded; where that is not enough, a list goes on with the next call.

use std::collections::VecDeque;

use engine::ledger::{Entry, ReadError, Reader};
use engine::{ItemId, Micros, hex};
use serde_json::{Value, json};

use recalld_common::names;
use recalld_tool_framework::{Context, ServiceError};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Entries of a window: some tenth of a second.
    pub(crate) const WINDOW_ENTRIES_MAX: u64 = 65_536;
    /// Windows that one call looks through, where the ledger is what it is about.
    pub(crate) const WINDOWS_MAX: usize = 16;
}

/// Entries that are read between two looks at whether the answer is still wanted.
const ENTRIES_TOGETHER: usize = 1_024;

/// What was found.
pub(crate) struct Found {
    /// The newest first.
    pub(crate) entries: Vec<Entry>,
    /// All entries from here on were looked at; `None` where those are all there are.
    pub(crate) looked_to: Option<u64>,
}

/// The newest entries up to `up_to` that are wanted, until they come to `enough` rows or `windows` were looked
/// through. `weigh` says how many rows an entry comes to: none, where it is not wanted.
///
/// # Errors
/// The ledger cannot be read, or the call is over.
pub(crate) fn newest(
    context: &Context<'_>,
    (up_to, windows): (u64, usize),
    enough: usize,
    weigh: impl Fn(&Entry) -> usize,
) -> Result<Found, ServiceError> {
    let audit = &context.workspace.audit;
    let reader = audit.reader().map_err(ServiceError::Unaudited)?;
    let (head, _) = audit.progress();
    let mut end = head.min(up_to);
    let mut found = Found { entries: Vec::new(), looked_to: None };
    let mut rows = 0;
    for _ in 0..windows {
        let begin = end.saturating_sub(WINDOW_ENTRIES_MAX - 1).max(1);
        let window = window(context, &reader, (begin, end), (enough - rows, &weigh))?;
        rows += window.iter().map(&weigh).sum::<usize>();
        found.entries.extend(window.into_iter().rev());
        if rows >= enough || begin == 1 {
            return Ok(found);
        }
        end = begin - 1;
    }
    found.looked_to = Some(end + 1);
    Ok(found)
}

/// The last wanted entries of a window, oldest first: as few as come to `enough` rows.
fn window(
    context: &Context<'_>,
    reader: &Reader,
    (begin, end): (u64, u64),
    (enough, weigh): (usize, &impl Fn(&Entry) -> usize),
) -> Result<VecDeque<Entry>, ServiceError> {
    let mut last = VecDeque::new();
    let mut rows = 0;
    for (count, entry) in reader.entries(begin).map_err(unread)?.enumerate() {
        if count.is_multiple_of(ENTRIES_TOGETHER) && context.is_over() {
            return Err(ServiceError::Cancelled);
        }
        let entry = entry.map_err(unread)?;
        if entry.seq > end {
            break;
        }
        let weight = weigh(&entry);
        if weight == 0 {
            continue;
        }
        rows += weight;
        last.push_back(entry);
        while let Some(first) = last.front().map(weigh).filter(|first| rows - first >= enough) {
            last.pop_front();
            rows -= first;
        }
    }
    Ok(last)
}

/// The error of a ledger that cannot be read.
pub(crate) fn unread(error: ReadError) -> ServiceError {
    ServiceError::Unaudited(error.to_string())
}

/// When an entry was made.
pub(crate) fn at(entry: &Entry) -> Micros {
    Micros(i64::try_from(entry.at_micros).unwrap_or(i64::MAX))
}

/// The id of an entry's receipt.
pub(crate) fn receipt_id(entry: &Entry) -> String {
    format!("rcp_{}", hex(&entry.receipt))
}

/// An item that an entry lists. Its kind is not in the ledger.
pub(crate) fn item_name(item: [u8; 16]) -> String {
    names::item("", ItemId(u128::from_le_bytes(item)))
}

/// What a receipt says, and the tool and outcome of its call.
pub(crate) fn brief(entry: &Entry) -> Value {
    json!({
        "receipt_id": receipt_id(entry), "seq": entry.seq, "at": names::time(at(entry)),
        "decision": entry.decision.word(), "rule": entry.rule, "tool": entry.tool,
        "outcome": entry.outcome.word(),
    })
}

/// All that an entry says.
pub(crate) fn whole(entry: &Entry) -> Value {
    let touched = entry
        .touched
        .iter()
        .map(|one| json!({"effect": one.effect.word(), "item_id": item_name(one.item)}));
    let mut shown = brief(entry);
    shown["principal"] = entry.principal.as_str().into();
    shown["arguments_sha256"] = hex(&entry.arguments).into();
    shown["touched"] = touched.collect();
    shown["touched_total"] = entry.touched_total.into();
    shown["hash"] = hex(&entry.hash).into();
    shown
}

/// Whether the caller may read what others did.
pub(crate) fn is_auditor(context: &Context<'_>) -> bool {
    context.caller.audits()
}

/// Whether an entry is of a call by this caller.
pub(crate) fn is_own(context: &Context<'_>, entry: &Entry) -> bool {
    entry.principal == context.caller.in_ledger()
}

/// Entries within a period: from its begin on, and before its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    from: Micros,
    to: Micros,
}

impl Period {
    /// Open where nothing was given.
    ///
    /// # Errors
    /// It ends before it begins.
    pub(crate) fn of(from: Option<Micros>, to: Option<Micros>) -> Result<Self, ServiceError> {
        let period =
            Self { from: from.unwrap_or(Micros(i64::MIN)), to: to.unwrap_or(Micros(i64::MAX)) };
        if period.to < period.from {
            let (from, to) = (names::time(period.from), names::time(period.to));
            return Err(ServiceError::argument(
                "to",
                format!("is {to}, which is before from, {from}"),
            ));
        }
        Ok(period)
    }

    /// Whether it has this time.
    pub(crate) fn has(self, at: Micros) -> bool {
        self.from <= at && at < self.to
    }
}
