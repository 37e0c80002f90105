//! Parsed text: its sentences, the role of each word, and the scope of negations.
//!
//! Decides the scope of negations, hedges and conditions, the clauses of a sentence, and the position of its value. A
//! text is parsed once for all comparisons.

use super::facts::{self, Fact};
use super::tokens::{self, Token};
use super::words::{Role, role_of, stem};

/// Word or fact of a sentence.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) stem: String,
    /// Text of the word, as written.
    pub(super) said: String,
    pub(super) role: Role,
    /// Index of the fact, for a word that is a fact.
    pub(super) fact: Option<usize>,
    /// Number of the clause.
    pub(super) clause: u8,
    /// True if written as a name, other than by the capital that starts a sentence.
    pub(super) is_name: bool,
    /// True if in the scope of a negation.
    pub(super) is_denied: bool,
    /// True if the previous word directly modifies this word.
    pub(super) is_joined: bool,
    /// True for the agent of a passive: `by the board`.
    pub(super) is_agent: bool,
    /// Preposition that governs the word, or empty.
    pub(super) led_by: &'static str,
}

impl Word {
    /// Returns true for a word that identifies the subject of a sentence.
    pub(super) fn is_heavy(&self) -> bool {
        self.fact.is_none() && matches!(self.role, Role::Content | Role::Qualifier(_))
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Sentence {
    /// Text of the sentence, as written.
    pub(super) said: String,
    pub(super) words: Vec<Word>,
    pub(super) facts: Vec<Fact>,
    /// True for a question, and for a wish, a plan or an opinion.
    pub(super) is_hedged: bool,
    pub(super) is_past: bool,
    pub(super) is_conditional: bool,
    pub(super) of_all: bool,
    pub(super) of_some: bool,
    pub(super) has_only: bool,
    /// True for an event, which may recur.
    pub(super) is_event: bool,
    /// True if the sentence contains `by`.
    pub(super) is_passive: bool,
    /// True if the subject is in the previous sentence or in the title.
    pub(super) leans: bool,
    /// Range of the words that are the value: `Ada` in `the owner is Ada`.
    pub(super) value: Option<(usize, usize)>,
    /// Bloom filter with a bit for each content word, which rules out most pairs without a comparison of words.
    pub(super) bits: u64,
}

/// Text parsed into sentences.
#[derive(Debug, Clone, Default)]
pub struct Prose {
    pub(super) sentences: Vec<Sentence>,
    /// Words of the title.
    pub(super) title: Vec<Word>,
}

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Words of a title that are read.
    const TITLE_WORDS_MAX: usize = 16;
    /// Characters of a sentence in a verdict.
    const SAID_CHARS_MAX: usize = 300;
    /// Words in the scope of `not`, at most.
    const COVERED_MAX: usize = 8;
    /// Words of a value, at most.
    const VALUE_WORDS_MAX: usize = 3;
}

const COPULAS: [&str; 8] = ["is", "are", "was", "were", "be", "named", "called", "remains"];
/// First words of a phrase that restricts the whole sentence.
const OPENING: [&str; 14] = [
    "in",
    "for",
    "on",
    "at",
    "during",
    "with",
    "from",
    "if",
    "when",
    "unless",
    "less-than",
    "after",
    "before",
    "until",
];
const PRONOUNS: [&str; 5] = ["it", "this", "they", "these", "he"];
/// Participles and verbs whose prepositional phrase is a value: a place, a tool or a person.
const PLACED: [&str; 22] = [
    "written",
    "stored",
    "hosted",
    "located",
    "licensed",
    "licenced",
    "owned",
    "maintained",
    "led",
    "managed",
    "kept",
    "deployed",
    "built",
    "is",
    "are",
    "lives",
    "live",
    "run",
    "set",
    "based",
    "implemented",
    "defaults",
];
const PLACING: [&str; 7] = ["in", "on", "under", "by", "to", "with", "less-than"];
/// Verbs whose subject is the value, unless passive: `Ada owns billing`.
const OWNING: [&str; 4] = ["own", "maintain", "lead", "manag"];
/// Verbs of single events.
const EVENTS: [&str; 31] = [
    "bought", "failed", "crashed", "received", "paid", "spent", "sold", "found", "saw", "ordered",
    "hired", "held", "met", "ran", "took", "was", "were", "did", "had", "went", "came", "got",
    "made", "sent", "asked", "called", "joined", "visited", "reported", "measured", "recorded",
];

impl Prose {
    /// Number of sentences.
    pub fn sentences_count(&self) -> usize {
        self.sentences.len()
    }

    /// Parses a text and its title, within the tokenizer's limits.
    pub fn of(title: &str, text: &str) -> Self {
        let title = tokens::sentences(title).next().and_then(tokens::tokens).unwrap_or_default();
        let mut title = words_of(&title).0;
        title.truncate(TITLE_WORDS_MAX);
        title.retain(|word| word.fact.is_none() && word.role != Role::Filler);
        let sentences = tokens::sentences(text).filter_map(Sentence::of).collect();
        Self { sentences, title }
    }

    /// Returns true if the text has no sentence to compare.
    pub fn is_empty(&self) -> bool {
        self.sentences.is_empty()
    }
}

impl Sentence {
    fn of(said: &str) -> Option<Self> {
        let tokens = tokens::tokens(said)?;
        let (words, facts) = words_of(&tokens);
        if words.is_empty() {
            return None;
        }
        let has = |role: Role| words.iter().any(|word| word.role == role && word.fact.is_none());
        let spells = |list: &[&str]| tokens.iter().any(|token| list.contains(&&*token.text));
        let is_now = spells(&["is", "are", "has", "have", "runs", "must", "will"]);
        let mut sentence = Self {
            said: said.trim().chars().take(SAID_CHARS_MAX).collect(),
            is_hedged: said.trim_end().ends_with('?') || has(Role::Hedge),
            is_past: has(Role::Past)
                || !is_now && spells(&["until"]) && (spells(&EVENTS) || spells(&["used"])),
            is_conditional: has(Role::Condition),
            of_all: has(Role::All),
            of_some: has(Role::Some),
            has_only: has(Role::Only),
            is_event: !is_now && spells(&EVENTS),
            is_passive: tokens.iter().any(|token| token.text == "by"),
            leans: tokens.iter().take(2).any(|token| PRONOUNS.contains(&&*token.text)),
            ..Self::default()
        };
        sentence.bits = words
            .iter()
            .filter(|word| word.is_heavy())
            .fold(0, |bits, word| bits | bit(&word.stem));
        sentence.value = value_of(&words);
        (sentence.words, sentence.facts) = (words, facts);
        deny(&mut sentence.words);
        mark_agents(&mut sentence.words);
        mark_prepositions(&mut sentence.words);
        Some(sentence)
    }

    /// Words of the value.
    pub(super) fn value_words(&self) -> &[Word] {
        self.value.map_or(&[], |(from, to)| &self.words[from..to])
    }
}

/// Maps a word to one of 64 bits.
pub(super) fn bit(stem: &str) -> u64 {
    let hash = stem.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    1 << (hash >> 58)
}

/// Returns the words of a sentence in order, with each fact as one word.
fn words_of(tokens: &[Token]) -> (Vec<Word>, Vec<Fact>) {
    let found = facts::read(tokens);
    let mut words: Vec<Word> = Vec::with_capacity(tokens.len());
    let mut clause = 0_u8;
    let mut is_joined = false;
    // `In Berlin, the office has` is one clause: the opening phrase restricts the rest.
    let opens = tokens.first().is_some_and(|first| OPENING.contains(&&*first.text));
    for (at, token) in tokens.iter().enumerate() {
        let role = spoken_role(tokens, at);
        let splits = token.breaks && !(opens && clause == 0) || role == Role::Break;
        if splits {
            clause = clause.saturating_add(1);
            is_joined = false;
        }
        is_joined &= token.sign.is_none();
        let fact = found.facts.iter().position(|fact| fact.from == at);
        let name = found.names.iter().find(|(of, _)| *of == at).map(|(_, name)| name.clone());
        if found.taken[at] && fact.is_none() && name.is_none() {
            continue;
        }
        let is_numbered = name.is_some();
        let role = match (fact, is_numbered) {
            (Some(_), _) | (_, true) => Role::Content,
            _ => role,
        };
        let sign = token.sign.map(String::from);
        if let Some(sign) = sign {
            let mut mark = plain(sign.clone(), sign, Role::Filler);
            mark.clause = clause;
            words.push(mark);
        }
        let is_filler = role == Role::Filler;
        let stem =
            name.unwrap_or_else(|| if is_filler { token.text.clone() } else { stem(&token.text) });
        let said =
            fact.map_or_else(|| token.written.clone(), |fact| found.facts[fact].said.clone());
        let is_name = fact.is_none()
            && (is_numbered || token.is_capital && at > 0 || token.text.contains(['_', '/']));
        words.push(Word {
            stem,
            said,
            role,
            fact,
            clause,
            is_name,
            is_denied: false,
            is_joined,
            is_agent: false,
            led_by: "",
        });
        is_joined =
            matches!(role, Role::Content | Role::Qualifier(_) | Role::Light) && fact.is_none();
    }
    (words, found.facts)
}

fn plain(stem: String, said: String, role: Role) -> Word {
    Word {
        stem,
        said,
        role,
        fact: None,
        clause: 0,
        is_name: false,
        is_denied: false,
        is_joined: false,
        is_agent: false,
        led_by: "",
    }
}

/// Returns the role of a word in its context. `on`, `off`, `red` and `green` are states only in the position of a
/// state. `open`, `complete` and `lost` are states only after a copula or a sign, and `plan` is a hedge only after a
/// pronoun.
fn spoken_role(tokens: &[Token], at: usize) -> Role {
    let token = &tokens[at];
    let before = at.checked_sub(1).map_or("", |before| &*tokens[before].text);
    let next = tokens.get(at + 1);
    match token.text.as_str() {
        "on" | "off" | "red" | "green" | "yes" => {
            let stands = COPULAS.contains(&before)
                || token.sign.is_some()
                || ["not", "turned", "to"].contains(&before);
            let ends = next.is_none_or(|next| {
                next.breaks || role_of(&next.text) != Role::Content || next.text == "default"
            });
            let is_state = stands && ends;
            if is_state {
                role_of(&token.text)
            } else if ["on", "off"].contains(&&*token.text) {
                Role::Filler
            } else {
                Role::Content
            }
        }
        "open" | "complete" | "lost" if !COPULAS.contains(&before) && token.sign.is_none() => {
            Role::Content
        }
        "plan" | "plans"
            if before == "the"
                || next.is_some_and(|next| role_of(&next.text) == Role::Light)
                || !["we", "they", "i", "you"].contains(&before) =>
        {
            Role::Content
        }
        "idea" | "think" | "want" => role_of(&token.text),
        "means" => Role::Light,
        "may" if next.is_none() => Role::Filler,
        _ => role_of(&token.text),
    }
}

/// Marks the scopes of negations. `not` negates the rest of its clause; `except`, `without` and `instead of` negate the
/// next phrase only. A negation without a content word after it in its clause negates the words before it in the
/// clause: `deploys on Fridays are forbidden`. In `moved from X to Y`, X is negated.
fn deny(words: &mut [Word]) {
    for at in 0..words.len() {
        match words[at].role {
            Role::Denies => deny_from(words, at),
            Role::DeniesNext => deny_next(words, at),
            _ => {}
        }
    }
    let moved =
        words.iter().position(|word| matches!(word.stem.as_str(), "mov" | "migrat" | "switch"));
    if let Some(moved) = moved
        && let Some(from) = words.iter().skip(moved).position(|word| word.stem == "from")
        && words.iter().skip(moved + from).any(|word| word.stem == "to")
    {
        let from = moved + from;
        let to =
            words.iter().skip(from).position(|word| word.stem == "to").map_or(from, |to| from + to);
        words[from..to].iter_mut().for_each(|word| word.is_denied = true);
    }
}

/// Marks the agent in `by the board`, up to the next function word.
fn mark_agents(words: &mut [Word]) {
    let mut in_phrase = false;
    for word in words {
        match word.role {
            Role::Filler if word.stem == "by" => in_phrase = true,
            Role::Filler if matches!(word.stem.as_str(), "the" | "a" | "our") => {}
            Role::Content if word.fact.is_none() => word.is_agent = in_phrase,
            _ => in_phrase = false,
        }
    }
}

/// Prepositions that denote different relations; `of` is compatible with all.
const PREPOSITIONS: [&str; 10] =
    ["in", "on", "at", "to", "from", "for", "about", "by", "with", "per"];

/// Sets for each word the preposition that governs it.
fn mark_prepositions(words: &mut [Word]) {
    let mut led_by = "";
    for word in words {
        match word.role {
            Role::Filler
                if matches!(
                    word.stem.as_str(),
                    "the" | "a" | "an" | "our" | "your" | "its" | "every" | "each"
                ) => {}
            Role::Filler => {
                led_by = PREPOSITIONS
                    .iter()
                    .find(|known| **known == word.stem)
                    .copied()
                    .unwrap_or_default();
                if word.stem == "of" {
                    led_by = "of";
                }
            }
            Role::Content | Role::Qualifier(_) => word.led_by = led_by,
            _ => led_by = "",
        }
    }
}

fn weighs(word: &Word) -> bool {
    word.is_heavy() || word.fact.is_some() || matches!(word.role, Role::State(..))
}

fn deny_from(words: &mut [Word], at: usize) {
    let clause = words[at].clause;
    let behind: Vec<usize> = (at + 1..words.len())
        .take_while(|&n| words[n].clause == clause)
        .take(COVERED_MAX)
        .collect();
    let has_weight = behind.iter().any(|&n| weighs(&words[n]));
    // `Deploys are forbidden on Fridays`: the negated words precede a passive.
    let is_passive = at > 0
        && COPULAS.contains(&words[at - 1].stem.as_str())
        && words[at].stem.starts_with(['f', 'p', 'b', 'd']);
    if has_weight {
        for &n in &behind {
            words[n].is_denied = !words[n].is_denied;
        }
    }
    if !has_weight || is_passive {
        for word in words[..at].iter_mut().filter(|word| word.clause == clause) {
            word.is_denied = !word.is_denied;
        }
    }
}

fn deny_next(words: &mut [Word], at: usize) {
    let mut has_weight = false;
    for word in words[at + 1..].iter_mut().take(COVERED_MAX) {
        if has_weight && !weighs(word) {
            break;
        }
        has_weight |= weighs(word);
        word.is_denied = !word.is_denied;
    }
}

/// Returns the range of a sentence's value: after `is`, `:` or `=`, after the preposition of `written in` and the like,
/// or before the verb of `Ada owns billing`.
fn value_of(words: &[Word]) -> Option<(usize, usize)> {
    let owning = words
        .iter()
        .position(|word| OWNING.contains(&word.stem.as_str()) && word.role == Role::Content);
    let is_active = |at: usize| {
        at > 0 && !words[..at].iter().any(|word| word.role == Role::Filler && word.stem != "the")
    };
    if let Some(at) = owning
        .filter(|&at| is_active(at) && words.get(at + 1).is_some_and(|next| next.stem != "by"))
    {
        let from = words[..at].iter().position(Word::is_heavy).unwrap_or(at);
        let is_follow = words
            .get(at + 1)
            .is_some_and(|next| next.role == Role::Filler && next.stem == "the" || next.is_heavy());
        if is_follow
            && from < at
            && at - from <= VALUE_WORDS_MAX
            && words[from..at].iter().all(Word::is_heavy)
        {
            return Some((from, at));
        }
    }
    let placed = words.windows(2).rposition(|pair| {
        PLACED.contains(&&*pair[0].said.to_lowercase()) && PLACING.contains(&&*pair[1].stem)
    });
    let marked = words.iter().position(|word| {
        matches!(word.stem.as_str(), ":" | "=")
            || word.role == Role::Filler && COPULAS.contains(&word.stem.as_str())
    });
    let begin = placed.map(|at| at + 2).or_else(|| marked.map(|at| at + 1))?;
    let mut from = begin;
    while words.get(from).is_some_and(|word| word.role == Role::Filler && word.stem == "the") {
        from += 1;
    }
    let clause = words.get(from)?.clause;
    let is_value = |word: &&Word| word.clause == clause && (word.is_heavy() || word.fact.is_some());
    let len = words[from..].iter().take_while(is_value).count();
    let follows =
        words.get(from + len).is_none_or(|next| next.clause != clause || next.role == Role::Filler);
    (len > 0 && len <= VALUE_WORDS_MAX && follows).then_some((from, from + len))
}
