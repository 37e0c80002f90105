//! Path mentions: file paths and code symbols that a question names.
//!
//! Recognizes the spelling only: paths, symbols, and words that ask for a location without a name.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Names used per question; further names are ignored.
    const NAMES_MAX: usize = 8;
    /// Words of a question that are parsed.
    const WORDS_MAX: usize = 512;
    /// Longest name in bytes; longer words are pasted data.
    const NAME_BYTES_MAX: usize = 512;
}

/// Paths and symbols that a question names, as spelled and without repetitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// Paths, without a leading `./`: `src/net/conn.rs`, `README.md`.
    pub paths: Vec<String>,
    /// Symbols, without brackets around or after: `Store::open`, `snake_case`, `camelCase`, `call`.
    pub symbols: Vec<String>,
}

impl Named {
    /// Parses a question.
    pub fn of(question: &str) -> Self {
        let mut named = Self::default();
        for word in question.split_whitespace().take(WORDS_MAX) {
            if word.len() > NAME_BYTES_MAX {
                continue;
            }
            let (into, name) = match (path(word), symbol(word)) {
                (Some(path), _) => (&mut named.paths, path),
                (None, Some(symbol)) => (&mut named.symbols, symbol),
                (None, None) => continue,
            };
            if into.len() < NAMES_MAX && !into.iter().any(|known| known == name) {
                into.push(name.to_owned());
            }
        }
        named
    }

    /// Returns true if there are no names.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.symbols.is_empty()
    }
}

/// Returns true if a word of the question asks for a location.
pub(super) fn asks_where(question: &str) -> bool {
    const PLACE_WORDS: [&str; 9] =
        ["where", "file", "files", "path", "line", "lines", "folder", "directory", "located"];
    let plain = |word: &str| {
        word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_').to_ascii_lowercase()
    };
    question.split_whitespace().any(|word| PLACE_WORDS.contains(&plain(word).as_str()))
}

/// Parses a path: `src/net/conn.rs`, `README.md`, `./x`.
fn path(word: &str) -> Option<&str> {
    if word.trim_end_matches(|c: char| ",;.:!?\"'`".contains(c)).ends_with("()") {
        return None; // Store.open() is called
    }
    let word = word.trim_matches(|c: char| ",;:!?()\"'`".contains(c)).trim_end_matches('.');
    if word.contains("://") {
        return None;
    }
    let inner_slash = word.trim_matches('/').contains('/')
        && !word.split('/').all(|part| part.chars().all(|c| c.is_ascii_digit()))
        && word.contains(['.', '_', '-']);
    let extension = word.rsplit_once('.').is_some_and(|(stem, extension)| {
        let short = (1..=5).contains(&extension.len());
        let letters = extension.bytes().all(|b| b.is_ascii_alphanumeric());
        let begins = extension.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
        !stem.is_empty() && short && letters && begins && !matches!(word, "e.g" | "i.e")
    });
    let name = word.trim_start_matches("./");
    ((inner_slash || extension) && !name.is_empty()).then_some(name)
}

/// Parses a symbol: `Store::open`, `snake_case`, `camelCase`, `call()`. `TypeName` must be in backticks, as prose has
/// words such as JavaScript and mRNA.
fn symbol(word: &str) -> Option<&str> {
    let word = word.trim_start_matches(|c: char| ",;.:!?\"'([".contains(c));
    let is_quoted = word.starts_with('`');
    let mut name = word.trim_start_matches(|c: char| ",;.:!?\"'`([".contains(c));
    let mut is_called = false;
    loop {
        let shorter = if let Some(called) = name.strip_suffix("()") {
            is_called = true;
            called
        } else if closes_more(name, '(', ')') || closes_more(name, '[', ']') {
            &name[..name.len() - 1]
        } else {
            name.trim_end_matches(|c: char| ",;.:!?\"'`".contains(c))
        };
        if shorter.len() == name.len() {
            break;
        }
        name = shorter;
    }
    let is_snake = name.trim_matches('_').contains('_');
    let is_type = is_quoted && has_humps(name);
    let is_symbol = is_called || name.contains("::") || is_snake || is_type || is_camel(name);
    (is_symbol && !name.is_empty()).then_some(name)
}

/// Returns true if the word ends with a bracket that was opened before the word.
fn closes_more(word: &str, opening: char, closing: char) -> bool {
    let count = |bracket| word.chars().filter(|&c| c == bracket).count();
    word.ends_with(closing) && count(closing) > count(opening)
}

/// Returns true for `TypeName`: a capital letter follows a small one.
fn has_humps(name: &str) -> bool {
    let mut pairs = name.as_bytes().windows(2);
    pairs.any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

/// Returns true for `getUserName`: at least two small letters, then a capitalized word. False for mRNA, macOS, iPhone
/// and GitHub.
fn is_camel(name: &str) -> bool {
    let behind = name.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let first = name.len() - behind.len();
    match behind.as_bytes() {
        [upper, lower, ..] => {
            first >= 2 && upper.is_ascii_uppercase() && lower.is_ascii_lowercase()
        }
        _ => false,
    }
}

/// Returns true if the text has the symbol as a whole word.
pub(super) fn has_symbol(text: &str, symbol: &str) -> bool {
    places_of(text, symbol).next().is_some()
}

/// Byte offsets of the symbol as a whole word.
pub(super) fn places_of(text: &str, symbol: &str) -> impl Iterator<Item = usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let places = text.match_indices(symbol).map(|(at, _)| at);
    places.filter(move |&at| {
        let before = text[..at].chars().next_back();
        let behind = text[at + symbol.len()..].chars().next();
        !before.is_some_and(is_part) && !behind.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks_for_place(question: &str) -> bool {
        asks_where(question) || !Named::of(question).is_empty()
    }

    #[test]
    fn questions_about_places_are_known() {
        for text in [
            "where is the log replayed?",
            "what does engine/src/log.rs do",
            "README.md",
            "who calls Store::open",
            "parse_head semantics",
            "what is getUserName for?",
            "run() blocks",
        ] {
            assert!(asks_for_place(text), "{text}");
        }
    }

    #[test]
    fn other_questions_are_not() {
        for text in [
            "why did we choose epoll over io_uring?".replace("io_uring", "iouring").as_str(),
            "Is Python 3.12 faster than 3.11?",
            "and/or semantics",
            "see https://example.org/a.html",
            "What happened on 24/12?",
            "i.e. nothing",
            "does mRNA bind RhoA, MicroRNA or IgA?",
            "JavaScript on GitHub (or macOS, iPhone)",
            "a PhD about PrP, siRNA and lncRNAs",
            "() :: [] ` ()",
        ] {
            assert!(!asks_for_place(text), "{text}");
        }
    }

    #[test]
    fn names_are_taken_as_they_are_spelled() {
        let named =
            Named::of("does `./src/lamp.py` (or lamp.py) call Store::open() in tide_height?");
        assert_eq!(named.paths, ["src/lamp.py", "lamp.py"]);
        assert_eq!(named.symbols, ["Store::open", "tide_height"]);
        let named =
            Named::of("(see tide_height) [Lamp::wind()], (`LampRoom`: `windUp()`), f_of(x)");
        assert_eq!(named.symbols, ["tide_height", "Lamp::wind", "LampRoom", "windUp", "f_of(x)"]);
        let named = Named::of("what does Store.open() do to lamp.py, and `os.stat()`?");
        assert_eq!(
            (&*named.paths, &*named.symbols),
            (&["lamp.py".into()][..], &["Store.open".into(), "os.stat".into()][..])
        );
        let named = Named::of("LampRoom() run()). Lamp::new, getUserName?");
        assert_eq!(named.symbols, ["LampRoom", "run", "Lamp::new", "getUserName"]);
        let many: String = (0..100).map(|at| format!("file{at}.rs sym_{at} ")).collect();
        let named = Named::of(&many);
        assert_eq!((named.paths.len(), named.symbols.len()), (NAMES_MAX, NAMES_MAX));
        assert!(Named::of(&format!("{}.rs", "x".repeat(NAME_BYTES_MAX))).is_empty());
    }

    #[test]
    fn a_symbol_is_a_word_of_its_own() {
        assert!(has_symbol("pub fn tide_height(low: i32)", "tide_height"));
        assert!(has_symbol("Store::open, then", "Store::open"));
        for text in ["tide_heights", "my_tide_height", "", "tide height"] {
            assert!(!has_symbol(text, "tide_height"), "{text}");
        }
    }
}
