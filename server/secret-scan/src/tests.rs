//! Texts with and without secrets: a labelled set with a held-out part that no rule was tuned on, and robustness
//! against unusual texts.

use proptest::prelude::*;
use serde_json::Value;

use super::{Kind, Secret, each, first, masked};

/// Removed from the labelled texts before a scan, so that no file has strings that look like real keys.
const MARK: &str = "~|";

struct Case {
    is_held_out: bool,
    kind: Option<String>,
    text: String,
}

fn cases() -> Vec<Case> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/labelled/secrets.jsonl");
    let rows = std::fs::read_to_string(file).unwrap();
    let case = |row: &str| {
        let row: Value = serde_json::from_str(row).unwrap();
        Case {
            is_held_out: row["part"] == "held",
            kind: row["kind"].as_str().map(str::to_owned),
            text: row["text"].as_str().unwrap().replace(MARK, ""),
        }
    };
    rows.lines().map(case).collect()
}

fn all(text: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    each(text, |secret| found.push(secret));
    found
}

/// Result of one part of the set.
#[derive(Default)]
struct Score {
    found: u32,
    missed: u32,
    alarms: u32,
    quiet: u32,
    /// Secrets found with the expected kind.
    named: u32,
}

impl Score {
    fn add(&mut self, case: &Case) {
        let found = all(&case.text);
        match (&case.kind, found.is_empty()) {
            (Some(kind), false) => {
                self.found += 1;
                self.named += u32::from(found.iter().any(|secret| secret.kind.name() == kind));
            }
            (Some(_), true) => self.missed += 1,
            (None, false) => self.alarms += 1,
            (None, true) => self.quiet += 1,
        }
    }

    fn precision(&self) -> f64 {
        f64::from(self.found) / f64::from(self.found + self.alarms)
    }

    fn recall(&self) -> f64 {
        f64::from(self.found) / f64::from(self.found + self.missed)
    }
}

#[test]
fn secrets_are_found_and_what_looks_like_one_is_left_alone() {
    let cases = cases();
    assert!(cases.len() >= 220, "{}", cases.len());
    for is_held_out in [false, true] {
        let mut score = Score::default();
        for case in cases.iter().filter(|case| case.is_held_out == is_held_out) {
            let before = (score.missed, score.alarms, score.named, score.found);
            score.add(case);
            let is_wrong = (score.missed, score.alarms) != (before.0, before.1)
                || score.found - before.3 != score.named - before.2;
            if is_wrong && (!is_held_out || std::env::var_os("RECALLD_TELL_HELD_OUT").is_some()) {
                let kinds: Vec<&str> =
                    all(&case.text).iter().map(|secret| secret.kind.name()).collect();
                println!("meant {:?}, found {kinds:?}: {}", case.kind, case.text);
            }
        }
        println!(
            "{}: precision {:.3}, recall {:.3}; {} of {} found ones have the right kind, {} false alarms among {}",
            if is_held_out { "held out" } else { "tuned" },
            score.precision(),
            score.recall(),
            score.named,
            score.found,
            score.alarms,
            score.alarms + score.quiet,
        );
        assert!(score.precision() >= 0.98, "precision {}", score.precision());
        assert!(score.recall() >= 0.95, "recall {}", score.recall());
    }
}

#[test]
fn a_secret_has_its_line_and_its_bytes() {
    let key = ["AKIA", "Q3EGRTZ7YN2VKWLM"].concat();
    let text = format!("one\n\ntwo {key} three\nDB_PASSWORD=kelp7Otter\n");
    let found = all(&text);
    let told: Vec<(Kind, u32, &str)> = found
        .iter()
        .map(|secret| (secret.kind, secret.line, &text[secret.bytes.clone()]))
        .collect();
    assert_eq!(told, [(Kind::Aws, 3, &*key), (Kind::Password, 4, "kelp7Otter")]);
    assert_eq!(masked(&text), "one\n\ntwo [aws_key] three\nDB_PASSWORD=[password]\n");
    assert_eq!(masked("plain"), "plain");
    assert_eq!(first("nothing"), None);
}

#[test]
fn kinds_have_names_of_their_own_that_fit_a_rule() {
    let mut names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Kind::ALL.len());
    let is_plain = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    assert!(names.iter().all(is_plain));
}

/// Prefixes of every pattern, without the rest.
const BEGINNINGS: [&str; 24] = [
    "eyJ",
    "eyJ.",
    "sk-",
    "ghp_",
    "xoxb-",
    "glpat-",
    "-----BEGIN ",
    "PRIVATE KEY-----",
    "://",
    "u:p@",
    "password=",
    "password: ",
    "token=\"",
    "Bearer ",
    "Basic ",
    "curl -u ",
    "--token ",
    "recalld_pat_",
    "a-",
    "=",
    "'",
    "<password>",
    " is ",
    "\u{e9}",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks that secrets are in order, disjoint and at character boundaries, and that the text may be cut anywhere.
    #[test]
    fn any_text_is_scanned(
        parts in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(&BEGINNINGS[..]).prop_map(str::to_owned),
                "[a-zA-Z0-9+/=_.\\- \n]{0,40}",
                any::<String>(),
            ],
            0..40,
        ),
    ) {
        let text = parts.concat();
        let mut end = 0;
        for secret in all(&text) {
            prop_assert!(secret.bytes.start >= end && secret.bytes.end > secret.bytes.start);
            prop_assert!(text.get(secret.bytes.clone()).is_some());
            end = secret.bytes.end;
        }
        masked(&text);
    }
}
