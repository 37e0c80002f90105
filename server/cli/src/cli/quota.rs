//! `recalld quota`: calls per calendar month.

use clap::{Args, Subcommand};
use serde_json::json;

use super::administer::{Desk, word, words};
use super::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct QuotaArgs {
    #[command(flatten)]
    desk: Desk,
    #[command(subcommand)]
    command: QuotaCommand,
}

#[derive(Debug, Subcommand)]
enum QuotaCommand {
    /// Show a workspace's used and remaining calls of this month.
    Show { slug: String },
    /// Set a workspace's own quota.
    Set {
        slug: String,
        /// Calls per month, or `plan` for the quota of its plan.
        #[arg(value_parser = calls)]
        calls: Calls,
    },
}

/// Calls per month; `None` for the plan's quota.
#[derive(Debug, Clone, Copy)]
struct Calls(Option<u64>);

fn calls(text: &str) -> Result<Calls, String> {
    if text == "plan" {
        return Ok(Calls(None));
    }
    let calls = text.parse().map(|calls| Calls(Some(calls)));
    calls.map_err(|_| "give a whole number, or `plan`".to_owned())
}

pub(super) fn run(args: &QuotaArgs) -> Result<(), Failure> {
    match &args.command {
        QuotaCommand::Show { slug } => {
            args.desk.tell("quota show", &json!({"slug": slug}), |report| {
                let [used, left] = ["used", "left"].map(|name| word(report, name));
                format!("{}: {used} used, {left} left", words(report, &["slug", "month"]))
            })
        }
        QuotaCommand::Set { slug, calls } => {
            let fields = json!({"slug": slug, "calls": calls.0});
            args.desk
                .tell("quota set", &fields, |tenant| words(tenant, &["slug", "calls_per_month"]))
        }
    }
}
