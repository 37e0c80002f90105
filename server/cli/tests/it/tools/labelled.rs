//! Accuracy of claim checks, contradictions and duplicates on our own cases, which the author of the rules also wrote.
//! For half of each file (`tuned`), failures were inspected while the rules were written. For the other half
//! (`held_out`), only totals were inspected between changes. The tests measure the judgement of texts; recall selects
//! the texts for a claim.

use std::collections::BTreeMap;
use std::fs;
use support_wire::tree::workspace;

use recalld_claim_check::{Prose, Relation, difference, judge};
use recalld_recall::Twin;
use serde_json::Value;

const SETS: [&str; 2] = ["tuned", "held_out"];
const VERDICTS: [&str; 3] = ["supported", "contradicted", "unsupported"];
/// Least number of cases per file.
const CASES_MIN: usize = 120;

fn cases(name: &str) -> Vec<Value> {
    let path = workspace().join("tests/labelled").join(name);
    let text = fs::read_to_string(path).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() >= CASES_MIN, "{name} has {} cases", cases.len());
    assert!(cases.iter().all(|case| SETS.contains(&case["set"].as_str().unwrap())));
    cases
}

/// Counts of a label: given, right, and wanted.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    given: u32,
    right: u32,
    wanted: u32,
}

impl Count {
    fn add(&mut self, given: bool, wanted: bool) {
        self.given += u32::from(given);
        self.wanted += u32::from(wanted);
        self.right += u32::from(given && wanted);
    }

    fn precision(self) -> f64 {
        f64::from(self.right) / f64::from(self.given.max(1))
    }

    fn recall(self) -> f64 {
        f64::from(self.right) / f64::from(self.wanted.max(1))
    }

    #[track_caller]
    fn holds(self, what: &str, precision: f64, recall: f64) {
        let (has, finds) = (self.precision(), self.recall());
        println!(
            "{what}: precision {has:.3} ({}/{}), recall {finds:.3} ({}/{})",
            self.right, self.given, self.right, self.wanted
        );
        assert!(has >= precision, "{what}: precision {has:.3}, {precision} is wanted");
        assert!(finds >= recall, "{what}: recall {finds:.3}, {recall} is wanted");
    }
}

/// The tool's verdict on a case, with all texts current.
fn verdict(case: &Value) -> &'static str {
    let claim = Prose::of("", case["claim"].as_str().unwrap());
    let (mut supports, mut differs) = (false, false);
    for text in case["texts"].as_array().unwrap() {
        let title = text["title"].as_str().unwrap_or_default();
        let text = Prose::of(title, text["text"].as_str().unwrap());
        match judge(&claim, &text, None).relation {
            Relation::Supports => supports = true,
            Relation::Differs(_) => differs = true,
            Relation::Silent => {}
        }
    }
    match (supports, differs) {
        (true, false) => "supported",
        (false, true) => "contradicted",
        _ => "unsupported",
    }
}

#[test]
fn claims_are_judged_as_people_do_or_not_at_all() {
    let mut counts: BTreeMap<(&str, &str), Count> = BTreeMap::new();
    for case in &cases("claims.jsonl") {
        let set = SETS.into_iter().find(|set| case["set"] == **set).unwrap();
        let given = verdict(case);
        for of in VERDICTS {
            let count = counts.entry((set, of)).or_default();
            count.add(given == of, case["verdict"] == of);
        }
    }
    for set in SETS {
        for (verdict, precision, recall) in FLOORS {
            counts[&(set, verdict)].holds(&format!("{set} {verdict}"), precision, recall);
        }
    }
}

/// Least precision and recall of each verdict. Undecided claims are `unsupported`, so the precision of that verdict
/// depends on the recall of the others.
const FLOORS: [(&str, f64, f64); 3] =
    [("supported", 0.93, 0.8), ("contradicted", 0.95, 0.8), ("unsupported", 0.7, 0.93)];

#[test]
fn pairs_that_differ_are_found_and_others_are_not() {
    for set in SETS {
        let (mut found, mut kinds) = (Count::default(), Count::default());
        for case in cases("contradictions.jsonl").iter().filter(|case| case["set"] == set) {
            let [one, other] =
                ["one", "other"].map(|name| Prose::of("", case[name].as_str().unwrap()));
            let there = difference(&one, &other, None);
            let back = difference(&other, &one, None);
            assert_eq!(there.is_some(), back.is_some(), "either way: {case}");
            found.add(there.is_some(), case["differ"] == true);
            if let Some((told, _)) = there.filter(|_| case["differ"] == true) {
                kinds.add(true, case["why"] == told.kind.name());
            }
        }
        found.holds(&format!("{set} pairs"), 0.95, 0.85);
        kinds.holds(&format!("{set} kinds of difference"), 0.9, 0.9);
    }
}

/// Default score from which two texts are duplicates.
const THRESHOLD: f32 = 0.95;

/// Measured on words only: embeddings can only remove a pair, if its cosine is below 0.8.
#[test]
fn pairs_that_are_near_identical_are_found_and_others_are_not() {
    for set in SETS {
        let mut found = Count::default();
        let mut missed: BTreeMap<String, u32> = BTreeMap::new();
        for case in cases("duplicates.jsonl").iter().filter(|case| case["set"] == set) {
            let text = |name: &str| case[name].as_str().unwrap();
            let [one, other] = ["one", "other"].map(|name| Twin::of_text("", text(name)));
            let (there, back) = (one.likeness(&other), other.likeness(&one));
            let [score, same] = [there, back].map(|found| found.map_or(0.0, |found| found.score));
            assert_eq!(score, same, "either way: {case}");
            let (given, wanted) = (score >= THRESHOLD, case["duplicate"] == true);
            found.add(given, wanted);
            if given != wanted {
                *missed.entry(format!("{} {}", case["duplicate"], text("kind"))).or_default() += 1;
                if set == "tuned" {
                    println!("{score:.3} {case}");
                }
            }
        }
        println!("{set}: wrong are {missed:?}");
        found.holds(&format!("{set} duplicates"), 0.95, 0.75);
    }
}
