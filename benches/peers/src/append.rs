//! Durable appends: one item or a hundred in a transaction, by one thread or several.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::corpus::{Item, Outcome};
use crate::ours::Ours;
use crate::peer::Appender;
use crate::redb_table::Redb;
use crate::report::{OURS, Sample, Unit};
use crate::setting::Setting;
use crate::sqlite::{SqliteWriter, Words};

/// Batch size, threads and amount of one case.
#[derive(Debug, Clone, Copy)]
struct Case {
    threads: usize,
    items_per_append: usize,
    /// Appends of each thread in each round.
    appends: usize,
}

const CASES: [Case; 4] = [
    Case { threads: 1, items_per_append: 1, appends: 100 },
    Case { threads: 1, items_per_append: 100, appends: 8 },
    Case { threads: 4, items_per_append: 1, appends: 40 },
    Case { threads: 8, items_per_append: 1, appends: 20 },
];

/// Rounds are short and many: a disk that others use too is busy in bursts, and each burst then meets all engines.
const ROUNDS: usize = 15;

/// A file that is appended to and synced: the limit of the disk.
#[derive(Debug)]
struct PlainFile {
    file: Mutex<File>,
}

impl Appender for PlainFile {
    fn append(&self, items: &[Item]) -> Outcome<()> {
        let mut bytes = Vec::new();
        for item in items {
            bytes.extend(item.id.to_le_bytes());
            bytes.extend(item.title.as_bytes());
            bytes.extend(item.text.as_bytes());
            bytes.extend(bytemuck::cast_slice::<_, u8>(&item.embedding));
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&bytes)?;
        Ok(file.sync_data()?)
    }
}

type Named = (&'static str, Box<dyn Appender>);

fn engines(folder: &Path) -> Outcome<Vec<Named>> {
    fs::create_dir_all(folder)?;
    let plain = PlainFile { file: Mutex::new(File::create(folder.join("plain"))?) };
    Ok(vec![
        (OURS, Box::new(Ours::open(&folder.join("ours"))?)),
        ("SQLite + FTS5", {
            Box::new(SqliteWriter::open(&folder.join("sqlite-words"), Words::Indexed)?)
        }),
        ("SQLite", Box::new(SqliteWriter::open(&folder.join("sqlite"), Words::Left)?)),
        ("redb", Box::new(Redb::open(&folder.join("redb"))?)),
        ("plain file", Box::new(plain)),
    ])
}

/// Runs all cases.
pub fn run(setting: &mut Setting) -> Outcome<()> {
    let rounds = setting.pick(ROUNDS, 2);
    for (at, case) in CASES.into_iter().enumerate() {
        let case = Case { appends: setting.pick(case.appends, case.appends.div_ceil(5)), ..case };
        let folder = setting.folder.join(format!("append-{at}"));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let engines = engines(&folder)?;
        let mut rates = vec![Sample::default(); engines.len()];
        let mut waits = vec![Sample::default(); engines.len()];
        let mut next = 0;
        for _ in 0..rounds {
            let work = items_of(setting, case, &mut next)?;
            for (at, (_, engine)) in engines.iter().enumerate() {
                let (rate, wait) = round(&**engine, &work)?;
                rates[at].push(rate);
                wait.into_iter().for_each(|micros| waits[at].push(micros));
            }
        }
        for ((name, _), (rates, waits)) in engines.iter().zip(rates.iter().zip(&waits)) {
            note(setting, case, name, rates, waits);
        }
        drop(engines);
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

fn note(setting: &mut Setting, case: Case, name: &'static str, rates: &Sample, waits: &Sample) {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let Case { threads, items_per_append: items, .. } = case;
    let what = format!("{items} item{}, {threads} thread{}", plural(items), plural(threads));
    let mut add = |case: String, value, unit, runs| {
        setting.report.add("append", case, name, value, unit, runs);
    };
    let rate = rates.median() * items as f64;
    add(format!("{what}: items"), rate, Unit::PerSecond, rates.len());
    add(format!("{what}: wait, median"), waits.median(), Unit::Micros, waits.len());
    add(format!("{what}: wait, p99"), waits.quantile(0.99), Unit::Micros, waits.len());
}

/// Appends of each thread, of items that no earlier round used.
type Work = Vec<Vec<Vec<Item>>>;

fn items_of(setting: &Setting, case: Case, next: &mut u64) -> Outcome<Work> {
    let mut append = || -> Vec<Item> {
        let first = *next;
        *next += case.items_per_append as u64;
        (first..*next).map(|number| setting.corpus.item(number)).collect()
    };
    let work: Work =
        (0..case.threads).map(|_| (0..case.appends).map(|_| append()).collect()).collect();
    match setting.corpus.items(*next) == *next {
        true => Ok(work),
        false => Err(format!("the corpus has fewer than {next} paragraphs").into()),
    }
}

/// Returns appends per second of all threads together, and the microseconds of each append.
fn round(engine: &dyn Appender, work: &Work) -> Outcome<(f64, Vec<f64>)> {
    let start = Instant::now();
    let waits: Outcome<Vec<Vec<f64>>> = thread::scope(|scope| {
        let threads: Vec<_> =
            work.iter().map(|appends| scope.spawn(|| all_of(engine, appends))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a writing thread panicked")?)
            .collect()
    });
    let waits: Vec<f64> = waits?.into_iter().flatten().collect();
    Ok((waits.len() as f64 / start.elapsed().as_secs_f64(), waits))
}

fn all_of(engine: &dyn Appender, appends: &[Vec<Item>]) -> Outcome<Vec<f64>> {
    let mut waits = Vec::with_capacity(appends.len());
    for items in appends {
        let start = Instant::now();
        engine.append(items)?;
        waits.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(waits)
}
