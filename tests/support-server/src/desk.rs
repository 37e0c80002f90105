//! A service without a socket, with a fast model of meaningless weights and a clock that a test sets, for tests of
//! single tools of the catalog.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::ledger::{Entry, LedgerReader};
use engine::os::clock::Clock;
use engine::{Batch, ItemDraft, Micros, Sensitivity};
use recalld_cli::app;
use recalld_cli::app::Started;
use recalld_common::cancel::CancellationToken;
use recalld_common::names;
use recalld_embedding::model::Silent;
use recalld_fs_util::roots::Roots;
use recalld_policy::Caller;
use recalld_policy::{Action, Rule, Rules, Verdict, WhatMatch, WhoMatch};
use recalld_tool_framework::{Answer, Refused, ToolContext};
use recalld_tools::CATALOG;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::schema::assert_conforms;
use crate::settings::settings;
use support_wire::service::scratch;
use support_wire::tiny_model::Tiny;

/// Initial time of the clock.
pub const NOW: &str = "2026-01-14T09:30:00Z";
/// Gate whose items are redacted for members.
pub const VEILED: &str = "veiled";
/// Most bytes of a result, except for the tools of `LONGER`.
const RESULT_BYTES_MAX: usize = 64 << 10;
/// Tools with a larger limit of their own. Their results are a text of 64 KiB with its metadata, a value of that size,
/// one line of an export of any length, rows up to a requested size, and the result of any of these.
const LONGER: [&str; 6] = [
    "docstore_get_document_tool",
    "fetch",
    "agent_state_read_admit_tool",
    "export_memory_tool",
    "brain_startup_context_tool",
    "brain_command",
];
const CALL_TIME_MAX: Duration = Duration::from_secs(60);

/// A clock that shows a set time.
#[derive(Debug)]
struct Still(AtomicI64);

impl Clock for Still {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::SeqCst))
    }
}

/// A service without a socket.
pub struct Desk {
    started: Started,
    clock: Arc<Still>,
    /// Progress reports of all calls so far.
    told: Mutex<Vec<(u64, u64, String)>>,
    /// Temporary directory, removed after the store is closed.
    scratch: TempDir,
}

/// Parses a time in RFC 3339.
///
/// # Panics
/// The text is no such time.
pub fn time(text: &str) -> Micros {
    names::parse_time(text).expect("a time")
}

/// The operator of the machine, who may do everything.
pub fn operator() -> Caller {
    Caller::local_operator("local")
}

/// A team member: [`VEILED`] items are redacted for this caller, restricted ones are denied.
pub fn member() -> Caller {
    Caller { principal: "user:ada".to_owned(), plan: "team".to_owned(), ..operator() }
}

impl Default for Desk {
    fn default() -> Self {
        Self::new()
    }
}

impl Desk {
    /// Makes a service with an empty store.
    ///
    /// # Panics
    /// A system call fails.
    pub fn new() -> Self {
        Self::in_folder(scratch())
    }

    /// Makes a service in a temporary directory that has files already: the folder `files` may be ingested.
    ///
    /// # Panics
    /// A system call fails.
    pub fn in_folder(scratch: TempDir) -> Self {
        let model = Tiny::new(1, 16).write(scratch.path(), "model");
        let files = scratch.path().join("files");
        std::fs::create_dir_all(&files).expect("a folder for files");
        let settings = settings(&scratch.path().join("data"), Some(model), CALL_TIME_MAX);
        let mut started = app::start(&settings, &mut Silent).expect("a service starts");
        let clock = Arc::new(Still(AtomicI64::new(time(NOW).0)));
        let parts = Arc::get_mut(&mut started.parts).expect("nobody else has it yet");
        parts.clock = Arc::clone(&clock) as Arc<dyn Clock>;
        let mut rules: Vec<Rule> = Rules::initial().iter().cloned().collect();
        rules.push(Rule {
            tells: true,
            name: "veil".to_owned(),
            who: WhoMatch { plan: Some("team".to_owned()), ..WhoMatch::default() },
            what: WhatMatch::gated(VEILED),
            actions: vec![Action::Read],
            verdict: Verdict::Redact,
            opens_unknown_gates: false,
        });
        let roots = Roots::open(&[files]).expect("the folder is there");
        parts.local.change(|local| {
            local.rules = Rules::new(rules).expect("rules of ours").into();
            local.roots = RwLock::new(Arc::new(roots));
        });
        Self { started, clock, told: Mutex::default(), scratch }
    }

    /// The folder that may be ingested.
    pub fn files(&self) -> std::path::PathBuf {
        self.scratch.path().join("files")
    }

    /// The service.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// Progress reports of all calls so far: done, total, and the current work.
    pub fn told(&self) -> Vec<(u64, u64, String)> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the clock.
    pub fn set_time(&self, text: &str) {
        self.clock.0.store(time(text).0, Ordering::SeqCst);
    }

    /// Writes a batch into the store directly.
    ///
    /// # Panics
    /// The store rejects the batch.
    pub fn write(&self, batch: Batch) {
        self.started.parts.local.get().encoders.write(batch).expect("the batch is written");
    }

    /// Supersedes an item by an edited copy, as an import would and no tool does.
    ///
    /// # Panics
    /// There is no such item, or the store rejects the copy.
    pub fn revise(&self, id: &str, edit: impl FnOnce(&mut ItemDraft)) {
        let snapshot = self.started.parts.local.get().store.snapshot();
        let id = names::parse_item(id).expect("an id");
        let place = snapshot.find(id).expect("a sound store").expect("the item is there");
        let item = snapshot.item(place).expect("a sound store");
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        let mut draft = ItemDraft {
            reference: item.reference.map(str::to_owned),
            kind: item.kind.to_owned(),
            modality: item.modality.to_owned(),
            title: item.title.to_owned(),
            text: item.text.to_owned(),
            attributes: item.attributes.to_owned(),
            tags: texts(&item.tags),
            gates: texts(&item.gates),
            supersedes: vec![id],
            source: item.source,
            recorded_at: Some(item.recorded_at),
            recorded_by: item.recorded_by.to_owned(),
            via: "import".to_owned(),
            sensitivity: item.sensitivity,
            searchable: item.searchable,
            ..ItemDraft::default()
        };
        edit(&mut draft);
        self.write(Batch { items: vec![draft], ..Batch::default() });
    }

    /// Runs a function with the context of a call.
    pub fn with_context<T>(&self, caller: &Caller, run: impl FnOnce(&ToolContext<'_>) -> T) -> T {
        let told = |done: u64, of: u64, what: &str| {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.push((done, of, what.to_owned()));
        };
        let local = self.started.parts.local.get();
        run(&ToolContext {
            services: self.started.parts.tool_services(),
            workspace: &local,
            caller,
            cancel: &CancellationToken::new(),
            deadline: Instant::now() + CALL_TIME_MAX,
            progress: Some(&told),
        })
    }

    /// Makes a governed call.
    ///
    /// # Panics
    /// The arguments are no object, or the caller may not use the tool.
    pub fn try_call(
        &self,
        caller: &Caller,
        tool: &str,
        arguments: Value,
    ) -> Result<Answer, Refused> {
        let Value::Object(raw): Value = arguments else { panic!("arguments are an object") };
        let raw: Map<String, Value> = raw;
        let answer = self.with_context(caller, |context| {
            CATALOG.find(caller, tool).expect("a tool of the caller's").call(context, &raw)
        });
        let bytes_of =
            |answer: &Answer| json!([answer.structured, answer.receipt]).to_string().len();
        let bytes = answer.as_ref().map_or(0, bytes_of);
        assert!(bytes <= RESULT_BYTES_MAX || LONGER.contains(&tool), "{tool} gives {bytes} bytes");
        answer
    }

    /// Returns the result of a call by the operator.
    ///
    /// # Panics
    /// The call is refused.
    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        self.call_as(&operator(), tool, arguments)
    }

    /// Returns the result of a call by `caller`.
    ///
    /// # Panics
    /// The call is refused.
    #[track_caller]
    pub fn call_as(&self, caller: &Caller, tool: &str, arguments: Value) -> Value {
        match self.try_call(caller, tool, arguments.clone()) {
            Ok(mut answer) => {
                let content = answer.take_content();
                assert_conforms(tool, &content);
                assert!(!answer.text.is_empty(), "{tool} {arguments} has nothing to read");
                content
            }
            Err(refused) => panic!("{tool} {arguments}: {refused}"),
        }
    }

    /// Returns the refusal of a call by the operator.
    ///
    /// # Panics
    /// The call is not refused.
    #[track_caller]
    pub fn refusal(&self, tool: &str, arguments: Value) -> String {
        self.refusal_as(&operator(), tool, arguments)
    }

    /// Returns the refusal of a call by `caller`.
    ///
    /// # Panics
    /// The call is not refused.
    #[track_caller]
    pub fn refusal_as(&self, caller: &Caller, tool: &str, arguments: Value) -> String {
        match self.try_call(caller, tool, arguments.clone()) {
            Ok(answer) => panic!("{tool} {arguments}: {}", answer.structured),
            Err(refused) => refused.to_string(),
        }
    }

    /// Returns the ledger entry of a receipt.
    ///
    /// # Panics
    /// There is no such entry.
    #[track_caller]
    pub fn entry(&self, receipt: &Value) -> Entry {
        self.started.parts.local.get().audit.settled_files().expect("the ledger takes entries");
        let folder = self.scratch.path().join("data/tenants/local/ledger");
        let ledger = LedgerReader::open(&folder).expect("a ledger");
        let seq = receipt["seq"].as_u64().expect("a receipt has its number");
        let entry = ledger.entries(seq).expect("it reads").next().expect("it has this entry");
        entry.expect("it is sound")
    }

    /// Remembers a text, and returns the item's id.
    ///
    /// # Panics
    /// The call is refused.
    #[track_caller]
    pub fn remember(&self, text: &str) -> String {
        self.remember_as(text, Sensitivity::Internal)
    }

    /// Remembers a text with a sensitivity, and returns the item's id.
    ///
    /// # Panics
    /// The call is refused.
    #[track_caller]
    pub fn remember_as(&self, text: &str, sensitivity: Sensitivity) -> String {
        let arguments = json!({"text": text, "sensitivity": sensitivity.name()});
        let item = self.call("brain_remember", arguments);
        item["item"]["id"].as_str().expect("an item has an id").to_owned()
    }
}
