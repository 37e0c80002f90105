//! The encoder with the real model, at every kernel level and precision of this CPU. The inputs are one text of 16, 32
//! and 128 tokens, and a batch of 32 texts of 32 tokens. The baseline is the scalar level.
//!
//! `benches/encoder` compares the same cases with other runtimes and measures how close the vectors are.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use encoder::{Encoder, ModelFiles, Precision};
use kernels::{Kernels, Level};
use recalld_embedding::encoding::model_request;
use recalld_embedding::model;
use recalld_embedding::model::{Bar, Unit};

/// Token counts of the single texts.
const TOKENS: [usize; 3] = [16, 32, 128];
const BATCH_TEXTS: usize = 32;
const BATCH_TOKENS: usize = 32;
/// Words of one token each.
const WORDS: [&str; 8] = ["the", "storm", "came", "by", "night", "and", "lamp", "burned"];

/// Returns a text of `tokens` tokens; different values of `start` give different texts.
fn text_of(encoder: &Encoder, tokens: usize, start: usize) -> String {
    let mut text = String::new();
    for word in WORDS.iter().cycle().skip(start % WORDS.len()) {
        if encoder.tokens(&text) >= tokens {
            break;
        }
        text.push_str(word);
        text.push(' ');
    }
    text
}

/// Returns an encoder for each level and precision of this CPU, widest level first, with its name in the results.
fn encoders<'a>(files: &'a ModelFiles<'a>) -> impl Iterator<Item = (String, Encoder)> + 'a {
    let levels = Level::ALL.iter().filter_map(|level| Kernels::for_level(*level));
    let ways = levels
        .flat_map(|kernels| Precision::ALL.iter().map(move |precision| (kernels, *precision)));
    ways.map(|(kernels, precision)| {
        let name = format!("{} {}", precision.name(), kernels.level().name());
        let encoder = Encoder::open_as(files, kernels, precision).expect("its hash was checked");
        (name, encoder)
    })
}

fn one_text(criterion: &mut Criterion, name: &str, encoder: &Encoder) {
    let mut group = criterion.benchmark_group("encode one text");
    group.sample_size(10);
    let mut scratch = encoder.scratch();
    let mut vector = vec![0.0; encoder.dimensions()];
    for tokens in TOKENS {
        let text = text_of(encoder, tokens, 0);
        group.bench_function(format!("{tokens} tokens, {name}"), |bencher| {
            bencher.iter(|| encoder.encode(&mut scratch, &text, &mut vector));
        });
    }
    group.finish();
}

fn batch(criterion: &mut Criterion, name: &str, encoder: &Encoder) {
    let mut group = criterion.benchmark_group("encode a batch");
    group.sample_size(10);
    group.throughput(Throughput::Elements(BATCH_TEXTS as u64));
    let texts: Vec<String> =
        (0..BATCH_TEXTS).map(|start| text_of(encoder, BATCH_TOKENS, start)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut scratch = encoder.scratch();
    let mut vectors = vec![0.0; texts.len() * encoder.dimensions()];
    group.bench_function(format!("{BATCH_TEXTS} x {BATCH_TOKENS} tokens, {name}"), |bencher| {
        bencher.iter(|| encoder.encode_batch(&mut scratch, &texts, &mut vectors));
    });
    group.finish();
}

fn bench(criterion: &mut Criterion) {
    let request = model_request(None);
    let files = match model::ensure(&request, &mut Bar::stderr(Unit::Bytes)) {
        Ok(files) => files,
        Err(error) => panic!("{error}"),
    };
    for (name, encoder) in encoders(&files.borrowed()) {
        one_text(criterion, &name, &encoder);
        batch(criterion, &name, &encoder);
    }
}

criterion_group!(benches_of_encode, bench);
criterion_main!(benches_of_encode);
