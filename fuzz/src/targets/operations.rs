//! A store on a disk in memory, driven by random steps, beside a small model. After sealing, merging, reopening,
//! killing, erasing and copying, both show the same; so do earlier snapshots, the reader of another process, and a full
//! verification at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::ground;
use crate::memory::MemoryDisk;
use engine::{
    Batch, Durability, EdgeDraft, EdgeFilter, EdgeId, Filter, ItemDraft, ItemId, NEIGHBOURS_MAX,
    NoThrottle, Options, Snapshot, Status, Store, StoreReader, Throttle, TombstoneDraft, restore,
    verify,
};

/// Most steps of one input. Each step takes two bytes, after the byte that selects the options of the store.
const STEPS_MAX: usize = 40;
/// Most snapshots held at once.
const HELD_MAX: usize = 2;
/// Distinct refs of items.
const REFS: usize = 3;

#[derive(Debug, Clone)]
struct Item {
    id: ItemId,
    word: String,
    reference: Option<usize>,
    is_superseded: bool,
    is_tombstoned: bool,
    is_erased: bool,
}

#[derive(Debug, Clone)]
struct Edge {
    id: EdgeId,
    from: usize,
    to: usize,
    is_tombstoned: bool,
    is_erased: bool,
}

#[derive(Debug, Clone, Default)]
struct Model {
    items: Vec<Item>,
    edges: Vec<Edge>,
    seq: u64,
    /// True if the rows of an erasure may still exist.
    is_erasing: bool,
}

impl Model {
    /// Returns the item that a byte selects, unless it is tombstoned.
    fn standing(&self, byte: u8) -> Option<usize> {
        let at = usize::from(byte).checked_rem(self.items.len())?;
        (!self.items[at].is_tombstoned).then_some(at)
    }

    /// Returns the item that a byte selects, unless it is erased.
    fn present(&self, byte: u8) -> Option<usize> {
        let at = usize::from(byte).checked_rem(self.items.len())?;
        (!self.items[at].is_erased).then_some(at)
    }

    /// Returns the holder of a ref: the newest current item with this ref.
    fn holder(&self, number: usize) -> Option<usize> {
        self.items.iter().rposition(|item| {
            item.reference == Some(number) && !item.is_superseded && !item.is_tombstoned
        })
    }

    /// Returns the edge that a byte selects, unless it or one of its ends is tombstoned.
    fn standing_edge(&self, byte: u8) -> Option<usize> {
        let at = usize::from(byte).checked_rem(self.edges.len())?;
        let stands = |edge: &Edge| {
            let ends = [edge.from, edge.to];
            !edge.is_tombstoned && ends.iter().all(|&end| !self.items[end].is_tombstoned)
        };
        stands(&self.edges[at]).then_some(at)
    }

    fn compare(&self, snapshot: &Snapshot) {
        assert_eq!(snapshot.seq(), self.seq);
        for (at, item) in self.items.iter().enumerate() {
            let place = snapshot.find(item.id).expect("no damage");
            if !(item.is_erased && self.is_erasing) {
                assert_eq!(place.is_none(), item.is_erased, "{item:?}");
            }
            let current = Filter { current_only: true, ..Filter::default() };
            let found = snapshot.search_words(&item.word, 2, &current).expect("no damage");
            let is_current = !item.is_superseded && !item.is_tombstoned;
            assert_eq!(found.len(), usize::from(is_current), "{item:?}");
            let Some(place) = place else { continue };
            let status = match (item.is_tombstoned, item.is_superseded) {
                (true, _) => Status::Tombstoned,
                (false, true) => Status::Superseded,
                (false, false) => Status::Current,
            };
            assert_eq!(snapshot.status(place).expect("no damage"), status, "{item:?}");
            assert_eq!(snapshot.item(place).expect("no damage").text, item.word);
            if item.is_erased {
                continue;
            }
            let near = snapshot.neighbours(item.id, NEIGHBOURS_MAX, &EdgeFilter::default());
            let near = near.expect("no damage").len();
            assert_eq!(near, self.degree(at), "{item:?}");
        }
        for edge in &self.edges {
            let ends = [&self.items[edge.from], &self.items[edge.to]];
            let is_gone = edge.is_erased || ends.iter().any(|end| end.is_erased);
            if !(is_gone && self.is_erasing) {
                let found = snapshot.edge(edge.id).expect("no damage");
                let is_seen = !is_gone && !edge.is_tombstoned;
                assert_eq!(found.is_some(), is_seen, "{edge:?}");
            }
        }
        for number in 0..REFS {
            let place = snapshot.find_ref(&reference(number)).expect("no damage");
            let found = place.map(|place| snapshot.id(place).expect("no damage"));
            let holder = self.holder(number).map(|at| self.items[at].id);
            assert_eq!(found, holder, "ref {number}");
        }
    }

    /// Counts the visible edge ends at an item; an edge to itself has two.
    fn degree(&self, at: usize) -> usize {
        let seen = self.edges.iter().filter(|edge| !edge.is_tombstoned);
        let ends = seen.flat_map(|edge| [(edge.from, edge.to), (edge.to, edge.from)]);
        ends.filter(|&(here, other)| here == at && !self.items[other].is_tombstoned).count()
    }
}

fn reference(number: usize) -> String {
    format!("ref/{number}")
}

/// Returns a distinct word per item, without digits, which would be words of their own.
fn word(n: usize) -> String {
    let letter = |n: usize| char::from(b"abcdefghij"[n % 10]);
    format!("zq{}{}{}qz", letter(n / 100), letter(n / 10), letter(n))
}

/// Returns the options that a byte selects.
fn options(byte: u8) -> Options {
    let durability =
        if byte & 1 == 0 { Durability::Sync } else { Durability::Interval(Duration::ZERO) };
    // A tail that every write seals, that some writes seal, and that no write seals.
    let tail_bytes_seal = [1, 8 << 10, 1 << 20][usize::from(byte >> 1) % 3];
    // Without merges at a flush, compaction has segments to merge.
    let merge_bytes_max = [0, 0, 24 << 10, 1 << 20][usize::from(byte >> 3) % 4];
    let compact_bytes_max = [48 << 10, 1 << 20][usize::from(byte >> 5) % 2];
    Options {
        durability,
        tail_bytes_seal,
        merge_bytes_max,
        compact_bytes_max,
        ..Options::default()
    }
}

/// A throttle that cancels a job after a number of pieces.
#[derive(Debug)]
struct Ending(AtomicUsize, usize);

impl Throttle for Ending {
    fn after_write(&self, _bytes: usize) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst) < self.1
    }
}

struct Run {
    options: Options,
    opened: u64,
    disk: MemoryDisk,
    store: Option<Store>,
    model: Model,
    /// Snapshots, each with the model at its time.
    held: Vec<(Snapshot, Model)>,
    reader: Option<StoreReader>,
    backup: MemoryDisk,
}

impl Run {
    fn begin(options: Options) -> Self {
        let mut run = Self {
            options,
            opened: 0,
            disk: MemoryDisk::default(),
            store: None,
            model: Model::default(),
            held: Vec::new(),
            reader: None,
            backup: MemoryDisk::default(),
        };
        run.store = Some(run.open(&run.disk.clone()));
        run
    }

    fn open(&mut self, disk: &MemoryDisk) -> Store {
        self.opened += 1;
        let ground = ground::still(Arc::new(disk.clone()), self.opened);
        Store::open(ground, self.options).expect("what the engine wrote opens")
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between steps")
    }

    fn write(&mut self, batch: Batch) -> engine::CommitInfo {
        self.model.seq += 1;
        self.store().write(batch).expect("the batch is right")
    }

    /// Writes a batch of items, the first of which may supersede another or take a ref.
    fn items(&mut self, count: usize, supersedes: Option<usize>, number: Option<usize>) {
        let first = self.model.items.len();
        let draft = |at: usize| ItemDraft {
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            text: word(at),
            searchable: true,
            ..ItemDraft::default()
        };
        let mut items: Vec<_> = (first..first + count).map(draft).collect();
        let holder = number.and_then(|number| self.model.holder(number));
        let old: Vec<usize> = supersedes.into_iter().chain(holder).collect();
        items[0].reference = number.map(reference);
        items[0].supersedes = old.iter().map(|&at| self.model.items[at].id).collect();
        let written = self.write(Batch { items, ..Batch::default() });
        old.iter().for_each(|&at| self.model.items[at].is_superseded = true);
        self.model.items.extend(written.items.into_iter().enumerate().map(|(n, id)| {
            let (is_superseded, is_tombstoned, is_erased) = (false, false, false);
            let (word, reference) = (word(first + n), number.filter(|_| n == 0));
            Item { id, word, reference, is_superseded, is_tombstoned, is_erased }
        }));
    }

    fn join(&mut self, from: usize, to: usize) {
        let edge = EdgeDraft {
            id: None,
            from: self.model.items[from].id,
            to: self.model.items[to].id,
            relation: "links_to".to_owned(),
            weight: 0.5,
            source: None,
            recorded_at: None,
            recorded_by: String::new(),
            valid_from: None,
            valid_to: None,
            note: String::new(),
        };
        let id = self.write(Batch { edges: vec![edge], ..Batch::default() }).edges[0];
        self.model.edges.push(Edge { id, from, to, is_tombstoned: false, is_erased: false });
    }

    fn hide(&mut self, target: u128) {
        let (by, reason) = ("ada".to_owned(), "wrong".to_owned());
        let stone = TombstoneDraft { target, by, reason, ..TombstoneDraft::default() };
        self.write(Batch { tombstones: vec![stone], ..Batch::default() });
    }

    fn erase(&mut self, target: u128, pace: &dyn Throttle) {
        self.store().erase(&[target], "ada", "asked for", pace).expect("memory does not fail");
        self.model.seq += 1;
        self.model.is_erasing = self.is_erasing();
    }

    fn is_erasing(&self) -> bool {
        self.store().erasures_pending().expect("it takes writes") > 0
    }

    fn compare(&self) {
        self.model.compare(&self.store().snapshot());
    }

    fn reopen(&mut self, is_killed: bool) {
        self.reader = None;
        if is_killed {
            // A killed writer leaves its bytes, but no mark.
            self.disk = MemoryDisk::holding(self.disk.files());
        } else {
            self.store = None;
        }
        self.store = Some(self.open(&self.disk.clone()));
    }

    fn back_up(&mut self) {
        self.store().backup(&self.backup).expect("memory does not fail");
        let copy = MemoryDisk::default();
        restore(&self.backup, &copy).expect("a backup can be restored");
        let copy = self.open(&copy);
        self.model.compare(&copy.snapshot());
    }

    fn read_beside(&mut self) {
        let reader = self.reader.take();
        let reader = reader.map_or_else(
            || StoreReader::open(Arc::new(self.disk.clone())),
            |reader| reader.refresh().map(|_| reader),
        );
        let reader = reader.expect("what is being written can be read");
        self.model.compare(&reader.snapshot());
        self.reader = Some(reader);
    }

    fn step(&mut self, what: u8, which: u8) {
        let item = self.model.standing(which);
        let edge = self.model.standing_edge(which);
        // The upper bits of `what` select among variants of a step.
        let (what, how) = (what % 20, usize::from(what / 20));
        match (what, item, edge) {
            (0 | 1, ..) => self.items(1 + how % 4, None, None),
            (2, at, _) => self.items(1 + how % 2, at, None),
            (3, ..) => self.items(1 + how % 2, None, Some(usize::from(which) % REFS)),
            (4 | 5, Some(from), _) => {
                let to = self.model.standing(which.rotate_left(3).wrapping_add(what / 20));
                self.join(from, to.unwrap_or(from));
            }
            (6, Some(at), _) => {
                self.hide(self.model.items[at].id.0);
                self.model.items[at].is_tombstoned = true;
            }
            (7, _, Some(at)) => {
                self.hide(self.model.edges[at].id.0);
                self.model.edges[at].is_tombstoned = true;
            }
            (8 | 9, ..) => {
                let Some(at) = self.model.present(which) else { return };
                let item = &mut self.model.items[at];
                (item.is_tombstoned, item.is_erased) = (true, true);
                let target = item.id.0;
                let ending = Ending(AtomicUsize::new(0), how);
                let pace: &dyn Throttle = if what == 8 { &NoThrottle } else { &ending };
                self.erase(target, pace);
            }
            (10, _, Some(at)) => {
                let edge = &mut self.model.edges[at];
                (edge.is_tombstoned, edge.is_erased) = (true, true);
                let target = edge.id.0;
                self.erase(target, &NoThrottle);
            }
            (11, ..) => {
                self.store().erase_pending(&NoThrottle).expect("memory does not fail");
                self.model.is_erasing = false;
                assert!(!self.is_erasing());
            }
            (12 | 13, ..) => self.store().seal().expect("memory does not fail"),
            (14, ..) => drop(self.store().compact(&NoThrottle).expect("memory does not fail")),
            (15, ..) => {
                let ending = Ending(AtomicUsize::new(0), how);
                let _done = self.store().compact(&ending).expect("memory does not fail");
            }
            (16, ..) => self.reopen(how % 2 == 0),
            (17, ..) => self.back_up(),
            (18, ..) => {
                self.held.truncate(HELD_MAX - 1);
                self.held.insert(0, (self.store().snapshot(), self.model.clone()));
            }
            (19, ..) => self.read_beside(),
            _ => return,
        }
        // A comparison costs more than a write, and the corruption by a write is seen a few steps later.
        if what > 3 {
            self.compare();
        }
        // These steps create and remove files.
        if (8..18).contains(&what) {
            self.held.iter().for_each(|(snapshot, model)| model.compare(snapshot));
        }
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&manner, steps)) = data.split_first() else { return };
    let mut run = Run::begin(options(manner));
    for [what, which] in steps.as_chunks().0.iter().copied().take(STEPS_MAX) {
        run.step(what, which);
    }
    run.compare();
    run.store = None;
    let found = verify(&run.disk, &mut |_| ()).expect("what the engine wrote is read");
    assert!(found.is_clean(), "{found:?}");
}
