//! The encoder with the real model at 16, 32 and 128 tokens, beside the scalar reference.

use criterion::{Criterion, criterion_group, criterion_main};
use encoder::{Encoder, Precision};
use kernels::{Kernels, Level};
use server::model::{self, Bar, ModelRequest, Unit};

/// A text of about so many tokens: words that are one token each.
fn text_of(encoder: &Encoder, tokens: usize) -> String {
    let mut text = String::new();
    for word in ["the", "storm", "came", "by", "night", "and", "lamp", "burned"].iter().cycle() {
        if encoder.tokens(&text) >= tokens {
            return text;
        }
        text.push_str(word);
        text.push(' ');
    }
    text
}

fn bench(criterion: &mut Criterion) {
    let request = ModelRequest::from_environment(None);
    let files = match model::ensure(&request, &mut Bar::stderr(Unit::Bytes)) {
        Ok(files) => files,
        Err(error) => panic!("{error}\n{}", error.remedy()),
    };
    let files = files.borrowed();
    let mut group = criterion.benchmark_group("encode one text");
    group.sample_size(10);
    let levels = [Kernels::detect().level(), Level::Scalar];
    for kernels in levels.into_iter().filter_map(Kernels::for_level) {
        let level = kernels.level().name();
        let encoder =
            Encoder::open_as(&files, kernels, Precision::F32).expect("its hash was checked");
        let mut scratch = encoder.scratch();
        let mut vector = vec![0.0; encoder.dimensions()];
        for tokens in [16, 32, 128] {
            let text = text_of(&encoder, tokens);
            group.bench_function(format!("{tokens} tokens, {level}"), |bencher| {
                bencher.iter(|| encoder.encode(&mut scratch, &text, &mut vector));
            });
        }
    }
    group.finish();
}

criterion_group!(benches_of_encode, bench);
criterion_main!(benches_of_encode);
