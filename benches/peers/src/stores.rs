//! Stores of a given size: created once in a folder and shared by all benchmarks.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::corpus::{self, Outcome};
use crate::ours::Ours;
use crate::peer::Appender;
use crate::redb_table::Redb;
use crate::report::{OURS, Unit};
use crate::setting::{Setting, processor_time};
use crate::sqlite::{SqliteWriter, Words};
use crate::tantivy_index::TantivyWriter;

/// Items of one transaction while a store is created.
const BATCH_ITEMS: u64 = 500;
/// Edges of one transaction while a store is created.
const BATCH_EDGES: usize = 5_000;

/// An engine that stores are created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Ours,
    Sqlite,
    Redb,
    Tantivy,
}

impl Engine {
    pub const ALL: [Self; 4] = [Self::Ours, Self::Sqlite, Self::Redb, Self::Tantivy];

    /// Name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => OURS,
            Self::Sqlite => "SQLite",
            Self::Redb => "redb",
            Self::Tantivy => "tantivy",
        }
    }
}

/// Returns the folder of `engine`'s store with the first `items` items and `edge_count` edges between them, and creates
/// the store if it is missing.
pub fn ensure(
    setting: &mut Setting,
    engine: Engine,
    items: u64,
    edge_count: u64,
) -> Outcome<PathBuf> {
    let items = setting.corpus.items(items);
    let name = format!("{}-{items}-{edge_count}", engine.name());
    let folder = setting.folder.join(&name);
    let done = setting.folder.join(format!("{name}.done"));
    if done.exists() {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)?; // what an earlier run left half done
    }
    let case = match edge_count {
        0 => format!("{items} items"),
        _ => format!("{items} items, {edge_count} edges"),
    };
    let appender: Box<dyn Appender> = match engine {
        Engine::Ours => Box::new(Ours::open(&folder)?),
        Engine::Sqlite => Box::new(SqliteWriter::open(&folder, Words::Indexed)?),
        Engine::Redb => Box::new(Redb::open(&folder)?),
        Engine::Tantivy => Box::new(TantivyWriter::create(&folder)?),
    };
    let (mut wall, mut work) = (Duration::ZERO, Duration::ZERO);
    let mut timed = |act: &dyn Fn() -> Outcome<()>| {
        let (start, before) = (Instant::now(), processor_time());
        let result = act();
        wall += start.elapsed();
        work += processor_time() - before;
        result
    };
    for first in (0..items).step_by(BATCH_ITEMS as usize) {
        let numbers = first..items.min(first + BATCH_ITEMS);
        let batch: Vec<_> = numbers.map(|number| setting.corpus.item(number)).collect();
        timed(&|| appender.append(&batch))?;
    }
    let edges: Vec<_> = corpus::edges(items, edge_count).collect();
    for batch in edges.chunks(BATCH_EDGES) {
        timed(&|| appender.append_edges(batch))?;
    }
    timed(&|| appender.finish())?;
    drop(appender);
    note(setting, engine, case, items, wall, work);
    fs::write(done, "")?;
    Ok(folder)
}

fn note(
    setting: &mut Setting,
    engine: Engine,
    case: String,
    items: u64,
    wall: Duration,
    work: Duration,
) {
    let rate = items as f64 / wall.as_secs_f64();
    setting.report.add("build", case.clone(), engine.name(), rate, Unit::PerSecond, 1);
    let case = format!("{case}, processor time");
    setting.report.add("build", case, engine.name(), work.as_secs_f64(), Unit::Seconds, 1);
}
