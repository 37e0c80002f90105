//! HTML builder: static markup is appended as is, everything else escaped.
//!
//! A template is `&'static str`, so external input cannot be a template; all values inserted into a template pass
//! through [`escape`]. With these two rules, a template engine would have nothing left to check.

/// Replaces an invisible character.
const REPLACEMENT: char = '\u{fffd}';

/// A page or a fragment.
pub(super) struct Html(String);

impl Html {
    /// An empty fragment.
    pub(super) fn new() -> Self {
        Self(String::new())
    }

    /// Appends `template`, replacing each `{}` with the next escaped value. Safe between tags and inside double quotes
    /// only: not in a style, a script or an unquoted attribute.
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

    /// Appends static markup; `{}` has no meaning.
    pub(super) fn raw(&mut self, ours: &'static str) -> &mut Self {
        self.0.push_str(ours);
        self
    }

    /// Appends a fragment.
    pub(super) fn part(&mut self, part: &Html) -> &mut Self {
        self.0.push_str(&part.0);
        self
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

/// Appends `text` to `out`, escaped. Invisible characters that change how others are shown are replaced: a name must
/// not reverse its sentence, and two names must not look alike.
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

/// Returns true for control, bidirectional, joining and zero-width characters (Unicode, UAX #9 section 2).
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
            // Each ampersand starts an entity written by `escape`.
            for (at, _) in escaped.match_indices('&') {
                let rest = &escaped[at..];
                prop_assert!(["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"]
                    .iter().any(|ours| rest.starts_with(ours)));
            }
        }
    }
}
