//! Secrets beside a name that denotes a secret: `password = ...`, `"api_key": "..."`, `export TOKEN=...`, `--token
//! ...`, `<password>...`, `the password is ...`.
//!
//! The last word of the name must be in [`WORDS`]; the last word of `password_hash` is not. `values` decides if the
//! value is a secret.

use std::ops::Range;

use super::kind::{Hit, Kind};
use super::runs::{Runs, is_word};
use super::tokens::{self, Token};
use super::values::{is_key, is_password};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a name that are inspected.
    const NAME_BYTES_MAX: usize = 64;
    /// Bytes of a value.
    const VALUE_BYTES_MAX: usize = 512;
    /// Bytes between a name and `is`, as in `the password for the printer is`.
    const PROSE_BYTES_MAX: usize = 48;

    /// Bytes of a `.netrc` line before the password.
    const NETRC_BYTES_MAX: usize = 160;
}

/// Minimum characters of a value that is called a key.
const KEY_CHARS_MIN: usize = 16;
/// Minimum characters of a value that is called a secret; people choose secrets, so these are shorter than keys.
const SECRET_CHARS_MIN: usize = 12;

/// Characters that end a value if no other delimiter does.
const SPACE_OR_QUOTE: &str = " \t\r\n\"`<>";

/// Type of credential that a name denotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Password,
    Key,
    Secret,
}

/// Last words of a name, with the type of credential.
const WORDS: &[(&str, Says)] = &[
    ("password", Says::Password),
    ("passwd", Says::Password),
    ("passphrase", Says::Password),
    ("passcode", Says::Password),
    ("passwort", Says::Password),
    ("pwd", Says::Password),
    ("pass", Says::Password),
    ("psk", Says::Password),
    ("secret", Says::Secret),
    ("token", Says::Key),
    ("apikey", Says::Key),
    ("authkey", Says::Key),
    ("accesskey", Says::Key),
    ("secretkey", Says::Secret),
    ("privatekey", Says::Key),
    ("credential", Says::Key),
    ("credentials", Says::Key),
    ("auth", Says::Key),
    ("authorization", Says::Key),
];

/// Words directly before `key` by which the name denotes a credential.
const KEYS: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "auth",
    "signing",
    "encryption",
    "master",
    "account",
    "storage",
    "service",
    "hmac",
    "jwt",
    "session",
    "license",
    "deploy",
    "webhook",
    "crypt",
    "cipher",
    "aes",
    "app",
    "admin",
    "write",
    "primary",
    "secondary",
    "shared",
    "instrumentation",
    "functions",
    "subscription",
];

/// Trailing words that do not change the meaning of a name.
const ENDINGS: &[&str] = &[
    "prod",
    "production",
    "dev",
    "staging",
    "stage",
    "live",
    "test",
    "base",
    "old",
    "new",
    "value",
    "default",
    "main",
    "b64",
    "base64",
    "local",
    "remote",
    "rw",
    "ro",
    "backup",
];

/// Words before `token` for tokens that grant no access: cursors, text markers, form guards.
const OPEN_TOKENS: &[&str] = &[
    "next",
    "page",
    "continuation",
    "continue",
    "csrf",
    "xsrf",
    "sync",
    "cancel",
    "cancellation",
    "eos",
    "bos",
    "pad",
    "unk",
    "mask",
    "sep",
    "cls",
    "start",
    "end",
    "stop",
    "first",
    "last",
    "design",
    "grounding",
    "idempotency",
    "cursor",
    "watch",
    "resume",
    "change",
    "progress",
    "special",
    "public",
    "snap",
    "trace",
    "correlation",
    "skip",
];

/// Returns the secret that the word at `word` names.
pub(super) fn after(text: &str, word: Range<usize>, runs: &mut Runs) -> Option<Hit> {
    // Most words are rejected here, because no value follows.
    let beside = Beside::of(text, &word)?;
    let says = says(text, &word)?;
    let value = beside.value(text, &word, says)?;
    if value.at.is_empty() {
        return None;
    }
    match tokens::at(text, value.at.start, runs) {
        Token::Is(kind, end) => return Some((kind, value.at.start..end)),
        Token::Mock => return None,
        Token::Not => {}
    }
    let given = &text[value.at.clone()];
    let (is_one, kind) = match says {
        Says::Password => (value.is_password(text), Kind::Password),
        Says::Key => (is_key(given, KEY_CHARS_MIN, value.is_quoted), Kind::ApiKey),
        Says::Secret => (is_key(given, SECRET_CHARS_MIN, value.is_quoted), Kind::ApiKey),
    };
    is_one.then(|| (sharper(kind, text, &word, given), value.at))
}

/// Returns a more specific kind if the name or its line shows one.
fn sharper(kind: Kind, text: &str, word: &Range<usize>, given: &str) -> Kind {
    let name = name(text, word).to_ascii_lowercase();
    let line = &text[text.floor_char_boundary(word.start.saturating_sub(160))..word.start];
    let line = line.rsplit('\n').next().unwrap_or_default().to_ascii_lowercase();
    if name.contains("aws") && given.len() == 40
        || name.ends_with("secretaccesskey")
        || name.ends_with("secret_access_key")
    {
        Kind::Aws
    } else if line.contains("server=")
        || line.contains("data source=")
        || line.contains("accountname=")
        || line.contains("endpoint=")
    {
        Kind::Connection
    } else {
        kind
    }
}

/// Returns the name that ends with `word`, including words joined by dashes and dots.
fn name<'t>(text: &'t str, word: &Range<usize>) -> &'t str {
    let from = text.floor_char_boundary(word.end.saturating_sub(NAME_BYTES_MAX));
    let before = &text.as_bytes()[from..word.end];
    let tied =
        before.iter().rev().take_while(|&&byte| is_word(byte) || byte == b'-' || byte == b'.');
    let tied = tied.count();
    text[text.ceil_char_boundary(word.end - tied)..word.end].trim_start_matches(['-', '.'])
}

/// Splits a name into lower-case words: `dbPassword`, `DB_PASSWORD`, `db-password`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in name.split(['_', '-', '.']).filter(|part| !part.is_empty()) {
        let mut word = String::new();
        let mut was_small = false;
        for c in part.chars() {
            if c.is_ascii_uppercase() && was_small {
                words.push(std::mem::take(&mut word));
            }
            was_small = c.is_ascii_lowercase() || c.is_ascii_digit();
            word.push(c.to_ascii_lowercase());
        }
        words.push(word);
    }
    words
}

fn says(text: &str, word: &Range<usize>) -> Option<Says> {
    let words = words(name(text, word));
    let mut words: Vec<&str> =
        words.iter().map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit())).collect();
    while words.len() > 1
        && words.last().is_some_and(|last| last.is_empty() || ENDINGS.contains(last))
    {
        words.pop();
    }
    let (&last, before) = words.split_last()?;
    let previous = before.last().copied().unwrap_or_default();
    if last == "key" || last == "keys" {
        return KEYS.contains(&previous).then_some(if previous == "secret" {
            Says::Secret
        } else {
            Says::Key
        });
    }
    if last == "token" && before.iter().any(|word| OPEN_TOKENS.contains(word)) {
        return None;
    }
    // `dbpassword` and `authtoken` are written as one word.
    let found = WORDS.iter().find(|(name, _)| *name == last);
    let found =
        found.or_else(|| WORDS.iter().find(|(name, _)| name.len() >= 5 && last.ends_with(name)));
    found.map(|(_, says)| *says)
}

/// Position of a value relative to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// After an assignment sign that ends at this byte.
    Sign { end: usize, is_spaced: bool },
    /// Argument of a function call.
    Call(usize),
    /// Content of an element.
    Element(usize),
    /// Next argument of a command.
    Flag(usize),
    /// After `is` in prose.
    Said(usize),
}

/// A value and its context.
struct Value {
    at: Range<usize>,
    is_quoted: bool,
    /// True if the value is in a place where programs have expressions.
    is_in_code: bool,
    /// True if the value follows in prose.
    is_said: bool,
}

impl Value {
    fn is_password(&self, text: &str) -> bool {
        let given = &text[self.at.clone()];
        if !is_password(given, self.is_quoted) {
            return false;
        }
        let digits = given.bytes().filter(u8::is_ascii_digit).count();
        let has_sign = given.bytes().any(|byte| b"!@#$%^&*?~+=".contains(&byte));
        let stem = given.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_name = stem.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-.".contains(&byte));
        if self.is_in_code {
            return !is_name || digits > 1 && stem.contains(|c: char| c.is_ascii_digit());
        }
        !self.is_said || self.is_quoted || has_sign || !is_name || digits > 1
    }
}

impl Beside {
    /// Detects the position of a value after a word; `None` if there is none.
    fn of(text: &str, word: &Range<usize>) -> Option<Self> {
        let bytes = text.as_bytes();
        let rest = &bytes[word.end..];
        let first = *rest.first()?;
        match first {
            b'(' => Some(Self::Call(word.end + 1)),
            b'>' if text[..word.start].ends_with('<') => Some(Self::Element(word.end + 1)),
            b' ' | b'\t' | b'"' | b'\'' | b'`' | b']' | b')' | b'*' | b':' | b'=' | b'|' => {
                let gap = |byte: &&u8| b" \t\"'`])*".contains(byte);
                let skipped = rest.iter().take(16).take_while(gap).count();
                let after = &rest[skipped..];
                let length = sign(after);
                if length > 0 {
                    // `arn:aws:...:secret:name`: the word is part of a longer name.
                    let is_part = first == b':' && text[..word.start].ends_with(':')
                        || after[0] == b'|' && !is_cell(text, word.start);
                    let end = word.end + skipped + length;
                    let is_spaced =
                        bytes.get(end) == Some(&b' ') && skipped > 0 && rest[skipped - 1] == b' ';
                    return (!is_part).then_some(Self::Sign { end, is_spaced });
                }
                if first != b' ' || !is_said_of(&text[word.clone()]) {
                    return None;
                }
                if is_flag(text, word.start) {
                    Some(Self::Flag(word.end + 1))
                } else {
                    said(text, word.end).map(Self::Said)
                }
            }
            _ => None,
        }
    }

    fn value(self, text: &str, word: &Range<usize>, says: Says) -> Option<Value> {
        match self {
            Self::Sign { end, is_spaced } => signed(text, word, (end, is_spaced)),
            Self::Call(start) => {
                let value = quoted(text, start)?;
                // `setPassword("...")` assigns a value; `t("password")` only names one, and `pass("...")` is unrelated.
                let words = words(name(text, word));
                let is_given = words.len() > 1 || text[..word.start].ends_with('.');
                let is_whole = words.last().is_some_and(|last| last.len() >= 5);
                (is_given && is_whole).then_some(value)
            }
            Self::Element(start) => {
                let within = cut(text, start);
                let end = within.find('<')?;
                Some(plain(start..start + end, true))
            }
            Self::Flag(start) => match quoted(text, start) {
                Some(value) => Some(value),
                None => Some(plain(start..start + until(cut(text, start), SPACE_OR_QUOTE), false)),
            },
            Self::Said(start) => {
                let value = match quoted(text, start) {
                    Some(value) => value,
                    None => {
                        let end = until(cut(text, start), SPACE_OR_QUOTE);
                        let trimmed = text[start..start + end]
                            .trim_end_matches(['.', ',', ';', ':', ')', '?']);
                        plain(start..start + trimmed.len(), false)
                    }
                };
                (says == Says::Password || value.at.len() >= KEY_CHARS_MIN)
                    .then_some(Value { is_said: true, ..value })
            }
        }
    }
}

/// Returns true if a word can name a value without an assignment sign. A cheap check that rejects most words.
fn is_said_of(word: &str) -> bool {
    let ends = |name: &str| {
        let tail = word.len().checked_sub(name.len()).and_then(|from| word.get(from..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(name))
    };
    ends("key") || WORDS.iter().any(|(name, _)| ends(name))
}

/// Returns true if a word is in the first cell of a table row.
fn is_cell(text: &str, start: usize) -> bool {
    let from = text.floor_char_boundary(start.saturating_sub(NAME_BYTES_MAX));
    let line = text[from..start].rsplit('\n').next().unwrap_or_default();
    line.trim_start().starts_with('|') && line.matches('|').count() == 1
}

/// Returns true if a word is, or ends, a `--flag`, or is the `password` of a `.netrc` line.
fn is_flag(text: &str, start: usize) -> bool {
    let before = &text[..start];
    let flag = before.trim_end_matches(|c: char| c == '-' || c.is_ascii_alphanumeric());
    if text[flag.len()..start].starts_with("--") {
        return true;
    }
    let from = text.floor_char_boundary(start.saturating_sub(NETRC_BYTES_MAX));
    let line = text[from..start].rsplit('\n').next().unwrap_or_default();
    line.contains("login ") && (line.contains("machine ") || line.contains("default "))
}

/// Length in bytes of an assignment sign; 0 if there is none.
fn sign(after: &[u8]) -> usize {
    match after {
        [b':', b'=', ..] | [b'=', b'>', ..] => 2,
        [b':', b':', ..] | [b':', b'/', b'/', ..] | [b'=', b'=', ..] => 0,
        [b':' | b'=', ..] => 1,
        [b'|', ..] => 1,
        _ => 0,
    }
}

/// Returns the start of the value in `password is X`, `password for the printer is X`, `password to X is Y`.
fn said(text: &str, end: usize) -> Option<usize> {
    let rest = &text[end..text.floor_char_boundary((end + PROSE_BYTES_MAX).min(text.len()))];
    let rest = rest.split(['\n', '.', ',', ';', '?', '!']).next().unwrap_or_default();
    let is_about = rest.starts_with(" is ")
        || [" for ", " of ", " to ", " on "].iter().any(|word| rest.starts_with(word));
    let at = [" is now ", " is still ", " is: ", " is "]
        .iter()
        .find_map(|is| rest.find(is).map(|at| at + is.len()));
    at.filter(|_| is_about).map(|at| end + at)
}

/// Returns the value after an assignment sign.
fn signed(text: &str, word: &Range<usize>, (end, is_spaced): (usize, bool)) -> Option<Value> {
    let rest = cut(text, end);
    let gap = rest.len() - rest.trim_start_matches([' ', '\t', '*']).len();
    let start = end + gap;
    if let Some(value) = quoted(text, start) {
        return Some(value);
    }
    // `password: str = "..."`: a type annotation precedes the value.
    let rest = cut(text, start);
    let named = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && !"_<>[]&' ".contains(c))
        .unwrap_or(rest.len());
    if text[..end].ends_with(':') && named > 0 && rest[named..].starts_with("= ") {
        return quoted(text, start + named + "= ".len());
    }
    let is_in_pairs = text[..word.start].ends_with(';')
        || rest[..until(rest, "\r\n")].contains(";") && text[..end].ends_with('=') && !is_spaced;
    let is_in_query = text[..word.start].ends_with(['?', '&']);
    let ends = if is_in_query {
        "& \t\r\n\"'`<>#"
    } else if is_in_pairs {
        ";\r\n\"'"
    } else {
        " \t\r\n\"'`"
    };
    let length = until(rest, ends);
    let given = &rest[..length];
    // A query string such as `a=1&token=2&c=3` may occur anywhere.
    let given = match given.split_once('&') {
        Some((first, more)) if more.contains('=') && !is_spaced => first,
        _ => given,
    };
    let length = given.len();
    let trimmed = given.trim_end_matches([',', ';']);
    let is_ended = trimmed.len() < given.len();
    let trimmed = if is_in_pairs { trimmed } else { trimmed.trim_end_matches(['.', '*', '|']) };
    // Text after a space makes the value part of an expression or a sentence, unless the text is a comment or another
    // pair.
    let behind = rest[length..].trim_start_matches([' ', '\t']);
    let is_alone = rest[length..]
        .starts_with(['\r', '\n', '"', '\'', '`', '&', ';', '<', '#', '>'])
        || behind.is_empty()
        || behind.starts_with(['#', '|', '(', '\n', '\r', '\\', '&', ';'])
        || behind.starts_with("//")
        || !is_spaced && text[..end].ends_with('=');
    let is_in_code =
        is_ended && !is_in_pairs || is_spaced && text[..end].ends_with('=') || !is_alone;
    Some(Value { is_in_code, ..plain(start..start + trimmed.len(), false) })
}

fn plain(at: Range<usize>, is_quoted: bool) -> Value {
    Value { at, is_quoted, is_in_code: false, is_said: false }
}

/// Returns the text between the quotes at `start`. Quotes inside JSON inside a string are preceded by a backslash.
fn quoted(text: &str, start: usize) -> Option<Value> {
    let rest = cut(text, start);
    let body = rest.trim_start_matches(['b', 'r', 'f', 'u', '@', '\\']);
    let quote = body.chars().next().filter(|c| "\"'`".contains(*c))?;
    let triple = [quote; 3].iter().collect::<String>();
    let marks = if body.starts_with(&triple) { 3 } else { 1 };
    let begins = start + (rest.len() - body.len()) + marks;
    let within = cut(text, begins);
    let end = within.find([quote, '\n'])?;
    if !within[end..].starts_with(quote) {
        return None;
    }
    let value = within[..end].trim_end_matches('\\');
    Some(plain(begins..begins + value.len(), true))
}

/// Returns the text from `start`, cut to the maximum length of a value.
fn cut(text: &str, start: usize) -> &str {
    let rest = &text[start..];
    &rest[..rest.floor_char_boundary(VALUE_BYTES_MAX)]
}

/// Number of bytes before the first of the characters in `ends`.
fn until(text: &str, ends: &str) -> usize {
    text.find(|c: char| ends.contains(c)).unwrap_or(text.len())
}
