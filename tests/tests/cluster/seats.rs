//! The places of workspaces on a remote, asked by many at once.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use engine::Options;
use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use server::cluster::{Where, Whereabouts};
use server::config::remote::Remote;
use server::seats::Seats;
use tempfile::TempDir;

const LOCAL: &str = "local";
const ASKERS: usize = 8;
const QUESTIONS: usize = 20_000;

fn seats(remote: &Path, data: &Path, is_replica: bool) -> Seats {
    let address = format!("file://{}", remote.display());
    let settings = Remote { is_replica, ..Remote::at(address) };
    let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) =
        (Arc::new(SystemClock), Arc::new(SystemRandom));
    Seats::open(&settings, data, (&clock, &random)).unwrap()
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
