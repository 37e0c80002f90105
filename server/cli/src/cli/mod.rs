//! The program: arguments in, exit code out.
//!
//! Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 could not (with what to do).

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

/// What the exit codes mean, at the end of the help.
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
    /// Ask what is on record.
    Recall(recall::RecallArgs),
    /// Store one thing to be known from now on.
    Remember(remember::RememberArgs),
    /// Read files and folders into memory.
    Ingest(ingest::IngestArgs),
    /// Read what `export` wrote, or what another program exported, into memory.
    Import(import::ImportArgs),
    /// Write all that is stored as JSON Lines.
    Export(export::ExportArgs),
    /// What is stored, and how fast it answers.
    Stats(stats::StatsArgs),
    /// Look at the whole installation; of what is wrong, say what to do.
    Doctor(doctor::DoctorArgs),
    /// Print what an AI client has to be told to find this service.
    Connect(connect::ConnectArgs),
    /// Say where the console is, and open it.
    #[cfg(feature = "console")]
    Console(console::ConsoleArgs),
    /// Look at settings before they count.
    Config(config::ConfigArgs),
    /// Check every byte of the store, a backup or the ledger; or that an item was erased.
    Verify(verify::VerifyArgs),
    /// Bring out all that can still be read from a damaged store, for `import`.
    Salvage(salvage::SalvageArgs),
    /// Copy all data to another folder; again into the same folder copies what is new.
    Backup(backup::BackupArgs),
    /// Make a data directory of a backup.
    Restore(restore::RestoreArgs),
    /// An object store that workspaces are carried to: try it, look through it, bring a workspace back.
    Remote(far::RemoteArgs),
    /// Merge segments until no merge is worth it.
    Compact(compact::CompactArgs),
    /// Remove items for good: from every file of the store, and from its backups.
    Erase(erase::EraseArgs),
    /// Move the store to another model, given with --model: every embedding is made anew.
    Reembed(reembed::ReembedArgs),
    /// The encoder's files: which model the store has, where it is; fetch, check and remove what is kept of models.
    Model(model::ModelArgs),
    /// Measure how good the answers are on a data set with known ones.
    Eval(eval::EvalArgs),
    /// The gateway token and the operator's bearer.
    Credentials(CredentialsArgs),
    /// The audit ledger of a workspace.
    Ledger(ledger::LedgerArgs),
    /// Look at policy rules before they count.
    Policy(policy::PolicyArgs),
    /// Workspaces of tenants.
    Tenant(tenant::TenantArgs),
    /// Credentials of workspaces.
    Key(key::KeyArgs),
    /// Programs that people sign in with.
    Client(client::ClientArgs),
    /// What workspaces are entitled to.
    Plan(plan::PlanArgs),
    /// Calls of a month.
    Quota(quota::QuotaArgs),
    /// What clients have because somebody signed in: list, revoke.
    Grant(grant::GrantArgs),
    /// Say that the clock is right, where it was set back.
    Clock(clock::ClockArgs),
    /// Print what a shell needs to complete commands.
    Completions(describe::CompletionsArgs),
    /// Print a page of the manual, as `man` reads it.
    Man(describe::ManArgs),
    /// Turn the PDF on standard input into JSON, within bounds: what an ingest runs for each PDF.
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
    /// Print them.
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
