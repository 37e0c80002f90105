//! The program: arguments in, exit code out.
//!
//! Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 could not (with what to do).

mod administer;
mod anchors;
mod backup;
mod call;
mod client;
mod clock;
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

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use engine::{Durability, SearchMode};

use crate::app;
use crate::app::{Settings, Started};
use crate::limits::BACKUP_ERASURES_EVERY;
use recalld_config::Config;
use recalld_documents::SUBCOMMAND;
use recalld_embedding::encoding::Encoding;
use recalld_embedding::model::{Bar, Unit};
use recalld_fs_util::data_dir;
use recalld_fs_util::start_error::StartError;
use recalld_policy::limits::CALL_TIME_MAX;
use recalld_telemetry::log;

limit_table::limits! {
    pub(crate) const LIMITS = [tried];
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// The answer is no: exit code 1.
    No(String),
    /// Wrong use: exit code 2.
    Usage(String),
    /// It could not: exit code 3. The message ends with what to do.
    Could(String),
}

impl Failure {
    fn could(why: impl ToString) -> Self {
        Self::Could(why.to_string())
    }

    /// What it says.
    fn why(self) -> String {
        match self {
            Self::No(why) | Self::Usage(why) | Self::Could(why) => why,
        }
    }
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

/// What every command takes.
#[derive(Debug, Args, Clone)]
struct Common {
    /// Data directory [default: $RECALLD_DATA, else $XDG_STATE_HOME/recalld, else
    /// ~/.local/state/recalld].
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long, global = true)]
    json: bool,
    /// Folder with the encoder's files (config.json, tokenizer.json, model.safetensors) [default: $RECALLD_MODEL, else
    /// where they were when the store's model was used last, else the default model's].
    #[arg(long, global = true, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Which instructions vectors are computed with: auto, scalar, avx2, avx512, amx, neon or
    /// neon-dot [default: $RECALLD_KERNEL, else auto: the widest that this CPU has].
    #[arg(long, global = true, value_name = "LEVEL")]
    kernel: Option<String>,
    /// How the encoder's weights are stored: auto, f32, f16 or int8 [default: $RECALLD_PRECISION,
    /// else auto: the fastest that is faithful].
    #[arg(long, global = true, value_name = "PRECISION")]
    precision: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve HTTP and MCP until SIGTERM.
    Serve(ServeArgs),
    /// Ask what is on record.
    Recall(RecallArgs),
    /// Store one thing to be known from now on.
    Remember(remember::RememberArgs),
    /// Read files and folders into memory.
    Ingest(IngestArgs),
    /// Read what `export` wrote, or what another program exported, into memory.
    Import(ImportArgs),
    /// Write all that is stored as JSON Lines.
    Export(ExportArgs),
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
struct ServeArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    flags: given::Flags,
    /// How often to look for backups that still have to lose something, in seconds. For tests.
    #[arg(
        long,
        hide = true,
        value_name = "SECONDS",
        default_value_t = BACKUP_ERASURES_EVERY.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    backup_erasures_every: u64,
}

#[derive(Debug, Args)]
struct RecallArgs {
    #[command(flatten)]
    common: Common,
    /// The question: in quotes, or as words.
    #[arg(required = true)]
    question: Vec<String>,
    /// Show what each item is linked to.
    #[arg(long)]
    graph: bool,
    /// How many items [default: the router's bound].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=50))]
    limit: Option<u8>,
    /// Only this modality, such as text or code.
    #[arg(long)]
    modality: Option<String>,
    /// By meaning alone.
    #[arg(long)]
    semantic: bool,
    /// In the store of this tenant, in the operator's name; it is in the tenant's ledger.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
}

#[derive(Debug, Args)]
struct IngestArgs {
    #[command(flatten)]
    common: Common,
    /// Files and folders.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Read only files that a glob fits, such as '*.md'; without `/` by their name, at any depth. May be given
    /// several times.
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Pass over files that a glob fits, such as 'tests/**', beneath what is read. May be given several times.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
    /// In the store of this tenant, in the operator's name; it is in the tenant's ledger.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
}

#[derive(Debug, Args)]
struct ImportArgs {
    #[command(flatten)]
    common: Common,
    /// What to read; `-` is standard input. Lines of `export`, or what another program exported: a file, an
    /// archive, or a folder of notes.
    file: PathBuf,
    /// What it is: recalld, mcp-memory, mem0, mcp-memory-service, vault, chatgpt, claude or plain [default: told
    /// from what is in it].
    #[arg(long, value_name = "SHAPE", value_parser = import::shape)]
    from: Option<import::From>,
    /// Import nothing if any line is bad.
    #[arg(long)]
    strict: bool,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
    /// In the store of this tenant, in the operator's name; it is in the tenant's ledger.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
}

#[derive(Debug, Args)]
struct ExportArgs {
    #[command(flatten)]
    common: Common,
    /// Where to write; `-` is standard output.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Replace FILE if it is there.
    #[arg(long)]
    force: bool,
    /// Write a folder of Markdown notes, one for each memory that stands, and not lines: for people, and for programs
    /// such as Obsidian. The folder must not be there, or be empty.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "force"])]
    vault: Option<PathBuf>,
    /// In the store of this tenant, in the operator's name; it is in the tenant's ledger.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
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

impl Common {
    fn data(&self) -> Result<PathBuf, Failure> {
        if let Some(data) = &self.data {
            return std::path::absolute(data).map_err(Failure::could);
        }
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let chosen = set("RECALLD_DATA")
            .map(PathBuf::from)
            .or_else(|| set("XDG_STATE_HOME").map(|home| PathBuf::from(home).join("recalld")))
            .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".local/state/recalld")));
        let chosen = chosen.ok_or_else(|| {
            Failure::Usage("HOME is not set; say where the data is with --data DIR".to_owned())
        })?;
        std::path::absolute(chosen).map_err(Failure::could)
    }

    /// The data directory, for a command that only reads: the store is there.
    fn data_with_store(&self) -> Result<PathBuf, Failure> {
        let data = self.data()?;
        data_dir::check_store(&data).map_err(Failure::Could)?;
        Ok(data)
    }

    /// For a command that opens the store to read it: what was typed is right, and the store is there.
    fn check_reading(&self) -> Result<(), Failure> {
        self.settings()?;
        self.data_with_store().map(drop)
    }

    /// The data directory, for a command that reads what is beside the store: it is there.
    fn data_there(&self) -> Result<PathBuf, Failure> {
        let data = self.data()?;
        if data.is_dir() { Ok(data) } else { self.data_with_store() }
    }

    /// Whether somebody said where the data is.
    fn names_data(&self) -> bool {
        let variable = std::env::var_os("RECALLD_DATA");
        self.data.is_some() || variable.is_some_and(|value| !value.is_empty())
    }

    /// What a command that is told to the user needs to find the same data: nothing, or `--data`.
    fn same_data(&self) -> Result<String, Failure> {
        match &self.data {
            None => Ok(String::new()),
            Some(_) => Ok(format!(" --data {}", tell::shell_word(&self.data()?))),
        }
    }

    /// The folder of the encoder's files, if one is named.
    fn model_directory(&self) -> Option<PathBuf> {
        let set = || std::env::var_os("RECALLD_MODEL").filter(|value| !value.is_empty());
        self.model.clone().or_else(|| set().map(PathBuf::from))
    }

    fn encoding(&self) -> Result<Encoding, Failure> {
        encoding::chosen(self.kernel.as_deref(), self.precision.as_deref(), &|name| {
            std::env::var_os(name)
        })
        .map_err(Failure::Usage)
    }

    fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            data: self.data()?,
            model: self.model_directory(),
            encoding: self.encoding()?,
            call_time_max: CALL_TIME_MAX,
            durability: Durability::Sync,
            search_mode: SearchMode::default(),
            config: Config::default(),
            public_url: None,
            pdf: read_pdf::this_program(),
        })
    }

    /// The parts, for a command that has the store to itself; `None` when a server has it.
    fn start_alone(&self) -> Result<Option<Started>, Failure> {
        let mut bar = Bar::of_command(Unit::Bytes, self.json);
        match app::start(&self.settings()?, &mut bar) {
            Ok(started) => Ok(Some(started)),
            Err(StartError::Busy(_)) => Ok(None),
            Err(error) => Err(Failure::could(error)),
        }
    }
}
