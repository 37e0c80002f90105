//! Queries to the store itself, without a server, timed one by one.
//!
//! The first line of output is `{"ready": {...}}` or `{"error": "..."}`. After that, each input line is a request, and
//! each output line its response:
//!
//! ```text
//! {"embed": {"texts": "texts.json", "vectors": "vectors.f32"}}
//!     -> {"texts": 500}
//! {"nearest": {"vectors": "vectors.f32", "first": 0, "count": 40, "limit": 10}}
//!     -> {"milliseconds": [40 numbers], "ids": [40 lists]}
//! {"words": {"questions": ["..."], "limit": 10}}
//!     -> {"milliseconds": [...], "ids": [...]}
//! ```
//!
//! `texts.json` is an array of strings; `vectors.f32` has one vector per text, little-endian.

use std::hint::black_box;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::Instant;

use engine::{CorruptionError, Filter, Hit, SearchError, Snapshot};
use recalld_cli::app::Started;
use recalld_common::names;
use recalld_embedding::embed::Embedder;
use serde_json::{Value, json};

use crate::Failure;

/// Most queries of one request, and most results of each.
const COUNT_MAX: usize = 100_000;
const LIMIT_MAX: usize = 1_000;

/// Answers requests until the input ends.
pub(crate) fn answer_lines(data: &Path) -> Result<(), Failure> {
    let started = match crate::open(data) {
        Ok(started) => started,
        Err(error) => {
            println!("{}", json!({ "error": error.to_string() }));
            return Err(error);
        }
    };
    let mut asked = Asked::of(&started);
    println!("{}", json!({ "ready": asked.ready()? }));
    for line in std::io::stdin().lock().lines() {
        let answer = asked.answer(&line?);
        let answer = answer.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        println!("{answer}");
    }
    Ok(())
}

struct Asked<'a> {
    started: &'a Started,
    snapshot: Snapshot,
    /// The vector file of the last request, with its vectors.
    vectors: (PathBuf, Vec<f32>),
}

impl<'a> Asked<'a> {
    fn of(started: &'a Started) -> Self {
        let snapshot = started.parts.local.get().store.snapshot();
        Self { started, snapshot, vectors: (PathBuf::new(), Vec::new()) }
    }

    fn embedder(&self) -> std::sync::Arc<Embedder> {
        self.started.parts.local.get().encoders.view().embedder
    }

    fn ready(&self) -> Result<Value, Failure> {
        let counts = self.snapshot.row_counts()?;
        let request = recalld_embedding::encoding::model_request(None);
        let model =
            recalld_embedding::model::ensure(&request, &mut recalld_embedding::model::Silent)?;
        let embedder = self.embedder();
        Ok(json!({
            "items": counts.items, "vectors": counts.vectors, "edges": counts.edges,
            "parts": counts.segments, "dimensions": embedder.model().dimensions,
            "kernel": embedder.kernel(), "precision": embedder.precision(), "model": model.dir,
        }))
    }

    fn answer(&mut self, line: &str) -> Result<Value, Failure> {
        let request: Value = serde_json::from_str(line)?;
        if let Some(embed) = request.get("embed") {
            return self.embed(embed);
        }
        if let Some(nearest) = request.get("nearest") {
            return self.nearest(nearest);
        }
        if let Some(words) = request.get("words") {
            return self.words(words);
        }
        Err("a request is {\"embed\": {...}}, {\"nearest\": {...}} or {\"words\": {...}}".into())
    }

    fn embed(&self, request: &Value) -> Result<Value, Failure> {
        let texts: Value = serde_json::from_slice(&std::fs::read(path(request, "texts")?)?)?;
        let texts = strings(&texts)?;
        let embedder = self.embedder();
        let vectors: Vec<u8> =
            texts.iter().flat_map(|text| embedder.embed(text)).flat_map(f32::to_le_bytes).collect();
        std::fs::write(path(request, "vectors")?, vectors)?;
        Ok(json!({ "texts": texts.len() }))
    }

    fn nearest(&mut self, request: &Value) -> Result<Value, Failure> {
        let file = path(request, "vectors")?;
        if self.vectors.0 != file {
            let bytes = std::fs::read(&file)?;
            let (numbers, _) = bytes.as_chunks::<4>();
            self.vectors = (file, numbers.iter().map(|&it| f32::from_le_bytes(it)).collect());
        }
        let width = usize::try_from(self.embedder().model().dimensions)?;
        let (first, count) =
            (number(request, "first", COUNT_MAX)?, number(request, "count", COUNT_MAX)?);
        let limit = number(request, "limit", LIMIT_MAX)?;
        let queries: Vec<&[f32]> =
            self.vectors.1.chunks_exact(width).skip(first).take(count).collect();
        if queries.len() < count {
            return Err(format!("the file has no {count} vectors from {first} on").into());
        }
        let kernels = self.started.parts.encoding.kernels;
        timed(&self.snapshot, &queries, |query| {
            self.snapshot.nearest(&kernels, query, limit, &Filter::default())
        })
    }

    fn words(&self, request: &Value) -> Result<Value, Failure> {
        let questions = strings(request.get("questions").unwrap_or(&Value::Null))?;
        let limit = number(request, "limit", LIMIT_MAX)?;
        timed(&self.snapshot, &questions, |question| {
            self.snapshot.search_words(question, limit, &Filter::default())
        })
    }
}

/// Runs and times each query once; ids of the results are formatted outside the timed part.
fn timed<Q>(
    snapshot: &Snapshot,
    questions: &[Q],
    ask: impl Fn(&Q) -> Result<Vec<Hit>, SearchError>,
) -> Result<Value, Failure> {
    let mut milliseconds = Vec::with_capacity(questions.len());
    let mut ids = Vec::with_capacity(questions.len());
    for question in questions {
        let start = Instant::now();
        let hits = black_box(ask(black_box(question))?);
        milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
        let named = hits.iter().map(|hit| Ok(names::of_item(&snapshot.item(hit.address)?)));
        ids.push(named.collect::<Result<Vec<String>, CorruptionError>>()?);
    }
    Ok(json!({ "milliseconds": milliseconds, "ids": ids }))
}

fn path(request: &Value, field: &str) -> Result<PathBuf, Failure> {
    let found = request.get(field).and_then(Value::as_str);
    Ok(found.ok_or_else(|| format!("`{field}` is a path"))?.into())
}

fn number(request: &Value, field: &str, most: usize) -> Result<usize, Failure> {
    let found = request.get(field).and_then(Value::as_u64).map(usize::try_from);
    match found {
        Some(Ok(found)) if found <= most => Ok(found),
        _ => Err(format!("`{field}` is a number up to {most}").into()),
    }
}

fn strings(value: &Value) -> Result<Vec<&str>, Failure> {
    let array = value.as_array().ok_or("texts are an array of strings")?;
    let all: Option<Vec<&str>> = array.iter().map(Value::as_str).collect();
    Ok(all.ok_or("texts are an array of strings")?)
}
