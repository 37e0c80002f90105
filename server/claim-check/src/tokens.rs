//! Tokenizer: splits a text into sentences, and a sentence into tokens. Joins fixed phrases (`no longer`, `at least`)
//! into one token.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a text that are read; the rest is ignored.
    pub(super) const BYTES_MAX: usize = 16 << 10;
    /// Sentences of a text that are read.
    pub(super) const SENTENCES_MAX: usize = 64;
    /// Tokens of a sentence; a longer sentence is probably a listing, and is skipped.
    pub(super) const TOKENS_MAX: usize = 64;
    /// Bytes of the longest abbreviation in [`SHORT`].
    const SHORT_BYTES_MAX: usize = 7;
}

/// Word or number of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Lower case, with plain apostrophes; the words of a fixed phrase are joined by `-`.
    pub(super) text: String,
    /// Text of the token, as written.
    pub(super) written: String,
    /// True if the token has a capital letter.
    pub(super) is_capital: bool,
    /// Colon or equals sign before the token.
    pub(super) sign: Option<char>,
    /// True if a comma, a bracket or a dash precedes the token.
    pub(super) breaks: bool,
}

/// Fixed phrases, with the token for each.
const PHRASES: &[(&[&str], &str)] = &[
    (&["not", "only"], "also"),
    (&["no", "longer"], "no-longer"),
    (&["not", "any", "longer"], "no-longer"),
    (&["not", "any", "more"], "no-longer"),
    (&["no", "more", "than"], "at-most"),
    (&["not", "more", "than"], "at-most"),
    (&["no", "less", "than"], "at-least"),
    (&["no", "fewer", "than"], "at-least"),
    (&["not", "exceed"], "at-most"),
    (&["no", "later", "than"], "by-date"),
    (&["not", "later", "than"], "by-date"),
    (&["no", "earlier", "than"], "from-date"),
    (&["not", "before"], "from-date"),
    (&["not", "after"], "by-date"),
    (&["at", "least"], "at-least"),
    (&["at", "most"], "at-most"),
    (&["at", "the", "most"], "at-most"),
    (&["up", "to"], "at-most"),
    (&["or", "more"], "or-more"),
    (&["or", "less"], "or-less"),
    (&["or", "fewer"], "or-less"),
    (&["more", "than"], "more-than"),
    (&["longer", "than"], "more-than"),
    (&["greater", "than"], "more-than"),
    (&["over"], "more-than"),
    (&["above"], "more-than"),
    (&["exceeds"], "more-than"),
    (&["less", "than"], "less-than"),
    (&["fewer", "than"], "less-than"),
    (&["under"], "less-than"),
    (&["below"], "less-than"),
    (&["used", "to"], "used-to"),
    (&["in", "the", "past"], "in-the-past"),
    (&["instead", "of"], "instead-of"),
    (&["rather", "than"], "rather-than"),
    (&["apart", "from"], "apart-from"),
    (&["other", "than"], "other-than"),
    (&["but", "not"], "but-not"),
    (&["except", "for"], "except"),
    (&["by", "hand"], "by-hand"),
    (&["on", "call"], "on-call"),
    (&["as", "of"], "since"),
    (&["per", "cent"], "percent"),
    (&["we", "may"], "may-we"),
    (&["stop", "using"], "stop-using"),
    (&["stopped", "using"], "stopped-using"),
    (&["a", "dozen"], "a-dozen"),
    (&["a", "couple", "of"], "two"),
    (&["turned", "on"], "enabled"),
    (&["turned", "off"], "disabled"),
    (&["switched", "on"], "enabled"),
    (&["switched", "off"], "disabled"),
    (&["two", "factor"], "two-factor"),
    (&["end", "of"], "of"),
];

/// Abbreviations, whose full stop does not end a sentence.
const SHORT: [&str; 14] = [
    "e.g.", "i.e.", "approx.", "vs.", "ca.", "dr.", "mr.", "mrs.", "no.", "nr.", "st.", "fig.",
    "etc.", "incl.",
];

/// Splits a text into sentences: at a full stop, question mark, exclamation mark or semicolon before a space, at an
/// empty line, and before a list item. A line with a field such as `Owner: Ada` is separate from the lines around it.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let text = &text[..text.floor_char_boundary(BYTES_MAX)];
    let lines = text.split('\n');
    let mut paragraphs: Vec<(usize, usize)> = Vec::new();
    let (mut at, mut open) = (0, false);
    for line in lines {
        let (from, to) = (at, at + line.len());
        at = to + 1;
        let bare = line.trim();
        let is_point = bare.starts_with(['-', '*', '#', '|', '>', '+'])
            || bare.starts_with(|c: char| c.is_ascii_digit()) && bare.contains(". ");
        let is_field = bare.contains(": ") || bare.contains('=');
        match paragraphs.last_mut().filter(|_| open && !is_point && !is_field && !bare.is_empty()) {
            Some(last) => last.1 = to,
            None if bare.is_empty() => {}
            None => paragraphs.push((from, to)),
        }
        open = !bare.is_empty() && !is_field;
    }
    let parts = paragraphs.into_iter().flat_map(move |(from, to)| stops(&text[from..to]));
    parts.filter(|part| part.contains(char::is_alphanumeric)).take(SENTENCES_MAX)
}

/// Splits a paragraph after the end of each sentence.
fn stops(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().find(|&(at, c)| {
            let end = at + c.len_utf8();
            let ends = |c: char| c.is_whitespace() || c == ')';
            matches!(c, '.' | '!' | '?' | ';')
                && rest[end..].chars().next().is_none_or(ends)
                && !is_short(&rest[..end])
        });
        let end = end.map_or(rest.len(), |(at, c)| at + c.len_utf8());
        let (part, behind) = rest.split_at(end);
        rest = behind;
        Some(part)
    })
}

/// Returns true if the text ends with an abbreviation.
fn is_short(text: &str) -> bool {
    let begin = text.floor_char_boundary(text.len().saturating_sub(SHORT_BYTES_MAX + 1));
    let word = text[begin..].rsplit(char::is_whitespace).next().unwrap_or_default();
    SHORT.contains(&&*word.to_lowercase())
}

/// Returns the tokens of a sentence; `None` if there are more than `TOKENS_MAX`.
pub(super) fn tokens(sentence: &str) -> Option<Vec<Token>> {
    let mut found: Vec<Token> = Vec::new();
    let (mut sign, mut breaks) = (None, false);
    for chunk in sentence.split_whitespace() {
        // `LOG_FORMAT=json` and `a=1` are two tokens each, with a sign between.
        for (n, piece) in chunk.split('=').enumerate() {
            if n > 0 {
                sign = Some('=');
            }
            let bare = piece.trim_start_matches(LEADING);
            breaks |= bare.len() < piece.len() && piece.starts_with(['(', '[']);
            let word = bare.trim_end_matches(TRAILING);
            let tail = &bare[word.len()..];
            breaks |= word.is_empty() && piece.contains(['-', '\u{2013}', '\u{2014}', ',']);
            let word = word.strip_suffix("'s").filter(|_| false).unwrap_or(word);
            if !word.is_empty() {
                if found.len() == TOKENS_MAX {
                    return None;
                }
                let text = word.replace('\u{2019}', "'").to_lowercase();
                let is_capital = word.contains(char::is_uppercase);
                found.push(Token { text, written: word.to_owned(), is_capital, sign, breaks });
                (sign, breaks) = (None, false);
            }
            if tail.contains(':') {
                sign = Some(':');
            }
            breaks |= tail.contains([',', ')', ']']);
        }
    }
    join(&mut found);
    Some(found)
}

/// Characters stripped from the start of a word.
const LEADING: [char; 16] =
    ['(', '[', '{', '"', '\'', '`', '*', '_', '\u{201c}', '\u{2018}', '-', '#', '|', '>', '+', ','];
/// Characters stripped from the end of a word.
const TRAILING: [char; 18] = [
    ')', ']', '}', '"', '\'', '`', '*', '\u{201d}', '\u{2019}', '.', ',', ';', ':', '!', '?', '|',
    '-', '\u{2013}',
];

/// Joins fixed phrases into one token each, the longest match first.
fn join(tokens: &mut Vec<Token>) {
    let mut at = 0;
    while at < tokens.len() {
        let fits = |(words, _): &&(&[&str], &str)| {
            let there = tokens.iter().skip(at);
            let same = there.zip(*words).filter(|(token, word)| token.text == **word).count();
            same == words.len()
        };
        if let Some((words, joined)) =
            PHRASES.iter().filter(fits).max_by_key(|(words, _)| words.len())
        {
            let written: Vec<String> =
                tokens[at..at + words.len()].iter().map(|token| token.written.clone()).collect();
            tokens[at].text = (*joined).to_owned();
            tokens[at].written = written.join(" ");
            tokens.drain(at + 1..at + words.len());
        }
        at += 1;
    }
}
