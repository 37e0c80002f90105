//! Cluster behavior of a node: its answers, their reported staleness, and forwarding. Each test sets the leader of the
//! workspace.

mod deleted;
mod ledgers;
mod node;
mod places;
mod seats;
mod unsure;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use recalld_cluster::{Peer, Taken, Where};
use recalld_common::wrong_node::WrongNode;
use recalld_common::wrong_node::WrongNode::{Proxy, Redirect};
use serde_json::{Value, json};
use support_wire::mcp_client::{self, ACCEPT};
use support_wire::wire::{Answer, Ask};

use node::{
    Node, STALE_MAX, Scripted, Told, begin_stream, calling, follows, message, peer, send_event,
};

const REMEMBER: &str = "brain_remember";
const READ: &str = "retrieval_arbitrate_tool";

fn words(text: &str) -> Value {
    json!({"kind": "note", "title": text, "text": format!("{text}, as it was told")})
}

fn recall(query: &str) -> Ask {
    Ask::post("/recall", &json!({"query": query}))
}

/// The error of an MCP response: its reason and the whole object.
fn error(answer: &Answer) -> (String, Value) {
    let error = answer.json()["error"].clone();
    let reason = error["data"]["reason"].as_str().unwrap_or_default().to_owned();
    (reason, error)
}

/// Returns true if a recall's answer contains the text.
fn finds(answer: &Answer, text: &str) -> bool {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text().contains(text)
}

/// A follower and its leader, both with the same credentials.
fn pair(wrong_node: Option<WrongNode>) -> (Node, Node, Arc<Told>) {
    let writer = Node::start(None, None);
    let told = Told::new(follows(Duration::ZERO, Some(&writer.hosted)), wrong_node);
    let follower = Node::start(Some(&told), Some(&writer));
    (follower, writer, told)
}

#[test]
fn a_node_alone_says_nothing_of_others() {
    let alone = Node::start(None, None);
    let told = Told::new(Where::Here, Some(Proxy));
    let writer = Node::start(Some(&told), None);
    for (node, role) in [(&alone, Value::Null), (&writer, json!("writer"))] {
        for ask in [recall("harbour"), Ask::get("/stats"), calling(READ, json!({"query": "x"}))] {
            let answer = node.ask(ask);
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(answer.header("stale-seconds"), None);
            assert!(!answer.text().contains("stale"), "{}", answer.text());
        }
        let health = node.ask(Ask::get("/health")).json();
        assert_eq!((&health["role"], health.get("stale_s")), (&role, None), "{health}");
        assert_eq!(node.call(REMEMBER, words("the harbour")).status, 200);
    }
    assert_eq!(told.takes.load(Ordering::SeqCst), 0);
}

#[test]
fn a_follower_says_how_old_its_answers_are() {
    let told = Told::new(follows(Duration::from_millis(1_200), None), None);
    let node = Node::start(Some(&told), None);
    for ask in [
        recall("harbour"),
        Ask::post("/semantic-recall", &json!({"query": "harbour"})),
        Ask::get("/stats"),
    ] {
        for answer in [node.ask(ask.clone()), node.ask_near(ask)] {
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(answer.header("stale-seconds"), Some("2"), "never less than it is");
        }
    }
    let answer = node.call(READ, json!({"query": "harbour"}));
    assert_eq!(answer.header("stale-seconds"), Some("2"));
    assert_eq!(answer.json()["result"]["_meta"]["recalld/stale-seconds"], 2, "{}", answer.text());
    let params = json!({"uri": "memory://brief/today"});
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params});
    let answer = node.ask(mcp_client::ask(&read)).json();
    assert_eq!(answer["result"]["_meta"]["recalld/stale-seconds"], 2, "{answer}");
    let asked = json!({"query": "harbour"});
    let answer = node.ask_near(Ask::post("/operator/recall", &asked));
    assert_eq!((answer.status, answer.header("stale-seconds")), (200, Some("2")));
    let health = node.ask(Ask::get("/health")).json();
    assert_eq!((&health["role"], &health["stale_s"]), (&json!("follower"), &json!(2)), "{health}");
}

#[test]
fn a_follower_that_is_too_far_behind_does_not_answer() {
    let told = Told::new(follows(STALE_MAX, None), None);
    let node = Node::start(Some(&told), None);
    assert_eq!(node.ask(recall("harbour")).header("stale-seconds"), Some("30"), "at the bound");
    let beyond = STALE_MAX + Duration::from_nanos(1);
    let unknown = Where::Follows { age: None, writer: None };
    let late = "This replica is 31 s behind; at most 30 s are allowed";
    for (place, why, stale) in [
        (follows(beyond, None), late, json!(31)),
        (unknown, "How far this replica is behind is not known yet", Value::Null),
    ] {
        told.says(place);
        for ask in [recall("harbour"), Ask::get("/stats")] {
            let answer = node.ask(ask);
            assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
            assert_eq!(answer.json()["detail"], why);
            assert_eq!(answer.header("stale-seconds"), None);
        }
        let answer = node.call(READ, json!({"query": "harbour"}));
        let (reason, error) = error(&answer);
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
        assert_eq!((&*reason, &error["message"]), ("replica_behind", &json!(why)), "{error}");
        assert_eq!(error["data"]["stale_seconds"], stale, "{error}");
        let health = node.ask(Ask::get("/health"));
        assert_eq!((health.status, &health.json()["stale_s"]), (200, &stale));
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(node.ask(mcp_client::ask(&list)).status, 200, "what there is has no age");
    }
}

#[test]
fn a_replica_refuses_what_changes_something_and_says_who_writes() {
    let url = "http://192.0.2.7:8789";
    let told = Told::new(follows(Duration::ZERO, Some("192.0.2.7:8789")), None);
    let node = Node::start(Some(&told), None);
    let near = calling(REMEMBER, words("the harbour"));
    for answer in [node.call(REMEMBER, words("the harbour")), node.ask_near(near)] {
        let (reason, error) = error(&answer);
        assert_eq!((answer.status, &*reason), (200, "written_elsewhere"), "{error}");
        assert_eq!((&error["data"]["writer"], &error["code"]), (&json!(url), &json!(-32000)));
        assert_eq!(answer.json()["id"], 7);
    }
    let lines = node.file("lines.jsonl", "");
    for (path, body) in [
        ("/operator/call", json!({"tool": REMEMBER, "arguments": words("the harbour")})),
        ("/operator/import", json!({"path": lines})),
        ("/operator/ingest", json!({"paths": [lines]})),
        ("/operator/compact", json!({})),
        ("/operator/erase", json!({"ids": [], "reason": "", "pending": true})),
    ] {
        let answer = node.ask_near(Ask::post(path, &body));
        assert_eq!((answer.status, answer.header("retry-after")), (421, None), "{path}");
        assert_eq!(answer.json()["writer"], url, "{path}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(url), "{path}");
    }
    assert!(!finds(&node.ask(recall("harbour")), "harbour"), "nothing was stored");
    told.says(follows(Duration::ZERO, None));
    let answer = node.call(REMEMBER, words("the harbour"));
    assert_eq!((answer.status, &*error(&answer).0), (503, "workspace_unavailable"));
    assert_eq!(told.takes.load(Ordering::SeqCst), 0, "a replica takes nothing");
}

#[test]
fn a_client_is_told_where_to_write() {
    let told = Told::new(follows(Duration::ZERO, Some("192.0.2.7:8789")), Some(Redirect));
    let node = Node::start(Some(&told), None);
    let write = calling(REMEMBER, words("the harbour")).with_query("profile=core");
    let answer = node.ask(write.clone());
    let there = "http://192.0.2.7:8789/mcp?profile=core";
    assert_eq!((answer.status, answer.header("location")), (307, Some(there)));
    assert_eq!(answer.json()["writer"], "http://192.0.2.7:8789");
    assert_eq!(node.call(READ, json!({"query": "x"})).status, 200, "reads are answered here");
    // A session is unknown at the leader, so a client in a session is not redirected and has to begin another.
    let session = begin(&node);
    let answer = node.ask(write.clone().header("Mcp-Session-Id", &session));
    let (reason, error) = error(&answer);
    assert_eq!((answer.status, &*reason), (200, "written_elsewhere"), "{error}");
    assert_eq!(error["data"]["writer"], "http://192.0.2.7:8789");
    // Clients on the node's own machine are not redirected.
    let answer = node.ask_near(write);
    assert_eq!((answer.status, answer.header("location")), (200, None));
    assert_eq!(answer.json()["error"]["data"]["reason"], "written_elsewhere");
    told.says(Where::Elsewhere { writer: Some(peer("192.0.2.7:8789")) });
    let answer = node.ask(recall("harbour"));
    let there = Some("http://192.0.2.7:8789/recall");
    assert_eq!((answer.status, answer.header("location")), (307, there), "what is not here either");
}

/// Begins an MCP session at a node and returns its id.
fn begin(node: &Node) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = node.ask(mcp_client::ask(&message));
    answer.header("mcp-session-id").unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
}

#[test]
fn what_changes_something_is_passed_on_to_the_writer() {
    let (follower, writer, _) = pair(Some(Proxy));
    let answer = follower.call(REMEMBER, words("the harbour"));
    let told = answer.json();
    assert_eq!((answer.status, &told["id"]), (200, &json!(7)), "{told}");
    assert!(told["result"]["structuredContent"]["receipt"].is_object(), "{told}");
    assert!(finds(&writer.ask(recall("harbour")), "harbour"), "there it is");
    assert!(!finds(&follower.ask(recall("harbour")), "harbour"), "here it is not");
    // Both nodes check the caller's credentials.
    let mut stranger = calling(REMEMBER, words("the mill"));
    assert_eq!(support_wire::wire::ask(&follower.hosted, &stranger).status, 401);
    stranger = stranger.header("Authorization", "Bearer recalld_wrong");
    assert_eq!(support_wire::wire::ask(&follower.hosted, &stranger).status, 401);
    // A call of an unknown tool is answered locally.
    let answer = follower.call("brain_rememberr", words("the mill"));
    assert_eq!(answer.json()["error"]["code"], -32602, "{}", answer.text());
    // The leader's error is returned unchanged.
    let answer = follower.call(REMEMBER, json!({"kind": "note"})).json();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    // Calls from this machine are not forwarded to another.
    let near = follower.ask_near(calling(REMEMBER, words("the mill")));
    assert_eq!(error(&near).0, "written_elsewhere");
    assert!(!finds(&writer.ask(recall("mill")), "mill"));
}

#[test]
fn a_session_stays_where_it_began_and_writes_go_their_own_way() {
    let (follower, writer, _) = pair(Some(Proxy));
    let session = begin(&follower);
    let within = |ask: Ask| follower.ask(ask.header("Mcp-Session-Id", &session));
    let answer = within(calling(REMEMBER, words("the harbour")));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.json()["result"]["structuredContent"].is_object(), "{}", answer.text());
    assert!(finds(&writer.ask(recall("harbour")), "harbour"));
    assert_eq!(within(calling(READ, json!({"query": "harbour"}))).status, 200);
    // An unknown session is rejected for write calls, too.
    let unknown = calling(REMEMBER, words("the mill")).header("Mcp-Session-Id", &"x".repeat(32));
    let answer = follower.ask(unknown);
    assert_eq!((answer.status, &*error(&answer).0), (404, "session_not_found"));
    assert!(!finds(&writer.ask(recall("mill")), "mill"));
    // A forwarded call can be answered as an event stream.
    let mut params = message(REMEMBER, words("the mill"));
    params["params"]["_meta"] = json!({"progressToken": 1});
    let answer = within(mcp_client::ask(&params));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.events().last().unwrap()["id"], 7);
    assert!(finds(&writer.ask(recall("mill")), "mill"));
}

#[test]
fn what_is_neither_written_nor_followed_here_is_asked_there() {
    let (node, writer, told) = pair(Some(Proxy));
    assert_eq!(writer.call(REMEMBER, words("the harbour")).status, 200);
    told.says(Where::Elsewhere { writer: Some(peer(&writer.hosted)) });
    let answer = node.ask(recall("harbour"));
    assert!(finds(&answer, "harbour"));
    assert_eq!(answer.header("stale-seconds"), None);
    let head = node.ask(Ask::new("HEAD", "/stats"));
    assert_eq!(head.status, 200);
    // The session begins, continues and ends at the leader.
    let session = begin(&node);
    let with = |ask: Ask| ask.header("Mcp-Session-Id", &session);
    assert_eq!(writer.ask(with(calling(READ, json!({"query": "x"})))).status, 200);
    assert_eq!(node.ask(with(calling(READ, json!({"query": "x"})))).status, 200);
    assert_eq!(node.ask(with(Ask::new("DELETE", "/mcp"))).status, 204);
    assert_eq!(writer.ask(with(calling(READ, json!({"query": "x"})))).status, 404);
    let answer = node.ask_near(recall("harbour"));
    assert_eq!(answer.status, 421, "{}", answer.text());
    assert_eq!(node.ask_near(calling(READ, json!({"query": "x"}))).json()["error"]["code"], -32000);
    let list = mcp_client::ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    assert_eq!(node.ask_near(list.clone()).status, 200, "what there is asks no workspace");
    told.says(Where::Elsewhere { writer: None });
    let answer = node.ask(recall("harbour"));
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(node.ask(list).status, 200);
    assert_eq!(told.takes.load(Ordering::SeqCst), 0, "reading takes nothing");
}

#[test]
fn what_nobody_writes_is_taken() {
    let told = Told::new(follows(Duration::ZERO, None), Some(Proxy));
    let node = Node::start(Some(&told), None);
    let answer = node.call(REMEMBER, words("the harbour"));
    let (reason, error) = error(&answer);
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{error}");
    assert_eq!((&*reason, &error["message"]), ("workspace_unavailable", &json!("not now")));
    assert_eq!(told.takes.load(Ordering::SeqCst), 1);
    // A local call acquires the lease, too.
    told.gives(Taken::Here);
    let asked = json!({"tool": REMEMBER, "arguments": words("the harbour")});
    let answer = node.ask_near(Ask::post("/operator/call", &asked));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(told.takes.load(Ordering::SeqCst), 2);
    let answer = node.ask(recall("harbour"));
    assert!(finds(&answer, "harbour"));
    assert_eq!(answer.header("stale-seconds"), None, "it is written here now");
    // Another node may acquire the lease first.
    let writer = Node::start(None, Some(&node));
    told.says(follows(Duration::ZERO, None));
    told.gives(Taken::By(peer(&writer.hosted)));
    assert_eq!(node.call(REMEMBER, words("the mill")).status, 200);
    assert!(finds(&writer.ask(recall("mill")), "mill"));
}

#[test]
fn a_call_is_passed_on_once() {
    let first = Told::new(Where::Here, Some(Proxy));
    let second = Told::new(Where::Here, Some(Proxy));
    let one = Node::start(Some(&first), None);
    let two = Node::start(Some(&second), Some(&one));
    first.says(follows(Duration::ZERO, Some(&two.hosted)));
    second.says(follows(Duration::ZERO, Some(&one.hosted)));
    let answer = one.call(REMEMBER, words("the harbour"));
    let (reason, error) = error(&answer);
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{error}");
    assert_eq!(reason, "workspace_unavailable");
    assert!(error["message"].as_str().unwrap().contains("passed this on"), "{error}");
    // A workspace without a leader may still be acquired by the node that received the forwarded call.
    second.says(follows(Duration::ZERO, None));
    second.gives(Taken::Here);
    assert_eq!(one.call(REMEMBER, words("the harbour")).status, 200);
    assert!(finds(&two.ask(recall("harbour")), "harbour"));
}

#[test]
fn a_writer_that_cannot_be_asked_is_told_from_one_that_did_not_answer() {
    let gone = Scripted::listen().address;
    let told = Told::new(follows(Duration::ZERO, Some(&gone)), Some(Proxy));
    let node = Node::start(Some(&told), None);
    let answer = node.call(REMEMBER, words("the harbour"));
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!((&*error(&answer).0, &answer.json()["id"]), ("writer_unreachable", &json!(7)));
    told.says(Where::Elsewhere { writer: Some(peer(&gone)) });
    let answer = node.ask(recall("harbour"));
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert!(answer.json()["detail"].is_string());
    // An unanswered call may have been executed, so its error must not invite a retry.
    for half in [&b""[..], b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"] {
        let writer = Scripted::listen();
        told.says(follows(Duration::ZERO, Some(&writer.address)));
        let answer = thread::scope(|scope| {
            scope.spawn(|| writer.asked().2.write_all(half).unwrap());
            node.call(REMEMBER, words("the harbour"))
        });
        assert_eq!((answer.status, answer.header("retry-after")), (502, None));
        assert_eq!(error(&answer).0, "answer_lost");
    }
    // A leader without a URL, or at a URL that would expose credentials in clear text, is not called.
    let silent = Peer { node: "b".to_owned(), url: None };
    told.says(Where::Follows { age: None, writer: Some(silent) });
    assert_eq!(error(&node.call(REMEMBER, words("x"))).0, "written_elsewhere");
    told.says(follows(Duration::ZERO, Some("192.0.2.7:8789")));
    let answer = node.call(REMEMBER, words("x"));
    assert_eq!((answer.status, &*error(&answer).0), (503, "workspace_unavailable"));
}

#[test]
fn a_call_goes_as_its_client_sent_it_and_a_stream_comes_as_it_is_sent() {
    let writer = Scripted::listen();
    let told = Told::new(follows(Duration::ZERO, Some(&writer.address)), Some(Proxy));
    let node = Node::start(Some(&told), None);
    let sent = message(REMEMBER, words("the harbour"));
    let ask = Ask::post("/mcp?profile=full", &sent)
        .headers(&[("Accept", ACCEPT), ("Connection", "keep-alive, X-Mine"), ("X-Mine", "1")])
        .header("X-Request-Id", "mine-1")
        .header("X-Forwarded-For", "203.0.113.9");
    let ask = node.signed(ask);
    let mut events = thread::scope(|scope| {
        let client = node.connect();
        let following = scope.spawn(move || client.follow(&ask));
        let (head, body, mut stream) = writer.asked();
        assert!(head.starts_with("post /mcp?profile=full http/1.1\r\n"), "{head}");
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), sent);
        for wanted in [
            "authorization: bearer ",
            "x-gateway-client-secret: ",
            "content-type: application/json\r\n",
            "accept: application/json, text/event-stream\r\n",
            "recalld-hop: 1\r\n",
            "x-request-id: mine-1\r\n",
            "x-forwarded-for: 127.0.0.1\r\n",
        ] {
            assert_eq!(head.matches(wanted).count(), 1, "{wanted} in {head}");
        }
        for unwanted in ["x-mine", "203.0.113.9", "user-agent", "accept-encoding"] {
            assert!(!head.contains(unwanted), "{unwanted} in {head}");
        }
        assert!(head.contains(&format!("host: {}\r\n", writer.address)), "{head}");
        begin_stream(&mut stream);
        send_event(&mut stream, &json!({"n": 1}));
        let mut events = following.join().unwrap();
        // The first event arrives before the leader sends the second.
        assert_eq!(events.next_event().unwrap().1, json!({"n": 1}));
        send_event(&mut stream, &json!({"n": 2}));
        assert_eq!(events.next_event().unwrap().1, json!({"n": 2}));
        stream.write_all(b"20\r\nhalf of a").unwrap();
        events
    });
    // If the leader's stream breaks off, the client's stream breaks off as well, without a regular end.
    let cut = loop {
        if let Err(error) = events.next_event() {
            break error;
        }
    };
    assert_eq!(cut.to_string(), "the connection ended");
}
