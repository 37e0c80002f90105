//! What an answer has no room for is told, and a question that nothing answers is told from one that a name
//! answers.

use engine::{ItemDraft, ItemId, Sensitivity};
use serde_json::Value;

use super::{House, ids, item, note};

fn is_truncated(answer: &Value) -> bool {
    answer["routing"]["truncated"].as_bool().unwrap()
}

#[test]
fn an_answer_says_where_more_stands_in_a_place_than_it_brings() {
    for (count, is_cut) in [(32, false), (33, true)] {
        let house = House::new();
        let part = |id| ItemDraft {
            supersedes: vec![ItemId(1)],
            ..note(id, &format!("Ledge {id} was surveyed."))
        };
        house.write(vec![note(1, "Gannets nest beside the red ladder.")]);
        house.write((100..100 + count).map(part).collect());
        let answer = house.ask("gannets beside the red ladder");
        assert_eq!((ids(&answer).len(), is_truncated(&answer)), (8, is_cut), "{count}: {answer}");
    }
}

#[test]
fn an_answer_says_where_an_item_has_more_duplicates_than_it_names() {
    for (count, is_cut) in [(17, false), (18, true)] {
        let house = House::new();
        house
            .write((1..=count).map(|id| note(id, "Gannets nest beside the red ladder.")).collect());
        let answer = house.ask("gannets beside the red ladder");
        let only = item(&answer, ids(&answer)[0]);
        let duplicates = only["duplicates"].as_array().unwrap();
        assert_eq!((ids(&answer).len(), duplicates.len()), (1, 16), "{answer}");
        assert_eq!(is_truncated(&answer), is_cut, "{count}: {answer}");
    }
}

#[test]
fn an_answer_says_where_there_are_more_conflicts_than_it_names() {
    for (count, conflicts, is_cut) in [(6, 15, false), (7, 16, true)] {
        let house = House::new();
        let litres = |id| note(id, &format!("The lamp oil tank holds {id}0 litres."));
        house.write((1..=count).map(litres).collect());
        let answer = house.ask("litres of the lamp oil tank");
        assert_eq!(answer["conflicts"].as_array().unwrap().len(), conflicts, "{answer}");
        assert_eq!(is_truncated(&answer), is_cut, "{count}: {answer}");
    }
}

#[test]
fn a_text_that_is_cut_is_told() {
    let house = House::new();
    house.write(vec![note(1, &format!("Gannets nest. {}", "And nest again. ".repeat(400)))]);
    let answer = house.ask("where do gannets nest?");
    assert!(item(&answer, 1).get("text").is_none() && is_truncated(&answer), "{answer}");
    assert!(item(&answer, 1)["snippet"].as_str().unwrap().len() <= 4096);
}

/// Whether an answer says that nothing answers; it has then what comes nearest at most.
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
        // A name that only what is hidden has is the same as one that nothing has.
        "does anybody sing to tide_gate_code in the choir of the mainland?",
    ] {
        assert!(abstained(&house.ask_as_member(question)), "{question}");
    }
    let question = "does anybody sing to tide_gate_code in the choir of the mainland?";
    assert!(!abstained(&house.ask(question)), "who sees it is answered");
}
