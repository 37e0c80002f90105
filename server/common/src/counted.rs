//! Counts with their nouns in English: `1 item`, `2 items`, `1 entry`, `2 entries`. Durations in words: `16 hours 5
//! minutes`.
//!
//! Handles regular endings and the agreement of the verb. Irregular plurals are not supported.

use std::fmt::Display;

/// Formats a count with its noun: `1 item`, `0 items`, `12 entries`.
pub fn counted(count: impl Display, one: &str) -> String {
    let count = count.to_string();
    let is_one = is_one(&count);
    match one.strip_suffix('y') {
        _ if is_one => format!("{count} {one}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        _ => format!("{count} {one}s"),
    }
}

/// Returns the word that agrees with a count: `is` or `are`, `it` or `them`.
pub fn agreed<'a>(count: impl Display, one: &'a str, many: &'a str) -> &'a str {
    if is_one(&count.to_string()) { one } else { many }
}

/// Formats a duration in its two largest units.
pub fn lasting(seconds: u64) -> String {
    let units = [
        (seconds / 86_400, "day"),
        (seconds / 3_600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let first = units.iter().position(|(count, _)| *count > 0).unwrap_or(units.len() - 1);
    let (largest, rest) = units[first..].split_first().expect("there is a last unit");
    let next = rest.first().filter(|(count, _)| *count > 0);
    let shown = [largest].into_iter().chain(next).map(|(count, unit)| counted(count, unit));
    shown.collect::<Vec<_>>().join(" ")
}

fn is_one(count: &str) -> bool {
    count == "1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_told_in_its_two_largest_units() {
        let told = [
            (0, "0 seconds"),
            (61, "1 minute 1 second"),
            (16 * 3_600 + 5 * 60 + 9, "16 hours 5 minutes"),
            (26 * 3_600 + 40, "1 day 2 hours"),
            (7_205, "2 hours"),
        ];
        for (seconds, words) in told {
            assert_eq!(lasting(seconds), words);
        }
    }

    #[test]
    fn one_is_one_and_all_else_are_many() {
        let counts = [0, 1, 2, 11, 21].map(|count| counted(count, "sensitivity event"));
        let told = ["0 sensitivity events", "1 sensitivity event", "2 sensitivity events"];
        assert_eq!(counts[..3], told);
        assert!(counts[3..].iter().all(|told| told.ends_with("events")));
        assert_eq!(counted(serde_json::json!(1), "item"), "1 item");
        assert_eq!([1, 2].map(|count| counted(count, "entry")), ["1 entry", "2 entries"]);
        assert_eq!([1, 2].map(|count| counted(count, "key")), ["1 key", "2 keys"]);
        assert_eq!([0, 1, 2].map(|count| agreed(count, "is", "are")), ["are", "is", "are"]);
    }
}
