//! Resource subscriptions and their event streams.

use engine::{Batch, ItemDraft, Micros};
use recalld_common::names;
use recalld_policy::limits::CALL_TIME_MAX;
use serde_json::json;
use support_engine::sample::{hide, items, link, note, tombstones};
use support_wire::service::{Service, scratch};
use support_wire::wire::Ask;

use super::inside::Inside;
use super::{META, Session, modern, remember, service, session};

#[test]
fn followed_items_are_told_of_and_a_lost_stream_is_taken_up_again() {
    let session = session();
    let first = remember("The north buoy is green.", None);
    let uri = format!("memory://item/{first}");
    let mut stream = session.stream(None);
    let second = session.send(Ask::get("/mcp").header("Accept", "text/event-stream"));
    assert_eq!(second.status, 409, "one at a time");
    assert_eq!(session.result("resources/subscribe", &json!({"uri": uri})), json!({}));
    let next = remember("The north buoy is red.", Some(&first));
    let told = stream.next_event().unwrap().1;
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"], json!({"uri": uri}));
    let seen = stream.last_id().unwrap().to_owned();
    drop(stream);
    // Notifications without an open stream are retained.
    let other = format!("memory://item/{next}");
    session.result("resources/subscribe", &json!({"uri": other}));
    remember("The north buoy is gone.", Some(&next));
    let mut again = session.stream(Some(&seen));
    // Superseding the second item does not notify subscribers of the first.
    assert_eq!(again.next_event().unwrap().1["params"], json!({"uri": other}));
    let seen = again.last_id().unwrap().to_owned();
    drop(again);
    // No notification is sent twice, and no event id is reused.
    let lasting = remember("The north buoy is back.", None);
    let mut anew = session.stream(None);
    let lasting_uri = json!({"uri": format!("memory://item/{lasting}")});
    session.result("resources/subscribe", &lasting_uri);
    remember("The north buoy is blue.", Some(&lasting));
    assert_eq!(anew.next_event().unwrap().1["params"], lasting_uri);
    assert_ne!(anew.last_id().unwrap(), seen);
    session.result("resources/unsubscribe", &json!({"uri": other}));
    let unknown = Ask::get("/mcp").header("Accept", "text/event-stream");
    assert_eq!(session.send(unknown.header("Last-Event-ID", "77-1")).status, 400);
    let nobody = json!({"uri": "memory://item/itm_00000000000000000000000000"});
    assert_eq!(session.request("resources/subscribe", &nobody)["error"]["code"], -32002);
}

#[test]
fn a_listening_stream_begins_with_what_was_agreed() {
    let first = remember("The west buoy is black.", None);
    let uri = format!("memory://item/{first}");
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": [uri]});
    let ask = modern("subscriptions/listen", json!({"notifications": wanted}));
    let mut stream = service().connect().follow(&ask);
    let agreed = stream.next_event().unwrap().1;
    assert_eq!(agreed["method"], "notifications/subscriptions/acknowledged");
    let params = &agreed["params"];
    assert_eq!(params["notifications"], json!({"resourceSubscriptions": [uri]}));
    assert_eq!(params["_meta"][format!("{META}subscriptionId")], 0);
    remember("The west buoy is yellow.", Some(&first));
    let told = stream.next_event().unwrap().1;
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], json!(uri));
    assert_eq!(told["params"]["_meta"][format!("{META}subscriptionId")], 0);
}

#[test]
fn the_end_of_the_server_ends_a_listening_stream_with_its_result() {
    let scratch = scratch();
    let service = Service::start(&scratch.path().join("data"), &[]);
    let wanted = json!({"resourceSubscriptions": ["memory://brief/today"]});
    let ask = modern("subscriptions/listen", json!({"notifications": wanted}));
    let mut stream = service.connect().follow(&ask);
    assert_eq!(stream.next_event().unwrap().1["params"]["notifications"], wanted);
    assert!(service.terminate().success());
    let last = stream.next_event().unwrap().1;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(0), &json!("complete")));
    assert!(stream.next_event().is_err(), "then it ends");
}

#[test]
fn a_brief_is_told_of_when_it_says_something_else() {
    let scratch = scratch();
    let inside = Inside::start(&scratch.path().join("data"), CALL_TIME_MAX);
    let local = inside.parts.local.get();
    let store = &local.store;
    let plain = |draft: ItemDraft| items([draft]);
    // Recorded on another day, so that today's brief does not contain it.
    let long_ago = ItemDraft { recorded_at: Some(Micros(0)), ..note("The old light.") };
    let old = store.write(plain(long_ago)).unwrap().items[0];
    let session = Session::begin(&inside.at, "2025-11-25");
    let mut stream = session.stream(None);
    let brief = json!({"uri": "memory://brief/today"});
    let other = json!({"uri": format!("memory://item/{}", names::item("note", old))});
    for uri in [&brief, &other] {
        assert_eq!(session.result("resources/subscribe", uri), json!({}));
    }
    let read = || session.result("resources/read", &brief)["contents"][0]["text"].to_string();
    let listed = |text: &str| text.split_once("Recorded today").unwrap().1.to_owned();
    let before = listed(&read());
    // Chunks, items of other days and links do not change a brief. A subscription beside it is still notified.
    store.write(plain(ItemDraft { kind: "chunk".to_owned(), ..note("A part.") })).unwrap();
    let past = ItemDraft { recorded_at: Some(Micros(1)), ..note("The older light.") };
    let past = store.write(plain(past)).unwrap().items[0];
    store.write(Batch { edges: vec![link(past, old, 1.0)], ..Batch::default() }).unwrap();
    store.write(tombstones([hide(old)])).unwrap();
    assert_eq!(stream.next_event().unwrap().1["params"], other);
    assert_eq!(listed(&read()), before);
    let new = store.write(plain(note("The new light."))).unwrap().items[0];
    assert_eq!(stream.next_event().unwrap().1["params"], brief);
    assert_ne!(listed(&read()), before);
    store.write(tombstones([hide(new)])).unwrap();
    assert_eq!(stream.next_event().unwrap().1["params"], brief);
    assert_eq!(listed(&read()), before);
}
