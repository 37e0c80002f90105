//! The probe of a start: stores that pass, and stores that do not.

use recalld_replication::core::Verdict;
use recalld_replication::probe;

use super::fake::{Fake, Flaw};

fn dishonest(flaw: Flaw) -> String {
    match probe(&Fake::open(flaw), true) {
        Verdict::Dishonest(why) => why,
        verdict => panic!("{flaw:?} is {verdict:?}"),
    }
}

#[test]
fn an_honest_store_passes() {
    assert_eq!(probe(&Fake::open(Flaw::None), true), Verdict::Honest);
}

#[test]
fn a_store_that_lets_several_win_does_not() {
    let why = dishonest(Flaw::LooksFirst);
    assert!(why.contains("8 of 8 creators"), "{why}");
    let why = dishonest(Flaw::Ignores);
    assert!(why.contains("does not honour it"), "{why}");
}

#[test]
fn nor_one_that_does_not_keep_what_it_said() {
    let cases = [
        (Flaw::KeepsAnother, "creator"),
        (Flaw::Overwrites, "creates an object where one is"),
        (Flaw::ListsLate, "not in the list"),
        (Flaw::Keeps, "still read"),
        (Flaw::WrongRange, "a range"),
    ];
    for (flaw, wanted) in cases {
        let why = dishonest(flaw);
        assert!(why.contains(wanted), "{flaw:?}: {why}");
    }
}

#[test]
fn beside_a_coordinator_a_store_need_not_refuse_creations() {
    assert_eq!(probe(&Fake::open(Flaw::Ignores), false), Verdict::Honest);
    assert!(matches!(probe(&Fake::open(Flaw::ListsLate), false), Verdict::Dishonest(_)));
}
