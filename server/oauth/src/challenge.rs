//! `WWW-Authenticate` challenges for a missing, invalid or insufficient token (RFC 6750, section 3; RFC 9728, section
//! 5.1).
//!
//! No parameter value can break out of its quotes.

use super::scopes::Scopes;

/// Maximum length of one parameter value in characters before escaping; the rest is cut off.
pub const VALUE_BYTES_MAX: usize = 2_048;

/// Challenge for a 401 without credentials: the resource metadata URL and the scopes to request. There is no `error`
/// parameter, as nothing was wrong.
pub fn missing(resource_metadata: &str, scopes: &Scopes) -> String {
    let scope = scopes.to_string();
    bearer(&[("resource_metadata", resource_metadata), ("scope", &scope)])
}

/// Challenge for a 401 with an invalid token, for any reason.
pub fn invalid_token(resource_metadata: &str, scopes: &Scopes) -> String {
    let scope = scopes.to_string();
    bearer(&[
        ("error", "invalid_token"),
        ("error_description", "the access token is not good, or not good any more"),
        ("resource_metadata", resource_metadata),
        ("scope", &scope),
    ])
}

/// Challenge for a 403. `needed` must contain the scopes of the call and those the caller already has, so that a single
/// further sign-in is enough.
pub fn insufficient_scope(resource_metadata: &str, needed: &Scopes) -> String {
    let scope = needed.to_string();
    bearer(&[
        ("error", "insufficient_scope"),
        ("error_description", "the call needs more than the access token allows"),
        ("scope", &scope),
        ("resource_metadata", resource_metadata),
    ])
}

fn bearer(parameters: &[(&str, &str)]) -> String {
    let written: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    format!("Bearer {}", written.join(", "))
}

/// A quoted string (RFC 9110, section 5.6.4) of visible ASCII and spaces; other characters are replaced.
fn quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    text.push('"');
    for letter in value.chars().take(VALUE_BYTES_MAX) {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            ' '..='~' => text.push(letter),
            _ => text.push('?'),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: &str = "https://recall.example/.well-known/oauth-protected-resource/mcp";

    #[test]
    fn challenges_are_worded_as_the_specifications_word_them() {
        let scopes = Scopes::parse("tenant:read brain:proxy").unwrap();
        let at = format!("resource_metadata=\"{AT}\"");
        let scope = "scope=\"tenant:read brain:proxy\"";
        assert_eq!(missing(AT, &scopes), format!("Bearer {at}, {scope}"));
        let invalid = invalid_token(AT, &scopes);
        assert!(invalid.starts_with("Bearer error=\"invalid_token\", error_description=\""));
        assert!(invalid.ends_with(&format!("{at}, {scope}")), "{invalid}");
        let more = insufficient_scope(AT, &scopes);
        assert!(more.starts_with("Bearer error=\"insufficient_scope\", "), "{more}");
        assert!(more.ends_with(&format!("{scope}, {at}")), "{more}");
    }

    proptest! {
        #[test]
        fn nothing_breaks_out_of_its_quotes(value in any::<String>()) {
            let text = quoted(&value);
            prop_assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", text);
            let inside = &text[1..text.len() - 1];
            let mut letters = inside.chars();
            while let Some(letter) = letters.next() {
                prop_assert_ne!(letter, '"');
                if letter == '\\' {
                    prop_assert!(matches!(letters.next(), Some('"' | '\\')), "{}", text);
                }
            }
        }
    }
}
