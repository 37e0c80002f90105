//! Event streams are rechecked: a stream ends with its credential and with its workspace.

use recalld_metastore::Kind;
use serde_json::{Value, json};
use support_server::house::{House, SCOPES, mcp};
use support_wire::service::{Service, run_json};
use support_wire::wire::{self, Ask, Client, Events};

/// An acknowledged `subscriptions/listen` stream.
fn listen(service: &Service, bearer: &str) -> Events {
    const META: &str = "io.modelcontextprotocol/";
    let params = json!({
        "notifications": {"resourceSubscriptions": ["memory://brief/today"]},
        "_meta": {
            format!("{META}protocolVersion"): "2026-07-28", format!("{META}clientCapabilities"): {},
        },
    });
    let ask = mcp(bearer, "subscriptions/listen", &params)
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "subscriptions/listen");
    let mut events = Client::open(service.hosted()).unwrap().follow(&ask);
    let (_, first) = events.next_event().unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    events
}

fn own_stream(service: &Service, bearer: &str) -> Events {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let begun = wire::ask(service.hosted(), &mcp(bearer, "initialize", &params));
    let session = begun.header("mcp-session-id").unwrap();
    let ask = Ask::get("/mcp")
        .header("Accept", "text/event-stream")
        .header("Authorization", &format!("Bearer {bearer}"))
        .header("Mcp-Session-Id", session);
    Client::open(service.hosted()).unwrap().follow(&ask)
}

/// All events until the stream ends.
fn rest(mut events: Events) -> Vec<Value> {
    let mut rest = Vec::new();
    while let Ok((_, data)) = events.next_event() {
        rest.push(data);
    }
    rest
}

#[test]
fn a_stream_ends_with_its_credential_and_with_its_workspace() {
    let house = House::new();
    let acme = house.tenant("acme", "team");
    let kept = house.bearer("acme", Kind::Bearer, &SCOPES);
    let stopped = house.tenant("stopped", "team");
    let gone = house.tenant("gone", "team");
    let key = house.issue("acme", Kind::Workspace, None, &SCOPES);
    let bearers = house.control.credentials("acme", None, 100).unwrap();
    let workspace_key = bearers.iter().find(|one| one.kind == Kind::Workspace).unwrap().id.clone();
    let (service, _scratch) = house.serve(&[]);
    let body = format!("grant_type=client_credentials&client_id=acme&client_secret={key}");
    let ask = Ask::new("POST", "/token")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(body.into_bytes());
    let given = wire::ask(service.hosted(), &ask).json();
    let access = given["access_token"].as_str().unwrap();

    let (of_token, own_of_token) = (listen(&service, access), own_stream(&service, access));
    let (of_stopped, own_of_stopped) = (listen(&service, &stopped), own_stream(&service, &stopped));
    let of_gone = listen(&service, &gone);
    let (mut stays, mut also_stays) = (listen(&service, &kept), listen(&service, &acme));
    let data = service.data();
    run_json(data, &["key", "revoke", "acme", &workspace_key]);
    run_json(data, &["tenant", "suspend", "stopped"]);
    run_json(data, &["tenant", "delete", "gone", "--confirm", "gone"]);
    for (what, events) in [("token", of_token), ("stopped", of_stopped), ("gone", of_gone)] {
        let rest = rest(events);
        // A regular end: the last frame is the result of the request.
        assert_eq!(rest.len(), 1, "{what}: {rest:?}");
        assert_eq!(rest[0]["result"]["resultType"], "complete", "{what}: {rest:?}");
    }
    for (what, events) in [("token", own_of_token), ("stopped", own_of_stopped)] {
        assert_eq!(rest(events), Vec::<Value>::new(), "{what}");
    }
    // Other streams continue and receive notifications.
    let note = json!({"name": "brain_remember", "arguments": {"text": "A note."}});
    assert_eq!(wire::ask(service.hosted(), &mcp(&acme, "tools/call", &note)).status, 200);
    for events in [&mut stays, &mut also_stays] {
        let (_, told) = events.next_event().unwrap();
        assert_eq!(told["method"], "notifications/resources/updated", "{told}");
    }
}
