//! `recalld clock`: the service's time, and its acceptance after a clock was set back.

use clap::{Args, Subcommand};
use serde_json::json;

use super::administer::{Desk, word};
use super::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct ClockArgs {
    #[command(flatten)]
    desk: Desk,
    #[command(subcommand)]
    command: ClockCommand,
}

#[derive(Debug, Subcommand)]
enum ClockCommand {
    /// Accept the current time: the clock was wrong before. Until then, tenants receive 503.
    Accept,
}

pub(super) fn run(args: &ClockArgs) -> Result<(), Failure> {
    let ClockCommand::Accept = args.command;
    args.desk.tell("clock accept", &json!({}), |report| {
        let [now, before] = ["now", "before"].map(|name| word(report, name));
        format!("it is {now}; the latest time before was {before}")
    })
}
