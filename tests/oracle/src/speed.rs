//! Time of both tokenizers for the same text.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Outcome;
use crate::compare::Pair;
use crate::{large, settings};

/// Rounds of each tokenizer, of which the median is printed.
const TURNS: usize = 15;
/// A round repeats a short text until it takes this long.
const TURN: Duration = Duration::from_millis(4);
const SENTENCE: &str = "We decided to keep the write-ahead log on a separate disk. ";

/// Measures each text and prints a line for it.
pub fn measure(published: &Value) -> Outcome<()> {
    let settings = settings::all(published, true);
    let setting = settings.first().ok_or("there are no settings")?;
    let mut pair = Pair::open(setting)?;
    let words = settings::plain_words(published);
    let mut texts = vec![
        ("16 tokens", "which disk holds the write-ahead log of the billing service?".to_owned()),
        ("128 tokens", SENTENCE.repeat(9)),
        ("1000 tokens", SENTENCE.repeat(71)),
    ];
    texts.extend(large::all(1, &words, large::BYTES));
    println!(
        "text, bytes, tokens, microseconds of the reference, ours, ratio, ours cut off at 256"
    );
    for (name, text) in &texts {
        let tokens = pair.ours(text, None).len();
        let ours = median(|| drop(black_box(pair.ours(text, None))));
        let cut = median(|| drop(black_box(pair.ours(text, Some(256)))));
        pair.reference(text, None)?;
        let reference = median(|| drop(black_box(pair.reference(text, None))));
        let ratio = ours / reference;
        println!(
            "{name}, {}, {tokens}, {reference:.1}, {ours:.1}, {ratio:.4}, {cut:.1}",
            text.len()
        );
    }
    Ok(())
}

/// Returns the median microseconds of one call.
fn median(mut act: impl FnMut()) -> f64 {
    let once = time(1, &mut act);
    let repeats = (TURN.as_secs_f64() / once.as_secs_f64().max(1e-7)).ceil().max(1.0) as u32;
    // A call that takes half a second needs fewer repetitions than a faster one.
    let turns = if once > Duration::from_millis(500) { 1 } else { TURNS };
    let mut turns: Vec<f64> = (0..turns)
        .map(|_| time(repeats, &mut act).as_secs_f64() * 1e6 / f64::from(repeats))
        .collect();
    turns.sort_by(f64::total_cmp);
    turns[turns.len() / 2]
}

fn time(repeats: u32, act: &mut impl FnMut()) -> Duration {
    let began = Instant::now();
    (0..repeats).for_each(|_| act());
    began.elapsed()
}
