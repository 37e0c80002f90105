//! Slot extraction: fills a tool's arguments from the tokens of a command.
//!
//! Values are found by the words around them: ids, paths, texts, reasons, numbers. Missing values are reported, never
//! invented.

use engine::Micros;
use serde_json::{Map, Value};

use crate::cues::is_filler;
use crate::mood::stands;
use crate::said::{Piece, Said, Sort, range_of};
use crate::times::{self, Moment};
use recalld_common::names;
use recalld_recall::{When, named};

/// Lead-in words between a verb and its text.
const LEADS: &str = "please that to about of for on with by as say read the following this is be";
/// Polite endings.
const ENDS: [&str; 8] = ["please", "pls", "plz", "thanks", "thank you", "thx", "for me", "now"];
/// Words that introduce a reason.
const BECAUSE: &str = "because since cause reason due";
/// Words that negate the following words.
const DENYING: &str = "not isnt arent dont never wont cannot";

/// Slot extraction from one command, for one tool.
pub(crate) struct Taking<'a> {
    pub(crate) said: &'a Said<'a>,
    /// Stems of the command's words, with misspellings corrected.
    pub(crate) words: &'a [String],
    /// First token after the polite prefixes.
    pub(crate) head: usize,
    /// Tokens of the pattern that selected the tool.
    pub(crate) places: &'a [usize],
    pub(crate) now: Micros,
    pub(crate) arguments: Map<String, Value>,
    /// Required arguments that the command lacks.
    pub(crate) needs: Vec<&'static str>,
}

impl Taking<'_> {
    /// First token after the pattern.
    pub(crate) fn end(&self) -> usize {
        self.places.last().map_or(self.head, |last| last + 1)
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.arguments.insert(name.to_owned(), value.into());
    }

    /// Sets an optional argument.
    pub(crate) fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets a required argument, or records that the argument is missing.
    pub(crate) fn set_needed(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        match value {
            Some(value) => self.set(name, value),
            None => self.needs.push(name),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.said.pieces.len()
    }

    pub(crate) fn piece(&self, at: usize) -> Option<&Piece> {
        self.said.pieces.get(at)
    }

    pub(crate) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    pub(crate) fn is_sort(&self, at: usize, sort: Sort) -> bool {
        self.piece(at).is_some_and(|piece| piece.sort == sort)
    }

    /// Returns true if the command has one of the words.
    pub(crate) fn has(&self, words: &str) -> bool {
        self.place_of(words, self.head).is_some()
    }

    /// Index of the first of these words, from token `from` on.
    pub(crate) fn place_of(&self, words: &str, from: usize) -> Option<usize> {
        let is = |at: &usize| {
            let word = self.word(*at);
            !word.is_empty() && words.split_whitespace().any(|one| one == word)
        };
        (from..self.words.len()).find(is)
    }

    /// Texts of all tokens of a kind.
    pub(crate) fn all(&self, is: impl Fn(Sort) -> bool) -> Vec<String> {
        let pieces = self.said.pieces.iter().filter(|piece| is(piece.sort));
        pieces.map(|piece| piece.text.clone()).collect()
    }

    /// Text of the first token of a kind.
    pub(crate) fn first(&self, is: impl Fn(Sort) -> bool) -> Option<String> {
        self.all(is).into_iter().next()
    }

    pub(crate) fn path(&self) -> Option<String> {
        self.first(|sort| sort == Sort::Path)
    }

    pub(crate) fn quote(&self) -> Option<String> {
        self.first(|sort| sort == Sort::Quote).filter(|quote| !quote.is_empty())
    }

    /// Sets a required argument to the first id of an item.
    pub(crate) fn item(&mut self, name: &'static str) {
        let id = self.first(Sort::is_item);
        self.set_needed(name, id);
    }

    /// Sets a required argument to the first id of this kind.
    pub(crate) fn id(&mut self, name: &'static str, sort: Sort) {
        let id = self.first(|of| of == sort);
        self.set_needed(name, id);
    }

    /// Number directly before or after one of the words.
    pub(crate) fn number_by(&self, words: &str) -> Option<f64> {
        let number = |at: usize| self.number(at);
        let near = |at: usize| {
            let before = at.checked_sub(1).and_then(number);
            let behind = (at + 1..at + 4).take_while(|&next| {
                self.is_sort(next, Sort::Number)
                    || self.piece(next).is_some_and(is_filler)
                    || matches!(self.word(next), "of" | "at" | "is" | "to" | "most")
            });
            before.or_else(|| behind.into_iter().find_map(number))
        };
        let is = |at: &usize| {
            let word = self.word(*at);
            !word.is_empty() && words.split_whitespace().any(|one| one == word)
        };
        (self.head..self.words.len()).filter(is).find_map(near)
    }

    /// Number at a token, in digits or as a word.
    pub(crate) fn number(&self, at: usize) -> Option<f64> {
        const WORDS: [&str; 10] =
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
        let piece = self.piece(at)?;
        if piece.sort == Sort::Number {
            return piece.text.parse().ok();
        }
        let spelt = WORDS.iter().position(|word| *word == piece.word)?;
        u32::try_from(spelt + 1).ok().map(f64::from)
    }

    /// Integer directly before or after one of the words.
    pub(crate) fn whole_by(&self, words: &str) -> Option<i64> {
        self.number_by(words).and_then(whole)
    }

    /// Two integers that form a range: `10-20`, `10 to 20`, `10 and 20`.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        (self.head..self.len()).find_map(|at| {
            let piece = self.piece(at)?;
            if piece.sort == Sort::Range {
                return range_of(&piece.text);
            }
            let first = self.number(at).and_then(whole)?;
            let joins = matches!(self.word(at + 1), "to" | "until" | "till" | "through" | "and")
                || self
                    .piece(at + 1)
                    .is_some_and(|sign| sign.sort == Sort::Mark && sign.text == "-");
            let behind = at + 2 + usize::from(self.word(at + 2) == "line");
            let last = joins.then(|| self.number(behind).and_then(whole)).flatten()?;
            Some((first, last))
        })
    }

    /// Text of the tokens `from..to`, without politeness and surrounding punctuation.
    pub(crate) fn text(&self, from: usize, to: usize) -> Option<String> {
        let pieces = &self.said.pieces;
        let first = pieces.get(from)?;
        let end = if to >= pieces.len() { self.said.text.len() } else { pieces[to].at.start };
        let text = self.said.text.get(first.at.start..end)?;
        // The question mark of a polite command is no part of the text.
        let text =
            if end == self.said.text.len() { text.trim_end().trim_end_matches('?') } else { text };
        let is_one = to.min(pieces.len()) == from + 1;
        let alone = Some(first).filter(|piece| is_one && piece.sort == Sort::Quote);
        let cleaned = alone.map_or_else(|| clean(text), |quote| quote.text.clone());
        (!cleaned.is_empty()).then_some(cleaned)
    }

    /// Text from a token on, without lead-in words.
    pub(crate) fn rest(&self, from: usize) -> Option<String> {
        self.text(self.past_leads(from), self.len())
    }

    /// Text from a token up to another, without lead-in words.
    pub(crate) fn rest_until(&self, from: usize, to: usize) -> Option<String> {
        let from = self.past_leads(from);
        (from < to).then(|| self.text(from, to)).flatten()
    }

    /// First token from `from` on that is neither a lead-in word nor punctuation.
    pub(crate) fn past_leads(&self, from: usize) -> usize {
        let leads = |at: &usize| {
            let word = self.word(*at);
            let is_lead = LEADS.split_whitespace().any(|lead| lead == word) && !word.is_empty();
            // `the` is part of the text, unless `following` comes next.
            let is_article = word == "the" && self.word(*at + 1) != "following";
            self.is_sort(*at, Sort::Mark) || (is_lead && !is_article)
        };
        let mut at = from;
        while at < self.len() && leads(&at) {
            at += 1;
        }
        at
    }

    /// Text after the first of the words, up to the next punctuation or word of `until`.
    pub(crate) fn behind(&self, words: &str, until: &str) -> Option<String> {
        let at = self.place_of(words, self.head)?;
        let from = self.past_leads(at + 1);
        if self.is_sort(from, Sort::Quote) {
            return self.piece(from).map(|quote| quote.text.clone());
        }
        let ends = |next: &usize| {
            let is_sign = self.piece(*next).is_some_and(|sign| {
                sign.sort == Sort::Mark && matches!(sign.text.as_str(), "," | ";" | ":" | "?")
            });
            let word = self.word(*next);
            is_sign || (!word.is_empty() && until.split_whitespace().any(|one| one == word))
        };
        let to = (from..self.len()).find(ends).unwrap_or(self.len());
        if from < to { self.text(from, to) } else { None }
    }

    /// Finds a reason from a token on: index of the word that introduces the reason, and start of the reason's text.
    pub(crate) fn because(&self, from: usize) -> Option<(usize, usize)> {
        if let Some(at) = self.place_of(BECAUSE, from) {
            let to = usize::from(self.word(at) == "due" && self.word(at + 1) == "to");
            return Some((at, self.past_leads(at + 1 + to)));
        }
        // Matches `as it is old`, but not `as depends_on`.
        let tells = |at: usize| {
            matches!(
                self.word(at),
                "it" | "they"
                    | "the"
                    | "we"
                    | "he"
                    | "she"
                    | "nobody"
                    | "there"
                    | "this"
                    | "that"
                    | "i"
            )
        };
        let says = |at: usize| {
            self.piece(at + 1)
                .is_some_and(|next| next.text.chars().next().is_some_and(char::is_uppercase))
        };
        let by_as = (from..self.words.len())
            .find(|&at| self.word(at) == "as" && (tells(at + 1) || says(at)));
        by_as.map(|at| (at, at + 1))
    }

    /// Text of the reason, from a token on: after a word that introduces a reason, or after punctuation.
    pub(crate) fn reason(&self, from: usize) -> Option<String> {
        if let Some((_, at)) = self.because(from) {
            return self.text(at, self.len());
        }
        let is_sign = |at: &usize| {
            self.piece(*at).is_some_and(|sign| {
                sign.sort == Sort::Mark
                    && matches!(sign.text.as_str(), "," | ";" | ":" | "." | "-" | "\u{2013}")
            })
        };
        let sign = (from..self.len()).find(is_sign)?;
        let at = (sign + 1..self.len()).find(|at| !is_sign(at))?;
        self.text(at, self.len())
    }

    /// Due time that the command names.
    pub(crate) fn moment(&self) -> Option<Moment> {
        times::moment(self.said, self.now)
    }

    /// Sets `from` and `to` to the period that the command names.
    pub(crate) fn period(&mut self) {
        let Some(When::Within(period)) = named(self.said.text, Some(self.now)) else { return };
        if period.start.0 > i64::MIN {
            self.set("from", names::time(period.start));
        }
        if period.end.0 < i64::MAX {
            self.set("to", names::time(period.end));
        }
    }

    /// Returns true if the command explicitly excludes a dry run. Quotes do not count, nor does a negated phrase such
    /// as `not for real`.
    pub(crate) fn is_for_real(&self) -> bool {
        const PLAIN: [&str; 5] =
            ["for real", "no dry run", "not a dry run", "without a dry run", "without dry run"];
        let Some(at) = self.place_of_phrase(&PLAIN) else { return false };
        let sign = (self.head..at).rev().find(|&at| self.is_sort(at, Sort::Mark));
        let denied = self.place_of(DENYING, sign.map_or(self.head, |sign| sign + 1));
        denied.is_none_or(|denied| denied >= at)
    }

    /// Returns true if the command requests a dry run.
    pub(crate) fn is_trial(&self) -> bool {
        const PLAIN: [&str; 7] = [
            "dry run",
            "dryrun",
            "only tell",
            "only say",
            "just tell",
            "without writing",
            "not for real",
        ];
        !self.is_for_real() && self.place_of_phrase(&PLAIN).is_some()
    }

    /// Index of the first of these phrases.
    fn place_of_phrase(&self, phrases: &[&str]) -> Option<usize> {
        let is =
            |at: &usize| phrases.iter().any(|phrase| stands(self.words, *at, phrase).is_some());
        (self.head..self.words.len()).find(is)
    }
}

/// Converts a number without a fraction, below 2^53, to an integer.
pub(crate) fn whole(number: f64) -> Option<i64> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
    (number.fract() == 0.0 && number.abs() < EXACT_MAX).then_some(number as i64)
}

/// Trims polite endings and surrounding punctuation.
pub(crate) fn clean(text: &str) -> String {
    let mut text = text.trim();
    for _ in 0..2 {
        for end in ENDS {
            let at = text.len().checked_sub(end.len()).filter(|at| text.is_char_boundary(*at));
            let Some(at) = at else { continue };
            let is_end = text[at..].eq_ignore_ascii_case(end);
            if is_end && text[..at].ends_with([' ', ',']) {
                text = text[..at].trim_end_matches([' ', ',']);
            }
        }
    }
    text.trim_matches([' ', ',', ':', ';', '-']).to_owned()
}
