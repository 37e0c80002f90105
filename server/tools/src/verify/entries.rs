//! Entries of the workspace's ledger, scanned from the newest backwards.
//!
//! A ledger can only be read forwards, so the scan reads it in windows, the newest window first. A call may scan a
//! bounded number of windows; the next call of a list continues.

use std::collections::VecDeque;

use engine::ledger::{Entry, LedgerReader, ReadError};
use engine::{ItemId, Micros, hex};
use serde::Serialize;

use recalld_common::names;
use recalld_tool_framework::{ServiceError, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Entries of a window; a scan of one window lasts a few tenths of a second.
    pub(crate) const WINDOW_ENTRIES_MAX: u64 = 65_536;
    /// Maximum windows of a call whose subject is the ledger.
    pub(crate) const WINDOWS_MAX: usize = 16;
}

/// Entries read between two checks for cancellation.
const ENTRIES_TOGETHER: usize = 1_024;

/// Result of a scan.
pub(crate) struct Found {
    /// Matching entries, newest first.
    pub(crate) entries: Vec<Entry>,
    /// Lowest sequence number scanned; `None` if the scan reached the start of the ledger.
    pub(crate) looked_to: Option<u64>,
}

/// Newest matching entries up to `up_to`. Stops after `enough` rows or `windows` windows. `weigh` returns the number of
/// rows of an entry, 0 if the entry does not match.
///
/// # Errors
/// Returns an error if the ledger cannot be read or the call is over.
pub(crate) fn newest(
    context: &ToolContext<'_>,
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

/// Last matching entries of a window, oldest first: as few as make up `enough` rows.
fn window(
    context: &ToolContext<'_>,
    reader: &LedgerReader,
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

/// Error for an unreadable ledger.
pub(crate) fn unread(error: ReadError) -> ServiceError {
    ServiceError::Unaudited(error.to_string())
}

pub(crate) fn at(entry: &Entry) -> Micros {
    Micros(i64::try_from(entry.at_micros).unwrap_or(i64::MAX))
}

pub(crate) fn receipt_id(entry: &Entry) -> String {
    format!("rcp_{}", hex(&entry.receipt))
}

/// Wire id of an item in an entry. The ledger does not record the item's kind.
pub(crate) fn item_name(item: [u8; 16]) -> String {
    names::item("", ItemId(u128::from_le_bytes(item)))
}

/// Fields of a receipt, with the tool and the outcome of the call.
#[derive(Debug, Serialize)]
pub(crate) struct ReceiptFacts<'e> {
    receipt_id: String,
    seq: u64,
    at: String,
    /// The decision and its rule; `None` if the caller may not learn them.
    #[serde(flatten)]
    pub(crate) ruling: Option<RulingFacts<'e>>,
    tool: &'e str,
    outcome: &'static str,
}

/// A policy decision and its rule.
#[derive(Debug, Serialize)]
pub(crate) struct RulingFacts<'e> {
    decision: &'static str,
    rule: &'e str,
}

/// All fields of an entry.
#[derive(Debug, Serialize)]
pub(crate) struct EntryFacts<'e> {
    #[serde(flatten)]
    receipt: ReceiptFacts<'e>,
    principal: &'e str,
    arguments_sha256: String,
    touched: Vec<TouchedFacts>,
    touched_total: u32,
    hash: String,
}

/// An effect on an item.
#[derive(Debug, Serialize)]
struct TouchedFacts {
    effect: &'static str,
    item_id: String,
}

impl<'e> ReceiptFacts<'e> {
    pub(crate) fn of(entry: &'e Entry) -> Self {
        Self {
            receipt_id: receipt_id(entry),
            seq: entry.seq,
            at: names::time(at(entry)),
            ruling: Some(RulingFacts { decision: entry.decision.word(), rule: &entry.rule }),
            tool: &entry.tool,
            outcome: entry.outcome.word(),
        }
    }
}

impl<'e> EntryFacts<'e> {
    pub(crate) fn of(entry: &'e Entry) -> Self {
        let touched = entry
            .touched
            .iter()
            .map(|one| TouchedFacts { effect: one.effect.word(), item_id: item_name(one.item) });
        Self {
            receipt: ReceiptFacts::of(entry),
            principal: &entry.principal,
            arguments_sha256: hex(&entry.arguments),
            touched: touched.collect(),
            touched_total: entry.touched_total,
            hash: hex(&entry.hash),
        }
    }
}

/// Returns true if the caller may read entries of other principals.
pub(crate) fn is_auditor(context: &ToolContext<'_>) -> bool {
    context.caller.audits()
}

/// Returns true if the entry records a call of this principal.
pub(crate) fn is_own(context: &ToolContext<'_>, entry: &Entry) -> bool {
    entry.principal == context.caller.in_ledger()
}

/// Half-open time range: includes its start, excludes its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    from: Micros,
    to: Micros,
}

impl Period {
    /// Builds a range; an omitted bound is unlimited.
    ///
    /// # Errors
    /// Returns an error if the end is before the start.
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

    /// Returns true if the range contains `at`.
    pub(crate) fn has(self, at: Micros) -> bool {
        self.from <= at && at < self.to
    }
}
