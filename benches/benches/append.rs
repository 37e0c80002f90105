//! Durable writes: one item a batch, a hundred items a batch, and writes without fsync. The baseline is a plain file
//! that is appended to and synced.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use engine::{Batch, Durability, Env, ItemDraft, Options, Store};

const TEXT_WORDS: usize = 80;
const BATCH: usize = 100;

fn store(folder: &Path, durability: Durability) -> Store {
    let ground = Env::on_disk(folder).expect("a folder of our own");
    Store::open(ground, Options { durability, ..Options::default() }).expect("an empty folder")
}

fn batch(numbers: &mut benches::Numbers, items: usize) -> Batch {
    let draft = |_| ItemDraft {
        kind: "note".to_owned(),
        modality: "text".to_owned(),
        title: "a note".to_owned(),
        text: numbers.text(TEXT_WORDS),
        searchable: true,
        ..ItemDraft::default()
    };
    Batch { items: (0..items).map(draft).collect(), ..Batch::default() }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append items of 80 words");
    group.sample_size(20);
    for (name, durability, items) in [
        ("one, synced", Durability::Sync, 1),
        ("a hundred in a batch, synced", Durability::Sync, BATCH),
        ("one, written", Durability::Interval(Duration::from_millis(50)), 1),
    ] {
        let folder = tempfile::tempdir().expect("a place for temporary files");
        let store = store(folder.path(), durability);
        let mut numbers = benches::Numbers::new(3);
        group.throughput(Throughput::Elements(items as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || batch(&mut numbers, items),
                |batch| store.write(batch).expect("there is room"),
                criterion::BatchSize::PerIteration,
            );
        });
    }
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let mut file = File::create(folder.path().join("plain")).expect("a folder of our own");
    let text = benches::Numbers::new(3).text(TEXT_WORDS);
    group.throughput(Throughput::Elements(1));
    group.bench_function("baseline: a plain file, appended and synced", |bencher| {
        bencher.iter(|| {
            file.write_all(text.as_bytes()).expect("there is room");
            file.sync_data().expect("the disk works");
        });
    });
    group.finish();
}

criterion_group!(benches_of_append, bench);
criterion_main!(benches_of_append);
