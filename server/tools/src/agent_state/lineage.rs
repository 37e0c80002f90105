//! `agent_state_lineage_tool`: versions of an agent's value.

use engine::hex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::value::{AgentId, StateKey, current, is_expired, version_of};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_tool_framework::args::args;
use recalld_tool_framework::paging::{Cursor, Paging, Row};
use recalld_tool_framework::reading::{NO_SUCH_ITEM, seen};
use recalld_tool_framework::records::versions;
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "agent_state_lineage_tool";

args! {
    struct Asked {
        agent_id: AgentId => "Whose.",
        key: StateKey => "Its name.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const LINEAGE: Tool = Tool {
    name: NAME,
    title: "Versions of agent state",
    about: "Who wrote an agent's value when, the newest version first. No values.",
    shape: Asked::shape,
    results: &[
        always("versions", Kind::List).says(
            "Each version, item_id, at, by, content_sha256 of the value as JSON, status: current, \
             superseded or expired.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::AgentState),
    change: Change::Nothing,
    core: false,
    run: |context, raw| lineage(context, raw),
    example: r#"{"agent_id": "sample", "key": "plan"}"#,
};

fn lineage(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let paging = Paging::of(NAME, raw, wanted.cursor.as_ref())?;
    let snapshot = context.snapshot();
    let missing = || ServiceError::Missing { field: "key", why: NO_SUCH_ITEM.to_owned() };
    let newest = current(&snapshot, &wanted.agent_id.0, &wanted.key.0)?.ok_or_else(missing)?;
    let (mut all, is_cut) = versions(&snapshot, &newest)?;
    if all.is_empty() {
        return Err(missing());
    }
    all.sort_by_key(version_of);
    let now = context.services.clock.now();
    let before = paging.after::<u64>()?.unwrap_or(u64::MAX);
    let older = all.iter().rev().filter(|version| version_of(version) < before);
    let rows = older.map(|version| {
        let status = match (version.place == newest.place, is_expired(version, now)) {
            (false, _) => "superseded",
            (true, true) => "expired",
            (true, false) => "current",
        };
        let value = version.attributes.get("value").unwrap_or(&Value::Null).to_string();
        let at = names::time(version.item.recorded_at);
        let line = format!("{}: {at} {status}\n", version_of(version));
        let seen = seen(version.item.id, version.verdict(&snapshot));
        let row = json!({
                "version": version_of(version), "item_id": names::of_item(&version.item), "at": at,
                "by": version.item.recorded_by, "status": status,
                "content_sha256": version.is_open(&snapshot).then(|| hex(&Sha256::digest(&value))),
        });
        Ok(Row::new(version_of(version), row, line).touching([seen]))
    });
    let bounds = json!({"versions": engine::CHAIN_ITEMS_MAX});
    let page = paging.page(rows)?.cut_on_last(is_cut, bounds);
    Ok(page.into_answer("versions", "No versions."))
}
