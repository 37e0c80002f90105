//! Secrets in a text: keys, tokens and passwords that should not have been written there.
//!
//! Owns what counts as a secret and where in a text it stands. Never gives the secret itself: who asks is told a
//! kind, a line and a range of bytes. One pass over the bytes; what is looked at ahead of it is bounded by name, or
//! remembered in `Runs`. Must not know items, files or tools.
//!
//! Patterns go by what makes a secret unlike other text: a maker's prefix with the length and the checksum that it
//! gives (`tokens`), a block's frame (`blocks`), a place where only a secret stands (`carried`), or a name that says
//! so beside a value that looks it (`assigned`, `values`). Where none of that holds it is no secret: a false alarm
//! hides what somebody wants to find.
#![forbid(unsafe_code)]

mod assigned;
mod blocks;
mod carried;
mod runs;

limit_table::limits! {
    pub const LIMITS = [assigned, blocks, carried, tokens, values];
}

#[cfg(test)]
mod tests;
mod tokens;
mod values;

use std::ops::Range;

use engine::Sensitivity;
use runs::Runs;

/// Kinds of secrets, named after what they open or where they stood.
macro_rules! kinds {
    ($($(#[$about:meta])* $one:ident = $name:literal,)+) => {
        /// What a secret is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $($(#[$about])* $one,)+ }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$one),+];

            /// Its name in reports and rules.
            pub fn name(self) -> &'static str {
                match self { $(Self::$one => $name,)+ }
            }
        }
    };
}

kinds! {
    /// A private key block: PEM, OpenSSH, PGP, age.
    PrivateKey = "private_key",
    /// An AWS access key id, or the secret key that goes with it.
    Aws = "aws_key",
    /// Of GitHub.
    GitHub = "github_token",
    /// Of GitLab.
    GitLab = "gitlab_token",
    /// Of Slack, or the address of a webhook there.
    Slack = "slack_token",
    /// Of Stripe.
    Stripe = "stripe_key",
    /// Of Google.
    Google = "google_key",
    /// Of npm.
    Npm = "npm_token",
    /// Of PyPI.
    PyPi = "pypi_token",
    /// Of OpenAI.
    OpenAi = "openai_key",
    /// Of Anthropic.
    Anthropic = "anthropic_key",
    /// One of ours.
    Recalld = "recalld_key",
    /// Of another service, by its prefix.
    Service = "service_token",
    /// A signed JSON web token.
    Jwt = "jwt",
    /// User and password in a URL.
    Url = "url_password",
    /// User and password of a database or a queue.
    Connection = "connection_string",
    /// The value of an `Authorization` header.
    Authorization = "authorization",
    /// What stands beside the word password.
    Password = "password",
    /// What stands beside the word key, secret or token.
    ApiKey = "api_key",
}

/// How carefully what holds a secret is to be shown, at the least: to nobody whom no rule lets see it.
pub const SENSITIVITY: Sensitivity = Sensitivity::Restricted;

/// A secret that stands in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// What it is.
    pub kind: Kind,
    /// Where it begins: the line, from 1.
    pub line: u32,
    /// Where it is.
    pub bytes: Range<usize>,
}

/// Tells of each secret in a text, in order; none of them lies in another.
pub fn each(text: &str, mut tell: impl FnMut(Secret)) {
    let mut scan = Scan { text, bytes: text.as_bytes(), runs: Runs::default() };
    let (mut at, mut counted, mut line) = (0, 0, 1_u32);
    while let Some((kind, bytes)) = scan.next(&mut at) {
        let lines = text.as_bytes()[counted..bytes.start].iter().filter(|&&byte| byte == b'\n');
        line = line.saturating_add(u32::try_from(lines.count()).unwrap_or(u32::MAX));
        counted = bytes.start;
        tell(Secret { kind, line, bytes });
    }
}

/// The kind of the first secret in a text.
pub fn first(text: &str) -> Option<Kind> {
    let mut scan = Scan { text, bytes: text.as_bytes(), runs: Runs::default() };
    scan.next(&mut 0).map(|(kind, _)| kind)
}

/// A text with `[KIND]` in the place of each secret: for a name or a path that has to be told.
pub fn masked(text: &str) -> String {
    let (mut shown, mut from) = (String::with_capacity(text.len()), 0);
    each(text, |secret| {
        shown.push_str(&text[from..secret.bytes.start]);
        shown.push_str(&format!("[{}]", secret.kind.name()));
        from = secret.bytes.end;
    });
    shown.push_str(&text[from..]);
    shown
}

/// What was found, and where.
type Hit = (Kind, Range<usize>);

/// A text that is being looked through.
struct Scan<'t> {
    text: &'t str,
    bytes: &'t [u8],
    runs: Runs,
}

impl Scan<'_> {
    /// The next secret from `at` on, which is moved behind it.
    fn next(&mut self, at: &mut usize) -> Option<Hit> {
        while let Some(&byte) = self.bytes.get(*at) {
            let (hit, next) = match byte {
                b'-' => self.dashes(*at),
                b':' => {
                    let hit = carried::in_url(self.text, *at);
                    (hit.map(|hit| self.sharper(hit)), *at + 1)
                }
                byte if is_word(byte) => self.word(*at),
                _ => (None, *at + 1),
            };
            *at = hit.as_ref().map_or(next, |(_, bytes)| bytes.end.max(next));
            if hit.is_some() {
                return hit;
            }
        }
        None
    }

    /// A token that stands where any secret may is told by its own kind.
    fn sharper(&mut self, (kind, bytes): Hit) -> Hit {
        match tokens::at(self.text, bytes.start, &mut self.runs) {
            tokens::Token::Is(own, end) if end == bytes.end => (own, bytes),
            _ => (kind, bytes),
        }
    }

    /// What begins with a dash: a block, or nothing.
    fn dashes(&self, at: usize) -> (Option<Hit>, usize) {
        let end = at + self.bytes[at..].iter().take_while(|&&byte| byte == b'-').count();
        (blocks::at(self.text, end), end)
    }

    /// What begins with a word, or is named by it; and where that ends.
    fn word(&mut self, at: usize) -> (Option<Hit>, usize) {
        let end = at + self.bytes[at..].iter().take_while(|&&byte| is_word(byte)).count();
        let hit = match tokens::at(self.text, at, &mut self.runs) {
            tokens::Token::Is(kind, token_end) => Some((kind, at..token_end)),
            _ => carried::after_word(self.text, at..end)
                .map(|hit| self.sharper(hit))
                .or_else(|| assigned::after(self.text, at..end, &mut self.runs)),
        };
        // A word in a value that begins behind it may begin a secret of its own.
        (hit, end)
    }
}

/// Whether a byte belongs to a word: a secret begins where a word does.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}
