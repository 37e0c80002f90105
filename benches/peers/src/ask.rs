//! tantivy's side of `benches/recall`: an index of its documents, queried line by line.
//!
//! The first line of output is `{"ready": {...}}`. After that, each input line is a request and each output line its
//! response, in the protocol of `benches/examples/recall_worker`:
//!
//! ```text
//! {"words": {"questions": ["..."], "limit": 10}}
//!     -> {"milliseconds": [one number each], "numbers": [lists of the documents' places]}
//! ```

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::corpus::Outcome;
use crate::peer::Appender;
use crate::tantivy_index::{Tantivy, TantivyWriter};

/// Most results of a query.
const LIMIT_MAX: u64 = 1_000;

/// Answers requests until the input ends.
pub fn answer_lines(documents: &Path, index: &Path) -> Outcome<()> {
    if !index.exists() {
        // Indexes under a temporary name until the index is complete.
        let unfinished = index.with_extension("unfinished");
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished)?;
        }
        make(documents, &unfinished)?;
        std::fs::rename(&unfinished, index)?;
    }
    let tantivy = Tantivy::open(index)?;
    println!("{}", json!({ "ready": { "parts": tantivy.segments() } }));
    for line in std::io::stdin().lock().lines() {
        let answer = answer(&tantivy, &line?);
        println!("{}", answer.unwrap_or_else(|error| json!({ "error": error.to_string() })));
    }
    Ok(())
}

fn make(documents: &Path, index: &Path) -> Outcome<()> {
    let writer = TantivyWriter::create(index)?;
    for (number, line) in (0..).zip(BufReader::new(File::open(documents)?).lines()) {
        let document: Value = serde_json::from_str(&line?)?;
        let field = |name: &str| document[name].as_str().unwrap_or_default();
        writer.add(number, field("title"), field("text"))?;
    }
    writer.finish()
}

fn answer(tantivy: &Tantivy, line: &str) -> Outcome<Value> {
    let request: Value = serde_json::from_str(line)?;
    let words = request.get("words").ok_or("a request is {\"words\": {...}}")?;
    let limit = words["limit"].as_u64().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    let limit = limit.ok_or_else(|| format!("`limit` is from 1 to {LIMIT_MAX}"))? as usize;
    let questions = words["questions"].as_array().ok_or("`questions` is an array of strings")?;
    let (mut milliseconds, mut numbers) = (Vec::new(), Vec::new());
    for question in questions {
        let question = question.as_str().ok_or("`questions` is an array of strings")?;
        let start = Instant::now();
        let best = black_box(tantivy.best_numbers(black_box(question), limit)?);
        milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
        numbers.push(best);
    }
    Ok(json!({ "milliseconds": milliseconds, "numbers": numbers }))
}
