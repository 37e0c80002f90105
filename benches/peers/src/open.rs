//! Time to the first item: opening a store and reading one row by its id.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::corpus::Outcome;
use crate::ours::Ours;
use crate::peer::{Appender, Reader};
use crate::redb_table::Redb;
use crate::report::{OURS, Sample, Unit};
use crate::setting::{Setting, disk_reads, forget};
use crate::sqlite::SqliteReader;
use crate::stores::{Engine, ensure};

/// Items left in the write-ahead log by a writer that ended without sealing.
const UNSEALED_ITEMS: u64 = 5_000;
const UNSEALED_BATCH: u64 = 100;

/// Runs at each of `sizes`.
pub fn run(setting: &mut Setting, sizes: &[u64]) -> Outcome<()> {
    for &size in sizes {
        let items = setting.corpus.items(size);
        for engine in [Engine::Ours, Engine::Sqlite, Engine::Redb] {
            let folder = ensure(setting, engine, items, 0)?;
            measure(setting, engine, &folder, items)?;
        }
    }
    unsealed(setting)
}

/// Opens the store, reads the middle item and returns the elapsed time.
fn once(engine: Engine, folder: &Path, items: u64) -> Outcome<Duration> {
    let start = Instant::now();
    let number = items / 2;
    // The store is returned too, so that it is dropped outside the timed part.
    let (bytes, time, _opened): (usize, Duration, Box<dyn std::any::Any>) = match engine {
        Engine::Ours => {
            let store = Ours::open(folder)?;
            (store.reader().text_bytes(number)?, start.elapsed(), Box::new(store))
        }
        Engine::Sqlite => {
            let reader = SqliteReader::open(folder)?;
            (reader.text_bytes(number)?, start.elapsed(), Box::new(reader))
        }
        Engine::Redb => {
            let reader = Redb::open(folder)?;
            (reader.text_bytes(number)?, start.elapsed(), Box::new(reader))
        }
        Engine::Tantivy => return Err("tantivy's index holds no texts".into()),
    };
    if bytes == 0 {
        return Err("an item without text".into());
    }
    Ok(time)
}

fn measure(setting: &mut Setting, engine: Engine, folder: &Path, items: u64) -> Outcome<()> {
    let (warm_runs, cold_runs) = setting.pick((51, 11), (5, 3));
    let (mut warm, mut cold, mut read) = (Sample::default(), Sample::default(), Sample::default());
    once(engine, folder, items)?;
    for _ in 0..warm_runs {
        warm.push_time(once(engine, folder, items)?);
    }
    for _ in 0..cold_runs {
        forget(folder)?;
        let before = disk_reads();
        cold.push_time(once(engine, folder, items)?);
        read.push((disk_reads() - before) as f64);
    }
    let name = engine.name();
    let mut add = |case: &str, sample: &Sample, unit| {
        let case = format!("{items} items, {case}");
        setting.report.add("open", case, name, sample.median(), unit, sample.len());
    };
    add("warm", &warm, Unit::Micros);
    add("cache dropped by advice", &cold, Unit::Micros);
    add("cache dropped: read from disk", &read, Unit::Bytes);
    Ok(())
}

/// Measures opening with a log to replay. The store is dropped without sealing.
fn unsealed(setting: &mut Setting) -> Outcome<()> {
    let items = setting.corpus.items(setting.pick(UNSEALED_ITEMS, 500));
    let folder = setting.folder.join("open-unsealed");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let store = Ours::open(&folder)?;
    for first in (0..items).step_by(UNSEALED_BATCH as usize) {
        let numbers = first..items.min(first + UNSEALED_BATCH);
        store.append(&numbers.map(|number| setting.corpus.item(number)).collect::<Vec<_>>())?;
    }
    drop(store);
    let mut sample = Sample::default();
    for _ in 0..setting.pick(11, 3) {
        sample.push_time(once(Engine::Ours, &folder, items)?);
    }
    let case = format!("{items} items in the log, unsealed");
    setting.report.add("open", case, OURS, sample.median(), Unit::Micros, sample.len());
    Ok(std::fs::remove_dir_all(&folder)?)
}
