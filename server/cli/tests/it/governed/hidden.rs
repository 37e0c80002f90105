//! Hidden items: an answer does not depend on them, and withheld matches are counted.

use engine::{Batch, EdgeDraft, ItemDraft, Sensitivity, SourceDraft, SourceId};
use recalld_recall::{Plan, Question};
use serde_json::Value;

use super::{House, edge, ids, item, member, note, operator, time};

fn secret(item: ItemDraft) -> ItemDraft {
    ItemDraft { sensitivity: Sensitivity::Restricted, ..item }
}

/// Number of withheld items; the tests' member may read the ledger.
fn withheld(answer: &Value) -> u64 {
    answer["routing"]["withheld"].as_u64().unwrap()
}

#[test]
fn what_a_time_a_file_a_symbol_or_an_edge_leads_to_is_noted_where_it_is_denied() {
    let source = SourceDraft {
        id: Some(SourceId(101)),
        kind: "file".to_owned(),
        uri: "file:///srv/src/lamp.py".to_owned(),
        ..SourceDraft::default()
    };
    let of_file = |item| ItemDraft { source: Some(SourceId(101)), ..item };
    let in_may = |item| ItemDraft { recorded_at: Some(time("2021-05-05T10:00:00Z")), ..item };
    for (question, hidden) in [
        ("anything of May 2021?", in_may(note(9, "Oars."))),
        ("what is in lamp.py?", of_file(note(9, "Oars."))),
        ("what is `Keeper`?", ItemDraft { title: "Keeper".to_owned(), ..note(9, "Oars.") }),
        ("which wick?", note(9, "Oars.")),
    ] {
        let house = House::new();
        let items = vec![
            of_file(note(1, "A wick is wound there.")),
            in_may(note(2, "Rain fell all day.")),
            secret(hidden.clone()),
            secret(note(10, "Herring.")),
        ];
        let edges = vec![edge(1, 9)];
        house.write_batch(Batch {
            sources: vec![source.clone()],
            items,
            edges,
            ..Batch::default()
        });
        let answer = house.ask_as_member(question);
        assert!(!ids(&answer).contains(&9), "{question}: {answer}");
        // No item has an embedding; otherwise the third question would match it by meaning as well.
        assert_eq!(withheld(&answer), 1, "{question}: {answer}");
        assert_eq!(withheld(&house.ask(question)), 0, "{question}");
    }
}

#[test]
fn a_neighbour_that_is_denied_is_noted_once_and_takes_a_place_of_nobody() {
    let house = House::new();
    let seeds = vec![note(1, "A wick is wound there."), note(2, "The wick was cut.")];
    house.write(seeds);
    house.write(vec![secret(note(9, "Oars.")), note(10, "Herring."), note(11, "Rope.")]);
    let weaker = |to| EdgeDraft { weight: 0.5, ..edge(1, to) };
    let edges = vec![edge(1, 9), edge(2, 9), weaker(10), weaker(11)];
    house.write_batch(Batch { edges, ..Batch::default() });
    for (count, given) in [(2, 2), (3, 2)] {
        let text = "wick".to_owned();
        let question = Question { text, neighbours: Some(count), ..Question::default() };
        let plan = Plan::keyword(question, false);
        let answer = house.follow(&member(), &plan);
        let neighbours = item(&answer, 1)["neighbors"].as_array().unwrap();
        assert_eq!((neighbours.len(), withheld(&answer)), (given, 1), "{answer}");
        assert_eq!(withheld(&house.follow(&operator(), &plan)), 0);
    }
}

/// Withheld matches are scored with the statistics of the whole store, in which words have another rarity.
#[test]
fn what_is_hidden_is_noted_however_common_it_makes_a_word() {
    // A few hidden items are checked by word lookup; more of them by search.
    for hidden in [40, 300] {
        let house = House::new();
        let halls = (1..=10).map(|id| note(id, &format!("The reactor of hall {id} hums.")));
        let sheds = (11..=60).map(|id| note(id, &format!("Herring of shed {id} is salted.")));
        let secrets = (101..).take(hidden);
        let secrets = secrets.map(|id| secret(note(id, &format!("The reactor {id} hums."))));
        house.write(halls.chain(sheds).chain(secrets).collect());
        let answer = house.ask_as_member("reactor");
        assert_eq!((ids(&answer).len(), withheld(&answer)), (8, 8), "{hidden}: {answer}");
    }
}

#[test]
fn what_is_hidden_is_not_noted_for_making_a_word_rare() {
    for hidden in [40, 300] {
        let house = House::new();
        let halls = (1..=10).map(|id| note(id, &format!("The reactor {id} hums.")));
        let secrets = (101..).take(hidden);
        let secrets = secrets.map(|id| secret(note(id, &format!("Herring of shed {id}."))));
        let long = "The reactor stands behind the sheds, in which the keeper salts herring.";
        house.write(halls.chain(secrets).chain([secret(note(90, long))]).collect());
        let answer = house.ask_as_member("reactor");
        assert_eq!((ids(&answer).len(), withheld(&answer)), (8, 0), "{hidden}: {answer}");
    }
}

/// A store in which several retrievers find most items.
fn shore(leave_out: Option<u128>, hide: Option<u128>) -> House {
    let texts = [
        "The fog horn of the reef was repaired by Aoife in spring.",
        "The fog horn is sounded twice a minute while the reef is not seen.",
        "Aoife keeps the lamp, and Brendan the fog horn of the reef.",
        "The reef has a bell beside the fog horn.",
        "The Fog_horn_reef_log is written at dusk.",
        "Herring is salted in the south shed near the reef.",
        "The reef fog horn takes 40 litres of paraffin a week.",
        "The reef fog horn takes 60 litres of paraffin a week.",
        "Puffins burrow above the gully, far from any horn.",
        "the fog horn of the reef was repaired by Aoife, in spring",
    ];
    let house = House::new();
    let mut items = Vec::new();
    for (id, text) in (1..).zip(texts) {
        if leave_out == Some(id) {
            continue;
        }
        let day = format!("2025-12-{id:02}T10:00:00Z");
        let source = (id % 3 == 0).then_some(SourceId(101));
        let item = ItemDraft { recorded_at: Some(time(&day)), source, ..note(id, text) };
        items.push(if hide == Some(id) { secret(item) } else { item });
    }
    let there = |edge: &EdgeDraft| ![Some(edge.from.0), Some(edge.to.0)].contains(&leave_out);
    let edges = [edge(1, 9), edge(2, 6), edge(9, 4), edge(3, 5), edge(7, 8)];
    let source = SourceDraft {
        id: Some(SourceId(101)),
        kind: "file".to_owned(),
        uri: "file:///srv/src/horn.py".to_owned(),
        ..SourceDraft::default()
    };
    house.write_batch(Batch {
        sources: vec![source],
        items,
        edges: edges.into_iter().filter(there).collect(),
        ..Batch::default()
    });
    house
}

/// An answer without the fields that are unique to each call or store.
fn given(mut answer: Value) -> Value {
    for item in answer["items"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().remove("grounding_token");
        for hop in item["why"]["path"].as_array_mut().into_iter().flatten() {
            hop.as_object_mut().unwrap().remove("edge_id");
        }
    }
    let routing = answer["routing"].as_object_mut().unwrap();
    routing.remove("took_ms");
    routing.remove("withheld"); // this member may read the ledger
    for lane in routing["lanes"].as_array_mut().unwrap() {
        lane.as_object_mut().unwrap().remove("took_ms");
    }
    answer
}

#[test]
fn an_answer_is_that_of_a_store_without_what_is_hidden() {
    const QUESTIONS: [&str; 6] = [
        "who repaired the fog horn of the reef?",
        "how many litres of paraffin does the reef fog horn take?",
        "fog horn of the reef since 2025-12-05",
        "what of the reef is in horn.py?",
        "what is Fog_horn_reef_log?",
        "is there a \"fog horn\" near puffins",
    ];
    let mut noted = 0;
    for hidden in 1..=10 {
        let (with, without) = (shore(None, Some(hidden)), shore(Some(hidden), None));
        for question in QUESTIONS {
            let (with, without) = (with.ask_as_member(question), without.ask_as_member(question));
            noted += withheld(&with);
            assert_eq!(withheld(&without), 0, "there is nothing to hide");
            assert_eq!(given(with), given(without), "without {hidden}: {question}");
        }
    }
    assert!(noted > 20, "what was kept back was noted: {noted}");
}
