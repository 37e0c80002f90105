//! Begin and end of a workspace's lease on a remote. A workspace that fails to open has no lease, and a closed
//! workspace has no leader.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::{Env, Options, Store};
use recalld_cluster::seats::{Ending, Seats, Stands, Step};
use recalld_cluster::{Where, Whereabouts};
use recalld_config::remote::{Remote, Safe};
use recalld_embedding::embed::Embedder;
use recalld_replication::{Emptied, Halt, Kind, NotSeated, Record};
use recalld_workspace::limits::OPENINGS_MIN;
use recalld_workspace::tenants::{Bounds, Closed, Tenants};
use support_server::door::door;
use support_server::tiny_model;
use support_wire::kept::{files, holding};
use support_wire::patience::wait_until;
use support_wire::tiny_model::Tiny;
use tempfile::TempDir;

use crate::cluster::seats::{MARKER, Told, acme, seats_by, step, write};

/// Number of repeated calls that cannot be answered.
const CALLS: usize = 20;

/// A remote, and the workspace `acme` of its nodes.
struct Scene {
    folder: TempDir,
    ticks: Arc<Told>,
}

impl Scene {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), ticks: Arc::default() }
    }

    fn bucket(&self) -> PathBuf {
        self.folder.path().join("remote")
    }

    fn data(&self, node: &str) -> PathBuf {
        self.folder.path().join(node)
    }

    fn settings(&self) -> Remote {
        let address = format!("file://{}", self.bucket().display());
        // Zero retention, because the tests delete workspaces that were just written.
        let keep = (Duration::ZERO, Duration::ZERO);
        Remote { is_replica: false, keep, ..Remote::at(address) }
    }

    /// Opens a node with these settings.
    fn node(&self, name: &str, settings: &Remote) -> Node {
        let data = self.data(name);
        fs::create_dir_all(data.join("tenants")).unwrap();
        let seats = Arc::new(seats_by(settings, &data, Arc::clone(&self.ticks) as _));
        Node { home: data.join("tenants/acme"), data, seats }
    }

    /// The record files of `acme`, ascending.
    fn records(&self) -> Vec<PathBuf> {
        let mut records = files(&self.bucket().join("t/acme/chain"));
        records.sort();
        records
    }

    fn newest(&self) -> Record {
        read(self.records().last().unwrap())
    }

    /// Number of lease acquisitions in the record log.
    fn takes(&self) -> usize {
        let records = self.records();
        let takes = records.iter().filter(|record| matches!(read(record).kind, Kind::Take));
        takes.count()
    }

    fn is_given(&self) -> bool {
        matches!(self.newest().kind, Kind::Give { .. })
    }

    /// The path of the next record, by its number.
    fn place(&self, number: u64) -> PathBuf {
        let chain = self.bucket().join("t/acme/chain");
        fs::create_dir_all(&chain).unwrap();
        chain.join(format!("{number:020}"))
    }
}

fn read(record: &Path) -> Record {
    Record::decode(&fs::read(record).unwrap()).unwrap().0
}

struct Node {
    data: PathBuf,
    home: PathBuf,
    seats: Arc<Seats>,
}

impl Node {
    /// Opens `acme` and drops its store; the lease remains.
    fn begins(&self) -> Result<(), NotSeated> {
        fs::create_dir_all(&self.home).unwrap();
        self.seats.open_store("acme", &self.home, Options::default(), None).map(drop)
    }

    /// Opens the manager of tenants' workspaces.
    fn tenants(&self) -> Tenants {
        let door = door(&self.data, embedder(&self.data), Some(Arc::clone(&self.seats)));
        door.control.ready().unwrap();
        Tenants::start(door, Bounds::default()).unwrap()
    }

    fn leads(&self) -> bool {
        matches!(self.seats.stands("acme"), Some(Stands::Leads(_)))
    }

    /// Returns true if the node reports no role for `acme` and has no workspace open.
    fn has_no_place(&self) -> bool {
        self.seats.of("acme") == Where::Here && self.seats.open_names().is_empty()
    }
}

fn embedder(folder: &Path) -> Arc<Embedder> {
    Arc::new(tiny_model::embedder(&Tiny::new(1, 16).write(folder, "model")))
}

#[test]
fn a_workspace_that_did_not_open_has_no_place_and_opens_once_it_can() {
    let scene = Scene::new();
    let writer = scene.node("writer", &scene.settings());
    let replica = scene.node("replica", &Remote { is_replica: true, ..scene.settings() });
    // The path of the record log is unreadable.
    let chain = scene.place(1).parent().unwrap().to_owned();
    fs::remove_dir(&chain).unwrap();
    std::os::unix::fs::symlink(&chain, &chain).unwrap();
    let why = writer.begins().unwrap_err();
    assert!(matches!(why, NotSeated::Away(_)), "{why}");
    assert!(writer.has_no_place());
    fs::remove_file(&chain).unwrap();
    let again = writer.begins().unwrap_err();
    assert_eq!(again.to_string(), why.to_string(), "a moment ago");
    // No record was uploaded yet.
    assert!(matches!(replica.begins(), Err(NotSeated::Nothing)));
    assert!(replica.has_no_place());

    scene.ticks.pass(2);
    writer.begins().unwrap();
    assert!(writer.leads());
    writer.seats.close("acme", Ending::Kept);
    assert!(writer.has_no_place() && scene.is_given());
    replica.begins().unwrap();
    assert!(matches!(replica.seats.of("acme"), Where::Follows { .. }));
    replica.seats.close("acme", Ending::Kept);
}

#[test]
fn what_is_not_carried_yet_is_elsewhere() {
    let scene = Scene::new();
    let (one, two) = (scene.node("one", &scene.settings()), scene.node("two", &scene.settings()));
    // Data from before the remote was configured, whose upload is made to fail.
    let folder = one.home.join("store");
    fs::create_dir_all(&folder).unwrap();
    let store = Store::open(Env::on_disk(&folder).unwrap(), Options::default()).unwrap();
    write(&store);
    store.seal().unwrap();
    drop(store);
    scene.place(1);
    let data = scene.bucket().join("t/acme/data");
    fs::write(&data, "no folder").unwrap();
    one.begins().unwrap();
    assert!(one.leads());
    let why = two.begins().unwrap_err();
    let NotSeated::NotCarried(newest) = &why else { panic!("{why}") };
    assert!(why.to_string().contains(newest.node.as_str()), "{why}");
    let at = two.seats.of("acme");
    let Where::Elsewhere { writer: Some(writer) } = at else { panic!("{at:?}") };
    assert_eq!(writer.node, newest.node.as_str());
    fs::remove_file(&data).unwrap();
    wait_until("all is carried", || matches!(scene.newest().kind, Kind::Full(_)));
    scene.ticks.pass(2);
    two.begins().unwrap();
    assert!(matches!(two.seats.of("acme"), Where::Follows { writer: Some(_), .. }));
    two.seats.close("acme", Ending::Kept);
    one.seats.close("acme", Ending::Kept);
}

#[test]
fn who_was_not_heard_for_long_shows_that_nobody_came_before_it_writes_again() {
    let scene = Scene::new();
    let one = scene.node("one", &scene.settings());
    one.begins().unwrap();
    wait_until("all is carried", || matches!(scene.newest().kind, Kind::Full(_)));
    let beat = || {
        files(&scene.bucket().join("node"))
            .iter()
            .map(|file| fs::read(file).unwrap())
            .collect::<Vec<_>>()
    };
    // The result of a heartbeat is known only after the next one.
    let is_heard = || {
        for _ in 0..2 {
            let told = beat();
            wait_until("it is heard", || beat() != told);
        }
    };
    one.seats.confirm_led();
    let before = scene.records();
    assert_eq!(one.seats.of("acme"), Where::Here);
    scene.ticks.pass(3600);
    assert!(matches!(one.seats.of("acme"), Where::Follows { age: Some(_), writer: None }));
    // After a lapse, others may have acquired the lease and begun to write, even if heartbeats succeed again.
    is_heard();
    let at = one.seats.of("acme");
    assert!(matches!(at, Where::Follows { age: Some(_), writer: None }), "{at:?}");
    assert_eq!(scene.records(), before, "nobody asked for a record");
    one.seats.confirm_led();
    wait_until("it knows that nobody came", || one.seats.of("acme") == Where::Here);
    assert!(
        matches!(scene.newest().kind, Kind::Full(_)) && scene.records().len() == before.len() + 1
    );
    one.seats.confirm_led();
    assert_eq!(one.seats.of("acme"), Where::Here);
    // Heartbeats succeed and then lapse again before the leadership is confirmed: others had all the time since the
    // newest record.
    scene.ticks.pass(3600);
    is_heard();
    scene.ticks.pass(20);
    let at = one.seats.of("acme");
    let Where::Follows { age: Some(age), writer: None } = at else { panic!("{at:?}") };
    assert!(age >= Duration::from_secs(3600), "{age:?}");
    one.seats.close("acme", Ending::Kept);
}

#[test]
fn who_answers_by_itself_finds_out_as_well_whether_another_one_came() {
    let scene = Scene::new();
    let one = scene.node("one", &Remote { durability: Safe::Local, ..scene.settings() });
    one.begins().unwrap();
    wait_until("all is carried", || matches!(scene.newest().kind, Kind::Full(_)));
    let before = scene.records().len();
    scene.ticks.pass(3600);
    assert_eq!(one.seats.of("acme"), Where::Here, "what it acknowledged is here");
    wait_until("it asks for a record once it is heard", || {
        one.seats.confirm_led();
        scene.records().len() > before
    });
    one.seats.close("acme", Ending::Kept);
}

/// A repairable fault of a workspace.
enum Fault {
    /// The key file is readable by others, so the open fails after the store was opened.
    Key(PathBuf),
    /// A WAL file of the store is damaged. Contains the original bytes.
    Store(Vec<(PathBuf, Vec<u8>)>),
    /// The role file is damaged. Contains the original bytes.
    Memo(PathBuf, Vec<u8>),
}

impl Fault {
    fn of_key(home: &Path) -> Self {
        let key = home.join("keys/signing.key");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        Self::Key(key)
    }

    fn of_store(home: &Path) -> Self {
        let is_log = |file: &PathBuf| file.to_string_lossy().contains("/store/log-");
        let were = files(&home.join("store")).into_iter().filter(is_log);
        let were: Vec<_> = were.map(|file| (file.clone(), fs::read(file).unwrap())).collect();
        were.iter().for_each(|(file, _)| fs::write(file, "damage").unwrap());
        Self::Store(were)
    }

    fn of_memo(home: &Path) -> Self {
        let memo = home.join("remote.json");
        let was = fs::read(&memo).unwrap();
        fs::write(&memo, "damage").unwrap();
        Self::Memo(memo, was)
    }

    fn is_told(&self, why: &str) -> bool {
        match self {
            Self::Memo(..) => why.contains("remote.json"),
            Self::Key(_) => why.contains("chmod 600"),
            Self::Store(_) => why.contains("LOG-01"),
        }
    }

    fn mend(self) {
        match self {
            Self::Memo(memo, was) => fs::write(memo, was).unwrap(),
            Self::Key(key) => fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap(),
            Self::Store(were) => {
                were.into_iter().for_each(|(file, bytes)| fs::write(file, bytes).unwrap());
            }
        }
    }
}

#[test]
fn what_is_taken_and_does_not_open_is_given_back_and_not_taken_by_each_call() {
    for spoil in [Fault::of_key, Fault::of_store] {
        let scene = Scene::new();
        let one = scene.node("one", &scene.settings());
        let tenants = one.tenants();
        tenants.make("acme").unwrap();
        write(&tenants.open("acme").unwrap().store);
        tenants.close("acme").unwrap();
        assert!(scene.is_given());
        let before = scene.takes();
        let fault = spoil(&one.home);
        for call in 0..CALLS {
            let Some(Closed::Failed(why)) = tenants.open("acme").err() else { panic!("{call}") };
            assert!(fault.is_told(&why), "{call}: {why}");
            assert!(one.has_no_place(), "{call}");
        }
        assert!(scene.is_given(), "nobody holds what does not open");
        assert_eq!(scene.takes(), before + 1);

        // Another node can acquire the lease.
        let two = scene.node("two", &scene.settings());
        two.begins().unwrap();
        assert!(two.leads());
        two.seats.close("acme", Ending::Kept);
        fault.mend();
        scene.ticks.pass(2);
        let acme = tenants.open("acme").unwrap();
        assert_eq!(acme.store.snapshot().item_addresses().unwrap().count(), 1);
        assert!(one.leads());
        drop(acme);
        tenants.close("acme").unwrap();
    }
}

#[test]
fn what_may_have_rows_that_are_nowhere_else_is_not_given_back() {
    let scene = Scene::new();
    let local = Remote { durability: Safe::Local, ..scene.settings() };
    let one = scene.node("one", &local);
    let tenants = one.tenants();
    tenants.make("acme").unwrap();
    write(&tenants.open("acme").unwrap().store);
    tenants.close("acme").unwrap();
    // The damaged store's contents are unknown, and its acknowledged writes need not be on the remote.
    let fault = Fault::of_store(&one.home);
    let failed = tenants.open("acme").err();
    assert!(matches!(&failed, Some(Closed::Failed(why)) if fault.is_told(why)), "{failed:?}");
    assert!(one.has_no_place() && !scene.is_given());
    let two = scene.node("two", &local);
    two.begins().unwrap();
    assert!(!two.leads());
    two.seats.close("acme", Ending::Kept);
    fault.mend();
    scene.ticks.pass(2);
    drop(tenants.open("acme").unwrap());
    assert!(one.leads());
    assert!(!files(&one.home).iter().any(|file| file.to_string_lossy().contains("store.left")));
    tenants.close("acme").unwrap();
}

#[test]
fn what_another_node_writes_and_does_not_open_here_is_elsewhere() {
    for spoil in [Fault::of_key, Fault::of_memo] {
        is_elsewhere(spoil);
    }
}

fn is_elsewhere(spoil: fn(&Path) -> Fault) {
    let scene = Scene::new();
    let (one, two) = (scene.node("one", &scene.settings()), scene.node("two", &scene.settings()));
    let (writers, tenants) = (one.tenants(), two.tenants());
    writers.make("acme").unwrap();
    tenants.make("acme").unwrap();
    let open = writers.open("acme").unwrap();
    write(&open.store);
    drop(tenants.open("acme").unwrap());
    tenants.close("acme").unwrap();
    let fault = spoil(&two.home);
    let failed = tenants.open("acme").err();
    assert!(matches!(&failed, Some(Closed::Failed(why)) if fault.is_told(why)), "{failed:?}");
    let at = two.seats.of("acme");
    assert!(matches!(&at, Where::Elsewhere { writer: Some(_) }), "{at:?}");
    // The reported location does not change while the open is retried.
    scene.ticks.pass(2);
    assert_eq!(two.seats.of("acme"), at);
    fault.mend();
    drop(tenants.open("acme").unwrap());
    assert!(matches!(two.seats.of("acme"), Where::Follows { .. }));
    drop(open);
}

/// A named pipe in place of a workspace's first record: its readers block until the pipe is dropped.
struct Pipe(PathBuf);

impl Pipe {
    fn new(scene: &Scene, slug: &str) -> Self {
        let chain = scene.bucket().join(format!("t/{slug}/chain"));
        fs::create_dir_all(&chain).unwrap();
        let pipe = chain.join(format!("{:020}", 1));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        Self(pipe)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let end = fs::OpenOptions::new().write(true).open(&self.0).unwrap();
        fs::remove_file(&self.0).unwrap();
        drop(end);
    }
}

#[test]
fn a_remote_that_does_not_answer_holds_no_more_calls_than_some() {
    let scene = Scene::new();
    let one = scene.node("one", &scene.settings());
    let tenants = one.tenants();
    let slow: Vec<String> = (0..OPENINGS_MIN).map(|number| format!("slow{number}")).collect();
    tenants.make("acme").unwrap();
    drop(tenants.open("acme").unwrap());
    tenants.make("other").unwrap();
    let pipes: Vec<Pipe> = slow.iter().map(|slug| Pipe::new(&scene, slug)).collect();
    std::thread::scope(|scope| {
        let pipes = pipes;
        for slug in &slow {
            tenants.make(slug).unwrap();
            let opening = || drop(tenants.open(slug));
            scope.spawn(opening);
        }
        wait_until("all of them are being opened", || tenants.count() == slow.len() + 1);
        assert!(matches!(tenants.open("other").err(), Some(Closed::Busy)));
        drop(tenants.open("acme").unwrap());
        drop(pipes);
    });
    drop(tenants.open("other").unwrap());
}

#[test]
fn a_workspace_that_takes_long_leaves_turns_to_others() {
    let scene = Scene::new();
    let one = scene.node("one", &scene.settings());
    let tenants = one.tenants();
    let pipe = Pipe::new(&scene, "slow");
    ["slow", "other"].iter().for_each(|slug| tenants.make(slug).unwrap());
    let (ended, calls) = (AtomicUsize::new(0), 2 * OPENINGS_MIN);
    std::thread::scope(|scope| {
        // Moved into the scope, so that the pipe is dropped before the blocked threads are joined, even on a panic.
        let (pipe, ended, tenants) = (pipe, &ended, &tenants);
        for _ in 0..calls {
            scope.spawn(move || {
                drop(tenants.open("slow"));
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        // Calls beyond the limit fail as busy; the others wait on.
        wait_until("they are told", || ended.load(Ordering::SeqCst) >= calls - OPENINGS_MIN);
        drop(tenants.open("other").unwrap());
        drop(pipe);
    });
}

#[test]
fn a_deleted_workspace_that_did_not_open_is_emptied() {
    let scene = Scene::new();
    let one = scene.node("one", &scene.settings());
    let tenants = one.tenants();
    tenants.make("acme").unwrap();
    drop(tenants.open("acme").unwrap());
    tenants.close("acme").unwrap();
    fs::write(one.home.join("keys/signing.key"), "no key").unwrap();
    assert!(matches!(tenants.open("acme").err(), Some(Closed::Failed(_))));
    tenants.close_deleted("acme").unwrap();
    let came = step(&one.seats, &acme(true, true));
    assert!(matches!(came, Step::Came(Emptied::Waiting(_))), "{came:?}");
}

#[test]
fn a_place_without_a_workspace_goes_where_that_is_closed_and_where_all_ends() {
    let scene = Scene::new();
    let one = scene.node("one", &scene.settings());
    let tenants = one.tenants();
    one.begins().unwrap();
    assert!(one.leads() && !scene.is_given());
    tenants.close_deleted("acme").unwrap();
    assert!(one.has_no_place() && scene.is_given());
    one.begins().unwrap();
    assert!(one.leads() && !scene.is_given());
    drop((tenants, one));
    assert!(scene.is_given(), "as where a start fails");
}

#[test]
fn what_a_deleted_workspace_did_not_send_is_not_sent_any_more() {
    let scene = Scene::new();
    let delay = Duration::from_secs(3600);
    let one = scene.node("one", &Remote { durability: Safe::Local, delay, ..scene.settings() });
    let tenants = one.tenants();
    tenants.make("acme").unwrap();
    drop(tenants.open("acme").unwrap());
    tenants.close("acme").unwrap();
    let before = scene.newest().head.seq;
    write(&tenants.open("acme").unwrap().store);
    tenants.close_deleted("acme").unwrap();
    let newest = scene.newest();
    assert!(matches!(newest.kind, Kind::Give { .. }), "{newest:?}");
    assert_eq!((newest.head.seq, holding(&scene.bucket(), MARKER)), (before, Vec::new()));
    // The unsent writes of a workspace that is merely closed are uploaded.
    write(&tenants.open("acme").unwrap().store);
    tenants.close("acme").unwrap();
    assert!(scene.is_given() && !holding(&scene.bucket(), MARKER).is_empty());
}

#[test]
fn what_was_not_given_is_remembered_until_it_is() {
    for opens_between in [false, true] {
        let scene = Scene::new();
        let one = scene.node("one", &scene.settings());
        let give_up = |is_deleted| {
            one.seats.give_up(&|_| is_deleted, &Arc::new(Halt::default()));
        };
        one.begins().unwrap();
        wait_until("all is carried", || matches!(scene.newest().kind, Kind::Full(_)));
        // An unreadable record occupies the number of the lease release.
        let next = scene.place(scene.newest().head.number + 1);
        fs::write(&next, "no record").unwrap();
        one.seats.close("acme", Ending::Kept);
        if opens_between {
            let why = one.begins().unwrap_err();
            assert!(matches!(why, NotSeated::Damage(_)), "{why}");
        }
        give_up(true);
        fs::remove_file(&next).unwrap();
        give_up(false);
        assert!(!scene.is_given(), "it may be wanted here");
        give_up(true);
        assert!(scene.is_given());
        let there = scene.records();
        give_up(true);
        assert_eq!(scene.records(), there, "it is done");
    }
}
