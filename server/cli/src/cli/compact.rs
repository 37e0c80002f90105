//! `recalld compact`: merges small segments, in-process or through a running server.

use clap::Args;
use serde_json::Map;

use super::common::Common;
use super::failure::Failure;
use super::keep::{count, job};
use super::tell::tell_line;
use recalld_common::counted::{agreed, counted};
use recalld_embedding::model::{Bar, Unit};

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
        return tell_line(&report);
    }
    let number = |name| count(&report, name);
    tell_line(&format_args!(
        "segments: {} before, {} now; bytes: {} before, {} now; {}",
        number("segments_before"),
        number("segments"),
        number("bytes_before"),
        number("bytes"),
        match number("steps") {
            0 => "no merge is worth it".to_owned(),
            steps => format!(
                "{} {} merged in {}",
                counted(number("merged"), "segment"),
                agreed(number("merged"), "was", "were"),
                counted(steps, "step")
            ),
        }
    ))
}
