//! Withheld items do not affect any answer to the caller, and are recorded in the ledger.

use engine::ledger::{Effect, LedgerReader};
use engine::{Batch, ItemDraft, ItemId, Sensitivity, SourceDraft, SourceId};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::Caller;
use recalld_policy::limits::CALL_TIME_MAX;
use serde_json::{Value, json};
use support_engine::sample::link;
use support_wire::service::scratch;
use support_wire::wire;
use tempfile::TempDir;

use super::inside::Inside;
use super::message;

const RECALL: &str = "retrieval_arbitrate_tool";

/// More items than a retriever's candidate limit.
const KEPT_BACK: usize = 60;

/// Questions by words, a phrase, meaning, an edge, and without any match; then by a path, a period, and a snapshot time
/// at which only withheld items existed.
const QUESTIONS: [&str; 9] = [
    "who keeps the lamp paraffin?",
    "the \"paraffin store\"",
    "fuel for lighting",
    "what is by the pier?",
    "zebra crossing",
    "what is in lamp.py?",
    "what was noted in 2024?",
    "what was noted in 2020?",
    "who keeps the lamp paraffin as of 2021?",
];

const GUEST: &[Scope] = &[Scope::TenantRead, Scope::BrainProxy];
const AUDITOR: &[Scope] = &[Scope::TenantRead, Scope::BrainProxy, Scope::AuditRead];

struct House {
    scratch: TempDir,
    operators: Inside,
}

impl House {
    fn new() -> Self {
        let scratch = scratch();
        let operators = Inside::start(&scratch.path().join("data"), CALL_TIME_MAX);
        Self { scratch, operators }
    }

    fn door(&self, scopes: &[Scope]) -> Inside {
        self.operators.beside_for(Caller {
            principal: "guest".to_owned(),
            plan: "team".to_owned(),
            scopes: scopes.to_vec(),
            ..Caller::local_operator("local")
        })
    }

    fn remember(&self, mut arguments: Value, text: &str) -> ItemId {
        arguments["text"] = text.into();
        let item = call(&self.operators.at, "brain_remember", &arguments);
        names::parse_item(item["item"]["id"].as_str().unwrap()).unwrap()
    }

    fn link(&self, from: ItemId, to: ItemId) {
        let batch = Batch { edges: vec![link(from, to, 1.0)], ..Batch::default() };
        self.operators.parts.local.get().store.write(batch).unwrap();
    }

    /// Stores a version of `lamp.py` with one item.
    fn write_lamp(&self, item: ItemDraft) {
        let id = SourceId(item.id.unwrap().0);
        let source = SourceDraft {
            id: Some(id),
            kind: "file".to_owned(),
            uri: format!("file:///srv/{}/lamp.py", id.0),
            ..SourceDraft::default()
        };
        let item = ItemDraft {
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            searchable: true,
            source: Some(id),
            ..item
        };
        let batch = Batch { sources: vec![source], items: vec![item], ..Batch::default() };
        self.operators.parts.local.get().store.write(batch).unwrap();
    }

    /// Effects and items of the last ledger entry.
    fn last_touched(&self) -> Vec<(Effect, ItemId)> {
        let folder = self.scratch.path().join("data/tenants/local/ledger");
        let entry =
            LedgerReader::open(&folder).unwrap().entries(1).unwrap().last().unwrap().unwrap();
        let touched = entry.touched.iter();
        touched.map(|one| (one.effect, ItemId(u128::from_le_bytes(one.item)))).collect()
    }
}

fn call(at: &str, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let answer = wire::ask(at, &message("tools/call", &params)).json();
    let result = &answer["result"];
    assert_ne!(result["isError"], true, "{answer}");
    result["structuredContent"].clone()
}

fn recall(at: &str, question: &str) -> Value {
    call(at, RECALL, &json!({"query": question}))
}

/// Removes the fields that differ between calls: times, and the receipt's numbers.
fn lasting(mut answer: Value) -> Value {
    for item in answer["items"].as_array_mut().unwrap() {
        assert!(item["grounding_token"].take().is_string());
    }
    let routing = &mut answer["routing"];
    routing["took_ms"].take();
    routing["lanes"].as_array_mut().unwrap().iter_mut().for_each(|lane| {
        lane["took_ms"].take();
    });
    for name in ["receipt_id", "seq", "at"] {
        answer["receipt"][name].take();
    }
    answer
}

fn all(at: &str) -> Vec<Value> {
    QUESTIONS.iter().map(|question| lasting(recall(at, question))).collect()
}

fn events(at: &str) -> u64 {
    call(at, "recall_stats", &json!({}))["sensitivity_events"].as_u64().unwrap()
}

#[test]
fn an_answer_is_the_same_whatever_is_kept_back() {
    let house = House::new();
    let note = |text: &str| house.remember(json!({}), text);
    let keeper = note("The keeper fills the lamp with paraffin at dusk.");
    note("Paraffin is kept in the paraffin store below the lamp room.");
    note("The kelp by the pier grows fast.");
    note("Minutes of the harbour board.");
    let dated = |id, time: &str, text: &str| ItemDraft {
        id: Some(ItemId(id)),
        recorded_at: Some(names::parse_time(time).unwrap()),
        text: text.to_owned(),
        ..ItemDraft::default()
    };
    house.write_lamp(dated(100, "2024-02-02T10:00:00Z", "def wind(turns): the spring breaks"));
    let (guest, auditor) = (house.door(GUEST), house.door(AUDITOR));
    let before = all(&guest.at);
    let found: Vec<usize> =
        before.iter().map(|answer| answer["items"].as_array().unwrap().len()).collect();
    assert!(found[0] > 0 && found[1] == 1, "{found:?}");
    let of_lamp = |item: &Value| item["why"]["place"] == 0.5;
    assert!(before[5]["items"].as_array().unwrap().iter().any(of_lamp), "{}", before[5]);
    assert!(before[8]["routing"].get("as_of").is_none(), "{}", before[8]);
    assert!(before.iter().all(|answer| answer["receipt"]["decision"] == "allow"), "{before:?}");

    for n in 0..KEPT_BACK {
        let text = format!("lamp paraffin store, the \"paraffin store\" of the pier, fuel {n}");
        let how = if n % 2 == 0 {
            json!({"sensitivity": "restricted"})
        } else {
            json!({"gates": ["pii"]})
        };
        let kept = house.remember(how, &text);
        if n % 2 == 0 {
            house.link(keeper, kept);
        }
        let id = 1000 + 10 * u128::try_from(n).unwrap();
        let year = if n % 2 == 0 { 2020 } else { 2024 };
        let secret = dated(id, &format!("{year}-03-03T10:00:00Z"), "The lamp's code was noted.");
        house.write_lamp(ItemDraft { sensitivity: Sensitivity::Restricted, ..secret });
    }
    let open = events(&guest.at);
    assert_eq!(all(&guest.at), before);
    // The statistics do not reveal the withheld items to the guest either.
    assert_eq!(events(&guest.at), open);
    assert!(events(&auditor.at) > open);
    assert_eq!(events(&house.operators.at), events(&auditor.at));
}

#[test]
fn what_is_kept_back_stands_in_the_ledger() {
    let house = House::new();
    let shown = house.remember(json!({}), "The paraffin store is below the lamp room.");
    let denied = house.remember(json!({"sensitivity": "restricted"}), "The paraffin store's code.");
    let redacted = house.remember(json!({"gates": ["pii"]}), "Ada has the paraffin store's key.");
    let away = house.remember(json!({"sensitivity": "restricted"}), "The board's minutes.");
    let (guest, auditor) = (house.door(GUEST), house.door(AUDITOR));
    let question = "the \"paraffin store\"";
    let answer = recall(&guest.at, question);
    assert_eq!(answer["items"].as_array().unwrap().len(), 1, "{answer}");
    assert_eq!(
        (&answer["routing"]["withheld"], &answer["receipt"]["decision"]),
        (&json!(0), &json!("allow"))
    );
    let mut touched = house.last_touched();
    touched.sort_by_key(|(_, id)| *id);
    let mut wanted =
        [(Effect::Read, shown), (Effect::Withheld, denied), (Effect::Withheld, redacted)];
    wanted.sort_by_key(|(_, id)| *id);
    assert_eq!(touched, wanted);
    assert!(!touched.iter().any(|(_, id)| *id == away));
    // A caller who may read the ledger sees the count at once.
    let told = recall(&auditor.at, question);
    assert_eq!(
        (&told["routing"]["withheld"], &told["receipt"]["decision"]),
        (&json!(2), &json!("deny"))
    );
    assert_eq!(told["items"].as_array().unwrap().len(), 1, "{told}");
}

#[test]
fn what_is_redacted_is_found_by_its_edges_and_not_by_its_words() {
    let house = House::new();
    let lamp = house.remember(json!({}), "The lamp burns paraffin.");
    let pii = house.remember(json!({"gates": ["pii"]}), "Ada Lovelace brings it on Mondays.");
    let guest = house.door(GUEST);
    for question in ["Ada Lovelace", "\"brings it\"", "who comes on Mondays?"] {
        let items = recall(&guest.at, question)["items"].clone();
        let ids = items.as_array().unwrap().iter().map(|item| item["id"].clone());
        assert!(!ids.into_iter().any(|id| id == names::item("note", pii)), "{question}: {items}");
    }
    house.link(lamp, pii);
    let answer = recall(&guest.at, "which lamp burns paraffin?");
    let items = answer["items"].as_array().unwrap();
    let outline = items.iter().find(|item| item["text"] == "[redacted by policy]");
    let outline = outline.unwrap_or_else(|| panic!("{answer}"));
    assert!(!answer.to_string().contains("Lovelace"), "{answer}");
    assert_eq!(outline["title"], "[redacted by policy]");
    assert_eq!(answer["receipt"]["decision"], "redact", "{answer}");
    assert!(house.last_touched().contains(&(Effect::Redacted, pii)));
}
