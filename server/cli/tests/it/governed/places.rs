//! Paths and symbols in a question match the items of those files and with those names.

use engine::{Batch, ItemDraft, ItemId, Sensitivity, SourceDraft, SourceId};
use serde_json::Value;

use super::{GATE, House, ids, item, lanes, note, time};

fn source(id: u128, uri: &str) -> SourceDraft {
    SourceDraft {
        id: Some(SourceId(id)),
        kind: "file".to_owned(),
        uri: uri.to_owned(),
        ..SourceDraft::default()
    }
}

fn of(source: u128, item: ItemDraft) -> ItemDraft {
    ItemDraft { source: Some(SourceId(source)), ..item }
}

fn house() -> House {
    let house = House::new();
    let gone = ItemDraft { supersedes: vec![ItemId(5)], ..of(102, note(6, "Wicks and oil.")) };
    house.write_batch(Batch {
        sources: vec![
            source(101, "file:///srv/src/net/lamp.py"),
            source(102, "file:///srv/src/old/Wicks%20and%20oil.md"),
            source(103, "file:///srv/src/clamp.py"),
        ],
        items: vec![
            of(101, note(1, "def wind(turns): the spring breaks")),
            of(101, note(2, "import time")),
            of(103, note(3, "def grip(force): the vice turns")),
            ItemDraft {
                title: "Store > open".to_owned(),
                ..note(4, "pub fn open(path) reads the manifest")
            },
            of(102, note(5, "Wicks and paraffin.")),
            gone,
            note(7, "The spring of tide_height_max is wound."),
            note(8, "A call of tide_height gives centimetres."),
        ],
        ..Batch::default()
    });
    house
}

/// The path retriever's score of an item, to two digits.
fn place(answer: &Value, id: u128) -> Option<String> {
    item(answer, id)["why"]["place"].as_f64().map(|score| format!("{score:.2}"))
}

#[test]
fn a_named_file_leads_to_its_items() {
    let house = house();
    for question in ["what turns in lamp.py?", "what turns in src/net/lamp.py", "NET/LAMP.PY turns"]
    {
        let answer = house.ask(question);
        assert_eq!(ids(&answer)[0], 1, "{question}: {answer}");
        assert!(ids(&answer).contains(&2), "{question}: no word of it is asked for");
        assert!(lanes(&answer).contains(&"place"));
        assert!(item(&answer, 1)["why"]["place"].as_f64().unwrap() > 0.3);
        let other = item(&answer, 3);
        assert!(other["why"].get("place").is_none(), "clamp.py is another file: {other}");
    }
    let answer = house.ask("what is in /srv/src/net/lamp.py");
    assert_eq!(item(&answer, 2)["why"]["place"], 0.5, "{answer}");
    let nowhere = house.ask("what turns in lamp.rs?");
    assert_eq!(nowhere["routing"]["lanes"][2]["lane"], "place");
    assert!(item(&nowhere, 1)["why"].get("place").is_none(), "{nowhere}");
}

#[test]
fn a_named_file_counts_for_all_that_is_found_in_it() {
    let (house, question) = (House::new(), "who wound the lamp in log.md?");
    let lamp = |n| of(101, note(n, &format!("The lamp was wound by keeper {n}.")));
    let near = of(101, note(999, "Oars."));
    let sources = vec![source(101, "file:///srv/log.md")];
    house.write_with(sources, (100..200).map(lamp).collect(), (question, near));
    let answer = house.ask(question);
    assert_eq!(item(&answer, 999)["why"]["place"], 1.0, "{answer}");
}

#[test]
fn a_symbol_leads_to_what_has_it_by_that_name() {
    let house = house();
    let answer = house.ask("what does Store::open read?");
    assert_eq!(ids(&answer)[0], 4, "{answer}");
    assert_eq!(place(&answer, 4).as_deref(), Some("0.20"));
    assert_eq!(place(&house.ask("what does Store.open() read?"), 4).as_deref(), Some("0.20"));
    let answer = house.ask("what is tide_height");
    assert_eq!(ids(&answer)[0], 8, "{answer}");
    assert!(item(&answer, 7)["why"].get("place").is_none(), "another symbol: {answer}");
}

#[test]
fn a_name_that_many_have_leads_to_none_of_them() {
    let house = house();
    let all = 8; // with the one of the house
    house.write((20..27).map(|id| note(id, &format!("tide_height of gauge {id}"))).collect());
    let answer = house.ask("what is tide_height");
    assert_eq!(ids(&answer).len(), all, "{answer}");
    let all_have = |score| ids(&answer).iter().all(|&id| place(&answer, id).as_deref() == score);
    assert!(all_have(Some("0.02")), "{answer}");
    house.write(vec![note(27, "tide_height of the last gauge")]);
    let answer = house.ask("what is tide_height");
    assert!(ids(&answer).iter().all(|&id| place(&answer, id).is_none()), "{answer}");
    let of_prose = house.ask("does mRNA or JavaScript turn the spring?");
    assert!(!lanes(&of_prose).contains(&"place"), "{of_prose}");
}

#[test]
fn hidden_and_replaced_items_of_files_take_no_room() {
    let house = house();
    let many = 20; // more than the versions of a file that a path leads to
    let secret = |id: u128, file| ItemDraft {
        sensitivity: Sensitivity::Restricted,
        ..of(file, note(id, "The code of the door."))
    };
    let old = |n| of(300 + n, note(300 + n, &format!("Ropes {n}.")));
    let new = |n| ItemDraft {
        supersedes: vec![ItemId(300 + n)],
        ..note(400 + n, &format!("New ropes {n}."))
    };
    let at = |id: u128| source(id, &format!("file:///srv/{id}/lamp.py"));
    house.write_batch(Batch {
        sources: (0..many).flat_map(|n| [at(200 + n), at(300 + n)]).collect(),
        items: (0..many).flat_map(|n| [secret(200 + n, 200 + n), old(n)]).collect(),
        ..Batch::default()
    });
    house.write((0..many).map(new).collect());
    let answer = house.ask_as_member("what is in lamp.py?");
    assert_eq!(item(&answer, 2)["why"]["place"], 0.5, "{answer}");

    // Hidden items of one file use up no room either, even if they are more than a scan examines between two
    // cancellation checks.
    let mut items: Vec<ItemDraft> = (0..4200).map(|n| secret(1000 + n, 150)).collect();
    items.push(of(150, note(9, "Oars.")));
    let sources = vec![source(150, "file:///srv/hall.py")];
    house.write_batch(Batch { sources, items, ..Batch::default() });
    let answer = house.ask_as_member("what is in hall.py?");
    assert_eq!(item(&answer, 9)["why"]["place"], 0.5, "{answer}");
}

/// A redacted item does not match by its text, but its file and time are no secret (API-09).
#[test]
fn a_redacted_item_is_shown_in_outline_where_its_file_or_time_is_named() {
    let house = House::new();
    let veiled = ItemDraft {
        gates: vec![GATE.to_owned()],
        recorded_at: Some(time("2020-02-02T10:00:00Z")),
        ..of(150, note(9, "The code of the door is 471108151623."))
    };
    let sources = vec![source(150, "file:///srv/hall.py")];
    let items = vec![veiled, note(1, "Oars lie in the boat shed.")];
    house.write_batch(Batch { sources, items, ..Batch::default() });
    for (question, is_shown) in
        [("what is in hall.py?", true), ("anything of 2020?", true), ("code of the door", false)]
    {
        let answer = house.ask_as_member(question);
        assert_eq!(ids(&answer).contains(&9), is_shown, "{answer}");
        assert!(!answer.to_string().contains("471108151623"), "{answer}");
    }
}

#[test]
fn a_compound_is_told_of_what_has_all_of_it() {
    let house = House::new();
    house.write(vec![
        note(1, "Sample rst files of each kind."),
        note(2, "The tide-table.rst of the harbour lists files."),
        note(3, "A table of the tide lists rst files."),
    ]);
    let answer = house.ask("which files does tide-table.rst name?");
    let words = |id| item(&answer, id)["why"]["words"].clone();
    assert_eq!(words(1), serde_json::json!(["files"]), "{answer}");
    for id in [2, 3] {
        assert_eq!(words(id), serde_json::json!(["files", "tide-table.rst"]), "{answer}");
    }
}
