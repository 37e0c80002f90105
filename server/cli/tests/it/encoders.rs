//! Encoders during a model migration: the migration completes between the embedding of a text and its write, and each
//! snapshot retains the encoder of its model.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    Batch, ItemDraft, ItemEncoder, ItemView, Model, NoThrottle, Options, Store, WriteError,
};
use half::f16;
use recalld_api::rest;
use recalld_cli::app;
use recalld_common::cancel::{CallScope, CancellationToken};
use recalld_embedding::embed::Embedder;
use recalld_embedding::encoders::Encoders;
use recalld_embedding::model::Silent;
use recalld_fs_util::roots::Roots;
use recalld_ingest::{Job, Report, Request};
use recalld_policy::Caller;
use recalld_tool_framework::ToolContext;
use recalld_tools::status;
use serde_json::{Value, json};
use support_engine::ground;
use support_engine::sim::disk::{Fault, SimDisk};
use support_engine::sim::state::DiskState;
use support_server::settings::settings;
use support_server::tiny_model;
use support_wire::service::{scratch, write};
use support_wire::tiny_model::Tiny;

fn opened(folder: &Path, tiny: Tiny) -> Arc<Embedder> {
    let model = tiny.write(folder, &format!("model-{}", tiny.seed));
    Arc::new(tiny_model::embedder(&model))
}

/// The target model of a migration, with a callback before each batch.
struct Next<'a>(&'a Embedder, &'a dyn Fn());

impl ItemEncoder for Next<'_> {
    fn model(&self) -> Model {
        self.0.model()
    }

    fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
        (self.1)();
        let texts: Vec<(&str, &str)> = items.iter().map(|item| (item.title, item.text)).collect();
        Ok(self.0.embed_items(&texts))
    }
}

fn move_to(encoders: &Encoders, next: &Arc<Embedder>, meanwhile: &dyn Fn()) {
    let moving = encoders.begin_move().unwrap();
    moving.hold(Arc::clone(next));
    encoders.store().reembed(&mut Next(next, meanwhile), &NoThrottle).unwrap();
    assert_eq!(encoders.view().embedder.model(), next.model(), "before the old encoder goes");
}

fn note(text: &str) -> ItemDraft {
    ItemDraft {
        kind: "note".to_owned(),
        modality: "text".to_owned(),
        text: text.to_owned(),
        searchable: true,
        ..ItemDraft::default()
    }
}

/// Checks that every embedding is by the snapshot's encoder.
#[track_caller]
fn check(encoders: &Encoders, wanted: usize) {
    let view = encoders.view();
    let mut found = 0;
    for place in view.snapshot.item_addresses().unwrap() {
        let item = view.snapshot.item(place).unwrap();
        if let Some(embedding) = view.snapshot.embedding(place).unwrap() {
            let made = view.embedder.embed_items(&[(item.title, item.text)]);
            assert_eq!(made, [embedding], "{}", item.text);
            found += 1;
        }
    }
    assert_eq!(found, wanted);
}

#[test]
fn an_embedding_that_comes_too_late_is_made_again() {
    let scratch = scratch();
    let at = scratch.path();
    let first = opened(at, Tiny::new(1, 16));
    let gone = Arc::downgrade(&first);
    let encoders = tiny_model::encoders(at, first);
    let embedded = |text: &str| {
        let mut batch = Batch { items: vec![note(text), note("kept apart")], ..Batch::default() };
        batch.items[1].searchable = false;
        encoders.view().embedder.embed_batch(&mut batch, |item| item.searchable);
        batch
    };
    encoders.write(embedded("amber")).unwrap();
    // A model of the same width, which differs only in its fingerprint, and a model of another width.
    let nexts = [opened(at, Tiny::new(2, 16)), opened(at, Tiny::new(3, 24))];
    for (next, wanted) in nexts.iter().zip([3, 5]) {
        let (before, late) = (encoders.view(), embedded("birch"));
        move_to(&encoders, next, &|| {
            assert_eq!(encoders.view().embedder.model(), before.embedder.model());
            assert!(encoders.begin_move().is_none(), "one at a time");
            assert!(encoders.begin_move().is_none(), "and being refused ends none");
        });
        let refused = encoders.store().write(late.clone()).unwrap_err();
        assert!(matches!(refused, WriteError::Refused { .. }), "{refused}");
        let written = encoders.write(late).unwrap();
        assert_eq!(written.items.len(), 2);
        encoders.write(embedded("cedar")).unwrap();
        check(&encoders, wanted);
        assert_eq!(before.snapshot.model(), Some(before.embedder.model()), "as it was");
    }
    assert!(gone.upgrade().is_none(), "nobody uses the first encoder any more");
    let wrong = Batch { items: vec![note(&"x".repeat(2 << 20))], ..embedded("y") };
    let refused = encoders.write(wrong).unwrap_err();
    assert!(matches!(refused, WriteError::Refused { field: "text", .. }), "{refused}");
}

#[test]
fn a_move_that_fails_leaves_the_old_encoder() {
    let scratch = scratch();
    let at = scratch.path();
    let (first, next) = (opened(at, Tiny::new(1, 16)), opened(at, Tiny::new(2, 16)));
    let encoders = tiny_model::encoders(at, Arc::clone(&first));
    let gone = Arc::downgrade(&next);
    let moving = encoders.begin_move().unwrap();
    moving.hold(next);
    drop(moving);
    assert!(gone.upgrade().is_none());
    assert_eq!(encoders.view().embedder.model(), first.model());
    assert!(encoders.begin_move().is_some(), "the next one may begin");
}

/// A job reuses the embeddings of unchanged chunks, unless the store's model has changed since the job read them.
#[test]
fn a_job_keeps_no_embedding_of_a_model_that_the_store_has_left() {
    let scratch = scratch();
    let at = scratch.path();
    let (first, next) = (opened(at, Tiny::new(1, 16)), opened(at, Tiny::new(2, 16)));
    let encoders = tiny_model::encoders(at, first);
    let notes = at.join("notes");
    let version = |n: u32| {
        let text = format!("# Top\n\nintro\n\n## Same\n\nthe same\n\n## Other\n\nversion {n}\n");
        write(&notes, "a.md", text);
        write(&notes, "b.md", format!("# Bravo\n\nversion {n}\n"));
    };
    version(1);
    let roots = Roots::open(std::slice::from_ref(&notes)).unwrap();
    let run = |before: &dyn Fn(&str)| -> Report {
        let progress = |_: u64, _: u64, name: &str| before(name);
        let (encoders, roots) = (&encoders, &roots);
        let id = encoders.store().new_item_id();
        let job = Job {
            id,
            encoders,
            roots,
            pdf: None,
            allows: &|_| Ok(()),
            call: CallScope::endless(),
            progress: &progress,
        };
        let request = Request {
            paths: vec![notes.to_str().unwrap().to_owned()],
            recursive: true,
            include: Vec::new(),
            exclude: Vec::new(),
            sensitivity: None,
            dry_run: false,
            by: "ada".to_owned(),
            via: "test",
        };
        job.run(&request).unwrap()
    };
    let report = run(&|_| {});
    check(&encoders, usize::try_from(report.items).unwrap());
    version(2);
    // By the time of the second file, the first file's chunks have been compared with the stored ones.
    let again = run(&|name| {
        if name == "b.md" {
            move_to(&encoders, &next, &|| {});
        }
    });
    assert!(again.superseded > 0 && again.errors_count == 0);
    assert_eq!(encoders.view().embedder.model(), next.model());
    check(&encoders, usize::try_from(report.items + again.items).unwrap());
}

/// If the disk is full when the store is reopened, the service still answers, with the store's encoder, and reports why
/// writes fail.
#[test]
fn a_store_that_had_no_room_at_its_opening_is_served() {
    let scratch = scratch();
    let model = Tiny::new(1, 16).write(scratch.path(), "model");
    let settings =
        settings(&scratch.path().join("data"), Some(model.clone()), Duration::from_secs(30));
    let started = app::start(&settings, &mut Silent).unwrap();
    let parts = Arc::into_inner(started.parts).expect("nobody else has them");
    let embedder = Arc::new(tiny_model::embedder(&model));
    let on = |disk: &SimDisk| {
        let store = Store::open(ground::still(Arc::new(disk.clone()), 1), Options::default());
        Encoders::bind(Arc::new(store.unwrap()), Arc::clone(&embedder)).unwrap()
    };
    let disk = SimDisk::on(DiskState::default());
    let killed = on(&disk);
    killed.write(Batch { items: vec![note("kept")], ..Batch::default() }).unwrap();
    let left = disk.kill();
    drop(killed);
    let encoders = on(&SimDisk::failing(left, Some((0, Fault::Full)), 1));
    parts.local.change(|local| {
        local.store = encoders.store_handle();
        local.encoders = encoders;
    });

    let health: Value = serde_json::from_slice(&rest::health(&parts).body).unwrap();
    assert_eq!(health["status"], "degraded");
    // Health is public. The reason may name a file, so it requires credentials.
    assert_eq!(health["store"], json!({"ready": false}));
    let caller = Caller::local_operator(parts.local.name());
    let local = parts.local.get();
    let context = ToolContext {
        services: parts.tool_services(),
        workspace: &local,
        caller: &caller,
        cancel: &CancellationToken::new(),
        deadline: Instant::now() + settings.call_time_max,
        progress: None,
    };
    let stats = json!(status::collect(&context).unwrap());
    assert_eq!(stats["memory_items"], 1);
    assert_eq!(stats["store"]["takes_writes"], false);
    let why = stats["store"]["why"].as_str().unwrap();
    assert!(why.contains("No space left"), "{why}");
    let late = Batch { items: vec![note("too late")], ..Batch::default() };
    let refused = parts.local.get().encoders.write(late).unwrap_err().to_string();
    assert!(refused.contains("No space left"), "{refused}");
}
