use std::ops::Range;

use engine::Sensitivity;

use super::kind::{Hit, Kind};
use super::runs::{Runs, is_word};
use super::{assigned, blocks, carried, tokens};

/// Minimum sensitivity of an item with a secret: visible only if a rule permits.
pub const SENSITIVITY: Sensitivity = Sensitivity::Restricted;

/// A secret found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Kind of the secret.
    pub kind: Kind,
    /// Line of the first byte, from 1.
    pub line: u32,
    /// Byte range in the text.
    pub bytes: Range<usize>,
}

/// Calls `tell` for each secret in a text, in order and without overlap.
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

/// Returns the kind of the first secret in a text.
pub fn first(text: &str) -> Option<Kind> {
    let mut scan = Scan { text, bytes: text.as_bytes(), runs: Runs::default() };
    scan.next(&mut 0).map(|(kind, _)| kind)
}

/// Replaces each secret in a text by `[KIND]`, for names and paths that must be reported.
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

/// State of a scan over one text.
struct Scan<'t> {
    text: &'t str,
    bytes: &'t [u8],
    runs: Runs,
}

impl Scan<'_> {
    /// Returns the next secret from `at`, and moves `at` past it.
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

    /// Replaces the kind of a finding by the kind of the token that it consists of, if any.
    fn sharper(&mut self, (kind, bytes): Hit) -> Hit {
        match tokens::at(self.text, bytes.start, &mut self.runs) {
            tokens::Token::Is(own, end) if end == bytes.end => (own, bytes),
            _ => (kind, bytes),
        }
    }

    /// Returns the key block after a run of dashes, if any, and the end of the dashes.
    fn dashes(&self, at: usize) -> (Option<Hit>, usize) {
        let end = at + self.bytes[at..].iter().take_while(|&&byte| byte == b'-').count();
        (blocks::at(self.text, end), end)
    }

    /// Returns the secret that a word begins or names, if any, and the end of the word.
    fn word(&mut self, at: usize) -> (Option<Hit>, usize) {
        let end = at + self.bytes[at..].iter().take_while(|&&byte| is_word(byte)).count();
        let hit = match tokens::at(self.text, at, &mut self.runs) {
            tokens::Token::Is(kind, token_end) => Some((kind, at..token_end)),
            _ => carried::after_word(self.text, at..end)
                .map(|hit| self.sharper(hit))
                .or_else(|| assigned::after(self.text, at..end, &mut self.runs)),
        };
        // The scan continues after the word, because a word inside the value may begin a secret of its own.
        (hit, end)
    }
}
