//! `recalld backup DIR`: all data in another folder, alone or beside a running server.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use super::keep::{count, job};
use super::tell::tell_line;
use super::{Common, Failure};
use crate::model::Unit;
use crate::operator::{self, Backup};

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    #[command(flatten)]
    common: Common,
    /// The backup's folder: a new one, an empty one, or that of an earlier backup.
    dir: PathBuf,
    /// Copy the credentials and the signing key, too: whoever has the backup can then act as you.
    #[arg(long)]
    with_keys: bool,
    /// Copy nothing: the backup in DIR was deleted, and erasures need not wait for it.
    #[arg(long, conflicts_with = "with_keys")]
    forget: bool,
}

pub(super) fn run(args: &BackupArgs) -> Result<(), Failure> {
    let raw = arguments(args)?;
    let wanted = Backup::parse(&raw).map_err(|error| Failure::Usage(error.to_string()))?;
    let report = job(&args.common.data()?, Unit::Bytes, "/operator/backup", &raw, |keeper| {
        operator::backup(keeper, &Value::Object(raw.clone()), &wanted)
    })?;
    if args.common.json {
        tell_line(&report)
    } else if args.forget {
        tell_line(&format_args!("forgot the backup in {}", args.dir.display()))
    } else {
        tell_line(&readable(&report))
    }
}

fn arguments(args: &BackupArgs) -> Result<Map<String, Value>, Failure> {
    let path = absolute(&args.dir)?;
    let path = path.to_str().ok_or_else(|| {
        Failure::Usage(format!("{} is not UTF-8, which paths must be", path.display()))
    })?;
    let raw = json!({"path": path, "with_keys": args.with_keys, "forget": args.forget});
    Ok(raw.as_object().cloned().unwrap_or_default())
}

/// A folder from the root, without links.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(path)
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    Ok(operator::real_path(&path))
}

fn readable(report: &Value) -> String {
    let mut text = format!(
        "{} files ({} bytes) to {}, {} were there; as of commit {}; the ledger's {} entries verify",
        count(report, "files"),
        count(report, "bytes"),
        report["path"].as_str().unwrap_or_default(),
        count(report, "reused"),
        count(report, "seq"),
        count(report, "ledger_entries"),
    );
    if report["with_keys"] != true {
        text.push_str(
            "\ncredentials.toml and keys/signing.key are not in it: a service restored from it makes \
             new ones, and its clients must be given them; --with-keys copies them",
        );
    }
    text
}
