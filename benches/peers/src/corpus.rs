//! The items and edges that all engines store.
//!
//! Item `n` is the same in every run, independent of the engine and of the order of access. The corpus MUST NOT depend
//! on any engine.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use benches::Numbers;
use half::f16;

/// Result of a benchmark step; errors are printed once, at the end.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Width of an embedding.
pub const DIMENSIONS: usize = 384;
/// Distinct words of the synthetic texts.
const VOCABULARY: u64 = 50_000;
/// Words of a synthetic text (half-open range): about 400 bytes.
const TEXT_WORDS: std::ops::Range<u32> = 30..80;
const TITLE_WORDS: u32 = 5;
/// Bytes of a real paragraph, inclusive; other paragraphs are dropped.
const PARAGRAPH_BYTES: std::ops::RangeInclusive<usize> = 120..=2_000;
/// Most bytes of real files that are read in all.
const FILES_BYTES_MAX: u64 = 512 << 20;
/// File extensions of texts.
const TEXT_FILES: [&str; 6] = ["txt", "md", "rst", "rs", "py", "html"];
/// 2023-11-14 in milliseconds and microseconds: times only need to be plausible.
const START_MILLIS: u128 = 1_700_000_000_000;
const START_MICROS: i64 = 1_700_000_000_000_000;

/// An item, as every engine stores it.
#[derive(Debug, Clone)]
pub struct Item {
    pub number: u64,
    /// Ascending with the item's number, as a ULID.
    pub id: u128,
    pub kind: &'static str,
    pub modality: &'static str,
    pub title: String,
    pub text: String,
    pub tags: Vec<&'static str>,
    pub recorded_at: i64,
    pub valid_from: i64,
    pub embedding: Vec<f16>,
}

/// An edge, whose items are given by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    pub id: u128,
    pub from: u64,
    pub to: u64,
    /// Weight in hundredths.
    pub weight: u8,
}

/// Source of the texts: synthetic, or the paragraphs of files.
#[derive(Debug)]
pub struct Corpus {
    /// Cumulative probabilities of the words, scaled to 2^32.
    chances: Vec<u32>,
    words: Vec<String>,
    paragraphs: Vec<String>,
}

impl Corpus {
    /// Makes a corpus of synthetic texts whose words follow Zipf's law with exponent 1.
    pub fn synthetic() -> Self {
        let weights = (1..=VOCABULARY).map(|rank| 1.0 / rank as f64);
        let whole: f64 = weights.clone().sum();
        let chances = weights.scan(0.0, |sum, weight| {
            *sum += weight / whole;
            Some((*sum * f64::from(u32::MAX)) as u32)
        });
        let words = (0..VOCABULARY).map(benches::word).collect();
        Self { chances: chances.collect(), words, paragraphs: Vec::new() }
    }

    /// Reads the paragraphs of the text files under `folder`, in the order of their paths.
    pub fn of_folder(folder: &Path) -> Outcome<Self> {
        let mut files = Vec::new();
        list(folder, &mut files)?;
        files.sort();
        let mut corpus = Self::synthetic();
        let mut left = FILES_BYTES_MAX;
        for file in files {
            let Ok(text) = fs::read_to_string(&file) else { continue }; // not UTF-8: no text
            let fitting = text.split("\n\n").map(str::trim);
            let fitting = fitting.filter(|paragraph| PARAGRAPH_BYTES.contains(&paragraph.len()));
            corpus.paragraphs.extend(fitting.map(str::to_owned));
            let Some(rest) = left.checked_sub(text.len() as u64) else { break };
            left = rest;
        }
        // Repeated paragraphs, such as one header at the top of every file, are dropped.
        let mut seen = std::collections::HashSet::new();
        corpus.paragraphs.retain(|paragraph| seen.insert(paragraph.clone()));
        if corpus.paragraphs.is_empty() {
            return Err("no paragraphs in that folder; .txt, .md, .rst, .rs, .py or .html files \
                        of UTF-8 text are wanted"
                .into());
        }
        Ok(corpus)
    }

    /// Returns how many of `wanted` items exist; synthetic items are unlimited.
    pub fn items(&self, wanted: u64) -> u64 {
        match self.paragraphs.len() as u64 {
            0 => wanted,
            most => wanted.min(most),
        }
    }

    /// Returns item `number`.
    pub fn item(&self, number: u64) -> Item {
        let mut numbers = Numbers::new(scatter(number, 1));
        let (title, text) = self.texts(number, &mut numbers);
        const KINDS: [&str; 4] = ["note", "decision", "document", "chunk"];
        const TAGS: [&str; 8] =
            ["work", "home", "plan", "idea", "review", "release", "person", "place"];
        let at = number % (1 << 40);
        Item {
            number,
            id: id_of(number),
            kind: KINDS[pick(&mut numbers, KINDS.len() as u64)],
            modality: "text",
            title,
            text,
            tags: vec![
                TAGS[pick(&mut numbers, TAGS.len() as u64)],
                TAGS[pick(&mut numbers, TAGS.len() as u64)],
            ],
            recorded_at: START_MICROS + at as i64 * 1_000,
            valid_from: START_MICROS,
            embedding: benches::halves(&numbers.vector(DIMENSIONS)),
        }
    }

    /// Title and text of item `number`, without computing its embedding.
    pub fn words_of(&self, number: u64) -> (String, String) {
        self.texts(number, &mut Numbers::new(scatter(number, 1)))
    }

    fn texts(&self, number: u64, numbers: &mut Numbers) -> (String, String) {
        if let Some(paragraph) = self.paragraphs.get(number as usize) {
            let title = paragraph.split_whitespace().take(TITLE_WORDS as usize);
            return (title.collect::<Vec<_>>().join(" "), paragraph.clone());
        }
        let title = self.made_up(TITLE_WORDS, numbers);
        let words = TEXT_WORDS.start + numbers.bits() % (TEXT_WORDS.end - TEXT_WORDS.start);
        (title, self.made_up(words, numbers))
    }

    fn made_up(&self, words: u32, numbers: &mut Numbers) -> String {
        let mut text = String::with_capacity(words as usize * 9);
        for _ in 0..words {
            let drawn = numbers.bits();
            let rank = self.chances.partition_point(|&chance| chance < drawn);
            text.push_str(&self.words[rank.min(self.words.len() - 1)]);
            text.push(' ');
        }
        text.pop();
        text
    }
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|end| TEXT_FILES.iter().any(|text| end == *text)) {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns a seed for item or edge `number`, never 0 and far from the seeds of its neighbours (the last step of
/// splitmix64, Steele, Lea and Flood 2014).
fn scatter(number: u64, salt: u64) -> u64 {
    let mut z = number.wrapping_add(salt << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ z >> 31) | 1
}

fn pick(numbers: &mut Numbers, among: u64) -> usize {
    ((u64::from(numbers.bits()) * among) >> 32) as usize
}

/// Id of item `number`: ascending milliseconds, then bits that look random.
pub fn id_of(number: u64) -> u128 {
    (START_MILLIS + u128::from(number)) << 80 | u128::from(scatter(number, 2))
}

/// Edges among `items` items. Sources are uniform. Targets follow the product of three uniform draws, so some items are
/// far more popular than others, but none by thousands.
pub fn edges(items: u64, count: u64) -> impl Iterator<Item = Edge> {
    (0..count).map(move |number| {
        let mut numbers = Numbers::new(scatter(number, 3));
        let mut draw = || u64::from(numbers.bits());
        let from = (draw() * items) >> 32;
        let even = (draw() * draw()) >> 32;
        let uneven = (even * draw()) >> 32;
        let to = (uneven * items) >> 32;
        // An edge from an item to itself carries no information.
        let to = if to == from { (to + 1) % items } else { to };
        let id = (START_MILLIS + (1 << 40) + u128::from(number)) << 80 | 1;
        Edge { id, from, to, weight: (number % 100) as u8 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_the_same_whenever_it_is_asked_for() {
        let corpus = Corpus::synthetic();
        let item = corpus.item(77);
        assert_eq!(item.text, corpus.words_of(77).1);
        assert_ne!(item.text, corpus.words_of(78).1);
        assert!((200..800).contains(&item.text.len()), "{}", item.text.len());
        assert!(id_of(77) < id_of(78));
    }

    #[test]
    fn edges_join_different_items_that_exist() {
        assert!(
            edges(10, 1_000).all(|edge| edge.from < 10 && edge.to < 10 && edge.from != edge.to)
        );
    }
}
