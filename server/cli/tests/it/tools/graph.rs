//! `graph`: links between items.

use engine::Sensitivity;
use engine::ledger::Effect;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member};

use super::texts;

/// Links two items and returns the edge's id.
#[track_caller]
fn link(desk: &Desk, from: &str, to: &str, relation: &str, weight: f64) -> String {
    let wanted = json!({"from_id": from, "to_id": to, "relation": relation, "weight": weight});
    let answer = desk.call("link_items_tool", wanted);
    assert_eq!(answer["created"], true, "{answer}");
    answer["edge"]["edge_id"].as_str().unwrap().to_owned()
}

/// Stores items with these words and returns their ids.
fn items<const N: usize>(desk: &Desk, words: [&str; N]) -> [String; N] {
    words.map(|word| desk.remember(word))
}

/// The titles of the items in a list.
fn titles(answer: &Value, list: &str) -> Vec<String> {
    let rows = answer[list].as_array().unwrap().iter();
    rows.map(|row| row["item"]["title"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn neighbours_come_the_strongest_first_and_as_they_are_asked_for() {
    let desk = Desk::new();
    let [hub, weak, strong, back] = items(&desk, ["hub", "weak", "strong", "back"]);
    link(&desk, &hub, &weak, "cites", 0.25);
    link(&desk, &hub, &strong, "needs", 0.75);
    link(&desk, &back, &hub, "needs", 0.5);
    let ask = |more: Value| {
        let mut wanted = json!({"item_id": hub});
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        titles(&desk.call("graph_neighbors_tool", wanted), "neighbors")
    };
    assert_eq!(ask(json!({})), ["strong", "back", "weak"]);
    assert_eq!(ask(json!({"direction": "out"})), ["strong", "weak"]);
    assert_eq!(ask(json!({"direction": "in"})), ["back"]);
    assert_eq!(ask(json!({"relations": ["needs"]})), ["strong", "back"]);
    assert_eq!(ask(json!({"relations": ["nothing"]})), [""; 0]);
    let whole = desk.call("graph_neighbors_tool", json!({"item_id": hub}));
    let first = &whole["neighbors"][0];
    assert_eq!((&first["direction"], &first["weight"]), (&json!("out"), &json!(0.75)));
    assert_eq!(first["item"]["id"], strong.as_str());
    assert_eq!(whole["truncated"], false);
    let unknown = json!({"item_id": "itm_00000000000000000000000001"});
    assert_eq!(desk.refusal("graph_neighbors_tool", unknown), "item_id: there is no such item");
}

#[test]
fn a_hub_has_pages_that_lose_and_repeat_nothing() {
    let desk = Desk::new();
    let hub = desk.remember("hub");
    let mut made = Vec::new();
    for n in 0..45 {
        let spoke = desk.remember(&format!("spoke {n}"));
        // Some weights are equal.
        made.push(link(&desk, &hub, &spoke, "has", f64::from(n % 3) / 2.0));
    }
    let (mut seen, mut cursor, mut sizes) = (Vec::new(), Value::Null, Vec::new());
    loop {
        let page = desk.call("graph_neighbors_tool", json!({"item_id": hub, "cursor": cursor}));
        let ids = texts(&page, "neighbors", "edge_id");
        sizes.push(ids.len());
        seen.extend(ids.into_iter().map(str::to_owned));
        if page["truncated"] == false {
            break;
        }
        cursor = page["next_cursor"].clone();
    }
    assert_eq!(sizes, [20, 20, 5]);
    seen.sort();
    made.sort();
    assert_eq!(seen, made);
}

#[test]
fn a_link_is_made_once_and_taken_away() {
    let desk = Desk::new();
    let [lamp, wick] = items(&desk, ["The lamp is of brass.", "Wicks come from Leith."]);
    let wanted = json!({
        "from_id": lamp, "to_id": wick, "relation": "needs", "note": "no light without",
        "idempotency_key": "k",
    });
    let made = desk.call("link_items_tool", wanted.clone());
    assert_eq!(
        (&made["created"], &made["edge"]["note"]),
        (&json!(true), &json!("no light without"))
    );
    assert_eq!(made["edge"]["by"], "operator");
    let repeat = desk.call("link_items_tool", wanted);
    assert_eq!((&repeat["edge"], &repeat["created"]), (&made["edge"], &json!(true)));
    let again = json!({"from_id": lamp, "to_id": wick, "relation": "needs"});
    let again = desk.call("link_items_tool", again);
    assert_eq!((&again["edge"], &again["created"]), (&made["edge"], &json!(false)));
    let keyed =
        json!({"from_id": lamp, "to_id": wick, "relation": "needs", "idempotency_key": "late"});
    let late = desk.call("link_items_tool", keyed.clone());
    assert_eq!(late["created"], false);

    // Recall's graph retriever follows the edge.
    let found = desk.call("retrieval_arbitrate_tool", json!({"query": "lamp of brass"}));
    assert!(found.to_string().contains("Leith"), "{found}");

    let id = made["edge"]["edge_id"].clone();
    let gone = desk.call("unlink_items_tool", json!({"edge_id": id, "reason": "gas now"}));
    assert_eq!((&gone["edge"]["edge_id"], &gone["edge"]["status"]), (&id, &json!("tombstoned")));
    let left = desk.call("graph_neighbors_tool", json!({"item_id": lamp}));
    assert_eq!(left["neighbors"], json!([]));
    let why = desk.refusal("unlink_items_tool", json!({"edge_id": id, "reason": "again"}));
    assert_eq!(why, "edge_id: there is no such link");
    let late_again = desk.call("link_items_tool", keyed);
    assert_eq!(
        (&late_again["created"], &late_again["edge"]["edge_id"]),
        (&json!(false), &id),
        "a repeat makes nothing"
    );
    let new = link(&desk, &lamp, &wick, "needs", 1.0);
    assert_ne!(json!(new), id, "what was taken away may be made anew");
}

#[test]
fn links_that_mean_nothing_are_refused() {
    let desk = Desk::new();
    let [one, other] = items(&desk, ["one", "other"]);
    let refusal = |from: &str, to: &str, relation: &str| {
        desk.refusal("link_items_tool", json!({"from_id": from, "to_id": to, "relation": relation}))
    };
    assert!(refusal(&one, &one, "is").starts_with("to_id: is the item itself"));
    assert!(refusal(&one, &other, "is part of").starts_with("relation: has other characters"));
    let none = "itm_00000000000000000000000001";
    assert_eq!(refusal(&one, none, "is"), "to_id: there is no such item");
    let heavy = json!({"from_id": one, "to_id": other, "relation": "is", "weight": 1.5});
    assert!(desk.refusal("link_items_tool", heavy).starts_with("weight: is 1.5; 0 to 1"));
}

#[test]
fn a_path_is_a_shortest_one_whichever_way_its_links_run() {
    let desk = Desk::new();
    let [a, b, c, d, far] = items(&desk, ["a", "b", "c", "d", "far"]);
    for (from, to) in [(&a, &b), (&c, &b), (&c, &d), (&d, &far)] {
        link(&desk, from, to, "next", 1.0);
    }
    let path = |from: &str, to: &str, most: u64| {
        desk.call("graph_path_tool", json!({"from_id": from, "to_id": to, "max_hops": most}))
    };
    let way = path(&a, &d, 4);
    assert_eq!(texts(&way, "items", "title"), ["a", "b", "c", "d"]);
    assert_eq!(way["edges"].as_array().unwrap().len(), 3);
    assert_eq!((&way["edges"][1]["from_id"], &way["edges"][1]["to_id"]), (&json!(c), &json!(b)));
    assert_eq!(path(&a, &d, 2)["found"], false);
    assert_eq!(texts(&path(&a, &far, 4), "items", "title"), ["a", "b", "c", "d", "far"]);
    assert_eq!(path(&a, &far, 3)["found"], false);
    let itself = path(&a, &a, 1);
    assert_eq!((&itself["found"], &itself["edges"]), (&json!(true), &json!([])));
    link(&desk, &a, &d, "short", 0.1);
    assert_eq!(texts(&path(&a, &far, 6), "items", "title"), ["a", "d", "far"]);
    let apart = desk.remember("apart");
    assert_eq!(path(&a, &apart, 6)["found"], false);
}

#[test]
fn nothing_leads_through_what_policy_denies() {
    let desk = Desk::new();
    let [a, veiled, secret, b] = items(&desk, ["a", "veiled", "secret", "b"]);
    desk.revise(&veiled, |item| item.gates = vec![VEILED.to_owned()]);
    desk.revise(&secret, |item| item.sensitivity = Sensitivity::Restricted);
    let current = |title: &str| {
        let found = desk.call("graphrag_status_tool", json!({}));
        assert!(found["nodes"].as_u64().unwrap() >= 4);
        let list = desk.call("retrieval_arbitrate_tool", json!({"query": title}));
        let items = list["items"].as_array().unwrap().iter();
        let of = items.filter(|item| item["title"] == title && item["status"] == "current");
        of.map(|item| item["id"].as_str().unwrap().to_owned()).next().unwrap()
    };
    let (veiled, secret) = (current("veiled"), current("secret"));
    link(&desk, &a, &secret, "next", 1.0);
    let hidden_end = link(&desk, &secret, &b, "next", 1.0);
    link(&desk, &a, &veiled, "next", 0.5);
    let ask = |tool: &str, wanted: Value| desk.call_as(&member(), tool, wanted);
    let seen = ask("graph_neighbors_tool", json!({"item_id": a}));
    assert_eq!(titles(&seen, "neighbors"), ["[redacted by policy]"]);
    let touched = desk.entry(&seen["receipt"]).touched;
    assert_eq!(touched.len(), 1);
    assert_eq!(touched[0].effect, Effect::Redacted, "nobody has read it");
    assert_eq!(ask("graph_path_tool", json!({"from_id": a, "to_id": b}))["found"], false);
    assert_eq!(desk.call("graph_path_tool", json!({"from_id": a, "to_id": b}))["found"], true);
    let drawn = ask("brain_institutional_graph_tool", json!({"item_id": a, "depth": 3}));
    assert!(!drawn.to_string().contains("secret"), "{drawn}");
    let (own, all) =
        (ask("graphrag_status_tool", json!({})), desk.call("graphrag_status_tool", json!({})));
    assert_eq!((&own["edges"], &all["edges"]), (&json!(1), &json!(3)), "{own} {all}");
    let refused = |tool: &str, wanted: Value| desk.refusal_as(&member(), tool, wanted);
    let why = refused("unlink_items_tool", json!({"edge_id": hidden_end, "reason": "x"}));
    assert_eq!(why, "edge_id: there is no such link");
    let wanted = json!({"from_id": a, "to_id": secret, "relation": "is"});
    assert_eq!(refused("link_items_tool", wanted), "to_id: there is no such item");
    let why = refused("graph_neighbors_tool", json!({"item_id": secret}));
    assert_eq!(why, "item_id: there is no such item");
}

#[test]
fn figures_are_those_of_the_graph_as_it_is() {
    let desk = Desk::new();
    let empty = desk.call("graphrag_status_tool", json!({}));
    assert_eq!((&empty["nodes"], &empty["components"]), (&json!(0), &json!(0)));
    let [a, b, c, _alone] = items(&desk, ["a", "b", "c", "alone"]);
    link(&desk, &a, &b, "needs", 1.0);
    link(&desk, &b, &c, "needs", 1.0);
    let last = link(&desk, &a, &c, "cites", 1.0);
    let figures = desk.call("graphrag_status_tool", json!({}));
    let wanted = json!({
        "nodes": 4, "edges": 3, "edges_by_relation": {"cites": 1, "needs": 2}, "components": 2,
        "largest_component": 3, "isolated": 1, "communities": 1,
        "degree": {"p50": 2, "p95": 2, "max": 2}, "built_at": support_server::desk::NOW,
        "receipt": figures["receipt"],
    });
    assert_eq!(figures, wanted);
    desk.set_time("2026-01-15T09:30:00Z");
    let kept = desk.call("graphrag_status_tool", json!({}));
    assert_eq!(kept["built_at"], support_server::desk::NOW, "nothing has changed");
    desk.call("unlink_items_tool", json!({"edge_id": last, "reason": "x"}));
    let changed = desk.call("graphrag_status_tool", json!({}));
    assert_eq!(
        (&changed["edges"], &changed["built_at"]),
        (&json!(2), &json!("2026-01-15T09:30:00Z"))
    );
}

#[test]
fn a_picture_is_of_what_lies_around_and_says_titles_as_they_are() {
    let desk = Desk::new();
    let [a, b, c] = items(&desk, ["a \"quoted\" [title] \\ |x|", "b", "c"]);
    link(&desk, &a, &b, "needs", 1.0);
    link(&desk, &b, &c, "needs", 1.0);
    link(&desk, &c, &a, "cites", 1.0);
    let draw = |more: Value| {
        let mut wanted = json!({"item_id": a});
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        desk.call("brain_institutional_graph_tool", wanted)
    };
    let near = draw(json!({"relations": ["needs"]}));
    assert_eq!(texts(&near, "nodes", "id"), [&a, &b]);
    assert_eq!(near["nodes"][1]["distance"], 1);
    let picture = near["picture"].as_str().unwrap();
    assert!(picture.contains("  -[needs]-> b\n"), "{picture}");
    let whole = draw(json!({"depth": 2, "format": "mermaid"}));
    assert_eq!(
        (whole["nodes"].as_array().unwrap().len(), whole["edges"].as_array().unwrap().len()),
        (3, 3)
    );
    let picture = whole["picture"].as_str().unwrap();
    let node = format!("{a}[\"a #34;quoted#34; #91;title#93; #92; #124;x#124;\"]");
    assert!(picture.starts_with("flowchart LR\n") && picture.contains(&node), "{picture}");
    assert!(picture.contains(&format!("{a} -->|\"needs\"| {b}")), "{picture}");
    let dot = draw(json!({"format": "dot"}));
    let dot = dot["picture"].as_str().unwrap();
    assert!(dot.contains(r#"[label="a \"quoted\" [title] \\ |x|"];"#), "{dot}");
    let topic = desk.call("brain_institutional_graph_tool", json!({"topic": "quoted title"}));
    assert_eq!(topic["nodes"][0]["id"], a.as_str());
    let both = desk.refusal("brain_institutional_graph_tool", json!({"topic": "a", "item_id": a}));
    assert_eq!(both, "topic: give topic or item_id, one of the two");
    assert!(desk.refusal("brain_institutional_graph_tool", json!({})).starts_with("topic: give"));
}

#[test]
fn a_path_leads_over_what_is_superseded_as_it_is_stored() {
    let desk = Desk::new();
    let [a, old, b] = items(&desk, ["a", "old", "b"]);
    link(&desk, &a, &old, "next", 1.0);
    link(&desk, &old, &b, "next", 1.0);
    desk.call("supersede_item_tool", json!({"item_id": old, "text": "new", "reason": "x"}));
    let way = desk.call("graph_path_tool", json!({"from_id": a, "to_id": b}));
    assert_eq!(texts(&way, "items", "status"), ["current", "superseded", "current"]);
}
