//! Classifies a value: drawn at random, chosen by a person, or not a secret.

use std::borrow::Cow;

/// Substrings that mark a value as an example or a blank to fill in.
const SAYS_NONE: [&str; 42] = [
    "example",
    "changeme",
    "change_me",
    "change-me",
    "change.me",
    "placeholder",
    "your_",
    "your-",
    "yourp",
    "yourt",
    "youra",
    "yours",
    "yourk",
    "xxxx",
    "****",
    "....",
    "____",
    "redacted",
    "replace",
    "insert",
    "sample",
    "dummy",
    "notasecret",
    "not-a-secret",
    "not_a_secret",
    "notreal",
    "not-real",
    "foobar",
    "fillme",
    "todo",
    "fixme",
    "secret_here",
    "goes_here",
    "goes-here",
    "goeshere",
    "key_here",
    "token_here",
    "-here",
    "mypassword",
    "my_password",
    "my-password",
    "fake",
];

/// Placeholders for a password, and defaults from manuals. Surrounding digits and punctuation are ignored, and digits
/// that replace letters are read as letters.
const DEFAULTS: [&str; 40] = [
    "password",
    "passwd",
    "passphrase",
    "pass",
    "passwort",
    "pwd",
    "pw",
    "secret",
    "token",
    "apikey",
    "admin",
    "root",
    "test",
    "testing",
    "testpass",
    "testpassword",
    "testuser",
    "testsecret",
    "testtoken",
    "user",
    "username",
    "guest",
    "demo",
    "default",
    "none",
    "null",
    "true",
    "false",
    "undefined",
    "empty",
    "string",
    "qwerty",
    "letmein",
    "changeit",
    "postgres",
    "mysql",
    "foo",
    "bar",
    "abc",
    "userpassword",
];

/// Characters of a sequence (`123456`, `abcdef`) that indicates typing.
const SEQUENCE_MIN: usize = 6;
/// Minimum entropy of a random value, in bits per character.
const BITS_MIN: f64 = 2.9;
/// Minimum share of neighbours of different classes (lower case, upper case, digit, punctuation) in a random value.
/// Words, and names with a trailing number, have a smaller share.
const CHANGES_MIN: f64 = 0.22;
/// Minimum characters of a hexadecimal number.
const HEX_CHARS_MIN: usize = 32;
/// Minimum characters of a password.
const PASSWORD_CHARS_MIN: usize = 6;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a value; longer values are prose.
    const VALUE_BYTES_MAX: usize = 512;
}

/// Example tokens of specifications (RFC 6749, RFC 6750, RFC 7617).
const SHOWN: [&str; 6] = [
    "2YotnFZFEjr1zCsicMWpAA",
    "tGzv3JOkF0XG5Qx2TlKWIA",
    "czZCaGRSa3F0MzpnWDFmQmF0M2JW",
    "gX1fBat3bV",
    "mF_9.B5f-4.1JqM",
    "SplxlOBeZQQYbYS6WxSbIA",
];

/// Returns true if a value is a placeholder for another value.
pub(super) fn is_placeholder(value: &str) -> bool {
    if SHOWN.contains(&value) {
        return true;
    }
    let lower = value.to_ascii_lowercase();
    SAYS_NONE.iter().any(|word| lower.contains(word))
        || is_reference(value)
        || is_default(&lower)
        || distinct(value) < 4.min(value.len())
        || longest_sequence(lower.as_bytes()) >= SEQUENCE_MIN.min(lower.len())
}

/// Returns true if a value refers to the real one: `${VAR}`, `<token>`, `{{ x }}`, `%s`, `op://vault/...`.
fn is_reference(value: &str) -> bool {
    let starts = [
        "$", "<", "{", "%(", "%{", "!", "&", "#{", "@", "ENC[", "vault:", "arn:", "ssm:", "file:",
        "env:", "op:", "env.",
    ];
    let within = [
        "${",
        "$(",
        "{{",
        "}}",
        "{}",
        "%s",
        "%d",
        "%v",
        "<%",
        "://",
        "process.env",
        "os.environ",
        "getenv",
        "env(",
        "ENV[",
    ];
    let is_percent = value.len() > 2 && value.starts_with('%') && value.ends_with('%');
    is_percent
        || value.ends_with('>') && value.contains('<')
        || within.iter().any(|part| value.contains(part))
        // A real password may have the same first character, but then the rest is not a name.
        || starts.iter().any(|start| value.strip_prefix(start).is_some_and(is_name))
}

/// Returns true for an identifier as in programs, with or without closing brackets.
fn is_name(rest: &str) -> bool {
    let rest = rest.trim_end_matches(['}', '>', ')', ']', '%']);
    let mut bytes = rest.bytes();
    let first = bytes.next();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/ ".contains(&byte);
    first.is_none_or(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'/')
        && bytes.all(is_part)
}

fn is_default(lower: &str) -> bool {
    let plain: String = lower
        .trim_matches(|c: char| !c.is_ascii_alphabetic() && !"@$".contains(c))
        .chars()
        .map(|c| match c {
            '@' | '4' => 'a',
            '0' => 'o',
            '1' => 'l',
            '3' => 'e',
            '5' | '$' => 's',
            other => other,
        })
        .filter(char::is_ascii_alphanumeric)
        .collect();
    DEFAULTS.contains(&&*plain)
}

/// Length of the longest run in which each character equals its predecessor or its predecessor plus one.
fn longest_sequence(bytes: &[u8]) -> usize {
    let (mut longest, mut same, mut next) = (1, 1, 1);
    for pair in bytes.windows(2) {
        same = if pair[1] == pair[0] { same + 1 } else { 1 };
        next = if pair[1] == pair[0].wrapping_add(1) { next + 1 } else { 1 };
        longest = longest.max(same).max(next);
    }
    longest
}

/// Number of distinct bytes.
pub(super) fn distinct(value: &str) -> usize {
    let mut seen = [false; 256];
    value.bytes().for_each(|byte| seen[usize::from(byte)] = true);
    seen.iter().filter(|&&is| is).count()
}

/// Shannon entropy of the value's own characters, in bits per character.
fn bits(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    value.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = value.len() as f64;
    let part = |count: u32| f64::from(count) / all;
    counts.iter().filter(|&&count| count > 0).map(|&count| -part(count) * part(count).log2()).sum()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Small,
    Capital,
    Digit,
    Sign,
}

fn class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' => Class::Small,
        b'A'..=b'Z' => Class::Capital,
        b'0'..=b'9' => Class::Digit,
        _ => Class::Sign,
    }
}

/// Share of neighbours of different classes. Dashes and similar characters separate words, and `Aa` begins a word;
/// neither counts.
fn changes(value: &str) -> f64 {
    let (mut changed, mut pairs) = (0_u32, 0_u32);
    for part in value.split(['-', '_', '.', '/', ' ', ':']) {
        for pair in part.as_bytes().windows(2) {
            pairs += 1;
            let (left, right) = (class(pair[0]), class(pair[1]));
            changed += u32::from(left != right && (left, right) != (Class::Capital, Class::Small));
        }
    }
    if pairs == 0 { 0.0 } else { f64::from(changed) / f64::from(pairs) }
}

/// Returns true if a value looks random.
pub(super) fn looks_random(value: &str) -> bool {
    if value.len() < 8 || distinct(value) < 8 || bits(value) < BITS_MIN {
        return false;
    }
    // A hexadecimal number may have long runs of digits.
    let is_hex = value.len() >= HEX_CHARS_MIN && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    changes(value) >= CHANGES_MIN || is_hex && has(value, Class::Digit)
}

/// Decodes percent-encoding such as `%40`.
fn decoded(value: &str) -> Cow<'_, str> {
    if !value.contains('%') {
        return Cow::Borrowed(value);
    }
    let (mut plain, mut rest) = (Vec::with_capacity(value.len()), value.as_bytes());
    while let [byte, more @ ..] = rest {
        let digits = more.get(..2).filter(|_| *byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let read = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(read.unwrap_or(*byte));
        rest = if read.is_some() { &more[2..] } else { more };
    }
    String::from_utf8(plain).map_or(Cow::Borrowed(value), Cow::Owned)
}

/// Returns true if a value has the form of an id or a hash, which is not a secret under any name.
fn is_id_or_hash(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let hashes = [
        "$2a$", "$2b$", "$2y$", "$argon2", "$pbkdf2", "$scrypt", "$6$", "$5$", "$1$", "{ssha",
        "{sha", "sha1:", "sha256:", "sha256-", "sha384-", "sha512:", "sha512-", "md5:", "pbkdf2",
        "scrypt:", "blake3:",
    ];
    hashes.iter().any(|start| lower.starts_with(start)) || is_uuid(&lower)
}

fn is_uuid(lower: &str) -> bool {
    let lower = lower.trim_matches(['{', '}']).trim_start_matches("urn:uuid:");
    lower.len() == 36
        && lower.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Returns true if a value is a key or a token, given that its name denotes one.
pub(super) fn is_key(value: &str, least: usize, is_quoted: bool) -> bool {
    let value = &*decoded(value);
    let signs = if is_quoted { "[]{}<>\\|;,\"'` " } else { "()[]{}<>\\|;,\"'` " };
    if value.contains(|c| signs.contains(c)) || !is_quoted && is_code(value) {
        return false;
    }
    (least..=VALUE_BYTES_MAX).contains(&value.len())
        && value.is_ascii()
        && !is_placeholder(value)
        && !is_id_or_hash(value)
        && !is_address(value)
        && has(value, Class::Digit)
        && looks_random(value)
}

fn has(value: &str, wanted: Class) -> bool {
    value.bytes().any(|byte| class(byte) == wanted)
}

/// Returns true for paths, host names, mail addresses and dates.
fn is_address(value: &str) -> bool {
    let is_mail = value.split_once('@').is_some_and(|(_, host)| {
        host.contains('.') && !host.contains(['!', '$', '%', '^', '&', '*', '#'])
    });
    let is_path = value.starts_with(['/', '~'])
        || value.starts_with("./")
        || value.starts_with("../")
        || value.starts_with("#/")
        || value.split('/').filter(|part| is_plain_word(part)).count() >= 3;
    let is_time = value.bytes().all(|byte| byte.is_ascii_digit() || b"-:.TZ+/ ".contains(&byte))
        && value.contains(['-', ':', '.', '/']);
    is_mail || is_path || is_time
}

fn is_plain_word(part: &str) -> bool {
    part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_.".contains(&byte))
}

/// Returns true if a value is a password, given that its name denotes one. An unquoted value must not be a program's
/// identifier.
pub(super) fn is_password(value: &str, is_quoted: bool) -> bool {
    let is_bare_code =
        || value.starts_with(['&', '*']) || value.contains(|c| "()[]{}<>\"'".contains(c));
    if !is_quoted && is_bare_code() || value.contains('{') && value.contains('}') {
        return false;
    }
    if !(PASSWORD_CHARS_MIN..=VALUE_BYTES_MAX).contains(&value.len())
        || decoded(value).len() < PASSWORD_CHARS_MIN
        || is_placeholder(value)
        || is_id_or_hash(value)
        || is_address(value)
        || value.chars().any(char::is_whitespace)
    {
        return false;
    }
    let has_letter = has(value, Class::Small) || has(value, Class::Capital);
    if !has_letter {
        return has(value, Class::Digit) && value.len() >= 8 && !value.contains([',', '|', '\\']);
    }
    if !is_quoted && is_code(value) {
        return false;
    }
    if has(value, Class::Digit) {
        return !is_technical(value);
    }
    let signs = value.bytes().filter(|byte| b"!@#$%^&*?~+=".contains(byte)).count();
    let is_signed = signs > 0 && value.len() >= 8 && !value.starts_with(['#', '&']);
    is_signed && (signs > 1 || !value.ends_with(['!', '*', '?', '=']))
        || looks_random(value) && value.len() >= 10
}

/// Returns true if a URL's password is a real one. A short word is too ambiguous.
pub(super) fn is_url_password(value: &str) -> bool {
    let value = &*decoded(value);
    let is_word = value.bytes().all(|byte| byte.is_ascii_alphabetic());
    value.is_ascii()
        && value.len() >= if is_word { 10 } else { PASSWORD_CHARS_MIN }
        && !value.contains(['[', ']', '{', '}', '('])
        && !is_placeholder(value)
        && value.bytes().any(|byte| !byte.is_ascii_digit())
}

/// Returns true for a call, an index or a member access, which programs have in place of a value.
fn is_code(value: &str) -> bool {
    let Some(end) = value.find(|c: char| !c.is_ascii_alphanumeric() && c != '_') else {
        return false;
    };
    let (name, rest) = value.split_at(end);
    let is_named = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let goes_on = rest.starts_with(['(', '[', '.', '{', '<'])
        || rest.starts_with("::")
        || rest.starts_with("->")
        || rest.starts_with("?.");
    is_named && goes_on
}

/// Returns true for technical terms that have a digit.
fn is_technical(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let starts = [
        "sha1", "sha2", "sha-", "sha3", "sha5", "md5", "base64", "base32", "utf8", "utf-8",
        "oauth2", "argon2", "pbkdf2", "aes", "rsa", "ed25519", "x25519", "hs256", "rs256", "es256",
        "http", "ipv", "rfc",
    ];
    starts.iter().any(|start| lower.starts_with(start)) && lower.len() < 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_a_value_is_told_from_one() {
        for none in [
            "changeme",
            "<your-token>",
            "${DB_PASSWORD}",
            "xxxxxxxxxxxx",
            "{{ vault_password }}",
            "%DB_PASS%",
            "process.env.TOKEN",
            "P@ssw0rd",
            "password123",
            "$PASSWORD",
            "$(pass show db)",
            "1234567890",
            "********",
            "admin123!",
            "testpass1",
            "AKIAIOSFODNN7EXAMPLE",
            "abcdefghijkl",
        ] {
            assert!(is_placeholder(none), "{none}");
        }
        for some in ["hunter2", "Tr0ub4dor&3", "$ummer-Kestrel9!", "kT9vQ2mX7pLw"] {
            assert!(!is_placeholder(some), "{some}");
        }
    }

    #[test]
    fn names_are_not_drawn_at_random() {
        for name in [
            "access_token_expired_error",
            "my-kubernetes-secret-v2",
            "com.example.app.TokenProvider",
            "AuthTokenRefreshHandler",
            "recalld-signing-key-2024",
        ] {
            assert!(!looks_random(name), "{name}");
        }
        for random in
            ["kT9vQ2mX7pLwZ4nR", "9f86d081884c7d659a2feaa0c55ad015", "b3JhbmdlIGtpdHRlbnM4Nw"]
        {
            assert!(looks_random(random), "{random}");
        }
    }
}
