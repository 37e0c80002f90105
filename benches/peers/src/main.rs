//! The engine and its peers in one run: SQLite, redb, tantivy, petgraph.
//!
//! Markdown tables and one CSV line per figure go to standard output, progress to standard error. `benches/README.md`
//! describes the comparisons and why they are fair.

mod append;
mod ask;
mod corpus;
mod graph;
mod machine;
mod memory;
mod open;
mod ours;
mod peer;
mod questions;
mod redb_table;
mod report;
mod setting;
mod size;
mod sqlite;
mod stores;
mod tantivy_index;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::corpus::{Corpus, Outcome};
use crate::machine::Machine;
use crate::report::Report;
use crate::setting::Setting;
use crate::stores::Engine;

/// Measures the engine beside SQLite, redb, tantivy and petgraph.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    act: Act,
    /// Folder for stores, which are reused by the next run; default: a folder beside the program, removed at the end.
    #[arg(long, global = true)]
    folder: Option<PathBuf>,
    /// Reads the texts from the .txt, .md, .rst, .rs, .py and .html files under this folder.
    #[arg(long, global = true)]
    corpus: Option<PathBuf>,
    /// Runs for seconds instead of minutes: a smoke test whose figures mean nothing.
    #[arg(long, global = true)]
    quick: bool,
    /// Numbers of items, instead of the defaults of each benchmark.
    #[arg(long, global = true, value_delimiter = ',')]
    items: Vec<u64>,
}

#[derive(Debug, Clone, Subcommand)]
enum Act {
    /// Durable appends, one item or a hundred at a time, by 1, 4 and 8 threads.
    Append,
    /// Opening a store and reading one item by its id.
    Open,
    /// The ten best documents for 1, 3 and 8 words.
    Words,
    /// Items two edges away.
    Graph,
    /// Bytes on disk for each item.
    Size,
    /// Resident memory after a hundred queries.
    Memory,
    /// Makes stores, which are retained with --folder.
    Build {
        /// Makes stores of this engine only.
        #[arg(long)]
        engine: Option<Engine>,
    },
    /// All benchmarks.
    All,
    /// The child process of `memory`.
    #[command(hide = true)]
    MemoryOfOne {
        #[arg(long)]
        task: memory::Task,
        #[arg(long)]
        store: PathBuf,
    },
    /// tantivy's side of `benches/recall`: answers requests from standard input, one a line.
    #[command(hide = true)]
    Ask {
        /// File of documents: an object with `title` and `text` on each line.
        #[arg(long)]
        documents: PathBuf,
        /// Index of the documents; created if missing.
        #[arg(long)]
        index: PathBuf,
    },
}

const SMALL: u64 = 1_000;
const MIDDLE: u64 = 120_000;
const LARGE: u64 = 1_200_000;
const QUICK: u64 = 2_000;
const EDGES_PER_120_ITEMS: u64 = 500;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Outcome<()> {
    if let Act::MemoryOfOne { task, store } = arguments.act {
        return memory::of_one(task, &store);
    }
    if let Act::Ask { documents, index } = arguments.act {
        return ask::answer_lines(&documents, &index);
    }
    let program = std::env::current_exe()?;
    let beside = program.parent().ok_or("this program lies nowhere")?;
    let temporary = tempfile::Builder::new().prefix("peers-").tempdir_in(beside)?;
    let folder = arguments.folder.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&folder)?;
    let machine = Machine::look(&folder);
    if machine.is_memory_only() {
        eprintln!("peers: the stores lie in memory; figures of durable writes say nothing there");
    }
    let corpus = match &arguments.corpus {
        Some(folder) => Corpus::of_folder(folder)?,
        None => Corpus::synthetic(),
    };
    let report = Report::new(machine);
    let mut setting = Setting { folder, quick: arguments.quick, corpus, report };
    let outcome = act(&mut setting, &arguments);
    setting.report.print(); // what was measured before a failure is worth having
    outcome
}

fn act(setting: &mut Setting, arguments: &Arguments) -> Outcome<()> {
    let sizes = |full: &[u64]| match (&*arguments.items, setting.quick) {
        ([], true) => vec![QUICK],
        ([], false) => full.to_vec(),
        (given, _) => given.to_vec(),
    };
    let (open, memory) = (sizes(&[SMALL, MIDDLE, LARGE]), sizes(&[MIDDLE, LARGE]));
    let middle = sizes(&[MIDDLE]);
    let all = matches!(arguments.act, Act::All);
    if all || matches!(arguments.act, Act::Append) {
        append::run(setting)?;
    }
    for &items in &middle {
        if all || matches!(arguments.act, Act::Words) {
            words::run(setting, items)?;
        }
        if all || matches!(arguments.act, Act::Size) {
            size::run(setting, items)?;
        }
        if all || matches!(arguments.act, Act::Graph) {
            graph::run(setting, items, items * EDGES_PER_120_ITEMS / 120)?;
        }
        if let Act::Build { engine: only } = arguments.act {
            for engine in Engine::ALL.into_iter().filter(|it| only.is_none_or(|one| one == *it)) {
                stores::ensure(setting, engine, items, 0)?;
            }
        }
    }
    if all || matches!(arguments.act, Act::Open) {
        open::run(setting, &open)?;
    }
    if all || matches!(arguments.act, Act::Memory) {
        memory::run(setting, &memory)?;
    }
    Ok(())
}
