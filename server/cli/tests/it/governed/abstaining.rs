//! Abstention (RCL-11). The items here have no embedding, so only words decide.

use engine::{ItemDraft, SourceDraft, SourceId};
use serde_json::{Value, json};

use super::{House, ids, note, time};

const FOREIGN: &str = "which ferry tariff do gannets pay in the harbour office";

fn house() -> House {
    let house = House::new();
    let march = Some(time("2025-03-05T00:00:00Z"));
    let gannets = |id| {
        let text = format!("Gannets nest on ledge {id} beside the red ladder.");
        ItemDraft { recorded_at: march, ..note(id, &text) }
    };
    house.write((1..=5).map(gannets).collect());
    house
}

fn abstained(answer: &Value) -> &Value {
    &answer["routing"]["abstained"]
}

#[test]
fn what_hardly_has_the_questions_words_is_the_nearest_and_no_answer() {
    let house = house();
    let answer = house.ask(FOREIGN);
    assert_eq!(abstained(&answer), &json!(true), "{answer}");
    assert_eq!(ids(&answer).len(), 3, "{answer}");
    let why = answer["routing"]["abstained_why"].as_str().unwrap();
    assert!(why.starts_with("nothing is near"), "{why}");
    let answer = house.ask("Who polishes brass lenses?");
    assert_eq!((abstained(&answer), ids(&answer).len()), (&json!(true), 0), "{answer}");
    assert_eq!(answer["routing"]["abstained_why"], "no item was found");
}

#[test]
fn a_question_that_matches_whole_is_answered_however_short_it_is() {
    let answer = house().ask("Where are the gannets?");
    assert_eq!(abstained(&answer), &json!(false), "{answer}");
    assert_eq!((ids(&answer).len(), answer["routing"].get("abstained_why")), (5, None));
}

/// A match of the recording time alone is no answer.
#[test]
fn a_time_that_is_named_answers_nothing() {
    let answer = house().ask(&format!("{FOREIGN} in March 2025"));
    let lanes = super::lanes(&answer);
    assert!(lanes.contains(&"time"), "{lanes:?}");
    assert_eq!(abstained(&answer), &json!(true), "{answer}");
}

#[test]
fn what_lies_at_a_place_that_is_named_is_an_answer() {
    let house = house();
    let source = SourceDraft {
        id: Some(SourceId(100)),
        kind: "file".to_owned(),
        uri: "file:///skerry/lamp.py".to_owned(),
        ..SourceDraft::default()
    };
    let wick = ItemDraft { source: Some(SourceId(100)), ..note(9, "Trims the wick at dusk.") };
    house.write_batch(engine::Batch {
        sources: vec![source],
        items: vec![wick],
        ..engine::Batch::default()
    });
    let answer = house.ask("which ferry tariff is set by lamp.py for herring boats");
    assert_eq!(abstained(&answer), &json!(false), "{answer}");
    assert_eq!(ids(&answer)[0], 9, "{answer}");
}

/// Prose with periods, slashes and brackets does not name a path or symbol.
#[test]
fn what_only_looks_like_a_name_answers_nothing() {
    let house = House::new();
    let titled =
        |id, title: &str, text: &str| ItemDraft { title: title.to_owned(), ..note(id, text) };
    house.write(vec![
        titled(1, "Where to go: main roads of the island", "Gannets nest beside them."),
        titled(2, "How much time keepers have to sleep", "Little in winter."),
        note(3, "Puffins and/or gannets nest here, by the U.S.A pier; insulin/insulin-like words are rare."),
        titled(4, "lamp > wind", "It breaks the spring."),
        note(5, "The log calls time.monotonic() and reads src/main.rs at dusk."),
    ]);
    const SINGS: &str = "sing with the tenor of the opera in a velvet coat";
    for name in ["main.go", "time.sleep()", "his and/or hers", "the U.S.A", "insulin/insulin-like"]
    {
        let answer = house.ask(&format!("does {name} {SINGS}?"));
        assert_eq!(abstained(&answer), &json!(true), "{name}: {answer}");
    }
    for (name, id) in [("lamp.wind()", 4), ("time.monotonic()", 5), ("src/main.rs", 5)] {
        let answer = house.ask(&format!("does {name} {SINGS}?"));
        assert_eq!((abstained(&answer), ids(&answer)[0]), (&json!(false), id), "{name}: {answer}");
    }
}
