//! Limits of an answer's lists (RCL-05, RCL-06, RCL-07), and its flags for truncation and abstention.

use engine::{ItemDraft, ItemId, Sensitivity};
use serde_json::{Value, json};

use super::{House, ids, item, note};

#[test]
fn so_many_duplicates_are_named() {
    let same = "The lamp of Skerry Point burns paraffin, which is kept in the north shed.";
    for (copies, named, is_cut) in [(17, 16, false), (18, 16, true)] {
        let house = House::new();
        house.write((1..=copies).map(|id| note(id, same)).collect());
        let answer = house.ask("paraffin lamp in the north shed of Skerry Point");
        assert_eq!(ids(&answer).len(), 1, "{answer}");
        let duplicates = item(&answer, ids(&answer)[0])["duplicates"].as_array().unwrap();
        assert_eq!(duplicates.len(), named);
        assert_eq!(answer["routing"]["truncated"], is_cut, "{answer}");
    }
}

#[test]
fn so_many_conflicts_are_named() {
    // Six items form fifteen pairs; seven form more than sixteen.
    for (items, named, is_cut) in [(6, 15, false), (7, 16, true)] {
        let house = House::new();
        let litres = |id| note(id, &format!("The lamp oil tank holds {} litres.", 10 + id));
        house.write((1..=items).map(litres).collect());
        let answer = house.ask("litres of the lamp oil tank");
        assert_eq!(answer["conflicts"].as_array().unwrap().len(), named, "{answer}");
        assert_eq!(answer["routing"]["truncated"], is_cut, "{answer}");
    }
}

#[test]
fn so_many_come_in_place_of_one() {
    for (pieces, is_cut) in [(32, false), (33, true)] {
        let house = House::new();
        let old = note(1, "Gannets nest on ledge zeta beside the red ladder.");
        let piece = |id: u128| ItemDraft {
            supersedes: vec![ItemId(1)],
            ..note(id, &format!("Piece {id} of a chronicle about quite other birds."))
        };
        house.write(std::iter::once(old).chain((2..2 + pieces).map(piece)).collect());
        let answer = house.ask("gannets on ledge zeta ladder");
        assert_eq!(answer["routing"]["truncated"], is_cut, "{answer}");
        assert_eq!(item(&answer, ids(&answer)[0])["why"]["replaced"], json!(super::name(1)));
    }
}

/// None of the pieces is in the answer, so none of them is missing.
#[test]
fn what_was_split_and_is_not_given_cuts_nothing() {
    let house = House::new();
    let ledge = |id| note(id, &format!("Gannets nest on ledge {id} beside the red ladder."));
    let piece = |id: u128| ItemDraft {
        supersedes: vec![ItemId(100)],
        ..note(id, &format!("Piece {id} of a chronicle about quite other birds."))
    };
    let old = note(100, "The ladder of the cellar.");
    house.write((1..=8).map(ledge).chain([old]).chain((101..134).map(piece)).collect());
    let answer = house.ask("gannets on a ledge beside the red ladder");
    assert_eq!(ids(&answer).iter().max(), Some(&8), "{answer}");
    assert_eq!(answer["routing"]["truncated"], false, "{answer}");
}

#[test]
fn a_text_that_is_cut_is_told() {
    let house = House::new();
    house.write(vec![note(1, &format!("Gannets nest. {}", "And nest again. ".repeat(400)))]);
    let answer = house.ask("where do gannets nest?");
    assert!(
        item(&answer, 1).get("text").is_none() && answer["routing"]["truncated"].as_bool().unwrap(),
        "{answer}"
    );
    assert!(item(&answer, 1)["snippet"].as_str().unwrap().len() <= 4096);
}

/// Returns true if an answer abstains; it then lists only the nearest items.
fn abstained(answer: &Value) -> bool {
    let routing = &answer["routing"];
    let abstained = routing["abstained"].as_bool().unwrap();
    assert_eq!(routing.get("abstained_why").is_some(), abstained, "{answer}");
    assert!(!abstained || ids(answer).len() <= 3, "{answer}");
    abstained
}

#[test]
fn who_names_an_item_is_answered_and_who_names_nothing_there_is_not() {
    let house = House::new();
    let titled = ItemDraft { title: "Rope locker".to_owned(), ..note(2, "Keys, hooks and tar.") };
    let secret = ItemDraft {
        sensitivity: Sensitivity::Restricted,
        ..note(3, "The code of tide_gate_code is known to nobody.")
    };
    house.write(vec![note(1, "The call of wind_spring_now turns the drum."), titled, secret]);
    house.write((10..20).map(|id| note(id, &format!("Herring number {id} was salted."))).collect());
    for (question, id) in [
        ("does anybody sing to wind_spring_now in the choir of the mainland?", 1),
        ("rope locker", 2),
        ("turns the drum", 1),
    ] {
        let answer = house.ask_as_member(question);
        assert!(!abstained(&answer) && ids(&answer)[0] == id, "{question}: {answer}");
    }
    for question in [
        "does anybody sing to drop_anchor_now in the choir of the mainland?",
        "which opera is sung by the choir of the mainland?",
        "salted caramel pudding with vanilla sauce",
        // A name that occurs only in hidden items is treated as unknown.
        "does anybody sing to tide_gate_code in the choir of the mainland?",
    ] {
        assert!(abstained(&house.ask_as_member(question)), "{question}");
    }
    let question = "does anybody sing to tide_gate_code in the choir of the mainland?";
    assert!(!abstained(&house.ask(question)), "who sees it is answered");
}

/// More items contain both words than the phrase check examines, and the item with the phrase is the last.
#[test]
fn what_was_not_looked_through_for_a_quote_is_not_denied() {
    for (apart, is_cut) in [(2000, false), (2060, true)] {
        let house = House::new();
        let last =
            note(1, &format!("Brass lamp. {}", "It hangs on the pier in all winds. ".repeat(60)));
        let others = (2..2 + apart).map(|id| note(id, &format!("A lamp, and {id} of brass.")));
        house.write(others.chain([last]).collect());
        let answer = house.ask("\"brass lamp\"");
        assert!(!abstained(&answer), "{answer}");
        assert_eq!(
            (ids(&answer) == [1], &answer["routing"]["truncated"]),
            (!is_cut, &json!(is_cut))
        );
        let answer = house.ask("\"of lamp brass\"");
        assert_eq!(abstained(&answer), !is_cut, "{answer}");
    }
}
