//! `recalld erase ID...`: previews an erasure, asks for confirmation, and erases the items from the store and its
//! backups.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;
use serde_json::{Map, Value, json};

use super::common::Common;
use super::failure::Failure;
use super::keep::job;
use super::paint::plain;
use super::tell::{tell, tell_line};
use recalld_cluster::seats::{FarErasureState, NodeErasure};
use recalld_common::counted::{agreed, counted};
use recalld_embedding::model::{Bar, Unit};
use recalld_store_admin::{Erase, EraseReport, HeldItem};

/// Items listed in the preview.
const SHOWN_MAX: usize = 50;
const ROUTE: &str = "/operator/erase";

#[derive(Debug, Args)]
pub(super) struct EraseArgs {
    #[command(flatten)]
    common: Common,
    /// Ids of the items; a document is erased with its chunks.
    #[arg(required_unless_present = "pending", value_name = "ID")]
    ids: Vec<String>,
    /// The reason, which is stored with the id.
    #[arg(long, required_unless_present = "pending", value_name = "TEXT")]
    reason: Option<String>,
    /// The person who requests the erasure.
    #[arg(long, default_value = "operator", value_name = "WHO")]
    by: String,
    /// Erase the items' whole supersession chains, too.
    #[arg(long)]
    chain: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Resume the erasures that earlier requests left pending, for example in unreachable backups.
    #[arg(long, conflicts_with_all = ["ids", "reason", "chain"])]
    pending: bool,
}

pub(super) fn run(args: &EraseArgs) -> Result<(), Failure> {
    if args.pending {
        return ended(args, &ask(args, &json!({"ids": [], "reason": "", "pending": true}))?);
    }
    let wanted = |ids: &Value, dry_run: bool| {
        json!({
            "ids": ids, "reason": args.reason, "by": args.by, "dry_run": dry_run,
            "chain": args.chain && dry_run,
        })
    };
    let plan = ask(args, &wanted(&json!(args.ids), true))?;
    refused(args, &plan)?;
    if !args.yes {
        confirmed(args, &plan)?;
    }
    // Erase exactly the previewed items, whatever was written since.
    let shown: Vec<&String> = plan.items.iter().map(|item| &item.id).collect();
    let ids = if shown.is_empty() { json!(args.ids) } else { json!(shown) };
    let report = ask(args, &wanted(&ids, false))?;
    refused(args, &report)?;
    ended(args, &report)
}

fn ask(args: &EraseArgs, raw: &Value) -> Result<EraseReport, Failure> {
    let raw: Map<String, Value> = raw.as_object().cloned().unwrap_or_default();
    let wanted = Erase::parse(&raw).map_err(|error| Failure::Usage(error.to_string()))?;
    let bar = Bar::of_command(Unit::Bytes, args.common.json);
    job(&args.common.data()?, bar, ROUTE, &raw, |keeper| {
        recalld_store_admin::erase(keeper, &Value::Object(raw.clone()), &wanted)
    })
}

/// Returns an error if nothing was erased: an item is missing, or policy retains an item.
fn refused(args: &EraseArgs, report: &EraseReport) -> Result<(), Failure> {
    if !report.missing.is_empty() {
        let why = format!("there is no item {}; nothing was erased", report.missing.join(", "));
        return Err(Failure::Usage(why));
    }
    if report.held.is_empty() {
        return Ok(());
    }
    if args.common.json {
        tell_line(&json!(report))?;
    }
    let named =
        |held: &HeldItem| format!("{} ({})", held.id.as_deref().unwrap_or_default(), held.rule);
    let named: Vec<String> = report.held.iter().map(named).collect();
    Err(Failure::No(format!(
        "policy keeps {}; nothing was erased. A legal hold cannot be overridden here: leave these \
         items out",
        named.join(", ")
    )))
}

/// Prints the preview and asks for confirmation.
fn confirmed(args: &EraseArgs, plan: &EraseReport) -> Result<(), Failure> {
    let text = if args.common.json { format!("{}\n", json!(plan)) } else { readable(plan) };
    let mut out = io::stdout().lock();
    let shown = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    shown.map_err(Failure::could)?;
    if args.common.json || !io::stdin().is_terminal() {
        let why = "nothing was erased: there is nobody to ask; --yes erases what is shown";
        return Err(Failure::Usage(why.to_owned()));
    }
    write!(out, "Erase them for good? [y/N] ")
        .and_then(|()| out.flush())
        .map_err(Failure::could)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::could)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::No("nothing was erased".to_owned())),
    }
}

fn readable(plan: &EraseReport) -> String {
    let items = &plan.items;
    let mut text = format!("{} would be erased:\n", counted(items.len(), "item"));
    for item in items.iter().take(SHOWN_MAX) {
        let with = item.with.as_ref().map_or(String::new(), |with| format!("  (with {with})"));
        let (kind, title) = (plain(&item.kind), plain(&item.title));
        text.push_str(&format!("  {}  {kind}  {title}{with}\n", item.id));
    }
    if items.len() > SHOWN_MAX {
        text.push_str(&format!("  and {} more; --json shows all\n", items.len() - SHOWN_MAX));
    }
    match plan.already {
        0 => {}
        already => {
            text.push_str(&format!("{already} {} erased already\n", agreed(already, "is", "are")))
        }
    }
    text
}

/// Prints the erased and the pending places, and the command that proves the erasure.
fn ended(args: &EraseArgs, report: &EraseReport) -> Result<(), Failure> {
    if args.common.json {
        tell_line(&json!(report))?;
    } else {
        let erased = report.erased;
        let (items, were) = (counted(erased, "item"), agreed(erased, "was", "were"));
        let mut text = format!("{items} {were} erased from the store\n");
        for backup in report.backups.iter().filter(|backup| backup.done) {
            text.push_str(&format!("{} from the backup {}\n", backup.erased, backup.path));
        }
        if let Some(first) = report.items.first() {
            let proof = format!("recalld verify --erased {}", first.id);
            text.push_str(&format!("prove it with: {proof}{}\n", args.common.same_data()?));
        }
        tell(&text)?;
    }
    if report.everywhere == Some(true) {
        return Ok(());
    }
    if let Some(why) = only_the_remote(report) {
        return Err(Failure::No(why));
    }
    let mut why = String::from("not gone everywhere yet:");
    if let Some(pending @ 1..) = report.pending {
        why.push_str(&format!(" {} in the store;", counted(pending, "id")));
    }
    for backup in report.backups.iter().filter(|backup| !backup.done) {
        let reason = backup.why.as_deref().unwrap_or_default();
        why.push_str(&format!(" the backup {} ({reason});", backup.path));
    }
    if let Some(remote) = on_remote(report) {
        why.push_str(&format!(" the remote ({remote});"));
    }
    why.push_str(
        " make them reachable and run `recalld erase --pending`; \
         `recalld backup --forget DIR` for one that was deleted",
    );
    Err(Failure::No(why))
}

/// The remnants on a remote or on its followers; `None` if there are none.
fn on_remote(report: &EraseReport) -> Option<String> {
    let remote = report.remote.as_ref()?;
    let said = match remote.state {
        FarErasureState::Everywhere => return None,
        FarErasureState::Collecting => {
            "what went is removed once its records were known for five minutes".to_owned()
        }
        FarErasureState::Nodes => {
            let behind = remote.nodes.iter().filter(|node| !node.done);
            let behind: Vec<String> = behind.map(node_behind).collect();
            format!("not told yet by {}", behind.join(", "))
        }
        FarErasureState::Waiting => "no record says yet that it is gone".to_owned(),
    };
    match &remote.why {
        None => Some(said),
        Some(why) => Some(format!("{said}: {why}")),
    }
}

fn node_behind(node: &NodeErasure) -> String {
    let name = &node.node;
    match node.left {
        0 => format!("node {name}"),
        left => format!("node {name}, which set {} aside", counted(left, "store")),
    }
}

/// The message if only the remote still has remnants: the server continues by itself, and the user acts only for a node
/// that never returns.
fn only_the_remote(report: &EraseReport) -> Option<String> {
    let waits = report.backups.iter().any(|backup| !backup.done);
    if waits || report.pending.unwrap_or_default() > 0 {
        return None;
    }
    let remote = on_remote(report)?;
    Some(format!(
        "not gone everywhere yet: the remote ({remote}); the server goes on by itself, `recalld erase --pending` says \
         how far it is, and `recalld remote forget-node ADDRESS NODE` ends the wait for a node that never comes back"
    ))
}
