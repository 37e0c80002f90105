//! `recalld key`: credentials of workspaces, and the keys of access tokens.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::administer::{Desk, word, words};
use super::failure::Failure;
use super::tell::say;

/// What is told of one.
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
    /// Issue a credential, and print its secret: the only time that it is there.
    Issue {
        slug: String,
        /// workspace: signs in for the workspace; once: signs in once; user: signs in, and is a bearer; bearer: a
        /// person's bearer.
        #[arg(long)]
        kind: Kind,
        /// Whose it is, or what for.
        #[arg(long)]
        name: Option<String>,
        /// What it may be used for, with commas between [default: what of everyday work the plan
        /// grants; identity:assert, audit:read and bench:run have to be named].
        #[arg(long, value_delimiter = ',')]
        scopes: Option<Vec<String>>,
        /// When it ends, such as 2030-01-31T09:00:00Z [default: never; one for once after a day].
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// Revoke the workspace key and issue another one.
    Rotate {
        slug: String,
        /// What the new one may be used for, with commas between [default: what the one before may].
        #[arg(long, value_delimiter = ',')]
        scopes: Option<Vec<String>>,
    },
    /// Take a credential back, and all that was granted by it.
    Revoke { slug: String, id: String },
    /// The credentials of a workspace, without their secrets.
    List { slug: String },
    /// Sign access tokens with a new key, once everybody had time to fetch it. Tokens of the one before stay good until
    /// they expire.
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

/// The secret alone, so that it can be piped; what it is goes to standard error.
fn secret(issued: &Value) -> String {
    say(&format_args!("{}\nkeep the secret: it is not shown again", line(issued)));
    word(issued, "secret")
}

fn line(key: &Value) -> String {
    words(key, COLUMNS)
}
