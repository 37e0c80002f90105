//! How much of a kind an answer names (RCL-05, RCL-06, RCL-07), and that it says where there is more.

use engine::{ItemDraft, ItemId};
use serde_json::json;

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
    // Of six items there are fifteen pairs, of seven there are more than sixteen.
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
