//! Exact nearest neighbours among 120,000 stored vectors. The scan of the store filters by 8-bit codes first. The
//! baselines, both without a store, are a scan of all f16 rows by the same kernels and a plain loop over f32. A batch
//! scan of all queries runs on one thread and on two.
//!
//! The vectors are once distributed as those of texts are, with common directions for topics and documents, and once
//! uniform noise, where no vector is near another.

use std::cmp::Reverse;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use engine::{Batch, BatchQuery, Env, Filter, ItemDraft, Model, Options, Store, TopK};
use half::f16;
use kernels::{Kernels, Level, Team};

const ROWS: usize = 120_000;
const WIDTH: usize = 384;
const BATCH: usize = 4_000;
const BEST: usize = 50;
/// Different queries find different rows; each measurement runs all of them.
const QUERIES: usize = 8;
/// Rows that the f16 scan scores before it checks the scores, as in the store's scan.
const BLOCK_ROWS: usize = 256;

struct Corpus {
    name: &'static str,
    vectors: Vec<Vec<f32>>,
    queries: Vec<Vec<f32>>,
}

fn even(numbers: &mut benches::Numbers) -> Corpus {
    let mut vectors = |count| (0..count).map(|_| numbers.vector(WIDTH)).collect();
    Corpus { name: "even noise", vectors: vectors(ROWS), queries: vectors(QUERIES) }
}

fn texts(numbers: &mut benches::Numbers) -> Corpus {
    let texts = benches::Texts::new(numbers, WIDTH);
    let mut vectors = Vec::with_capacity(ROWS);
    while vectors.len() < ROWS {
        let document = texts.document(numbers);
        let parts = 1 + numbers.bits() as usize % 20;
        vectors.extend((0..parts).map(|_| texts.part(numbers, &document)));
    }
    vectors.truncate(ROWS);
    let mut query = || {
        let document = texts.document(numbers);
        texts.part(numbers, &document)
    };
    Corpus { name: "texts", queries: (0..QUERIES).map(|_| query()).collect(), vectors }
}

fn filled(folder: &std::path::Path, vectors: &[Vec<f32>]) -> Store {
    let ground = Env::on_disk(folder).expect("a folder of our own");
    let store = Store::open(ground, Options::default()).expect("an empty folder");
    store.bind_model(Model { fingerprint: [1; 32], dimensions: 384 }).expect("the first model");
    for part in vectors.chunks(BATCH) {
        let items = part.iter().map(|vector| ItemDraft {
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            title: "a".to_owned(),
            searchable: true,
            embedding: benches::halves(vector),
            ..ItemDraft::default()
        });
        store.write(Batch { items: items.collect(), ..Batch::default() }).expect("good items");
    }
    store.seal().expect("there is room");
    store
}

/// Returns a cosine of unit vectors as an integer of the same order.
fn ordered(cosine: f32) -> i32 {
    let bits = cosine.to_bits().cast_signed();
    if bits < 0 { bits ^ i32::MAX } else { bits }
}

/// Returns the rows nearest to `query`, with every row scored from its f16 values.
fn scan_of_halves(kernels: Kernels, rows: &[f16], query: &[f32]) -> Vec<(i32, usize)> {
    let mut top = TopK::new(BEST);
    let mut scores = [0.0; BLOCK_ROWS];
    for (first, block) in (0..).step_by(BLOCK_ROWS).zip(rows.chunks(BLOCK_ROWS * WIDTH)) {
        let scores = &mut scores[..block.len() / WIDTH];
        kernels.dot_rows(query, block, scores);
        for (row, &score) in (first..).zip(scores.iter()) {
            if top.floor().is_none_or(|floor| ordered(score) >= floor) {
                top.offer(ordered(score), row);
            }
        }
    }
    top.into_sorted()
}

fn plain_loop(vectors: &[Vec<f32>], query: &[f32]) -> Vec<(i32, Reverse<usize>)> {
    let score = |row: &Vec<f32>| row.iter().zip(query).map(|(a, b)| a * b).sum::<f32>();
    let mut scored: Vec<(i32, Reverse<usize>)> =
        vectors.iter().enumerate().map(|(at, row)| (ordered(score(row)), Reverse(at))).collect();
    scored.select_nth_unstable_by(BEST, |a, b| b.cmp(a));
    scored.truncate(BEST);
    scored
}

fn compare(group: &mut BenchmarkGroup<'_, WallTime>, corpus: &Corpus) {
    let Corpus { vectors, queries, .. } = corpus;
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let store = filled(folder.path(), vectors);
    let snapshot = store.snapshot();
    let filter = Filter::default();
    let halves: Vec<f16> = vectors.iter().flat_map(|vector| benches::halves(vector)).collect();
    let levels = [Kernels::detect().level(), Level::Scalar];
    for kernels in levels.into_iter().filter_map(Kernels::for_level) {
        let name = kernels.level().name();
        group.bench_function(format!("store, {name}"), |bencher| {
            let ask = |query| snapshot.nearest(&kernels, query, BEST, &filter).expect("sound");
            bencher.iter(|| queries.iter().map(|query| ask(query).len()).sum::<usize>());
        });
        for threads in [1, 2] {
            let mut team = Team::of(threads);
            group.bench_function(format!("store, together on {threads}, {name}"), |bencher| {
                let limit = BEST;
                let asked =
                    queries.iter().map(|query| BatchQuery { query, limit, filter: &filter });
                let asked: Vec<BatchQuery<'_>> = asked.collect();
                bencher.iter(|| snapshot.nearest_batch(&kernels, &mut team, &asked).is_ok());
            });
        }
        group.bench_function(format!("baseline: scan of halves, {name}"), |bencher| {
            let ask = |query| scan_of_halves(kernels, &halves, query);
            bencher.iter(|| queries.iter().map(|query| ask(query).len()).sum::<usize>());
        });
    }
    group.bench_function("baseline: plain loop over floats", |bencher| {
        let ask = |query| plain_loop(vectors, query);
        bencher.iter(|| queries.iter().map(|query| ask(query).len()).sum::<usize>());
    });
}

fn bench(criterion: &mut Criterion) {
    for make in [texts, even] {
        let corpus = make(&mut benches::Numbers::new(2));
        let name = format!("nearest {BEST} of {ROWS} x {WIDTH}, {}", corpus.name);
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        group.throughput(Throughput::Elements((ROWS * QUERIES) as u64));
        compare(&mut group, &corpus);
        group.finish();
    }
}

criterion_group!(benches_of_scan, bench);
criterion_main!(benches_of_scan);
