//! Times in a question: a period as a hint for the search, or the snapshot time of the answer (as of).

use engine::{ItemDraft, Sensitivity};
use serde_json::{Value, json};

use super::{House, ids, item, lanes, note, time};

fn at(id: u128, recorded: &str, text: &str) -> ItemDraft {
    ItemDraft { recorded_at: Some(time(recorded)), ..note(id, text) }
}

fn house() -> House {
    let house = House::new();
    house.write(vec![
        at(1, "2024-05-05T10:00:00Z", "The fog horn was repaired by Aoife."),
        at(2, "2026-01-07T10:00:00Z", "The fog horn was repaired by Brendan."),
        at(3, "2026-01-08T10:00:00Z", "Rain all day."),
    ]);
    house
}

#[test]
fn a_period_raises_what_was_recorded_in_it_and_shuts_nothing_out() {
    let house = house();
    for (question, first) in
        [("who repaired the fog horn in May 2024?", 1), ("who repaired the fog horn last week?", 2)]
    {
        let answer = house.ask(question);
        assert_eq!(ids(&answer)[0], first, "{question}: {answer}");
        assert!(ids(&answer).contains(&(3 - first)), "the other one stays: {answer}");
        assert!(lanes(&answer).contains(&"time"), "{answer}");
        assert_eq!(item(&answer, first)["why"]["time"], 1.0);
        assert!(item(&answer, 3 - first)["why"].get("time").is_none(), "{answer}");
    }
    // An item of the period matches without any word of the question.
    let answer = house.ask("anything since 2026-01-08?");
    assert_eq!(item(&answer, 3)["why"]["time"], 0.5, "{answer}");
}

#[test]
fn a_period_counts_for_all_that_is_found_in_it() {
    let (house, question) = (House::new(), "who wound the lamp since 2024?");
    let lamp = |n| at(n, "2025-02-02T10:00:00Z", &format!("The lamp was wound by keeper {n}."));
    let near = at(999, "2025-02-02T10:00:00Z", "Oars.");
    house.write_with(Vec::new(), (100..200).map(lamp).collect(), (question, near));
    // Other retrievers find more items than one of them returns; an item found only by its time is not cut off.
    let answer = house.ask(question);
    assert_eq!(item(&answer, 999)["why"]["time"], 1.0, "{answer}");
}

#[test]
fn the_route_says_which_lanes_ran_and_why() {
    let house = house();
    let answer = house.ask("who repaired the fog horn?");
    assert_eq!(lanes(&answer), ["words", "meaning", "graph"]);
    let all = |name: &str| answer["routing"][name].as_array().unwrap().clone();
    for lane in all("lanes") {
        assert!(!lane["why"].as_str().unwrap().is_empty(), "{lane}");
        assert!(lane["took_ms"].is_number() && lane["candidates"].is_u64(), "{lane}");
    }
    let skipped: Vec<Value> = all("skipped");
    let of = |lane: &str, why: &str| json!({"lane": lane, "why": why});
    let wanted = [
        of("time", "the question names no time"),
        of("place", "the question names no path and no symbol"),
    ];
    assert_eq!(skipped, wanted);
}

#[test]
fn where_nothing_has_what_is_quoted_the_nearest_are_given_and_are_no_answer() {
    let house = house();
    let why = "no item has what stands in quotes; what is given comes nearest without it";
    for question in ["who repaired \"purple horn\"?", "what of \"purple submarine\"?"] {
        let answer = house.ask(question);
        let routing = &answer["routing"];
        assert_eq!((&routing["abstained"], &routing["abstained_why"]), (&true.into(), &why.into()));
        assert!(lanes(&answer).contains(&"words"), "{answer}");
        let found = ids(&answer);
        assert!(found.is_empty() != question.contains("horn"), "{answer}");
    }
    // If an item contains the phrase, no other item is found.
    let answer = house.ask("\"repaired by Aoife\"");
    assert_eq!((ids(&answer), &answer["routing"]["abstained"]), (vec![1], &false.into()));
}

#[test]
fn as_of_recalls_what_was_known_and_true_then() {
    let house = House::new();
    let until = ItemDraft {
        valid_to: Some(time("2024-01-01T00:00:00Z")),
        ..at(5, "2023-01-01T00:00:00Z", "Aoife keeps the lamp of the reef.")
    };
    let new = ItemDraft {
        supersedes: vec![engine::ItemId(1)],
        ..at(2, "2025-01-01T00:00:00Z", "The lamp is wound every forty minutes.")
    };
    house.write(vec![
        at(1, "2024-01-01T00:00:00Z", "The lamp is wound every nineteen minutes."),
        new,
        until,
    ]);
    let now = house.ask("how often is the lamp wound?");
    assert_eq!((ids(&now)[0], &item(&now, 1)["status"]), (2, &json!("superseded")), "{now}");
    assert!(now["routing"].get("as_of").is_none());
    let then = house.ask("how often is the lamp wound, as of 2024-06-01?");
    assert_eq!(ids(&then), [1], "{then}");
    assert_eq!(item(&then, 1)["status"], "current");
    assert!(item(&then, 1).get("superseded_by").is_none(), "{then}");
    assert_eq!(then["routing"]["as_of"], "2024-06-01T23:59:59.999999Z");
    let before = house.ask("who keeps the lamp as of June 2023?");
    assert_eq!(ids(&before), [5], "{before}");

    // A time before all records is ignored as a snapshot time.
    let never = house.ask("how often is the lamp wound as of 1999?");
    assert_eq!(ids(&never)[0], 2, "{never}");
    assert!(never["routing"].get("as_of").is_none());
    let why = &never["routing"]["skipped"][0]["why"];
    assert_eq!(why, "nothing was on record at the time that is named");
}

fn secret(id: u128, recorded: &str) -> ItemDraft {
    ItemDraft { sensitivity: Sensitivity::Restricted, ..at(id, recorded, "The code of the door.") }
}

#[test]
fn what_is_denied_takes_no_room_in_a_period() {
    let house = house();
    house.write(vec![at(9, "2020-02-02T10:00:00Z", "Oars.")]);
    house.write((0..4200).map(|n| secret(1000 + n, "2020-03-03T10:00:00Z")).collect());
    let answer = house.ask_as_member("anything of 2020?");
    assert_eq!(item(&answer, 9)["why"]["time"], 0.5, "{answer}");
}

#[test]
fn only_what_the_caller_may_know_is_a_record_to_look_back_on() {
    let house = house();
    house.write(vec![secret(9, "2020-02-02T10:00:00Z")]);
    let question = "who repaired the fog horn as of 2021?";
    let look = |answer: &Value| answer["routing"].get("as_of").is_some();
    assert!(look(&house.ask(question)));
    let answer = house.ask_as_member(question);
    assert!(!look(&answer) && ids(&answer).contains(&2), "{answer}");
    let why = &answer["routing"]["skipped"][0]["why"];
    assert_eq!(why, "nothing was on record at the time that is named");
    house.hide(9);
    assert!(!look(&house.ask(question)), "nor what is tombstoned");
}
