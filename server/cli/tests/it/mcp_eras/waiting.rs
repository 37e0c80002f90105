//! Calls in flight: disconnecting clients, timeouts, panics, batches, lost streams, server shutdown.

use std::thread;
use std::time::Duration;

use recalld_policy::limits::CALL_TIME_MAX;
use serde_json::{Value, json};
use support_wire::mcp_client::ACCEPT;
use support_wire::wire::{self, Ask, Client};

use super::bench::Bench;
use super::{Session, message, modern};

#[test]
fn leaving_cancels_where_nobody_can_come_again() {
    let bench = Bench::start(CALL_TIME_MAX);
    let follow = |ask: &Ask| Client::open(&bench.server.at).unwrap().follow(ask);
    let streamed = |name: &str| json!({"name": name, "_meta": {"progressToken": 1}});
    let session = Session::begin(&bench.server.at, "2025-11-25");
    let old = follow(&session.signed(message("tools/call", &streamed("old"))));
    assert_eq!(bench.told(), ("old".to_owned(), None));
    // Without a session no client could fetch the answer later, so the call is cancelled.
    let plain = follow(&message("tools/call", &streamed("plain")));
    assert_eq!(bench.told(), ("plain".to_owned(), None));
    drop(plain);
    assert_eq!(bench.told(), ("plain".to_owned(), Some(true)));
    let new = follow(&modern("tools/call", streamed("new")));
    assert_eq!(bench.told(), ("new".to_owned(), None));
    // The session client disconnects first, so its effect precedes the cancellation of the stateless call.
    drop(old);
    drop(new);
    assert_eq!(bench.told(), ("new".to_owned(), Some(true)));
    bench.let_go();
    assert_eq!(bench.told(), ("old".to_owned(), Some(false)));
}

#[test]
fn work_that_hears_nothing_is_answered_for_when_its_time_is_over() {
    let bench = Bench::start(Duration::from_secs(3));
    for ask in [
        message("tools/call", &json!({"name": "deaf"})),
        modern("tools/call", json!({"name": "deaf"})),
    ] {
        let answer = wire::ask(&bench.server.at, &ask);
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &json!(-32001)));
        assert_eq!(answer.json()["error"]["data"]["limit_ms"], 3_000);
        assert_eq!(bench.told(), ("deaf".to_owned(), None), "it began, and goes on");
    }
    bench.let_go();
    assert_eq!(bench.told(), ("deaf".to_owned(), Some(true)), "it was called off");
}

#[test]
fn a_panic_is_answered_and_the_next_call_too() {
    let bench = Bench::start(CALL_TIME_MAX);
    for ask in [
        message("tools/call", &json!({"name": "panic"})),
        modern("tools/call", json!({"name": "panic"})),
    ] {
        let answer = wire::ask(&bench.server.at, &ask);
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &json!(-32603)));
    }
    let streamed = |name: &str| json!({"name": name, "_meta": {"progressToken": 1}});
    for ask in [
        message("tools/call", &streamed("panic")),
        modern("tools/call", streamed("panic")),
        message("tools/call", &streamed("worker-panic")),
    ] {
        let mut stream = Client::open(&bench.server.at).unwrap().follow(&ask);
        assert_eq!(stream.next_event().unwrap().1["error"]["code"], -32603);
        let end = stream.next_event().unwrap_err().to_string();
        assert_eq!(end, "the stream ended", "in good order: the answer was read");
    }
}

/// A batch of tool calls, with their positions as ids.
fn batch(session: &Session, tools: &[&str]) -> Ask {
    let call = |(id, name): (usize, &&str)| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    let calls: Vec<Value> = tools.iter().enumerate().map(call).collect();
    session.signed(Ask::post("/mcp", &json!(calls)).header("Accept", ACCEPT))
}

#[test]
fn the_calls_of_a_batch_share_one_time_bound() {
    let mut bench = Bench::start(Duration::from_secs(3));
    let session = Session::begin(&bench.server.at, "2025-03-26");
    let answer =
        wire::ask(&bench.server.at, &batch(&session, &["worker-1", "worker-2", "worker-3"]));
    let codes: Vec<Value> =
        answer.json().as_array().unwrap().iter().map(|one| one["error"]["code"].clone()).collect();
    assert_eq!(codes, [-32001, -32001, -32001]);
    assert_eq!(bench.told(), ("worker-1".to_owned(), None));
    assert_eq!(bench.told().0, "worker-1");
    bench.server.end();
    assert!(bench.tells.try_recv().is_err(), "the others never began");
}

#[test]
fn a_call_of_a_batch_can_be_called_off_before_its_turn() {
    let mut bench = Bench::start(CALL_TIME_MAX);
    let session = Session::begin(&bench.server.at, "2025-03-26");
    let asked = batch(&session, &["worker-1", "worker-2"]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wire::ask(&bench.server.at, &asked));
        assert_eq!(bench.told(), ("worker-1".to_owned(), None));
        let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 1}});
        assert_eq!(session.send(Ask::post("/mcp", &note)).status, 202);
        bench.let_go();
        let answer = waiting.join().unwrap().json();
        let ids: Vec<&Value> = answer.as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, [0]);
    });
    assert_eq!(bench.told().0, "worker-1");
    bench.server.end();
    assert!(bench.tells.try_recv().is_err(), "the other never began");
}

#[test]
fn a_lost_answer_is_taken_up_again_and_its_request_goes_on() {
    let bench = Bench::start(CALL_TIME_MAX);
    let session = Session::begin(&bench.server.at, "2025-11-25");
    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    let ask = session.signed(message("tools/call", &params));
    let lost = Client::open(&bench.server.at).unwrap().follow(&ask);
    assert_eq!(bench.told(), ("slow".to_owned(), None));
    drop(lost);
    let mut again = session.stream(Some("1-0"));
    bench.let_go();
    assert_eq!(again.next_event().unwrap().1["result"]["content"], json!([]));
    assert_eq!(again.last_id(), Some("1-1"));
    assert!(again.next_event().is_err(), "it has ended");
}

#[test]
fn a_drain_lets_an_answer_come_to_its_end() {
    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    for has_session in [true, false] {
        let bench = Bench::start(CALL_TIME_MAX);
        let (ask, mut own) = if has_session {
            let session = Session::begin(&bench.server.at, "2025-11-25");
            (session.signed(message("tools/call", &params)), Some(session.stream(None)))
        } else {
            (modern("tools/call", params.clone()), None)
        };
        let mut stream = Client::open(&bench.server.at).unwrap().follow(&ask);
        assert_eq!(bench.told(), ("slow".to_owned(), None));
        bench.server.drain();
        if let Some(own) = &mut own {
            assert!(own.next_event().is_err(), "what is only listened to ends at once");
        }
        bench.let_go();
        assert_eq!(stream.next_event().unwrap().1["result"]["content"], json!([]));
        assert_eq!(bench.told(), ("slow".to_owned(), Some(false)));
    }
}
