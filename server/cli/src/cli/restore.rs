//! `recalld restore DIR`: creates a data directory from a backup. Nothing is overwritten.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::backup;
use super::common::Common;
use super::failure::Failure;
use super::keep::watched;
use super::tell::{shell_word, tell_line};
use recalld_common::counted::{agreed, counted};
use recalld_embedding::model::{Bar, Unit};
use recalld_store_admin::RestoreReport;

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    #[command(flatten)]
    common: Common,
    /// The backup folder.
    dir: PathBuf,
    /// Keep the grants of sign-ins as of the backup: grants revoked since are valid again.
    #[arg(long)]
    keep_sign_ins: bool,
}

pub(super) fn run(args: &RestoreArgs) -> Result<(), Failure> {
    let (from, data) = (backup::absolute(&args.dir)?, args.common.data()?);
    let bar = Bar::of_command(Unit::Bytes, args.common.json);
    let report = watched(bar, |tell| {
        Ok(recalld_store_admin::restore(&from, &data, args.keep_sign_ins, tell)?)
    })?;
    if args.common.json { tell_line(&json!(report)) } else { tell_line(&readable(&report)) }
}

fn readable(report: &RestoreReport) -> String {
    let data = shell_word(Path::new(report.data.as_deref().unwrap_or_default()));
    let (entries, made_at) = (report.ledger_entries, report.made_at.as_deref().unwrap_or_default());
    let mut text = format!(
        "{} in {} ({}), as of commit {}, backed up {made_at}; every hash is right, the ledger's {} {}",
        counted(report.items, "item"),
        counted(report.files, "file"),
        counted(report.bytes, "byte"),
        report.seq,
        counted(entries, "entry"),
        agreed(entries, "verifies", "verify"),
    );
    if !report.with_keys {
        text.push_str(
            "\nno keys were in the backup: the first start makes new credentials and a new signing \
             key; `recalld credentials show` prints the credentials",
        );
    }
    if report.sign_ins_ended.is_some() {
        text.push_str(&format!(
            "\nwhoever had signed in signs in again; keys that were revoked after {made_at} are good again: \
             see `recalld key list WORKSPACE`, and revoke them once more"
        ));
    } else if report.workspaces > 1 {
        text.push_str(&format!(
            "\nkeys and sign-ins that were revoked after {made_at} are good again: revoke them once more"
        ));
    }
    text.push_str(&format!("\nstart it with: recalld serve --data {data}"));
    text
}
