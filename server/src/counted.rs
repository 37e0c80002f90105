//! A number and what is counted, as people write them: `1 item`, `2 items`.
//!
//! Owns nothing but the letter. Nouns whose plural is another word are no business of this.

use std::fmt::Display;

/// `1 item`, `0 items`, `12 items`.
pub(crate) fn counted(count: impl Display, one: &str) -> String {
    let count = count.to_string();
    let ending = if count == "1" { "" } else { "s" };
    format!("{count} {one}{ending}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_one_and_all_else_are_many() {
        let counts = [0, 1, 2, 11, 21].map(|count| counted(count, "sensitivity event"));
        let told = ["0 sensitivity events", "1 sensitivity event", "2 sensitivity events"];
        assert_eq!(counts[..3], told);
        assert!(counts[3..].iter().all(|told| told.ends_with("events")));
        assert_eq!(counted(serde_json::json!(1), "item"), "1 item");
    }
}
