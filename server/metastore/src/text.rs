//! Validation of texts from outside, and keys built from them.

use super::error::ControlError;

/// Maximum length of a title, name or email address in bytes.
pub(super) const LINE_BYTES_MAX: usize = 320;
/// Maximum length of a URL in bytes, including client ids that are URLs.
pub(super) const ADDRESS_BYTES_MAX: usize = 2_048;
/// Maximum length of a scope, plan name or id in bytes.
pub(super) const WORD_BYTES_MAX: usize = 128;
/// Maximum number of scopes of one credential, code or grant.
pub(super) const SCOPES_MAX: usize = 64;

/// Separator of the two parts of a key.
const BETWEEN: u8 = 0;

/// The key of `id` under `slug`.
pub(super) fn under(slug: &str, id: &str) -> Vec<u8> {
    [slug.as_bytes(), &[BETWEEN], id.as_bytes()].concat()
}

/// Checks for a text of 1 to `bytes_max` bytes without control characters.
pub(super) fn check_line(
    field: &'static str,
    text: &str,
    bytes_max: usize,
) -> Result<(), ControlError> {
    let why = match text.chars().find(|letter| letter.is_control()) {
        _ if text.is_empty() => "it is empty".to_owned(),
        _ if text.len() > bytes_max => {
            format!("it has {} bytes, {bytes_max} are allowed", text.len())
        }
        Some(letter) => format!("it holds {letter:?}; control characters are not allowed"),
        None => return Ok(()),
    };
    Err(ControlError::refused(field, why))
}

/// Checks for a word of visible ASCII.
pub(super) fn check_word(field: &'static str, text: &str) -> Result<(), ControlError> {
    check_line(field, text, WORD_BYTES_MAX)?;
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    Err(ControlError::refused(field, "it may hold visible ASCII only, and no space"))
}

/// Checks a list of scopes.
pub(super) fn check_scopes(scopes: &[String]) -> Result<(), ControlError> {
    if scopes.len() > SCOPES_MAX {
        let why = format!("there are {}, {SCOPES_MAX} are allowed", scopes.len());
        return Err(ControlError::refused("scopes", why));
    }
    scopes.iter().try_for_each(|scope| check_word("scopes", scope))
}

/// Returns true if `all` contains each of `some`.
pub(super) fn are_within(some: &[String], all: &[String]) -> bool {
    some.iter().all(|one| all.contains(one))
}
