//! `recalld compact`: merges small segments, in-process or through a running server.

use clap::Args;
use serde_json::{Map, json};

use super::common::Common;
use super::failure::Failure;
use super::keep::job;
use super::tell::tell_line;
use recalld_common::counted::{agreed, counted};
use recalld_embedding::model::{Bar, Unit};
use recalld_store_admin::CompactReport;

#[derive(Debug, Args)]
pub(super) struct CompactArgs {
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &CompactArgs) -> Result<(), Failure> {
    let data = args.common.data()?;
    let bar = Bar::of_command(Unit::Bytes, args.common.json);
    let report = job(&data, bar, "/operator/compact", &Map::new(), recalld_store_admin::compact)?;
    if args.common.json {
        return tell_line(&json!(report));
    }
    let CompactReport { bytes, bytes_before, merged, segments, segments_before, steps } = report;
    let done = match steps {
        0 => "no merge is worth it".to_owned(),
        steps => format!(
            "{} {} merged in {}",
            counted(merged, "segment"),
            agreed(merged, "was", "were"),
            counted(steps, "step")
        ),
    };
    tell_line(&format_args!(
        "segments: {segments_before} before, {segments} now; bytes: {bytes_before} before, {bytes} now; {done}"
    ))
}
