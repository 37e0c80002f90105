//! Secrets recognised by their position: a URL's password, an `Authorization` header, curl's `-u`.

use std::ops::Range;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};

use super::kind::{Hit, Kind};
use super::values::{is_password, is_placeholder, is_url_password, looks_random};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a URL's user and password.
    const USER_BYTES_MAX: usize = 256;
    /// Bytes of a header's value that are inspected.
    const HEADER_BYTES_MAX: usize = 4096;
    /// Bytes before a scheme that are searched for `Authorization`.
    const AROUND_BYTES_MAX: usize = 48;
}

/// Minimum characters of a bearer token.
const BEARER_CHARS_MIN: usize = 16;
/// URL schemes of databases and message queues.
const CONNECTIONS: [&str; 16] = [
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "mongodb",
    "srv",
    "redis",
    "rediss",
    "amqp",
    "amqps",
    "mssql",
    "sqlserver",
    "clickhouse",
    "nats",
    "oracle",
    "cockroachdb",
];
/// Hosts reserved for examples (RFC 2606, RFC 6761).
const EXAMPLE_HOSTS: [&str; 8] = [
    "example.com",
    "example.org",
    "example.net",
    ".example",
    ".test",
    ".invalid",
    "yourhost",
    "hostname",
];

/// Returns the password of a URL whose `://` begins at `at`.
pub(super) fn in_url(text: &str, at: usize) -> Option<Hit> {
    let rest = text[at..].strip_prefix("://")?;
    let within = &rest[..rest.floor_char_boundary(USER_BYTES_MAX)];
    let is_end = |c: char| c.is_whitespace() || "/?#\"'`<>\\,;".contains(c);
    let within = &within[..within.find(is_end).unwrap_or(within.len())];
    let user_end = within.rfind('@')?;
    let (user, password) = within[..user_end].split_once(':')?;
    let host = &within[user_end + 1..];
    let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let is_example = host.is_empty() || EXAMPLE_HOSTS.iter().any(|one| host.ends_with(one));
    if is_example || password.eq_ignore_ascii_case(user) || !is_url_password(password) {
        return None;
    }
    let scheme = text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_connection = CONNECTIONS.contains(&&*scheme.to_ascii_lowercase());
    let kind = if is_connection { Kind::Connection } else { Kind::Url };
    let start = at + "://".len() + user.len() + 1;
    Some((kind, start..start + password.len()))
}

/// Returns the credentials after an authentication scheme or curl's `-u`.
pub(super) fn after_word(text: &str, word: Range<usize>) -> Option<Hit> {
    let (start, name) = (word.end, &text[word.clone()]);
    match name {
        "Bearer" | "bearer" | "BEARER" => bearer(text, start),
        "Basic" | "basic" => basic(text, start),
        "Token" | "token" if is_authorization(text, word.start) => bearer(text, start),
        "u" | "user" => user(text, word),
        _ => None,
    }
}

/// Returns the value after one space.
fn value(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text[start..].strip_prefix(' ')?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let bytes = rest.bytes().take(HEADER_BYTES_MAX).take_while(|&byte| is_part(byte)).count();
    let value = &rest[..bytes];
    let bytes = value.trim_end_matches('.').len();
    Some(start + 1..start + 1 + bytes)
}

fn bearer(text: &str, start: usize) -> Option<Hit> {
    let at = value(text, start)?;
    let token = &text[at.clone()];
    let is_one = token.len() >= BEARER_CHARS_MIN && !is_placeholder(token) && looks_random(token);
    is_one.then_some((Kind::Authorization, at))
}

/// Returns base64 credentials of a user and a password.
fn basic(text: &str, start: usize) -> Option<Hit> {
    let at = value(text, start)?;
    let coded = &text[at.clone()];
    if coded.len() < 8 {
        return None;
    }
    let bytes =
        BASE64_STANDARD.decode(coded).or_else(|_| BASE64_STANDARD_NO_PAD.decode(coded)).ok()?;
    let pair = String::from_utf8(bytes).ok()?;
    let (user, password) = pair.split_once(':')?;
    let is_plain = pair.chars().all(|c| !c.is_control()) && pair.is_ascii();
    let is_said = password.len() >= 4 && password != user && !is_placeholder(password);
    (is_plain && is_said).then_some((Kind::Authorization, at))
}

/// Returns true if `Authorization` precedes on the same line.
fn is_authorization(text: &str, start: usize) -> bool {
    let from = text.floor_char_boundary(start.saturating_sub(AROUND_BYTES_MAX));
    let before = &text[from..start];
    let before = before.rsplit('\n').next().unwrap_or_default();
    before.to_ascii_lowercase().contains("authorization")
}

/// Returns the password of `curl -u user:password` or `curl --user user:password`.
fn user(text: &str, word: Range<usize>) -> Option<Hit> {
    if !text[..word.start].ends_with('-') {
        return None;
    }
    let before = &text
        [text.floor_char_boundary(word.start.saturating_sub(AROUND_BYTES_MAX * 4))..word.start];
    let line = before.rsplit('\n').next().unwrap_or_default();
    if !line.ends_with('-') || !(line.contains("curl") || line.contains("wget")) {
        return None;
    }
    let rest = &text[word.end..];
    let rest = &rest[..rest.floor_char_boundary(USER_BYTES_MAX)];
    let quote = rest.trim_start_matches([' ', '=']);
    let opened = quote.trim_start_matches(['"', '\'']);
    let start = word.end + (rest.len() - opened.len());
    let pair = &opened[..opened
        .find(|c: char| c.is_whitespace() || c == '"' || c == '\'')
        .unwrap_or(opened.len())];
    let (user, password) = pair.split_once(':')?;
    let is_one = password != user && is_password(password, true);
    is_one.then(|| (Kind::Password, start + user.len() + 1..start + pair.len()))
}
