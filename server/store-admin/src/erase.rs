//! Erasure: the items to erase, the policy that may forbid it, and every copy that must lose them.
//!
//! The engine erases bytes from one store. This module extends a request to its full extent: a document includes its
//! chunks, a chain all its members, and both the stored answers that name them. If policy withholds one item, the whole
//! request is refused. Each registered backup loses the same ids, now or when it is next reachable.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::PoisonError;

use engine::ledger::{Decision, Effect, Outcome};
use engine::limits::ERASURES_PENDING_MAX;
use engine::{ItemId, RowAddress, Snapshot, WriteError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::erase_backups;
use crate::erase_backups::BackupErasure;
use crate::erase_far;
use crate::keep_error::KeepError;
use crate::keeping::{Keeper, Note};
use crate::known::Known;
use crate::limits::ERASE_ITEMS_MAX;
use recalld_cluster::seats::{FarErasure, FarErasureReport};
use recalld_common::names;
use recalld_policy::{Action, Verdict, What, decide};
use recalld_tool_framework::args::{List, Text, args};
pub use recalld_tool_framework::{ANSWER_KIND, ServiceError, touched};
use recalld_workspace::workspace::Workspace;

const OPERATION: &str = "recalld erase";
/// Operation of the ledger entry before items are hidden.
const BEGUN: &str = "recalld erase: begun";

// Batch limit of a store: half of the maximum pending erasures, because sources may have to be erased, too.
const _: () = assert!(ERASE_ITEMS_MAX <= ERASURES_PENDING_MAX / 2);
/// Remedy after an error between the steps.
const GO_ON: &str = "what is left is tried again by `recalld erase --pending`";
/// Progress stage once no query finds the items any more.
const HIDDEN: &str = "hidden";
const DAMAGED: &str = "the store is damaged; `recalld verify` tells where";

args! {
    /// Arguments of `POST /operator/erase`.
    pub struct Erase {
        ids: List<Text<1, 64>, 0, 16384> => "Items.",
        reason: Text<0, 4096> => "Why.",
        by: Text<1, 256> = Text("operator".to_owned()) => "Who wants it.",
        chain: bool = false => "All that they replaced or that replaced them, too.",
        dry_run: bool = false => "Only say what would go.",
        pending: bool = false => "Go on with earlier requests.",
    }
}

/// Report of an erasure.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct EraseReport {
    /// Requested items that were erased before.
    pub already: usize,
    /// Results of the backups that had pending ids.
    pub backups: Vec<BackupErasure>,
    /// Items that this request erased.
    pub erased: usize,
    /// True if no copy has the items; `None` if nothing was to be erased yet.
    pub everywhere: Option<bool>,
    /// Items that policy retains. Nothing is erased if there are any.
    pub held: Vec<HeldItem>,
    /// Items that the request covers.
    pub items: Vec<ErasedItem>,
    /// Requested ids that do not exist. Nothing is erased if there are any.
    pub missing: Vec<String>,
    /// Ids still to be erased from the store's files; `None` as for `everywhere`.
    pub pending: Option<usize>,
    /// Progress on the remote; `None` if nothing is pending there.
    pub remote: Option<FarErasureReport>,
}

/// An item that a request covers.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErasedItem {
    /// Id of the item.
    pub id: String,
    /// Kind of the item.
    pub kind: String,
    /// Title of the item.
    pub title: String,
    /// Id of the requested item that this one belongs to.
    pub with: Option<String>,
}

/// An item that policy retains.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeldItem {
    /// Id of the item.
    pub id: Option<String>,
    /// Name of the policy rule.
    pub rule: String,
}

/// Extent of a request.
#[derive(Default)]
struct Plan {
    /// Items to erase: row address, and the item that they belong to.
    goes: BTreeMap<ItemId, (RowAddress, Option<ItemId>)>,
    /// Requested ids that are already erased.
    gone: BTreeSet<u128>,
    /// Requested ids that the store does not have.
    missing: Vec<String>,
    /// Items that policy retains, with the rule.
    held: Vec<(ItemId, String)>,
}

/// Reports what would be erased, or erases it everywhere. Items are hidden before the wait for another running job. If
/// the caller gives up during that wait, the items remain hidden and their bytes are erased later.
pub fn erase(keeper: &Keeper<'_>, raw: &Value, wanted: &Erase) -> Result<EraseReport, KeepError> {
    if wanted.pending {
        let _turn = keeper.turn()?;
        return go_on(keeper, raw);
    }
    if wanted.ids.0.is_empty() {
        return Err(KeepError::Wrong("no ids; name the items that are to go".to_owned()));
    }
    if wanted.reason.0.trim().is_empty() {
        return Err(KeepError::Wrong("a reason is wanted: it stays with the id".to_owned()));
    }
    let snapshot = keeper.store.snapshot();
    let plan = Plan::of(keeper, &snapshot, wanted)?;
    let mut report = plan.report(&snapshot)?;
    if !plan.missing.is_empty() {
        return Ok(report);
    }
    if !plan.held.is_empty() {
        let (_, rule) = &plan.held[0];
        keeper.record(Note {
            decision: Decision::Deny,
            rule,
            outcome: Outcome::Refused,
            touched: plan.held.iter().map(|(id, _)| touched(Effect::Withheld, *id)).collect(),
            ..Note::of(OPERATION, raw)
        })?;
        return Ok(report);
    }
    if wanted.dry_run {
        return Ok(report);
    }
    drop(snapshot);
    keeper.record(Note {
        touched: plan.goes.keys().map(|id| touched(Effect::Written, *id)).collect(),
        ..Note::of(BEGUN, raw)
    })?;
    hide(keeper, &plan, wanted)?;
    (keeper.progress)(0, keeper.store.bytes_on_disk(), HIDDEN);
    let _turn = keeper.turn().inspect_err(|_| {
        let cancelled = Note { outcome: Outcome::Cancelled, ..Note::of(OPERATION, raw) };
        // The caller is gone, so an error has no recipient; a ledger that refuses entries stops the service by itself.
        let _nobody_waits = keeper.record(cancelled);
    })?;
    let pace = keeper.pace("erasing", keeper.store.bytes_on_disk());
    keeper.store.erase_pending(&pace).map_err(unfinished)?;
    report.erased = plan.goes.len();
    finish(keeper, raw, report, plan.goes.keys().copied())
}

/// Returns all items that depend on hidden or erased items: the chunks of a document and, with `answers`, stored
/// answers of idempotent calls that name any of them.
///
/// # Errors
/// The number of items exceeds the limit of a request, or the store is damaged.
pub fn goes_with(
    snapshot: &Snapshot,
    items: &[(ItemId, RowAddress)],
    answers: bool,
) -> Result<BTreeMap<ItemId, RowAddress>, KeepError> {
    let mut plan = Plan::default();
    for (id, place) in items {
        plan.add(snapshot, *id, *place, None)?;
    }
    if answers {
        plan.add_answers(snapshot)?;
    }
    Ok(plan.goes.into_iter().map(|(id, (place, _))| (id, place)).collect())
}

/// Adds the ids to the pending erasures of every registered backup, and then calls `hide`, under one lock.
///
/// # Errors
/// The ids cannot be recorded, in which case nothing is hidden; or the error of `hide`.
pub fn noted<T>(
    data: &Path,
    workspace: &Workspace,
    ids: &BTreeSet<u128>,
    hide: impl FnOnce() -> Result<T, ServiceError>,
) -> Result<T, ServiceError> {
    let _noting = workspace.noting.lock().unwrap_or_else(PoisonError::into_inner);
    pending_everywhere(data, &workspace.name, ids).map_err(ServiceError::Unwritable)?;
    hide()
}

/// Returns the number of registered backups that still have to erase this id.
///
/// # Errors
/// The registry cannot be read.
pub fn waiting_in(data: &Path, id: u128) -> Result<usize, String> {
    let known = Known::read(data)?;
    Ok(known.backups.iter().filter(|backup| backup.pending.contains(&id)).count())
}

/// Returns the number of registered backups.
///
/// # Errors
/// The registry cannot be read.
pub fn backups_known(data: &Path) -> Result<usize, String> {
    Known::read(data).map(|known| known.backups.len())
}

/// Adds the ids to the pending erasures of every registered backup and hides the items, under one lock. A backup that
/// begins now either is registered before, or copies the tombstones.
fn hide(keeper: &Keeper<'_>, plan: &Plan, wanted: &Erase) -> Result<(), KeepError> {
    let goes: Vec<u128> = plan.goes.keys().map(|id| id.0).collect();
    let _noting = keeper.noting();
    let ids: BTreeSet<u128> = goes.iter().chain(&plan.gone).copied().collect();
    pending_everywhere(keeper.data, &keeper.caller.workspace, &ids)
        .map_err(|why| KeepError::failed(why, "nothing was erased"))?;
    if goes.is_empty() {
        return Ok(());
    }
    let hidden = keeper.store.begin_erasure(&goes, &wanted.by.0, &wanted.reason.0);
    hidden.map_err(|error| KeepError::failed(error, "nothing was erased; ask again"))
}

/// Resumes the erasures of earlier requests.
fn go_on(keeper: &Keeper<'_>, raw: &Value) -> Result<EraseReport, KeepError> {
    let pace = keeper.pace("erasing", keeper.store.bytes_on_disk());
    let waiting = keeper.store.item_erasures_pending().map_err(unfinished)?;
    keeper.store.erase_pending(&pace).map_err(unfinished)?;
    let left = keeper.store.item_erasures_pending().map_err(unfinished)?;
    let erased = waiting.saturating_sub(left);
    let report = EraseReport { erased, ..EraseReport::default() };
    finish(keeper, raw, report, [])
}

fn unfinished(error: WriteError) -> KeepError {
    KeepError::failed(format!("not everything is erased yet: {error}"), GO_ON)
}

/// Erases the ids in backups and on the remote, records the ledger entry, and reports what is pending.
fn finish(
    keeper: &Keeper<'_>,
    raw: &Value,
    report: EraseReport,
    items: impl IntoIterator<Item = ItemId>,
) -> Result<EraseReport, KeepError> {
    let waiting = keeper.store.erasures_pending().map_err(unfinished)?;
    let lost = erase_backups::erase(keeper)?;
    let far = erase_far::erase(keeper)?;
    let all_gone = waiting == 0
        && lost.iter().all(|it| it.done)
        && far.as_ref().is_none_or(FarErasure::is_everywhere);
    keeper.record(Note {
        touched: items.into_iter().map(|id| touched(Effect::Erased, id)).collect(),
        outcome: if all_gone { Outcome::Done } else { Outcome::Failed },
        ..Note::of(OPERATION, raw)
    })?;
    Ok(EraseReport {
        backups: lost,
        everywhere: Some(all_gone),
        pending: Some(waiting),
        remote: far.as_ref().map(FarErasure::report),
        ..report
    })
}

/// Adds the ids to the pending erasures of the remote and of every registered backup.
fn pending_everywhere(data: &Path, workspace: &str, ids: &BTreeSet<u128>) -> Result<(), String> {
    erase_far::note(data, workspace, ids.iter().copied())?;
    let mut known = Known::read(data)?;
    if known.backups.is_empty() {
        return Ok(());
    }
    known.must_lose(ids)?;
    known.write(data)
}

impl Plan {
    fn of(keeper: &Keeper<'_>, snapshot: &Snapshot, wanted: &Erase) -> Result<Self, KeepError> {
        let mut plan = Self::default();
        for text in &wanted.ids.0 {
            let Ok(id) = names::parse_item(&text.0) else {
                plan.missing.push(text.0.clone());
                continue;
            };
            plan.take(snapshot, id, wanted.chain, &text.0)?;
        }
        plan.add_answers(snapshot)?;
        for (id, (place, _)) in &plan.goes {
            let item = snapshot.item(*place).map_err(damaged)?;
            let what = What {
                workspace: &keeper.caller.workspace,
                kind: item.kind,
                sensitivity: item.sensitivity,
                gates: &item.gates,
            };
            let (verdict, rule) = keeper.caller.as_who(|who| {
                let decision = decide(keeper.rules, who, &what, Action::Erase);
                (decision.verdict, decision.rule.to_owned())
            });
            if verdict != Verdict::Allow {
                plan.held.push((*id, rule));
            }
        }
        Ok(plan)
    }

    /// Adds a requested id, with its chain if requested.
    fn take(
        &mut self,
        snapshot: &Snapshot,
        id: ItemId,
        chain: bool,
        text: &str,
    ) -> Result<(), KeepError> {
        match snapshot.find(id).map_err(damaged)? {
            Some(place) => self.add(snapshot, id, place, None)?,
            None if snapshot.is_erased(id.0).map_err(damaged)? => {
                self.gone.insert(id.0);
            }
            None => self.missing.push(text.to_owned()),
        }
        if !chain {
            return Ok(());
        }
        let chain = snapshot.chain(id).map_err(damaged)?;
        if chain.truncated {
            return Err(too_many());
        }
        for member in chain.members {
            if let Some(place) = member.address {
                self.add(snapshot, member.id, place, Some(id).filter(|_| member.id != id))?;
            }
        }
        Ok(())
    }

    /// Adds an item and, for a document, its chunks, which have the document's text.
    fn add(
        &mut self,
        snapshot: &Snapshot,
        id: ItemId,
        place: RowAddress,
        with: Option<ItemId>,
    ) -> Result<(), KeepError> {
        self.goes.entry(id).or_insert((place, with));
        let item = snapshot.item(place).map_err(damaged)?;
        if let Some(source) = item.source.filter(|_| item.kind == "document") {
            for place in snapshot.items_by_source(source).map_err(damaged)? {
                let other = snapshot.item(place).map_err(damaged)?;
                if other.kind == "chunk" {
                    self.goes.entry(other.id).or_insert((place, Some(id)));
                }
            }
        }
        if self.goes.len() > ERASE_ITEMS_MAX { Err(too_many()) } else { Ok(()) }
    }

    /// Adds stored answers of idempotent calls, which have the ids and titles of items. If a key whose answer was
    /// erased is used again, the call creates a new item.
    fn add_answers(&mut self, snapshot: &Snapshot) -> Result<(), KeepError> {
        for place in snapshot.item_addresses().map_err(damaged)? {
            if snapshot.kind(place).map_err(damaged)? != ANSWER_KIND {
                continue;
            }
            let answer = snapshot.item(place).map_err(damaged)?;
            let named = named_items(answer.text).into_iter().find(|id| self.goes.contains_key(id));
            if let Some(with) = named {
                self.goes.entry(answer.id).or_insert((place, Some(with)));
            }
        }
        if self.goes.len() > ERASE_ITEMS_MAX { Err(too_many()) } else { Ok(()) }
    }

    fn report(&self, snapshot: &Snapshot) -> Result<EraseReport, KeepError> {
        let named = |id: ItemId| -> Result<Option<String>, KeepError> {
            let Some((place, _)) = self.goes.get(&id) else { return Ok(None) };
            Ok(Some(names::of_item(&snapshot.item(*place).map_err(damaged)?)))
        };
        let mut items = Vec::with_capacity(self.goes.len());
        for (id, (place, with)) in &self.goes {
            let item = snapshot.item(*place).map_err(damaged)?;
            items.push(ErasedItem {
                id: names::item(item.kind, *id),
                kind: item.kind.to_owned(),
                title: item.title.to_owned(),
                with: with.map(named).transpose()?.flatten(),
            });
        }
        let mut held = Vec::with_capacity(self.held.len());
        for (id, rule) in &self.held {
            held.push(HeldItem { id: named(*id)?, rule: rule.clone() });
        }
        Ok(EraseReport {
            already: self.gone.len(),
            held,
            items,
            missing: self.missing.clone(),
            ..EraseReport::default()
        })
    }
}

/// Returns the item ids in the text of an answer.
fn named_items(text: &str) -> Vec<ItemId> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| names::parse_item(word).ok()).collect()
}

fn damaged(damage: engine::CorruptionError) -> KeepError {
    let remedy = if damage.is_unavailable() { "try again" } else { DAMAGED };
    KeepError::failed(damage, remedy)
}

fn too_many() -> KeepError {
    let why = format!("more than {ERASE_ITEMS_MAX} items would go; erase them in parts");
    KeepError::Wrong(why)
}
