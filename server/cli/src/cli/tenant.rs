//! `recalld tenant`: tenants and their workspaces, in-process or through a running server.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::administer::{Desk, word, words};
use super::failure::Failure;
use super::tell::say;

const COLUMNS: &[&str] = &["slug", "state", "plan", "made_at", "email", "title"];

#[derive(Debug, Args)]
pub(super) struct TenantArgs {
    #[command(flatten)]
    desk: Desk,
    #[command(subcommand)]
    command: TenantCommand,
}

#[derive(Debug, Subcommand)]
enum TenantCommand {
    /// Create a workspace, or finish an interrupted creation.
    Create {
        /// The workspace's name in credentials and paths: 3 to 40 of a-z 0-9 -, a letter first.
        slug: String,
        /// The display name [default: SLUG].
        #[arg(long)]
        title: Option<String>,
        /// The plan [default: free].
        #[arg(long)]
        plan: Option<String>,
        /// The contact's email address.
        #[arg(long, value_name = "ADDRESS")]
        email: Option<String>,
    },
    /// List all workspaces, including deleted ones.
    List,
    /// Show one workspace.
    Show { slug: String },
    /// Set a workspace's email address, or send another confirmation to the present one. The address is unverified
    /// until the link in the mail is used.
    Email {
        slug: String,
        /// The email address [default: the present one].
        address: Option<String>,
    },
    /// Mark a workspace's address as verified, without a confirmation mail.
    Verify { slug: String },
    /// Suspend a workspace: all its credentials are rejected until it is resumed.
    Suspend { slug: String },
    /// End all access tokens of a workspace; clients with a refresh token get new ones.
    EndTokens { slug: String },
    /// Resume a suspended workspace.
    Resume { slug: String },
    /// Delete a workspace permanently: all its keys, and its store. The ledger is retained, and the name is never
    /// reused.
    Delete {
        slug: String,
        /// SLUG again, as confirmation.
        #[arg(long, value_name = "SLUG")]
        confirm: String,
        /// Delete again a workspace that was deleted before, to remove later writes of other nodes from the remote,
        /// too. The retention period restarts.
        #[arg(long)]
        again: bool,
    },
}

pub(super) fn run(args: &TenantArgs) -> Result<(), Failure> {
    let act = |act: &str, slug: &str| args.desk.tell(act, &json!({"slug": slug}), line);
    match &args.command {
        TenantCommand::Create { slug, title, plan, email } => {
            let fields = json!({"slug": slug, "title": title, "plan": plan, "email": email});
            args.desk.tell("tenant create", &fields, lettered)
        }
        TenantCommand::List => args.desk.tell_list("tenant list", &json!({}), "tenants", COLUMNS),
        TenantCommand::Show { slug } => act("tenant show", slug),
        TenantCommand::Email { slug, address } => {
            let fields = json!({"slug": slug, "email": address});
            args.desk.tell("tenant email", &fields, lettered)
        }
        TenantCommand::Verify { slug } => act("tenant verify", slug),
        TenantCommand::Suspend { slug } => act("tenant suspend", slug),
        TenantCommand::EndTokens { slug } => act("tenant end-tokens", slug),
        TenantCommand::Resume { slug } => act("tenant resume", slug),
        TenantCommand::Delete { slug, confirm, again } => {
            let fields = json!({"slug": slug, "confirm": confirm, "again": again});
            args.desk.tell("tenant delete", &fields, deleted)
        }
    }
}

/// Reports the mail's outcome on standard error.
fn lettered(tenant: &Value) -> String {
    if let Some(about) = tenant["mail_about"].as_str() {
        say(&format_args!("{}: {about}", word(tenant, "email")));
    }
    line(tenant)
}

/// Reports the workspace's state on the remote on standard error.
fn deleted(tenant: &Value) -> String {
    if let Some(about) = tenant["deleted_about"].as_str() {
        say(&format_args!("{}: {about}", word(tenant, "slug")));
    }
    line(tenant)
}

fn line(tenant: &Value) -> String {
    words(tenant, COLUMNS)
}
