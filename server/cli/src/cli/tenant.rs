//! `recalld tenant`: workspaces, alone or beside a running server.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::administer::{Desk, word, words};
use super::failure::Failure;
use super::tell::say;

/// What is told of one.
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
    /// Make a workspace. One that was cut short is finished.
    Create {
        /// Its name in credentials and paths: 3 to 40 of a-z 0-9 -, a letter first.
        slug: String,
        /// Its name for people [default: SLUG].
        #[arg(long)]
        title: Option<String>,
        /// The name of its plan [default: free].
        #[arg(long)]
        plan: Option<String>,
        /// Whom to write to.
        #[arg(long, value_name = "ADDRESS")]
        email: Option<String>,
    },
    /// All workspaces, the deleted ones among them.
    List,
    /// One workspace.
    Show { slug: String },
    /// Give a workspace another address of mail, or write to the one that it has once more. Until the link in the
    /// letter is used, the address is not verified.
    Email {
        slug: String,
        /// Whom to write to [default: the address that it has].
        address: Option<String>,
    },
    /// Take a workspace's address as verified, without a letter.
    Verify { slug: String },
    /// Stop a workspace: nothing of it is good, until it is resumed.
    Suspend { slug: String },
    /// End all access tokens of a workspace; who has a refresh token gets another one.
    EndTokens { slug: String },
    /// Let a workspace go on.
    Resume { slug: String },
    /// Delete a workspace for good: all its keys, and its store. Its ledger stays, and its name is not used again.
    Delete {
        slug: String,
        /// SLUG once more.
        #[arg(long, value_name = "SLUG")]
        confirm: String,
        /// It was deleted before: what was written of it elsewhere since goes from the remote as well. The time for
        /// which it can be restored begins anew.
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

/// What became of the letter goes to standard error.
fn lettered(tenant: &Value) -> String {
    if let Some(about) = tenant["mail_about"].as_str() {
        say(&format_args!("{}: {about}", word(tenant, "email")));
    }
    line(tenant)
}

/// What becomes of it on the remote goes to standard error.
fn deleted(tenant: &Value) -> String {
    if let Some(about) = tenant["deleted_about"].as_str() {
        say(&format_args!("{}: {about}", word(tenant, "slug")));
    }
    line(tenant)
}

fn line(tenant: &Value) -> String {
    words(tenant, COLUMNS)
}
