//! Model migrations through the program: during calls and writes, in-process, interrupted and cancelled, and their
//! effect on the next start.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use engine::os::disk::FsDisk;
use engine::{Durability, Snapshot, StoreReader};
use half::f16;
use recalld_api::operator::{Import, Ingest, Recall};
use recalld_cli::app;
use recalld_cli::app::Settings;
use recalld_common::cancel::CancellationToken;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_embedding::encoding::Encoding;
use recalld_embedding::model::Silent;
use recalld_policy::Caller;
use recalld_store_admin::{Keeper, Reembed};
use recalld_tool_framework::{Answer, Refused, ToolContext};
use serde_json::{Map, Value, json};
use support_server::original_model;
use support_server::tiny_model::embedder;
use support_wire::kept::assert_fails;
use support_wire::mcp_client::McpClient;
use support_wire::service::{Service, run, run_json, scratch, write};
use support_wire::tiny_model::Tiny;
use support_wire::wire::{Ask, Events};

/// Items of a store whose migration is slow enough for concurrent calls.
const MANY: usize = 400;
/// Migrations during concurrent calls and writes.
const ROUNDS: usize = 3;
/// Longer than any call that is not stuck.
const CALL_TIME: Duration = Duration::from_secs(60);
/// Cosine similarity that only the identical text reaches.
const SAME: f64 = 0.999;

/// A model slow enough for many calls during a migration of [`MANY`] items.
fn slow(seed: u32, width: usize) -> Tiny {
    Tiny { layers: 2, ..Tiny::new(seed, width) }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Words unique to the number, about as long as a tiny model's input.
fn words(n: usize) -> String {
    let word = |by: u64| format!("{:x}", (n as u64 + by).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16);
    [1, 1 << 20, 1 << 40, 3, 3 << 20, 3 << 40, 5].map(word).join(" ")
}

fn title(n: usize) -> String {
    format!("item {n}")
}

/// A question equal to an item's embedded text.
fn question(n: usize) -> String {
    format!("{}\n{}", title(n), words(n))
}

fn lines(numbers: impl Iterator<Item = usize>) -> String {
    let line = |n| json!({"type": "item", "ref": title(n), "title": title(n), "text": words(n)});
    numbers.map(|n| format!("{}\n", line(n))).collect()
}

/// A data directory with a number of items, embedded by the model in this folder.
fn furnished(scratch: &Path, items: usize, model: &Path) -> PathBuf {
    let data = scratch.join("data");
    let file = write(scratch, "lines.jsonl", lines(0..items));
    let report = run_json(&data, &["import", path(&file), "--model", path(model)]);
    assert_eq!(report["items"], items, "{report}");
    data
}

/// The store's current snapshot, also while a server writes.
fn snapshot(data: &Path) -> Snapshot {
    let disk = FsDisk::open(&data.join("tenants/local/store")).unwrap();
    StoreReader::open(Arc::new(disk)).unwrap().snapshot()
}

/// Text and embedding of each item, by id.
fn embeddings(snapshot: &Snapshot) -> BTreeMap<u128, (String, Vec<f16>)> {
    let mut found = BTreeMap::new();
    for place in snapshot.item_addresses().unwrap() {
        let item = snapshot.item(place).unwrap();
        let embedding = snapshot.embedding(place).unwrap();
        assert_eq!(embedding.is_some(), item.searchable, "{}", item.text);
        if let Some(embedding) = embedding {
            let text = match item.title {
                "" => item.text.to_owned(),
                title => format!("{title}\n{}", item.text),
            };
            found.insert(item.id.0, (text, embedding.to_vec()));
        }
    }
    found
}

/// Checks that the store is bound to the model in the folder, and that every embedding matches the item's text. Returns
/// the ids.
#[track_caller]
fn check(data: &Path, model: &Path) -> Vec<u128> {
    let (snapshot, embedder) = (snapshot(data), embedder(model));
    assert_eq!(snapshot.model(), Some(embedder.model()), "{}", model.display());
    let found = embeddings(&snapshot);
    for (text, embedding) in found.values() {
        assert_eq!(embedder.embed_all(&[text]), [&**embedding], "{text}");
    }
    found.into_keys().collect()
}

/// Queries by meaning, which must find the item. Returns the answer.
#[track_caller]
fn ask(service: &Service, n: usize) -> Value {
    let answer = service.post("/semantic-recall", &json!({"query": question(n), "limit": 1}));
    let first = &answer["results"][0];
    assert_eq!(first["title"], title(n), "{answer}");
    assert!(first["score"].as_f64().unwrap() > SAME, "{answer}");
    answer
}

fn moves(model: &Path) -> Ask {
    Ask::post("/operator/reembed", &json!({"model": path(model)}))
}

/// Starts a migration and waits for its first step.
fn begun(service: &Service, model: &Path) -> Events {
    let mut events = service.connect().follow(&service.signed(moves(model)));
    let (name, step) = events.next_event().unwrap();
    assert_eq!((&*name, &step["total"]), ("progress", &json!(MANY)), "{step}");
    events
}

/// Runs a migration and returns its last event.
fn ended(service: &Service, model: &Path) -> Value {
    service.ask(&service.signed(moves(model))).events().pop().unwrap()
}

/// State shared by the concurrent callers during a migration.
#[derive(Default)]
struct Meanwhile {
    is_enough: AtomicBool,
    asked: AtomicUsize,
    remembered: AtomicUsize,
    ingested: AtomicUsize,
    imported: AtomicUsize,
}

/// Stops the concurrent callers on drop, also if the test fails.
struct Enough<'a>(&'a AtomicBool);

impl Drop for Enough<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Meanwhile {
    fn repeat(&self, count: &AtomicUsize, mut act: impl FnMut(usize)) {
        while !self.is_enough.load(Ordering::Acquire) {
            act(count.load(Ordering::Acquire));
            count.fetch_add(1, Ordering::AcqRel);
        }
    }
}

#[test]
fn a_store_moves_while_it_is_asked_and_written() {
    let scratch = scratch();
    let at = scratch.path();
    // Two models have the same width: only the fingerprint distinguishes their vectors.
    let models =
        [slow(1, 64).write(at, "a"), slow(2, 64).write(at, "b"), slow(3, 48).write(at, "c")];
    let data = furnished(at, MANY, &models[0]);
    let notes = at.join("notes");
    write(&notes, "kept.md", "# Kept\n\nstays\n");
    run_json(&data, &["ingest", path(&notes)]);
    let service = Service::start(&data, &[]);
    let meanwhile = Meanwhile::default();
    let remembered = std::thread::scope(|scope| {
        let asking =
            scope.spawn(|| meanwhile.repeat(&meanwhile.asked, |n| drop(ask(&service, n % MANY))));
        let remembering = scope.spawn(|| {
            let (mut client, mut ids) = (McpClient::open(&service), Vec::new());
            meanwhile.repeat(&meanwhile.remembered, |n| {
                let text = format!("remembered {}", words(MANY + n));
                let answer = client.call("brain_remember", &json!({"text": text}));
                ids.push(answer["item"]["id"].as_str().unwrap().to_owned());
            });
            ids
        });
        let ingesting = scope.spawn(|| {
            let mut client = McpClient::open(&service);
            meanwhile.repeat(&meanwhile.ingested, |n| {
                // The unchanged section reuses the embedding of the previous version.
                let text = format!("# Same\n\nthe same\n\n# Other\n\nversion {n}\n");
                let file = write(&notes, "changes.md", text);
                let report = client.call("ingest_paths_tool", &json!({"paths": [file]}));
                assert_eq!(report["errors"], json!([]), "{report}");
            });
        });
        let importing = scope.spawn(|| {
            meanwhile.repeat(&meanwhile.imported, |n| {
                let file = write(at, "more.jsonl", lines(10_000 + 5 * n..10_005 + 5 * n));
                let report = run_json(&data, &["import", path(&file)]);
                assert_eq!((&report["items"], &report["bad_count"]), (&json!(5), &json!(0)));
            });
        });
        let enough = Enough(&meanwhile.is_enough);
        // This test does not guarantee that calls overlap a migration; `calls_in_the_middle_of_a_move` does.
        for round in 1..=ROUNDS {
            let others = [&asking, &ingesting, &importing];
            let is_broken = remembering.is_finished() || others.iter().any(|it| it.is_finished());
            assert!(!is_broken, "one of the others failed");
            let report = run_json(&data, &["reembed", "--model", path(&models[round % 3])]);
            assert_eq!(report["moved"], true, "{report}");
            assert!(report["items"].as_u64().unwrap() > MANY as u64, "{report}");
            check(&data, &models[round % 3]);
        }
        drop(enough);
        remembering.join().unwrap()
    });
    let last = models.iter().find(|model| ask(&service, 0)["model"] == name(model)).unwrap();
    let there = check(&data, last);
    assert!(there.len() > MANY + remembered.len());
    for id in &remembered {
        let id = recalld_common::names::parse_item(id).unwrap();
        assert!(there.contains(&id.0), "{id:?} was acknowledged");
    }
    assert_eq!(service.terminate().code(), Some(0));
    let service = Service::start(&data, &[]);
    assert_eq!(ask(&service, 1)["model"], name(last));
    assert_eq!(check(&data, last), there);
}

/// The structured result of an in-process call, which must succeed.
fn structured(answer: Result<Answer, Refused>) -> Value {
    answer.unwrap_or_else(|refused| panic!("{}", refused.error)).structured
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// The migration's first step is blocked until a recall, a remember, an ingest and an import were answered. Each call
/// thus runs during the migration, however fast the machine is.
#[test]
fn calls_in_the_middle_of_a_move() {
    let scratch = scratch();
    let at = scratch.path();
    let models = [slow(1, 64).write(at, "a"), slow(2, 48).write(at, "b")];
    let data = furnished(at, MANY, &models[0]);
    let settings = Settings {
        data: data.clone(),
        model: None,
        encoding: Encoding { threads: 2, ..Encoding::detect() },
        call_time_max: CALL_TIME,
        durability: Durability::Sync,
        search_mode: engine::SearchMode::default(),
        config: recalld_config::Config::default(),
        public_url: None,
        pdf: None,
    };
    let parts = app::start(&settings, &mut Silent).unwrap().parts;
    let (caller, cancel) = (Caller::local_operator(LOCAL_WORKSPACE), CancellationToken::new());
    let local = parts.local.get();
    let act = || ToolContext {
        services: parts.tool_services(),
        workspace: &local,
        caller: &caller,
        cancel: &cancel,
        deadline: Instant::now() + CALL_TIME,
        progress: None,
    };
    let file = write(at, "more.jsonl", lines(MANY..MANY + 5));
    let note = write(&at.join("notes"), "note.md", "# Auks\n\nRazorbills are auks.\n");
    std::thread::scope(|scope| {
        // Each channel end is owned by its thread, so that a failure of one thread does not block the other.
        let (begun, has_begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let (parts, caller, cancel, model) = (&parts, &caller, &cancel, &models[1]);
        let local = &local;
        let moving = scope.spawn(move || {
            let may_go_on = Mutex::new(may_go_on);
            let step = |_, _, _: &str| {
                if begun.send(()).is_ok() {
                    let _opened_or_failed = may_go_on.lock().unwrap().recv();
                }
            };
            let keeper = Keeper::of(&parts.admin, local, caller, cancel, &step);
            let raw = json!({"model": path(model)});
            let wanted = Reembed::parse(&object(raw.clone())).unwrap();
            recalld_store_admin::reembed(
                &keeper,
                Some(&local.encoders),
                parts.encoding,
                &raw,
                &wanted,
            )
        });
        has_begun.recv().expect("the move has come to its first step");

        let raw = object(json!({"query": question(3), "semantic": true, "limit": 1}));
        let wanted = Recall::parse(&raw).unwrap();
        let found = structured(recalld_api::operator::recall_as_operator(&act(), &raw, wanted));
        assert_eq!(found["items"][0]["title"], title(3), "{found}");
        let raw = object(json!({"text": "remembered in the middle"}));
        let remember = recalld_tools::CATALOG.find(caller, "brain_remember").unwrap();
        let kept = structured(remember.call(&act(), &raw));
        assert!(kept["item"]["id"].is_string(), "{kept}");
        let raw = object(json!({"paths": [note]}));
        let wanted = Ingest::parse(&raw).unwrap();
        let report = structured(recalld_api::operator::ingest_as_operator(&act(), &raw, wanted));
        assert_eq!((&report["files"], &report["errors"]), (&json!(1), &json!([])), "{report}");
        let raw = object(json!({"path": file}));
        let wanted = Import::parse(&raw).unwrap();
        let report = structured(recalld_api::operator::import_as_operator(&act(), &raw, &wanted));
        assert_eq!((&report["items"], &report["bad_count"]), (&json!(5), &json!(0)), "{report}");
        let model = parts.local.get().store.snapshot().model();
        assert_eq!(model, Some(embedder(&models[0]).model()), "the move is not over");

        drop((has_begun, go_on));
        let report = moving.join().unwrap().unwrap();
        assert!(report.moved, "{report:?}");
        assert!(report.items > MANY as u64 + 5, "what came is moved: {report:?}");
    });
    assert!(check(&data, &models[1]).len() > MANY + 5);
    let raw = object(json!({"query": question(MANY + 2), "semantic": true, "limit": 1}));
    let wanted = Recall::parse(&raw).unwrap();
    let found = structured(recalld_api::operator::recall_as_operator(&act(), &raw, wanted));
    assert_eq!(found["items"][0]["title"], title(MANY + 2), "{found}");
}

/// A model's name: the name of its folder.
fn name(model: &Path) -> &str {
    model.file_name().unwrap().to_str().unwrap()
}

#[test]
fn one_move_at_a_time_and_a_client_that_leaves_calls_it_off() {
    let scratch = scratch();
    let at = scratch.path();
    let (old, new) = (Tiny::new(1, 64), slow(2, 160));
    let (old, new) = (old.write(at, "old"), new.write(at, "new"));
    let data = furnished(at, MANY, &old);
    let service = Service::start(&data, &[]);
    let before = check(&data, &old);
    let events = begun(&service, &new);
    for model in [&old, &new] {
        let refused = ended(&service, model);
        let why = refused["detail"].as_str().unwrap_or_default();
        assert!(why.contains("is being moved") && why.contains("wait"), "{refused}");
        assert_eq!(ask(&service, 7)["model"], "old");
    }
    drop(events);
    // The cancelled migration has ended when the next one is no longer rejected.
    let began = Instant::now();
    let mut next = ended(&service, &old);
    while !next["detail"].is_null() && began.elapsed() < CALL_TIME {
        next = ended(&service, &old);
    }
    assert_eq!((&next["moved"], &next["items"]), (&json!(false), &json!(0)), "{next}");
    assert_eq!(next["model"]["name"], "old");
    assert_eq!(check(&data, &old), before);
    assert_eq!(ask(&service, 8)["model"], "old");
    assert_eq!(service.terminate().code(), Some(0));
    let service = Service::start(&data, &[]);
    assert_eq!(ask(&service, 9)["model"], "old");
    let report = ended(&service, &new);
    assert_eq!((&report["moved"], &report["items"]), (&json!(true), &json!(MANY)), "{report}");
    assert_eq!(report["before"]["dimensions"], 64, "{report}");
    let answer = ask(&service, 9);
    assert_eq!((&answer["model"], &answer["dimensions"]), (&json!("new"), &json!(160)));
    assert_eq!(check(&data, &new), before);
}

#[test]
fn a_move_that_is_killed_leaves_one_model_or_the_other() {
    let scratch = scratch();
    let at = scratch.path();
    let models = [slow(1, 64).write(at, "a"), slow(2, 48).write(at, "b")];
    let data = furnished(at, MANY, &models[0]);
    let before = check(&data, &models[0]);
    // Killed after the first step, in the middle, and after all items are embedded.
    for steps in [0, 3, usize::MAX] {
        let service = Service::start(&data, &[]);
        let is = |model: &&PathBuf| ask(&service, 3)["model"] == name(model);
        let other = models.iter().find(|model| !is(model)).unwrap();
        let mut events = begun(&service, other);
        for _ in 0..steps {
            let (_, step) = events.next_event().unwrap();
            if step["done"] == step["total"] {
                break;
            }
        }
        service.kill();
        let service = Service::start(&data, &[]);
        let is = |model: &&PathBuf| ask(&service, 4)["model"] == name(model);
        let model = models.iter().find(is).unwrap();
        assert_eq!(check(&data, model), before);
        assert_eq!(service.terminate().code(), Some(0));
        let verified = run(&data, &["verify"]);
        assert_fails(&verified, 0, &[]);
    }
}

#[test]
fn without_a_server_the_store_moves_and_the_next_start_knows() {
    let scratch = scratch();
    let at = scratch.path();
    let (old, new) = (Tiny::new(1, 8).write(at, "old"), Tiny::new(2, 12).write(at, "new"));
    let data = furnished(at, 70, &old);
    let before = check(&data, &old);
    let found = || run_json(&data, &["recall", &question(5), "--semantic", "--limit", "1"]);
    assert_eq!(found()["items"][0]["title"], title(5), "the folder is remembered");

    assert_fails(&run(&data, &["reembed"]), 2, &["recalld reembed --model DIR"]);
    let nothing = at.join("nothing");
    let refused = run(&data, &["reembed", "--model", path(&nothing)]);
    assert_fails(&refused, 3, &["no usable model", path(&nothing), "config.json is missing"]);
    let same = run_json(&data, &["reembed", "--model", path(&old)]);
    assert_eq!((&same["moved"], &same["items"]), (&json!(false), &json!(0)), "{same}");
    let other = ["serve", "--local", "127.0.0.1:0", "--model", path(&new)];
    let way_back = format!("--model {}", path(&old));
    let way_on = format!("recalld reembed --model {}", path(&new));
    assert_fails(&run(&data, &other), 3, &["8 wide", "12 wide", &way_back, &way_on]);
    assert_eq!(check(&data, &old), before, "nothing of it changed anything");

    let report = run_json(&data, &["reembed", "--model", path(&new)]);
    assert_eq!((&report["moved"], &report["items"]), (&json!(true), &json!(70)), "{report}");
    assert_eq!(report["model"]["directory"], path(&new), "{report}");
    assert_eq!(check(&data, &new), before);
    assert_eq!(found()["items"][0]["title"], title(5));
    let said = run(&data, &["reembed", "--model", path(&new)]);
    assert!(String::from_utf8_lossy(&said.stdout).starts_with("0 items: "), "{said:?}");
    let service = Service::start(&data, &[]);
    assert_eq!(ask(&service, 6)["dimensions"], 12);
    let health = service.ask(&Ask::get("/health")).json();
    assert_eq!(health["encoder"]["model"], "new", "{health}");
    let said = run(&data, &["reembed", "--model", path(&nothing)]);
    assert_fails(&said, 3, &["no usable model", path(&nothing)]);
    let back = run_json(&data, &["reembed", "--model", path(&old)]);
    assert_eq!(back["items"], 70, "{back}");
    drop(service);
    check(&data, &old);

    // The recorded model folder is part of a backup.
    let (backup, restored) = (at.join("backup"), at.join("restored"));
    run_json(&data, &["backup", path(&backup)]);
    run_json(&restored, &["restore", path(&backup)]);
    let asked = ["recall", &question(5), "--semantic", "--limit", "1"];
    assert_eq!(run_json(&restored, &asked)["items"][0]["title"], title(5));

    // A folder that is missing or contains another model is reported; a moved folder is found.
    let moved = at.join("moved");
    fs::rename(&old, &moved).unwrap();
    let stale = run(&data, &["recall", "anything"]);
    let ways = ["--model DIR", "recalld reembed --model DIR"];
    assert_fails(
        &stale,
        3,
        &[&[path(&old), "config.json is missing", "8 wide"], &ways[..]].concat(),
    );
    Tiny::new(9, 8).write(at, "old");
    assert_fails(
        &run(&data, &["recall", "anything"]),
        3,
        &["the store has the model old", &way_back],
    );
    run_json(&data, &["recall", "anything", "--model", path(&moved)]);
    assert_eq!(found()["items"][0]["title"], title(5), "remembered where it is now");
    fs::write(data.join("model.json"), "{}").unwrap();
    assert_fails(&run(&data, &["recall", "anything"]), 3, &["MOD-01", "model.json", "--model DIR"]);
    run_json(&data, &["recall", "anything", "--model", path(&moved)]);
    assert_eq!(found()["items"][0]["title"], title(5), "written anew");
}

#[test]
fn every_way_in_embeds_the_same_text_as_a_move() {
    let scratch = scratch();
    let at = scratch.path();
    let one = Tiny::new(1, 16);
    // A token limit lower by one makes another model with equal vectors.
    let other = Tiny { tokens: Tiny::TOKENS_MAX - 1, ..one };
    let (one, other) = (one.write(at, "one"), other.write(at, "other"));
    let data = furnished(at, 5, &one);
    let notes = at.join("notes");
    for version in ["first", "second"] {
        let text = format!("# Top\n\nintro\n\n## Same\n\nthe same\n\n## Other\n\n{version}\n");
        write(&notes, "note.md", text);
        write(&notes, "code.rs", format!("//! Code.\n\nfn {version}() {{}}\n"));
        run_json(&data, &["ingest", path(&notes)]);
    }
    let service = Service::start(&data, &[]);
    let mut client = McpClient::open(&service);
    let text = "first line\nsecond line";
    let first = client.call("brain_remember", &json!({"text": text, "idempotency_key": "k"}));
    let titled = json!({"text": text, "title": "named", "supersedes": first["item"]["id"]});
    client.call("brain_remember", &titled);
    drop(service);
    let before = snapshot(&data);
    let vectors = embeddings(&before);
    assert!(vectors.len() > 12, "{vectors:?}");
    run_json(&data, &["reembed", "--model", path(&other)]);
    let after = snapshot(&data);
    assert_ne!(after.model(), before.model());
    assert_eq!(embeddings(&after), vectors);
}

#[test]
fn the_default_model_is_found_again_when_its_folder_is_gone() {
    let scratch = scratch();
    let at = scratch.path();
    let (data, folder) = (at.join("data"), at.join("linked"));
    fs::create_dir(&folder).unwrap();
    let files = &original_model::files().dir;
    for name in ["config.json", "tokenizer.json", "model.safetensors", "1_Pooling"] {
        symlink(files.join(name), folder.join(name)).unwrap();
    }
    symlink(files.join("sentence_bert_config.json"), folder.join("sentence_bert_config.json"))
        .unwrap();
    run_json(&data, &["remember", "anything", "--model", path(&folder)]);
    assert!(fs::read_to_string(data.join("model.json")).unwrap().contains(path(&folder)));
    fs::remove_dir_all(&folder).unwrap();
    let found = run(&data, &["recall", "anything"]);
    assert_fails(&found, 0, &[path(&folder), "elsewhere"]);
    let again = run(&data, &["recall", "anything"]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && !said.contains("elsewhere"), "remembered: {said}");
}
