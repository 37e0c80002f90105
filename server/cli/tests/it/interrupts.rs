//! A call that ends during a long read: the read ends with the call, and its worker handles the next.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use engine::{CancelToken, Durability, Filter, Options, SearchError, Snapshot, Store};
use kernels::Kernels;
use recalld_cli::app;
use recalld_cli::app::Settings;
use recalld_common::cancel::CancellationToken;
use recalld_embedding::encoding::Encoding;
use recalld_embedding::model::Silent;
use recalld_mcp_protocol::{Client, Fault, Outcome};
use recalld_policy::Caller;
use recalld_recall::{Plan, Question};
use recalld_tool_framework::{ServiceError, ToolContext};
use recalld_tools::recall::arbitrate::RecallContext;
use serde_json::{Map, Value, json};
use support_engine::ground;
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{DIMENSIONS, MODEL, halves, items, note};
use support_server::bare_mcp::{BareMcp, Tools};
use support_wire::mcp_client::ACCEPT;
use support_wire::service::scratch;
use support_wire::tiny_model::Tiny;
use support_wire::wire::{self, Ask};

/// Enough items for several cancellation checks in one scan.
const ITEMS: usize = 20_000;
const EAST: [f32; DIMENSIONS] = [1.0, 0.0, 0.0, 0.0];

/// The result of a [`Scanning`] call: the number of its cancellation checks, and the scan's result.
type Ended = (u64, Result<(), SearchError>);

/// A host with one tool that scans a store. With `{"held": true}`, the scan blocks at its second cancellation check
/// until the call is cancelled.
struct Scanning {
    snapshot: Snapshot,
    told: Mutex<Sender<Ended>>,
}

impl Tools for Scanning {
    fn call_tool(
        &self,
        _: &str,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        let asked = Arc::new(AtomicU64::new(0));
        let is_held = arguments.contains_key("held");
        let (cancel, counted) = (client.cancel().clone(), Arc::clone(&asked));
        let stop = CancelToken::from_fn(move || {
            let is_second = counted.fetch_add(1, Ordering::SeqCst) == 1;
            while is_held && is_second && !cancel.is_cancelled() {
                thread::yield_now();
            }
            cancel.is_cancelled()
        });
        let snapshot = self.snapshot.clone().with_cancel(stop);
        let found = snapshot.nearest(&Kernels::detect(), &EAST, 5, &Filter::default());
        let ended = (asked.load(Ordering::SeqCst), found.map(drop));
        self.told.lock().unwrap().send(ended).unwrap();
        Ok(Outcome::Done(json!({"content": []})))
    }
}

fn filled() -> Snapshot {
    let store = Store::open(ground::still(Arc::new(MemoryDisk::default()), 5), Options::default());
    let store = store.unwrap();
    store.bind_model(MODEL).unwrap();
    for _ in 0..ITEMS / 1_000 {
        let draft = |_| engine::ItemDraft { embedding: halves(EAST), ..note("otter") };
        store.write(items((0..1_000).map(draft))).unwrap();
    }
    store.snapshot()
}

fn scan(arguments: &Value) -> Ask {
    let params = json!({"name": "scan", "arguments": arguments});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params});
    Ask::post("/mcp", &body).header("Accept", ACCEPT)
}

#[test]
fn a_scan_past_its_time_ends_and_its_only_worker_takes_the_next_call() {
    let (told, tells) = mpsc::channel();
    let host = Scanning { snapshot: filled(), told: Mutex::new(told) };
    // Long enough for an unblocked scan on a busy machine.
    let call_time_max = Duration::from_secs(10);
    let server = BareMcp::start(host, 1, call_time_max);
    let heard = || tells.recv_timeout(Duration::from_secs(60)).unwrap();

    let late = wire::ask(&server.at, &scan(&json!({"held": true}))).json();
    assert_eq!(late["error"]["code"], -32001, "{late}");
    assert_eq!(late["error"]["data"]["limit_ms"], 10_000);
    assert_eq!(heard(), (2, Err(SearchError::Interrupted)), "it went no further than it was");
    let next = wire::ask(&server.at, &scan(&json!({}))).json();
    assert_eq!(next["result"]["content"], json!([]), "{next}");
    let (asked, ended) = heard();
    assert!(asked > 2, "the scan that was cut short had asked {asked} times, had it been let");
    assert_eq!(ended, Ok(()));
}

/// A tool's snapshots end with its call, whether the call is cancelled or late.
#[test]
fn the_snapshots_of_a_call_end_with_it() {
    let scratch = scratch();
    let settings = Settings {
        data: scratch.path().join("data"),
        model: Some(Tiny::new(1, 16).write(scratch.path(), "model")),
        encoding: Encoding { threads: 1, ..Encoding::detect() },
        call_time_max: Duration::from_secs(30),
        durability: Durability::Sync,
        search_mode: engine::SearchMode::default(),
        config: recalld_config::Config::default(),
        public_url: None,
        pdf: None,
    };
    let started = app::start(&settings, &mut Silent).unwrap();
    let parts = started.parts;
    let caller = Caller::local_operator(parts.local.name());
    let (wanted, unwanted) = (CancellationToken::new(), CancellationToken::new());
    unwanted.cancel();
    let (soon, now) = (Instant::now() + settings.call_time_max, Instant::now());
    for (cancel, deadline, is_over) in
        [(&wanted, soon, false), (&unwanted, soon, true), (&wanted, now, true)]
    {
        let workspace = &*parts.local.get();
        let context = ToolContext {
            services: parts.tool_services(),
            workspace,
            caller: &caller,
            cancel,
            deadline,
            progress: None,
        };
        let view = context.view();
        let expected = if is_over { Err(SearchError::Interrupted) } else { Ok(()) };
        assert_eq!(context.snapshot().check_cancelled(), expected);
        assert_eq!(view.snapshot.check_cancelled(), expected);
        for plan in [
            Plan::governed(Question { text: "otter".to_owned(), ..Question::default() }),
            Plan::semantic(Question { text: "otter".to_owned(), ..Question::default() }),
        ] {
            let ran = RecallContext::now(&context).run(&plan);
            assert_eq!(matches!(ran, Err(ServiceError::Cancelled)), is_over, "{ran:?}");
        }
    }
}
