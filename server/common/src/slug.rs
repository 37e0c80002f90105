//! Names of workspaces.

/// The workspace of this machine's operator.
pub const LOCAL_WORKSPACE: &str = "local";

/// Minimum and maximum number of characters of a slug.
pub(crate) const SLUG_CHARS: std::ops::RangeInclusive<usize> = 3..=40;

/// Returns true if a text can name a workspace: 3 to 40 of `a-z 0-9 -`, a letter first, a letter or digit last. A slug
/// is thus a single path component, needs no escaping in a header or a form, and is unique in case-insensitive file
/// systems.
pub fn is_slug(text: &str) -> bool {
    slug_fault(text).is_none()
}

/// Describes the violation of [`is_slug`] and the allowed form; `None` if the text is a slug.
pub fn slug_fault(text: &str) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (least, most) = (SLUG_CHARS.start(), SLUG_CHARS.end());
    let bytes = text.as_bytes();
    if !SLUG_CHARS.contains(&bytes.len()) {
        let found = bytes.len();
        return Some(format!("it has {found} characters, {least} to {most} are allowed"));
    }
    if !bytes.iter().all(|byte| is_plain(byte) || *byte == b'-') {
        return Some("it may hold a-z, 0-9 and - only".to_owned());
    }
    if !bytes[0].is_ascii_lowercase() || !bytes.last().is_some_and(is_plain) {
        return Some("it must begin with a letter, and end with a letter or a digit".to_owned());
    }
    None
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
