//! The places of workspaces on a remote, asked by many at once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use engine::{Batch, ItemDraft, Options, Store};
use remote::{BootClock, Emptied, Halt, TickSource, Ticks};
use server::cluster::{Where, Whereabouts};
use server::config::remote::Remote;
use server::seats::{Seats, Step};
use tempfile::TempDir;
use tests::kept::{assert_gone, files, holding};

const LOCAL: &str = "local";
const ASKERS: usize = 8;
const QUESTIONS: usize = 20_000;

fn seats(remote: &Path, data: &Path, is_replica: bool) -> Seats {
    seats_at(remote, data, is_replica, Arc::new(BootClock))
}

/// For whom time goes by as `ticks` say.
fn seats_at(remote: &Path, data: &Path, is_replica: bool, ticks: Arc<dyn TickSource>) -> Seats {
    let address = format!("file://{}", remote.display());
    let settings = Remote { is_replica, ..Remote::at(address) };
    let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) =
        (Arc::new(SystemClock), Arc::new(SystemRandom));
    Seats::open(&settings, data, (&clock, &random), ticks).unwrap()
}

/// Time that can be made to run fast.
#[derive(Debug, Default)]
struct Told(AtomicU64);

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
    let store = seats.open_store(LOCAL, &data.join(LOCAL), Options::default(), &|| true).unwrap();
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
    seats.close(LOCAL);
}

/// The workspaces that a node said last that it has bytes of.
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
    // What there is to follow comes later, or is cut off.
    let writer = folder.path().join("writer");
    std::fs::create_dir(&writer).unwrap();
    drop(seats(&remote, &writer, false));
    let replica = seats(&remote, &data, true);
    let begins = |seats: &Seats| {
        seats.open_store("acme", &home, Options::default(), &|| false).unwrap_err();
        seats.tell_holds(&data, false).unwrap();
        assert_eq!(said(&remote, seats), ["acme"], "it may come any moment");
        seats.close("acme");
        seats.tell_holds(&data, false).unwrap();
    };
    begins(&replica);
    assert!(said(&remote, &replica).is_empty(), "nothing of it came");
    let part = home.join("store/part");
    std::fs::write(&part, "some bytes").unwrap();
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
    drop(seats.open_store("acme", &home, Options::default(), &|| true).unwrap());
    seats.close("acme");
    seats.tell_holds(&data, false).unwrap();
    assert_eq!(said(&remote, &seats), ["acme"]);
    // What was said first comes late.
    std::fs::write(&place, &earlier).unwrap();
    seats.tell_holds(&data, false).unwrap();
    assert!(said(&remote, &seats).is_empty(), "nobody looked");
    seats.tell_holds(&data, true).unwrap();
    assert_eq!(said(&remote, &seats), ["acme"]);
    // Somebody takes it for gone.
    std::fs::remove_file(&place).unwrap();
    seats.tell_holds(&data, true).unwrap();
    assert_eq!(said(&remote, &seats), ["acme"]);
}

const MARKER: &str = "quincunx zephyrine";

/// Writes the marker into the log of a store.
fn write(store: &Store) {
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

#[test]
fn nothing_of_a_deleted_workspace_is_left_and_nobody_loses_one_that_lives() {
    let folder = TempDir::new().unwrap();
    let [bucket, data, other] = ["remote", "one", "two"].map(|name| folder.path().join(name));
    let [home, elsewhere] = [&data, &other].map(|data| data.join("tenants/acme"));
    for home in [&home, &elsewhere] {
        std::fs::create_dir_all(home).unwrap();
    }
    let ticks = Arc::new(Told::default());
    let seats_of_one = seats_at(&bucket, &data, false, Arc::clone(&ticks) as _);
    let open = || seats_of_one.open_store("acme", &home, Options::default(), &|| true).unwrap();
    let halt = Arc::new(Halt::default());
    let empty = |is_shared| seats_of_one.empty("acme", is_shared, &halt).unwrap();
    let spared = |is_shared| match empty(is_shared) {
        Step::Came(Emptied::Spared(why)) => why,
        other => panic!("{other:?}"),
    };
    let store = open();
    write(&store);
    store.seal().unwrap();
    write(&store);
    assert!(spared(true).contains("open here"));
    // Another node has it, which may have tenants of its own.
    let replica = seats_at(&bucket, &other, true, Arc::clone(&ticks) as _);
    let followed = replica.open_store("acme", &elsewhere, Options::default(), &|| true).unwrap();
    replica.tell_holds(&other, false).unwrap();
    drop(store);
    seats_of_one.close("acme");
    let why = spared(false);
    assert!(why.contains(&replica.name().to_string()) && why.contains("forget-node"), "{why}");
    assert!(!holding(&bucket, MARKER).is_empty());
    replica.end_following("acme");
    drop(followed);
    replica.close("acme");
    std::fs::remove_dir_all(elsewhere.join("store")).unwrap();
    remote::forget(&elsewhere).unwrap();
    replica.tell_holds(&other, false).unwrap();

    let first = empty(false);
    assert!(matches!(first, Step::Came(Emptied::Waiting(_))), "{first:?}");
    assert!(files(&bucket.join("t/acme/data")).is_empty(), "objects go at once");
    assert!(!holding(&bucket, MARKER).is_empty(), "records are not known for long enough");
    ticks.0.fetch_add(301_000_000_000, Ordering::SeqCst);
    let second = empty(false);
    assert!(matches!(second, Step::Came(Emptied::Done(_))), "{second:?}");
    assert_gone(&bucket, MARKER);
    let there = files(&bucket.join("t"));
    assert!(matches!(empty(true), Step::Came(Emptied::Done(_))));
    assert_eq!(files(&bucket.join("t")), there, "it is done");
    let refused = replica.empty("acme", true, &halt).unwrap_err();
    assert!(refused.contains("replica"), "{refused}");
}
