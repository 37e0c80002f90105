//! HTML as text that is still being written: our own words as they are, everything else escaped.
//!
//! A template is `&'static str`, so nothing that came from outside can be one; what it is filled with goes
//! through [`escape`], all of it, in the one place where it can be done. No template engine: with these two
//! rules there is nothing left for one to check.

/// Stands for a character that is not shown.
const REPLACEMENT: char = '\u{fffd}';

/// A page, or a part of one.
pub(super) struct Html(String);

impl Html {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self(String::new())
    }

    /// Adds `template`, each `{}` in it replaced by the next of `values`, escaped. Good between tags and within
    /// double quotes, and nowhere else: not in a style, a script or an attribute without quotes.
    pub(super) fn put(&mut self, template: &'static str, values: &[&str]) -> &mut Self {
        let mut parts = template.split("{}");
        let first = parts.next().unwrap_or_default();
        self.0.push_str(first);
        let mut used = 0;
        for (part, value) in parts.zip(values) {
            escape(value, &mut self.0);
            self.0.push_str(part);
            used += 1;
        }
        let places = template.matches("{}").count();
        assert!(used == places && used == values.len(), "{places} places: {template}");
        self
    }

    /// Adds our own words, in which `{}` means nothing.
    pub(super) fn raw(&mut self, ours: &'static str) -> &mut Self {
        self.0.push_str(ours);
        self
    }

    /// Adds a part.
    pub(super) fn part(&mut self, part: &Html) -> &mut Self {
        self.0.push_str(&part.0);
        self
    }

    /// Its bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

/// Adds `text` to `out` such that a browser shows it and does nothing else with it. Characters without a look
/// of their own, that only change how others are shown, are replaced: a name must not be able to turn around
/// the sentence it stands in, or be two names that look like one.
fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            hidden if is_hidden(hidden) => out.push(REPLACEMENT),
            other => out.push(other),
        }
    }
}

/// Control characters, and those that set directions, join, or fill no space (Unicode, UAX #9 section 2).
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(text: &str) -> String {
        let mut out = String::new();
        escape(text, &mut out);
        out
    }

    #[test]
    fn what_a_template_is_filled_with_is_text_only() {
        let mut html = Html::new();
        html.put("<p title=\"{}\">{}</p>", &["\" onclick='x'", "<b>&amp;</b>"]);
        let text = String::from_utf8(html.into_bytes()).unwrap();
        assert_eq!(
            text,
            "<p title=\"&quot; onclick=&#39;x&#39;\">&lt;b&gt;&amp;amp;&lt;/b&gt;</p>"
        );
        assert_eq!(escaped("a\u{202e}b\u{0}c\u{200b}\n"), "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}");
        assert_eq!(escaped("M\u{fc}ller, \u{645}\u{631}"), "M\u{fc}ller, \u{645}\u{631}");
    }

    #[test]
    #[should_panic(expected = "1 places")]
    fn a_template_and_its_values_agree() {
        Html::new().put("<p>{}</p>", &["a", "b"]);
    }

    proptest! {
        #[test]
        fn nothing_escaped_can_begin_a_tag_or_end_a_value(text in any::<String>()) {
            let escaped = escaped(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            prop_assert!(!escaped.chars().any(is_hidden));
            // Each ampersand begins one of ours.
            for (at, _) in escaped.match_indices('&') {
                let rest = &escaped[at..];
                prop_assert!(["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"]
                    .iter().any(|ours| rest.starts_with(ours)));
            }
        }
    }
}
