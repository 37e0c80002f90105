//! The command-line program: arguments in, exit code out.
//!
//! Exit codes: 0 done, 1 negative result, 2 usage error, 3 unavailable (the message ends with a remedy).

mod administer;
mod anchors;
mod backup;
mod call;
mod client;
mod clock;
mod common;
mod compact;
mod config;
mod connect;
#[cfg(feature = "console")]
mod console;
mod credentials;
mod cut;
mod describe;
mod descriptors;
mod doctor;
mod encoding;
mod erase;
mod eval;
mod export;
mod failure;
mod far;
mod fresh;
mod given;
mod grant;
mod import;
mod ingest;
mod keep;
mod key;
mod ledger;
mod model;
mod paint;
mod plan;
mod policy;
mod quota;
mod read_pdf;
mod recall;
mod reembed;
mod reload;
mod remember;
mod remote;
mod restore;
mod salvage;
mod scratch;
mod serve;
mod signals;
mod stats;
mod systemd;
mod tell;
mod tenant;
mod tried;
mod verify;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use common::Common;
use failure::Failure;
use recalld_documents::SUBCOMMAND;
use recalld_telemetry::log;

limit_table::limits! {
    pub(crate) const LIMITS = [tried];
}

/// The exit codes, at the end of the help.
const EXIT_CODES: &str = "Exit codes:
  0  done
  1  the answer is no: damage was found, a fault, nothing of that name
  2  wrong use: what was typed, or what settings say
  3  it could not be done; the message ends with what to do

Settings come from flags, the environment (RECALLD_...) and a file, in this order: `recalld config example`.
Colour is left out where NO_COLOR is set, and where standard output is no terminal.";

/// Memory recall for AI tools: typed memories with provenance, by words, meaning and links.
#[derive(Debug, Parser)]
#[command(name = "recalld", bin_name = "recalld", version, about, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve HTTP and MCP until SIGTERM.
    Serve(serve::ServeArgs),
    /// Recall memories for a question.
    Recall(recall::RecallArgs),
    /// Store one memory.
    Remember(remember::RememberArgs),
    /// Ingest files and folders.
    Ingest(ingest::IngestArgs),
    /// Import lines of `export`, or another program's export.
    Import(import::ImportArgs),
    /// Export the whole store as JSON Lines.
    Export(export::ExportArgs),
    /// Print the store's contents and response times.
    Stats(stats::StatsArgs),
    /// Check the whole installation and print a remedy for each fault.
    Doctor(doctor::DoctorArgs),
    /// Print an AI client's configuration for this service.
    Connect(connect::ConnectArgs),
    /// Print the console's address, and open it.
    #[cfg(feature = "console")]
    Console(console::ConsoleArgs),
    /// Check settings before they take effect.
    Config(config::ConfigArgs),
    /// Check every byte of the store, a backup or the ledger, or that an item was erased.
    Verify(verify::VerifyArgs),
    /// Recover everything readable from a damaged store, as lines for `import`.
    Salvage(salvage::SalvageArgs),
    /// Copy all data to another folder; a repeat into the same folder copies only changes.
    Backup(backup::BackupArgs),
    /// Restore a data directory from a backup.
    Restore(restore::RestoreArgs),
    /// Test and verify the object store of replicated workspaces, and restore a workspace from it.
    Remote(far::RemoteArgs),
    /// Merge segments until no merge is worth it.
    Compact(compact::CompactArgs),
    /// Erase items permanently: from every file of the store, and from its backups.
    Erase(erase::EraseArgs),
    /// Migrate the store to another model, given by --model: every embedding is recomputed.
    Reembed(reembed::ReembedArgs),
    /// Show, fetch, verify and prune the encoder's model files.
    Model(model::ModelArgs),
    /// Measure answer quality on a data set with known answers.
    Eval(eval::EvalArgs),
    /// Show the gateway token and the operator's bearer.
    Credentials(CredentialsArgs),
    /// Verify or show the audit ledger of a workspace.
    Ledger(ledger::LedgerArgs),
    /// Check policy rules before they take effect.
    Policy(policy::PolicyArgs),
    /// Manage tenants and their workspaces.
    Tenant(tenant::TenantArgs),
    /// Manage credentials of workspaces.
    Key(key::KeyArgs),
    /// Manage OAuth clients.
    Client(client::ClientArgs),
    /// Manage plans, the entitlements of workspaces.
    Plan(plan::PlanArgs),
    /// Show and set monthly call quotas.
    Quota(quota::QuotaArgs),
    /// List and revoke the grants of clients.
    Grant(grant::GrantArgs),
    /// Accept the clock after it was set back.
    Clock(clock::ClockArgs),
    /// Print the completion script of a shell.
    Completions(describe::CompletionsArgs),
    /// Print a manual page in `man` format.
    Man(describe::ManArgs),
    /// Convert the PDF on standard input to JSON, within limits. An ingest runs this command for each PDF.
    #[command(name = SUBCOMMAND, hide = true)]
    ReadPdf,
}

#[derive(Debug, Args)]
struct CredentialsArgs {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: CredentialsCommand,
}

#[derive(Debug, Subcommand)]
enum CredentialsCommand {
    /// Print the credentials.
    Show,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Recall(args) => recall::run(&args),
        Command::Remember(args) => remember::run(&args),
        Command::Ingest(args) => ingest::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Salvage(args) => salvage::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Remote(args) => far::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Erase(args) => erase::run(&args),
        Command::Reembed(args) => reembed::run(&args),
        Command::Model(args) => model::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Ledger(args) => ledger::run(&args),
        Command::Credentials(args) => {
            let CredentialsCommand::Show = args.command;
            credentials::show(&args.common)
        }
        Command::Policy(args) => policy::run(&args),
        Command::Tenant(args) => tenant::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Client(args) => client::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Quota(args) => quota::run(&args),
        Command::Clock(args) => clock::run(&args),
        Command::Grant(args) => grant::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        #[cfg(feature = "console")]
        Command::Console(args) => console::run(&args),
        Command::Connect(args) => connect::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Completions(args) => describe::completions(&args),
        Command::Man(args) => describe::man(&args),
        Command::ReadPdf => return recalld_documents::read_pdf(),
    };
    let (why, code) = match done {
        Ok(()) => {
            log::flush();
            return ExitCode::SUCCESS;
        }
        Err(Failure::No(why)) => (why, 1),
        Err(Failure::Usage(why)) => (why, 2),
        Err(Failure::Could(why)) => (why, 3),
    };
    tell::say(&why);
    log::flush();
    ExitCode::from(code)
}
