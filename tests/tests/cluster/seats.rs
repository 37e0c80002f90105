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

fn seats(remote: &Path, data: &Path) -> Seats {
    let address = format!("file://{}", remote.display());
    let settings = Remote { is_replica: false, ..Remote::at(address) };
    let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) =
        (Arc::new(SystemClock), Arc::new(SystemRandom));
    Seats::open(&settings, data, (&clock, &random)).unwrap()
}

#[test]
fn those_who_ask_do_not_keep_one_another_from_knowing() {
    let folder = TempDir::new().unwrap();
    let (remote, data) = (folder.path().join("remote"), folder.path().join("data"));
    std::fs::create_dir(&data).unwrap();
    let seats = seats(&remote, &data);
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
