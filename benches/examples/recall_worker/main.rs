//! Our side of `benches/recall`: creates data directories, exports their contents, and times queries to the store
//! without a server.
//!
//! ```text
//! recall_worker make --data DIR --rows N --edges M     a data directory with made-up items
//! recall_worker dump --data DIR --folder OUT           its items, edges and vectors, for the peers
//! recall_worker ask --data DIR                         answers lines; `ask.rs` has the protocol
//! ```
//!
//! A data directory here can be opened by `recalld serve`: its store is bound to the encoder that the server would use.
//! The worker MUST NOT depend on the peers or on the use of the figures.

mod ask;
mod dump;
mod made;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, Subcommand};
use engine::{Durability, SearchMode};
use recalld_cli::app;
use recalld_cli::app::{Settings, Started};
use recalld_embedding::encoding::Encoding;
use recalld_embedding::model::Silent;

/// Any error ends a measurement and is printed once.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about = "Stores for benches/recall, and their answers; started by benches/recall/run")]
struct Arguments {
    #[command(subcommand)]
    act: Act,
}

#[derive(Subcommand)]
enum Act {
    /// Creates a data directory with synthetic items.
    Make {
        #[arg(long)]
        data: PathBuf,
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
        rows: u32,
        #[arg(long, default_value_t = 0)]
        edges: u32,
    },
    /// Exports a data directory into files that a peer reads.
    Dump {
        #[arg(long)]
        data: PathBuf,
        #[arg(long)]
        folder: PathBuf,
        /// Exports ids and vectors, but neither items nor edges.
        #[arg(long)]
        vectors_only: bool,
    },
    /// Answers requests from standard input, one a line.
    Ask {
        #[arg(long)]
        data: PathBuf,
    },
}

fn main() -> std::process::ExitCode {
    let outcome = match Arguments::parse().act {
        Act::Make { data, rows, edges } => made::make(&data, rows, edges),
        Act::Dump { data, folder, vectors_only } => dump::dump(&data, &folder, vectors_only),
        Act::Ask { data } => ask::answer_lines(&data),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("recall_worker: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// Opens a data directory as a server does, and creates it if it is missing.
fn open(data: &Path) -> Result<Started, Failure> {
    let settings = Settings {
        data: data.to_owned(),
        model: None,
        encoding: Encoding::detect(),
        call_time_max: Duration::from_secs(120),
        durability: Durability::Sync,
        search_mode: SearchMode::Exact,
        config: recalld_config::Config::default(),
        public_url: None,
        pdf: None,
    };
    Ok(app::start(&settings, &mut Silent)?)
}
