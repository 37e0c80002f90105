//! The ten best documents for the words of a query, by BM25.

use std::time::Instant;

use crate::corpus::Outcome;
use crate::ours::{OneSegment, Ours};
use crate::peer::Reader;
use crate::questions::{Class, Vocabulary};
use crate::report::{Sample, Unit};
use crate::setting::Setting;
use crate::sqlite::SqliteReader;
use crate::stores::{Engine, ensure};
use crate::tantivy_index::Tantivy;

const BEST: usize = 10;
const QUESTION_WORDS: [usize; 3] = [1, 3, 8];

/// Runs over the first `items` items.
pub fn run(setting: &mut Setting, items: u64) -> Outcome<()> {
    let items = setting.corpus.items(items);
    let ours = Ours::open(&ensure(setting, Engine::Ours, items, 0)?)?.reader();
    let sqlite = SqliteReader::open(&ensure(setting, Engine::Sqlite, items, 0)?)?;
    let tantivy = Tantivy::open(&ensure(setting, Engine::Tantivy, items, 0)?)?;
    let mut note = |engine: &'static str, parts: f64| {
        let case = format!("{items} items: parts of the index");
        setting.report.add("words", case, engine, parts, Unit::Count, 1);
    };
    note(Engine::Ours.name(), ours.parts()? as f64);
    note(Engine::Tantivy.name(), tantivy.segments() as f64);
    let vocabulary = Vocabulary::of(&setting.corpus, items)?;
    let one_segment = OneSegment::of(&setting.corpus, items)?;
    let readers: [(&'static str, &dyn Reader); 4] = [
        (Engine::Ours.name(), &ours),
        ("ours, one segment", &one_segment),
        (Engine::Tantivy.name(), &tantivy),
        (Engine::Sqlite.name(), &sqlite),
    ];
    for words in QUESTION_WORDS {
        for class in Class::ALL {
            let count = setting.pick(if class == Class::Mixed { 400 } else { 100 }, 20);
            let seed = (words * 10 + class as usize) as u64;
            let questions = vocabulary.questions(class, words, count, seed);
            let case = {
                let plural = if words == 1 { "" } else { "s" };
                format!("{items} items, {words} {} word{plural}", class.name())
            };
            measure(setting, &case, &questions, &readers)?;
        }
    }
    Ok(())
}

/// Runs every query on every engine in turn, so that noise affects all alike. The result of a query is the median of
/// its rounds; SQLite, which is slowest, has one round.
fn measure(
    setting: &mut Setting,
    case: &str,
    questions: &[String],
    readers: &[(&'static str, &dyn Reader)],
) -> Outcome<()> {
    let rounds = setting.pick(5, 1);
    let mut times = vec![Sample::default(); readers.len()];
    let mut shared = vec![0usize; readers.len()];
    let mut found = 0;
    for question in questions {
        let mut runs = vec![Sample::default(); readers.len()];
        let mut answers = vec![Vec::new(); readers.len()];
        for round in 0..rounds {
            for (at, (name, reader)) in readers.iter().enumerate() {
                if round > 0 && *name == Engine::Sqlite.name() {
                    continue;
                }
                let start = Instant::now();
                answers[at] = reader.best(question, BEST)?;
                runs[at].push_time(start.elapsed());
            }
        }
        found += answers[0].len();
        for (at, answer) in answers.iter().enumerate() {
            times[at].push(runs[at].median());
            shared[at] += answer.iter().filter(|&id| answers[0].contains(id)).count();
        }
    }
    for (at, (name, _)) in readers.iter().enumerate() {
        let mut add = |what: &str, value, unit| {
            setting.report.add(
                "words",
                format!("{case}{what}"),
                name,
                value,
                unit,
                times[at].len(),
            );
        };
        add(", median", times[at].median(), Unit::Micros);
        add(", p99", times[at].quantile(0.99), Unit::Micros);
        add(", share of our answers", shared[at] as f64 / found.max(1) as f64, Unit::Count);
    }
    Ok(())
}
