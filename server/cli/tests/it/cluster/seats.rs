//! The replica manager under concurrent callers, its inventory, and purges.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use engine::{Batch, ItemDraft, Options, Store};
use recalld_cluster::seats::{Ending, Seats, Step, ToEmpty};
use recalld_cluster::{Where, Whereabouts};
use recalld_common::cancel::CancellationToken;
use recalld_config::remote::Remote;
use recalld_replication::{BootClock, Emptied, Halt, NotSeated, TickSource, Ticks};
use support_wire::kept::{assert_gone, files, holding};
use support_wire::patience::wait_until;
use tempfile::TempDir;

const LOCAL: &str = "local";
/// Timeout of any step in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const ASKERS: usize = 8;
const QUESTIONS: usize = 20_000;

fn seats(remote: &Path, data: &Path, is_replica: bool) -> Seats {
    seats_at(remote, data, is_replica, Arc::new(BootClock))
}

/// A replica manager whose clock is `ticks`.
fn seats_at(remote: &Path, data: &Path, is_replica: bool, ticks: Arc<dyn TickSource>) -> Seats {
    let address = format!("file://{}", remote.display());
    // Zero retention, because the tests delete workspaces that were just written.
    let keep = (Duration::ZERO, Duration::ZERO);
    seats_by(&Remote { is_replica, keep, ..Remote::at(address) }, data, ticks)
}

/// Opens a workspace in the directory `home`, once there is something to follow.
pub(crate) fn open(seats: &Seats, name: &str, home: &Path) -> Arc<Store> {
    let stopping = CancellationToken::new();
    seats.open_store(name, home, Options::default(), Some(&stopping)).unwrap()
}

/// A replica manager with these settings.
pub(crate) fn seats_by(settings: &Remote, data: &Path, ticks: Arc<dyn TickSource>) -> Seats {
    let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) =
        (Arc::new(SystemClock), Arc::new(SystemRandom));
    Seats::open(settings, data, (&clock, &random), ticks).unwrap()
}

/// A tick source that a test can advance.
#[derive(Debug, Default)]
pub(crate) struct Told(AtomicU64);

impl Told {
    /// Advances the clock.
    pub(crate) fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
    }
}

impl TickSource for Told {
    fn now(&self) -> Ticks {
        Ticks(self.0.load(Ordering::SeqCst) + BootClock.now().0)
    }
}

#[test]
fn those_who_ask_do_not_keep_one_another_from_knowing() {
    let folder = TempDir::new().unwrap();
    let (remote, data) = (folder.path().join("remote"), folder.path().join("data"));
    std::fs::create_dir(&data).unwrap();
    let seats = seats(&remote, &data, false);
    let store = open(&seats, LOCAL, &data.join(LOCAL));
    thread::scope(|scope| {
        for _ in 0..ASKERS {
            scope.spawn(|| {
                for _ in 0..QUESTIONS {
                    assert_eq!(seats.of(LOCAL), Where::Here);
                }
            });
        }
    });
    drop(store);
    seats.close(LOCAL, Ending::Kept);
}

/// The workspaces in a node's published inventory.
fn said(remote: &Path, seats: &Seats) -> Vec<String> {
    let bytes = std::fs::read(remote.join(format!("node/{}/holds", seats.name()))).unwrap();
    let holds: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    holds["workspaces"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn what_was_said_before_the_first_byte_stays_said_for_as_long_as_there_may_be_one() {
    let folder = TempDir::new().unwrap();
    let (remote, data) = (folder.path().join("remote"), folder.path().join("data"));
    let home = data.join("tenants/acme");
    std::fs::create_dir_all(&home).unwrap();
    // The data to follow arrives later, or breaks off.
    let writer = folder.path().join("writer");
    std::fs::create_dir(&writer).unwrap();
    drop(seats(&remote, &writer, false));
    let ticks = Arc::new(Told::default());
    let replica = seats_at(&remote, &data, true, Arc::clone(&ticks) as _);
    let begins = |seats: &Seats| {
        let stopping = CancellationToken::new();
        let open = || seats.open_store("acme", &home, Options::default(), Some(&stopping));
        thread::scope(|scope| {
            let opening = scope.spawn(open);
            wait_until("it may come any moment", || {
                seats.tell_holds(&data, false).unwrap();
                said(&remote, seats) == ["acme"]
            });
            stopping.cancel();
            let why = opening.join().unwrap().unwrap_err();
            assert!(matches!(why, NotSeated::Nothing), "{why}");
        });
        seats.tell_holds(&data, false).unwrap();
    };
    begins(&replica);
    assert!(said(&remote, &replica).is_empty(), "nothing of it came");
    let part = home.join("store/part");
    std::fs::write(&part, "some bytes").unwrap();
    ticks.pass(2);
    begins(&replica);
    assert_eq!(said(&remote, &replica), ["acme"]);
    drop(replica);
    let replica = seats(&remote, &data, true);
    replica.tell_holds(&data, false).unwrap();
    assert_eq!(said(&remote, &replica), ["acme"], "what the run before said");
    std::fs::remove_file(&part).unwrap();
    replica.tell_holds(&data, false).unwrap();
    assert!(said(&remote, &replica).is_empty());
}

#[test]
fn what_was_said_is_said_again_where_something_else_is_in_its_place() {
    let folder = TempDir::new().unwrap();
    let (remote, data) = (folder.path().join("remote"), folder.path().join("data"));
    let home = data.join("tenants/acme");
    std::fs::create_dir_all(data.join("tenants")).unwrap();
    let seats = seats(&remote, &data, false);
    seats.tell_holds(&data, false).unwrap();
    let place = remote.join(format!("node/{}/holds", seats.name()));
    let earlier = std::fs::read(&place).unwrap();
    std::fs::create_dir(&home).unwrap();
    drop(open(&seats, "acme", &home));
    seats.close("acme", Ending::Kept);
    seats.tell_holds(&data, false).unwrap();
    assert_eq!(said(&remote, &seats), ["acme"]);
    // A delayed earlier publish overwrites the inventory.
    std::fs::write(&place, &earlier).unwrap();
    seats.tell_holds(&data, false).unwrap();
    assert!(said(&remote, &seats).is_empty(), "nobody looked");
    seats.tell_holds(&data, true).unwrap();
    assert_eq!(said(&remote, &seats), ["acme"]);
    // Another node removes the inventory, as `forget-node` does.
    std::fs::remove_file(&place).unwrap();
    seats.tell_holds(&data, true).unwrap();
    assert_eq!(said(&remote, &seats), ["acme"]);
}

pub(crate) const MARKER: &str = "quincunx zephyrine";

/// Writes the marker into a store's WAL.
pub(crate) fn write(store: &Store) {
    let item = ItemDraft {
        kind: "note".into(),
        modality: "text".into(),
        recorded_by: "somebody".into(),
        via: "a test".into(),
        text: MARKER.into(),
        ..ItemDraft::default()
    };
    store.write(Batch { items: vec![item], ..Batch::default() }).unwrap();
}

/// A purge request for `acme`, deleted now: with shared tenants or not, and named explicitly or not.
pub(crate) fn acme(is_shared: bool, is_asked: bool) -> ToEmpty<'static> {
    let deleted_at = UNIX_EPOCH.elapsed().unwrap().as_secs();
    ToEmpty { name: "acme", deleted_at, looks_again: false, is_shared, is_asked }
}

pub(crate) fn step(seats: &Seats, wanted: &ToEmpty<'_>) -> Step {
    seats.empty(wanted, &seats.others().unwrap(), &Arc::new(Halt::default())).unwrap()
}

fn spared(seats: &Seats, wanted: &ToEmpty<'_>) -> String {
    match step(seats, wanted) {
        Step::Came(Emptied::Spared(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_of_a_deleted_workspace_is_left_and_nobody_loses_one_that_lives() {
    let folder = TempDir::new().unwrap();
    let [bucket, data, other] = ["remote", "one", "two"].map(|name| folder.path().join(name));
    let [home, elsewhere] = [&data, &other].map(|data| data.join("tenants/acme"));
    for home in [&home, &elsewhere] {
        std::fs::create_dir_all(home).unwrap();
    }
    let ticks = Arc::new(Told::default());
    let one = seats_at(&bucket, &data, false, Arc::clone(&ticks) as _);
    let store = open(&one, "acme", &home);
    write(&store);
    store.seal().unwrap();
    write(&store);
    for is_shared in [false, true] {
        assert!(spared(&one, &acme(is_shared, true)).contains("open here"));
    }
    // Another node has a copy. Shared tenants do not prove that the node knows of the deletion.
    let replica = seats_at(&bucket, &other, true, Arc::clone(&ticks) as _);
    let followed = open(&replica, "acme", &elsewhere);
    replica.tell_holds(&other, false).unwrap();
    drop(store);
    one.close("acme", Ending::Kept);
    let named = replica.name().to_string();
    for (is_shared, is_asked) in [(false, false), (false, true), (true, false), (true, true)] {
        let why = spared(&one, &acme(is_shared, is_asked));
        assert!(why.contains(&named) && why.contains("forget-node"), "{why}");
    }
    // An unreadable inventory may contain anything.
    let place = bucket.join(format!("node/{named}/holds"));
    let earlier = std::fs::read(&place).unwrap();
    std::fs::write(&place, "{").unwrap();
    let why = spared(&one, &acme(true, true));
    assert!(why.contains(&named) && why.contains("cannot be read"), "{why}");
    replica.end_following("acme");
    drop(followed);
    replica.close("acme", Ending::Kept);
    std::fs::remove_dir_all(elsewhere.join("store")).unwrap();
    recalld_replication::forget(&elsewhere).unwrap();
    std::fs::write(&place, earlier).unwrap();
    replica.tell_holds(&other, true).unwrap();

    // Without shared tenants, the workspace may be alive on a node that has no bytes of it.
    let why = spared(&one, &acme(false, false));
    assert!(why.contains("--workspace acme") && why.contains(&named), "{why}");
    // The workspace was written after its deletion.
    let before = ToEmpty { deleted_at: acme(true, true).deleted_at - 3600, ..acme(true, true) };
    assert!(spared(&one, &before).contains("after it was deleted"));
    assert!(!holding(&bucket, MARKER).is_empty());

    let first = step(&one, &acme(false, true));
    assert!(matches!(first, Step::Came(Emptied::Waiting(_))), "{first:?}");
    assert!(files(&bucket.join("t/acme/data")).is_empty(), "objects go at once");
    assert!(!holding(&bucket, MARKER).is_empty(), "records are not known for long enough");
    ticks.pass(301);
    let second = step(&one, &acme(false, true));
    assert!(matches!(second, Step::Came(Emptied::Done(_))), "{second:?}");
    assert_gone(&bucket, MARKER);
    let there = files(&bucket.join("t"));
    assert!(matches!(step(&one, &acme(true, false)), Step::Came(Emptied::Done(_))));
    assert_eq!(files(&bucket.join("t")), there, "it is done");
    let (others, halt) = (replica.others().unwrap(), Arc::new(Halt::default()));
    let refused = replica.empty(&acme(true, false), &others, &halt).unwrap_err();
    assert!(refused.contains("replica"), "{refused}");
}

#[test]
fn a_node_that_knows_of_no_other_empties_by_itself_and_those_that_wait_keep_out_nobody_for_ever() {
    /// Largest number of purges that wait at once.
    const TOGETHER: usize = 64;
    let folder = TempDir::new().unwrap();
    let (bucket, data) = (folder.path().join("remote"), folder.path().join("data"));
    std::fs::create_dir_all(data.join("tenants")).unwrap();
    let seats = seats(&bucket, &data, false);
    let names: Vec<String> = (0..=TOGETHER).map(|number| format!("acme{number}")).collect();
    for name in &names {
        let home = data.join("tenants").join(name);
        std::fs::create_dir(&home).unwrap();
        let store = open(&seats, name, &home);
        if *name == names[0] {
            write(&store);
        }
        drop(store);
        seats.close(name, Ending::Kept);
    }
    // A node that only collected garbage is no server.
    let passing = bucket.join("node/gc-0123456789abcdef");
    std::fs::create_dir_all(&passing).unwrap();
    std::fs::write(passing.join("holds"), r#"{"node":"gc-0123456789abcdef","workspaces":{}}"#)
        .unwrap();
    let named = |name| ToEmpty { name, ..acme(false, false) };
    // Spared workspaces do not count among the waiting purges.
    let early = ToEmpty { deleted_at: 1, ..named(&names[0]) };
    assert!(matches!(step(&seats, &early), Step::Came(Emptied::Spared(_))));
    for name in &names[..TOGETHER] {
        let came = step(&seats, &named(name));
        assert!(matches!(came, Step::Came(Emptied::Waiting(_))), "{name}: {came:?}");
    }
    let last = names.last().unwrap();
    assert!(matches!(step(&seats, &named(last)), Step::Later));
    assert!(matches!(step(&seats, &named(&names[0])), Step::Came(Emptied::Waiting(_))));
    // Another node purged one of the workspaces meanwhile.
    seats.forget_emptying(&|name| name != names[0]);
    assert!(matches!(step(&seats, &named(last)), Step::Came(Emptied::Waiting(_))));
}

/// Creates an inventory as a named pipe: its readers block until the test opens the pipe.
fn say_slowly(bucket: &Path) -> PathBuf {
    let node = bucket.join("node/slow");
    std::fs::create_dir_all(&node).unwrap();
    let pipe = node.join("holds");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    pipe
}

#[test]
fn whoever_empties_a_large_workspace_is_not_waited_for() {
    let folder = TempDir::new().unwrap();
    let (bucket, data) = (folder.path().join("remote"), folder.path().join("data"));
    std::fs::create_dir_all(data.join("tenants/acme")).unwrap();
    let seats = seats(&bucket, &data, false);
    let home = data.join("tenants/acme");
    let store = open(&seats, "acme", &home);
    write(&store);
    store.seal().unwrap();
    drop(store);
    seats.close("acme", Ending::Kept);
    // A purge reads the inventories before the lease is acquired and again afterwards; the second read blocks on the
    // pipe.
    let others = seats.others().unwrap();
    let pipe = say_slowly(&bucket);
    let is_over = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_over);
    let halt = seats.halt_of(move || asked.load(Ordering::SeqCst));
    let (seats, others) = (&seats, &others);
    let chain = bucket.join("t/acme/chain");
    let before = files(&chain).len();
    thread::scope(|scope| {
        let emptying = scope.spawn(|| seats.empty(&acme(true, true), others, &halt));
        wait_until("it was taken", || files(&chain).len() > before);
        let (told, forgot) = mpsc::channel();
        scope.spawn(move || {
            seats.forget_emptying(&|_| false);
            told.send(()).unwrap();
        });
        let forgot = forgot.recv_timeout(PATIENCE);
        let second = seats.empty(&acme(true, true), others, &Arc::new(Halt::default()));
        // The purge is cancelled: no further record is written.
        is_over.store(true, Ordering::SeqCst);
        // Opened for reading and writing, so that the open does not block if the reader is gone already.
        let way = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let came = emptying.join().unwrap();
        drop(way);
        forgot.expect("who forgets does not wait");
        assert!(matches!(second, Ok(Step::Busy)), "{second:?}");
        assert!(came.as_ref().is_err_and(|why| why.contains("called off")), "{came:?}");
    });
    std::fs::remove_dir_all(bucket.join("node/slow")).unwrap();
    assert!(!holding(&bucket, MARKER).is_empty());
    // The next purge continues the interrupted one.
    let came = step(seats, &acme(true, true));
    assert!(matches!(came, Step::Came(Emptied::Waiting(_))), "{came:?}");
    assert!(files(&bucket.join("t/acme/data")).is_empty());
}

#[test]
fn what_ends_a_call_and_what_ends_the_node_end_its_work() {
    let folder = TempDir::new().unwrap();
    let (bucket, data) = (folder.path().join("remote"), folder.path().join("data"));
    std::fs::create_dir(&data).unwrap();
    let seats = seats(&bucket, &data, false);
    let is_over = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_over);
    let [of_call, other] = [asked, Arc::default()]
        .map(|asked: Arc<AtomicBool>| seats.halt_of(move || asked.load(Ordering::SeqCst)));
    assert!(!of_call.is_raised() && !other.is_raised());
    is_over.store(true, Ordering::SeqCst);
    assert!(of_call.is_raised() && !other.is_raised());
    seats.end_calls();
    assert!(other.is_raised());
}

#[test]
fn where_others_cannot_be_asked_once_it_is_taken_that_is_an_error_and_it_is_given_back() {
    let folder = TempDir::new().unwrap();
    let (bucket, data) = (folder.path().join("remote"), folder.path().join("data"));
    let home = data.join("tenants/acme");
    std::fs::create_dir_all(&home).unwrap();
    let seats = seats(&bucket, &data, false);
    write(&open(&seats, "acme", &home));
    seats.close("acme", Ending::Kept);
    let others = seats.others().unwrap();
    // An inventory that cannot be read: a symbolic link to itself.
    let node = bucket.join("node/odd");
    std::fs::create_dir_all(&node).unwrap();
    std::os::unix::fs::symlink("holds", node.join("holds")).unwrap();
    seats.others().unwrap_err();
    let came = seats.empty(&acme(true, true), &others, &Arc::new(Halt::default()));
    assert!(came.is_err(), "{came:?}");
    std::fs::remove_dir_all(node).unwrap();
    assert!(!holding(&bucket, MARKER).is_empty());
    let came = step(&seats, &acme(true, true));
    assert!(matches!(came, Step::Came(Emptied::Waiting(_))), "{came:?}");
}
