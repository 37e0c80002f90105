//! `recalld client`: OAuth clients.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::administer::{Desk, words};
use super::failure::Failure;

const COLUMNS: &[&str] = &["id", "made_at", "used_at", "revoked_at", "name"];

#[derive(Debug, Args)]
pub(super) struct ClientArgs {
    #[command(flatten)]
    desk: Desk,
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Debug, Subcommand)]
enum ClientCommand {
    /// List all clients on record.
    List,
    /// Block a client and revoke all its grants.
    Revoke {
        /// The client_id, which may be the URL of the client's metadata.
        id: String,
    },
}

pub(super) fn run(args: &ClientArgs) -> Result<(), Failure> {
    match &args.command {
        ClientCommand::List => args.desk.tell_list("client list", &json!({}), "clients", COLUMNS),
        ClientCommand::Revoke { id } => args.desk.tell("client revoke", &json!({"id": id}), line),
    }
}

fn line(client: &Value) -> String {
    words(client, COLUMNS)
}
