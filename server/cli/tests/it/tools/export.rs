//! The export tool: the complete store, line by line and page by page, for an unrestricted caller; for others, no trace
//! of the withheld rest.

use std::collections::BTreeSet;

use engine::{
    Batch, EdgeDraft, ItemDraft, ItemId, NoThrottle, Sensitivity, Snapshot, SourceDraft, SourceId,
    Store,
};
use recalld_api::operator::{Import, import_as_operator};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_interchange::lines::write;
use recalld_policy::Caller;
use serde_json::{Value, json};
use support_engine::sample::link as link_of;
use support_engine::{ground, random_store};
use support_server::desk::{Desk, VEILED, member, operator};
use support_server::sample_catalog;

use super::texts;

const TOOL: &str = "export_memory_tool";

/// Export lines of a snapshot, as written by `recalld export`.
fn whole(snapshot: &Snapshot) -> String {
    let mut bytes = Vec::new();
    write::all::<engine::SearchError>(snapshot, |chunk| {
        bytes.extend_from_slice(chunk);
        Ok(())
    })
    .unwrap();
    String::from_utf8(bytes).unwrap()
}

fn stored(desk: &Desk) -> String {
    whole(&desk.started().parts.local.get().store.snapshot())
}

/// Fetches a page and checks the properties of every page.
fn page(desk: &Desk, caller: &Caller, wanted: &Value, cursor: Option<&str>) -> Value {
    let mut wanted = wanted.clone();
    if let Some(cursor) = cursor {
        wanted["cursor"] = cursor.into();
    }
    let page = desk.call_as(caller, TOOL, wanted);
    let lines = page["lines"].as_array().unwrap();
    let counts = page["counts"].as_object().unwrap();
    let counted: u64 = counts.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(counted, lines.len() as u64, "{page}");
    assert_eq!(page["truncated"], page.get("next_cursor").is_some(), "{page}");
    assert!(lines.len() <= 100);
    let bytes = page["lines"].to_string().len();
    assert!(bytes <= 61 << 10 || lines.len() == 1, "{bytes} bytes in {} lines", lines.len());
    page
}

/// All pages of an export as one text; `between` runs after each page but the last.
fn exported_while(
    desk: &Desk,
    caller: &Caller,
    wanted: &Value,
    mut between: impl FnMut(usize),
) -> String {
    let (mut all, mut cursor, mut seq) = (String::new(), None::<String>, None);
    for pages in 1.. {
        let page = page(desk, caller, wanted, cursor.as_deref());
        for line in page["lines"].as_array().unwrap() {
            all.push_str(line.as_str().unwrap());
            all.push('\n');
        }
        assert_eq!(*seq.get_or_insert(page["seq"].clone()), page["seq"], "one commit for all");
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
        assert!(pages < 500, "it comes to an end");
        between(pages);
    }
    all
}

fn exported(desk: &Desk, caller: &Caller, wanted: Value) -> String {
    exported_while(desk, caller, &wanted, |_| {})
}

fn rows(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_type<'a>(rows: &'a [Value], name: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["type"] == name).collect()
}

/// A new service with these lines imported, none of which may be invalid.
fn imported(lines: &str) -> Desk {
    let desk = Desk::new();
    let file = desk.files().join("lines.jsonl");
    std::fs::write(&file, lines).unwrap();
    let raw = json!({"path": file, "strict": true});
    let raw = raw.as_object().unwrap();
    let wanted = Import::parse(raw).unwrap();
    let report =
        desk.with_context(&operator(), |context| import_as_operator(context, raw, &wanted));
    let report = report.unwrap().structured;
    assert_eq!(report["bad_count"], 0, "{report}");
    desk
}

/// Export lines of a store of random rows, some of them hidden and some erased.
fn random(seed: u64) -> String {
    let scratch = support_wire::service::scratch();
    let store = Store::open(ground::folder(scratch.path(), seed), ground::unmerged()).unwrap();
    random_store::fill(&store, seed, 40, true);
    assert!(store.erase_pending(&NoThrottle).unwrap() > 0);
    whole(&store.snapshot())
}

#[test]
fn all_pages_together_are_the_store_and_make_it_again() {
    for seed in [3, 4] {
        let desk = imported(&random(seed));
        let before = stored(&desk);
        let all = exported(&desk, &operator(), json!({}));
        assert!(all.lines().count() > 200, "more than one page");
        assert!(all.contains(r#""gone":true"#) && all.contains(r#""tombstoned":true"#));
        assert!(all == before, "byte for byte what is stored");
        let again = imported(&all);
        assert!(stored(&again) == before, "and an import of it is the same store");
    }
}

#[test]
fn an_export_shows_one_commit_whatever_is_written_meanwhile() {
    let desk = imported(&random(5));
    let before = stored(&desk);
    let standing = desk.remember("the wharf has a crane");
    let wanted = stored(&desk);
    assert_ne!(wanted, before);
    let all = exported_while(&desk, &operator(), &json!({}), |pages| {
        desk.remember(&format!("written after page {pages}"));
        let again = json!({
            "item_id": standing, "text": format!("the wharf has {pages} cranes"), "reason": "counted",
        });
        if pages == 1 {
            desk.call("supersede_item_tool", again);
        }
    });
    assert!(all == wanted, "as it was when it began");
    // If an item is superseded during the export, neither version is lost.
    let desk = Desk::new();
    let ids: Vec<String> =
        (0..150).map(|n| desk.remember(&format!("the buoy {n} is red"))).collect();
    let last = ids.last().unwrap().clone();
    let wanted = json!({"current_only": true});
    let all = exported_while(&desk, &operator(), &wanted, |_| {
        let newer = json!({"item_id": last, "text": "the buoy is green", "reason": "painted"});
        desk.try_call(&operator(), "supersede_item_tool", newer).ok();
    });
    assert_eq!(of_type(&rows(&all), "item").len(), 150);
    assert!(all.contains(&last), "it stood when the export began");
}

#[test]
fn an_erasure_meanwhile_ends_the_list_for_who_would_miss_its_tombstone() {
    let desk = Desk::new();
    let ids: Vec<String> =
        (0..250).map(|n| desk.remember(&format!("the lamp {n} is lit"))).collect();
    let erase = |id: &String| {
        let wanted = json!({"item_id": id, "reason": "asked for", "mode": "erase"});
        assert_eq!(desk.call("forget_item_tool", wanted)["status"], "erased");
    };
    let first = [operator(), member()].map(|caller| page(&desk, &caller, &json!({}), None));
    let [whole, members] = first.map(|page| page["next_cursor"].as_str().unwrap().to_owned());
    // The last row of the first page, and a row of the next.
    erase(&ids[99]);
    erase(&ids[120]);
    let why = desk.refusal(TOOL, json!({"cursor": whole}));
    assert!(why.starts_with("cursor: is of a list from which something was erased"), "{why}");
    let next = page(&desk, &member(), &json!({}), Some(&members));
    let rest = texts_of(&next);
    assert!(rest.contains(&ids[100]) && rest.contains(&ids[198]) && !rest.contains(&ids[98]));
    assert!(!rest.contains(&ids[120]));
    let forged = json!({"cursor": members});
    assert!(desk.try_call(&operator(), TOOL, forged).is_err(), "its marks count other tombstones");
}

fn texts_of(page: &Value) -> BTreeSet<String> {
    let lines = page["lines"].as_array().unwrap().iter();
    let ids = lines.map(|line| {
        let row: Value = serde_json::from_str(line.as_str().unwrap()).unwrap();
        row["id"].as_str().unwrap().to_owned()
    });
    ids.collect()
}

fn remember(desk: &Desk, more: Value) -> String {
    let mut wanted = json!({"text": "x"});
    wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    desk.call("brain_remember", wanted)["item"]["id"].as_str().unwrap().to_owned()
}

fn link(desk: &Desk, from: &str, to: &str) -> String {
    let wanted = json!({"from_id": from, "to_id": to, "relation": "about"});
    desk.call("link_items_tool", wanted)["edge"]["edge_id"].as_str().unwrap().to_owned()
}

/// A member who may not read the ledger.
fn reader() -> Caller {
    let scopes = member().scopes.into_iter().filter(|&scope| scope != Scope::AuditRead).collect();
    Caller { scopes, ..member() }
}

/// Two items of one source: the first supersedes `old`, the second is restricted.
fn of_one_source(desk: &Desk, old: &str) -> (String, String) {
    let source = SourceId(77);
    let item = |number: u128, text: &str, sensitivity| ItemDraft {
        id: Some(ItemId(number)),
        kind: if number == 7 { "note" } else { "debt" }.to_owned(),
        modality: "text".to_owned(),
        text: text.to_owned(),
        source: Some(source),
        sensitivity,
        ..ItemDraft::default()
    };
    let supersedes = vec![names::parse_item(old).unwrap()];
    let open = item(7, "the tide turns at six", Sensitivity::Internal);
    desk.write(Batch {
        sources: vec![SourceDraft {
            id: Some(source),
            kind: "url".to_owned(),
            uri: "https://example.org/log".to_owned(),
            title: "The log of Brandt's debts".to_owned(),
            content_sha256: [7; 32],
            bytes: 4711,
            ..SourceDraft::default()
        }],
        items: vec![
            ItemDraft { supersedes, ..open },
            item(8, "Brandt owes ten", Sensitivity::Restricted),
        ],
        ..Batch::default()
    });
    (names::item("note", ItemId(7)), names::item("debt", ItemId(8)))
}

#[test]
fn what_policy_keeps_back_leaves_no_trace() {
    let desk = Desk::new();
    let old = remember(&desk, json!({"text": "Brandt owes nine", "sensitivity": "restricted"}));
    let (open, secret) = of_one_source(&desk, &old);
    let closed = remember(&desk, json!({"text": "not for files", "gates": ["no_export"]}));
    let veiled = remember(&desk, json!({"text": "the veiled one", "gates": [VEILED]}));
    let hidden = remember(&desk, json!({"text": "forget the ferry"}));
    let erased = remember(&desk, json!({"text": "burn the ferry"}));
    let alone = remember(
        &desk,
        json!({
            "text": "Brandt hides", "sensitivity": "restricted", "source": {"uri": "https://example.org/brandt"},
        }),
    );
    let other = remember(&desk, json!({"text": "the pier is long", "idempotency_key": "k"}));
    let seen_edge = link(&desk, &open, &other);
    let edges = [&secret, &closed, &veiled, &hidden].map(|id| link(&desk, &open, id));
    for (id, mode) in [(&hidden, "tombstone"), (&erased, "erase")] {
        let wanted = json!({"item_id": id, "reason": "Brandt asked", "mode": mode});
        desk.call("forget_item_tool", wanted);
    }

    let shown = page(&desk, &reader(), &json!({}), None);
    let lines: Vec<&str> =
        shown["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let all = lines.join("\n");
    for trace in ["Brandt", "brandt", "ferry", "not for files", "veiled one", "debt", "idempotency"]
    {
        assert!(!all.contains(trace), "{trace}: {all}");
    }
    for id in [&old, &secret, &closed, &veiled, &hidden, &erased, &alone].into_iter().chain(&edges)
    {
        let number = id.split_once('_').unwrap().1;
        assert!(!all.contains(number), "{id}: {all}");
    }
    let rows = rows(&all);
    assert_eq!(of_type(&rows, "item").len(), 2, "{all}");
    assert_eq!(of_type(&rows, "edge")[0]["id"], json!(seen_edge));
    assert_eq!(shown["counts"], json!({"sources": 1, "items": 2, "edges": 1, "tombstones": 0}));
    let source = of_type(&rows, "source")[0];
    assert!(source.get("title").is_none(), "it may be of what is kept back: {source}");
    assert_eq!(source["content_sha256"], "0".repeat(64));
    // The member may know of two of them: one is readable, and the existence of the other is disclosed.
    assert_eq!(shown["withheld"], 2, "{shown}");
    assert_eq!(shown["receipt"]["decision"], "deny");
    let entry = desk.entry(&shown["receipt"]);
    let withheld = entry.touched.iter().filter(|one| one.effect.word() == "withheld").count();
    assert_eq!(withheld, 5, "the ledger knows all of them: {:?}", entry.touched);
    // The exported part is consistent by itself.
    assert_eq!(rows.len(), of_type(&self::rows(&stored(&imported(&all))), "item").len() + 2);

    let quiet = desk.call_as(&reader(), TOOL, json!({"kinds": ["debt"]}));
    assert_eq!(quiet["lines"], json!([]));
    assert!(quiet.get("withheld").is_none() && quiet["receipt"]["decision"] == "allow", "{quiet}");
    let known = desk.call_as(&reader(), TOOL, json!({"kinds": ["note"]}));
    assert_eq!(known["withheld"], 2, "{known}");
    let auditor = desk.call_as(&member(), TOOL, json!({}));
    assert_eq!(auditor["withheld"], 5, "who may read the ledger is told how much it was");
    // An unrestricted caller gets the complete store.
    let whole = exported(&desk, &operator(), json!({}));
    assert!(whole == stored(&desk));
    for id in
        [&old, &secret, &closed, &veiled, &hidden, &erased, &alone].into_iter().chain(&edges[..3])
    {
        assert!(whole.contains(id.split_once('_').unwrap().1), "{id}");
    }
}

#[test]
fn kinds_and_states_are_chosen() {
    let desk = sample_catalog::desk();
    let decisions = exported(&desk, &operator(), json!({"kinds": ["decision"]}));
    let found = rows(&decisions);
    assert_eq!(found.len(), 2, "{decisions}");
    assert_eq!(found[1]["supersedes"], json!([found[0]["id"]]));
    let current =
        rows(&exported(&desk, &operator(), json!({"kinds": ["decision"], "current_only": true})));
    assert_eq!(current.len(), 1);
    assert!(current[0].get("supersedes").is_none(), "what it names has no line: {}", current[0]);
    imported(&exported(&desk, &operator(), json!({"current_only": true})));
    let documents = rows(&exported(&desk, &operator(), json!({"kinds": ["document", "chunk"]})));
    assert!(of_type(&documents, "source").len() == 2 && of_type(&documents, "item").len() >= 5);
    assert!(of_type(&documents, "source").iter().all(|source| source["kind"] == "file"));
    let none = desk.call(TOOL, json!({"kinds": ["no such kind"]}));
    assert_eq!((&none["lines"], &none["truncated"]), (&json!([]), &json!(false)));
    assert!(desk.refusal(TOOL, json!({"kinds": []})).contains("1 to 64 are allowed"));
}

#[test]
fn a_line_that_is_longer_than_a_page_has_a_page_to_itself() {
    let desk = Desk::new();
    desk.remember("a small thing");
    desk.write(Batch {
        items: vec![ItemDraft {
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            text: "l".repeat(200 << 10),
            ..ItemDraft::default()
        }],
        ..Batch::default()
    });
    desk.remember("another small thing");
    let mut sizes = Vec::new();
    let (mut cursor, mut all) = (None::<String>, String::new());
    loop {
        let page = page(&desk, &operator(), &json!({}), cursor.as_deref());
        let lines = page["lines"].as_array().unwrap();
        sizes.push(lines.len());
        lines.iter().for_each(|line| all.push_str(&format!("{}\n", line.as_str().unwrap())));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(sizes, [1, 1, 1]);
    assert!(all == stored(&desk));
}

#[test]
fn cursors_are_those_of_the_list_and_forged_ones_show_nothing_new() {
    let desk = Desk::new();
    for n in 0..120 {
        desk.remember_as(&format!("the {n}th lantern"), Sensitivity::Restricted);
        desk.remember(&format!("the {n}th oar"));
    }
    let first = page(&desk, &operator(), &json!({}), None);
    let cursor = first["next_cursor"].as_str().unwrap();
    for (wanted, caller) in [
        (json!({"cursor": cursor, "kinds": ["note"]}), operator()),
        (json!({"cursor": "bm90aGluZw"}), operator()),
    ] {
        let why = desk.refusal_as(&caller, TOOL, wanted);
        assert!(why.starts_with("cursor: is none that this tool gave"), "{why}");
    }
    // A cursor of another caller continues at the same position, under the present caller's policy.
    let theirs = page(&desk, &member(), &json!({}), Some(cursor));
    let lines = theirs["lines"].as_array().unwrap();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.as_str().unwrap().contains("oar")));
}

#[test]
fn edges_between_what_is_given_keep_their_numbers() {
    let desk = Desk::new();
    let ids = ["one", "two"].map(|text| desk.remember(text));
    let [from, to] = ids.each_ref().map(|id| names::parse_item(id).unwrap());
    for weight in [0.1, 1e-45, 0.333_333_34] {
        let relation = format!("r{weight}");
        desk.write(Batch {
            edges: vec![EdgeDraft { relation, ..link_of(from, to, weight) }],
            ..Batch::default()
        });
    }
    let all = exported(&desk, &member(), json!({}));
    assert!(all == stored(&desk), "{all}");
    assert_eq!(texts(&json!({"rows": rows(&all)}), "rows", "type")[2..], ["edge"; 3]);
}
