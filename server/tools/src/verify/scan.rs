//! `ledger_integrity_scan_tool`: verifies the hashes, sequence numbers and signatures of the ledger, and its last
//! externally stored checkpoint.

use engine::hex;
use engine::ledger::{Anchor, Hash, LedgerReport, VerifyOptions};
use serde_json::{Map, Value, json};

use super::entries::unread;
use recalld_common::counted::counted;
use recalld_common::scope::Scope;
use recalld_store_admin::LedgerPlace;
use recalld_tool_framework::args::{Int, args};
use recalld_tool_framework::results::{Kind, always, sometimes, without_nulls};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

args! {
    struct Scan {
        from_seq: Option<Int<1, { i64::MAX }>> => "The first entry.",
        to_seq: Option<Int<1, { i64::MAX }>> => "The last one.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: "ledger_integrity_scan_tool",
    title: "Scan the ledger",
    about: "Check that no entry of the ledger was changed, cut out or cut off, and that its signatures are good.",
    shape: Scan::shape,
    results: &[
        always("entries", Kind::Integer).says("Entries that were read and found good."),
        always("ok", Kind::Flag).says("Whether nothing is wrong."),
        sometimes("first_bad_seq", Kind::Integer)
            .says("The first entry that is broken or missing."),
        sometimes("fault", Kind::Text)
            .says("The rule of the ledger's format that is broken, and how."),
        always("head_seq", Kind::Integer).says("The last good entry."),
        always("head_hash", Kind::Text).says("Its hash."),
        always("checkpoints", Kind::Object).says("count, and ok: whether every signature is good."),
    ],
    scope: Some(Scope::AuditRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| scan(context, raw),
    example: "{}",
};

fn scan(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Scan::parse(raw)?;
    let from_seq = wanted.from_seq.map_or(1, |seq| seq.0.unsigned_abs());
    let to_seq = wanted.to_seq.map_or(u64::MAX, |seq| seq.0.unsigned_abs());
    if to_seq < from_seq {
        let why = format!("is {to_seq}, which is before from_seq, {from_seq}");
        return Err(ServiceError::argument("to_seq", why));
    }
    let workspace = context.workspace;
    let place = LedgerPlace::of(context.services.data, &workspace.name);
    let gone = || ServiceError::Unaudited("the ledger's folder is gone".to_owned());
    let seals = place.ok_or_else(gone)?.verifier().map_err(ServiceError::Unaudited)?;
    let reader = || workspace.audit.reader().map_err(ServiceError::Unaudited);
    // A ledger that is empty for this reader may have its first entry when the second reader is opened.
    let first = reader()?.first_hash().map_err(unread)?;
    // Read the checkpoint before the second reader fixes the end of the ledger, so that the checkpoint lies within the
    // verified range.
    let anchor = anchor(context, first)?;
    let reader = reader()?;
    let with = VerifyOptions { verifier: &seals, anchor, from_seq, to_seq };
    let report = reader.verify_cancellable(&with, &|| context.is_over()).map_err(unread)?;
    let report = report.ok_or(ServiceError::Cancelled)?;
    Ok(Answer::plain(shown(&report), in_words(&report)))
}

/// The last checkpoint recorded in the metastore for the ledger with this first entry; `None` if there is none.
fn anchor(context: &ToolContext<'_>, first: Option<Hash>) -> Result<Option<Anchor>, ServiceError> {
    let control = context.services.control;
    if !control.exists() {
        return Ok(None);
    }
    let last = control.find_anchor_of(&context.workspace.name, first);
    let last = last.map_err(|error| ServiceError::Unaudited(error.to_string()))?;
    Ok(last.map(|last| Anchor { seq: last.seq, head: last.head }))
}

/// JSON report without the file name of a fault, which callers must not learn.
fn shown(report: &LedgerReport) -> Value {
    let fault = report.fault.as_ref().map(|fault| format!("{}: {}", fault.rule, fault.detail));
    without_nulls(json!({
        "entries": report.entries, "ok": report.ok, "first_bad_seq": report.first_bad_seq,
        "fault": fault, "head_seq": report.head_seq, "head_hash": hex(&report.head_hash),
        "checkpoints": {"count": report.checkpoints.count, "ok": report.checkpoints.ok},
    }))
}

fn in_words(report: &LedgerReport) -> String {
    match &report.fault {
        None => format!(
            "{} and {} are good; the last is entry {}, {}.",
            counted(report.entries, "entry"),
            counted(report.checkpoints.count, "checkpoint"),
            report.head_seq,
            hex(&report.head_hash),
        ),
        Some(fault) => {
            format!("Entry {} breaks {}: {}.", fault.seq, fault.rule, fault.detail)
        }
    }
}
