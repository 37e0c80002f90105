//! Benchmarks leave only their results, whatever their end.

use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use recalld_common::cancel::CancellationToken;
use recalld_tool_framework::ToolContext;
use recalld_tools::CATALOG;
use serde_json::{Value, json};
use support_server::desk::{Desk, operator};
use support_wire::service::scratch;

const STORAGE: &str = "brain_benchmark_storage";

/// Calls a tool and cancels it at its first progress notification. Returns the error.
fn called_off(desk: &Desk, tool: &str, arguments: &Value) -> String {
    let cancel = CancellationToken::new();
    let steps = Mutex::new(0_u64);
    let progress = |_: u64, _: u64, _: &str| {
        *steps.lock().unwrap() += 1;
        cancel.cancel();
    };
    let caller = operator();
    let context = ToolContext {
        services: desk.started().parts.tool_services(),
        workspace: &desk.started().parts.local.get(),
        caller: &caller,
        cancel: &cancel,
        deadline: Instant::now() + Duration::from_secs(60),
        progress: Some(&progress),
    };
    let raw = arguments.as_object().unwrap();
    let why = CATALOG.find(&caller, tool).unwrap().call(&context, raw).unwrap_err().to_string();
    assert!(*steps.lock().unwrap() > 0, "{tool} had begun");
    why
}

fn has_scratch(desk: &Desk) -> bool {
    desk.started().parts.data.join("bench-scratch").exists()
}

#[test]
fn one_that_is_called_off_leaves_nothing() {
    let desk = Desk::new();
    for n in 0..12 {
        desk.remember(&format!("The lamp number {n} of the tower burns paraffin oil."));
    }
    let before = desk.started().parts.local.get().store.snapshot().seq();
    for (tool, wanted) in [
        (STORAGE, json!({"n": 100_000})),
        ("brain_benchmark_encoder", json!({"n": 1000})),
        ("brain_benchmark_recall", json!({"queries": 200})),
        ("brain_benchmark_quality", json!({"n": 500})),
    ] {
        let why = called_off(&desk, tool, &wanted);
        assert_eq!(why, "the call was cancelled; nothing more was done", "{tool}");
    }
    assert!(!has_scratch(&desk));
    assert_eq!(
        desk.started().parts.local.get().store.snapshot().seq(),
        before,
        "no figures are kept"
    );
    assert_eq!(desk.call("brain_benchmark_report", json!({}))["results"], json!([]));
}

#[test]
fn the_scratch_store_of_a_killed_process_goes_at_the_next_start() {
    let folder = scratch();
    let left = folder.path().join("data/bench-scratch");
    fs::create_dir_all(left.join("wal")).unwrap();
    fs::write(left.join("wal/1"), "torn").unwrap();
    let desk = Desk::in_folder(folder);
    assert!(!has_scratch(&desk));
    let figures = desk.call(STORAGE, json!({"n": 300}));
    assert_eq!((&figures["n"], &figures["sync"]["n"]), (&json!(300), &json!(50)), "{figures}");
    assert!(!has_scratch(&desk));
}
