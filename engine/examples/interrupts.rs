//! Measures how long a read continues after cancellation: `interrupts ROWS`, for tests/campaigns/cancel.sh.
//!
//! A store of synthetic items in a temporary folder. Each read whose work grows with the store runs to its end once,
//! and is then cancelled many times at moments spread over its duration. The exit code is 1 if a read continues for
//! longer than [`STOP_LATENCY_MAX`].

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::{
    AsOf, Batch, CancelToken, Direction, Durability, EdgeDraft, EdgeFilter, Env, Filter, ItemDraft,
    ItemId, Micros, Model, NEIGHBOURS_MAX, Options, SearchError, Snapshot, Store, TombstoneDraft,
    WalkLimits,
};
use half::f16;
use kernels::Kernels;

type BoxResult<T> = Result<T, Box<dyn Error>>;

/// Longest time that a cancelled read may continue, and so delay the release of its worker.
const STOP_LATENCY_MAX: Duration = Duration::from_secs(1);
const WIDTH: u16 = 384;
const BATCH: usize = 4_000;
/// Words of the vocabulary, and of each text.
const WORDS: u64 = 20_000;
const TEXT_WORDS: usize = 40;
/// Hides one item in this many.
const MASKED_ONE_IN: usize = 20;
/// Cancellations of each read.
const TRIALS: u32 = 40;

/// A repeatable generator (Marsaglia's xorshift).
struct XorShift(u64);

impl XorShift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number between -1 and 1.
    #[expect(clippy::cast_precision_loss, reason = "noise")]
    fn noise(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    fn vector(&mut self) -> Vec<f32> {
        (0..WIDTH).map(|_| self.noise()).collect()
    }

    /// Returns a word number: a few words are in many texts, and many words in few.
    fn word(&mut self) -> u64 {
        (self.next() % WORDS) * (self.next() % WORDS) / WORDS
    }

    fn item(&mut self) -> ItemDraft {
        let words: Vec<String> = (0..TEXT_WORDS).map(|_| format!("w{}", self.word())).collect();
        ItemDraft {
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            text: words.join(" "),
            searchable: true,
            embedding: self.vector().into_iter().map(f16::from_f32).collect(),
            ..ItemDraft::default()
        }
    }
}

fn edge_between(from: ItemId, to: ItemId, weight: f32) -> EdgeDraft {
    EdgeDraft {
        id: None,
        from,
        to,
        relation: "links_to".to_owned(),
        weight,
        source: None,
        recorded_at: None,
        recorded_by: String::new(),
        valid_from: None,
        valid_to: None,
        note: String::new(),
    }
}

/// Fills a store, and returns an item that is linked with every other item.
fn build_store(store: &Store, rows: usize, numbers: &mut XorShift) -> BoxResult<ItemId> {
    store.bind_model(Model { fingerprint: [1; 32], dimensions: u32::from(WIDTH) })?;
    let mut made = Vec::with_capacity(rows);
    while made.len() < rows {
        let items = (0..BATCH.min(rows - made.len())).map(|_| numbers.item()).collect();
        made.extend(store.write(Batch { items, ..Batch::default() })?.items);
    }
    let (hub, others) = made.split_first().ok_or("no rows")?;
    for part in others.chunks(BATCH) {
        let mut edges: Vec<_> =
            part.iter().map(|&id| edge_between(*hub, id, numbers.noise().abs())).collect();
        edges.extend(part.windows(2).map(|pair| edge_between(pair[0], pair[1], 0.5)));
        store.write(Batch { edges, ..Batch::default() })?;
    }
    let hidden: Vec<ItemId> = others.iter().copied().step_by(MASKED_ONE_IN).collect();
    for part in hidden.chunks(BATCH) {
        let stone = |id: &ItemId| TombstoneDraft { target: id.0, ..TombstoneDraft::default() };
        store.write(Batch { tombstones: part.iter().map(stone).collect(), ..Batch::default() })?;
    }
    store.seal()?;
    Ok(*hub)
}

type ReadFn<'a> = Box<dyn Fn(&Snapshot) -> Result<(), SearchError> + Sync + 'a>;

fn reads(hub: ItemId, query: &[f32]) -> Vec<(&'static str, ReadFn<'_>)> {
    let kernels = Kernels::detect();
    let none = || Filter { kinds: vec!["nothing".to_owned()], ..Filter::default() };
    let out = || EdgeFilter { direction: Some(Direction::Out), ..EdgeFilter::default() };
    let long: String = (0..64).map(|word| format!("w{word} ")).collect();
    vec![
        (
            "meaning",
            Box::new(move |at| at.nearest(&kernels, query, 50, &Filter::default()).map(drop)),
        ),
        // The filter admits nothing, so no score bound can skip rows.
        (
            "meaning, nothing found",
            Box::new(move |at| at.nearest(&kernels, query, 50, &none()).map(drop)),
        ),
        ("two words", Box::new(|at| at.search_words("w1 w2", 50, &Filter::default()).map(drop))),
        ("64 words", Box::new(move |at| at.search_words(&long, 50, &Filter::default()).map(drop))),
        (
            "64 words, nothing found",
            Box::new(move |at| {
                let long: String = (0..64).map(|word| format!("w{word} ")).collect();
                at.search_words(&long, 50, &none()).map(drop)
            }),
        ),
        (
            "neighbours",
            Box::new(move |at| {
                at.neighbours(hub, NEIGHBOURS_MAX, &EdgeFilter::default()).map(drop)
            }),
        ),
        (
            "neighbourhood",
            Box::new(move |at| {
                at.neighbourhood(&[hub], 6, &out(), WalkLimits::default()).map(drop)
            }),
        ),
        ("counts", Box::new(|at| at.row_counts().map(drop))),
        (
            "counts of an earlier time",
            Box::new(|at| {
                let moment = AsOf { known_at: Some(Micros(i64::MAX)), ..AsOf::default() };
                at.with_as_of(moment).row_counts().map(drop)
            }),
        ),
        ("census", Box::new(|at| at.item_counts().map(drop))),
        ("all records", Box::new(|at| at.records().try_for_each(|record| record.map(drop)))),
    ]
}

/// Returns how long a read continued after its cancellation, `wait` after its start; `None` if it had finished.
fn measure_stop(snapshot: &Snapshot, read: &ReadFn<'_>, wait: Duration) -> Option<Duration> {
    let unwanted = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&unwanted);
    let snapshot =
        snapshot.clone().with_cancel(CancelToken::from_fn(move || heard.load(Ordering::Relaxed)));
    thread::scope(|scope| {
        let reading = scope.spawn(|| (read(&snapshot), Instant::now()));
        thread::sleep(wait);
        let raised = Instant::now();
        unwanted.store(true, Ordering::Relaxed);
        let (ended, at) = reading.join().expect("a read does not panic");
        (ended == Err(SearchError::Interrupted)).then(|| at.saturating_duration_since(raised))
    })
}

fn main() -> BoxResult<()> {
    let rows = std::env::args().nth(1).ok_or("wanted: ROWS")?.parse()?;
    let folder = tempfile::tempdir()?;
    let options =
        Options { durability: Durability::Interval(Duration::from_secs(1)), ..Options::default() };
    let store = Store::open(Env::on_disk(folder.path())?, options)?;
    let mut numbers = XorShift(0x5eed);
    let began = Instant::now();
    let hub = build_store(&store, rows, &mut numbers)?;
    println!("{rows} rows, made in {:.1} s", began.elapsed().as_secs_f32());
    let query = numbers.vector();
    let snapshot = store.snapshot();
    let mut slow = Vec::new();
    println!(
        "{:26} {:>10} {:>8} {:>16} {:>16}",
        "read", "whole", "stopped", "then, middle", "then, worst"
    );
    for (name, read) in reads(hub, &query) {
        read(&snapshot)?; // from here on it is in memory
        let began = Instant::now();
        read(&snapshot)?;
        let whole = began.elapsed();
        let mut then: Vec<Duration> = (0..TRIALS)
            .filter_map(|trial| measure_stop(&snapshot, &read, whole * trial / TRIALS))
            .collect();
        then.sort_unstable();
        let (middle, worst) = (then.get(then.len() / 2), then.last());
        let told = |took: Option<&Duration>| {
            took.map_or("-".to_owned(), |took| format!("{:.3} ms", took.as_secs_f64() * 1e3))
        };
        println!(
            "{name:26} {:>10} {:>8} {:>16} {:>16}",
            told(Some(&whole)),
            then.len(),
            told(middle),
            told(worst)
        );
        slow.extend(worst.filter(|worst| **worst > STOP_LATENCY_MAX).map(|_| name));
    }
    if slow.is_empty() {
        Ok(())
    } else {
        Err(format!("too slow to stop: {}", slow.join(", ")).into())
    }
}
