//! Resident memory of a process that has opened a store and answered a hundred queries.
//!
//! Each engine has its own process: this program again, with the queries on standard input.

use std::fmt;
use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;

use benches::Numbers;
use kernels::Kernels;

use crate::corpus::{DIMENSIONS, Outcome};
use crate::ours::Ours;
use crate::peer::Reader;
use crate::questions::{Class, Vocabulary};
use crate::report::Unit;
use crate::setting::Setting;
use crate::sqlite::SqliteReader;
use crate::stores::{Engine, ensure};
use crate::tantivy_index::Tantivy;

const QUESTIONS: usize = 100;
const QUESTION_WORDS: usize = 3;
const BEST: usize = 10;
/// Documents that the words of the queries are drawn from.
const VOCABULARY_ITEMS_MAX: u64 = 20_000;

/// Work of the child process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Ours,
    /// Our engine, with a search of the embeddings too.
    OursNearest,
    Sqlite,
    Tantivy,
}

const TASKS: [(Task, &str, &str); 4] = [
    (Task::Ours, "ours", "words"),
    (Task::OursNearest, "ours-nearest", "words and embeddings"),
    (Task::Sqlite, "sqlite", "words"),
    (Task::Tantivy, "tantivy", "words"),
];

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = TASKS.iter().find(|row| row.0 == *self);
        f.write_str(row.map_or("", |row| row.1))
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let row = TASKS.iter().find(|row| row.1 == text);
        row.map(|row| row.0).ok_or_else(|| format!("no such task: {text}"))
    }
}

/// Resident bytes of this process.
#[derive(Debug, Clone, Copy, Default)]
struct Resident {
    anonymous: u64,
    file_backed: u64,
}

impl Resident {
    fn now() -> Outcome<Self> {
        let text = fs::read_to_string("/proc/self/smaps_rollup")?;
        let field = |name: &str| -> Outcome<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let value = line.ok_or("smaps_rollup has another form")?.trim();
            Ok(value.trim_end_matches(" kB").parse::<u64>()? * 1024)
        };
        let (all, anonymous) = (field("Rss:")?, field("Anonymous:")?);
        Ok(Self { anonymous, file_backed: all - anonymous })
    }
}

/// Runs at each of `sizes`.
pub fn run(setting: &mut Setting, sizes: &[u64]) -> Outcome<()> {
    for &size in sizes {
        let items = setting.corpus.items(size);
        let vocabulary = Vocabulary::of(&setting.corpus, items.min(VOCABULARY_ITEMS_MAX))?;
        let questions = vocabulary.questions(Class::Mixed, QUESTION_WORDS, QUESTIONS, 11);
        for (task, _, what) in TASKS {
            let engine = match task {
                Task::Ours | Task::OursNearest => Engine::Ours,
                Task::Sqlite => Engine::Sqlite,
                Task::Tantivy => Engine::Tantivy,
            };
            let folder = ensure(setting, engine, items, 0)?;
            let found = in_a_process(task, &folder, &questions)?;
            let mut add = |kind: &str, bytes: u64| {
                let case = format!("{items} items, {what}: {kind}");
                let size = bytes as f64 / f64::from(1 << 20);
                setting.report.add("memory", case, engine.name(), size, Unit::Mebibytes, 1);
            };
            add("anonymous", found.anonymous);
            add("file-backed", found.file_backed);
        }
    }
    Ok(())
}

/// Returns the memory growth of a child process from before it opens the store.
fn in_a_process(task: Task, folder: &Path, questions: &[String]) -> Outcome<Resident> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["memory-of-one", "--task", &task.to_string(), "--store"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("no way to the process")?;
    input.write_all(questions.join("\n").as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    match (output.status.success(), &*numbers) {
        (true, &[anonymous, file_backed]) => Ok(Resident { anonymous, file_backed }),
        _ => Err(format!("the process for {task} ended with {}", output.status).into()),
    }
}

/// The child process: opens the store, answers the queries and prints its growth in bytes.
pub fn of_one(task: Task, folder: &Path) -> Outcome<()> {
    let questions = std::io::stdin().lock().lines().collect::<Result<Vec<_>, _>>()?;
    let before = Resident::now()?;
    let answer = |reader: &dyn Reader| -> Outcome<()> {
        questions.iter().try_for_each(|question| reader.best(question, BEST).map(drop))
    };
    let after = match task {
        Task::Ours | Task::OursNearest => {
            let store = Ours::open(folder)?;
            let reader = store.reader();
            answer(&reader)?;
            if task == Task::OursNearest {
                let (kernels, mut numbers) = (Kernels::detect(), Numbers::new(13));
                for _ in &questions {
                    reader.nearest(&kernels, &numbers.vector(DIMENSIONS), BEST)?;
                }
            }
            Resident::now()?
        }
        Task::Sqlite => {
            let reader = SqliteReader::open(folder)?;
            answer(&reader)?;
            Resident::now()?
        }
        Task::Tantivy => {
            let reader = Tantivy::open(folder)?;
            answer(&reader)?;
            Resident::now()?
        }
    };
    println!(
        "{} {}",
        after.anonymous.saturating_sub(before.anonymous),
        after.file_backed.saturating_sub(before.file_backed)
    );
    Ok(())
}
