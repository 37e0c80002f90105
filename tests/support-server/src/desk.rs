//! A service without a socket, with a quick model whose weights mean nothing and a clock that a test sets: where the
//! tools of the catalog are tried one by one.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::ledger::{Entry, Reader};
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
use recalld_tool_framework::{Answer, Context, Refused};
use recalld_tools::CATALOG;
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::schema::assert_conforms;
use crate::settings::settings;
use support_wire::service::scratch;
use support_wire::tiny_model::Tiny;

/// When it is at a desk until a test says otherwise.
pub const NOW: &str = "2026-01-14T09:30:00Z";
/// Items with this gate are redacted for members.
pub const VEILED: &str = "veiled";
/// Bytes of a result, unless its row says otherwise.
const RESULT_BYTES_MAX: usize = 64 << 10;
/// Those whose rows do: a text of 64 KiB with what is known of it, a value of as much, one line of an export however
/// long it is, rows of as many bytes as were asked for, the result of any of these.
const LONGER: [&str; 6] = [
    "docstore_get_document_tool",
    "fetch",
    "agent_state_read_admit_tool",
    "export_memory_tool",
    "brain_startup_context_tool",
    "brain_command",
];
/// The longest that a call may take here.
const CALL_TIME_MAX: Duration = Duration::from_secs(60);

/// A clock that stands where it was put.
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
    /// What was told of progress by the calls so far.
    told: Mutex<Vec<(u64, u64, String)>>,
    /// Goes when the store is closed.
    scratch: TempDir,
}

/// A time in RFC 3339.
///
/// # Panics
/// When it is none.
pub fn time(text: &str) -> Micros {
    names::parse_time(text).expect("a time")
}

/// The operator of the machine, who may do everything.
pub fn operator() -> Caller {
    Caller::local_operator("local")
}

/// Someone of a team: [`VEILED`] items are redacted for them, restricted ones are denied.
pub fn member() -> Caller {
    Caller { principal: "user:ada".to_owned(), plan: "team".to_owned(), ..operator() }
}

impl Default for Desk {
    fn default() -> Self {
        Self::new()
    }
}

impl Desk {
    /// With an empty store.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn new() -> Self {
        Self::in_folder(scratch())
    }

    /// The same, of a scratch folder in which something lies already: what is beneath its folder `files` may be
    /// ingested.
    ///
    /// # Panics
    /// When the system refuses.
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

    /// The folder that may be ingested from.
    pub fn files(&self) -> std::path::PathBuf {
        self.scratch.path().join("files")
    }

    /// The service.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// What was told of progress by the calls so far: done, of how many, and at what.
    pub fn told(&self) -> Vec<(u64, u64, String)> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the clock.
    pub fn set_time(&self, text: &str) {
        self.clock.0.store(time(text).0, Ordering::SeqCst);
    }

    /// Writes a batch into the store as it is.
    ///
    /// # Panics
    /// When the store refuses it.
    pub fn write(&self, batch: Batch) {
        self.started.parts.local.get().encoders.write(batch).expect("the batch is written");
    }

    /// Replaces an item by one that is like it but for an edit: as an import would, and by no tool.
    ///
    /// # Panics
    /// When there is no such item, or the store refuses.
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

    /// Runs something with the context of a call.
    pub fn with_context<T>(&self, caller: &Caller, run: impl FnOnce(&Context<'_>) -> T) -> T {
        let told = |done: u64, of: u64, what: &str| {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.push((done, of, what.to_owned()));
        };
        let local = self.started.parts.local.get();
        run(&Context {
            services: self.started.parts.tool_services(),
            workspace: &local,
            caller,
            cancel: &CancellationToken::new(),
            deadline: Instant::now() + CALL_TIME_MAX,
            progress: Some(&told),
        })
    }

    /// A governed call.
    ///
    /// # Panics
    /// When the arguments are no object, or the caller may not use the tool.
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
        let bytes = answer.as_ref().map_or(0, |answer| answer.structured.to_string().len());
        assert!(bytes <= RESULT_BYTES_MAX || LONGER.contains(&tool), "{tool} gives {bytes} bytes");
        answer
    }

    /// What a call of the operator's gives.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        self.call_as(&operator(), tool, arguments)
    }

    /// What a call of somebody's gives.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn call_as(&self, caller: &Caller, tool: &str, arguments: Value) -> Value {
        match self.try_call(caller, tool, arguments.clone()) {
            Ok(answer) => {
                assert_conforms(tool, &answer.structured);
                assert!(!answer.text.is_empty(), "{tool} {arguments} has nothing to read");
                answer.structured
            }
            Err(refused) => panic!("{tool} {arguments}: {refused}"),
        }
    }

    /// Why a call of the operator's is refused.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn refusal(&self, tool: &str, arguments: Value) -> String {
        self.refusal_as(&operator(), tool, arguments)
    }

    /// Why a call of somebody's is refused.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn refusal_as(&self, caller: &Caller, tool: &str, arguments: Value) -> String {
        match self.try_call(caller, tool, arguments.clone()) {
            Ok(answer) => panic!("{tool} {arguments}: {}", answer.structured),
            Err(refused) => refused.to_string(),
        }
    }

    /// The ledger's entry that a receipt stands for.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn entry(&self, receipt: &Value) -> Entry {
        self.started.parts.local.get().audit.settled_files().expect("the ledger takes entries");
        let folder = self.scratch.path().join("data/tenants/local/ledger");
        let ledger = Reader::open(&folder).expect("a ledger");
        let seq = receipt["seq"].as_u64().expect("a receipt has its number");
        let entry = ledger.entries(seq).expect("it reads").next().expect("it has this entry");
        entry.expect("it is sound")
    }

    /// Remembers a text, and gives the item's id.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn remember(&self, text: &str) -> String {
        self.remember_as(text, Sensitivity::Internal)
    }

    /// The same with a sensitivity.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn remember_as(&self, text: &str, sensitivity: Sensitivity) -> String {
        let arguments = serde_json::json!({"text": text, "sensitivity": sensitivity.name()});
        let item = self.call("brain_remember", arguments);
        item["item"]["id"].as_str().expect("an item has an id").to_owned()
    }
}
