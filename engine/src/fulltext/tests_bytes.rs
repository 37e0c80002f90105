//! Tests of the bytes: columns that depend on the rows alone, and damage that stays local.

use std::cell::Cell;
use std::ops::Range;

use proptest::prelude::*;

use super::fixtures::{RowTexts, build, open};
use super::tests::rows;
use super::*;
use crate::TopK;
use crate::error::{CorruptionError, SearchError};

/// Column with an unreadable range, as a damaged page causes.
#[derive(Debug, Clone, Copy)]
struct Holed<'a> {
    bytes: &'a [u8],
    hole: (usize, usize),
    asked: &'a Cell<usize>,
}

impl ColumnBytes for Holed<'_> {
    fn size(&self) -> usize {
        self.bytes.len()
    }

    fn range(&self, from: usize, to: usize) -> Result<&[u8], CorruptionError> {
        assert!(from <= to && to <= self.bytes.len(), "asked for {from}..{to}");
        self.asked.set(self.asked.get() + to - from);
        if from < self.hole.1 && self.hole.0 < to {
            return Err(CorruptionError::new("SEG-06", "a hole"));
        }
        Ok(&self.bytes[from..to])
    }
}

/// Returns the columns, with an unreadable range in the column of this number.
fn holed<'a>(
    columns: &'a FulltextColumns,
    column: usize,
    hole: Range<usize>,
    asked: &'a Cell<usize>,
) -> FulltextColumnsRef<Holed<'a>> {
    let of = |number: usize, bytes: &'a [u8]| {
        let hole = if number == column { (hole.start, hole.end) } else { (0, 0) };
        Holed { bytes, hole, asked }
    };
    FulltextColumnsRef {
        dictionary: of(0, &columns.dictionary),
        entries: of(1, &columns.entries),
        blocks: of(2, &columns.blocks),
        postings: of(3, &columns.postings),
        lengths: of(4, &columns.lengths),
    }
}

fn answer<B: ColumnBytes>(
    view: &PostingsReader<B>,
    question: &str,
) -> Result<Vec<(Score, u32)>, SearchError> {
    let query = Query::parse(&mut Analyzer::new(), question);
    let mut stats = CollectionStats::new(&query);
    let found = stats.add(*view, &query)?;
    let ranker = Bm25Weight::new(&query, &stats, Bm25Parameters::default());
    let mut top = TopK::new(5);
    ranker.search(&found, &mut SearchScratch::default(), |_| true, |row| row, &mut top)?;
    Ok(top.into_sorted())
}

/// Returns a word of letters only for a number.
fn name(mut number: u32) -> String {
    let mut name = String::from("x");
    for _ in 0..4 {
        name.push(char::from(b'a' + u8::try_from(number % 16).unwrap()));
        number /= 16;
    }
    name + "z"
}

#[test]
fn corrupt_range_fails_only_queries_reading_it() {
    let rows: Vec<RowTexts> = (0..40_000_u32)
        .map(|i| {
            let rare = if i < 300 { "early" } else { "later" };
            (String::new(), format!("common {rare} {}", name(i % 7_000)))
        })
        .collect();
    let columns = build(&rows);
    let count = u32::try_from(rows.len()).unwrap();
    let sound = open(&columns, &rows);
    let asked = Cell::new(0);
    // For each range of each column: the result is correct, or the error of the unreadable range.
    let (mut right, mut failed) = (0, 0);
    for (column, size) in [
        columns.dictionary.len(),
        columns.entries.len(),
        columns.blocks.len(),
        columns.postings.len(),
        columns.lengths.len(),
    ]
    .into_iter()
    .enumerate()
    {
        for hole in (0..size).step_by(size.div_ceil(10)) {
            let columns = holed(&columns, column, hole..hole + size.div_ceil(10), &asked);
            let Ok(view) = PostingsReader::open(columns, count) else { continue };
            for question in ["early", "later", &name(77), &name(6_999), "nothing"] {
                match answer(&view, question) {
                    Ok(found) => {
                        assert_eq!(found, answer(&sound, question).unwrap());
                        right += 1;
                    }
                    Err(SearchError::Damaged(damage)) => {
                        assert_eq!(damage.rule, "SEG-06");
                        failed += 1;
                    }
                    Err(other) => panic!("nobody stopped it: {other}"),
                }
            }
            assert_eq!(view.verify().unwrap_err().rule, "SEG-06", "a full check sees every hole");
        }
    }
    assert!(failed > 0 && right > 2 * failed, "{right} right, {failed} failed");
    // The first rows contain "early", so the rest of the lengths may be unreadable.
    let view = PostingsReader::open(holed(&columns, 4, 20_000..40_000, &asked), count).unwrap();
    assert!(answer(&view, "early").is_ok());
    assert!(answer(&view, "later").is_err());
    // A rare term reads few bytes.
    asked.set(0);
    let view = PostingsReader::open(holed(&columns, 4, 0..0, &asked), count).unwrap();
    answer(&view, &name(77)).unwrap();
    assert!(asked.get() < 100_000, "{} bytes", asked.get());
}

/// Merges the rows of `sources` that `keep` selects; `keep` covers the rows of all sources in order.
fn keep_of(sources: &[(FulltextColumns, usize)], keep: &[bool]) -> FulltextColumns {
    let mut new_rows = Vec::new();
    let mut kept = 0_u32;
    for keep in keep {
        new_rows.push(keep.then_some(kept));
        kept += u32::from(*keep);
    }
    let mut first = 0;
    let sources: Vec<_> = sources
        .iter()
        .map(|(columns, rows)| {
            let own = &new_rows[first..first + rows];
            first += rows;
            let view =
                PostingsReader::open(columns.as_ref(), u32::try_from(*rows).unwrap()).unwrap();
            (view, move |row: u32| own[row as usize])
        })
        .collect();
    merge(&sources, kept).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn merge_with_dropped_rows_equals_building_without_them(
        pieces in prop::collection::vec(rows(40), 1..6),
        drop in prop::collection::vec(prop::bool::weighted(0.3), 1..400),
        at_a_time in 2_usize..4,
    ) {
        // Each row has a word of its own, so dropping the row drops a term.
        let (mut pieces, mut next) = (pieces, 0);
        for (_, text) in pieces.iter_mut().flatten() {
            *text += &format!(" {}", name(next));
            next += 1;
        }
        let all: Vec<RowTexts> = pieces.concat();
        let keep: Vec<bool> = (0..all.len()).map(|row| !drop[row % drop.len()]).collect();
        let kept = all.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(row, _)| row.clone());
        let kept: Vec<RowTexts> = kept.collect();
        let wanted = build(&kept);

        let sources: Vec<(FulltextColumns, usize)> = pieces.iter().map(|rows| (build(rows), rows.len())).collect();
        let merged = keep_of(&sources, &keep);
        prop_assert_eq!(&merged, &wanted);

        // Merging in several stages, each with dropped rows, must yield equal columns.
        let (mut parts, mut left) = (sources, keep);
        while parts.len() > 1 {
            let some: Vec<_> = parts.drain(..at_a_time.min(parts.len())).collect();
            let rows: usize = some.iter().map(|(_, rows)| rows).sum();
            let own: Vec<bool> = left.drain(..rows).collect();
            let stay = own.iter().filter(|keep| **keep).count();
            parts.insert(0, (keep_of(&some, &own), stay));
            left.splice(0..0, std::iter::repeat_n(true, stay));
        }
        if pieces.len() > 1 {
            prop_assert_eq!(&parts[0].0, &wanted);
        }

        let view = open(&merged, &kept);
        view.verify().unwrap();
        let texts = kept.iter().map(|(title, text)| Ok::<_, SegmentFullError>(Some((title.as_str(), text.as_str()))));
        let again = rebuild(texts).unwrap();
        view.compare(&again).unwrap();
    }
}

#[test]
fn surplus_term_is_detected() {
    let rows: Vec<RowTexts> =
        ["alpha beta", "secret beta"].map(|text| (String::new(), text.to_owned())).to_vec();
    let columns = build(&rows);
    let view = open(&columns, &rows);
    view.verify().unwrap();
    let texts = [Ok::<_, SegmentFullError>(Some(("", "alpha beta"))), Ok(None)];
    let damage = view.compare(&rebuild(texts).unwrap()).unwrap_err();
    assert_eq!(damage.rule, "WRD-50");
    let texts = rows
        .iter()
        .map(|(title, text)| Ok::<_, SegmentFullError>(Some((title.as_str(), text.as_str()))));
    view.compare(&rebuild(texts).unwrap()).unwrap();
    // Surplus bytes that no entry refers to.
    let mut bad = columns.clone();
    bad.postings.extend_from_slice(b"secret");
    assert_eq!(open(&bad, &rows).verify().unwrap_err().rule, "WRD-32");
}

#[test]
fn non_canonical_packing_is_rejected() {
    let rows: Vec<RowTexts> = (0..5).map(|_| (String::new(), "waz".to_owned())).collect();
    let good = build(&rows);
    // Row steps are 0 bits wide and body counts 1 bit: five ones in the lowest bits of a byte.
    assert_eq!(good.postings, [0b1_1111]);
    let mut bad = good.clone();
    bad.postings[0] |= 0x80;
    assert_eq!(open(&bad, &rows).verify().unwrap_err().rule, "WRD-32", "padding");
    let mut bad = good.clone();
    bad.entries[41] = 2;
    bad.postings = vec![0b0101_0101, 0b01];
    assert_eq!(open(&bad, &rows).verify().unwrap_err().rule, "WRD-32", "wider than it must be");
    let mut bad = good;
    bad.postings = vec![];
    assert_eq!(open(&bad, &rows).verify().unwrap_err().rule, "WRD-22");
}
