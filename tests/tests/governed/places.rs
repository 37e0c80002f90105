//! Paths and symbols in a question lead to the items of those files, and under those names.

use engine::{Batch, ItemDraft, ItemId, SourceDraft, SourceId};

use super::{House, ids, item, lanes, note};

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
fn a_symbol_leads_to_what_has_it_by_that_name() {
    let house = house();
    let answer = house.ask("what does Store::open read?");
    assert_eq!(ids(&answer)[0], 4, "{answer}");
    assert_eq!(item(&answer, 4)["why"]["place"], 1.0);
    let answer = house.ask("what is tide_height");
    assert_eq!(ids(&answer)[0], 8, "{answer}");
    assert!(item(&answer, 7)["why"].get("place").is_none(), "another symbol: {answer}");
}

#[test]
fn a_name_in_a_text_counts_for_little_beside_the_rest_of_the_question() {
    let house = House::new();
    let headed = ItemDraft {
        title: "harbour.rs > moorBoat".to_owned(),
        ..note(3, "It is tied with two lines.")
    };
    let about = "The keeper trims the wick of the lamp at dusk and winds the clockwork.";
    house.write(vec![note(1, "A leaflet on mRNA came by boat."), note(2, about), headed]);
    let answer = house.ask("mRNA: the keeper trims the wick at dusk");
    assert_eq!(ids(&answer)[..2], [2, 1], "{answer}");
    assert!(item(&answer, 1)["why"]["place"].as_f64().unwrap() > 0.0);
    let answer = house.ask("how does moorBoat tie it");
    assert_eq!(item(&answer, 3)["why"]["place"], 1.0, "a heading is the name itself: {answer}");
}
