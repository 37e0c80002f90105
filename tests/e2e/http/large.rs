//! Responses with large texts: texts that fit are included whole, and omitted ones are counted.

use serde_json::{Value, json};
use support_wire::service::{Service, run_json, scratch, write};
use support_wire::tiny_model::Tiny;
use support_wire::wire::Ask;

/// Items, each linked with every other.
const ITEMS: usize = 14;
/// Bytes of each text as stored; in JSON a quotation mark takes two bytes.
const TEXT_BYTES: usize = 900 * 1024;
/// Items that fit a response of 12 MiB.
const FITTING: usize = 6;

/// Items that the word `beacon` ranks by their number.
fn lines() -> String {
    let item = |n: usize| {
        let mut text = "beacon ".repeat(2 * (ITEMS - n));
        text.push_str(&"\"".repeat(TEXT_BYTES - text.len()));
        json!({"type": "item", "ref": n.to_string(), "title": format!("item {n}"), "text": text})
    };
    let edge = |from: usize, to: usize| {
        let weight = 1.0 / to as f64;
        json!({"type": "edge", "from": from.to_string(), "to": to.to_string(),
            "relation": "links_to", "weight": weight})
    };
    let edges = (1..ITEMS).flat_map(|to| (0..to).map(move |from| edge(from, to)));
    let lines = (0..ITEMS).map(item).chain(edges);
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the response to a `POST`, and the number of omitted items by its header.
fn asked(service: &Service, path: &str, body: &Value) -> (Value, Option<usize>) {
    let answer = service.ask(&service.signed(Ask::post(path, body)));
    assert_eq!(answer.status, 200, "{path} {body}");
    assert!(answer.body.len() <= 12 * 1024 * 1024 + 1024, "{} bytes", answer.body.len());
    let left_out = answer.header("x-recalld-left-out").map(|count| count.parse().unwrap());
    (answer.json(), left_out)
}

fn numbers<'a>(items: impl IntoIterator<Item = &'a Value>) -> Vec<usize> {
    let number = |item: &Value| {
        let text = item["text"].as_str().unwrap();
        assert_eq!(text.len(), TEXT_BYTES, "given whole");
        item["ref"].as_str().unwrap().parse().unwrap()
    };
    items.into_iter().map(number).collect()
}

#[test]
fn what_has_no_room_is_left_out_and_told() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let model = Tiny::new(1, 16).write(scratch.path(), "model");
    let model = model.to_str().unwrap();
    let file = write(scratch.path(), "large.jsonl", lines());
    run_json(&data, &["import", file.to_str().unwrap(), "--model", model]);
    let service = Service::start(&data, &["--model", model]);

    let best: Vec<usize> = (0..FITTING).collect();
    let body = json!({"query": "beacon", "limit": FITTING});
    let (all, left_out) = asked(&service, "/recall", &body);
    assert_eq!((numbers(all.as_array().unwrap()), left_out), (best.clone(), None));
    let (cut, left_out) = asked(&service, "/recall", &json!({"query": "beacon", "limit": 50}));
    assert_eq!((numbers(cut.as_array().unwrap()), left_out), (best, Some(ITEMS - FITTING)));

    let (found, left_out) =
        asked(&service, "/semantic-recall", &json!({"query": "beacon", "limit": 50}));
    assert_eq!((found["count"].as_u64(), left_out), (Some(FITTING as u64), Some(ITEMS - FITTING)));
    assert_eq!(numbers(found["results"].as_array().unwrap()).len(), FITTING);
    assert!(found.get("left_out").is_none(), "the header says it");

    // Seeds come before neighbours, and strong neighbours before weak ones.
    let body = json!({"query": "beacon", "limit": 2, "graph": true, "neighbor_limit": 20});
    let (seeds, left_out) = asked(&service, "/recall", &body);
    assert_eq!(numbers(seeds.as_array().unwrap()), [0, 1]);
    let neighbors = seeds[0]["neighbors"].as_array().unwrap().iter().map(|one| &one["item"]);
    assert_eq!(numbers(neighbors), [2, 3, 4, 5]);
    assert_eq!(left_out, Some(2 * (ITEMS - 2) - 4));
    let body = json!({"query": "beacon", "limit": 50, "graph": true});
    assert_eq!(asked(&service, "/recall", &body).1, Some(ITEMS - FITTING));

    operators(&service);
    batches(&service, all.as_array().unwrap());
}

/// The governed path reports omitted items in `routing`.
fn operators(service: &Service) {
    let asked = |limit: usize| {
        let body = json!({"query": "beacon", "limit": limit, "graph": true});
        let (mut answer, header) = asked(service, "/operator/recall", &body);
        assert_eq!(header, None);
        let items = answer["structured"]["items"].take();
        let neighbors = |item: &Value| item["neighbors"].as_array().unwrap().len();
        let neighbors: usize = items.as_array().unwrap().iter().map(neighbors).sum();
        (neighbors, answer["structured"]["routing"]["left_out"].as_u64())
    };
    assert_eq!(asked(2), (6, None), "three for each item");
    assert_eq!(asked(3), (6, Some(3)));
}

/// Requests of a batch that exceed the response's size get an error of their own.
fn batches(service: &Service, items: &[Value]) {
    let read = |item: &Value| {
        let uri = format!("memory://item/{}", item["id"].as_str().unwrap());
        json!({"jsonrpc": "2.0", "id": item["ref"], "method": "resources/read",
            "params": {"uri": uri}})
    };
    let batch: Value = items.iter().map(read).collect();
    let ask = Ask::post("/mcp", &batch).header("Accept", "application/json");
    let answer = service.ask(&ask);
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() <= 12 * 1024 * 1024 + 4096, "{} bytes", answer.body.len());
    let answers = answer.json();
    for (at, answer) in answers.as_array().unwrap().iter().enumerate() {
        assert_eq!(answer["id"], at.to_string());
        // A quotation mark in JSON within JSON takes four bytes.
        assert_eq!(answer["result"].is_object(), at < 3, "{at}");
        if at >= 3 {
            assert_eq!(answer["error"]["data"]["reason"], "answer_too_large");
        }
    }
}
