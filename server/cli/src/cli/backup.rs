//! `recalld backup DIR`: copies all data to another folder, in-process or through a running server.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use super::common::Common;
use super::failure::Failure;
use super::keep::job;
use super::paint::Paint;
use super::tell::{tell, tell_line};
use recalld_common::counted::{agreed, counted};
use recalld_embedding::model::{Bar, Unit};
use recalld_store_admin::{
    Backup, BackupList, BackupReport, ListedBackup, MadeBackup, Presence, ScheduleReport, Standing,
};

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
        return tell_line(&json!(report));
    }
    match report {
        BackupReport::Made(made) => tell_line(&readable(&made)),
        BackupReport::List(list) => tell(&listed(&list)),
        BackupReport::Forgotten(backups) => {
            let paths = backups.forgotten.into_iter().flatten();
            match paths.map(|path| format!("forgot the backup in {path}\n")).collect::<String>() {
                none if none.is_empty() => tell_line(&"every known backup is in its place"),
                forgotten => tell(&forgotten),
            }
        }
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

/// Formats one line per known backup, and the schedule.
fn listed(list: &BackupList) -> String {
    let paint = Paint::stdout();
    let line = |row: &ListedBackup| {
        let why = row.why.as_deref().unwrap_or_default();
        let seen = match (row.seen, &row.made_at) {
            (Presence::There, None) => paint.warn("there, never finished"),
            (Presence::There, Some(made_at)) => paint.good(&format!("there, made {made_at}")),
            (Presence::Another, _) => paint.bad("another backup is in its place"),
            (Presence::Unreadable, _) => paint.bad(&format!("cannot be read: {why}")),
            (Presence::Missing, _) => paint.warn("not there"),
        };
        let by = if row.scheduled { ", on schedule" } else { "" };
        let (pending, are) = (counted(row.pending, "erased id"), agreed(row.pending, "is", "are"));
        let path = row.path.as_deref().unwrap_or_default();
        format!("{path}  {seen}{by}; {pending} {are} still to go from it\n")
    };
    let known = match &list.backups[..] {
        [] => "no backup is known\n".to_owned(),
        backups => backups.iter().map(line).collect(),
    };
    known + &list.schedule.as_ref().map_or(String::new(), |schedule| scheduled(paint, schedule))
}

/// Formats the backup schedule of a running server.
fn scheduled(paint: Paint, schedule: &ScheduleReport) -> String {
    fn word(text: &Option<String>) -> &str {
        text.as_deref().unwrap_or("-")
    }
    let (every, to, keep) = (&schedule.every, word(&schedule.to), schedule.keep);
    let mut out = format!(
        "the server makes one every {every} in {to} and keeps {keep}; the next is due {}\n",
        word(&schedule.next_at)
    );
    if let Some(failed_at) = &schedule.failed_at {
        let why = word(&schedule.failed_why);
        let why = format!("the last attempt, {failed_at}, came to nothing: {why}");
        out.push_str(&format!("{}\n", paint.bad(&why)));
    } else if schedule.state == Standing::Overdue {
        let why = format!("the one that was due {} is not made", word(&schedule.due_at));
        out.push_str(&format!("{}\n", paint.bad(&why)));
    }
    out
}

fn readable(made: &MadeBackup) -> String {
    let (reused, entries) = (made.reused, made.ledger_entries);
    let mut text = format!(
        "{} in {} ({}) to {}, {reused} {} there; as of commit {}; the ledger's {} {}",
        counted(made.workspaces, "workspace"),
        counted(made.files, "file"),
        counted(made.bytes, "byte"),
        made.path.as_deref().unwrap_or_default(),
        agreed(reused, "was", "were"),
        made.seq,
        counted(entries, "entry"),
        agreed(entries, "verifies", "verify"),
    );
    if made.replaced > 0 {
        text.push_str(
            "\nthe backup that was made there before was not found and is forgotten; if it is on a disk \
             that is away, back up to that disk again before anything is erased",
        );
    }
    if !made.with_keys {
        text.push_str(
            "\ncredentials.toml and the signing keys are not in it: a service restored from it makes \
             new ones, and its clients must be given them; --with-keys copies them",
        );
    }
    text
}
