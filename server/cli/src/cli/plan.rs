use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::administer::{Desk, words};
use super::failure::Failure;

const COLUMNS: &[&str] =
    &["name", "calls_per_month", "rate_per_second", "families", "tools", "scopes"];

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    desk: Desk,
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    /// List all plans of the settings.
    List,
    /// Show one plan.
    Show { name: String },
    /// Assign a plan to a workspace.
    Set { slug: String, name: String },
}

pub(super) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let desk = &args.desk;
    match &args.command {
        PlanCommand::List => desk.tell_list("plan list", &json!({}), "plans", COLUMNS),
        PlanCommand::Show { name } => desk.tell("plan show", &json!({"name": name}), line),
        PlanCommand::Set { slug, name } => {
            desk.tell("plan set", &json!({"slug": slug, "name": name}), |tenant| {
                words(tenant, &["slug", "plan"])
            })
        }
    }
}

fn line(plan: &Value) -> String {
    words(plan, COLUMNS)
}
