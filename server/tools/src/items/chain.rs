//! Supersession chain of an item: the versions before and after it.

use engine::ledger::TouchedItem;
use engine::{ChainMember, ItemId, RowAddress, Snapshot, Status};
use serde::Serialize;
use serde_json::{Map, Value, json};

use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::{AccessView, Room, show};
use recalld_tool_framework::args::{Id, args};
use recalld_tool_framework::paging::PAGE_BYTES_MAX;
use recalld_tool_framework::reading::seen;
use recalld_tool_framework::results::{Kind, TRUNCATED, always};
use recalld_tool_framework::{ANSWER_KIND, Answer, Change, ServiceError, Tool, ToolContext};

/// Attribute with the reason for superseding the previous version.
pub(super) const CHANGE_REASON: &str = "change_reason";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum versions in one answer: the newest.
    const VERSIONS_MAX: usize = 100;
}

/// Description of the chain in a result.
pub(super) const CHAIN: &str = "Its versions, oldest first: id, at, by, reason, status. Of one that is hidden or \
                                erased, at, by and reason tell of that.";

args! {
    struct ChainOf {
        item_id: Id => "Any of its versions.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: "supersession_chain_tool",
    title: "Versions of an item",
    about: "What an item replaced and what replaced it, oldest first, with why. Of a long chain the newest versions.",
    shape: ChainOf::shape,
    results: &[always("chain", Kind::List).says(CHAIN), TRUNCATED],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| chain_of(context, raw),
    example: r#"{"item_id": "itm_00000000000000000000000001"}"#,
};

fn chain_of(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = ChainOf::parse(raw)?;
    let snapshot = context.snapshot();
    let Id(id) = wanted.item_id;
    super::found::find_ever(&snapshot, id)?;
    let chain = Versions::of(&snapshot, id, PAGE_BYTES_MAX)?;
    let text = chain.in_words();
    let structured = json!({"chain": chain.rows, "truncated": chain.truncated});
    let mut answer = Answer::plain(structured, text);
    answer.touched = chain.touched;
    Ok(answer)
}

/// The versions of an item that the caller may know.
pub(super) struct Versions {
    /// `{id, at, by, reason, status}`, oldest first.
    pub(super) rows: Vec<VersionFacts>,
    /// True if there are, or may be, older versions.
    pub(super) truncated: bool,
    /// Item effects for the ledger.
    touched: Vec<TouchedItem>,
}

impl Versions {
    /// Loads the newest versions of an item's chain that fit into `bytes_max` bytes.
    ///
    /// # Errors
    /// Returns an error if the store is damaged or the call is over.
    pub(super) fn of(
        snapshot: &AccessView<'_>,
        id: ItemId,
        bytes_max: usize,
    ) -> Result<Self, ServiceError> {
        let chain = snapshot.chain(id)?;
        let mut room = Room::of(bytes_max);
        let mut versions =
            Self { rows: Vec::new(), truncated: chain.truncated, touched: Vec::new() };
        for member in chain.members.iter().rev() {
            snapshot.check_cancelled()?;
            let Some((row, touched)) = row(snapshot, member)? else { continue };
            if versions.rows.len() == VERSIONS_MAX || !room.takes(&row) {
                versions.truncated = true;
                break;
            }
            versions.rows.push(row);
            versions.touched.extend(touched);
        }
        versions.rows.reverse();
        Ok(versions)
    }

    /// The versions as text, one line each.
    pub(super) fn in_words(&self) -> String {
        let line = |VersionFacts { id, at, reason, status, .. }: &VersionFacts| {
            let line = format!("{} {id} {status}", at.as_deref().unwrap_or_default());
            match reason {
                Some(reason) => format!("{line}: {reason}"),
                None => line,
            }
        };
        let lines: Vec<String> = self.rows.iter().map(line).collect();
        lines.join("\n")
    }
}

/// A version in an answer.
#[derive(Debug, Serialize)]
pub(super) struct VersionFacts {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    status: &'static str,
}

type Row = (VersionFacts, Option<TouchedItem>);

/// Row of one version; `None` if policy denies it.
fn row(snapshot: &AccessView<'_>, member: &ChainMember) -> Result<Option<Row>, ServiceError> {
    match member.address {
        Some(place) => kept(snapshot, place),
        None => Ok(Some((erased(snapshot, member.id)?, None))),
    }
}

/// Row of an erased version. Its policy class is unknown after the erasure, so only its id and the time are shown, as
/// recall does.
fn erased(snapshot: &Snapshot, id: ItemId) -> Result<VersionFacts, ServiceError> {
    let stones = snapshot.tombstones(id.0)?;
    let at = stones.iter().rfind(|stone| stone.erase).map(|stone| names::time(stone.at));
    Ok(VersionFacts { id: names::item("", id), at, by: None, reason: None, status: "erased" })
}

fn kept(snapshot: &AccessView<'_>, place: RowAddress) -> Result<Option<Row>, ServiceError> {
    let item = snapshot.item(place)?;
    let verdict = snapshot.judge(&item, Action::Read).0;
    if verdict == Verdict::Deny || item.kind == ANSWER_KIND {
        return Ok(None);
    }
    let status = snapshot.status(place)?;
    let stones = snapshot.tombstones(item.id.0)?;
    let stone = stones.last().filter(|_| status == Status::Tombstoned);
    let reason = match stone {
        Some(stone) => Some(stone.reason.to_owned()),
        None => reason_of(item.attributes),
    };
    let hidden = || reason.is_some().then(|| show::REDACTED.to_owned());
    let row = VersionFacts {
        id: names::of_item(&item),
        at: Some(names::time(stone.map_or(item.recorded_at, |stone| stone.at))),
        by: Some(stone.map_or(item.recorded_by, |stone| stone.by).to_owned()),
        reason: if verdict == Verdict::Allow { reason } else { hidden() },
        status: if stone.is_some_and(|stone| stone.erase) { "erased" } else { status.name() },
    };
    Ok(Some((row, Some(seen(item.id, verdict)))))
}

/// Reason for superseding the previous version, if recorded.
fn reason_of(attributes: &str) -> Option<String> {
    let attributes: Value = serde_json::from_str(attributes).unwrap_or_default();
    let said = [CHANGE_REASON, "reason"].map(|name| attributes[name].as_str());
    said.into_iter().flatten().find(|reason| !reason.is_empty()).map(str::to_owned)
}
