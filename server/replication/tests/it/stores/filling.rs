//! Replicas with partial files: their answers, their fetches, and the files that stay in their cache.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::memory::Memory;
use crate::machine::Machine;
use crate::machine::{PATIENCE, until};
use engine::{
    Batch, CorruptionError, Filter, ItemDraft, ItemId, Model, NoThrottle, Remedy, Snapshot, Store,
    TombstoneDraft, WriteError,
};
use kernels::Kernels;
use recalld_replication::{Cache, Following, Keeper, Role, Seated, Tended};

/// Items of the three segments, each less than half as large as the one before, so that no flush merges them.
const ITEMS: [u32; 3] = [56, 20, 7];
const TEXT_BYTES: usize = 90_000;
const DIMENSIONS: u32 = 32;
/// Maximum bytes to open a file: the pages of its end, its first page, and those of a directory.
const OPENING_BYTES: u64 = 6 * (64 << 10);

/// Long words that differ from item to item, and one common word.
fn text(id: u32) -> String {
    let mut text = String::with_capacity(TEXT_BYTES + 64);
    let mut state = u64::from(id) + 1;
    text.push_str("common ");
    while text.len() < TEXT_BYTES {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = state >> 56;
        text.push_str(&format!("w{word:0>50x} "));
    }
    text
}

fn item(id: u32) -> ItemDraft {
    let number = |at: u32| half::f16::from_f32((id * 31 + at * 17) as f32 % 13.0 - 6.0);
    ItemDraft {
        id: Some(ItemId(u128::from(id))),
        kind: "note".into(),
        modality: "text".into(),
        recorded_by: "somebody".into(),
        via: "a test".into(),
        title: format!("number {id}"),
        text: text(id),
        searchable: true,
        embedding: (0..DIMENSIONS).map(number).collect(),
        ..ItemDraft::default()
    }
}

fn write(store: &Store, ids: impl Iterator<Item = u32>) {
    for id in ids {
        store.write(Batch { items: vec![item(id)], ..Batch::default() }).unwrap();
    }
}

/// A workspace of three segments and a tail, completely uploaded.
struct World {
    folder: tempfile::TempDir,
    memory: Arc<Memory>,
    led: Option<Seated>,
    writer: Machine,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let memory = Arc::new(Memory::default());
        let mut writer = Machine::new("box-1", &memory, &folder.path().join("one"), false);
        let led = writer.open().unwrap();
        led.store.bind_model(Model { fingerprint: [7; 32], dimensions: DIMENSIONS }).unwrap();
        let mut next = 1;
        for count in ITEMS {
            write(&led.store, next..next + count);
            led.store.seal().unwrap();
            next += count;
        }
        let replacing = ItemDraft { supersedes: vec![ItemId(3)], ..item(next) };
        let stone =
            TombstoneDraft { target: 5, by: "somebody".into(), ..TombstoneDraft::default() };
        let batch = Batch { items: vec![replacing], tombstones: vec![stone], ..Batch::default() };
        led.store.write(batch).unwrap();
        let world = Self { folder, memory, led: Some(led), writer };
        assert_eq!(world.segments().len(), ITEMS.len());
        let Role::Leads(carrier) = &world.led().role else { panic!("it is alone") };
        assert!(carrier.settle(PATIENCE));
        world
    }

    fn led(&self) -> &Seated {
        self.led.as_ref().unwrap()
    }

    fn home(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Segments of the leader.
    fn segments(&self) -> Vec<(String, Vec<u8>)> {
        let names = names(&self.home("one")).into_iter();
        let names = names.filter(|name| name.starts_with("segment-"));
        names
            .map(|name| {
                (name.clone(), std::fs::read(self.home("one").join("store").join(name)).unwrap())
            })
            .collect()
    }

    fn bytes(&self) -> u64 {
        self.segments().iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    fn machine(&self, name: &str, is_replica: bool, cache: &Arc<Cache>) -> Machine {
        let mut machine = Machine::new(name, &self.memory, &self.home(name), is_replica);
        machine.seat.cache = Arc::clone(cache);
        machine
    }

    /// Releases the workspace.
    fn give(&mut self) {
        let Seated { store, role } = self.led.take().unwrap();
        let Role::Leads(carrier) = role else { panic!("it was first") };
        drop(store);
        assert!(carrier.give(None, PATIENCE));
        let standing = carrier.standing();
        self.writer.seat.note_carried(standing.seq, standing.record).unwrap();
    }

    fn read(&self) -> u64 {
        self.memory.read.load(Ordering::SeqCst)
    }

    fn reads(&self) -> u64 {
        self.memory.reads.load(Ordering::SeqCst)
    }

    /// Asserts that a store gives the same answers as the leader's; an error if its bytes could not be fetched.
    fn is_same(&self, store: &Store) -> Result<(), CorruptionError> {
        let whole = self.led().store.snapshot();
        assert_eq!(answers(&store.snapshot())?, answers(&whole).unwrap());
        Ok(())
    }
}

/// Names of a store's files.
fn names(home: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(home.join("store")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn parts(home: &Path) -> usize {
    names(home).iter().filter(|name| name.ends_with(".part")).count()
}

/// Answers of a store: its items, their states, and the results of two searches.
fn answers(snapshot: &Snapshot) -> Result<Vec<String>, CorruptionError> {
    let mut found = Vec::new();
    for place in snapshot.item_addresses()? {
        let item = snapshot.item(place)?;
        let embedding = snapshot.embedding(place)?.map(<[half::f16]>::to_vec);
        found.push(format!(
            "{} {} {:?}",
            item.title,
            item.text == text(u32::try_from(item.id.0).unwrap()),
            embedding
        ));
    }
    for id in 1..=ITEMS.iter().sum::<u32>() + 1 {
        let place = snapshot.find(ItemId(id.into()))?.expect("it was written");
        found.push(format!("{id}: {:?}", snapshot.status(place)?));
    }
    let far = |error| match error {
        engine::SearchError::Damaged(damage) => damage,
        other => panic!("{other}"),
    };
    for question in ["common", "number 7"] {
        let hits = snapshot.search_words(question, 10, &Filter::default()).map_err(far)?;
        for hit in hits {
            found.push(format!("{question}: {:?} {}", snapshot.id(hit.address)?, hit.score));
        }
    }
    let query: Vec<f32> = (0..DIMENSIONS).map(|at| at as f32 % 5.0 - 2.0).collect();
    for hit in snapshot.nearest(&Kernels::detect(), &query, 10, &Filter::default()).map_err(far)? {
        found.push(format!("near: {:?} {}", snapshot.id(hit.address)?, hit.score));
    }
    Ok(found)
}

/// Answers that do not change when items are added.
fn items(answers: Vec<String>) -> BTreeSet<String> {
    let asked = ["common: ", "number 7: ", "near: ", "number 100"];
    let is_of_items = |line: &String| !asked.iter().any(|start| line.starts_with(start));
    answers.into_iter().filter(is_of_items).collect()
}

fn followed(machine: &mut Machine) -> (Arc<Store>, Following) {
    let Seated { store, role } = machine.open().unwrap();
    let Role::Follows(following) = role else { panic!("another one writes") };
    (store, following)
}

fn fill(cache: &Cache) {
    while cache.tend() == Tended::Done {}
}

#[test]
fn a_cold_replica_answers_before_its_files_are_here() {
    let world = World::new();
    let cache = Cache::new(1 << 30);
    let mut replica = world.machine("two", true, &cache);
    let (store, following) = followed(&mut replica);
    let opening = world.read();
    let most = ITEMS.len() as u64 * OPENING_BYTES;
    assert!(opening < most, "{opening} bytes to open, {most} are bearable");
    assert_eq!(parts(&world.home("two")), ITEMS.len());

    let snapshot = store.snapshot();
    let place = snapshot.find(ItemId(10)).unwrap().unwrap();
    assert!(snapshot.item(place).unwrap().text == text(10));
    let first = world.read();
    let whole = world.bytes();
    assert!(first < whole / 2, "{first} bytes of {whole} for the first answer");
    assert!(world.reads() <= 8 * ITEMS.len() as u64, "in {} requests", world.reads());
    let stands = cache.stands();
    assert_eq!((stands.fetches, stands.filled), (world.reads(), first), "all of it is counted");
    assert!(stands.bytes >= first && stands.bytes < whole);

    world.is_same(&store).unwrap();
    fill(&cache);
    assert_eq!(parts(&world.home("two")), 0);
    for (name, bytes) in world.segments() {
        let here = std::fs::read(world.home("two").join("store").join(&name)).unwrap();
        assert!(here == bytes, "{name}");
    }
    let most = whole + ITEMS.len() as u64 * OPENING_BYTES;
    assert!(world.read() <= most, "each page once: {} of {whole}", world.read());
    world.is_same(&store).unwrap();
    drop((snapshot, following));
}

#[test]
fn what_does_not_come_is_asked_for_again_and_is_no_damage() {
    let world = World::new();
    let cache = Cache::new(1 << 30);
    let mut replica = world.machine("two", true, &cache);
    let (store, _following) = followed(&mut replica);
    let snapshot = store.snapshot();
    world.memory.answers(false);
    let away = world.is_same(&store).unwrap_err();
    assert!(away.is_unavailable() && away.to_string().contains("it is away"), "{away}");
    assert_eq!(engine::SearchError::from(away).remedy(), Remedy::RetryLater);
    assert_eq!(cache.tend(), Tended::Failed);
    assert_eq!(store.stop_reason(), None);
    world.memory.answers(true);
    world.is_same(&store).unwrap();
    drop(snapshot);
}

#[test]
fn answers_are_right_or_none_whatever_fails() {
    let world = World::new();
    let cache = Cache::new(1 << 30);
    let mut replica = world.machine("two", true, &cache);
    let (store, _following) = followed(&mut replica);
    world.memory.one_fails_of.store(2, Ordering::SeqCst);
    let mut refused = 0;
    while let Err(away) = world.is_same(&store) {
        assert!(away.is_unavailable(), "{away}");
        refused += 1;
        assert!(refused < 1000, "each time more of it is here");
    }
    assert!(refused > 0);
}

#[test]
fn a_restart_goes_on_from_what_is_here() {
    let world = World::new();
    let cache = Cache::new(1 << 30);
    let mut replica = world.machine("two", true, &cache);
    let seated = followed(&mut replica);
    let (store, _) = &seated;
    let before = answers(&store.snapshot()).unwrap();
    // Fetch a part of the rest, so that no file is complete.
    for _ in 0..2 {
        assert_eq!(cache.tend(), Tended::Done);
    }
    drop((seated, replica));
    let closed = cache.stands().bytes;
    assert!(closed > 0, "what nobody has open is counted");

    let first = world.read();
    let cache = Cache::over(&[world.home("two")], None, 1 << 30);
    assert_eq!((cache.stands().bytes, cache.stands().bound), (closed, ((1 << 30) + closed) / 2));
    let mut replica = world.machine("two", true, &cache);
    let (store, _following) = followed(&mut replica);
    assert_eq!(answers(&store.snapshot()).unwrap(), before);
    let parts_of_logs = 64 << 10;
    assert!(world.read() - first < parts_of_logs, "{} bytes came again", world.read() - first);
    fill(&cache);
    world.is_same(&store).unwrap();
    let most = world.bytes() + ITEMS.len() as u64 * OPENING_BYTES;
    assert!(world.read() <= most, "{} bytes of {} in both runs", world.read(), world.bytes());
}

#[test]
fn the_bound_holds_and_answers_stay_right() {
    let world = World::new();
    let whole = world.bytes();
    // The largest file fits, but not all files.
    let bound = whole * 3 / 4;
    let cache = Cache::new(bound);
    let keeper = Keeper::start(&cache).unwrap();
    let mut replica = world.machine("two", true, &cache);
    let (store, _following) = followed(&mut replica);
    let last = ITEMS.iter().sum::<u32>();
    let most = bound + ITEMS.len() as u64 * OPENING_BYTES;
    let mut refused = 0;
    for round in 0..3 {
        for id in (1..=last).filter(|id| id % 5 == round % 5) {
            let read = || -> Result<bool, CorruptionError> {
                let snapshot = store.snapshot();
                let place = snapshot.find(ItemId(id.into()))?.expect("it was written");
                Ok(snapshot.item(place)?.text == text(id))
            };
            loop {
                match read() {
                    Ok(is_right) => break assert!(is_right, "{id}"),
                    Err(away) => assert!(away.is_unavailable(), "{away}"),
                }
                refused += 1;
                assert!(refused < 1000, "there is never room");
            }
            let bytes = cache.stands().bytes;
            assert!(bytes <= most, "{bytes} bytes are here, {bound} may be");
        }
    }
    assert!(world.read() > whole, "something was let go of and came again");
    drop(keeper);
}

#[test]
fn what_one_question_needs_may_be_too_much() {
    let world = World::new();
    let cache = Cache::new(world.bytes() / 3);
    let keeper = Keeper::start(&cache).unwrap();
    let mut replica = world.machine("two", true, &cache);
    let (store, _following) = followed(&mut replica);
    let away = world.is_same(&store).unwrap_err();
    assert!(away.is_unavailable() && away.to_string().contains("remote.cache_bytes"), "{away}");
    // A smaller query is answered as soon as the files of the large one are evicted.
    until("a small one", || {
        let snapshot = store.snapshot();
        let place = snapshot.find(ItemId(2));
        place
            .is_ok_and(|place| snapshot.item(place.unwrap()).is_ok_and(|item| item.text == text(2)))
    });
    drop(keeper);
}

#[test]
fn what_nobody_has_open_goes_first() {
    let world = World::new();
    let cache = Cache::new(world.bytes() * 5 / 4);
    let mut old = world.machine("old", true, &cache);
    let seated = followed(&mut old);
    fill(&cache);
    assert!(cache.stands().bytes >= world.bytes() / 2);
    drop((seated, old));
    let closed = cache.stands().bytes;
    let keeper = Keeper::start(&cache).unwrap();
    let mut replica = world.machine("two", true, &cache);
    let (store, _following) = followed(&mut replica);
    until("all of it is answered", || world.is_same(&store).is_ok());
    let left = names(&world.home("old"));
    assert_eq!(left, BTreeSet::from(["LOCK".to_owned()]), "{closed} bytes were there");
    drop(keeper);
    // The old replica starts anew.
    let mut old = world.machine("old", true, &Cache::new(1 << 30));
    world.is_same(&followed(&mut old).0).unwrap();
}

#[test]
fn a_file_that_is_another_than_its_record_says_is_fetched_twice_and_told() {
    let world = World::new();
    // A store whose texts have the same lengths, word by word.
    let other = World::new();
    let (name, bytes) = world.segments().pop().unwrap();
    let (_, others) = other.segments().pop().unwrap();
    assert_eq!(bytes.len(), others.len());
    assert!(bytes != others, "times differ at the least");
    let objects = world.memory.names("t/local/data/");
    let mut replaced = 0;
    for object in objects {
        world.memory.tamper(&object, |found| {
            if *found == bytes {
                found.clone_from(&others);
                replaced += 1;
            }
        });
    }
    assert_eq!(replaced, 1, "{name} is one object");
    let cache = Cache::new(1 << 30);
    let mut replica = world.machine("two", true, &cache);
    let (_store, following) = followed(&mut replica);
    fill(&cache);
    let trouble = following.age().trouble.unwrap();
    assert!(trouble.contains("REM-05"), "{trouble}");
    assert!(names(&world.home("two")).iter().all(|found| *found != name), "it gets no name");
}

#[test]
fn a_node_takes_a_workspace_whose_files_are_here_in_part() {
    let mut world = World::new();
    let cache = Cache::new(1 << 30);
    let mut two = world.machine("two", false, &cache);
    let followed = two.open().unwrap();
    assert!(matches!(followed.role, Role::Follows(_)));
    drop(followed);
    let before = answers(&world.led().store.snapshot()).unwrap();
    world.give();

    let Seated { store, role } = two.open().unwrap();
    assert!(matches!(role, Role::Leads(_)));
    assert!(parts(&world.home("two")) > 0, "nothing waited for whole files");
    write(&store, 1000..1001);
    store.seal().unwrap();
    assert!(parts(&world.home("two")) > 0, "nor did a write");
    // A merge does wait for whole files.
    world.memory.answers(false);
    match store.compact_fully(&NoThrottle) {
        Err(WriteError::Postponed { why, remedy: Remedy::RetryLater }) => {
            assert!(why.contains("FAR-01"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    world.memory.answers(true);
    store.compact_fully(&NoThrottle).unwrap();
    assert_eq!(items(answers(&store.snapshot()).unwrap()), items(before));
    write(&store, 1001..1002);
    drop((store, role));
}

#[test]
fn a_writer_that_begins_anew_goes_on_with_what_is_here_in_part() {
    let mut world = World::new();
    let cache = Cache::new(1 << 30);
    let before = answers(&world.led().store.snapshot()).unwrap();
    world.give();
    for round in 0..3 {
        let mut two = world.machine("two", false, &cache);
        let Seated { store, role } = two.open().unwrap();
        assert!(matches!(role, Role::Leads(_)), "round {round}");
        assert!(parts(&world.home("two")) > 0, "round {round}");
        write(&store, 1000 + round..1001 + round);
        if round == 2 {
            let after = answers(&store.snapshot()).unwrap();
            assert_eq!(items(after), items(before.clone()));
        }
    }
}
