//! `audit_trail_tool`: ledger entries with caller and policy decision.

use engine::ledger::Decision;
use serde_json::{Map, Value, json};

use super::entries::{self, EntryFacts, Period};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_tool_framework::args::{Text, Time, args, choices};
use recalld_tool_framework::paging::{Cursor, Paging, ROWS_MAX, Row};
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const TRAIL: &str = "audit_trail_tool";

choices! {
    /// Policy decision to filter by.
    enum Decided { Allow = "allow", Redact = "redact", Deny = "deny" }
}

args! {
    struct Trail {
        from: Option<Time> => "From then on.",
        to: Option<Time> => "Before then.",
        tool: Option<Text<1, 64>> => "Only its calls.",
        decision: Option<Decided> => "Only these.",
        principal: Option<Text<1, 160>> => "Only their calls.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: TRAIL,
    title: "Audit trail",
    about: "Entries of the ledger, newest first: each governed call, who made it, how policy decided.",
    shape: Trail::shape,
    results: &[
        always("entries", Kind::List).says(
            "receipt_id, seq, at, decision, rule, tool, outcome, principal, arguments_sha256, touched \
             {effect, item_id}, touched_total, hash.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::AuditRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| trail(context, raw),
    example: r#"{"decision": "allow"}"#,
};

fn trail(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Trail::parse(raw)?;
    let paging = Paging::of(TRAIL, raw, wanted.cursor.as_ref())?;
    let period = Period::of(wanted.from.map(|at| at.0), wanted.to.map(|at| at.0))?;
    let up_to = paging.after::<u64>()?.map_or(u64::MAX, |last| last.saturating_sub(1));
    let is = |wanted: Option<&str>, found: &str| wanted.is_none_or(|wanted| wanted == found);
    let decided = wanted.decision.map(Decided::name);
    let found = entries::newest(context, (up_to, entries::WINDOWS_MAX), ROWS_MAX + 1, |entry| {
        let decision: Decision = entry.decision;
        let is_wanted = is(wanted.tool.as_ref().map(|tool| &*tool.0), &entry.tool)
            && is(wanted.principal.as_ref().map(|name| &*name.0), &entry.principal)
            && is(decided, decision.word())
            && period.has(entries::at(entry));
        usize::from(is_wanted)
    })?;
    let rows = found.entries.iter().map(|entry| {
        let line = format!(
            "{} {} {} by {}: {} ({})\n",
            entry.seq,
            names::time(entries::at(entry)),
            entry.tool,
            entry.principal,
            entry.decision.word(),
            entry.rule,
        );
        Ok(Row::new(entry.seq, json!(EntryFacts::of(entry)), line))
    });
    let mut page = paging.page(rows)?;
    if let (None, Some(looked_to)) = (&page.next_cursor, found.looked_to) {
        page.next_cursor = Some(paging.cursor(&looked_to));
    }
    Ok(page.into_answer("entries", "No such entries."))
}
