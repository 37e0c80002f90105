//! The purge of a deleted workspace on the remote, from its due time to the second purge, with simulated clocks.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use engine::os::clock::{Clock, Micros, SystemClock};
use recalld_api::app_state::AppState;
use recalld_cli::app;
use recalld_cli::app::Times;
use recalld_cluster::seats::Ending;
use recalld_common::cancel::CancellationToken;
use recalld_config::remote::Remote;
use recalld_embedding::model;
use recalld_metastore::{NewTenant, Tenant};
use recalld_replication::Halt;
use recalld_store_admin::{Emptying, Pass, Which, empty_deleted};
use support_server::settings::settings;
use support_wire::kept::{assert_gone, files, holding};
use support_wire::service::scratch;
use support_wire::tiny_model::Tiny;
use tempfile::TempDir;

use crate::cluster::seats::{MARKER, PATIENCE, Told, acme, open, write};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Seconds for which a record must be known before its removal, plus one.
const MINUTES: u64 = 301;

/// A manually set wall clock.
#[derive(Debug)]
struct Dated(AtomicI64);

impl Clock for Dated {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::SeqCst))
    }
}

/// A single node with its remote and its simulated clocks.
struct Alone {
    parts: Arc<AppState>,
    date: Arc<Dated>,
    ticks: Arc<Told>,
    scratch: TempDir,
}

impl Alone {
    /// A node with this retention of deleted workspaces.
    fn new(keep: Duration) -> Self {
        let date = Arc::new(Dated(SystemClock.now().0.into()));
        Self::begun(scratch(), keep, (date, Arc::default()))
    }

    /// Restarts the node with another retention.
    fn begins_anew(self, keep: Duration) -> Self {
        let Self { parts, date, ticks, scratch } = self;
        parts.seats.as_ref().unwrap().close("local", Ending::Kept);
        drop(parts);
        Self::begun(scratch, keep, (date, ticks))
    }

    fn begun(scratch: TempDir, keep: Duration, (date, ticks): (Arc<Dated>, Arc<Told>)) -> Self {
        let tiny = Tiny::new(1, 16).write(scratch.path(), "model");
        let mut settings = settings(&scratch.path().join("data"), Some(tiny), DAY);
        let address = format!("file://{}", scratch.path().join("bucket").display());
        let remote = Remote { is_replica: false, keep: (keep, keep), ..Remote::at(address) };
        settings.config.remote = Some(remote);
        let times = Times { clock: Arc::clone(&date) as _, ticks: Arc::clone(&ticks) as _ };
        let started =
            app::start_by(&settings, &mut model::Silent, &CancellationToken::new(), &times)
                .unwrap();
        Self { parts: started.parts, date, ticks, scratch }
    }

    fn bucket(&self) -> PathBuf {
        self.scratch.path().join("bucket")
    }

    /// Writes, closes and deletes a workspace.
    fn deleted(&self, slug: &str) {
        let seats = self.parts.seats.as_ref().unwrap();
        self.parts.control.create_tenant(&NewTenant { slug, title: slug, plan: "free" }).unwrap();
        let home = self.parts.data.join("tenants").join(slug);
        std::fs::create_dir_all(&home).unwrap();
        let store = open(seats, slug, &home);
        write(&store);
        store.seal().unwrap();
        drop(store);
        seats.close(slug, Ending::Kept);
        self.parts.control.delete_tenant(slug).unwrap();
    }

    fn pass(&self, which: Which<'_>) -> Pass {
        empty_deleted(&self.parts.admin, which, &Arc::new(Halt::default()), &|| true).unwrap()
    }

    /// The purge outcome of one workspace; `None` if the pass did not check it.
    fn one(&self, which: Which<'_>, slug: &str) -> Option<Emptying> {
        self.pass(which).all.into_iter().find(|one| one.workspace() == slug)
    }

    fn tenant(&self, slug: &str) -> Tenant {
        self.parts.control.find_tenant(slug).unwrap().unwrap()
    }

    /// Moves the date by a number of days, in either direction.
    fn date_moves(&self, days: i64) {
        let micros = i64::try_from(DAY.as_micros()).unwrap();
        self.date.0.fetch_add(days * micros, Ordering::SeqCst);
    }
}

/// Sets all files back by this time in the storage's clock.
fn age(folder: &Path, by: Duration) {
    for path in files(folder) {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - by).unwrap();
    }
}

#[test]
fn a_deleted_workspace_is_emptied_when_both_clocks_say_so_and_looked_through_once_more() {
    let node = Alone::new(7 * DAY);
    node.deleted("acme");
    let why = |one: Option<Emptying>| one.unwrap().why().unwrap().to_owned();
    assert!(why(node.one(Which::Told, "acme")).contains("can be restored until"));
    assert!(node.one(Which::Due, "acme").is_none());
    // Only this node's clock is ahead.
    node.date_moves(8);
    for which in [Which::Due, Which::Told, Which::One("acme")] {
        assert!(why(node.one(which, "acme")).contains("storage's clock"));
    }
    assert!(!node.one(Which::One("acme"), "acme").unwrap().is_right());
    age(&node.bucket().join("t/acme/chain"), 8 * DAY);
    let first = node.one(Which::Due, "acme").unwrap();
    assert!(first.waits() && first.is_right() && first.why().is_none(), "{first:?}");
    assert!(files(&node.bucket().join("t/acme/data")).is_empty());
    assert!(!holding(&node.bucket(), MARKER).is_empty(), "records wait");
    assert_eq!(node.tenant("acme").emptied_at, None);
    node.ticks.pass(MINUTES);
    let second = node.one(Which::Due, "acme").unwrap();
    assert!(!second.waits() && second.is_right(), "{second:?}");
    assert_gone(&node.bucket(), MARKER);
    let emptied = node.tenant("acme");
    assert!(emptied.emptied_at.is_some() && emptied.looked_again_at.is_none(), "{emptied:?}");
    // The purged workspace is neither due nor restorable, even if the retention of others grows.
    assert!(node.one(Which::Told, "acme").is_none() && node.one(Which::Due, "acme").is_none());
    let node = node.begins_anew(30 * DAY);
    assert!(node.one(Which::Told, "acme").is_none() && node.one(Which::Due, "acme").is_none());
    // A day later, a late object arrives from a writer that had been paused.
    node.date_moves(1);
    let late =
        node.bucket().join("t/acme/data").join(format!("{:020}-{}.00000", 1, "3".repeat(32)));
    std::fs::create_dir_all(late.parent().unwrap()).unwrap();
    std::fs::write(&late, MARKER).unwrap();
    let last = node.one(Which::Due, "acme").unwrap();
    assert!(!last.waits() && last.is_right(), "{last:?}");
    assert!(!late.exists());
    let looked = node.tenant("acme");
    assert_eq!(looked.emptied_at, emptied.emptied_at);
    assert!(looked.looked_again_at > looked.emptied_at, "{looked:?}");
    node.date_moves(9);
    assert!(node.one(Which::Due, "acme").is_none(), "it is done");
}

#[test]
fn what_waits_for_its_second_look_keeps_no_place_from_others() {
    /// Largest number of purges that wait at once.
    const TOGETHER: usize = 64;
    let node = Alone::new(Duration::ZERO);
    let names: Vec<String> = (0..=TOGETHER).map(|number| format!("acme{number:02}")).collect();
    names.iter().for_each(|name| node.deleted(name));
    let first = node.pass(Which::Due);
    assert_eq!((first.all.iter().filter(|one| one.waits()).count(), first.put_off), (TOGETHER, 1));
    let second = node.pass(Which::Due);
    assert_eq!((second.all.len(), second.put_off), (TOGETHER, 1), "they wait still");
    // Another node, which led the metastore meanwhile, recorded these purges.
    for name in &names[..TOGETHER] {
        node.parts.control.note_emptied(name, false).unwrap();
    }
    let third = node.pass(Which::Due);
    assert_eq!((third.all.len(), third.put_off), (1, 0));
    assert_eq!(third.all[0].workspace(), names[TOGETHER]);
}

#[test]
fn what_another_thread_keeps_from_being_emptied_is_put_off_and_told_to_whoever_asked_for_it() {
    let node = Alone::new(Duration::ZERO);
    ["acme", "other"].iter().for_each(|slug| node.deleted(slug));
    let (at_it, begun) = mpsc::channel();
    let (go_on, waits) = mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    let seats = node.parts.seats.as_ref().unwrap();
    let others = seats.others().unwrap();
    // The purge waits for the test before its first request, and is then cancelled.
    let halt = seats.halt_of(move || {
        let _nobody_looks = at_it.send(());
        let _it_is_over = waits.lock().unwrap().recv();
        true
    });
    thread::scope(|scope| {
        let emptying = scope.spawn(|| seats.empty(&acme(false, false), &others, &halt));
        let has_begun = begun.recv_timeout(PATIENCE);
        let passes = [Which::Due, Which::Told].map(|which| node.pass(which));
        let asked = node.one(Which::One("other"), "other");
        drop(go_on);
        let came = emptying.join().unwrap();
        has_begun.unwrap();
        assert!(came.as_ref().is_err_and(|why| why.contains("called off")), "{came:?}");
        for pass in passes {
            assert!(pass.all.is_empty() && pass.put_off == 2, "{pass:?}");
        }
        let asked = asked.unwrap();
        assert!(!asked.is_right() && asked.why().unwrap().contains("try again"), "{asked:?}");
    });
    let asked = node.one(Which::One("other"), "other").unwrap();
    assert!(asked.is_right() && asked.waits(), "{asked:?}");
}
