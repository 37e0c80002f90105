//! `recalld verify`: every rule of the format over the store, and the chain of the ledger; or a proof
//! that nothing of an item is left.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use engine::ledger::{self, VerifyWith};
use engine::os::disk::RealDisk;
use engine::{ERASURE_LIMITS, EdgeId, Erasure, OpenError, Remedy, Verified, verify, verify_erased};
use serde_json::{Value, json};

use super::{Common, Failure};
use crate::app;
use crate::auth::Verifier;
use crate::names;

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    common: Common,
    /// Prove that nothing is left of the item or edge of this id.
    #[arg(long, value_name = "ID")]
    erased: Option<String>,
    /// Look for this phrase in every byte of every file, too.
    #[arg(long, value_name = "PHRASE", requires = "erased")]
    text: Option<String>,
    /// A store's folder, such as a backup, instead of that of the data directory.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// The folder of a store: the one that is named, or that of the data directory.
pub(super) fn store_of(folder: Option<&Path>, common: &Common) -> Result<PathBuf, Failure> {
    let (found, advice) = match folder {
        Some(folder) => (folder.to_owned(), "name the folder of a store or a backup"),
        None => {
            (app::workspace_dir(&common.data()?).join("store"), "say where it is with --data DIR")
        }
    };
    // A folder that is not there must not be made by looking at it.
    if found.is_dir() {
        return Ok(found);
    }
    Err(Failure::Could(format!("{}: there is no store; {advice}", found.display())))
}

pub(super) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let id = args.erased.as_deref().map(number).transpose()?;
    let folder = store_of(args.folder.as_deref(), &args.common)?;
    let disk = RealDisk::open(&folder).map_err(Failure::could)?;
    let mut told = |name: &str| eprintln!("recalld: {name}");
    let could = |error: OpenError| could(&folder, &error);
    if let Some(id) = id {
        let found = verify_erased(&disk, id, args.text.as_deref(), &mut told).map_err(could)?;
        let text = if args.common.json { proof_json(&found) } else { proof(&found) };
        print!("{text}");
        return match found.is_proven() {
            true => Ok(()),
            false if found.is_pending => Err(Failure::No(
                "the erasure is still pending; run `recalld serve` or erase again, then verify"
                    .into(),
            )),
            false => Err(Failure::No(
                "not proven to be erased; erase it, or remove what is named".into(),
            )),
        };
    }
    let found = verify(&disk, &mut told).map_err(could)?;
    let ledger = match args.folder {
        None => of_ledger(&args.common.data()?)?,
        Some(_) => Ledger::NotThere,
    };
    let text = if args.common.json {
        let value = json!({
            "clean": found.is_clean() && ledger.is_right(),
            "store": to_json(&found),
            "ledger": ledger.to_json(),
        });
        format!("{value}\n")
    } else {
        readable(&found) + &ledger.readable()
    };
    print!("{text}");
    if !found.is_clean() {
        let why = "the store is damaged; restore a backup, or bring out what can be read with \
                   `recalld salvage`";
        return Err(Failure::No(why.to_owned()));
    }
    if !ledger.is_right() {
        let why = "the ledger is damaged; keep a copy of it, and restore a backup of it";
        return Err(Failure::No(why.to_owned()));
    }
    Ok(())
}

/// The number of an item's or edge's id.
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

fn to_json(found: &Verified) -> Value {
    let walked = found.walked;
    let finding = |it: &engine::Damage| json!({"rule": it.rule, "detail": it.detail});
    json!({
        "clean": found.is_clean(),
        "manifest": found.manifest,
        "seq": found.seq,
        "segments": walked.segments, "states": walked.states, "logs": walked.logs,
        "bytes": walked.bytes, "items": walked.items, "sources": walked.sources,
        "edges": walked.edges, "tombstones": walked.tombstones, "embeddings": walked.vectors,
        "findings": found.findings.iter().map(finding).collect::<Vec<_>>(),
        "more_findings": found.more_findings,
        "notes": found.notes,
        "more_notes": found.more_notes,
    })
}

fn readable(found: &Verified) -> String {
    let walked = found.walked;
    let mut out = String::new();
    let rows = [
        ("segments", walked.segments),
        ("states", walked.states),
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
        (told, more) => put(&mut out, &format!("{} broken rules", told as u64 + more)),
    }
    out
}

fn put(out: &mut String, line: &str) {
    writeln!(out, "{line}").expect("writing to a string does not fail");
}

fn proof_json(found: &Erasure) -> String {
    let explained =
        found.explained.iter().map(|one| json!({"file": one.file, "at": one.at, "what": one.what}));
    let value = json!({
        "proven": found.is_proven(),
        "pending": found.is_pending,
        "tombstone": found.has_tombstone,
        "left": found.left,
        "explained": explained.collect::<Vec<_>>(),
        "more": found.more,
        "cannot_tell": ERASURE_LIMITS,
        "store": to_json(&found.verified),
    });
    format!("{value}\n")
}

fn proof(found: &Erasure) -> String {
    let mut out = String::new();
    for finding in &found.verified.findings {
        put(&mut out, &format!("{:<10}{}", finding.rule, finding.detail));
    }
    for one in &found.explained {
        put(&mut out, &format!("may stay  {}, byte {}: {}", one.file, one.at, one.what));
    }
    for why in &found.left {
        put(&mut out, &format!("left      {why}"));
    }
    if found.more > 0 {
        put(&mut out, &format!("          and {} more", found.more));
    }
    if !found.has_tombstone {
        put(&mut out, "note      no tombstone says that this id was erased");
    }
    let answer = match (found.is_proven(), found.is_pending) {
        (true, _) => "nothing of it is left in the files of the store",
        (false, true) => "its bytes are still to be removed",
        (false, false) => "it is not proven that nothing of it is left",
    };
    put(&mut out, answer);
    for limit in ERASURE_LIMITS {
        put(&mut out, &format!("not told  {limit}"));
    }
    out
}

/// What the walk through the ledger found.
enum Ledger {
    /// None is there, or none belongs to what was named.
    NotThere,
    Walked(ledger::Report),
}

/// The ledger of the workspace, checked with the public half of the key that signs it.
fn of_ledger(data: &Path) -> Result<Ledger, Failure> {
    let folder = app::workspace_dir(data).join("ledger");
    if !folder.is_dir() {
        return Ok(Ledger::NotThere);
    }
    // Keys that are not there must not be made by looking for them.
    let key = data.join("keys/signing.key");
    if !key.is_file() {
        let why = "is not there, so the ledger cannot be checked; restore it from a backup";
        return Err(Failure::Could(format!("{} {why}", key.display())));
    }
    let (credentials, _) = app::credentials(data).map_err(Failure::could)?;
    let verifier: Verifier = credentials.signer().verifier();
    let report = ledger::verify(&folder, &VerifyWith::whole(&verifier)).map_err(|error| {
        let advice = "make sure that its files can be read, and try again";
        Failure::Could(format!("{}: {error}; {advice}", folder.display()))
    })?;
    Ok(Ledger::Walked(report))
}

impl Ledger {
    fn is_right(&self) -> bool {
        match self {
            Self::NotThere => true,
            Self::Walked(report) => report.ok,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::NotThere => Value::Null,
            Self::Walked(report) => json!({
                "clean": report.ok, "entries": report.entries,
                "checkpoints": report.checkpoints.count, "unsigned": report.unsigned,
                "fault": report.fault.as_ref().map(ToString::to_string),
            }),
        }
    }

    fn readable(&self) -> String {
        match self {
            Self::NotThere => String::new(),
            Self::Walked(report) => {
                let entries = report.entries;
                let (count, unsigned) = (report.checkpoints.count, report.unsigned);
                let answer = match &report.fault {
                    None => "clean".to_owned(),
                    Some(fault) => format!("damaged: {fault}"),
                };
                format!(
                    "the ledger of {entries} entries and {count} checkpoints ({unsigned} entries \
                     unsigned) is {answer}\n"
                )
            }
        }
    }
}
