//! Names of workspaces.

/// The least and the most characters of a slug.
pub const SLUG_CHARS: std::ops::RangeInclusive<usize> = 3..=40;

/// Whether a text can name a workspace: 3 to 40 of `a-z 0-9 -`, a letter first, a letter or digit last. So it is
/// one plain part of a path, needs no escaping in a header or a form, and reads the same in any case-blind file
/// system.
pub fn is_slug(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    SLUG_CHARS.contains(&text.len())
        && text.bytes().all(plain)
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_one_plain_word() {
        for good in ["abc", "local", "acme-2", "a-b", &format!("a{}", "0".repeat(39))] {
            assert!(is_slug(good), "{good}");
        }
        for bad in [
            "",
            "ab",
            "-abc",
            "abc-",
            "1abc",
            "Abc",
            "a_bc",
            "a.b",
            "a/b",
            "../acme",
            "acme/store",
            "acm\u{e9}",
            "abc\0",
            " abc",
            &"a".repeat(41),
        ] {
            assert!(!is_slug(bad), "{bad:?}");
        }
    }
}
