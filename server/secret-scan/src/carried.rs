//! Secrets by the place they stand in: a URL's user, an `Authorization` header, curl's `-u`.

use std::ops::Range;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};

use super::values::{is_password, is_placeholder, is_url_password, looks_random};
use super::{Hit, Kind};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a URL's user and password, at most.
    const USER_BYTES_MAX: usize = 256;
    /// Bytes of a header's value that are looked at.
    const HEADER_BYTES_MAX: usize = 4096;
    /// Bytes before a scheme in which `Authorization` may stand.
    const AROUND_BYTES_MAX: usize = 48;
}

/// Characters of a bearer's token, at least.
const BEARER_CHARS_MIN: usize = 16;
/// Schemes of databases and queues.
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
/// Hosts that stand for none (RFC 2606, RFC 6761).
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

/// User and password of a URL whose `://` begins at `at`.
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

/// The value that follows a header's scheme, or curl's `-u`.
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

/// The value behind one space.
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

/// Base64 of a user and a password.
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

/// Whether `Authorization` stands right before.
fn is_authorization(text: &str, start: usize) -> bool {
    let from = text.floor_char_boundary(start.saturating_sub(AROUND_BYTES_MAX));
    let before = &text[from..start];
    let before = before.rsplit('\n').next().unwrap_or_default();
    before.to_ascii_lowercase().contains("authorization")
}

/// `curl -u user:password`, `curl --user user:password`.
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
