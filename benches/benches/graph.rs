//! The items within two hops, and the shortest path between two items, in a graph of 120,000 items and 500,000 edges
//! whose degrees follow a power law. The baseline is the same traversal over adjacency lists in memory.

use criterion::{Criterion, criterion_group, criterion_main};
use engine::{
    Batch, EdgeDraft, EdgeFilter, Env, ItemDraft, ItemId, NEIGHBOURS_MAX, Options, Store,
    WalkLimits,
};

const ITEMS: usize = 120_000;
const EDGES: usize = 500_000;
const BATCH: usize = 50_000;
const SEEDS: usize = 64;

/// Returns a number below `ITEMS`, small numbers far more often: the cube of a uniform draw.
fn popular(numbers: &mut benches::Numbers) -> usize {
    let draw = f64::from(numbers.bits()) / f64::from(u32::MAX);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "from 0 to ITEMS"
    )]
    let at = (draw * draw * draw * ITEMS as f64) as usize;
    at.min(ITEMS - 1)
}

/// Source, target and weight of each edge.
fn joined(numbers: &mut benches::Numbers) -> Vec<(usize, usize, f32)> {
    let even = |numbers: &mut benches::Numbers| {
        usize::try_from(numbers.bits()).expect("32 bits fit") % ITEMS
    };
    (0..EDGES).map(|_| (even(numbers), popular(numbers), numbers.unit().abs())).collect()
}

fn filled(folder: &std::path::Path, edges: &[(usize, usize, f32)]) -> (Store, Vec<ItemId>) {
    let ground = Env::on_disk(folder).expect("a folder of our own");
    let store = Store::open(ground, Options::default()).expect("an empty folder");
    let mut made = Vec::with_capacity(ITEMS);
    while made.len() < ITEMS {
        let items = (0..BATCH.min(ITEMS - made.len())).map(|_| ItemDraft {
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            ..ItemDraft::default()
        });
        let batch = Batch { items: items.collect(), ..Batch::default() };
        made.extend(store.write(batch).expect("good items").items);
    }
    for part in edges.chunks(BATCH) {
        let edges = part.iter().map(|&(from, to, weight)| EdgeDraft {
            id: None,
            from: made[from],
            to: made[to],
            relation: "links_to".to_owned(),
            weight,
            source: None,
            recorded_at: None,
            recorded_by: String::new(),
            valid_from: None,
            valid_to: None,
            note: String::new(),
        });
        store.write(Batch { edges: edges.collect(), ..Batch::default() }).expect("good edges");
    }
    store.seal().expect("there is room");
    (store, made)
}

/// Counts the items within two hops by adjacency lists.
fn plain_walk(lists: &[Vec<usize>], seed: usize) -> usize {
    let mut seen = std::collections::HashSet::from([seed]);
    let mut level = vec![seed];
    for _ in 0..2 {
        let ends = level.iter().flat_map(|&at| &lists[at]);
        level = ends.copied().filter(|&to| seen.insert(to)).collect();
    }
    seen.len()
}

fn bench(criterion: &mut Criterion) {
    let mut numbers = benches::Numbers::new(3);
    let edges = joined(&mut numbers);
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let (store, made) = filled(folder.path(), &edges);
    let snapshot = store.snapshot();
    let mut lists = vec![Vec::new(); ITEMS];
    for &(from, to, _) in &edges {
        lists[from].push(to);
        lists[to].push(from);
    }
    // Seeds as real queries find them: any item, not the hubs.
    let seeds: Vec<usize> = (0..SEEDS).map(|n| n * (ITEMS / SEEDS) + 7).collect();
    let (which, limits) = (EdgeFilter::default(), WalkLimits::default());
    let parts = snapshot.row_counts().expect("sound").segments;
    let mut sizes: Vec<usize> = seeds.iter().map(|&seed| plain_walk(&lists, seed)).collect();
    sizes.sort_unstable();
    println!("{parts} parts; items within two hops, median {}", sizes[SEEDS / 2]);
    let mut group = criterion.benchmark_group("graph of 120,000 items and 500,000 edges");
    group.sample_size(20);
    let mut seed = seeds.iter().copied().cycle();
    group.bench_function("two hops", |bencher| {
        bencher.iter(|| {
            let seed = made[seed.next().expect("a cycle")];
            snapshot.neighbourhood(&[seed], 2, &which, limits).expect("sound").nodes.len()
        });
    });
    group.bench_function("baseline: two hops over plain lists", |bencher| {
        bencher.iter(|| plain_walk(&lists, seed.next().expect("a cycle")));
    });
    group.bench_function("two hops, at most 200 items and 4,096 edges", |bencher| {
        let limits = WalkLimits { nodes: 200, edges: 4096 };
        bencher.iter(|| {
            let seed = made[seed.next().expect("a cycle")];
            snapshot.neighbourhood(&[seed], 2, &which, limits).expect("sound").nodes.len()
        });
    });
    group.bench_function("way between two items", |bencher| {
        bencher.iter(|| {
            let (from, to) = (seed.next().expect("a cycle"), seed.next().expect("a cycle"));
            snapshot.path(made[from], made[to], 4, &which, limits).expect("sound").steps
        });
    });
    group.bench_function("neighbours of the largest hub", |bencher| {
        bencher.iter(|| snapshot.neighbours(made[0], 50, &which).expect("sound").len());
    });
    group.finish();
    let hub = snapshot.neighbours(made[0], NEIGHBOURS_MAX, &which).expect("sound").len();
    println!("the largest hub has {} edges, {hub} of them given", lists[0].len());
}

criterion_group!(benches_of_graph, bench);
criterion_main!(benches_of_graph);
