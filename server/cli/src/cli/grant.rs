//! `recalld grant`: access granted to OAuth clients by sign-in.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::administer::{Desk, words};
use super::failure::Failure;

const COLUMNS: &[&str] =
    &["id", "principal", "client", "credential", "made_at", "expires_at", "revoked_at", "scopes"];

#[derive(Debug, Args)]
pub(super) struct GrantArgs {
    #[command(flatten)]
    desk: Desk,
    #[command(subcommand)]
    command: GrantCommand,
}

#[derive(Debug, Subcommand)]
enum GrantCommand {
    /// List a workspace's grants: principal, client, scopes.
    List { slug: String },
    /// Revoke a grant with its refresh token and all its access tokens.
    Revoke { slug: String, id: String },
}

pub(super) fn run(args: &GrantArgs) -> Result<(), Failure> {
    match &args.command {
        GrantCommand::List { slug } => {
            args.desk.tell_list("grant list", &json!({"slug": slug}), "grants", COLUMNS)
        }
        GrantCommand::Revoke { slug, id } => {
            args.desk.tell("grant revoke", &json!({"slug": slug, "id": id}), line)
        }
    }
}

fn line(grant: &Value) -> String {
    words(grant, COLUMNS)
}
