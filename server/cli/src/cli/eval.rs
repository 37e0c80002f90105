//! `recalld eval`: measures answer quality on a data set with known answers.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use engine::{Durability, Micros, SearchMode};

use super::common::Common;
use super::failure::Failure;
use super::scratch::Scratch;
use super::tell::{tell, tell_line};
use crate::app;
use crate::app::{Settings, Started};
use crate::eval::{Dataset, Foreign, How, Lane, evaluate};
use crate::limits::SYNC_INTERVAL;
use recalld_api::app_state::AppState;
use recalld_common::cancel::{CallScope, CancellationToken};
use recalld_common::names;
use recalld_embedding::model::{Bar, Progress, Unit};
use recalld_interchange::lines::ImportError;
use recalld_interchange::lines::import::Import;
use recalld_policy::Caller;

use recalld_tool_framework::ToolContext;
use recalld_workspace::workspace::Workspace;

/// File in a reusable store with the hash of its documents and supersessions. The file is written after all documents
/// are stored.
const MADE_OF: &str = "eval-corpus.sha256";

#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    #[command(flatten)]
    common: Common,
    /// Folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, or with supersession_queries.jsonl.
    dir: PathBuf,
    /// The retrieval path of the questions.
    #[arg(long, default_value = "governed", value_name = "LANE")]
    lane: Way,
    /// Name of the relevance judgments.
    #[arg(long, default_value = "test", value_name = "NAME")]
    split: String,
    /// Ask at most N questions [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// JSON Lines of questions outside the data set; the rate of abstentions is measured.
    #[arg(long, value_name = "FILE")]
    foreign: Option<PathBuf>,
    /// The callers' current time, from which `last week` in a question is resolved.
    #[arg(long, default_value = "2026-01-01T00:00:00Z", value_name = "TIME", value_parser = names::parse_time)]
    now: Micros,
    /// Keep the store in this folder for the next run, so that documents are embedded once [default: a temporary
    /// folder, removed at the end].
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

/// A retrieval path as a command-line value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    Words,
    Meaning,
    Governed,
}

pub(super) fn run(args: &EvalArgs) -> Result<(), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    if args.common.data.is_some() {
        let why = "--data is not for eval, which never asks a memory; --store DIR keeps its own";
        return Err(Failure::Usage(why.to_owned()));
    }
    let mut dataset = Dataset::open(&args.dir, &args.split).map_err(|error| wrong(&error))?;
    if let Some(limit) = args.limit {
        dataset.ask_at_most(limit as usize);
    }
    let foreign = args.foreign.as_deref().map(Foreign::open).transpose();
    let foreign = foreign.map_err(|error| wrong(&error))?;
    let lane = match args.lane {
        Way::Words => Lane::Words,
        Way::Meaning => Lane::Meaning,
        Way::Governed => Lane::Governed,
    };
    // The temporary folder is removed at the end, unless `--store` names a folder to keep.
    let (_scratch, data) = match &args.store {
        Some(store) => (None, std::path::absolute(store).map_err(Failure::could)?),
        None => {
            let scratch = Scratch::create("recalld-eval")?;
            let data = scratch.path().join("data");
            (Some(scratch), data)
        }
    };
    let parts = prepared(args, &dataset, &data)?.parts;
    let caller = Caller::local_operator(parts.local.name());
    let bar = std::sync::Mutex::new(Bar::of_command(Unit::Questions, args.common.json));
    let advance = |done: u64, total: u64, what: &str| {
        let mut bar = bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        bar.advance(what, done, Some(total));
    };
    let local = parts.local.get();
    let context = context((&parts, &local), &caller, &advance);
    let how = How { lane, now: args.now };
    let report = evaluate(&context, &dataset, how, foreign.as_ref()).map_err(Failure::could)?;
    drop(bar);
    match args.common.json {
        true => tell_line(&report.to_json()),
        false => tell(&report.readable()),
    }
}

fn context<'a>(
    (parts, workspace): (&'a AppState, &'a Workspace),
    caller: &'a Caller,
    tell: recalld_common::cancel::Progress<'a>,
) -> ToolContext<'a> {
    static NEVER: std::sync::LazyLock<CancellationToken> =
        std::sync::LazyLock::new(CancellationToken::new);
    let deadline = Instant::now() + recalld_api::operator::INGEST_TIME_MAX;
    let progress = Some(tell);
    ToolContext {
        services: parts.tool_services(),
        workspace,
        caller,
        cancel: &NEVER,
        deadline,
        progress,
    }
}

/// Opens a store that contains exactly the data set's documents.
fn prepared(args: &EvalArgs, dataset: &Dataset, data: &Path) -> Result<Started, Failure> {
    let made_of = data.join(MADE_OF);
    let wanted = dataset.made_of().map_err(|error| Failure::Usage(error.to_string()))?;
    let is_made = match fs::read_to_string(&made_of) {
        Ok(found) if found == wanted => true,
        Ok(_) => {
            let why = "holds the documents of another data set, of other relations, or of another version \
                       of this program; choose another folder for --store";
            return Err(Failure::Usage(format!("{}: {why}", data.display())));
        }
        Err(_) => false,
    };
    if !is_made && data.exists() && !is_empty(data)? {
        let why =
            "is not empty, and no store of a finished eval; choose another folder for --store";
        return Err(Failure::Usage(format!("{}: {why}", data.display())));
    }
    let settings = Settings {
        data: data.to_owned(),
        model: args.common.model.clone(),
        encoding: args.common.encoding()?,
        call_time_max: recalld_api::operator::INGEST_TIME_MAX,
        // Writes lost in a power failure are made again.
        durability: Durability::Interval(SYNC_INTERVAL),
        // Exact search, so that the metrics do not depend on the progress of index builds.
        search_mode: SearchMode::Exact,
        config: recalld_config::Config::default(),
        public_url: None,
        pdf: None,
    };
    let started = app::start(&settings, &mut Bar::of_command(Unit::Bytes, args.common.json))
        .map_err(Failure::could)?;
    if !is_made {
        fill(args, dataset, &started.parts, data)?;
        fs::write(&made_of, wanted).map_err(|error| failed(&made_of, &error))?;
    }
    Ok(started)
}

/// Imports the documents as `recalld import` does.
fn fill(args: &EvalArgs, dataset: &Dataset, parts: &AppState, data: &Path) -> Result<(), Failure> {
    let path = data.join("eval-documents.jsonl");
    let unwritten = |error: std::io::Error| failed(&path, &error);
    let mut out = BufWriter::new(File::create(&path).map_err(unwritten)?);
    dataset.write_items(&mut out).map_err(|error| Failure::Usage(error.to_string()))?;
    out.flush().map_err(unwritten)?;
    let file = File::open(&path).map_err(unwritten)?;
    let bar = std::sync::Mutex::new(Bar::of_command(Unit::Lines, args.common.json));
    let local = parts.local.get();
    let import = Import {
        encoders: &local.encoders,
        by: "eval",
        strict: true,
        dry_run: false,
        call: CallScope::endless(),
        progress: &|done, total| {
            let mut bar = bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            bar.advance("importing", done, Some(total));
        },
    };
    let report = import.run(&file).map_err(|error| match error {
        ImportError::Reading(error) => unwritten(error),
        ImportError::Writing(error) => Failure::could(error),
        ImportError::Damaged(damage) => Failure::could(damage),
        ImportError::Cancelled => Failure::Could("it was called off; start it again".to_owned()),
    })?;
    if report.bad.count > 0 {
        let corpus = dataset.corpus().display();
        return Err(Failure::Usage(format!("{corpus}: {}", report.readable())));
    }
    parts.local.get().store.seal().map_err(Failure::could)?;
    fs::remove_file(&path).map_err(unwritten)
}

fn is_empty(folder: &Path) -> Result<bool, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    Ok(entries.count() == 0)
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Could(format!("{}: {error}", path.display()))
}
