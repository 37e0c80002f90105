//! Near duplicates are collapsed to one item, and contradicting items are listed as conflicts.

use engine::{ItemDraft, ItemId, Sensitivity};
use half::f16;
use serde_json::{Value, json};

use super::{GATE, House, ids, item, name, note, time};

const ONE: &str = "The lamp of Skerry Point burns paraffin, which is kept in the north shed.";
const SAME: &str = "the lamp of Skerry Point burns PARAFFIN - which is kept in the north shed";

fn at(item: ItemDraft, recorded: &str) -> ItemDraft {
    ItemDraft { recorded_at: Some(time(recorded)), ..item }
}

#[test]
fn of_items_that_say_the_same_the_newest_is_given() {
    let house = House::new();
    house.write(vec![
        at(note(1, ONE), "2025-01-01T00:00:00Z"),
        at(note(2, SAME), "2025-03-01T00:00:00Z"),
        at(note(3, ONE), "2025-02-01T00:00:00Z"),
        at(note(4, "Herring is kept in the south shed of Skerry Point."), "2025-01-01T00:00:00Z"),
    ]);
    let answer = house.ask("paraffin lamp in the north shed of Skerry Point");
    assert_eq!(ids(&answer), [2, 4], "{answer}");
    let mut duplicates = item(&answer, 2)["duplicates"].as_array().unwrap().clone();
    duplicates.sort_by_key(Value::to_string);
    assert_eq!(duplicates, [name(1), name(3)].map(Value::from));
    assert!(item(&answer, 4).get("duplicates").is_none());
}

#[test]
fn what_was_asked_for_is_given_before_what_is_newer() {
    let house = House::new();
    let lists = ["Polish", "Slovak", "Serbian"].map(|of| {
        let text = "A list of words for the checker of spelling that most programs of the desk share, with \
                    rules for endings, and a licence that lets everybody change and pass it on";
        ItemDraft { title: format!("{of} words"), ..note(0, text) }
    });
    house.write(
        (1..)
            .zip(lists)
            .map(|(id, list)| {
                at(ItemDraft { id: Some(ItemId(id)), ..list }, &format!("2025-0{id}-01T00:00:00Z"))
            })
            .collect(),
    );
    for (asked, id) in [("Polish", 1), ("Slovak", 2), ("Serbian", 3), ("Welsh", 3)] {
        let answer = house.ask(&format!("a list of {asked} words for the checker of spelling"));
        assert_eq!(ids(&answer), [id], "{asked}: {answer}");
        assert_eq!(item(&answer, id)["duplicates"].as_array().unwrap().len(), 2, "{answer}");
    }
}

/// A successor inherits the rank and score of the item that it supersedes, but not the item's words.
#[test]
fn a_replacement_is_chosen_by_its_own_words() {
    let house = House::new();
    let list = |id, of: &str| ItemDraft {
        title: format!("{of} words"),
        ..note(
            id,
            "A list for the checker of spelling that most programs of the desk share, with rules for \
                    endings, and a licence that lets everybody change and pass it on",
        )
    };
    let old =
        ItemDraft { title: "Polish words".to_owned(), ..note(1, "Checker of spelling: a list") };
    house.write(vec![
        at(old, "2025-01-01T00:00:00Z"),
        at(list(2, "Polish"), "2025-02-01T00:00:00Z"),
        at(ItemDraft { supersedes: vec![ItemId(1)], ..list(3, "Slovak") }, "2025-03-01T00:00:00Z"),
    ]);
    let answer = house.ask("a list of Polish words for the checker of spelling");
    assert_eq!(ids(&answer), [2, 1], "{answer}");
    assert_eq!(item(&answer, 2)["duplicates"], json!([name(3)]));
}

#[test]
fn what_is_told_of_the_one_that_is_given_is_its_own() {
    let along = |axis: usize| {
        let mut vector = [f16::ONE; 16];
        vector[axis] = f16::from_f32(3.0);
        vector.to_vec()
    };
    let one_of = |id, text: &str, axis| ItemDraft { embedding: along(axis), ..note(id, text) };
    // In one of the two orders, the older item is nearer and ranks first.
    for (one, other) in [(0, 1), (1, 0)] {
        let newer = || at(one_of(2, ONE, other), "2025-03-01T00:00:00Z");
        let alone = House::new();
        alone.write(vec![newer()]);
        let both = House::new();
        both.write(vec![at(one_of(1, ONE, one), "2025-01-01T00:00:00Z"), newer()]);
        let (alone, both) = (alone.ask(ONE), both.ask(ONE));
        assert_eq!(item(&both, 2)["duplicates"], json!([name(1)]));
        let cosine = &item(&both, 2)["why"]["cosine"];
        assert!(cosine.is_number(), "{both}");
        assert_eq!(cosine, &item(&alone, 2)["why"]["cosine"], "{both}");
    }
}

#[test]
fn what_a_caller_does_not_see_is_no_duplicate() {
    let house = House::new();
    let veiled = ItemDraft { gates: vec![GATE.to_owned()], ..note(1, ONE) };
    let secret = ItemDraft { sensitivity: Sensitivity::Restricted, ..note(2, ONE) };
    house.write(vec![veiled, secret, note(3, SAME)]);
    let answer = house.ask_as_member("paraffin lamp in the north shed of Skerry Point");
    assert!(item(&answer, 3).get("duplicates").is_none(), "{answer}");
    assert!(!answer.to_string().contains(&name(2)), "{answer}");
}

#[test]
fn items_that_cannot_both_be_true_are_named() {
    let house = House::new();
    let litres = |id, count: u32| note(id, &format!("The lamp oil tank holds {count} litres."));
    let then = |item: ItemDraft, from: &str, to: &str| ItemDraft {
        valid_from: Some(time(from)),
        valid_to: Some(time(to)),
        ..item
    };
    house.write(vec![
        litres(1, 32),
        litres(2, 64),
        ItemDraft { gates: vec![GATE.to_owned()], ..litres(3, 128) },
        note(4, "The boat engine tank is enabled."),
    ]);
    let answer = house.ask("how many litres does the lamp oil tank hold?");
    let conflicts = answer["conflicts"].as_array().unwrap();
    assert_eq!(conflicts.len(), 3, "{answer}");
    let pairs: Vec<String> = conflicts.iter().map(|one| one["items"].to_string()).collect();
    assert!(pairs.iter().all(|pair| !pair.contains(&name(4))), "{pairs:?}");
    let member = house.ask_as_member("how many litres does the lamp oil tank hold?");
    let conflicts = member["conflicts"].as_array().unwrap();
    assert_eq!(conflicts.len(), 1, "a redacted text takes no part: {member}");
    let said = conflicts[0]["why"].as_str().unwrap();
    assert!(["number: 32 against 64", "number: 64 against 32"].contains(&said), "{said}");

    let house = House::new();
    house.write(vec![
        then(litres(1, 32), "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"),
        then(litres(2, 64), "2021-01-01T00:00:00Z", "2022-01-01T00:00:00Z"),
    ]);
    let answer = house.ask("how many litres does the lamp oil tank hold?");
    assert_eq!((ids(&answer).len(), &answer["conflicts"]), (2, &json!([])), "{answer}");
}

/// Two items that contradict each other in different words, among many about neighboring subjects.
#[test]
fn items_that_put_it_in_other_words_are_named_too() {
    let house = House::new();
    let mut items: Vec<ItemDraft> = [
        "Deploys are not allowed on Fridays.",
        "On Fridays deploys are allowed.",
        "The backup server is hosted in Frankfurt.",
        "We host the backup server in Amsterdam.",
    ]
    .iter()
    .zip(1..)
    .map(|(text, id)| note(id, text))
    .collect();
    let days = ["Mondays", "Tuesdays", "Wednesdays", "Thursdays"];
    items.extend(
        (10..40).zip(days.iter().cycle()).map(|(id, day)| {
            note(id, &format!("Release {id} was looked over by the team on {day}."))
        }),
    );
    let records = ["2026-02-03", "2026-03-03"].iter().zip(50..);
    items.extend(records.map(|(day, id)| ItemDraft {
        kind: "followup".to_owned(),
        ..note(id, &format!("Follow-up: renew the deploy token\nDue: {day}"))
    }));
    house.write(items);
    let answer = house.ask("are deploys allowed on Fridays?");
    let conflicts = answer["conflicts"].as_array().unwrap();
    assert_eq!(conflicts.len(), 1, "{answer}");
    let pair = conflicts[0]["items"].to_string();
    assert!(pair.contains(&name(1)) && pair.contains(&name(2)), "{answer}");
    assert!(conflicts[0]["why"].as_str().unwrap().starts_with("negation"), "{answer}");
    let due = house.ask("renew the deploy token");
    let named = due["conflicts"].to_string();
    assert!(!named.contains("fup_"), "records of the service are no statements: {due}");
}
