//! Private key blocks: PEM (PKCS, OpenSSH) and PGP.

use super::kind::{Hit, Kind};

const BEGIN: &str = "BEGIN ";
const KEY: &str = "PRIVATE KEY";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of the label between `BEGIN` and the dashes.
    const LABEL_BYTES_MAX: usize = 64;
    /// Bytes of a block; an RSA key of 16,384 bits has 13 KiB.
    const BLOCK_BYTES_MAX: usize = 32 << 10;
}

/// Minimum base64 characters of a key; a shorter block only mentions a key. The smallest key, Ed25519 in PKCS #8, has
/// 16 bytes more.
const BODY_CHARS_MIN: usize = 48;

/// Returns the key block whose leading dashes end at `at`.
pub(super) fn at(text: &str, at: usize) -> Option<Hit> {
    let rest = text[at..].strip_prefix(BEGIN)?;
    let label_end = find(rest, "-----", LABEL_BYTES_MAX)?;
    let label = &rest[..label_end];
    if !label.contains(KEY) || label.contains('\n') {
        return None;
    }
    let begins = at + BEGIN.len() + label_end + "-----".len();
    // The next dashes end the body, whether of `END` or of another `BEGIN`.
    let body_end = begins
        + find(&text[begins..], "-----", BLOCK_BYTES_MAX)
            .unwrap_or_else(|| text[begins..].floor_char_boundary(BLOCK_BYTES_MAX));
    let body = &text[begins..body_end];
    is_key(body).then(|| (Kind::PrivateKey, at.saturating_sub("-----".len())..end(text, body_end)))
}

/// Returns the end of the block's END line, or the end of the body if that line is missing.
fn end(text: &str, body_end: usize) -> usize {
    let rest = &text[body_end..];
    let Some(label) = rest.strip_prefix("-----END ") else { return body_end };
    let label_end = find(label, "-----", LABEL_BYTES_MAX);
    label_end.map_or(body_end, |end| body_end + "-----END ".len() + end + "-----".len())
}

/// Returns true if the lines have enough base64 for a key. Line ends may be escaped as `\n`, as in JSON.
fn is_key(body: &str) -> bool {
    let body = body.replace("\\n", "\n").replace("\\r", "");
    let mut chars = 0;
    let mut seen = [false; 128];
    for line in body
        .lines()
        .map(|line| line.trim_matches([' ', '\t', '"', '\'', '+', ',', '#', '/', '*', '>', '|']))
    {
        // Headers such as `Proc-Type: 4,ENCRYPTED` or `Version: ...` are skipped.
        let is_base64 =
            line.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
        if !is_base64 {
            continue;
        }
        chars += line.len();
        line.bytes().for_each(|byte| seen[usize::from(byte)] = true);
    }
    let distinct = seen.iter().filter(|&&is| is).count();
    chars >= BODY_CHARS_MIN && distinct >= 20
}

/// Returns the position of `what` if it begins within `bytes_max` bytes.
fn find(text: &str, what: &str, bytes_max: usize) -> Option<usize> {
    text[..text.floor_char_boundary(bytes_max + what.len())].find(what)
}
