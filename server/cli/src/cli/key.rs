//! `recalld key`: credentials of workspaces, and the signing keys of access tokens.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::administer::{Desk, word, words};
use super::failure::Failure;
use super::tell::say;

const COLUMNS: &[&str] =
    &["id", "kind", "state", "grants_ended", "made_at", "expires_at", "name", "scopes"];

#[derive(Debug, Args)]
pub(super) struct KeyArgs {
    #[command(flatten)]
    desk: Desk,
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Issue a credential and print its secret, which is not shown again.
    Issue {
        slug: String,
        /// workspace: signs in for the workspace; once: signs in once; user: signs in, and is a bearer; bearer: a
        /// person's bearer.
        #[arg(long)]
        kind: Kind,
        /// The credential's owner or purpose.
        #[arg(long)]
        name: Option<String>,
        /// Scopes of the credential, separated by commas [default: the everyday scopes of the plan; identity:assert,
        /// audit:read and bench:run must be named].
        #[arg(long, value_delimiter = ',')]
        scopes: Option<Vec<String>>,
        /// Expiry, such as 2030-01-31T09:00:00Z [default: never; after a day for kind once].
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// Revoke the workspace key and issue another one.
    Rotate {
        slug: String,
        /// Scopes of the new key, separated by commas [default: those of the revoked key].
        #[arg(long, value_delimiter = ',')]
        scopes: Option<Vec<String>>,
    },
    /// Revoke a credential with all its grants.
    Revoke { slug: String, id: String },
    /// List a workspace's credentials, without their secrets.
    List { slug: String },
    /// Sign access tokens with a new key, after every verifier had time to fetch it. Tokens of the previous key stay
    /// valid until they expire.
    RotateSigning,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Workspace,
    Once,
    User,
    Bearer,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Once => "once",
            Self::User => "user",
            Self::Bearer => "bearer",
        }
    }
}

pub(super) fn run(args: &KeyArgs) -> Result<(), Failure> {
    let desk = &args.desk;
    match &args.command {
        KeyCommand::Issue { slug, kind, name, scopes, expires } => {
            let fields = json!({
                "slug": slug, "kind": kind.word(), "name": name, "scopes": scopes,
                "expires": expires,
            });
            desk.tell("key issue", &fields, secret)
        }
        KeyCommand::Rotate { slug, scopes } => {
            desk.tell("key rotate", &json!({"slug": slug, "scopes": scopes}), secret)
        }
        KeyCommand::Revoke { slug, id } => {
            desk.tell("key revoke", &json!({"slug": slug, "id": id}), line)
        }
        KeyCommand::List { slug } => {
            desk.tell_list("key list", &json!({"slug": slug}), "keys", COLUMNS)
        }
        KeyCommand::RotateSigning => desk.tell("key rotate-signing", &json!({}), |report| {
            let [from, published] = ["signs_from", "published"].map(|name| word(report, name));
            format!("a new key signs from {from} on; {published} are published")
        }),
    }
}

/// Prints the secret alone on standard output, for pipes. The description goes to standard error.
fn secret(issued: &Value) -> String {
    say(&format_args!("{}\nkeep the secret: it is not shown again", line(issued)));
    word(issued, "secret")
}

fn line(key: &Value) -> String {
    words(key, COLUMNS)
}
