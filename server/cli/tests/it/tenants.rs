//! Open workspaces: each opens on demand and closes when idle, their number is bounded, and no data is lost or mixed
//! up.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use engine::ledger::{Decision, Outcome};
use engine::os::clock::{Clock, SystemRandom};
use engine::{Batch, ItemDraft, ItemId, Micros, TombstoneDraft};
use recalld_audit::Trace;
use recalld_embedding::embed::Embedder;
use recalld_metastore::Control;
use recalld_workspace::limits::OPENINGS_MIN;
use recalld_workspace::tenants::{Bounds, Closed, Door, Tenants};
use support_server::door::door;
use support_server::tiny_model;
use support_wire::patience::wait_until;
use support_wire::service::scratch;
use support_wire::tiny_model::Tiny;
use tempfile::TempDir;

const BOUNDS: Bounds = Bounds {
    open_max: 4,
    wait_max: Duration::from_secs(60),
    idle_max: Duration::from_secs(3600),
    waiters_max: 64,
    crowd_wait_max: Duration::from_secs(60),
    pause: Duration::from_millis(20),
    turns_max: OPENINGS_MIN,
};

struct House {
    tenants: Tenants,
    embedder: Arc<Embedder>,
    scratch: TempDir,
}

fn embedder(folder: &Path, seed: u32) -> Arc<Embedder> {
    let model = Tiny::new(seed, 16).write(folder, &format!("model-{seed}"));
    Arc::new(tiny_model::embedder(&model))
}

impl House {
    fn with(bounds: Bounds) -> Self {
        let scratch = scratch();
        std::fs::create_dir(scratch.path().join("tenants")).unwrap();
        let embedder = embedder(scratch.path(), 1);
        let door = door(scratch.path(), Arc::clone(&embedder), None);
        door.control.ready().unwrap();
        Self { tenants: Tenants::start(door, bounds).unwrap(), embedder, scratch }
    }

    fn made(self, names: &[&str]) -> Self {
        names.iter().for_each(|name| self.tenants.make(name).unwrap());
        self
    }

    /// Closes idle workspaces until `open` remain. A workspace being visited by the maintenance thread is not idle.
    fn closed_down_to(&self, open: usize) {
        wait_until("what nobody uses is closed", || {
            self.tenants.close_idle(Duration::ZERO);
            self.tenants.count() == open
        });
    }

    /// The texts of a workspace's items.
    fn texts(&self, name: &str) -> Vec<String> {
        let workspace = self.tenants.open(name).unwrap();
        let snapshot = workspace.store.snapshot();
        let places = snapshot.item_addresses().unwrap();
        places.map(|place| snapshot.item(place).unwrap().text.to_owned()).collect()
    }
}

fn note(text: &str) -> Batch {
    let item = ItemDraft {
        kind: "note".to_owned(),
        modality: "text".to_owned(),
        text: text.to_owned(),
        ..ItemDraft::default()
    };
    Batch { items: vec![item], ..Batch::default() }
}

#[test]
fn who_comes_when_many_wait_for_a_workspace_waits_for_less() {
    let wait_max = Duration::from_secs(24 * 3600);
    let crowded =
        Bounds { open_max: 1, wait_max, waiters_max: 0, crowd_wait_max: Duration::ZERO, ..BOUNDS };
    let house = House::with(crowded).made(&["acme", "globex"]);
    let _in_use = house.tenants.open("acme").unwrap();
    assert_eq!(house.tenants.open("globex").err(), Some(Closed::Busy));
}

#[test]
fn a_workspace_opens_when_it_is_needed_and_closes_when_it_is_not() {
    let house = House::with(BOUNDS).made(&["acme", "globex"]);
    assert_eq!(house.tenants.count(), 0, "made is not open");
    let acme = house.tenants.open("acme").unwrap();
    let again = house.tenants.open("acme").unwrap();
    assert!(Arc::ptr_eq(&acme.store, &again.store), "one store, however many use it");
    acme.store.write(note("of acme")).unwrap();
    drop(again);
    house.tenants.open("globex").unwrap().store.write(note("of globex")).unwrap();
    assert_eq!(house.tenants.count(), 2);
    // The workspace `acme` is still in use.
    house.closed_down_to(1);
    assert_eq!(house.tenants.close_idle(Duration::ZERO), 0);
    drop(acme);
    assert_eq!(house.tenants.close_idle(Duration::from_secs(3600)), 0, "not idle for so long");
    house.closed_down_to(0);
    assert_eq!(
        (house.texts("acme"), house.texts("globex")),
        (vec!["of acme".to_owned()], vec!["of globex".to_owned()],)
    );
}

#[test]
fn only_what_is_there_opens_and_a_failure_leaves_no_trace() {
    let house = House::with(BOUNDS).made(&["acme"]);
    for missing in ["globex", "", ".", "..", "acme/store", "../tenants/acme"] {
        let found = house.tenants.open(missing).err();
        assert!(matches!(found, Some(Closed::Missing)), "{missing:?}: {found:?}");
    }
    assert_eq!(house.tenants.make("acme").unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    // A signing key with group or other access is rejected; after its repair, the workspace opens.
    let workspace = house.tenants.open("acme").unwrap();
    workspace.store.write(note("kept")).unwrap();
    drop(workspace);
    house.tenants.close("acme").unwrap();
    let key = house.scratch.path().join("tenants/acme/keys/signing.key");
    let mode = |bits| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(bits)).unwrap();
    };
    mode(0o644);
    let failed = house.tenants.open("acme").err().unwrap();
    let Closed::Failed(why) = &failed else { panic!("{failed:?}") };
    assert!(why.contains("chmod 600"), "{why}");
    let told = failed.to_string();
    assert!(!told.contains('/'), "callers are told of no file: {told}");
    assert_eq!(house.tenants.count(), 0);
    mode(0o600);
    assert_eq!(house.texts("acme"), ["kept"]);
}

#[test]
fn no_more_are_open_than_may_be_and_the_longest_idle_goes_first() {
    let names: Vec<String> = (0..20).map(|n| format!("tenant-{n}")).collect();
    let house = House::with(BOUNDS).made(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    for name in &names {
        house.tenants.open(name).unwrap().store.write(note(name)).unwrap();
        assert!(house.tenants.count() <= BOUNDS.open_max);
    }
    // A workspace used again is not the next to close. The maintenance thread may hold one open, so the check is
    // repeated.
    let is_next_gone = || {
        names[16..].iter().for_each(|name| drop(house.tenants.open(name).unwrap()));
        drop(house.tenants.open("tenant-16").unwrap());
        drop(house.tenants.open("tenant-0").unwrap());
        assert!(house.tenants.if_open("tenant-16").is_some());
        house.tenants.if_open("tenant-17").is_none()
    };
    wait_until("what was idle for longest goes", is_next_gone);
    for name in &names {
        assert_eq!(house.texts(name), std::slice::from_ref(name));
    }
}

#[test]
fn who_visits_keeps_nothing_open_and_pushes_nobody_out() {
    let names = ["acme", "globex", "hooli", "initech", "umbrella"];
    let house = House::with(BOUNDS).made(&names);
    drop(house.tenants.open("acme").unwrap());
    for name in &names[1..] {
        drop(house.tenants.visit(name).unwrap());
    }
    assert!(house.tenants.if_open("acme").is_some(), "used longest ago, but used");
    drop(house.tenants.open("umbrella").unwrap());
    // The maintenance thread may have closed them already.
    house.tenants.close_idle(Duration::from_secs(3600));
    let open = names.iter().filter(|name| house.tenants.if_open(name).is_some());
    assert_eq!(open.collect::<Vec<_>>(), [&"acme", &"umbrella"], "nobody used the others");
}

#[test]
fn who_finds_all_in_use_waits_for_a_place_and_is_told_where_none_comes() {
    let names = ["a-one", "a-two", "a-three", "a-four", "a-five"];
    let impatient = Bounds { wait_max: Duration::from_millis(20), ..BOUNDS };
    let house = House::with(impatient).made(&names);
    let held: Vec<_> = names[..4].iter().map(|name| house.tenants.open(name).unwrap()).collect();
    assert!(matches!(house.tenants.open("a-five").err(), Some(Closed::Busy)));
    assert!(matches!(house.tenants.close("a-one").err(), Some(Closed::Busy)));
    drop(held);
    assert!(house.tenants.open("a-five").is_ok());

    let house = House::with(BOUNDS).made(&names);
    let mut held: Vec<_> =
        names[..4].iter().map(|name| house.tenants.open(name).unwrap()).collect();
    thread::scope(|scope| {
        let fifth = scope.spawn(|| house.tenants.open("a-five").map(drop));
        // Before or after the fifth begins to wait.
        drop(held.pop());
        fifth.join().unwrap().unwrap();
    });
}

#[test]
fn what_was_closed_opens_again_at_once_whoever_had_it_last() {
    let house = House::with(BOUNDS).made(&["acme"]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            // A lease that ends just before the close must not keep anything open.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(house.tenants.if_open("acme"));
                }
            });
        }
        let all = (0..200).try_for_each(|_| {
            drop(house.tenants.open("acme")?);
            house.tenants.close("acme")
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(all, Ok(()));
    });
}

#[test]
fn many_who_come_and_go_at_once_find_their_own() {
    let names: Vec<String> = (0..8).map(|n| format!("tenant-{n}")).collect();
    let house = House::with(BOUNDS).made(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    let (threads, rounds) = (6, 30);
    let (start, written) = (Barrier::new(threads), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..threads {
            let (house, names, start, written) = (&house, &names, &start, &written);
            scope.spawn(move || {
                start.wait();
                for round in 0..rounds {
                    // 5 is prime to 8: each thread visits every name, in its own order.
                    let name = &names[(thread * 3 + round * 5) % names.len()];
                    let workspace = house.tenants.open(name).unwrap();
                    assert_eq!(&workspace.name, name);
                    workspace.store.write(note(name)).unwrap();
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(house.tenants.count() <= BOUNDS.open_max);
    let texts: Vec<Vec<String>> = names.iter().map(|name| house.texts(name)).collect();
    assert_eq!(texts.iter().map(Vec::len).sum::<usize>(), written.into_inner());
    for (name, texts) in names.iter().zip(texts) {
        assert!(texts.iter().all(|text| text == name), "{name}: {texts:?}");
    }
}

/// Number of files below this folder that this process has open. Concurrent tests have others.
fn descriptors(within: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    // A file closed meanwhile has no name any more.
    let names = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    names.filter(|name| name.starts_with(within)).count()
}

#[test]
fn however_many_workspaces_there_are_only_so_many_take_memory_and_files() {
    let (all, threads, rounds) = (120, 6, 40);
    let names: Vec<String> = (0..all).map(|n| format!("tenant-{n}")).collect();
    let house = House::with(BOUNDS).made(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    let open = |name: &str| {
        let workspace = house.tenants.open(name).unwrap();
        assert_eq!(&workspace.name, name);
        assert!(house.tenants.count() <= BOUNDS.open_max);
        workspace
    };
    // The maximum number of open workspaces, each with an item: their open files are the bound for all.
    for name in &names[..BOUNDS.open_max] {
        open(name).store.write(note(name)).unwrap();
    }
    let most = descriptors(house.scratch.path());
    for name in &names {
        open(name).store.write(note(name)).unwrap();
    }
    thread::scope(|scope| {
        for thread in 0..threads {
            let (open, names) = (&open, &names);
            scope.spawn(move || {
                for round in 0..rounds {
                    // Some names are shared by all threads, others are rare.
                    let shared = round % 3 == 0;
                    let at = if shared { round % 2 } else { (thread * 37 + round * 11) % all };
                    drop(open(&names[at]));
                }
            });
        }
    });
    let now = descriptors(house.scratch.path());
    // A closing store briefly has both its old and its new files open.
    assert!(now <= most + 16 * BOUNDS.open_max, "{now} are open, and {most} were");
    assert_eq!(house.texts(&names[all - 1]), std::slice::from_ref(&names[all - 1]));
    house.closed_down_to(0);
}

#[test]
fn what_is_to_be_erased_goes_without_anybody_asking() {
    let house = House::with(BOUNDS).made(&["acme"]);
    let workspace = house.tenants.open("acme").unwrap();
    let id = ItemId(77);
    let batch = note("a secret");
    let items = batch.items.into_iter().map(|item| ItemDraft { id: Some(id), ..item }).collect();
    workspace.store.write(Batch { items, ..Batch::default() }).unwrap();
    let (sender, news) = std::sync::mpsc::channel();
    house.tenants.tell_of_news(move || {
        let _nobody_listens_any_more = sender.send(());
    });
    let stone = TombstoneDraft { target: id.0, erase: true, ..TombstoneDraft::default() };
    workspace.store.write(Batch { tombstones: vec![stone], ..Batch::default() }).unwrap();
    while workspace.store.erasures_pending().unwrap() > 0 {
        news.recv_timeout(Duration::from_secs(60)).expect("upkeep never erased it");
    }
}

#[test]
fn each_ledger_is_signed_by_a_key_of_its_own() {
    let house = House::with(BOUNDS).made(&["acme", "globex"]);
    let key = |name: &str| house.tenants.open(name).unwrap().signer.public();
    let (acme, globex) = (key("acme"), key("globex"));
    assert_ne!(acme, globex);
    house.tenants.close_idle(Duration::ZERO);
    assert_eq!(key("acme"), acme, "it is kept");
}

#[test]
fn a_ledger_that_was_cut_or_replaced_is_not_opened() {
    let house = House::with(BOUNDS).made(&["acme"]);
    let record = |principal: &str| {
        let trace = Trace {
            tool: "brain_recall",
            principal: principal.to_owned(),
            arguments: [0; 32],
            decision: Decision::Allow,
            rule: "rule".to_owned(),
            touched: Vec::new(),
            outcome: Outcome::Done,
        };
        house.tenants.open("acme").unwrap().audit.record(&trace, false).unwrap();
        house.tenants.close("acme").unwrap();
    };
    record("ada");
    let folder = house.scratch.path().join("tenants/acme/ledger");
    let log = folder.join("ledger-00000000000000000001.log");
    let one = std::fs::read(&log).unwrap();
    record("bob");
    let two = std::fs::read(&log).unwrap();
    // Each of these ledgers is valid by itself; only the recorded checkpoint shows the change.
    let refused = || {
        let why = house.tenants.open("acme").err().expect("it must not open");
        assert!(matches!(&why, Closed::Failed(why) if why.contains("LED-19")), "{why:?}");
    };
    std::fs::write(&log, &one).unwrap();
    refused();
    std::fs::remove_file(&log).unwrap();
    refused();
    std::fs::write(&log, &two).unwrap();
    record("carl");
}

#[test]
fn a_workspace_stays_closed_while_its_last_checkpoint_cannot_be_told() {
    let house = House::with(BOUNDS).made(&["acme"]);
    drop(house.tenants.open("acme").unwrap());
    drop(house.tenants);
    let file = house.scratch.path().join("control.redb");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, b"no control store at all").unwrap();
    let clock = Arc::new(Hands(AtomicI64::new(1)));
    let time: Arc<dyn Clock> = clock.clone();
    let control = Arc::new(Control::at(&file, time, Arc::new(SystemRandom)));
    let door = Door { control, ..door(house.scratch.path(), house.embedder, None) };
    let tenants = Tenants::start(door, BOUNDS).unwrap();
    assert!(matches!(tenants.open("acme").err(), Some(Closed::Failed(_))));
    std::fs::write(&file, whole).unwrap();
    // The open is retried at most once a second.
    clock.0.fetch_add(2_000_000, Ordering::Relaxed);
    assert!(tenants.open("acme").is_ok());
}

/// A manually set clock, in microseconds.
#[derive(Debug)]
struct Hands(AtomicI64);

impl Clock for Hands {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::Relaxed))
    }
}
