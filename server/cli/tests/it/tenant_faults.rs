//! Faults of the metastore and of ledgers below a running server. The server fails closed, names a retry time, loses
//! nothing, and recovers by itself. The operator is affected only by faults of the own workspace.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::Micros;
use engine::os::clock::{Clock, SystemClock, SystemRandom};
use recalld_metastore::{Control, Kind, Usage};
use serde_json::{Value, json};
use support_server::house::{House, SCOPES, Served, signed};
use support_wire::service::{Service, run, run_json};
use support_wire::wire::{self, Answer, Ask};

/// Timeout for noticing that a fault is over, which normally takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until `ask` succeeds.
fn until<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(found) => return found,
            Err(why) => assert!(Instant::now() < give_up, "{what}: {why}"),
        }
    }
}

fn recall(served: &Served, bearer: &str) -> Answer {
    served.call(bearer, "brain_recall", &json!({"query": "where is the lamp oil?"}))
}

/// The JSON-RPC response, as a body or as the last event of a stream.
fn said(answer: &Answer) -> Value {
    match answer.header("content-type") {
        Some("text/event-stream") => answer.events().pop().unwrap_or_default(),
        _ => answer.json(),
    }
}

fn remember(served: &Served, bearer: &str, text: &str) -> Result<(), String> {
    let answer = served.call(bearer, "brain_remember", &json!({"text": text}));
    is_answered(&answer)
}

fn is_answered(answer: &Answer) -> Result<(), String> {
    let is_good = answer.status == 200 && said(answer)["result"]["isError"] == false;
    if is_good { Ok(()) } else { Err(answer.text()) }
}

fn stats(served: &Served, bearer: &str) -> Answer {
    served.api(served.service.hosted(), bearer, Ask::get("/stats"))
}

/// Checks for 503 with a retry time, and without a file's name.
fn assert_unavailable(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 503, "{what}: {}", answer.text());
    assert!(answer.header("retry-after").is_some(), "{what}: {}", answer.head());
    assert!(!answer.text().contains("redb"), "{what}: {}", answer.text());
}

/// A workspace's used and remaining calls of the month, from the command.
fn used(served: &Served, slug: &str) -> (u64, u64) {
    let shown = run_json(served.service.data(), &["quota", "show", slug]);
    (shown["used"].as_u64().unwrap(), shown["left"].as_u64().unwrap_or(u64::MAX))
}

fn token(service: &Service, key: &str) -> Answer {
    let body = format!("grant_type=client_credentials&client_id=acme&client_secret={key}");
    let ask = Ask::new("POST", "/token").body(body.into_bytes());
    wire::ask(service.hosted(), &ask.header("Content-Type", "application/x-www-form-urlencoded"))
}

#[test]
fn a_control_store_that_is_gone_or_damaged_closes_tenants_out_and_nobody_else() {
    let house = House::quick();
    let acme = house.tenant("acme", "open");
    let key = house.bearer("acme", Kind::Workspace, &SCOPES);
    let served = house.run(&[]);
    remember(&served, &acme, "The lamp oil is in the cellar.").unwrap();
    let file = served.service.data().join("control.redb");
    let away = served.beside("control.away");
    let operator = served.service.credentials().bearer.clone();
    let check = |what: &str, spoil: &dyn Fn(), mend: &dyn Fn()| {
        spoil();
        // A reader checks once a second that its open file is still the current one.
        until(what, || match stats(&served, &acme).status {
            503 => Ok(()),
            other => Err(format!("{other}")),
        });
        assert_unavailable(&stats(&served, &acme), what);
        assert_unavailable(&recall(&served, &acme), what);
        let refused = token(&served.service, &key);
        assert_eq!(refused.json()["error"], "temporarily_unavailable", "{what}");
        assert_eq!(refused.status, 503, "{what}");
        let created = run(served.service.data(), &["tenant", "create", "other"]);
        assert_eq!(created.status.code(), Some(3), "{what}");
        // The operator's own workspace does not need the metastore.
        for at in [served.service.local(), served.service.hosted()] {
            let asked = Ask::post("/recall", &json!({"query": "anything"}));
            let answer = wire::ask(at, &signed(&served.service, &operator, asked));
            assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        }
        assert_eq!(served.service.ask(&Ask::get("/health")).status, 200, "{what}");
        mend();
        until(what, || is_answered(&recall(&served, &acme)));
        assert_eq!(token(&served.service, &key).status, 200, "{what}");
    };
    let back = || fs::rename(&away, &file).unwrap();
    check("gone", &|| fs::rename(&file, &away).unwrap(), &back);
    let replaced = || {
        fs::rename(&file, &away).unwrap();
        fs::write(&file, b"this was a control store").unwrap();
    };
    check("another file", &replaced, &back);
    let emptied = || {
        fs::rename(&file, &away).unwrap();
        fs::File::create(&file).unwrap();
    };
    check("an empty file", &emptied, &back);
    let readable = |mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        fs::rename(&file, &away).unwrap();
        fs::copy(&away, &file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    };
    check("readable by others", &|| readable(0o644), &back);
    let found = served.given(&acme, "brain_recall", &json!({"query": "where is the lamp oil?"}));
    assert!(found.to_string().contains("cellar"), "{found}");
    assert!(served.service.terminate().success());
}

#[test]
fn a_full_disk_stops_governed_calls_until_there_is_room_and_loses_none() {
    let house = House::quick();
    let acme = house.tenant("acme", "open");
    house.control.set_quota("acme", Some(10_000)).unwrap();
    let served = house.serve_on_a_small_disk(&[]);
    let mut kept = Vec::new();
    for n in 0..3 {
        let text = format!("Lamp oil, barrel {n}.");
        remember(&served, &acme, &text).unwrap();
        kept.push(text);
    }
    for round in 0..2 {
        served.service.let_files_grow(false);
        // Calls that cannot be recorded are not answered, the operator's included.
        until("the disk is full", || match is_answered(&recall(&served, &acme)) {
            Ok(()) => Err("it is answered".to_owned()),
            Err(_) => Ok(()),
        });
        let answer = stats(&served, &acme);
        assert_unavailable(&answer, "the disk is full");
        assert!(remember(&served, &acme, "Never written.").is_err());
        let refused = recall(&served, &acme);
        let why = said(&refused);
        assert!(why["error"]["data"]["reason"].is_string(), "{why}");
        assert!(!refused.text().contains("/data/"), "callers are told of no file: {why}");
        assert_eq!(served.service.ask(&Ask::get("/health")).status, 200);
        served.service.let_files_grow(true);
        let text = format!("Lamp oil again, barrel {round}.");
        until("there is room", || remember(&served, &acme, &text));
        kept.push(text);
        let operators = || {
            let ask = Ask::post("/recall", &json!({"query": "anything"}));
            let answer = served.service.ask(&served.service.signed(ask));
            if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
        };
        until("the operator's ledger", operators);
    }
    let items = stats(&served, &acme).json()["memory_items"].as_u64().unwrap();
    assert_eq!(items, kept.len() as u64, "what was acknowledged is there, once");
    let data = served.service.data().to_owned();
    assert!(served.service.terminate().success());
    let verified = run_json(&data, &["ledger", "verify", "--all"]);
    assert_eq!(verified["ok"], true, "{verified}");
}

/// The system's clock plus a number of seconds.
#[derive(Debug)]
struct Ahead(i64);

impl Clock for Ahead {
    fn now(&self) -> Micros {
        Micros(SystemClock.now().0 + self.0 * 1_000_000)
    }
}

#[test]
fn a_server_that_is_killed_charges_nothing_twice_and_its_blocks_expire() {
    let (quota, calls) = (1_000, 40);
    let house = House::quick();
    let acme = house.tenant("acme", "open");
    house.control.set_quota("acme", Some(quota)).unwrap();
    let mut served = house.run(&[]);
    let mut answered = 0;
    for _ in 0..3 {
        for _ in 0..calls {
            is_answered(&recall(&served, &acme)).unwrap();
            answered += 1;
        }
        let (before, _) = used(&served, "acme");
        assert!(before <= answered, "{before} are on record, and {answered} were answered");
        served = served.again(Service::kill);
        // Usage written before the kill is retained, no more, and calls continue with the remaining quota.
        let (after, left) = used(&served, "acme");
        assert!(before <= after && after <= answered, "{before}, {after}, {answered}");
        assert!(left <= quota - after, "{left} are left of {quota}, {after} were used");
        // Only calls of the last half second are lost: they are not charged later.
        answered = after;
    }
    let data = served.service.data().to_owned();
    let (charged, _) = used(&served, "acme");
    served.service.kill();
    // Ten minutes later, the killed servers' quota blocks have expired.
    let clock: Arc<dyn Clock> = Arc::new(Ahead(11 * 60));
    let control = Control::open(&data.join("control.redb"), clock, Arc::new(SystemRandom)).unwrap();
    let month = month();
    let Usage { used, blocks, .. } = control.usage("acme", &month).unwrap();
    assert!(used <= charged && used >= charged.saturating_sub(calls), "{used} of {charged}");
    assert!(!blocks.is_empty(), "the killed servers left blocks behind");
    let block = control.take_block("acme", &month, 1, 64, Some(quota)).unwrap().unwrap();
    let Usage { used: now, blocks, .. } = control.usage("acme", &month).unwrap();
    assert_eq!((now, blocks.len()), (used, 1), "only the new block is out: {block:?}");
    assert_eq!(u64::from(block.calls), 64.min((quota - used) / 16));
}

/// The current calendar month, as named by the meter.
fn month() -> String {
    recalld_common::names::time(SystemClock.now())[..7].to_owned()
}

#[test]
fn a_ledger_whose_tail_was_cut_shows_beside_a_server_too() {
    let house = House::quick();
    let acme = house.tenant("acme", "open");
    let served = house.run(&[]);
    remember(&served, &acme, "The lamp oil is in the cellar.").unwrap();
    let served = served.again(|service| assert!(service.terminate().success()));
    let data = served.service.data().to_owned();
    let verified = |arguments: &[&str]| {
        let output = run(&data, &[&["ledger", "verify", "--json"], arguments].concat());
        let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), said, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said, errors) = verified(&["--all"]);
    assert_eq!((code, &said["ok"]), (Some(0), &json!(true)), "{said} {errors}");
    let names: Vec<&Value> =
        said["ledgers"].as_array().unwrap().iter().map(|one| &one["workspace"]).collect();
    assert_eq!(names, ["acme", "local"]);
    // The truncated ledger is valid by itself.
    let log = data.join("tenants/acme/ledger/ledger-00000000000000000001.log");
    let whole = fs::read(&log).unwrap();
    fs::remove_file(&log).unwrap();
    for arguments in [&["--workspace", "acme"][..], &["--all"]] {
        let (code, said, errors) = verified(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said} {errors}");
    }
    let (code, ..) = verified(&["--workspace", "local"]);
    assert_eq!(code, Some(0));
    fs::write(&log, &whole).unwrap();
    assert_eq!(verified(&["--workspace", "acme"]).0, Some(0));
    // If the metastore is unreadable, the command reports that instead of skipping the check.
    let file = data.join("control.redb");
    assert!(served.service.terminate().success());
    let kept = fs::read(&file).unwrap();
    fs::write(&file, b"no control store").unwrap();
    let (code, said, errors) = verified(&["--workspace", "acme"]);
    assert_eq!((code, &said["ok"]), (Some(3), &json!(true)), "{said}");
    assert!(errors.contains("last checkpoint on record"), "{errors}");
    fs::write(&file, kept).unwrap();
}
