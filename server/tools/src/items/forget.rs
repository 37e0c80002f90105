//! `forget_item_tool`: hides an item by a tombstone, or erases its bytes from every file.
//!
//! A tombstoned item cannot be found, and remains in the supersession chain by its id. An erasure first hides all items
//! in one commit. From then on the bytes are removed, by this call or later by the store's maintenance, regardless of
//! failures in between.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use engine::ledger::Effect;
use engine::{ItemId, ItemView, RowAddress, Status, Throttle};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::own_kinds::OWN_KINDS;
use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::AccessView;
use recalld_store_admin::{KeepError, backups_known, goes_with, note_far, noted, waiting_in};
use recalld_tool_framework::args::{Id, Text, args, choices};
use recalld_tool_framework::reading::{ItemSummary, find, seen_at};
use recalld_tool_framework::records::{Record, versions};
use recalld_tool_framework::results::{Kind, always, sometimes, without_nulls};
use recalld_tool_framework::writing::{Key, StoredId, Tell, Writing, may_change, refuse_secret};
use recalld_tool_framework::{
    ANSWER_KIND, Answer, Change, Refused, ServiceError, Tool, ToolContext, governed, touched,
};

const FORGET: &str = "forget_item_tool";
/// Operation name of a preview in the ledger.
const LOOKED: &str = "forget_item_tool: looked";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum items named in a preview.
    const GOING_SHOWN_MAX: usize = 50;
    /// Time reserved at the end of a call, after removing bytes, to report the tombstones before the deadline.
    const TELL_TIME: Duration = Duration::from_secs(2);
}

choices! {
    enum Mode { Tombstone = "tombstone", Erase = "erase" }
}

args! {
    struct Forget {
        item_id: Id => "The item.",
        reason: Text<1, 500> => "Why.",
        mode: Mode = Mode::Tombstone => "erase: its bytes go, too.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: FORGET,
    title: "Forget an item",
    about: "Hide a memory from everybody, or erase it from every file. A document goes with its chunks, a \
            record with its versions. To correct something, supersede it.",
    shape: Forget::shape,
    results: &[
        always("item_id", Kind::Text).says("The item."),
        always("status", Kind::Text).says(
            "tombstoned; erased, when no file of the store holds it any more; erasing, when that is \
             still being done, which goes on by itself.",
        ),
        always("at", Kind::Text).says("When it was forgotten."),
        sometimes("gone_by", Kind::Text)
            .says("When it was seen that no file of the store holds it any more."),
        always("forgotten", Kind::Integer).says("Items that went, with its chunks or versions."),
        sometimes("backups_waiting", Kind::Integer)
            .says(
                "Backups of this machine that hold it still; the server erases it there by itself. Of the operator's \
                 own workspace alone: from a backup of another it goes with the next one into the same folder.",
            ),
    ],
    scope: Some(Scope::MemoryWrite),
    change: Change::Removes,
    core: false,
    run: |context, raw| forget(context, raw),
    example: r#"{"item_id": "itm_00000000000000000000000001", "reason": "no longer needed"}"#,
};

/// Idempotency record.
#[derive(Debug, Serialize, Deserialize)]
struct ForgetRecord {
    id: StoredId,
    mode: String,
    forgotten: usize,
}

/// The result.
#[derive(Debug, Serialize)]
struct ForgetAnswer<'r> {
    item_id: &'r str,
    status: &'static str,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gone_by: Option<String>,
    forgotten: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    backups_waiting: Option<usize>,
}

fn forget(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Forget::parse(raw)?;
    let mut writing = Writing::begin(context, FORGET, &wanted.idempotency_key, raw);
    let tell: Tell<'_, ForgetRecord> = &|snapshot, record| told(context, snapshot, record);
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    refuse_secret("reason", &wanted.reason.0)?;
    let Id(id) = wanted.item_id;
    let erase = wanted.mode == Mode::Erase;
    let going = Going::of(writing.snapshot(), (id, erase))?;
    for id in going.items.keys() {
        writing.bury(id.0, &wanted.reason.0, erase);
    }
    let record = ForgetRecord {
        id: going.id.clone(),
        mode: wanted.mode.name().to_owned(),
        forgotten: going.count,
    };
    if !erase {
        return writing.commit(&record, tell)?.or_overtaken("item_id");
    }
    let commit = || writing.commit(&record, tell)?.or_overtaken("item_id");
    let hidden = hidden_everywhere(context, &going, commit)?;
    // On an error, the store's maintenance retries the removal. The item is already hidden, and `told` reports that
    // some of its bytes remain.
    let _goes_on_later = context.workspace.store.erase_pending(&UntilTold(context));
    let mut answer = told(context, &context.access(context.workspace.store.snapshot()), &record)?;
    answer.touched = going.items.keys().map(|&id| touched(Effect::Erased, id)).collect();
    answer.touched.extend(hidden.touched);
    Ok(answer)
}

/// Preview of a call with these arguments; changes nothing. The preview is an audited call with a ledger entry of its
/// own.
///
/// # Errors
/// Returns the errors that the tool itself would return.
pub fn would_forget(
    context: &ToolContext<'_>,
    raw: &Map<String, Value>,
) -> Result<Answer, Refused> {
    governed(context, LOOKED, raw, false, |context| {
        let wanted = Forget::parse(raw)?;
        refuse_secret("reason", &wanted.reason.0)?;
        let Id(id) = wanted.item_id;
        let erase = wanted.mode == Mode::Erase;
        let snapshot = context.snapshot();
        let going = Going::of(&snapshot, (id, erase))?;
        let mut answer = going.shown(context, &snapshot, (id, erase))?;
        answer.structured["mode"] = wanted.mode.name().into();
        Ok(answer)
    })
}

/// The items that a call forgets.
struct Going {
    /// The requested item.
    id: StoredId,
    /// All items to forget. An erasure includes the stored responses that name one of these items.
    items: BTreeMap<ItemId, RowAddress>,
    /// Number of user items in `items`.
    count: usize,
}

impl Going {
    /// Collects the items that are forgotten together with an item; policy must allow each.
    fn of(snapshot: &AccessView<'_>, (id, erase): (ItemId, bool)) -> Result<Self, ServiceError> {
        let place = there(snapshot, (id, erase))?;
        let item = snapshot.item(place)?;
        refuse_job(&item)?;
        let mut own = vec![(id, place)];
        if OWN_KINDS.contains(&item.kind) && item.kind != "document" && item.kind != "chunk" {
            let record = Record::of(snapshot, place)?;
            let (all, _) = versions(snapshot, &record)?;
            own.extend(all.iter().map(|version| (version.item.id, version.place)));
        }
        let items = goes_with(snapshot, &own, erase).map_err(refused)?;
        let mut count = 0;
        for place in items.values() {
            let one = snapshot.item(*place)?;
            if one.kind == ANSWER_KIND {
                continue;
            }
            count += 1;
            may_change(snapshot, "item_id", &one)?;
            may_erase(snapshot, &one, erase)?;
        }
        Ok(Self { id: StoredId::of(item.kind, id), items, count })
    }

    /// Preview: the first items by name, the requested item before all others.
    fn shown(
        &self,
        context: &ToolContext<'_>,
        snapshot: &AccessView<'_>,
        (asked, erase): (ItemId, bool),
    ) -> Result<Answer, ServiceError> {
        let first = self.items.get(&asked).map(|place| (asked, *place));
        let others =
            self.items.iter().map(|(id, place)| (*id, *place)).filter(|(id, _)| *id != asked);
        let (mut items, mut answer) = (Vec::new(), Answer::plain(Value::Null, String::new()));
        for (_, place) in first.into_iter().chain(others) {
            if items.len() == GOING_SHOWN_MAX {
                break;
            }
            if snapshot.item(place)?.kind != ANSWER_KIND {
                answer.touched.push(seen_at(snapshot, place)?);
                items.push(ItemSummary::of(snapshot, place)?);
            }
        }
        answer.text = format!("{} would go: {}.", self.id.as_str(), counted(self.count, "item"));
        let backups = match erase && context.is_local() {
            true => Some(backups_known(context.services.data).map_err(ServiceError::Unwritable)?),
            false => None,
        };
        answer.structured =
            without_nulls(json!({"items": items, "forgotten": self.count, "backups": backups}));
        Ok(answer)
    }
}

/// Row address of the item. A tombstoned item can still be erased.
fn there(
    snapshot: &AccessView<'_>,
    (id, erase): (ItemId, bool),
) -> Result<RowAddress, ServiceError> {
    let is_erased = snapshot.is_erased(id.0)?;
    let hidden = match super::found::find_ever(snapshot, id)? {
        Some(place) if snapshot.status(place)? == Status::Tombstoned => Some(place),
        _ => None,
    };
    match hidden {
        Some(place) if erase && !is_erased => Ok(place),
        _ => find(snapshot, "item_id", id).map(|(place, _)| place),
    }
}

/// Rejects jobs, which are the record of ingested files.
fn refuse_job(item: &ItemView<'_>) -> Result<(), ServiceError> {
    if item.kind != "job" {
        return Ok(());
    }
    let why = "is the id of a job, the record of what was ingested, which stays";
    Err(ServiceError::argument("item_id", why))
}

/// Fails unless `erase` is false or policy lets the caller erase the item.
fn may_erase(
    snapshot: &AccessView<'_>,
    item: &ItemView<'_>,
    erase: bool,
) -> Result<(), ServiceError> {
    let (verdict, rule) = snapshot.judge(item, Action::Erase);
    if !erase || verdict == Verdict::Allow {
        return Ok(());
    }
    Err(ServiceError::argument("item_id", format!("policy rule {rule} does not allow it")))
}

fn refused(error: KeepError) -> ServiceError {
    match error {
        KeepError::Wrong(why) => ServiceError::argument("item_id", why),
        KeepError::Failed(why) => ServiceError::Unwritable(why),
    }
}

/// Hides the items by `commit`, and records their ids as pending erasures of the remote and of the known backups.
/// Backups are known only for the default workspace.
fn hidden_everywhere(
    context: &ToolContext<'_>,
    going: &Going,
    commit: impl FnOnce() -> Result<Answer, ServiceError>,
) -> Result<Answer, ServiceError> {
    let ids: BTreeSet<u128> = going.items.keys().map(|id| id.0).collect();
    if !context.is_local() {
        let (data, name) = (context.services.data, &context.workspace.name);
        note_far(data, name, ids).map_err(ServiceError::Unwritable)?;
        return commit();
    }
    noted(context.services.data, context.workspace, &ids, commit)
}

/// Pace that stops `TELL_TIME` before the deadline.
struct UntilTold<'a>(&'a ToolContext<'a>);

impl Throttle for UntilTold<'_> {
    fn after_write(&self, _bytes: usize) -> bool {
        !self.0.is_over() && Instant::now() + TELL_TIME < self.0.deadline
    }

    fn after_work(&self) -> bool {
        self.after_write(0)
    }
}

/// Response from the current state of the store.
fn told(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    record: &ForgetRecord,
) -> Result<Answer, ServiceError> {
    let id = record.id.parse()?;
    let stones = snapshot.tombstones(id.0)?;
    let at = stones.last().map_or_else(|| context.services.clock.now(), |stone| stone.at);
    let mut shown = ForgetAnswer {
        item_id: record.id.as_str(),
        status: "tombstoned",
        at: names::time(at),
        gone_by: None,
        forgotten: record.forgotten,
        backups_waiting: None,
    };
    if record.mode == Mode::Erase.name() {
        let pending = context.workspace.store.erasures_pending()?;
        let is_gone = pending == 0 && snapshot.find(id)?.is_none();
        let now = names::time(context.services.clock.now());
        shown.status = if is_gone { "erased" } else { "erasing" };
        shown.gone_by = is_gone.then_some(now);
        shown.backups_waiting = backups_waiting(context, id)?;
    }
    let text = format!("{} is {}, as of {}.", shown.item_id, shown.status, shown.at);
    Ok(Answer::plain(json!(shown), text))
}

/// Number of backups that still contain an item; `None` for workspaces other than the default workspace, whose backups
/// are unknown.
fn backups_waiting(context: &ToolContext<'_>, id: ItemId) -> Result<Option<usize>, ServiceError> {
    if !context.is_local() {
        return Ok(None);
    }
    waiting_in(context.services.data, id.0).map(Some).map_err(ServiceError::Unwritable)
}
