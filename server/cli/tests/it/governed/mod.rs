//! The governed path in-process: the items of an answer, their order and their explanation. Rules and the clock are set
//! by the tests.

mod abstaining;
mod alike;
mod bounds;
mod data;
mod disputed;
mod entries;
mod hidden;
mod places;
mod same;
mod supersession;
mod times;
mod withheld;

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::os::clock::Clock;
use engine::{Batch, EdgeDraft, ItemDraft, ItemId, Micros, SourceDraft, TombstoneDraft};
use half::f16;
use recalld_cli::app;
use recalld_cli::app::Started;
use recalld_common::cancel::CancellationToken;
use recalld_common::names;
use recalld_embedding::model::Silent;
use recalld_policy::Caller;
use recalld_policy::{Action, Rule, Rules, Verdict, WhatMatch, WhoMatch};
use recalld_recall::Plan;
use recalld_tool_framework::{Answer, ToolContext};
use recalld_tools::{CATALOG, recall::arbitrate};
use serde_json::{Map, Value, json};
use support_engine::sample::link;
use support_server::settings::settings;
use support_wire::service::scratch;
use support_wire::tiny_model::Tiny;
use tempfile::TempDir;

const RECALL: &str = "retrieval_arbitrate_tool";
/// The gate of items that are redacted for a member.
const GATE: &str = "veiled";
/// The callers' current time.
const NOW: &str = "2026-01-14T09:30:00Z";

fn time(text: &str) -> Micros {
    names::parse_time(text).unwrap()
}

#[derive(Debug)]
struct Still(Micros);

impl Clock for Still {
    fn now(&self) -> Micros {
        self.0
    }
}

/// A service without a socket, with random encoder weights.
struct House {
    started: Started,
    /// Removed after the store is closed.
    _scratch: TempDir,
}

impl House {
    fn new() -> Self {
        let scratch = scratch();
        let model = Tiny::new(1, 16).write(scratch.path(), "model");
        let data = scratch.path().join("data");
        let settings = settings(&data, Some(model), Duration::from_secs(60));
        let mut started = app::start(&settings, &mut Silent).unwrap();
        let parts = Arc::get_mut(&mut started.parts).expect("nobody else has it yet");
        parts.clock = Arc::new(Still(time(NOW)));
        let mut rules: Vec<Rule> = Rules::initial().iter().cloned().collect();
        rules.push(Rule {
            tells: true,
            name: "veil".to_owned(),
            who: WhoMatch { plan: Some("team".to_owned()), ..WhoMatch::default() },
            what: WhatMatch::gated(GATE),
            actions: vec![Action::Read],
            verdict: Verdict::Redact,
            opens_unknown_gates: false,
        });
        parts.local.change(|local| local.rules = Rules::new(rules).unwrap().into());
        Self { started, _scratch: scratch }
    }

    /// Stores items completed with defaults, under their given ids.
    fn write(&self, items: Vec<ItemDraft>) {
        let items = items.into_iter().map(complete).collect();
        self.started.parts.local.get().store.write(Batch { items, ..Batch::default() }).unwrap();
    }

    fn write_batch(&self, batch: Batch) {
        let items = batch.items.into_iter().map(complete).collect();
        self.started.parts.local.get().store.write(Batch { items, ..batch }).unwrap();
    }

    /// Stores items and one more with the embedding of a question, which only the vector retriever finds.
    fn write_with(
        &self,
        sources: Vec<SourceDraft>,
        items: Vec<ItemDraft>,
        near: (&str, ItemDraft),
    ) {
        let view = self.started.parts.local.get().encoders.view();
        let (question, near) = near;
        let vector = view.embedder.embed(question).into_iter();
        let near = ItemDraft { embedding: vector.map(f16::from_f32).collect(), ..near };
        let items = items.into_iter().chain([near]).collect();
        let embedded_by = Some(view.embedder.model());
        self.write_batch(Batch { sources, items, embedded_by, ..Batch::default() });
    }

    fn hide(&self, id: u128) {
        let stone = TombstoneDraft { target: id, ..TombstoneDraft::default() };
        self.write_batch(Batch { tombstones: vec![stone], ..Batch::default() });
    }

    fn with_context<T>(&self, caller: &Caller, run: impl FnOnce(&ToolContext<'_>) -> T) -> T {
        run(&ToolContext {
            services: self.started.parts.tool_services(),
            workspace: &self.started.parts.local.get(),
            caller,
            cancel: &CancellationToken::new(),
            deadline: Instant::now() + Duration::from_secs(60),
            progress: None,
        })
    }

    fn call(&self, caller: &Caller, tool: &str, arguments: Value) -> Answer {
        let Value::Object(raw): Value = arguments else { panic!("arguments are an object") };
        let raw: Map<String, Value> = raw;
        self.with_context(caller, |context| {
            CATALOG.find(caller, tool).unwrap().call(context, &raw).unwrap()
        })
    }

    /// Answers with a plan other than the governed path's.
    fn follow(&self, caller: &Caller, plan: &Plan) -> Value {
        self.with_context(caller, |context| {
            arbitrate::answer(context, plan, true).unwrap().structured
        })
    }

    /// The operator's answer.
    fn ask(&self, query: &str) -> Value {
        self.call(&operator(), RECALL, json!({"query": query})).structured
    }

    /// A team member's answer.
    fn ask_as_member(&self, query: &str) -> Value {
        self.call(&member(), RECALL, json!({"query": query})).structured
    }
}

fn member() -> Caller {
    Caller { principal: "user:ada".to_owned(), plan: "team".to_owned(), ..operator() }
}

fn operator() -> Caller {
    Caller::local_operator("local")
}

fn complete(item: ItemDraft) -> ItemDraft {
    let or = |given: String, other: &str| if given.is_empty() { other.to_owned() } else { given };
    ItemDraft {
        kind: or(item.kind, "note"),
        modality: or(item.modality, "text"),
        searchable: true,
        ..item
    }
}

fn edge(from: u128, to: u128) -> EdgeDraft {
    EdgeDraft { relation: "about".to_owned(), ..link(ItemId(from), ItemId(to), 1.0) }
}

fn note(id: u128, text: &str) -> ItemDraft {
    ItemDraft { id: Some(ItemId(id)), text: text.to_owned(), ..ItemDraft::default() }
}

fn name(id: u128) -> String {
    names::item("note", ItemId(id))
}

/// The ids of an answer's items, best first.
fn ids(answer: &Value) -> Vec<u128> {
    let items = answer["items"].as_array().unwrap().iter();
    items.map(|item| names::parse_item(item["id"].as_str().unwrap()).unwrap().0).collect()
}

fn item(answer: &Value, id: u128) -> &Value {
    let wanted = Value::from(name(id));
    let items = answer["items"].as_array().unwrap();
    items.iter().find(|item| item["id"] == wanted).unwrap_or_else(|| panic!("{id} in {answer}"))
}

fn lanes(answer: &Value) -> Vec<&str> {
    let lanes = answer["routing"]["lanes"].as_array().unwrap().iter();
    lanes.map(|lane| lane["lane"].as_str().unwrap()).collect()
}
