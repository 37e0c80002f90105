//! Waiting calls of the real tools: their timeout and their cancellation.

use std::thread;
use std::time::Duration;

use recalld_policy::limits::CALL_TIME_MAX;
use serde_json::{Value, json};
use support_wire::service::scratch;
use support_wire::wire::{self, Answer, Ask, Client};

use super::inside::Inside;
use super::{Session, message, modern};

fn ingest() -> Value {
    json!({"name": "ingest_paths_tool", "arguments": {"paths": ["x"], "dry_run": true}})
}

#[test]
fn a_call_past_its_time_is_answered_while_its_work_still_waits() {
    let scratch = scratch();
    let limit = Duration::from_millis(300);
    let inside = Inside::start(&scratch.path().join("data"), limit);
    let local = inside.parts.local.get();
    let turn = local.ingesting.take_within(Duration::from_secs(60)).unwrap();
    // More waiting calls than workers, in both protocol styles; other calls are still answered.
    let answers: Vec<Answer> = thread::scope(|scope| {
        let late = |at: usize| {
            let modern_one = modern("tools/call", ingest());
            let ask =
                if at.is_multiple_of(2) { message("tools/call", &ingest()) } else { modern_one };
            let to = inside.at.clone();
            scope.spawn(move || wire::ask(&to, &ask))
        };
        let calls: Vec<_> = (0..6).map(late).collect();
        assert_eq!(wire::ask(&inside.at, &message("ping", &json!({}))).status, 200);
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for answer in answers {
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (200, &json!(-32001)), "{error}");
        assert_eq!(error["data"]["limit_ms"], 300);
        assert_eq!(error["message"], "Request timed out");
    }
    drop(turn);
    // The timed-out calls have left the lock's queue, so the lock is free.
    assert!(inside.parts.local.get().ingesting.take_within(Duration::from_secs(60)).is_some());
}

#[test]
fn a_notification_calls_a_request_off() {
    let scratch = scratch();
    let inside = Inside::start(&scratch.path().join("data"), CALL_TIME_MAX);
    let local = inside.parts.local.get();
    let turn = local.ingesting.take_within(Duration::from_secs(60)).unwrap();
    let session = Session::begin(&inside.at, "2025-11-25");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| session.send(message("tools/call", &ingest())));
        let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 0, "reason": "test"}});
        // The request may not have arrived yet; cancelling an unknown request has no effect.
        while !waiting.is_finished() {
            assert_eq!(session.send(Ask::post("/mcp", &note)).status, 202);
        }
        let answer = waiting.join().unwrap();
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{}", answer.text());
    });
    drop(turn);
    assert_eq!(session.result("ping", &json!({})), json!({}));
}

#[test]
fn the_end_of_a_session_calls_its_requests_off() {
    let scratch = scratch();
    let inside = Inside::start(&scratch.path().join("data"), CALL_TIME_MAX);
    let local = inside.parts.local.get();
    let _turn = local.ingesting.take_within(Duration::from_secs(60)).unwrap();
    let session = Session::begin(&inside.at, "2025-11-25");
    let mut params = ingest();
    params["_meta"] = json!({"progressToken": "p"});
    let ask = session.signed(message("tools/call", &params));
    let mut stream = Client::open(&session.at).unwrap().follow(&ask);
    assert_eq!(session.send(Ask::new("DELETE", "/mcp")).status, 204);
    assert!(stream.next_event().is_err(), "it ends without an answer");
}
