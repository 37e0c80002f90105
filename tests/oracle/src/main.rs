//! The encoder's tokenizer compared with the published implementation, the crate `tokenizers`: the same ids for every
//! text, under all settings.
//!
//!     oracle TOKENIZER_JSON [--strings N] [--seed S] [--short] [--setting TEXT]
//!     oracle TOKENIZER_JSON --speed
//!
//! Compares every Unicode scalar value in its contexts, `N` random strings, documents of this repository and texts of a
//! mebibyte, under many settings. A difference is minimized, printed escaped, and the program exits with 1. `--short`
//! leaves out most settings, most unassigned scalar values and most documents, and shortens the long texts. `--setting`
//! selects the settings with the text in their names. `--speed` measures instead.

mod compare;
mod dice;
mod documents;
mod large;
mod scalars;
mod settings;
mod speed;
mod strings;
mod tally;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::compare::Pair;
use crate::dice::Dice;
use crate::settings::Setting;
use crate::tally::Tally;

/// Result of a program step; the error is a text for people.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Random strings for all settings together, if no number is given.
const STRINGS: usize = 200_000;
/// A short run uses every eighth document.
const SHORT_RUN_TAKES_EACH: usize = 8;

struct Arguments {
    published: Value,
    strings: usize,
    seed: u64,
    setting: String,
    short: bool,
    speed: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("oracle: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<bool> {
    let arguments = arguments()?;
    if arguments.speed {
        speed::measure(&arguments.published)?;
        return Ok(true);
    }
    let mut settings = settings::all(&arguments.published, arguments.short);
    settings.retain(|setting| setting.name.contains(&arguments.setting));
    if settings.is_empty() {
        return Err(format!("no setting has {:?} in its name", arguments.setting).into());
    }
    println!("oracle: {} settings, seed {}", settings.len(), arguments.seed);
    let words = settings::plain_words(&arguments.published);
    let documents = documents::read()?;
    let tally = Tally::default();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let turns: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> Outcome<()> {
                    while let Some(setting) = settings.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let share = arguments.strings.div_ceil(settings.len());
                        one(&arguments, setting, share, &words, &documents, &tally)?;
                        eprintln!("oracle: done with {}", setting.name);
                    }
                    Ok(())
                })
            })
            .collect();
        turns.into_iter().try_for_each(|turn| turn.join().expect("no thread panics"))
    })?;
    tally.print();
    Ok(tally.differences() == 0)
}

/// Runs all comparisons under one setting.
fn one(
    arguments: &Arguments,
    setting: &Setting,
    share: usize,
    words: &[String],
    documents: &[String],
    tally: &Tally,
) -> Outcome<()> {
    let mut pair = Pair::open(setting)?;
    for block in scalars::blocks(setting.scalars) {
        tally.add("scalars in context", &mut pair, &block, None)?;
    }
    for number in 0..share {
        // Each string has its own generator, so it does not depend on the strings before.
        let mut dice = Dice::new(arguments.seed, &setting.name, number);
        let text = strings::any(&mut dice, words, documents);
        let limit = strings::limit(&mut dice);
        tally.add("random strings", &mut pair, &text, limit)?;
    }
    if setting.documents {
        let mut dice = Dice::new(arguments.seed, "documents", 0);
        let each = if arguments.short { SHORT_RUN_TAKES_EACH } else { 1 };
        for text in documents.iter().step_by(each) {
            tally.add("documents", &mut pair, text, None)?;
            tally.add("documents", &mut pair, strings::cut(&mut dice, text), Some(256))?;
        }
    }
    if setting.large {
        let bytes = if arguments.short { large::SHORT_BYTES } else { large::BYTES };
        for (_, text) in large::all(arguments.seed, words, bytes) {
            tally.add("long texts", &mut pair, &text, None)?;
            for limit in [3, 17, 256] {
                tally.add("long texts", &mut pair, &text, Some(limit))?;
            }
        }
    }
    Ok(())
}

fn arguments() -> Outcome<Arguments> {
    let mut given = std::env::args().skip(1);
    let path = given.next().ok_or("usage: oracle TOKENIZER_JSON [--strings N] [--seed S] ...")?;
    let bytes = std::fs::read(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let mut arguments = Arguments {
        published: serde_json::from_slice(&bytes)?,
        strings: STRINGS,
        seed: now.as_secs(),
        setting: String::new(),
        short: false,
        speed: false,
    };
    while let Some(name) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{name} wants a value"));
        match name.as_str() {
            "--strings" => arguments.strings = value()?.parse()?,
            "--seed" => arguments.seed = value()?.parse()?,
            "--setting" => arguments.setting = value()?,
            "--short" => arguments.short = true,
            "--speed" => arguments.speed = true,
            _ => return Err(format!("there is no {name}; see the head of main.rs").into()),
        }
    }
    Ok(arguments)
}
