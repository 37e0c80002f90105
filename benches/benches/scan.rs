//! The exact nearest of 120,000 stored vectors, by the best level of this CPU and by plain loops,
//! beside the same sum over a slice of floats without a store.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use engine::{Batch, Filter, Ground, ItemDraft, Model, Options, Store};
use kernels::{Kernels, Level};

const ROWS: usize = 120_000;
const WIDTH: usize = 384;
const BATCH: usize = 4_000;
const BEST: usize = 50;

fn filled(folder: &std::path::Path, vectors: &[Vec<f32>]) -> Store {
    let ground = Ground::real(folder).expect("a folder of our own");
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

fn bench(criterion: &mut Criterion) {
    let mut numbers = benches::Numbers::new(2);
    let vectors: Vec<Vec<f32>> = (0..ROWS).map(|_| numbers.vector(WIDTH)).collect();
    let query = numbers.vector(WIDTH);
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let store = filled(folder.path(), &vectors);
    let snapshot = store.snapshot();
    let filter = Filter::default();
    let mut group = criterion.benchmark_group("nearest 50 of 120,000 x 384");
    group.sample_size(10);
    group.throughput(Throughput::Elements(ROWS as u64));
    let levels = [Kernels::detect().level(), Level::Scalar];
    for kernels in levels.into_iter().filter_map(Kernels::for_level) {
        let name = format!("scan of halves, {}", kernels.level().name());
        group.bench_function(name, |bencher| {
            bencher.iter(|| snapshot.nearest(&kernels, &query, BEST, &filter).expect("sound"));
        });
    }
    group.bench_function("baseline: plain loop over floats", |bencher| {
        bencher.iter(|| {
            let mut scored: Vec<(f32, usize)> = vectors
                .iter()
                .enumerate()
                .map(|(at, row)| (row.iter().zip(&query).map(|(a, b)| a * b).sum(), at))
                .collect();
            scored.select_nth_unstable_by(BEST, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            scored.truncate(BEST);
            scored
        });
    });
    group.finish();
}

criterion_group!(benches_of_scan, bench);
criterion_main!(benches_of_scan);
