//! Withheld matches of a path or period in the question are counted like withheld matches of its words.

use engine::{Batch, ItemDraft, Sensitivity, SourceDraft, SourceId};

use super::{House, ids, note, time};

#[test]
fn what_is_kept_back_of_a_named_file_or_period_is_an_event() {
    let house = House::new();
    let vault = SourceDraft {
        id: Some(SourceId(150)),
        kind: "file".to_owned(),
        uri: "file:///srv/vault.py".to_owned(),
        ..SourceDraft::default()
    };
    let secret = |id| ItemDraft {
        sensitivity: Sensitivity::Restricted,
        recorded_at: Some(time("2020-02-02T10:00:00Z")),
        ..note(id, "Safe combination 471108151623.")
    };
    let items = vec![
        ItemDraft { source: Some(SourceId(150)), ..secret(8) },
        secret(9),
        note(1, "Oars lie in the boat shed."),
    ];
    house.write_batch(Batch { sources: vec![vault], items, ..Batch::default() });
    for (question, kept) in [("what is in vault.py?", 1), ("anything in 2020?", 2), ("oars?", 0)] {
        let answer = house.ask_as_member(question);
        assert_eq!(answer["routing"]["withheld"], kept, "{answer}");
        assert!(!ids(&answer).iter().any(|id| [8, 9].contains(id)), "{answer}");
        assert_eq!(house.ask(question)["routing"]["withheld"], 0, "the operator sees all");
    }
}

/// A full answer has no room for more items of a period, whose matches score low.
#[test]
fn of_a_period_only_what_would_have_had_room_is_an_event() {
    let house = House::new();
    let at =
        |item: ItemDraft| ItemDraft { recorded_at: Some(time("2020-02-02T10:00:00Z")), ..item };
    let secret =
        ItemDraft { sensitivity: Sensitivity::Restricted, ..note(90, "Combination 471108151623.") };
    let mut items = vec![at(secret)];
    items.extend((1..=8).map(|id| at(note(id, &format!("Oars of 2020 lie in shed {id}.")))));
    house.write(items);
    let answer = house.ask_as_member("oars in 2020");
    assert_eq!((ids(&answer).len(), &answer["routing"]["withheld"]), (8, &0.into()), "{answer}");
}
