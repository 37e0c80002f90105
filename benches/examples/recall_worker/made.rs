//! Synthetic items: texts of words of the model's vocabulary, and vectors distributed as those of real texts.
//!
//! Every word is one token, so a query of n words has n tokens. Frequent words come often, as the vocabulary is
//! approximately in order of frequency. Each item belongs to a topic: a third of its words are the topic's, and its
//! vector is the topic's vector, which the encoder made from the topic's words, with noise added. Two items of a topic
//! then have a cosine of about 0.55, and real queries lie among the items as they do among real texts. Item `n` is the
//! same in every run.

use std::path::Path;

use benches::Numbers;
use engine::{Batch, CompactionOutcome, EdgeDraft, EdgeId, ItemDraft, ItemId, Micros, NoThrottle};
use recalld_embedding::embed::Embedder;
use recalld_embedding::encoding::model_request;
use recalld_embedding::model;
use recalld_embedding::model::Silent;
use serde_json::Value;

use crate::Failure;

const TOPICS: usize = 2_000;
/// Words of a topic, which are also the text that the topic's vector is encoded from.
const TOPIC_WORDS: usize = 24;
/// Words of a text (half-open range).
const TEXT_WORDS: std::ops::Range<u32> = 30..80;
const TITLE_WORDS: u32 = 5;
/// Weight of the topic's vector in an item's vector; the rest is noise.
const TOPIC_SHARE: f32 = 0.75;
/// Every 50th item supersedes an earlier one.
const REPLACING_EVERY: u64 = 50;
const REPLACED_BEFORE: u64 = 25;
const BATCH_ITEMS: usize = 4_000;
const BATCH_EDGES: usize = 20_000;
/// 2023-11-14: ids and times only need to be plausible.
const START_MILLIS: u64 = 1_700_000_000_000;
/// Milliseconds between two items.
const STEP_MILLIS: u64 = 1_000;

/// Creates a data directory of `rows` items and `edges` edges between them.
pub(crate) fn make(data: &Path, rows: u32, edges: u32) -> Result<(), Failure> {
    let started = crate::open(data)?;
    let workspace = started.parts.local.get();
    let store = &workspace.store;
    if store.snapshot().row_counts()?.items > 0 {
        return Err(format!("{} has items already", data.display()).into());
    }
    let embedder = workspace.encoders.view().embedder;
    let corpus = Corpus::new(&embedder)?;
    let rows = u64::from(rows);
    for first in (0..rows).step_by(BATCH_ITEMS) {
        let numbers = first..rows.min(first + BATCH_ITEMS as u64);
        let items = numbers.map(|number| corpus.item(number)).collect();
        let embedded_by = Some(embedder.model());
        store.write(Batch { items, embedded_by, ..Batch::default() })?;
    }
    let all: Vec<u64> = (0..u64::from(edges)).collect();
    for some in all.chunks(BATCH_EDGES) {
        let edges = some.iter().map(|&number| edge(number, rows)).collect();
        store.write(Batch { edges, ..Batch::default() })?;
    }
    store.seal()?;
    while let CompactionOutcome::Merged { .. } = store.compact_fully(&NoThrottle)? {}
    Ok(())
}

struct Topic {
    words: Vec<usize>,
    vector: Vec<f32>,
}

struct Corpus {
    words: Vec<String>,
    topics: Vec<Topic>,
}

impl Corpus {
    fn new(embedder: &Embedder) -> Result<Self, Failure> {
        let words = vocabulary()?;
        let mut numbers = Numbers::new(1);
        let chosen: Vec<Vec<usize>> = (0..TOPICS)
            .map(|_| (0..TOPIC_WORDS).map(|_| drawn(&mut numbers, words.len())).collect())
            .collect();
        let texts: Vec<String> = chosen.iter().map(|of| joined(&words, of)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = embedder.embed_all(&texts).into_iter();
        let vectors = vectors.map(|halves| halves.iter().map(|half| half.to_f32()).collect());
        let topics = chosen.into_iter().zip(vectors);
        Ok(Self { topics: topics.map(|(words, vector)| Topic { words, vector }).collect(), words })
    }

    fn item(&self, number: u64) -> ItemDraft {
        const KINDS: [&str; 4] = ["note", "decision", "document", "chunk"];
        const TAGS: [&str; 6] = ["work", "plan", "idea", "review", "release", "person"];
        let mut numbers = Numbers::new(scatter(number, 1));
        let topic = &self.topics[below(&mut numbers, self.topics.len())];
        let title = self.text(&mut numbers, topic, TITLE_WORDS);
        let words = TEXT_WORDS.start + numbers.bits() % (TEXT_WORDS.end - TEXT_WORDS.start);
        let text = self.text(&mut numbers, topic, words);
        let at = Some(Micros(i64::try_from(millis(number) * 1_000).unwrap_or(i64::MAX)));
        let replaces = number % REPLACING_EVERY == REPLACING_EVERY - 1;
        ItemDraft {
            id: Some(id_of(number)),
            kind: KINDS[below(&mut numbers, KINDS.len())].to_owned(),
            modality: "text".to_owned(),
            title,
            text,
            tags: vec![TAGS[below(&mut numbers, TAGS.len())].to_owned()],
            supersedes: if replaces { vec![id_of(number - REPLACED_BEFORE)] } else { Vec::new() },
            recorded_at: at,
            recorded_by: "operator".to_owned(),
            via: "benches".to_owned(),
            valid_from: at,
            searchable: true,
            embedding: benches::halves(&near(&mut numbers, &topic.vector)),
            ..ItemDraft::default()
        }
    }

    fn text(&self, numbers: &mut Numbers, topic: &Topic, words: u32) -> String {
        let chosen: Vec<usize> = (0..words)
            .map(|_| match below(numbers, 3) {
                0 => topic.words[below(numbers, topic.words.len())],
                _ => drawn(numbers, self.words.len()),
            })
            .collect();
        joined(&self.words, &chosen)
    }
}

/// Words of the default model's vocabulary that consist of letters, in vocabulary order.
fn vocabulary() -> Result<Vec<String>, Failure> {
    let dir = model::ensure(&model_request(None), &mut Silent)?.dir;
    let file = dir.join("tokenizer.json");
    let tokenizer: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let entries = tokenizer["model"]["vocab"].as_object().into_iter().flatten();
    let fits = |word: &str| {
        (3..=12).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    let mut words: Vec<(u64, &str)> = entries
        .filter(|(word, _)| fits(word))
        .filter_map(|(word, id)| Some((id.as_u64()?, word.as_str())))
        .collect();
    words.sort_unstable();
    if words.len() < TOPICS {
        return Err(format!("{}: a vocabulary of whole words is wanted", file.display()).into());
    }
    Ok(words.into_iter().map(|(_, word)| word.to_owned()).collect())
}

fn joined(words: &[String], chosen: &[usize]) -> String {
    chosen.iter().map(|&at| words[at].as_str()).collect::<Vec<_>>().join(" ")
}

/// Returns a list index, early ones far more often: the product of two uniform draws falls off approximately as Zipf's
/// law does.
fn drawn(numbers: &mut Numbers, among: usize) -> usize {
    let product = u64::from(numbers.bits() >> 16) * u64::from(numbers.bits() >> 16);
    usize::try_from((product * among as u64) >> 32).unwrap_or(0)
}

fn below(numbers: &mut Numbers, among: usize) -> usize {
    usize::try_from((u64::from(numbers.bits()) * among as u64) >> 32).unwrap_or(0)
}

/// Returns a vector of unit length near `topic`.
fn near(numbers: &mut Numbers, topic: &[f32]) -> Vec<f32> {
    let own = numbers.vector(topic.len());
    let own_share = (1.0 - TOPIC_SHARE * TOPIC_SHARE).sqrt();
    let mixed = topic.iter().zip(&own).map(|(topic, own)| TOPIC_SHARE * topic + own_share * own);
    let mixed: Vec<f32> = mixed.collect();
    let length = mixed.iter().map(|x| x * x).sum::<f32>().sqrt();
    mixed.iter().map(|x| x / length).collect()
}

/// Returns a seed for item or edge `number`, never 0 and far from the seeds of its neighbours (the last step of
/// splitmix64, Steele, Lea and Flood 2014).
fn scatter(number: u64, salt: u64) -> u64 {
    let mut z = number.wrapping_add(salt << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ z >> 31) | 1
}

fn millis(number: u64) -> u64 {
    START_MILLIS + number * STEP_MILLIS
}

/// An id as the store makes them: ascending milliseconds, then bits that look random.
fn id_of(number: u64) -> ItemId {
    ItemId(u128::from(millis(number)) << 80 | u128::from(scatter(number, 2)))
}

/// Edges start at uniformly drawn items and end more often at some items than at others.
fn edge(number: u64, rows: u64) -> EdgeDraft {
    let mut numbers = Numbers::new(scatter(number, 3));
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    let (from, to) = (below(&mut numbers, rows), drawn(&mut numbers, rows));
    EdgeDraft {
        id: Some(EdgeId(u128::from(millis(number)) << 80 | u128::from(scatter(number, 4)))),
        from: id_of(from as u64),
        // An edge from an item to itself carries no information.
        to: id_of(if to == from { (to + 1) % rows } else { to } as u64),
        relation: "links_to".to_owned(),
        weight: f32::from(u8::try_from(number % 100).unwrap_or(0)) / 100.0,
        source: None,
        recorded_at: None,
        recorded_by: "operator".to_owned(),
        valid_from: None,
        valid_to: None,
        note: String::new(),
    }
}
