//! Operator jobs concurrent with calls and with one another. The tests hold the job locks: calls must not wait, and
//! waiting jobs complete in the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use engine::os::clock::{Clock, Micros, Random, SystemClock, SystemRandom};
use engine::{BackgroundWorkers, Durability, Env, Options, Store};
use recalld_api::app_state::AppState;
use recalld_api::listeners::LOCAL;
use recalld_api::pipeline::Pipeline;
use recalld_cli::app;
use recalld_cli::app::Settings;
use recalld_common::cancel::CancellationToken;
use recalld_common::turn::Turns;
use recalld_embedding::encoding::Encoding;
use recalld_embedding::model::Silent;
use recalld_http_server::{Drained, Limits, Listen, NetConfig, Server, ShutdownHandle};
use recalld_policy::Caller;
use recalld_policy::Rules;
use recalld_policy::limits::CALL_TIME_MAX;
use recalld_store_admin::{Backup, Erase, EraseLater, Keeper, backup, erase};
use serde_json::{Value, json};
use support_wire::patience::wait_until;
use support_wire::service::{run_json, scratch, write};
use support_wire::tiny_model::Tiny;
use support_wire::wire::{self, Answer, Ask, Client, Events};

/// Text that occurs only in the erased item.
const SECRET: &str = "quincunx";
const LONG: Duration = Duration::from_secs(60);

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A data directory with two items, its backup, and the id of the item with the secret.
fn furnished(scratch: &Path) -> (PathBuf, PathBuf, String) {
    let (data, backup) = (scratch.join("data"), scratch.join("backup"));
    let model = Tiny::new(1, 16).write(scratch, "model");
    let line =
        |reference: &str, words: &str| json!({"type": "item", "ref": reference, "text": words});
    let lines = [line("a", &format!("the {SECRET} zephyrine")), line("b", "the mandrake abides")];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let file = write(scratch, "lines.jsonl", lines);
    run_json(&data, &["import", text(&file), "--model", text(&model)]);
    run_json(&data, &["backup", text(&backup)]);
    let found = run_json(&data, &["recall", SECRET, "--limit", "1"]);
    (data, backup, found["items"][0]["id"].as_str().unwrap().to_owned())
}

/// Returns true if any file below a folder contains the secret.
fn holds_secret(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds_secret(&path);
        }
        // A file may disappear during the search.
        let bytes = fs::read(&path).unwrap_or_default();
        bytes.windows(SECRET.len()).any(|window| window.eq_ignore_ascii_case(SECRET.as_bytes()))
    })
}

/// Number of ids pending erasure in the known backups.
fn pending(data: &Path) -> usize {
    let said: Value =
        serde_json::from_slice(&fs::read(data.join("backups.json")).unwrap()).unwrap();
    let backups = said["backups"].as_array().unwrap();
    backups.iter().map(|backup| backup["pending"].as_array().unwrap().len()).sum()
}

/// An in-process server on the local listener, with two workers.
struct Running {
    parts: Arc<AppState>,
    local: String,
    bearer: String,
    gateway: [(&'static str, String); 2],
    handle: ShutdownHandle,
    thread: Option<JoinHandle<Drained>>,
}

impl Running {
    fn start(data: &Path) -> Self {
        let settings = Settings {
            data: data.to_owned(),
            model: None,
            encoding: Encoding { threads: 1, ..Encoding::detect() },
            call_time_max: CALL_TIME_MAX,
            durability: Durability::Sync,
            search_mode: engine::SearchMode::default(),
            config: recalld_config::Config::default(),
            public_url: None,
            pdf: None,
        };
        let parts = app::start(&settings, &mut Silent).unwrap().parts;
        let listeners = vec![Listen { id: LOCAL, address: ([127, 0, 0, 1], 0).into() }];
        let config = NetConfig {
            listeners,
            workers: 2,
            limits: Limits::default(),
            wall_clock: SystemTime::now,
        };
        let server = Server::bind(config).unwrap();
        let local = server.addresses().unwrap()[0].1;
        let handle = server.handle();
        let pipeline = Arc::new(Pipeline::new(Arc::clone(&parts), &[local.port()]).unwrap());
        let thread = Some(std::thread::spawn(move || server.run(pipeline).unwrap()));
        let (credentials, _) = recalld_workspace::opening::credentials(data).unwrap();
        let shown = credentials.show();
        let word = |secret: &str| secret.to_owned();
        let gateway = [
            ("x-gateway-client-id", word(shown.gateway_client_id.expose())),
            ("x-gateway-client-secret", word(shown.gateway_client_secret.expose())),
        ];
        let bearer = format!("Bearer {}", shown.bearer.expose());
        Self { parts, local: local.to_string(), bearer, gateway, handle, thread }
    }

    fn signed(&self, ask: Ask) -> Ask {
        let [(id, is), (secret, it)] = &self.gateway;
        ask.header("Authorization", &self.bearer).header(id, is).header(secret, it)
    }

    /// Starts a job. The response stream opens when a thread begins to run the job.
    fn job(&self, path: &str, body: &Value) -> Events {
        Client::open(&self.local).unwrap().follow(&self.signed(Ask::post(path, body)))
    }

    fn ask(&self, ask: Ask) -> Answer {
        wire::ask(&self.local, &self.signed(ask))
    }

    fn recall(&self, query: &str) -> String {
        let answer = self.ask(Ask::post("/recall", &json!({"query": query})));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.drain();
        if let Some(thread) = self.thread.take() {
            let drained = thread.join();
            assert!(std::thread::panicking() || drained.unwrap().workers_ended);
        }
    }
}

/// The final event of a job.
fn ended(mut events: Events) -> (String, Value) {
    loop {
        let (name, data) = events.next_event().unwrap();
        if name != "progress" {
            return (name, data);
        }
    }
}

#[test]
fn calls_are_answered_however_many_jobs_wait() {
    let scratch = scratch();
    let (data, backup, _) = furnished(scratch.path());
    let server = Running::start(&data);
    let local = server.parts.local.get();
    let keeping = local.keeping.take_within(Duration::from_secs(60)).unwrap();
    let ingesting = local.ingesting.take_within(Duration::from_secs(60)).unwrap();
    let lines = scratch.path().join("lines.jsonl");
    let jobs = [
        ("/operator/erase", json!({"ids": [], "reason": "", "pending": true})),
        ("/operator/compact", json!({})),
        ("/operator/backup", json!({"path": backup})),
        ("/operator/import", json!({"path": lines})),
        ("/operator/ingest", json!({"paths": [scratch.path().join("model")]})),
    ];
    let jobs: Vec<Events> = jobs.iter().map(|(path, body)| server.job(path, body)).collect();
    assert!(server.recall("mandrake").contains("abides"));
    let meaning =
        server.ask(Ask::post("/semantic-recall", &json!({"query": "the mandrake abides"})));
    assert_eq!(meaning.status, 200, "{}", meaning.text());
    assert_eq!(server.ask(Ask::get("/health")).json()["status"], "ok");
    // An unauthorized job request is rejected at once.
    let refused = wire::ask(&server.local, &Ask::post("/operator/compact", &json!({})));
    assert_eq!(refused.status, 401, "{}", refused.text());
    drop((keeping, ingesting));
    for job in jobs {
        let (name, data) = ended(job);
        assert_eq!(name, "report", "{data}");
    }
}

#[test]
fn a_job_that_waits_for_another_one_says_so() {
    let scratch = scratch();
    let (data, _, _) = furnished(scratch.path());
    let server = Running::start(&data);
    let local = server.parts.local.get();
    let turn = local.ingesting.take_within(Duration::from_secs(60)).unwrap();
    let import = json!({"path": scratch.path().join("lines.jsonl")});
    let ingest = json!({"paths": [scratch.path().join("model")]});
    let jobs =
        [("/operator/import", &import), ("/operator/ingest", &ingest)].map(|(path, body)| {
            let mut job = server.job(path, body);
            let (name, step) = job.next_event().unwrap();
            assert_eq!((&*name, &step["waiting"]), ("progress", &json!(true)), "{step}");
            job
        });
    drop(turn);
    for job in jobs {
        assert_eq!(ended(job).0, "report");
    }
    let (name, first) = server.job("/operator/import", &import).next_event().unwrap();
    assert!(first.get("waiting").is_none(), "nobody else has the turn: {name} {first}");
}

#[test]
fn what_is_erased_is_hidden_at_once_and_goes_though_nobody_waits() {
    let scratch = scratch();
    let (data, backup, id) = furnished(scratch.path());
    let server = Running::start(&data);
    let store = Arc::clone(&server.parts.local.get().store);
    let upkeep = BackgroundWorkers::start(Arc::clone(&store)).unwrap();
    let later =
        EraseLater::start(Arc::clone(&server.parts.admin), Duration::from_millis(1)).unwrap();
    assert!(server.recall(SECRET).contains("zephyrine"));
    // Another job holds the lock, as a model migration does for hours.
    let local = server.parts.local.get();
    let turn = local.keeping.take_within(Duration::from_secs(60)).unwrap();
    let wanted = |dry_run: bool| json!({"ids": [id], "reason": "asked", "dry_run": dry_run});
    let (name, plan) = ended(server.job("/operator/erase", &wanted(true)));
    assert_eq!((&*name, plan["items"].as_array().unwrap().len()), ("report", 1), "{plan}");
    assert!(server.recall(SECRET).contains("zephyrine"), "a dry run hides nothing");
    let mut erasing = server.job("/operator/erase", &wanted(false));
    let (name, step) = erasing.next_event().unwrap();
    assert_eq!((&*name, &step["what"]), ("progress", &json!("hidden")), "{step}");
    assert!(!server.recall(SECRET).contains("zephyrine"));
    assert_eq!(pending(&data), 1);
    // The client disconnects; the erasure continues.
    drop(erasing);
    wait_until("upkeep erases in the store", || store.erasures_pending().unwrap() == 0);
    assert!(!holds_secret(&data.join("tenants")));
    assert!(holds_secret(&backup), "the turn is taken");
    drop(turn);
    wait_until("the server erases in the backup", || pending(&data) == 0);
    assert!(!holds_secret(&backup));
    assert!(server.recall("mandrake").contains("abides"));
    drop((server, later, upkeep, store));
    let proof = run_json(&data, &["verify", "--erased", &id, "--text", SECRET]);
    assert_eq!(proof["proven"], true, "{proof}");
}

/// A hook into a backup: the backup requests random bytes before it registers itself, and reads the clock after the
/// copy.
#[derive(Debug)]
struct Between {
    is_armed: AtomicBool,
    told: Mutex<Sender<()>>,
    hidden: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Between {
    /// Once, lets the erasure proceed as far as possible.
    fn come(&self) {
        if self.is_armed.swap(false, Ordering::AcqRel) {
            self.told.lock().unwrap().send(()).unwrap();
            self.hidden.lock().unwrap().recv_timeout(LONG).unwrap();
        }
    }
}

#[derive(Debug)]
struct AtRandom(Option<Arc<Between>>);

impl Random for AtRandom {
    fn fill(&self, bytes: &mut [u8]) {
        SystemRandom.fill(bytes);
        self.0.iter().for_each(|between| between.come());
    }
}

#[derive(Debug)]
struct AtTime(Option<Arc<Between>>);

impl Clock for AtTime {
    fn now(&self) -> Micros {
        self.0.iter().for_each(|between| between.come());
        SystemClock.now()
    }
}

/// An erasure during a backup hides its items and waits for the lock. A backup that read the store before the erasure
/// is erased from, too.
#[test]
fn no_erasure_passes_a_backup_that_read_the_store_before_it() {
    for is_after_the_copy in [false, true] {
        let scratch = scratch();
        let (data, _, id) = furnished(scratch.path());
        let fresh = scratch.path().join("fresh");
        let (credentials, _) = recalld_workspace::opening::credentials(&data).unwrap();
        let (store, audit) = recalld_workspace::opening::open(&data).unwrap();
        drop(store);
        let (told, is_told) = channel();
        let (hide, is_hidden) = channel();
        let between = Arc::new(Between {
            is_armed: AtomicBool::new(false),
            told: Mutex::new(told),
            hidden: Mutex::new(is_hidden),
        });
        let hook = |wanted: bool| wanted.then(|| Arc::clone(&between));
        let ground = Env::on_disk(&data.join("tenants/local/store")).unwrap();
        let ground = Env { clock: Arc::new(AtTime(hook(is_after_the_copy))), ..ground };
        let store = Store::open(ground, Options::default()).unwrap();
        let (random, turns, noting) =
            (AtRandom(hook(!is_after_the_copy)), Turns::default(), Mutex::new(()));
        let (caller, rules, cancel) =
            (Caller::local_operator("local"), Rules::initial(), CancellationToken::new());
        let (hide, is_told) = (Mutex::new(hide), Mutex::new(is_told));
        let tell = |_: u64, _: u64, what: &str| {
            if what == "hidden" {
                hide.lock().unwrap().send(()).unwrap();
            }
        };
        let keeper = || Keeper {
            data: &data,
            store: &store,
            audit: &audit,
            signer: credentials.signer(),
            rules: &rules,
            caller: &caller,
            random: &random,
            others: None,
            scheduled: None,
            seats: None,
            turns: &turns,
            noting: &noting,
            cancel: &cancel,
            progress: &tell,
        };
        let arguments = |value: Value| value.as_object().cloned().unwrap();
        between.is_armed.store(true, Ordering::Release);
        std::thread::scope(|scope| {
            let erasing = scope.spawn(|| {
                is_told.lock().unwrap().recv_timeout(LONG).unwrap();
                let raw = arguments(json!({"ids": [id], "reason": "asked"}));
                erase(&keeper(), &Value::Object(raw.clone()), &Erase::parse(&raw).unwrap()).unwrap()
            });
            let raw = arguments(json!({"path": fresh}));
            backup(&keeper(), &Value::Object(raw.clone()), &Backup::parse(&raw).unwrap()).unwrap();
            let report = erasing.join().unwrap();
            assert_eq!(report.everywhere, Some(true), "{report:?}");
        });
        assert!(!between.is_armed.load(Ordering::Acquire), "it came in between");
        assert!(!holds_secret(&fresh) && !holds_secret(&data), "after: {is_after_the_copy}");
        assert_eq!(pending(&data), 0);
    }
}
