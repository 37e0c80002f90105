//! `recalld ledger verify` and `recalld ledger show`: the audit ledger of a workspace.
//!
//! Both read the files, change nothing, and work beside a running server. `verify` reads the last recorded checkpoint
//! from the metastore, or from the server that has it open. While `verify` has the metastore open, no other process can
//! open it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use engine::ledger::{
    Anchor, Entry, LedgerReader, LedgerReport, ReadError, VerifyOptions, verify_with_progress,
};
use engine::{ItemId, Micros, hex};
use serde_json::{Value, json};

use super::anchors;
use super::anchors::{Kept, Known};
use super::common::Common;
use super::failure::Failure;
use super::tell::{tell, tell_line};
use recalld_common::counted::{agreed, counted};
use recalld_common::names;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_common::slug::is_slug;
use recalld_embedding::model::{Bar, Progress, Unit, hex_digest};
use recalld_fs_util::data_dir::tenant_dir;
use recalld_store_admin::LedgerPlace;

/// Number of entries shown by default.
const SHOWN_DEFAULT: u32 = 20;
/// Largest number of entries shown: entries are buffered until the end of the ledger is known.
const SHOWN_MAX: u32 = 100_000;

#[derive(Debug, Args)]
pub(super) struct LedgerArgs {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: LedgerCommand,
}

#[derive(Debug, Subcommand)]
enum LedgerCommand {
    /// Verify the hash chain and every signature.
    Verify(VerifyArgs),
    /// Print entries, oldest first.
    Show(ShowArgs),
}

/// The selected ledger.
#[derive(Debug, Args)]
struct Whose {
    /// The workspace.
    #[arg(long, value_name = "NAME", default_value = LOCAL_WORKSPACE)]
    workspace: String,
    /// Use a ledger in this folder instead of the data directory's, such as another node's ledger from `recalld remote
    /// restore`. Keys are those of the data directory.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    #[command(flatten)]
    whose: Whose,
    /// Verify the ledgers of all workspaces, including deleted ones.
    #[arg(long, conflicts_with_all = ["workspace", "folder", "anchor"])]
    all: bool,
    /// A checkpoint retained elsewhere, used instead of the recorded one: sequence number and hash, as printed by an
    /// earlier `verify`. A ledger that was truncated before the checkpoint or rewritten fails.
    #[arg(long, value_name = "SEQ:HASH", value_parser = anchor)]
    anchor: Option<Anchor>,
}

#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    whose: Whose,
    /// Show the newest N of the matching entries.
    #[arg(
        long,
        value_name = "N",
        default_value_t = SHOWN_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(SHOWN_MAX))
    )]
    last: u32,
    /// Start from this entry.
    #[arg(long, value_name = "SEQ", default_value_t = 1)]
    from: u64,
    /// Show only the entry of this receipt.
    #[arg(long, value_name = "ID")]
    receipt: Option<String>,
    /// Show only calls of this tool or operation.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Show only calls of this principal.
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Show only calls that list this item.
    #[arg(long, value_name = "ID")]
    item: Option<String>,
}

pub(super) fn run(args: &LedgerArgs) -> Result<(), Failure> {
    match &args.command {
        LedgerCommand::Verify(wanted) => run_verify(&args.common, wanted),
        LedgerCommand::Show(wanted) => run_show(&args.common, wanted),
    }
}

fn anchor(text: &str) -> Result<Anchor, String> {
    let parts = text.split_once(':');
    let parts = parts.and_then(|(seq, head)| Some((seq.parse().ok()?, hex_digest(head)?)));
    let (seq, head) = parts.ok_or("a number, a colon and 64 hexadecimal digits are wanted")?;
    Ok(Anchor { seq, head })
}

fn place(common: &Common, whose: &Whose) -> Result<LedgerPlace, Failure> {
    let name = &whose.workspace;
    if !is_slug(name) {
        return Err(Failure::Usage(format!("--workspace {name}: not the name of a workspace")));
    }
    let data: PathBuf = common.data_there()?;
    if let Some(folder) = &whose.folder {
        if !folder.is_dir() {
            return Err(Failure::Could(format!("--folder {}: not a folder", folder.display())));
        }
        return Ok(LedgerPlace::brought(folder.clone(), &data, name));
    }
    LedgerPlace::of(&data, name).ok_or_else(|| {
        let data = data.display();
        Failure::Could(format!(
            "{data}: the workspace {name} has no ledger; say where the data is with --data DIR"
        ))
    })
}

fn run_verify(common: &Common, wanted: &VerifyArgs) -> Result<(), Failure> {
    let data = common.data_there()?;
    // Recorded checkpoints belong to the data directory's own ledgers.
    let is_own = wanted.whose.folder.is_none();
    let (kept, unknown) = match wanted.anchor {
        Some(_) => (Kept::new(), None),
        None if !is_own => (Kept::new(), None),
        None => anchors::of(&data).map_or_else(|why| (Kept::new(), Some(why)), |it| (it, None)),
    };
    let names = match wanted.all {
        true => anchors::workspaces(&data, &kept)?,
        false => vec![wanted.whose.workspace.clone()],
    };
    let mut walked = Vec::with_capacity(names.len());
    for name in names {
        let known = kept.get(&name).map(Vec::as_slice).unwrap_or_default();
        let whose = Whose { workspace: name, folder: wanted.whose.folder.clone() };
        walked.push(walk(common, whose, (wanted.anchor, known), wanted.all)?);
    }
    if common.json {
        let shown = match wanted.all {
            true => json!({
                "ok": walked.iter().all(Walked::is_ok),
                "ledgers": walked.iter().map(named_json).collect::<Vec<_>>(),
            }),
            false => walked.first().map(to_json).unwrap_or_default(),
        };
        tell_line(&shown)?;
    } else {
        let head = |name: &str| if wanted.all { format!("{name}\n") } else { String::new() };
        let shown = walked.iter().map(|walked| head(&walked.workspace) + &readable(walked));
        tell(&shown.collect::<String>())?;
    }
    verdict(&walked)?;
    unknown.map_or(Ok(()), |why| {
        let what = "the last checkpoint on record could not be asked for, so a tail that was cut off would not show";
        Err(Failure::Could(format!("{what}: {why}")))
    })
}

/// The result for one ledger.
struct Walked {
    workspace: String,
    /// `None` if there is no ledger.
    report: Option<LedgerReport>,
    /// Recorded checkpoints of the workspace's former ledgers on this node.
    others: Vec<Anchor>,
}

impl Walked {
    fn is_ok(&self) -> bool {
        self.report.as_ref().is_none_or(|report| report.ok)
    }
}

/// Verifies one ledger against the given checkpoint, or against its own recorded checkpoint. A recorded ledger that is
/// missing is a finding. With `may_be_gone` (the check of all ledgers), a missing ledger is no fault if the node may
/// have begun another.
fn walk(
    common: &Common,
    whose: Whose,
    (given, known): (Option<Anchor>, &[Known]),
    may_be_gone: bool,
) -> Result<Walked, Failure> {
    let was_brought =
        recalld_replication::was_brought(&tenant_dir(&common.data()?, &whose.workspace));
    let place = place(common, &whose);
    let opened = place.as_ref().ok().and_then(|place| LedgerReader::open(place.folder()).ok());
    // If the first entry is unreadable, the verification reports the fault.
    let first = opened.and_then(|reader| reader.first_hash().ok().flatten());
    let (own, others) = anchors::divide(known, was_brought, first);
    let place = match (place, own) {
        (Ok(place), _) => place,
        (Err(_), Some(lost)) => return Err(gone(&common.data()?, &whose.workspace, lost)),
        (Err(_), None) if may_be_gone && !others.is_empty() => {
            return Ok(Walked { workspace: whose.workspace, report: None, others });
        }
        (Err(why), None) => return Err(why),
    };
    let report = walk_to_its_end(common, &place, given.or(own))?;
    Ok(Walked { workspace: whose.workspace, report: Some(report), others })
}

/// The error for a ledger that was on this disk and is missing.
fn gone(data: &Path, workspace: &str, Anchor { seq, .. }: Anchor) -> Failure {
    Failure::No(format!(
        "LED-19: {}: the ledger of the workspace {workspace} is gone, and {} of it {} on record; \
         restore a backup of it",
        data.display(),
        counted(seq, "entry"),
        agreed(seq, "is", "are"),
    ))
}

fn walk_to_its_end(
    common: &Common,
    place: &LedgerPlace,
    anchor: Option<Anchor>,
) -> Result<LedgerReport, Failure> {
    let seals = place.verifier().map_err(Failure::Could)?;
    let bar = RefCell::new(Bar::of_command(Unit::Entries, common.json));
    // A recorded checkpoint is near the ledger's end, so its number estimates the total.
    let tell = |walked: u64| {
        let total = anchor.map(|anchor| anchor.seq.max(walked));
        bar.borrow_mut().advance("checking", walked, total);
    };
    let with = VerifyOptions { anchor, ..VerifyOptions::all(&seals) };
    verify_with_progress(place.folder(), &with, &tell).map_err(unread)
}

/// Returns an error for the worst fault among the ledgers.
fn verdict(walked: &[Walked]) -> Result<(), Failure> {
    let mut faulty =
        walked.iter().filter_map(|walked| walked.report.as_ref().filter(|it| it.fault.is_some()));
    let torn = faulty.clone().next();
    let broken = faulty.find(|report| !report.is_torn());
    match (broken, torn) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Failure::No(
            "the last entry was cut short by a crash; the next start removes it".to_owned(),
        )),
        (Some(_), _) => Err(Failure::No(
            "the ledger is damaged or was changed; keep a copy of it, and restore a backup of it"
                .to_owned(),
        )),
    }
}

fn named_json(walked: &Walked) -> Value {
    let mut shown = to_json(walked);
    shown["workspace"] = walked.workspace.as_str().into();
    shown
}

fn unread(error: ReadError) -> Failure {
    Failure::Could(format!("{error}; make sure that the ledger's files can be read"))
}

fn to_json(walked: &Walked) -> Value {
    let mut shown =
        walked.report.as_ref().map_or_else(|| json!({"ok": true, "entries": 0}), reported);
    if !walked.others.is_empty() {
        let other = |anchor: &Anchor| json!({"seq": anchor.seq, "head_hash": hex(&anchor.head)});
        shown["others"] = walked.others.iter().map(other).collect();
    }
    shown
}

fn reported(report: &LedgerReport) -> Value {
    json!({
        "ok": report.ok, "entries": report.entries, "head_seq": report.head_seq,
        "head_hash": hex(&report.head_hash),
        "checkpoints": {"count": report.checkpoints.count, "ok": report.checkpoints.ok},
        "unsigned": report.unsigned, "fault": report.fault.as_ref().map(|fault| fault.rule),
        "what": report.fault.as_ref().map(ToString::to_string),
    })
}

fn readable(walked: &Walked) -> String {
    let mut out = String::new();
    let mut put = |what: &str, value: &dyn std::fmt::Display| {
        writeln!(out, "{what:<14}{value}").expect("writing to a string does not fail");
    };
    for other in &walked.others {
        let up_to =
            format_args!("this node kept one before, up to entry {}, which is not here", other.seq);
        put("another", &up_to);
    }
    let Some(report) = &walked.report else {
        put("the ledger", &"has not begun");
        return out;
    };
    put("entries", &report.entries);
    put("checkpoints", &report.checkpoints.count);
    put("unsigned", &report.unsigned);
    put("head", &format_args!("{}:{}", report.head_seq, hex(&report.head_hash)));
    match &report.fault {
        None => put("the ledger", &"is whole: every entry follows, every signature is good"),
        Some(fault) => put(fault.rule, &fault),
    }
    out
}

fn run_show(common: &Common, wanted: &ShowArgs) -> Result<(), Failure> {
    let item = wanted.item.as_deref().map(names::parse_item).transpose();
    let item = item.map_err(|error| Failure::Usage(format!("--item: {error}")))?;
    let place = place(common, &wanted.whose)?;
    let reader = LedgerReader::open(place.folder()).map_err(unread)?;
    let mut shown: VecDeque<Entry> = VecDeque::new();
    let mut bar = Bar::of_command(Unit::Entries, common.json);
    let entries = reader.entries(wanted.from.max(1)).map_err(unread)?;
    for (at, entry) in (1..).zip(entries) {
        let entry = entry.map_err(unread)?;
        bar.advance("reading", at, None);
        if !is_wanted(&entry, wanted, item) {
            continue;
        }
        if shown.len() == wanted.last as usize {
            shown.pop_front();
        }
        shown.push_back(entry);
    }
    drop(bar);
    if shown.is_empty() {
        return Err(Failure::No("no entry is as asked for".to_owned()));
    }
    let line = |entry: &Entry| match common.json {
        true => format!("{}\n", entry_json(entry)),
        false => readable_entry(entry),
    };
    tell(&shown.iter().map(line).collect::<String>())
}

fn receipt_of(entry: &Entry) -> String {
    format!("rcp_{}", hex(&entry.receipt))
}

fn is_wanted(entry: &Entry, wanted: &ShowArgs, item: Option<ItemId>) -> bool {
    let is = |wanted: &Option<String>, found: &str| {
        wanted.as_deref().is_none_or(|wanted| wanted == found)
    };
    let item = item.map(|id| id.0.to_le_bytes());
    is(&wanted.receipt, &receipt_of(entry))
        && is(&wanted.tool, &entry.tool)
        && is(&wanted.principal, &entry.principal)
        && item.is_none_or(|id| entry.touched.iter().any(|touched| touched.item == id))
}

/// The time of an entry as text.
fn at(entry: &Entry) -> String {
    names::time(Micros(i64::try_from(entry.at_micros).unwrap_or(i64::MAX)))
}

fn entry_json(entry: &Entry) -> Value {
    let touched = entry.touched.iter().map(|one| {
        let id = ItemId(u128::from_le_bytes(one.item));
        json!({"effect": one.effect.word(), "item": names::item("", id)})
    });
    json!({
        "seq": entry.seq, "at": at(entry), "tool": entry.tool, "principal": entry.principal,
        "decision": entry.decision.word(), "rule": entry.rule, "outcome": entry.outcome.word(),
        "receipt_id": receipt_of(entry), "arguments_sha256": hex(&entry.arguments),
        "touched": touched.collect::<Vec<_>>(), "touched_total": entry.touched_total,
        "hash": hex(&entry.hash),
    })
}

fn readable_entry(entry: &Entry) -> String {
    format!(
        "{:>8}  {}  {:<9} {:<6} {}  {}  {}  {}  {}\n",
        entry.seq,
        at(entry),
        entry.outcome.word(),
        entry.decision.word(),
        entry.tool,
        entry.principal,
        entry.rule,
        counted(entry.touched_total, "item"),
        receipt_of(entry),
    )
}
