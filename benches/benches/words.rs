//! BM25 over one segment of synthetic texts, compared with a scan of every text for the same words. Also the cost to
//! build and merge segments of several sizes; the smallest size is the cost of one write.

use criterion::{Criterion, criterion_group, criterion_main};
use engine::TopK;
use engine::fulltext::{
    Analyzer, Bm25Parameters, Bm25Weight, CollectionStats, FulltextColumns, PostingsBuilder,
    PostingsReader, Query, Score, SearchScratch, merge,
};

const ROWS: u32 = 50_000;
const WORDS_PER_ROW: usize = 80;
const BEST: usize = 10;

/// Rows of the segments that are built and merged.
const SIZES: [u32; 4] = [1, 10, 1_000, 50_000];
/// Most segments of one row in a tail.
const TAIL_PARTS: usize = 64;

fn build(texts: &[String]) -> (FulltextColumns, u32) {
    let mut builder = PostingsBuilder::new();
    let mut rows = 0;
    for text in texts {
        builder.add(rows, "", text).expect("below SEGMENT_POSTINGS_MAX");
        rows += 1;
    }
    (builder.finish(rows), rows)
}

fn join(parts: &[(FulltextColumns, u32)]) -> FulltextColumns {
    let mut rows = 0;
    let sources: Vec<_> = parts
        .iter()
        .map(|(columns, count)| {
            let from = rows;
            rows += count;
            let view = PostingsReader::open(columns.as_ref(), *count).expect("just written");
            (view, move |row: u32| Some(from + row))
        })
        .collect();
    merge(&sources, rows).expect("just written")
}

fn build_and_merge(criterion: &mut Criterion) {
    let mut numbers = benches::Numbers::new(2);
    let texts: Vec<String> = (0..50_000).map(|_| numbers.text(WORDS_PER_ROW)).collect();
    let mut group = criterion.benchmark_group("words, segments of texts of 80 words");
    group.sample_size(10);
    for rows in SIZES {
        let texts = &texts[..rows as usize];
        group.bench_function(format!("build {rows}"), |bencher| bencher.iter(|| build(texts)));
        let (one, two) = texts.split_at(texts.len() / 2);
        let halves = [build(one), build(two)];
        group.bench_function(format!("merge to {rows}"), |bencher| bencher.iter(|| join(&halves)));
    }
    let tail: Vec<_> = texts[..TAIL_PARTS].chunks(1).map(build).collect();
    group.bench_function(format!("merge {TAIL_PARTS} of 1"), |bencher| {
        bencher.iter(|| join(&tail));
    });
    group.finish();
}

fn bench(criterion: &mut Criterion) {
    let mut numbers = benches::Numbers::new(1);
    let texts: Vec<String> = (0..ROWS).map(|_| numbers.text(WORDS_PER_ROW)).collect();
    let (columns, _) = build(&texts);
    let view = PostingsReader::open(columns.as_ref(), ROWS).expect("just written");
    // Two common words, and two that occur in a few hundred rows.
    let wanted = [3, 40, 2_000, 9_000].map(benches::word);
    let question = wanted.join(" ");
    let mut group = criterion.benchmark_group("words, 50,000 texts of 80 words, best 10");
    group.sample_size(20);
    group.bench_function("bm25", |bencher| {
        let (mut analyzer, mut scratch) = (Analyzer::new(), SearchScratch::default());
        bencher.iter(|| {
            let query = Query::parse(&mut analyzer, &question);
            let mut stats = CollectionStats::new(&query);
            let found = stats.add(view, &query).expect("just written");
            let ranker = Bm25Weight::new(&query, &stats, Bm25Parameters::default());
            let mut top: TopK<Score, u32> = TopK::new(BEST);
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

criterion_group!(benches_of_words, bench, build_and_merge);
criterion_main!(benches_of_words);
