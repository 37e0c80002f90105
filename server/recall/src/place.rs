//! The places that a question names: paths of files, and symbols of code.
//!
//! Owns the spelling alone: what looks like a path, what like a symbol, and which words ask for a place
//! without naming one. Must not know files or a store.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Names of one question that are looked for; more are passed over.
    const NAMES_MAX: usize = 8;
    /// Words of a question that are looked at.
    const WORDS_MAX: usize = 512;
    /// Longest name, in bytes: longer ones are data that somebody pasted.
    const NAME_BYTES_MAX: usize = 512;
}

/// What a question names, each once and as it is spelled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// `src/net/conn.rs`, `README.md`; without a leading `./`.
    pub paths: Vec<String>,
    /// `Store::open`, `snake_case`, `camelCase`, `call`; without brackets around or behind.
    pub symbols: Vec<String>,
}

impl Named {
    /// The paths and symbols of a question.
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

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.symbols.is_empty()
    }
}

/// Whether a question asks where something is, in words.
pub(super) fn asks_where(question: &str) -> bool {
    const PLACE_WORDS: [&str; 9] =
        ["where", "file", "files", "path", "line", "lines", "folder", "directory", "located"];
    let plain = |word: &str| {
        word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_').to_ascii_lowercase()
    };
    question.split_whitespace().any(|word| PLACE_WORDS.contains(&plain(word).as_str()))
}

/// `src/net/conn.rs`, `README.md`, `./x`.
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

/// `Store::open`, `snake_case`, `camelCase`, `call()`, and `TypeName` in backticks: prose has words like
/// JavaScript and mRNA, too.
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

/// Whether a word ends in a bracket that was opened before the word.
fn closes_more(word: &str, opening: char, closing: char) -> bool {
    let count = |bracket| word.chars().filter(|&c| c == bracket).count();
    word.ends_with(closing) && count(closing) > count(opening)
}

/// `TypeName`: a capital letter behind a small one.
fn has_humps(name: &str) -> bool {
    let mut pairs = name.as_bytes().windows(2);
    pairs.any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

/// `getUserName`, and neither mRNA, macOS, iPhone nor GitHub: a word of small letters, then another.
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

/// Whether a text has a symbol as a word of its own, and not within a longer one.
pub(super) fn has_symbol(text: &str, symbol: &str) -> bool {
    places_of(text, symbol).next().is_some()
}

/// Where a text has it so.
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
