//! `recalld backup DIR`: copies all data to another folder, in-process or through a running server.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use super::common::Common;
use super::failure::Failure;
use super::keep::{count, job};
use super::paint::Paint;
use super::tell::{tell, tell_line};
use recalld_common::counted::{agreed, counted};
use recalld_embedding::model::{Bar, Unit};
use recalld_store_admin::{Backup, Standing};

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    #[command(flatten)]
    common: Common,
    /// The backup folder: new, empty, or from an earlier backup.
    #[arg(required_unless_present_any = ["list", "forget_missing"])]
    dir: Option<PathBuf>,
    /// Copy the credentials and the signing key, too: anyone with the backup can then act as you.
    #[arg(long)]
    with_keys: bool,
    /// Copy nothing: the backup in DIR was deleted, so erasures need not wait for it.
    #[arg(long, conflicts_with = "with_keys")]
    forget: bool,
    /// Copy nothing: list the known backups and their pending erasures.
    #[arg(long, conflicts_with_all = ["dir", "with_keys", "forget", "forget_missing"])]
    list: bool,
    /// Copy nothing: forget every backup that is missing from its folder. Use this only if no backup disk is detached:
    /// erasures no longer wait for forgotten backups.
    #[arg(long, conflicts_with_all = ["dir", "with_keys", "forget"])]
    forget_missing: bool,
}

pub(super) fn run(args: &BackupArgs) -> Result<(), Failure> {
    let raw = arguments(args)?;
    let wanted = Backup::parse(&raw).map_err(|error| Failure::Usage(error.to_string()))?;
    let bar = Bar::of_command(Unit::Bytes, args.common.json);
    let report = job(&args.common.data()?, bar, "/operator/backup", &raw, |keeper| {
        recalld_store_admin::backup(keeper, &Value::Object(raw.clone()), &wanted)
    })?;
    if args.common.json {
        tell_line(&report)
    } else if args.list {
        tell(&listed(&report))
    } else if args.forget || args.forget_missing {
        let paths = rows(&report, "forgotten").iter().filter_map(Value::as_str);
        match paths.map(|path| format!("forgot the backup in {path}\n")).collect::<String>() {
            none if none.is_empty() => tell_line(&"every known backup is in its place"),
            forgotten => tell(&forgotten),
        }
    } else {
        tell_line(&readable(&report))
    }
}

fn arguments(args: &BackupArgs) -> Result<Map<String, Value>, Failure> {
    let path = args.dir.as_deref().map(absolute).transpose()?.unwrap_or_default();
    let path = path.to_str().ok_or_else(|| {
        Failure::Usage(format!("{} is not UTF-8, which paths must be", path.display()))
    })?;
    let raw = json!({
        "path": path, "with_keys": args.with_keys, "forget": args.forget, "list": args.list,
        "forget_missing": args.forget_missing,
    });
    Ok(raw.as_object().cloned().unwrap_or_default())
}

/// Resolves to an absolute path without symbolic links.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(path)
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    Ok(recalld_store_admin::real_path(&path))
}

fn rows<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report[name].as_array().map_or(&[], Vec::as_slice)
}

/// Formats one line per known backup, and the schedule.
fn listed(report: &Value) -> String {
    let paint = Paint::stdout();
    let line = |row: &Value| {
        let word = |name: &str| row[name].as_str().unwrap_or_default();
        let seen = match word("seen") {
            "there" if row["made_at"].is_null() => paint.warn("there, never finished"),
            "there" => paint.good(&format!("there, made {}", word("made_at"))),
            "another" => paint.bad("another backup is in its place"),
            "unreadable" => paint.bad(&format!("cannot be read: {}", word("why"))),
            _ => paint.warn("not there"),
        };
        let by = if row["scheduled"] == true { ", on schedule" } else { "" };
        let pending = count(row, "pending");
        let (pending, are) = (counted(pending, "erased id"), agreed(pending, "is", "are"));
        format!("{}  {seen}{by}; {pending} {are} still to go from it\n", word("path"))
    };
    let known = match rows(report, "backups") {
        [] => "no backup is known\n".to_owned(),
        backups => backups.iter().map(line).collect(),
    };
    known + &scheduled(paint, &report["schedule"])
}

/// Formats the backup schedule of a running server; empty if there is none.
fn scheduled(paint: Paint, schedule: &Value) -> String {
    if schedule.is_null() {
        return String::new();
    }
    let word = |name: &str| schedule[name].as_str().unwrap_or("-");
    let (every, to, keep) = (word("every"), word("to"), count(schedule, "keep"));
    let mut out = format!(
        "the server makes one every {every} in {to} and keeps {keep}; the next is due {}\n",
        word("next_at")
    );
    if schedule["failed_at"].is_string() {
        let why = format!(
            "the last attempt, {}, came to nothing: {}",
            word("failed_at"),
            word("failed_why")
        );
        out.push_str(&format!("{}\n", paint.bad(&why)));
    } else if schedule["state"] == Standing::Overdue.word() {
        let why = format!("the one that was due {} is not made", word("due_at"));
        out.push_str(&format!("{}\n", paint.bad(&why)));
    }
    out
}

fn readable(report: &Value) -> String {
    let (reused, entries) = (count(report, "reused"), count(report, "ledger_entries"));
    let mut text = format!(
        "{} in {} ({}) to {}, {reused} {} there; as of commit {}; the ledger's {} {}",
        counted(count(report, "workspaces"), "workspace"),
        counted(count(report, "files"), "file"),
        counted(count(report, "bytes"), "byte"),
        report["path"].as_str().unwrap_or_default(),
        agreed(reused, "was", "were"),
        count(report, "seq"),
        counted(entries, "entry"),
        agreed(entries, "verifies", "verify"),
    );
    if count(report, "replaced") > 0 {
        text.push_str(
            "\nthe backup that was made there before was not found and is forgotten; if it is on a disk \
             that is away, back up to that disk again before anything is erased",
        );
    }
    if report["with_keys"] != true {
        text.push_str(
            "\ncredentials.toml and the signing keys are not in it: a service restored from it makes \
             new ones, and its clients must be given them; --with-keys copies them",
        );
    }
    text
}
