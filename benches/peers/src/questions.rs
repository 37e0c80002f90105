//! Queries: words of the documents, chosen by document frequency.

use std::collections::{HashMap, HashSet};

use benches::Numbers;

use crate::corpus::{Corpus, Outcome};

/// Shorter words are not used in queries.
const WORD_BYTES_MIN: usize = 3;
const WORD_BYTES_MAX: usize = 24;
/// Least document frequency of a common word, and of a middling one.
const COMMON: f64 = 0.02;
const MIDDLING: f64 = 0.001;
/// Least number of documents that contain a middling word, in collections of any size.
const MIDDLING_DOCUMENTS: u32 = 6;

/// Document frequency of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// 2% of the documents or more.
    Common,
    /// 0.1% to 2% of the documents.
    Middling,
    /// Less than 0.1%, but two documents at least.
    Rare,
    /// Each word of a random class, with equal probability.
    Mixed,
}

impl Class {
    pub const ALL: [Self; 4] = [Self::Common, Self::Middling, Self::Rare, Self::Mixed];

    /// Name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Middling => "middling",
            Self::Rare => "rare",
            Self::Mixed => "mixed",
        }
    }
}

/// Words of some documents, by class.
#[derive(Debug)]
pub struct Vocabulary {
    classes: [Vec<String>; 3],
}

impl Vocabulary {
    /// Counts the words of the first `items` items: runs of lower case ASCII letters, which every analyzer here treats
    /// as one word.
    pub fn of(corpus: &Corpus, items: u64) -> Outcome<Self> {
        let mut counts: HashMap<String, u32> = HashMap::new();
        for number in 0..items {
            let (_, text) = corpus.words_of(number);
            let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let fits = |word: &&str| {
                (WORD_BYTES_MIN..=WORD_BYTES_MAX).contains(&word.len())
                    && word.bytes().all(|byte| byte.is_ascii_lowercase())
            };
            for word in words.filter(fits).collect::<HashSet<_>>() {
                match counts.get_mut(word) {
                    Some(count) => *count += 1,
                    None => drop(counts.insert(word.to_owned(), 1)),
                }
            }
        }
        let mut classes: [Vec<String>; 3] = Default::default();
        for (word, count) in counts {
            match f64::from(count) / items as f64 {
                share if share >= COMMON => classes[0].push(word),
                share if share >= MIDDLING && count >= MIDDLING_DOCUMENTS => classes[1].push(word),
                _ if count >= 2 => classes[2].push(word),
                _ => (),
            }
        }
        // The iteration order of a map differs in every run.
        classes.iter_mut().for_each(|words| words.sort_unstable());
        match classes.iter().all(|words| words.len() >= 8) {
            true => Ok(Self { classes }),
            false => Err("too few documents to draw questions from".into()),
        }
    }

    /// Returns `count` queries of `words` distinct words.
    pub fn questions(&self, class: Class, words: usize, count: usize, seed: u64) -> Vec<String> {
        let mut numbers = Numbers::new(seed);
        let mut below = |most: usize| ((u64::from(numbers.bits()) * most as u64) >> 32) as usize;
        let mut question = || {
            let mut chosen: Vec<&str> = Vec::new();
            while chosen.len() < words {
                let class = match class {
                    Class::Mixed => below(3),
                    one => one as usize,
                };
                let word = &self.classes[class][below(self.classes[class].len())];
                if !chosen.contains(&word.as_str()) {
                    chosen.push(word);
                }
            }
            chosen.join(" ")
        };
        (0..count).map(|_| question()).collect()
    }
}
