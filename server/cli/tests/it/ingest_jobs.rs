//! Ingest jobs: concurrent, interrupted, and with forbidden paths.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::ledger::{Effect, LedgerReader, Outcome};
use engine::os::disk::FsDisk;
use engine::{
    Batch, Direction, EdgeDraft, EdgeFilter, ItemDraft, ItemId, NEIGHBOURS_MAX, Options, Record,
    Store,
};
use recalld_api::operator::Ingest;
use recalld_cli::app;
use recalld_common::cancel::{CallScope, CancellationToken};
use recalld_embedding::encoders::Encoders;
use recalld_embedding::model::Silent;
use recalld_fs_util::roots::Roots;
use recalld_fs_util::uri;
use recalld_ingest::{Job, Report, Request, document_of};
use recalld_policy::Caller;
use recalld_tool_framework::ToolContext;
use serde_json::{Value, json};
use support_engine::failing_disk::FailingDisk;
use support_engine::ground;
use support_server::settings::settings;
use support_server::tiny_model;
use support_wire::mcp_client::McpClient;
use support_wire::service::{Service, run, run_json, scratch, write};
use support_wire::tiny_model::Tiny;

fn ingest(service: &Service, arguments: &Value) -> Value {
    McpClient::open(service).call("ingest_paths_tool", arguments)
}

fn stats(service: &Service) -> Value {
    McpClient::open(service).call("recall_stats", &json!({}))
}

fn notes(folder: &Path, files: u64) {
    for n in 0..files {
        write(folder, &format!("{n}.md"), format!("# Note {n}\n\nkelp number {n}\n"));
    }
}

#[test]
fn two_jobs_over_one_folder_store_it_once() {
    let scratch = scratch();
    let folder = scratch.path().join("notes");
    notes(&folder, 40);
    let (data, root) = (scratch.path().join("data"), scratch.path().to_str().unwrap().to_owned());
    write(scratch.path(), "empty/only.md", "# Only\n\none\n");
    let service = Service::start(&data, &["--ingest", &format!("{root}/empty")]);
    // The operator's ingest adds the folder to the roots; then four clients ingest it concurrently.
    run_json(&data, &["ingest", "--dry-run", folder.to_str().unwrap()]);
    let done: Vec<Value> = thread::scope(|scope| {
        let job = || run_json(&data, &["ingest", folder.to_str().unwrap()]);
        let jobs: Vec<_> = (0..4).map(|_| scope.spawn(job)).collect();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    });
    let items: u64 = done.iter().map(|report| report["items"].as_u64().unwrap()).sum();
    assert_eq!(items, 80, "{done:?}");
    let counted = stats(&service);
    assert_eq!(counted["by_kind"]["document"], 41, "{counted}");
    assert_eq!(counted["superseded"], 2, "only the marks of the two jobs: {counted}");
}

#[test]
fn links_that_a_killed_job_left_out_are_made_later() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    write(&folder, "a.md", "# Alpha\n\nSee [the other](b.md) about kelp.\n");
    let report = run_json(&data, &["ingest", folder.to_str().unwrap()]);
    assert_eq!((&report["items"], &report["links"]), (&json!(2), &json!(0)), "{report}");
    // The link's target is created later; the linking file is unchanged.
    write(&folder, "b.md", "# Bravo\n\nMore about kelp.\n");
    let report = run_json(&data, &["ingest", folder.to_str().unwrap()]);
    assert_eq!((&report["unchanged"], &report["links"]), (&json!(1), &json!(1)), "{report}");
    let report = run_json(&data, &["ingest", folder.to_str().unwrap()]);
    assert_eq!((&report["items"], &report["links"]), (&json!(0), &json!(0)), "{report}");
}

#[test]
fn the_operator_says_which_files_are_read() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("project"));
    for name in ["docs/lamp.md", "docs/tests/odd.md", "tests/lamp.md", "lamp.rs"] {
        write(&folder, name, "# Lamps\n\nTrimmed at dusk.\n");
    }
    let folder = folder.to_str().unwrap();
    let chosen = ["ingest", folder, "--exclude", "tests/**", "--include", "*.md"];
    let dry = run(&data, &[&chosen[..], &["--dry-run"]].concat());
    let said = String::from_utf8(dry.stdout).unwrap();
    assert!(said.starts_with("(dry run) 2 files"), "{said}");
    assert!(said.contains("tests/lamp.md: excluded by a pattern"), "{said}");
    assert!(said.contains("lamp.rs: matches no pattern to include"), "{said}");
    let report = run_json(&data, &chosen);
    assert_eq!(report["files"], 2, "beneath `docs` alone: {report}");
    let service = Service::start(&data, &[]);
    let report = run_json(&data, &chosen);
    assert_eq!((&report["files"], &report["unchanged"]), (&json!(2), &json!(2)), "{report}");
    assert_eq!(service.terminate().code(), Some(0));
}

#[test]
fn a_new_version_is_as_sensitive_as_the_one_before() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    let file = write(&folder, "pay.md", "# Pay\n\nquokka salaries\n");
    let service = Service::start(&data, &["--ingest", folder.to_str().unwrap()]);
    let sensitivity = || {
        let asked = json!({"query": "quokka salaries", "limit": 1, "prefer_replacements": true});
        let seeds = service.post("/recall", &asked);
        seeds[0]["policy"]["sensitivity"].clone()
    };
    assert_eq!(sensitivity(), "internal");
    let report = ingest(&service, &json!({"paths": [file], "sensitivity": "confidential"}));
    assert_eq!((&report["unchanged"], &report["superseded"]), (&json!(0), &json!(1)), "{report}");
    assert_eq!(sensitivity(), "confidential");
    write(&folder, "pay.md", "# Pay\n\nquokka salaries, raised\n");
    ingest(&service, &json!({"paths": [file]}));
    assert_eq!(sensitivity(), "confidential");
}

#[test]
fn naming_a_file_opens_neither_its_folder_nor_what_is_hidden() {
    let scratch = scratch();
    let (data, home) = (scratch.path().join("data"), scratch.path().join("home"));
    let todo = write(&home, "todo.md", "# Todo\n\nwalk\n");
    let key = write(&home, ".ssh/id", "wombat key\n");
    let beside = write(&home, "beside.md", "# Beside\n\nother\n");
    let service = Service::start(&data, &[]);
    let report = run_json(&data, &["ingest", todo.to_str().unwrap()]);
    assert_eq!(report["files"], 1, "{report}");
    let mut client = McpClient::open(&service);
    let refusal = client.refusal("ingest_paths_tool", &json!({"paths": [beside]}));
    assert!(refusal.starts_with("paths:"), "{refusal}");
    // The operator may ingest a folder, but hidden files in it remain forbidden.
    run_json(&data, &["ingest", home.to_str().unwrap()]);
    let refusal = client.refusal("ingest_paths_tool", &json!({"paths": [key]}));
    assert!(refusal.contains("hidden"), "{refusal}");
    assert_eq!(client.call("ingest_paths_tool", &json!({"paths": [beside]}))["unchanged"], 1);
}

#[test]
fn a_document_is_superseded_by_its_file_alone() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    let file = write(&folder, "a.md", "# Alpha\n\nkelp\n");
    let service = Service::start(&data, &["--ingest", folder.to_str().unwrap()]);
    let mut client = McpClient::open(&service);
    let document = client.call("docstore_get_document_tool", &json!({"path": file}));
    let refusal = client
        .refusal("brain_remember", &json!({"text": "no", "supersedes": document["document_id"]}));
    assert!(refusal.contains("supersedes") && refusal.contains("document"), "{refusal}");
    // Null means absent; a blank text is rejected.
    client.call("brain_remember", &json!({"text": "yes", "kind": null, "tags": null}));
    assert!(client.refusal("brain_remember", &json!({"text": " \n"})).contains("blank"));
}

#[test]
fn many_versions_of_a_file_take_one_place() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    write(&folder, "other.md", "# Other\n\nkelp grows by the pier\n");
    for version in 0..6 {
        let text = format!("# Limits\n\nkelp may grow to {version} metres\n");
        write(&folder, "limits.md", text);
        run_json(&data, &["ingest", folder.to_str().unwrap()]);
    }
    let service = Service::start(&data, &[]);
    let asked = json!({"query": "how far may kelp grow?"});
    let answer = McpClient::open(&service).call("retrieval_arbitrate_tool", &asked);
    let items = answer["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["status"] == "current"), "{answer}");
    let titles: Vec<&str> = items.iter().map(|item| item["title"].as_str().unwrap()).collect();
    assert!(titles.contains(&"Other"), "{titles:?}");
    assert!(items[0]["text"].as_str().unwrap().contains("5 metres"), "{answer}");
}

/// A store beside the ingested folder, without a service.
struct Alone {
    encoders: Encoders,
    roots: Roots,
    folder: PathBuf,
}

impl Alone {
    /// `layers`: layers of the model, which slow it down.
    fn new(at: &Path, layers: usize) -> Self {
        let model = Tiny { layers, ..Tiny::new(1, 16) }.write(at, "model");
        let encoders = tiny_model::encoders(at, Arc::new(tiny_model::embedder(&model)));
        let folder = at.join("notes");
        std::fs::create_dir(&folder).unwrap();
        let roots = Roots::open(std::slice::from_ref(&folder)).unwrap();
        Self { encoders, roots, folder }
    }

    fn write(&self, name: &str, text: &str) {
        write(&self.folder, name, text);
    }

    /// Ingests a folder below the root until the call's end, and passes progress to `progress`.
    fn job(&self, below: &str, call: CallScope<'_>, progress: &dyn Fn(u64, u64, &str)) -> Report {
        let request = Request {
            paths: vec![self.folder.join(below).to_str().unwrap().to_owned()],
            recursive: true,
            include: Vec::new(),
            exclude: Vec::new(),
            sensitivity: None,
            dry_run: false,
            by: "ada".to_owned(),
            via: "test",
        };
        let job = Job {
            id: self.encoders.store().new_item_id(),
            encoders: &self.encoders,
            roots: &self.roots,
            pdf: None,
            allows: &|_| Ok(()),
            call,
            progress,
        };
        job.run(&request).unwrap()
    }

    fn ingest(&self, below: &str) -> Report {
        self.job(below, CallScope::endless(), &|_, _, _| {})
    }

    /// Number of documents and chunks in the store.
    fn items(&self) -> u64 {
        let snapshot = self.encoders.store().snapshot();
        let is_read =
            |record: &Record<'_>| matches!(record, Record::Item(it, _) if it.kind != "job");
        snapshot.records().filter(|record| is_read(record.as_ref().unwrap())).count() as u64
    }

    /// Number of links to a file's current version.
    fn links_to(&self, name: &str) -> usize {
        let snapshot = self.encoders.store().snapshot();
        let document = self.document(name);
        let which = EdgeFilter {
            relations: vec!["links_to".to_owned()],
            direction: Some(Direction::In),
            ..EdgeFilter::default()
        };
        snapshot.neighbours(document, NEIGHBOURS_MAX, &which).unwrap().len()
    }

    fn document(&self, name: &str) -> ItemId {
        let snapshot = self.encoders.store().snapshot();
        let uri = uri::of_path(self.folder.join(name).to_str().unwrap());
        document_of(&snapshot, &uri).unwrap().expect("it is stored")
    }
}

/// The job is cancelled before the last file, while batches are being written.
#[test]
fn a_job_that_is_called_off_tells_all_that_it_stored() {
    let scratch = scratch();
    let alone = Alone::new(scratch.path(), 2);
    const FILES: u64 = 200;
    for n in 0..FILES {
        alone
            .write(&format!("{n:03}.md"), &format!("# Note {n}\n\nkelp [next]({:03}.md)\n", n + 1));
    }
    let token = CancellationToken::new();
    let progress = |_: u64, _: u64, name: &str| {
        if name == "199.md" {
            // Wait until the first batch is in the store.
            while alone.items() == 0 {
                thread::yield_now();
            }
            token.cancel();
        }
    };
    let report = alone.job("", CallScope { token: &token, deadline: None }, &progress);
    let stored = alone.items();
    assert!(report.cancelled && stored > 0);
    assert_eq!(report.items, stored);
    assert_eq!(report.documents.len() as u64, stored / 2, "what the ledger is told");
    // The next job completes the rest, including the links of the first job's files.
    let again = alone.ingest("");
    assert_eq!((report.items + again.items, again.unchanged), (2 * FILES, stored / 2));
    assert_eq!(report.links + again.links, FILES - 1);
    assert_eq!(alone.ingest("").links, 0);
}

/// Both versions have the same text; the hash is over the file's bytes.
#[test]
fn a_file_that_loses_its_byte_order_mark_has_changed() {
    let scratch = scratch();
    let alone = Alone::new(scratch.path(), 1);
    alone.write("a.md", "\u{feff}# Hi\n\nkelp\n");
    assert_eq!(alone.ingest("").unchanged, 0);
    assert_eq!(alone.ingest("").unchanged, 1);
    alone.write("a.md", "# Hi\n\nkelp\n");
    assert_eq!(alone.ingest("").unchanged, 0);
    assert_eq!(alone.ingest("").unchanged, 1);
}

#[test]
fn a_link_to_a_changed_file_is_made_once() {
    let scratch = scratch();
    let alone = Alone::new(scratch.path(), 1);
    alone.write("a.md", "# Alpha\n\nSee [the other](b.md).\n");
    for version in 0..3 {
        alone.write("b.md", &format!("# Bravo\n\nversion {version}\n"));
        let report = alone.ingest("");
        assert_eq!((report.links, alone.links_to("b.md")), (1, 1), "version {version}");
    }
}

/// Links to superseded items do not crowd out links to current ones.
#[test]
fn a_link_is_found_behind_many_older_ones() {
    let scratch = scratch();
    let alone = Alone::new(scratch.path(), 1);
    alone.write("a.md", "# Alpha\n\nSee [the other](b.md).\n");
    alone.write("b.md", "# Bravo\n\nthat\n");
    assert_eq!(alone.ingest("").links, 1);
    let store = alone.encoders.store();
    let note = |supersedes: Vec<ItemId>| {
        let (kind, modality) = ("note".to_owned(), "text".to_owned());
        ItemDraft { kind, modality, text: "old".to_owned(), supersedes, ..ItemDraft::default() }
    };
    let one = |item| Batch { items: vec![item], ..Batch::default() };
    let old = store.write(one(note(Vec::new()))).unwrap().items[0];
    store.write(one(note(vec![old]))).unwrap();
    let snapshot = store.snapshot();
    let which = EdgeFilter { direction: Some(Direction::In), ..EdgeFilter::default() };
    let near = snapshot.neighbours(alone.document("b.md"), NEIGHBOURS_MAX, &which).unwrap();
    let chunk = near.iter().find(|one| one.edge.relation == "links_to").unwrap().edge.from;
    let edge = EdgeDraft {
        id: None,
        from: chunk,
        to: old,
        relation: "links_to".to_owned(),
        weight: 0.8,
        source: None,
        recorded_at: None,
        recorded_by: String::new(),
        valid_from: None,
        valid_to: None,
        note: String::new(),
    };
    // A higher weight, so that these edges come first.
    let edges = vec![EdgeDraft { weight: 0.9, ..edge }; NEIGHBOURS_MAX];
    store.write(Batch { edges, ..Batch::default() }).unwrap();
    alone.write("c.md", "# Charlie\n\nnew\n");
    assert_eq!((alone.ingest("").links, alone.links_to("b.md")), (0, 1));
}

/// A file outside of the ingested folder links to a changed file in it. The job is cancelled between storing and
/// linking.
#[test]
fn links_from_elsewhere_are_kept_by_the_job_after_one_that_was_cut_off() {
    let scratch = scratch();
    let alone = Alone::new(scratch.path(), 1);
    alone.write("x/a.md", "# Alpha\n\nSee [the other](../y/b.md).\n");
    alone.write("y/b.md", "# Bravo\n\nversion 1\n");
    assert_eq!((alone.ingest("").links, alone.links_to("y/b.md")), (1, 1));
    for version in 2..4 {
        alone.write("y/b.md", &format!("# Bravo\n\nversion {version}\n"));
        let before = alone.items();
        let token = CancellationToken::new();
        // Progress names a file once before it is read, and again before its links are made.
        let progress = |_: u64, _: u64, name: &str| {
            if name.ends_with("b.md") && alone.items() > before {
                token.cancel();
            }
        };
        let report = alone.job("y", CallScope { token: &token, deadline: None }, &progress);
        assert!(report.cancelled && alone.links_to("y/b.md") == 0, "version {version}");
    }
    // Two versions later, the file is unchanged and its link is restored.
    let report = alone.ingest("y");
    assert_eq!((report.unchanged, report.links, alone.links_to("y/b.md")), (1, 1, 1));
    assert_eq!(alone.ingest("y").links, 0);
}

#[test]
fn linking_is_told_and_can_be_called_off() {
    let scratch = scratch();
    let alone = Alone::new(scratch.path(), 1);
    for n in 0..30 {
        alone.write(&format!("{n:02}.md"), &format!("# Note {n}\n\nkelp [new](new.md)\n"));
    }
    assert_eq!(alone.ingest("").links, 0);
    alone.write("new.md", "# New\n\nall lead here\n");
    // `new.md` is stored last, so any later progress of another file is about its links.
    let (last, linking) = (Cell::new(false), Cell::new(0));
    let token = CancellationToken::new();
    let told = Cell::new((0, 0));
    let progress = |done: u64, total: u64, name: &str| {
        assert!(done >= told.get().0 && done <= total, "{done} of {total}");
        told.set((done, total));
        linking.set(linking.get() + u32::from(last.get() && name.ends_with(".md")));
        last.set(last.get() || name == "new.md");
        if linking.get() > 10 {
            token.cancel();
        }
    };
    let report = alone.job("", CallScope { token: &token, deadline: None }, &progress);
    assert!(report.cancelled, "after {} files", linking.get());
    assert_eq!((report.files, report.items), (31, 2), "{report:?}");
    assert!(alone.links_to("new.md") < 30);
    // No file has changed, but links are missing.
    let again = alone.ingest("");
    assert_eq!((again.unchanged, again.items), (31, 0), "{again:?}");
    assert_eq!((report.links + again.links, alone.links_to("new.md")), (30, 30));
    assert_eq!(alone.ingest("").job, None, "now all is as it was");
}

/// If the disk is full after some documents are stored, both the caller's error and the ledger account for them.
#[test]
fn a_job_that_breaks_off_accounts_for_what_it_stored() {
    let scratch = scratch();
    let model = Tiny { layers: 2, ..Tiny::new(1, 16) }.write(scratch.path(), "model");
    let settings =
        settings(&scratch.path().join("data"), Some(model.clone()), Duration::from_secs(30));
    let started = app::start(&settings, &mut Silent).unwrap();
    let parts = Arc::into_inner(started.parts).expect("nobody else has them");
    let is_full = Arc::new(AtomicBool::new(false));
    let folder = scratch.path().join("store");
    std::fs::create_dir(&folder).unwrap();
    let disk = Arc::new(FsDisk::open(&folder).unwrap());
    let fails = Arc::clone(&is_full);
    let refuses = move |action: &str, _: &str| action != "map" && fails.load(Ordering::SeqCst);
    let disk = FailingDisk::when(disk, refuses);
    let store = Store::open(ground::still(Arc::new(disk), 1), Options::default()).unwrap();
    let encoders = Encoders::bind(Arc::new(store), Arc::new(tiny_model::embedder(&model))).unwrap();
    parts.local.change(|local| {
        local.store = encoders.store_handle();
        local.encoders = encoders;
    });

    let notes_folder = scratch.path().join("notes");
    notes(&notes_folder, 600);
    let caller = Caller::local_operator(parts.local.name());
    // Files reported as done are stored.
    let progress = |done: u64, _: u64, _: &str| is_full.store(done > 0, Ordering::SeqCst);
    let context = ToolContext {
        services: parts.tool_services(),
        workspace: &parts.local.get(),
        caller: &caller,
        cancel: &CancellationToken::new(),
        deadline: Instant::now() + settings.call_time_max,
        progress: Some(&progress),
    };
    let raw = json!({"paths": [notes_folder]}).as_object().unwrap().clone();
    let wanted = Ingest::parse(&raw).unwrap();
    let refused = recalld_api::operator::ingest_as_operator(&context, &raw, wanted).unwrap_err();
    let documents = {
        let snapshot = parts.local.get().store.snapshot();
        let is_document =
            |record: &Record<'_>| matches!(record, Record::Item(it, _) if it.kind == "document");
        snapshot.records().filter(|record| is_document(record.as_ref().unwrap())).count()
    };
    assert!((1..600).contains(&documents), "{documents} were stored");
    let why = refused.to_string();
    let account = format!("{} items of {documents} files were stored", 2 * documents);
    assert!(why.contains(&account) && why.contains("takes no writes"), "{why}");
    let ledger = LedgerReader::open(&settings.data.join("tenants/local/ledger")).unwrap();
    let entry = ledger.entries(1).unwrap().last().unwrap().unwrap();
    assert_eq!((&*entry.tool, entry.outcome), ("recalld ingest", Outcome::Failed));
    assert_eq!(entry.touched_total as usize, documents);
    assert!(entry.touched.iter().all(|one| one.effect == Effect::Written));
}
