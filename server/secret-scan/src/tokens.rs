//! Tokens recognised by themselves: by a vendor's prefix, with its alphabet, length and checksum.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

use super::kind::Kind;
use super::runs::{Alphabet, Runs};
use super::values::{distinct, is_placeholder, looks_random};

/// Result of matching the token formats at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A token, and the end of its bytes.
    Is(Kind, usize),
    /// A token's prefix without a token: an example, or a wrong checksum.
    Mock,
    /// No token.
    Not,
}

/// Condition on the characters after a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// A number in hex or another narrow alphabet.
    Mixed,
    /// Characters that look random.
    Random,
    /// The last six characters are the CRC-32 of the others, in base 62.
    Crc,
    /// The body has `T3BlbkFJ`, base64 of the vendor's name.
    OpenAi,
    /// The body ends with `AA`.
    EndsAa,
    /// Slack's form: numbers separated by dashes, then the secret.
    Slack,
    /// SendGrid's form: two parts of 22 and 43 characters, separated by a dot.
    SendGrid,
}

/// Token format of a vendor.
struct Form {
    prefix: &'static str,
    kind: Kind,
    alphabet: Alphabet,
    /// Minimum characters after the prefix; `most` is the maximum.
    least: usize,
    most: usize,
    check: Check,
}

const fn form(
    prefix: &'static str,
    kind: Kind,
    alphabet: Alphabet,
    (least, most): (usize, usize),
    check: Check,
) -> Form {
    Form { prefix, kind, alphabet, least, most, check }
}

use Alphabet::{Base32, Base62, Dotted, Hex, Upper, Url};
use Check::{Crc, EndsAa, Mixed, OpenAi, Random, SendGrid, Slack};
use Kind::Service;

/// Token formats, sorted by first byte; of two prefixes with a common start, the longer one is first. If a vendor
/// documents no maximum length, the limit is generous.
const FORMS: &[Form] = &[
    form("AGE-SECRET-KEY-1", Kind::PrivateKey, Upper, (58, 58), Mixed),
    form("AIza", Kind::Google, Url, (35, 35), Random),
    form("AKIA", Kind::Aws, Base32, (16, 16), Mixed),
    form("ASIA", Kind::Aws, Base32, (16, 16), Mixed),
    form("ATATT3", Service, Url, (180, 200), Random),
    form("ATCTT3", Service, Url, (180, 200), Random),
    form("GOCSPX-", Kind::Google, Url, (28, 28), Random),
    form("HRKU-AA", Service, Url, (58, 58), Random),
    form("NRAK-", Service, Upper, (27, 27), Mixed),
    form("PMAK-", Service, Url, (59, 59), Mixed),
    form("SG.", Service, Dotted, (66, 66), SendGrid),
    form("cio", Service, Base62, (32, 32), Random),
    form("dapi", Service, Hex, (32, 32), Mixed),
    form("dckr_pat_", Service, Url, (27, 27), Random),
    form("doo_v1_", Service, Hex, (64, 64), Mixed),
    form("dop_v1_", Service, Hex, (64, 64), Mixed),
    form("dp.pt.", Service, Base62, (43, 43), Random),
    form("figd_", Service, Url, (40, 40), Random),
    form("gho_", Kind::GitHub, Base62, (36, 36), Crc),
    form("ghp_", Kind::GitHub, Base62, (36, 36), Crc),
    form("ghr_", Kind::GitHub, Base62, (36, 76), Crc),
    form("ghs_", Kind::GitHub, Base62, (36, 36), Crc),
    form("ghu_", Kind::GitHub, Base62, (36, 36), Crc),
    form("github_pat_", Kind::GitHub, Url, (82, 82), Random),
    form("glagent-", Kind::GitLab, Url, (50, 50), Random),
    form("glc_", Service, Url, (32, 400), Random),
    form("glcbt-", Kind::GitLab, Dotted, (20, 300), Random),
    form("gldt-", Kind::GitLab, Dotted, (20, 300), Random),
    form("glft-", Kind::GitLab, Url, (20, 20), Random),
    form("glimt-", Kind::GitLab, Url, (25, 25), Random),
    form("gloas-", Kind::GitLab, Hex, (64, 64), Mixed),
    form("glpat-", Kind::GitLab, Dotted, (20, 300), Random),
    form("glptt-", Kind::GitLab, Hex, (40, 40), Mixed),
    form("glrt-", Kind::GitLab, Dotted, (20, 300), Random),
    form("glsa_", Service, Url, (41, 41), Random),
    form("glsoat-", Kind::GitLab, Url, (20, 20), Random),
    form("gsk_", Service, Base62, (52, 52), Random),
    form("hf_", Service, Base62, (34, 34), Random),
    form("hvb.", Service, Url, (90, 300), Random),
    form("hvs.", Service, Url, (24, 300), Random),
    form("lin_api_", Service, Base62, (40, 40), Random),
    form("npm_", Kind::Npm, Base62, (36, 36), Random),
    form("ntn_", Service, Base62, (46, 46), Random),
    form("pplx-", Service, Base62, (48, 56), Random),
    form("pscale_pw_", Service, Dotted, (32, 64), Random),
    form("pscale_tkn_", Service, Dotted, (32, 64), Random),
    form("pypi-AgEIcHlwaS5vcmc", Kind::PyPi, Url, (50, 1000), Random),
    form("pypi-AgENdGVzdC5weXBpLm9yZw", Kind::PyPi, Url, (50, 1000), Random),
    form("r8_", Service, Base62, (37, 37), Random),
    form("rk_live_", Kind::Stripe, Base62, (24, 247), Random),
    form("rk_test_", Kind::Stripe, Base62, (24, 247), Random),
    form("rubygems_", Service, Hex, (48, 48), Mixed),
    form("sbp_", Service, Hex, (40, 40), Mixed),
    form("shpat_", Service, Hex, (32, 32), Mixed),
    form("shpca_", Service, Hex, (32, 32), Mixed),
    form("shppa_", Service, Hex, (32, 32), Mixed),
    form("shpss_", Service, Hex, (32, 32), Mixed),
    form("sk-admin-", Kind::OpenAi, Url, (100, 180), OpenAi),
    form("sk-ant-admin01-", Kind::Anthropic, Url, (95, 95), EndsAa),
    form("sk-ant-api03-", Kind::Anthropic, Url, (95, 95), EndsAa),
    form("sk-ant-oat01-", Kind::Anthropic, Url, (95, 95), EndsAa),
    form("sk-or-v1-", Service, Hex, (64, 64), Mixed),
    form("sk-proj-", Kind::OpenAi, Url, (100, 180), OpenAi),
    form("sk-svcacct-", Kind::OpenAi, Url, (100, 180), OpenAi),
    form("sk-", Kind::OpenAi, Base62, (48, 48), OpenAi),
    form("sk_live_", Kind::Stripe, Base62, (24, 247), Random),
    form("sk_test_", Kind::Stripe, Base62, (24, 247), Random),
    form("tskey-api-", Service, Url, (30, 64), Random),
    form("tskey-auth-", Service, Url, (30, 64), Random),
    form("whsec_", Kind::Stripe, Base62, (32, 64), Random),
    form("xai-", Service, Base62, (80, 80), Random),
    form("xapp-", Kind::Slack, Url, (60, 200), Slack),
    form("xoxa-", Kind::Slack, Url, (40, 200), Slack),
    form("xoxb-", Kind::Slack, Url, (40, 200), Slack),
    form("xoxe.xox", Kind::Slack, Url, (100, 300), Random),
    form("xoxp-", Kind::Slack, Url, (40, 200), Slack),
    form("xoxr-", Kind::Slack, Url, (40, 200), Slack),
    form("xoxs-", Kind::Slack, Url, (40, 200), Slack),
    form("ya29.", Kind::Google, Url, (60, 1500), Random),
];

/// Minimum distinct characters in a number of a narrow alphabet: fewer are a pattern that somebody typed.
const DISTINCT_MIN: usize = 8;
/// Infix of OpenAI keys.
const MIDDLE: &str = "T3BlbkFJ";
/// Characters of a checksum: 62^6 exceeds 2^32.
const CRC_CHARS: usize = 6;

/// Index of the first format per first byte of the prefix.
const BY_BYTE: [u8; 257] = {
    let mut begins = [0; 257];
    let (mut byte, mut at) = (0, 0);
    while byte < 256 {
        begins[byte] = at;
        while (at as usize) < FORMS.len()
            && FORMS[at as usize].prefix.as_bytes()[0] as usize == byte
        {
            at += 1;
        }
        byte += 1;
    }
    begins[256] = at;
    begins
};

/// Matches the token formats at `at`, the start of a word.
pub(super) fn at(text: &str, at: usize, runs: &mut Runs) -> Token {
    let bytes = text.as_bytes();
    let first = usize::from(bytes[at]);
    let forms = &FORMS[usize::from(BY_BYTE[first])..usize::from(BY_BYTE[first + 1])];
    for form in forms {
        if !bytes[at..].starts_with(form.prefix.as_bytes()) {
            continue;
        }
        return form.of(text, at, runs);
    }
    match bytes[at] {
        b'e' if bytes[at..].starts_with(b"eyJ") => jwt(text, at, runs),
        b'h' if bytes[at..].starts_with(b"hooks.slack.com/services/T") => slack_hook(text, at),
        b'a'..=b'z' => own(text, at, runs),
        b'0'..=b'9' => telegram(text, at, runs),
        _ => Token::Not,
    }
}

impl Form {
    fn of(&self, text: &str, at: usize, runs: &mut Runs) -> Token {
        let begins = at + self.prefix.len();
        let mut end = runs.end(text.as_bytes(), begins, self.alphabet);
        if self.alphabet == Dotted {
            end = begins + text[begins..end].trim_end_matches('.').len();
        }
        let rest = &text[begins..end];
        if !(self.least..=self.most).contains(&rest.len()) {
            // A short body belongs to an ordinary word with the same prefix, such as `sk-button`.
            return if rest.len() < 16 { Token::Not } else { Token::Mock };
        }
        let next = text.as_bytes().get(end);
        if next.is_some_and(u8::is_ascii_alphanumeric) {
            return Token::Not;
        }
        let holds = !is_placeholder(rest) && self.check.holds(rest);
        if holds { Token::Is(self.kind, end) } else { Token::Mock }
    }
}

impl Check {
    fn holds(self, rest: &str) -> bool {
        match self {
            Mixed => {
                distinct(rest) >= DISTINCT_MIN && rest.bytes().any(|byte| byte.is_ascii_digit())
            }
            Random => looks_random(rest),
            Crc => has_crc(rest),
            OpenAi => rest.contains(MIDDLE) && distinct(rest) >= DISTINCT_MIN * 2,
            EndsAa => rest.ends_with("AA") && distinct(rest) >= DISTINCT_MIN * 2,
            Slack => slack(rest),
            SendGrid => {
                let parts: Vec<&str> = rest.split('.').collect();
                matches!(parts[..], [id, key] if id.len() == 22 && key.len() == 43 && looks_random(key))
            }
        }
    }
}

/// Returns true for a body like `12345678901-12345678901-abc...`: at least one long number, and a secret at the end.
fn slack(rest: &str) -> bool {
    let parts: Vec<&str> = rest.split('-').collect();
    let is_number = |part: &&str| part.len() >= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
    let Some((secret, before)) = parts.split_last() else { return false };
    before.iter().any(is_number) && secret.len() >= 20 && distinct(secret) >= DISTINCT_MIN
}

/// Returns true if the last six characters are the CRC-32 of the others, in base 62.
fn has_crc(rest: &str) -> bool {
    let Some((random, check)) = rest.split_at_checked(rest.len() - CRC_CHARS) else { return false };
    let mut crc = crc32(random.as_bytes());
    let mut wanted = [b'0'; CRC_CHARS];
    for digit in wanted.iter_mut().rev() {
        *digit = DIGITS[(crc % 62) as usize];
        crc /= 62;
    }
    wanted == check.as_bytes()
}

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// CRC-32 as in zlib. Computed bit by bit, because the input is rare and has only a few dozen bytes.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Characters of a JWT header.
    const JWT_HEADER_CHARS_MAX: usize = 1_024;
    /// Characters of JWT claims.
    const JWT_CLAIMS_CHARS_MAX: usize = 16 << 10;
    /// Bytes of the prefix that an operator may choose, and of the infix after it.
    const OWN_PREFIX_BYTES_MAX: usize = 32 + 10;
}

/// Minimum characters of a signature, which has at least 32 bytes.
const JWT_SIGNATURE_CHARS_MIN: usize = 43;
/// Subject of the well-known example token.
const JWT_SHOWN: &str = "1234567890";

/// Matches a signed token: a header with an algorithm, claims, a signature. An unsigned token grants no access.
fn jwt(text: &str, at: usize, runs: &mut Runs) -> Token {
    let bytes = text.as_bytes();
    let header_end = runs.end(bytes, at, Url);
    if bytes.get(header_end) != Some(&b'.') || header_end - at > JWT_HEADER_CHARS_MAX {
        return Token::Not;
    }
    let object = |range: std::ops::Range<usize>| {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(&text[range]).ok()?;
        serde_json::from_slice::<Value>(&bytes).ok().filter(Value::is_object)
    };
    let Some(header) = object(at..header_end) else { return Token::Not };
    let is_signed = header["alg"].as_str().is_some_and(|alg| !alg.eq_ignore_ascii_case("none"));
    let claims = header_end + 1;
    let claims_end = runs.end(bytes, claims, Url);
    if !is_signed
        || claims_end - claims > JWT_CLAIMS_CHARS_MAX
        || bytes.get(claims_end) != Some(&b'.')
    {
        return Token::Not;
    }
    let end = runs.end(bytes, claims_end + 1, Url);
    let Some(said) = object(claims..claims_end) else { return Token::Not };
    if said["sub"] == JWT_SHOWN || end - claims_end <= JWT_SIGNATURE_CHARS_MIN {
        return Token::Mock;
    }
    Token::Is(Kind::Jwt, end)
}

/// Matches `hooks.slack.com/services/T.../B.../` and 24 characters: anybody with this URL can post to the channel.
fn slack_hook(text: &str, at: usize) -> Token {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.');
    let length = text.as_bytes()[at..].iter().take(128).take_while(|byte| is_part(byte)).count();
    let parts: Vec<&str> = text[at..at + length].split('/').collect();
    let is_id = |part: &str| (9..=13).contains(&part.len());
    match parts[..] {
        [_, _, team, app, secret] if is_id(team) && is_id(app) && app.starts_with('B') => {
            let is_real = (20..=26).contains(&secret.len()) && !is_placeholder(secret);
            let is_real = is_real && looks_random(secret);
            if is_real { Token::Is(Kind::Slack, at + length) } else { Token::Mock }
        }
        _ => Token::Not,
    }
}

/// Base-62 digits of a key issued by recalld.
const OWN_CHARS: usize = 43;
/// Infixes between prefix and digits.
const OWN_INFIXES: [&str; 10] =
    ["gw", "gws", "pat", "ws", "user", "once", "client", "mail", "code", "refresh"];

/// Matches a key issued by recalld (`server/common/src/secret.rs`): `PREFIX_INFIX_` and 43 digits, or 86 for a refresh
/// token.
fn own(text: &str, at: usize, runs: &mut Runs) -> Token {
    let bytes = text.as_bytes();
    // Most words are shorter and are rejected here.
    if !bytes.get(at + OWN_CHARS).is_some_and(u8::is_ascii_alphanumeric) {
        return Token::Not;
    }
    let name = bytes[at..].iter().take(OWN_PREFIX_BYTES_MAX);
    let name = name
        .take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || **byte == b'_');
    let Some(last) = text[at..at + name.count()].rfind('_') else { return Token::Not };
    let Some((_, infix)) = text[at..at + last].split_once('_') else { return Token::Not };
    if !OWN_INFIXES.contains(&infix) {
        return Token::Not;
    }
    let begins = at + last + 1;
    let end = runs.end(bytes, begins, Base62);
    let number = &text[begins..end];
    let digits = if infix == "refresh" { OWN_CHARS * 2 } else { OWN_CHARS };
    // 2^256 has 43 digits, the first of which is below `z`.
    let fits = number.len() == digits && bytes.get(end) != Some(&b'_');
    if !fits {
        return Token::Not;
    }
    let is_one = !is_placeholder(number) && looks_random(number);
    if is_one { Token::Is(Kind::Recalld, end) } else { Token::Mock }
}

/// Matches a Telegram bot token: the bot's number, a colon, and 35 characters that begin with `AA`.
fn telegram(text: &str, at: usize, runs: &mut Runs) -> Token {
    let bytes = text.as_bytes();
    let digits = bytes[at..].iter().take(11).take_while(|byte| byte.is_ascii_digit()).count();
    let begins = at + digits + 1;
    if !(8..=10).contains(&digits) || !bytes[at + digits..].starts_with(b":AA") {
        return Token::Not;
    }
    let end = runs.end(bytes, begins, Url);
    let is_one = end - begins == 35 && looks_random(&text[begins..end]);
    if is_one { Token::Is(Service, end) } else { Token::Not }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_in_order_and_no_prefix_hides_another() {
        for pair in FORMS.windows(2) {
            assert!(
                pair[0].prefix.as_bytes()[0] <= pair[1].prefix.as_bytes()[0],
                "{}",
                pair[1].prefix
            );
        }
        for (at, form) in FORMS.iter().enumerate() {
            let hidden = FORMS[..at].iter().find(|other| form.prefix.starts_with(other.prefix));
            assert!(hidden.is_none(), "{} hides {}", hidden.unwrap().prefix, form.prefix);
        }
    }

    #[test]
    fn the_checksum_is_that_of_zlib_in_base_62() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        // Computed independently with Python's zlib.
        let (random, check) = ("zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ", "0mLq17");
        assert!(has_crc(&format!("{random}{check}")));
        assert!(!has_crc(&format!("{random}0mLq18")));
    }
}
