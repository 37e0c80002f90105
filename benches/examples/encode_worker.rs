//! Our side of `benches/encoder`: a process that encodes the texts of requests, line by line.
//!
//! The first line of output reports the setup, or why the worker cannot run: `{"ready": {...}}` or `{"error": "..."}`.
//! After that, each input line is a request, and each output line its response:
//!
//! ```text
//! {"time": {"texts": ["..."], "calls": 20, "read_between": false}}
//!     -> {"milliseconds": [20 numbers], "tokens": [one number per text]}
//! {"embed": {"texts": "texts.json", "vectors": "vectors.f32"}}
//!     -> {"texts": 500, "seconds": 1.5}
//! ```
//!
//! `texts.json` is an array of strings; `vectors.f32` receives one vector per text, little-endian. If there are several
//! threads, all of them work on the forward pass of a single text, and several texts are divided among them: the
//! intended use of the encoder. The worker MUST NOT depend on the peers or on the use of the figures.

use std::hint::black_box;
use std::io::{BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use encoder::{Encoder, Precision, Scratch, THREADS_MAX};
use kernels::{Kernels, Level};
use recalld_embedding::encoding::model_request;
use recalld_embedding::model;
use recalld_embedding::model::{Bar, Unit};
use serde_json::{Value, json};

/// Bytes read between two calls on request: 120,000 rows of 384 f16 values, as in a scan.
const READ_BYTES: usize = 120_000 * 384 * 2;
/// Texts of one encoder call when a file is embedded.
const EMBED_TEXTS: usize = 256;
/// Most calls of one request.
const CALLS_MAX: usize = 100_000;

#[derive(Parser)]
#[command(about = "Encodes what it is told to, line by line; started by benches/encoder/run")]
struct Arguments {
    /// Kernel level by name, or `best`: the level that detection would choose on this CPU.
    #[arg(long, default_value = "best")]
    level: String,
    #[arg(long, default_value = "f32")]
    precision: String,
    /// Threads that encode, and that read between calls.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Model directory; default: the model that the server would use.
    #[arg(long)]
    model: Option<PathBuf>,
}

type Failure = Box<dyn std::error::Error>;

fn main() {
    let arguments = Arguments::parse();
    let mut worker = match Worker::open(&arguments) {
        Ok((worker, ready)) => {
            println!("{}", json!({ "ready": ready }));
            worker
        }
        Err(error) => {
            println!("{}", json!({ "error": error.to_string() }));
            std::process::exit(1);
        }
    };
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let answer = match worker.answer(&line) {
            Ok(answer) => answer,
            Err(error) => json!({ "error": error.to_string() }),
        };
        println!("{answer}");
    }
}

struct Worker {
    encoder: Encoder,
    /// Scratch for one text, on which all threads work together.
    together: Scratch,
    /// Scratches for several texts: one per thread, each used by that thread alone.
    apart: Vec<Scratch>,
    /// Memory read between calls; allocated on first use.
    read: Vec<u64>,
}

impl Worker {
    fn open(arguments: &Arguments) -> Result<(Worker, Value), Failure> {
        let kernels = kernels_of(&arguments.level)?;
        let precision = precision_of(&arguments.precision)?;
        let threads = arguments.threads;
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(format!("--threads {threads}: from 1 to {THREADS_MAX} are allowed").into());
        }
        let request = model_request(arguments.model.clone());
        let files = model::ensure(&request, &mut Bar::stderr(Unit::Bytes))?;
        let encoder = Encoder::open_as(&files.borrowed(), kernels, precision)?;
        let ready = json!({
            "level": encoder.level().name(),
            "precision": precision.name(),
            "threads": threads,
            "dimensions": encoder.dimensions(),
            "tokens_max": encoder.tokens_max(),
            "model": files.dir,
            "levels": levels().map(Level::name).collect::<Vec<_>>(),
            "precisions": precisions(),
        });
        let together = encoder.scratch_with(threads);
        let apart = (0..threads).map(|_| encoder.scratch()).collect();
        Ok((Worker { encoder, together, apart, read: Vec::new() }, ready))
    }

    fn encode(&mut self, texts: &[&str], out: &mut [f32]) {
        if texts.len() == 1 || self.apart.len() == 1 {
            return self.encoder.encode_batch(&mut self.together, texts, out);
        }
        let share = texts.len().div_ceil(self.apart.len()).max(1);
        let encoder = &self.encoder;
        let vectors = out.chunks_mut(share * encoder.dimensions());
        std::thread::scope(|scope| {
            for ((texts, vectors), scratch) in texts.chunks(share).zip(vectors).zip(&mut self.apart)
            {
                scope.spawn(move || encoder.encode_batch(scratch, texts, vectors));
            }
        });
    }

    fn answer(&mut self, line: &str) -> Result<Value, Failure> {
        let request: Value = serde_json::from_str(line)?;
        if let Some(time) = request.get("time") {
            return self.time(time);
        }
        if let Some(embed) = request.get("embed") {
            return self.embed(Path::new(text(embed, "texts")?), text(embed, "vectors")?.as_ref());
        }
        Err("a request is {\"time\": {...}} or {\"embed\": {...}}".into())
    }

    /// Times each call separately, after two warm-up calls.
    fn time(&mut self, request: &Value) -> Result<Value, Failure> {
        const WARM_UP: usize = 2;
        let texts = strings(request.get("texts").unwrap_or(&Value::Null))?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let calls = request.get("calls").and_then(Value::as_u64).ok_or("`calls` is a number")?;
        let calls = usize::try_from(calls)?;
        if !(1..=CALLS_MAX).contains(&calls) {
            return Err(format!("`calls` is {calls}; from 1 to {CALLS_MAX} are allowed").into());
        }
        let read_between = request.get("read_between").and_then(Value::as_bool).unwrap_or(false);
        let mut out = vec![0.0_f32; texts.len() * self.encoder.dimensions()];
        let mut milliseconds = Vec::with_capacity(calls);
        for call in 0..WARM_UP + calls {
            if read_between {
                self.read_between();
            }
            let start = Instant::now();
            self.encode(black_box(&texts), &mut out);
            let time = start.elapsed();
            black_box(&out);
            if call >= WARM_UP {
                milliseconds.push(time.as_secs_f64() * 1e3);
            }
        }
        let tokens: Vec<usize> = texts.iter().map(|text| self.encoder.tokens(text)).collect();
        Ok(json!({ "milliseconds": milliseconds, "tokens": tokens }))
    }

    fn embed(&mut self, texts: &Path, vectors: &Path) -> Result<Value, Failure> {
        let of = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        let texts = std::fs::read(texts).map_err(|error| of(texts, error))?;
        let texts = strings(&serde_json::from_slice(&texts)?)?;
        let file = std::fs::File::create(vectors).map_err(|error| of(vectors, error))?;
        let mut file = BufWriter::new(file);
        let dimensions = self.encoder.dimensions();
        let mut out = vec![0.0_f32; EMBED_TEXTS * dimensions];
        let start = Instant::now();
        for some in texts.chunks(EMBED_TEXTS) {
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            let out = &mut out[..some.len() * dimensions];
            self.encode(&some, out);
            for value in &*out {
                file.write_all(&value.to_le_bytes())?;
            }
        }
        file.flush()?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(json!({ "texts": texts.len(), "seconds": seconds }))
    }

    /// Reads as much as a scan of 120,000 rows does, with as many threads as encode.
    fn read_between(&mut self) {
        if self.read.is_empty() {
            self.read = (0..READ_BYTES as u64 / 8).collect();
        }
        let share = self.read.len().div_ceil(self.apart.len());
        let sum = |part: &[u64]| black_box(part.iter().fold(0_u64, |sum, x| sum.wrapping_add(*x)));
        std::thread::scope(|scope| {
            let mut parts = self.read.chunks(share);
            let own = parts.next();
            for part in parts {
                scope.spawn(move || sum(part));
            }
            own.map(sum);
        });
    }
}

/// Names of the precisions of this build.
fn precisions() -> Vec<&'static str> {
    Precision::ALL.iter().copied().map(Precision::name).collect()
}

fn precision_of(name: &str) -> Result<Precision, Failure> {
    Precision::named(name).ok_or_else(|| not_one_of("--precision", name, &precisions()))
}

/// Kernel levels of this CPU, widest first.
fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.iter().copied().filter(|level| Kernels::for_level(*level).is_some())
}

fn kernels_of(level: &str) -> Result<Kernels, Failure> {
    if level == "best" {
        return Ok(Kernels::detect());
    }
    let named = levels().find(|found| found.name() == level).and_then(Kernels::for_level);
    named
        .ok_or_else(|| not_one_of("--level", level, &levels().map(Level::name).collect::<Vec<_>>()))
}

fn not_one_of(option: &str, found: &str, allowed: &[&str]) -> Failure {
    format!("{option} {found}: this CPU and build have {}", allowed.join(", ")).into()
}

fn text<'a>(request: &'a Value, field: &str) -> Result<&'a str, Failure> {
    let found = request.get(field).and_then(Value::as_str);
    found.ok_or_else(|| format!("`{field}` is a path").into())
}

fn strings(value: &Value) -> Result<Vec<String>, Failure> {
    let array = value.as_array().ok_or("texts are an array of strings")?;
    let all: Option<Vec<String>> = array.iter().map(|it| it.as_str().map(str::to_owned)).collect();
    Ok(all.ok_or("texts are an array of strings")?)
}
