//! BM25 over one segment of made-up texts, beside reading every text for the same words.

use criterion::{Criterion, criterion_group, criterion_main};
use engine::Top;
use engine::words::{
    Analyzer, Parameters, PostingsBuilder, PostingsView, Query, Ranker, Score, Scratch, Stats,
};

const ROWS: u32 = 50_000;
const WORDS_PER_ROW: usize = 80;
const BEST: usize = 10;

fn bench(criterion: &mut Criterion) {
    let mut numbers = benches::Numbers::new(1);
    let texts: Vec<String> = (0..ROWS).map(|_| numbers.text(WORDS_PER_ROW)).collect();
    let mut builder = PostingsBuilder::new();
    for (row, text) in (0u32..).zip(&texts) {
        builder.add(row, "", text).expect("below SEGMENT_POSTINGS_MAX");
    }
    let columns = builder.finish(ROWS);
    let view = PostingsView::open(columns.as_ref(), ROWS).expect("just written");
    // Two common words and two that a few hundred rows have.
    let wanted = [3, 40, 2_000, 9_000].map(benches::word);
    let question = wanted.join(" ");
    let mut group = criterion.benchmark_group("words, 50,000 texts of 80 words, best 10");
    group.sample_size(20);
    group.bench_function("bm25", |bencher| {
        let (mut analyzer, mut scratch) = (Analyzer::new(), Scratch::default());
        bencher.iter(|| {
            let query = Query::parse(&mut analyzer, &question);
            let mut stats = Stats::new(&query);
            let found = stats.add(&view, &query).expect("just written");
            let ranker = Ranker::new(&query, &stats, Parameters::default());
            let mut top: Top<Score, u32> = Top::new(BEST);
            ranker.search(&found, &mut scratch, |_| true, |row| row, &mut top).expect("sound");
            top
        });
    });
    group.bench_function("baseline: every text read for the words", |bencher| {
        bencher.iter(|| {
            let mut counts: Vec<(usize, u32)> = (0u32..)
                .zip(&texts)
                .map(|(row, text)| {
                    let found = text.split(' ').filter(|word| wanted.iter().any(|w| w == word));
                    (found.count(), row)
                })
                .collect();
            counts.select_nth_unstable_by(BEST, |a, b| b.cmp(a));
            counts.truncate(BEST);
            counts
        });
    });
    group.finish();
}

criterion_group!(benches_of_words, bench);
criterion_main!(benches_of_words);
