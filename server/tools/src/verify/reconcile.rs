//! `receipt_reconcile_tool`: compares receipts with the entries of the ledger.

use std::collections::BTreeMap;

use engine::ledger::{Entry, Outcome};
use serde_json::{Map, Value, json};

use super::entries::{self, ReceiptFacts};
use recalld_common::scope::Scope;
use recalld_tool_framework::args::{Int, List, Text, Time, args, choices, object};
use recalld_tool_framework::results::{Kind, always, without_nulls};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum gap between two receipts that is read through; a larger gap is skipped.
    const WALKED_MAX: u64 = 65_536;
}

/// Entries read between two checks for cancellation.
const ENTRIES_TOGETHER: usize = 1_024;

choices! {
    enum Decided { Allow = "allow", Redact = "redact", Deny = "deny" }
}

object! {
    /// A receipt as returned with an answer.
    struct Given {
        receipt_id: Text<1, 64> => "Its id.",
        seq: Int<1, { i64::MAX }> => "Its number.",
        decision: Option<Decided> => "Its decision.",
        rule: Option<Text<1, 96>> => "Its rule.",
        at: Option<Time> => "Its time.",
    }
}

args! {
    struct Reconcile {
        receipts: List<Given, 1, 100> => "As answers gave them.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: "receipt_reconcile_tool",
    title: "Check receipts",
    about: "Whether the ledger has the entries that receipts stand for, and says the same. Receipts of others \
            are missing, unless you hold audit:read.",
    shape: Reconcile::shape,
    results: &[
        always("receipts", Kind::List).says(
            "In the order given: receipt_id, seq, verdict (match, mismatch, missing), differs (fields), and ledger: \
             receipt_id, seq, at, decision, rule, tool, outcome of the entry of that number.",
        ),
        always("ok", Kind::Flag).says("Whether all match."),
    ],
    scope: Some(Scope::BrainProxy),
    change: Change::Nothing,
    core: false,
    run: |context, raw| reconcile(context, raw),
    example: r#"{"receipts": [{"receipt_id": "rcp_00000000000000000000000000000000", "seq": 1}]}"#,
};

fn reconcile(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Reconcile::parse(raw)?;
    let found = entries_of(context, &wanted.receipts.0)?;
    let mut text = String::new();
    let mut ok = true;
    let rows = wanted.receipts.0.iter().map(|given| {
        let entry = found.get(&seq(given)).filter(|entry| may_see(context, entry));
        let (verdict, row) = compared(given, entry, entries::is_auditor(context));
        ok &= verdict == MATCH;
        text.push_str(&format!("{} ({}): {verdict}\n", given.receipt_id.0, given.seq.0));
        row
    });
    let rows: Vec<Value> = rows.collect();
    Ok(Answer::plain(json!({"receipts": rows, "ok": ok}), text))
}

const MATCH: &str = "match";

fn seq(given: &Given) -> u64 {
    given.seq.0.unsigned_abs()
}

/// Returns true if the caller may see the entry; entries of other principals require the audit scope.
fn may_see(context: &ToolContext<'_>, entry: &Entry) -> bool {
    entries::is_auditor(context) || entries::is_own(context, entry)
}

/// Reads the entries with these sequence numbers in one pass.
fn entries_of(
    context: &ToolContext<'_>,
    given: &[Given],
) -> Result<BTreeMap<u64, Entry>, ServiceError> {
    let reader = context.workspace.audit.reader().map_err(ServiceError::Unaudited)?;
    let mut wanted: Vec<u64> = given.iter().map(seq).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut found = BTreeMap::new();
    let mut wanted = wanted.into_iter().peekable();
    while let Some(first) = wanted.next() {
        let mut next = first;
        for (count, entry) in reader.entries(first).map_err(entries::unread)?.enumerate() {
            if count.is_multiple_of(ENTRIES_TOGETHER) && context.is_over() {
                return Err(ServiceError::Cancelled);
            }
            let entry = entry.map_err(entries::unread)?;
            if entry.seq < next {
                continue;
            }
            found.insert(entry.seq, entry);
            // For a distant entry, a new read starts at the volume that contains it.
            match wanted.next_if(|&seq| seq - next <= WALKED_MAX) {
                Some(seq) => next = seq,
                None => break,
            }
        }
    }
    Ok(found)
}

/// Verdict on a receipt, and its row. The policy decision on a refused call is compared only for auditors; for other
/// callers a denied item reads as missing.
fn compared(given: &Given, entry: Option<&Entry>, audits: bool) -> (&'static str, Value) {
    let Some(entry) = entry else {
        let row =
            json!({"receipt_id": given.receipt_id.0, "seq": given.seq.0, "verdict": "missing"});
        return ("missing", row);
    };
    let is = |given: Option<&str>, found: &str| given.is_none_or(|given| given == found);
    let at = given.at.is_none_or(|at| at.0 == entries::at(entry));
    let is_told = audits || entry.outcome != Outcome::Refused;
    let decision = is(given.decision.map(Decided::name), entry.decision.word());
    let rule = is(given.rule.as_ref().map(|rule| &*rule.0), &entry.rule);
    let fields = [
        ("receipt_id", given.receipt_id.0 == entries::receipt_id(entry)),
        ("decision", !is_told || decision),
        ("rule", !is_told || rule),
        ("at", at),
    ];
    let differs: Vec<&str> =
        fields.iter().filter(|(_, same)| !same).map(|(name, _)| *name).collect();
    let verdict = if differs.is_empty() { MATCH } else { "mismatch" };
    let mut ledger = ReceiptFacts::of(entry);
    ledger.ruling = ledger.ruling.filter(|_| is_told);
    let row = json!({
        "receipt_id": given.receipt_id.0, "seq": given.seq.0, "verdict": verdict,
        "differs": (!differs.is_empty()).then_some(differs), "ledger": ledger,
    });
    (verdict, without_nulls(row))
}
