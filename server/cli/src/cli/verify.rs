//! `recalld verify`: checks every rule of the format on the store, the hash chain of the ledger, and the files of a
//! backup; or proves that an item is erased.
//!
//! Must not change or create anything.

use std::cell::RefCell;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use engine::ledger::LedgerReport;
use engine::os::disk::FsDisk;
use engine::{
    ERASURE_LIMITS, EdgeId, ErasureProof, OpenError, Remedy, VerifyReport, verify, verify_erased,
};
use serde_json::{Value, json};

use super::common::Common;
use super::failure::Failure;
use super::tell::tell;
use recalld_common::counted::counted;
use recalld_common::names;
use recalld_embedding::model::{Bar, Progress, Unit};
use recalld_store_admin::{BackupFiles, Beside, Place};

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    common: Common,
    /// Prove that the item or edge of this id is erased.
    #[arg(long, value_name = "ID")]
    erased: Option<String>,
    /// Search every byte of every file for this phrase, too.
    #[arg(
        long,
        value_name = "PHRASE",
        requires = "erased",
        value_parser = NonEmptyStringValueParser::new()
    )]
    text: Option<String>,
    /// A backup, another data directory, or a store's folder, instead of the data directory.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// The target of a check or salvage: the named folder, or the data directory.
pub(super) fn place_of(folder: Option<&Path>, common: &Common) -> Result<Place, Failure> {
    // A missing folder must not be created by the check.
    let Some(folder) = folder else { return Ok(Place::data(&common.data_with_store()?)) };
    let place = Place::of(folder);
    let store = place.store();
    if store.is_dir() {
        return Ok(place);
    }
    Err(Failure::Could(format!(
        "{}: there is no store; name a backup, a data directory or the folder of a store",
        store.display()
    )))
}

pub(super) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let id = args.erased.as_deref().map(number).transpose()?;
    let place = place_of(args.folder.as_deref(), &args.common)?;
    let folder = place.store();
    let disk = FsDisk::open(&folder).map_err(Failure::could)?;
    let mut checking = Checking::new(&folder, "checking", args.common.json);
    let mut told = |name: &str| checking.tell(name);
    let could = |error: OpenError| could(&folder, &error);
    if let Some(id) = id {
        let found = verify_erased(&disk, id, args.text.as_deref(), &mut told).map_err(could)?;
        let text = if args.common.json { proof_json(&found) } else { proof(&found) };
        tell(&text)?;
        return proven(&found);
    }
    let found = verify(&disk, &mut told).map_err(could)?;
    drop(checking);
    let Beside { ledger, backup } = beside(&place, args.common.json);
    let own = answer(&found, ledger.as_ref(), backup.as_ref());
    let tenants = place.tenants().map_err(Failure::Could)?;
    let check = |place: &Place| check_tenant(place, args.common.json);
    let tenants: Vec<Checked> = tenants.iter().map(check).collect::<Result<_, _>>()?;
    let first = tenants.iter().find_map(|tenant| tenant.answer().err());
    let answer = own.and(first.map_or(Ok(()), Err));
    let text = if args.common.json {
        let value = json!({
            "clean": answer.is_ok(),
            "store": to_json(&found),
            "ledger": ledger.as_ref().map(ledger_to_json),
            "backup": backup.as_ref().map(backup_to_json),
            "workspaces": tenants.iter().map(Checked::to_json).collect::<Vec<_>>(),
        });
        format!("{value}\n")
    } else {
        let ledger = ledger.as_ref().map(readable_ledger).unwrap_or_default();
        let own = readable(&found) + &ledger;
        let own = own + &backup.as_ref().map(readable_backup).unwrap_or_default();
        own + &tenants.iter().map(Checked::readable).collect::<String>()
    };
    tell(&text)?;
    answer
}

/// The findings for one tenant's workspace.
struct Checked {
    workspace: String,
    store: VerifyReport,
    ledger: Option<Result<LedgerReport, String>>,
}

/// Progress bar over the checked files of a store.
pub(super) struct Checking {
    bar: Bar,
    what: &'static str,
    done: u64,
    total: u64,
}

impl Checking {
    /// Counts the files that are in the store's folder now.
    pub(super) fn new(folder: &Path, what: &'static str, json: bool) -> Self {
        let total = std::fs::read_dir(folder).map_or(0, |entries| entries.count() as u64);
        Self { bar: Bar::of_command(Unit::Files, json), what, done: 0, total }
    }

    pub(super) fn tell(&mut self, _name: &str) {
        self.done += 1;
        self.bar.advance(self.what, self.done, Some(self.total.max(self.done)));
    }
}

/// Checks the files beside a store, with a progress bar.
fn beside(place: &Place, json: bool) -> Beside {
    let bar = RefCell::new(Bar::of_command(Unit::Entries, json));
    place.beside(&|what, done| bar.borrow_mut().advance(what, done, None))
}

fn check_tenant(place: &Place, json: bool) -> Result<Checked, Failure> {
    let folder = place.store();
    let disk = FsDisk::open(&folder).map_err(Failure::could)?;
    let mut checking = Checking::new(&folder, "checking", json);
    let store = verify(&disk, &mut |name: &str| checking.tell(name));
    let store = store.map_err(|error| could(&folder, &error))?;
    let Beside { ledger, .. } = beside(place, json);
    Ok(Checked { workspace: place.workspace().to_owned(), store, ledger })
}

impl Checked {
    fn answer(&self) -> Result<(), Failure> {
        answer(&self.store, self.ledger.as_ref(), None)
    }

    fn to_json(&self) -> Value {
        json!({
            "workspace": self.workspace, "clean": self.answer().is_ok(),
            "store": to_json(&self.store), "ledger": self.ledger.as_ref().map(ledger_to_json),
        })
    }

    /// Formats one line for the workspace and one per broken rule.
    fn readable(&self) -> String {
        let mut out = String::new();
        let items = counted(self.store.totals.items, "item");
        put(&mut out, &format!("workspace {}: {items}", self.workspace));
        for finding in &self.store.findings {
            put(&mut out, &format!("{:<10}{}", finding.rule, finding.detail));
        }
        out + &self.ledger.as_ref().map(readable_ledger).unwrap_or_default()
    }
}

/// Returns true if the store is clean and has no record of the erasure.
fn is_unknown(found: &ErasureProof) -> bool {
    !found.has_tombstone && found.report.is_clean()
}

/// Returns an error with a remedy unless the erasure is proven.
fn proven(found: &ErasureProof) -> Result<(), Failure> {
    let why = match found.is_proven() {
        true => return Ok(()),
        false if found.is_pending => {
            "the erasure is still pending; run `recalld serve` or erase again, then verify"
        }
        false if is_unknown(found) => {
            "never erased here: no tombstone names this id; erase it if it is there, or see that the \
             id and --data are right. What went with an item is proven by that item's id"
        }
        false => "not proven to be erased; erase it, or remove what is named",
    };
    Err(Failure::No(why.to_owned()))
}

/// Returns an error with a remedy unless everything is clean.
fn answer(
    found: &VerifyReport,
    ledger: Option<&Result<LedgerReport, String>>,
    backup: Option<&BackupFiles>,
) -> Result<(), Failure> {
    let no = |why: &str| Err(Failure::No(why.to_owned()));
    match (found.is_clean(), ledger, backup) {
        (false, _, Some(_)) => no("the backup's store is damaged; the next `recalld backup` into \
             it makes it whole, or bring out what can be read with `recalld salvage`"),
        (false, ..) => {
            no("the store is damaged; keep a copy of it, restore a backup, or bring out \
             what can be read with `recalld salvage`")
        }
        (_, Some(Err(_)), _) => {
            no("the ledger could not be checked; mend what is named, and verify again")
        }
        (_, Some(Ok(report)), _) if report.is_torn() => {
            no("the ledger's last entry was cut short by a crash; the next start removes it")
        }
        (_, Some(Ok(report)), _) if !report.ok => {
            no("the ledger is damaged; keep a copy of it, and restore a backup of it")
        }
        (.., Some(backup)) if !backup.findings.is_empty() => {
            no("the backup is damaged; make it again with `recalld backup`")
        }
        _ => Ok(()),
    }
}

/// Parses the id of an item or an edge.
fn number(text: &str) -> Result<u128, Failure> {
    let edge = || names::parse_edge(text).map(|EdgeId(number)| number);
    names::parse_item(text).map(|id| id.0).or_else(|_| edge()).map_err(|error| {
        Failure::Usage(format!("--erased: {text} is {error}; copy it from an export or an answer"))
    })
}

fn could(folder: &Path, error: &OpenError) -> Failure {
    let advice = match error.remedy() {
        Remedy::FixRequest => "say where the store is with --data DIR, or name its folder",
        Remedy::Upgrade => "use the newer build that wrote it",
        _ => "make sure that its files can be read, and try again",
    };
    Failure::Could(format!("{}: {error}; {advice}", folder.display()))
}

fn to_json(found: &VerifyReport) -> Value {
    let walked = found.totals;
    let finding = |it: &engine::CorruptionError| json!({"rule": it.rule, "detail": it.detail});
    json!({
        "clean": found.is_clean(),
        "manifest": found.manifest,
        "seq": found.seq,
        "segments": walked.segments, "states": walked.states,
        "indexes": walked.indexes, "logs": walked.logs,
        "bytes": walked.bytes, "items": walked.items, "sources": walked.sources,
        "edges": walked.edges, "tombstones": walked.tombstones, "embeddings": walked.vectors,
        "findings": found.findings.iter().map(finding).collect::<Vec<_>>(),
        "more_findings": found.more_findings,
        "notes": found.notes,
        "more_notes": found.more_notes,
    })
}

fn readable(found: &VerifyReport) -> String {
    let walked = found.totals;
    let mut out = String::new();
    let rows = [
        ("segments", walked.segments),
        ("states", walked.states),
        ("indexes", walked.indexes),
        ("logs", walked.logs),
        ("bytes", walked.bytes),
        ("items", walked.items),
        ("sources", walked.sources),
        ("edges", walked.edges),
        ("tombstones", walked.tombstones),
        ("embeddings", walked.vectors),
        ("newest commit", found.seq),
    ];
    for (what, count) in rows {
        put(&mut out, &format!("{what:<14}{count:>16}"));
    }
    for note in &found.notes {
        put(&mut out, &format!("note      {note}"));
    }
    if found.more_notes > 0 {
        put(&mut out, &format!("note      and {} more", found.more_notes));
    }
    for finding in &found.findings {
        put(&mut out, &format!("{:<10}{}", finding.rule, finding.detail));
    }
    match (found.findings.len(), found.more_findings) {
        (0, _) => put(&mut out, "the store is clean"),
        (told, more) => put(&mut out, &counted(told as u64 + more, "broken rule")),
    }
    out
}

fn put(out: &mut String, line: &str) {
    writeln!(out, "{line}").expect("writing to a string does not fail");
}

fn proof_json(found: &ErasureProof) -> String {
    let explained =
        found.explained.iter().map(|one| json!({"file": one.file, "at": one.at, "what": one.what}));
    let value = json!({
        "proven": found.is_proven(),
        "pending": found.is_pending,
        "tombstone": found.has_tombstone,
        "left": found.unproven_reasons,
        "explained": explained.collect::<Vec<_>>(),
        "more": found.more_occurrences,
        "cannot_tell": ERASURE_LIMITS,
        "store": to_json(&found.report),
    });
    format!("{value}\n")
}

fn proof(found: &ErasureProof) -> String {
    let mut out = String::new();
    for finding in &found.report.findings {
        put(&mut out, &format!("{:<10}{}", finding.rule, finding.detail));
    }
    for one in &found.explained {
        put(&mut out, &format!("may stay  {}, byte {}: {}", one.file, one.at, one.what));
    }
    for why in &found.unproven_reasons {
        put(&mut out, &format!("left      {why}"));
    }
    if found.more_occurrences > 0 {
        put(&mut out, &format!("          and {} more", found.more_occurrences));
    }
    if !found.has_tombstone {
        put(&mut out, "note      no tombstone says that this id was erased");
    }
    let answer = match found.is_proven() {
        true => "nothing of it is left in the files of the store",
        false if found.is_pending => "its bytes are still to be removed",
        false if is_unknown(found) => "it was never erased here",
        false => "it is not proven that nothing of it is left",
    };
    put(&mut out, answer);
    for limit in ERASURE_LIMITS {
        put(&mut out, &format!("not told  {limit}"));
    }
    out
}

fn ledger_to_json(walked: &Result<LedgerReport, String>) -> Value {
    match walked {
        Ok(report) => json!({
            "clean": report.ok, "checked": true, "entries": report.entries,
            "checkpoints": report.checkpoints.count, "unsigned": report.unsigned,
            "fault": report.fault.as_ref().map(ToString::to_string),
        }),
        Err(why) => json!({
            "clean": false, "checked": false, "entries": null, "checkpoints": null,
            "unsigned": null, "fault": why,
        }),
    }
}

fn readable_ledger(walked: &Result<LedgerReport, String>) -> String {
    let report = match walked {
        Ok(report) => report,
        Err(why) => return format!("the ledger was not checked: {why}\n"),
    };
    let (count, unsigned) = (report.checkpoints.count, report.unsigned);
    let answer = match &report.fault {
        None => "clean".to_owned(),
        Some(fault) => format!("damaged: {fault}"),
    };
    format!(
        "the ledger of {} and {} ({unsigned} unsigned) is {answer}\n",
        counted(report.entries, "entry"),
        counted(count, "checkpoint"),
    )
}

fn backup_to_json(backup: &BackupFiles) -> Value {
    json!({
        "clean": backup.findings.is_empty(), "made_at": backup.made_at, "files": backup.files,
        "findings": backup.findings,
    })
}

fn readable_backup(backup: &BackupFiles) -> String {
    let mut out = String::new();
    backup.findings.iter().for_each(|finding| put(&mut out, finding));
    if backup.findings.is_empty() {
        let made_at = backup.made_at.as_deref().unwrap_or_default();
        put(
            &mut out,
            &format!(
                "the backup of {made_at}, {} beside the store, is clean",
                counted(backup.files, "file")
            ),
        );
    }
    out
}
