//! Promotion of successors: a current item takes the rank of the item that it supersedes.

use engine::{ItemDraft, Sensitivity};
use recalld_recall::{Plan, Question};
use serde_json::json;

use super::{GATE, House, ids, item, name, note, operator};

fn after(id: u128, before: u128, text: &str) -> ItemDraft {
    ItemDraft { supersedes: vec![engine::ItemId(before)], ..note(id, text) }
}

#[test]
fn all_that_stand_in_place_of_a_split_item_come_before_it() {
    let house = House::new();
    house.write(vec![
        note(1, "Gannets nest on ledge zeta beside the red ladder."),
        note(2, "Puffins burrow above the gully."),
        after(3, 1, "The colony moved to the cove."),
        after(4, 1, "What hung there was scrapped."),
    ]);
    let answer = house.ask("gannets on ledge zeta ladder");
    let found = ids(&answer);
    let at = |id| found.iter().position(|&one| one == id).unwrap_or_else(|| panic!("{answer}"));
    assert!(at(3) < at(1) && at(4) < at(1), "{found:?}");
    assert_eq!((at(3).min(at(4)), at(1)), (0, 2), "they share no word with the question");
    assert_eq!(item(&answer, 1)["superseded_by"], name(4));
    for id in [3, 4] {
        assert_eq!(item(&answer, id)["why"]["replaced"], name(1), "{answer}");
        assert_eq!(item(&answer, id)["why"]["words"], json!([]));
    }
    let words = &item(&answer, 1)["why"]["words"];
    assert_eq!(words, &json!(["gannets", "ledge", "zeta", "ladder"]));
    assert_eq!(answer["conflicts"], json!([]));
}

/// If the visible item were dropped as a duplicate, its absence would disclose the redacted successor's text.
#[test]
fn what_is_seen_stays_where_its_replacement_is_redacted_and_says_the_same() {
    let house = House::new();
    let text = "Gannets nest on ledge zeta beside the red ladder.";
    let veiled = |id, text| ItemDraft { gates: vec![GATE.to_owned()], ..after(id, 1, text) };
    house.write(vec![note(1, text), veiled(2, text)]);
    let answer = house.ask_as_member("gannets on ledge zeta ladder");
    assert_eq!(item(&answer, 1)["text"], text, "{answer}");
    assert_eq!(ids(&house.ask("gannets on ledge zeta ladder")), [2], "who sees both needs one");
}

#[test]
fn where_no_current_successor_is_shown_the_newest_that_is_comes() {
    let house = House::new();
    house.write(vec![
        note(1, "Gannets nest on ledge zeta beside the red ladder."),
        after(2, 1, "The colony moved to the cove."),
    ]);
    house.write(vec![after(3, 2, "Nobody has seen them since.")]);
    house.hide(3);
    let answer = house.ask("gannets on ledge zeta ladder");
    assert_eq!(ids(&answer)[..2], [2, 1], "{answer}");
    assert!(!ids(&answer).contains(&3));

    let secret =
        ItemDraft { sensitivity: Sensitivity::Restricted, ..after(4, 2, "The colony was sold.") };
    house.write(vec![secret]);
    assert_eq!(ids(&house.ask("gannets on ledge zeta ladder"))[..2], [4, 1]);
    let member = house.ask_as_member("gannets on ledge zeta ladder");
    assert_eq!(ids(&member)[..2], [2, 1], "{member}");
    assert!(!member.to_string().contains(&name(4)), "{member}");
}

fn chunk(item: ItemDraft) -> ItemDraft {
    ItemDraft { kind: "chunk".to_owned(), ..item }
}

/// Versions of one item: each but the last contains all words of `RED`, and the last has the text `now`.
fn versions(first: u128, count: u128, now: &str) -> Vec<ItemDraft> {
    let text = |at: u128| format!("Gannets nest on ledge zeta beside the red ladder, count {at}.");
    let old = |at: u128| match at {
        0 => note(first, &text(0)),
        at => after(first + at, first + at - 1, &text(at)),
    };
    let last = first + count - 1;
    (0..count - 1).map(old).chain([after(last, last - 1, now)]).collect()
}

const RED: &str = "gannets on ledge zeta beside the red ladder";

#[test]
fn however_many_versions_there_were_what_else_answers_is_found() {
    // More versions than a retriever returns, and more than its widened retry returns.
    for count in [70, 300] {
        let house = House::new();
        house.write(versions(1, count, "The colony moved.").into_iter().map(chunk).collect());
        house.write(vec![note(900, "A ladder hangs there."), note(901, "Zeta is a letter.")]);
        let answer = house.ask(RED);
        let mut found = ids(&answer);
        assert_eq!(found[0], count, "of {count}: {answer}");
        found.sort_unstable();
        assert_eq!(found, [count, 900, 901], "of {count}: {answer}");
        assert_eq!(answer["routing"]["bounds"]["candidate_limit"], 200, "it looked again");
        assert_eq!(answer["routing"]["truncated"], false);
    }
    let house = House::new();
    house.write(versions(1, 30, "The colony moved.").into_iter().map(chunk).collect());
    let answer = house.ask(RED);
    assert_eq!(answer["routing"]["bounds"]["candidate_limit"], 50, "there is no more: {answer}");
}

#[test]
fn all_chains_and_all_branches_come_whatever_they_are_found_by() {
    let house = House::new();
    house.write(versions(1, 60, "The colony moved.").into_iter().map(chunk).collect());
    house.write(versions(101, 60, "Nobody counts any more.").into_iter().map(chunk).collect());
    // The first chain ends in two branches, one of which continues.
    house.write(vec![
        chunk(after(70, 59, "Half of it moved elsewhere.")),
        chunk(after(71, 70, "That half was lost.")),
    ]);
    house.write(vec![note(900, "A ladder hangs there.")]);
    let answer = house.ask(RED);
    let mut found = ids(&answer);
    found.sort_unstable();
    assert_eq!(found, [60, 71, 160, 900], "{answer}");
}

#[test]
fn of_the_versions_of_a_note_one_follows_and_the_others_come_last() {
    let house = House::new();
    house.write(versions(1, 70, "The colony moved."));
    house.write(vec![note(900, "A ladder hangs there."), note(901, "Zeta is a letter.")]);
    let answer = house.ask(RED);
    let found = ids(&answer);
    assert_eq!((found[0], found.len()), (70, 8), "{answer}");
    assert!((1..70).contains(&found[1]), "{answer}");
    let mut others = found[2..4].to_vec();
    others.sort_unstable();
    assert_eq!(others, [900, 901], "{answer}");
    assert!(found[4..].iter().all(|id| (1..70).contains(id)), "where there is room: {answer}");
}

#[test]
fn a_copy_that_was_not_asked_for_does_not_stand_in_for_the_item() {
    let house = House::new();
    let of = |modality: &str, item| ItemDraft { modality: modality.to_owned(), ..item };
    let text = "Gannets nest on ledge zeta.";
    house.write(vec![of("text", note(1, text)), of("pdf", after(2, 1, text))]);
    for (modality, given) in [(None, 2), (Some("text"), 1), (Some("pdf"), 2)] {
        let modality = modality.map(str::to_owned);
        let question = Question { text: "gannets".to_owned(), modality, ..Question::default() };
        let answer = house.follow(&operator(), &Plan::keyword(question, false));
        assert_eq!(ids(&answer), [given], "{answer}");
    }
}

#[test]
fn what_is_titled_as_the_question_comes_first_however_many_score_more() {
    let house = House::new();
    let titled =
        |id, title: &str, text: &str| ItemDraft { title: title.to_owned(), ..note(id, text) };
    let wordy =
        format!("Paraffin. {}", "It is brought by the boat in spring and carried up. ".repeat(40));
    let mut items = vec![titled(1, "Lamp oil", &wordy)];
    items.extend((2..40).map(|id| titled(id, "Lamp oil, lamp oil", &format!("Lamp oil {id}."))));
    house.write(items);
    let question = Question { text: "lamp oil".to_owned(), ..Question::default() };
    let answer = house.follow(&operator(), &Plan::keyword(question, false));
    assert_eq!(ids(&answer)[0], 1, "{answer}");
}
