//! A store driven by steps, on a disk in memory, beside a model that fits a screen: whatever is sealed,
//! merged, reopened, killed, erased or copied, both show the same.
#![no_main]

use std::sync::Arc;

use engine::{
    Batch, EdgeDraft, EdgeFilter, Filter, FullSpeed, ItemDraft, ItemId, NEIGHBOURS_MAX, Options,
    Snapshot, Status, Store, TombstoneDraft,
};
use fuzz::ground;
use fuzz::memory::MemoryDisk;
use libfuzzer_sys::fuzz_target;

/// Steps of one input; each takes two bytes of it.
const STEPS_MAX: usize = 48;
/// So small that writes fill the tail now and then.
const TAIL_BYTES_SEAL: usize = 8 << 10;

/// An item as the model sees it.
#[derive(Debug, Clone)]
struct Item {
    id: ItemId,
    word: String,
    is_superseded: bool,
    is_tombstoned: bool,
    is_erased: bool,
    /// Items at the other ends of its edges; one to itself comes twice.
    joined: Vec<usize>,
}

#[derive(Debug, Default)]
struct Model {
    items: Vec<Item>,
    seq: u64,
}

impl Model {
    /// The item that a byte means, if there is one that stands.
    fn standing(&self, byte: u8) -> Option<usize> {
        let at = usize::from(byte).checked_rem(self.items.len())?;
        (!self.items[at].is_tombstoned).then_some(at)
    }

    fn compare(&self, snapshot: &Snapshot) {
        assert_eq!(snapshot.seq(), self.seq);
        for item in &self.items {
            let place = snapshot.find(item.id).expect("no damage");
            assert_eq!(place.is_none(), item.is_erased, "{item:?}");
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
            let near = snapshot.neighbours(item.id, NEIGHBOURS_MAX, &EdgeFilter::default());
            let near = near.expect("no damage").len();
            let wanted = item.joined.iter().filter(|&&other| !self.items[other].is_tombstoned);
            assert_eq!(near, wanted.count(), "{item:?}");
        }
    }
}

fn open(disk: &MemoryDisk, opened: &mut u64) -> Store {
    *opened += 1;
    let options = Options { tail_bytes_seal: TAIL_BYTES_SEAL, ..Options::default() };
    let ground = ground::still(Arc::new(disk.clone()), *opened);
    Store::open(ground, options).expect("what the engine wrote opens")
}

/// A word that no other item has; no digits, which would be words of their own.
fn word(n: usize) -> String {
    let letter = |n: usize| char::from(b"abcdefghij"[n % 10]);
    format!("zq{}{}{}qz", letter(n / 100), letter(n / 10), letter(n))
}

fn write(store: &Store, model: &mut Model, supersedes: Option<usize>) {
    let word = word(model.items.len());
    let draft = ItemDraft {
        kind: "note".to_owned(),
        modality: "text".to_owned(),
        text: word.clone(),
        supersedes: supersedes.map(|at| model.items[at].id).into_iter().collect(),
        searchable: true,
        ..ItemDraft::default()
    };
    let batch = Batch { items: vec![draft], ..Batch::default() };
    let id = store.write(batch).expect("the batch is right").items[0];
    if let Some(at) = supersedes {
        model.items[at].is_superseded = true;
    }
    model.seq += 1;
    let (is_superseded, is_tombstoned, is_erased) = (false, false, false);
    model.items.push(Item { id, word, is_superseded, is_tombstoned, is_erased, joined: Vec::new() });
}

fn join(store: &Store, model: &mut Model, from: usize, to: usize) {
    let edge = EdgeDraft {
        id: None,
        from: model.items[from].id,
        to: model.items[to].id,
        relation: "links_to".to_owned(),
        weight: 0.5,
        source: None,
        recorded_at: None,
        recorded_by: String::new(),
        valid_from: None,
        valid_to: None,
        note: String::new(),
    };
    store.write(Batch { edges: vec![edge], ..Batch::default() }).expect("the batch is right");
    model.seq += 1;
    model.items[from].joined.push(to);
    model.items[to].joined.push(from);
}

fn hide(store: &Store, model: &mut Model, at: usize) {
    let target = model.items[at].id.0;
    let stone = TombstoneDraft {
        target,
        by: "ada".to_owned(),
        reason: "wrong".to_owned(),
        ..TombstoneDraft::default()
    };
    store.write(Batch { tombstones: vec![stone], ..Batch::default() }).expect("it stands");
    model.seq += 1;
    model.items[at].is_tombstoned = true;
}

fn erase(store: &Store, model: &mut Model, at: usize) {
    let id = model.items[at].id.0;
    store.erase(&[id], "ada", "asked for", &FullSpeed).expect("memory does not fail");
    model.seq += 1;
    (model.items[at].is_tombstoned, model.items[at].is_erased) = (true, true);
}

fuzz_target!(|data: &[u8]| {
    let (mut disk, mut opened, mut model) = (MemoryDisk::default(), 0, Model::default());
    let mut store = open(&disk, &mut opened);
    for [what, which] in data.as_chunks().0.iter().copied().take(STEPS_MAX) {
        match (what % 12, model.standing(which)) {
            (0 | 1, _) => write(&store, &mut model, None),
            (2, at) => write(&store, &mut model, at),
            (3, Some(from)) => {
                if let Some(to) = model.standing(what) {
                    join(&store, &mut model, from, to);
                }
            }
            (4, Some(at)) => hide(&store, &mut model, at),
            (5, Some(at)) => erase(&store, &mut model, at),
            (6 | 7, _) => store.seal().expect("memory does not fail"),
            (8, _) => drop(store.compact(&FullSpeed).expect("memory does not fail")),
            (9, _) => {
                drop(store);
                store = open(&disk, &mut opened);
            }
            (10, _) => {
                // Killed: what it had written is there, no mark is.
                disk = MemoryDisk::holding(disk.files());
                drop(std::mem::replace(&mut store, open(&disk, &mut opened)));
            }
            (11, _) => {
                let copy = MemoryDisk::default();
                store.backup(&copy).expect("memory does not fail");
                model.compare(&open(&copy, &mut opened).snapshot());
            }
            _ => continue,
        }
        model.compare(&store.snapshot());
    }
});
