//! Cost of a visibility mask over 50,000 synthetic texts, of which none, one in ten or one in two is hidden.
//!
//! As in recall, the words of a query are searched for, and then 50 items are scored by them. Four cases are compared:
//! - a caller without a mask;
//! - a new mask, with the term statistics of the query counted twice;
//! - a new mask, with the statistics counted once;
//! - a mask that has counted the words of the query before.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, criterion_group, criterion_main};
use engine::{
    AccessClass, Batch, Env, Filter, ItemDraft, Model, Options, RowAddress, Snapshot, Store,
    Visibility, VisibilityMask,
};
use kernels::Kernels;

const ROWS: usize = 50_000;
const WORDS_PER_ROW: usize = 80;
const WIDTH: usize = 384;
const BATCH: usize = 2_500;
const BEST: usize = 50;
/// Items of a response.
const SHOWN: usize = 8;
/// Most hidden items that recall scores by words one by one, and most that it scores by vectors.
const LOOKED_UP: usize = 256;
const COMPARED: usize = 4096;

fn filled(folder: &Path) -> Store {
    let ground = Env::on_disk(folder).expect("a folder of our own");
    let store = Store::open(ground, Options::default()).expect("an empty folder");
    store.bind_model(Model { fingerprint: [1; 32], dimensions: 384 }).expect("the first model");
    let mut numbers = benches::Numbers::new(3);
    let texts = benches::Texts::new(&mut numbers, WIDTH);
    for from in (0..ROWS).step_by(BATCH) {
        let items = (from..from + BATCH).map(|at| {
            let document = texts.document(&mut numbers);
            ItemDraft {
                // Kind `tenth` is one item in ten, kind `half` four in ten.
                kind: ["tenth", "half", "half", "half", "half"]
                    .get(at % 10)
                    .unwrap_or(&"note")
                    .to_string(),
                modality: "text".to_owned(),
                title: "a".to_owned(),
                text: numbers.text(WORDS_PER_ROW),
                searchable: true,
                embedding: benches::halves(&texts.part(&mut numbers, &document)),
                ..ItemDraft::default()
            }
        });
        store.write(Batch { items: items.collect(), ..Batch::default() }).expect("good items");
    }
    store.seal().expect("there is room");
    store
}

/// Returns a filter that hides `kinds` with a new mask, which has counted no query words yet.
fn filter(snapshot: &Snapshot, kinds: &[&str]) -> Filter {
    if kinds.is_empty() {
        return Filter::default();
    }
    let sight = |class: &AccessClass<'_>| match kinds.contains(&class.kind) {
        true => Visibility::Denied,
        false => Visibility::Full,
    };
    let hidden = Arc::new(snapshot.mask(&VisibilityMask::default(), sight).expect("sound"));
    let filter = Filter { mask: Some(hidden), ..Filter::default() };
    // A query with an unrelated word computes the text lengths under the mask, so that no case below pays for them.
    snapshot.search_words("nowhere", 1, &filter).expect("sound");
    filter
}

fn words(group: &mut BenchmarkGroup<'_, WallTime>, snapshot: &Snapshot, kinds: &[&str]) {
    // Two common words and a rare one.
    let question = [3, 40, 9_000].map(benches::word).join(" ");
    let hits = snapshot.search_words(&question, BEST, &filter(snapshot, kinds)).expect("sound");
    let mut places: Vec<RowAddress> = hits.iter().map(|hit| hit.address).collect();
    places.sort_unstable();
    let once = |filter: &Filter| {
        let words = snapshot.lexical_search(&question, filter);
        black_box(words.search(BEST, filter).expect("sound"));
        black_box(words.score_items(&places, filter).expect("sound"));
    };
    if kinds.is_empty() {
        let filter = Filter::default();
        group.bench_function("words", |bencher| bencher.iter(|| once(&filter)));
        return;
    }
    let new = || filter(snapshot, kinds);
    let size = BatchSize::PerIteration;
    group.bench_function("words, counted twice, new words", |bencher| {
        let twice = |(one, two): (Filter, Filter)| {
            black_box(snapshot.lexical_search(&question, &one).search(BEST, &one).expect("sound"));
            black_box(
                snapshot.lexical_search(&question, &two).score_items(&places, &two).expect("sound"),
            );
        };
        bencher.iter_batched(|| (new(), new()), twice, size);
    });
    group.bench_function("words, counted once, new words", |bencher| {
        bencher.iter_batched(new, |filter| once(&filter), size);
    });
    let known = new();
    group.bench_function("words, counted once, known words", |bencher| {
        bencher.iter(|| once(&known));
    });
}

/// Measures the search for withheld matches as recall runs it: once with the worst shown item as threshold, and once
/// without a threshold.
fn kept_back(group: &mut BenchmarkGroup<'_, WallTime>, snapshot: &Snapshot, kinds: &[&str]) {
    let question = [3, 40, 9_000].map(benches::word).join(" ");
    let kernels = Kernels::detect();
    let mut numbers = benches::Numbers::new(9);
    let texts = benches::Texts::new(&mut numbers, WIDTH);
    let document = texts.document(&mut numbers);
    let query = texts.part(&mut numbers, &document);
    let seen = filter(snapshot, kinds);
    let only = Filter { only_masked: true, ..seen.clone() };
    let best = snapshot.search_words(&question, SHOWN, &seen).expect("sound");
    let best: Vec<RowAddress> = best.iter().map(|hit| hit.address).collect();
    let nearest = snapshot.nearest(&kernels, &query, SHOWN, &seen).expect("sound");
    let nearest = nearest.last().map_or(0.0, |hit| hit.score);
    for (name, shown, nearest) in
        [("for all", &[][..], f32::NEG_INFINITY), ("from the worst shown on", &best, nearest)]
    {
        group.bench_function(format!("kept back, words, {name}"), |bencher| {
            bencher.iter(|| {
                let words = snapshot.lexical_search(&question, &only);
                let given = words.score_items(shown, &Filter::default()).expect("sound").items;
                let least = given.iter().map(|it| it.score).min_by(f32::total_cmp);
                words.search_at_least(SHOWN, least.unwrap_or(0.0), &only).expect("sound")
            });
        });
        group.bench_function(format!("kept back, meaning, {name}"), |bencher| {
            bencher.iter(|| {
                snapshot.nearest_at_least(&kernels, &query, SHOWN, nearest, &only).expect("sound")
            });
        });
    }
    if let Some(all) = snapshot.masked_items(&only, usize::MAX).expect("sound") {
        let few = &all[..all.len().min(LOOKED_UP)];
        group.bench_function(format!("kept back, words, {} looked up", few.len()), |bencher| {
            bencher.iter(|| {
                snapshot.lexical_search(&question, &only).score_items(few, &only).expect("sound")
            });
        });
        let few = &all[..all.len().min(COMPARED)];
        group.bench_function(format!("kept back, meaning, {} looked up", few.len()), |bencher| {
            bencher.iter(|| snapshot.cosines(&kernels, &query, few, &only).expect("sound"));
        });
    }
}

fn bench(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for scratch");
    let store = filled(folder.path());
    let snapshot = store.snapshot();
    for (name, kinds) in [
        ("nothing hidden", &[][..]),
        ("one in ten hidden", &["tenth"]),
        ("one in two hidden", &["tenth", "half"]),
    ] {
        let mut group = criterion.benchmark_group(format!("{name} of 50,000 texts of 80 words"));
        group.sample_size(20);
        words(&mut group, &snapshot, kinds);
        if !kinds.is_empty() {
            kept_back(&mut group, &snapshot, kinds);
        }
        group.finish();
    }
}

criterion_group!(benches_of_hidden, bench);
criterion_main!(benches_of_hidden);
