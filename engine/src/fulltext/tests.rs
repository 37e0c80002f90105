//! Tests of the whole module: analysis tables, ranking against brute force, merging, hostile bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::fixtures::{RowTexts, build, open};
use super::max_score::WIDE_WINDOW;
use super::*;
use crate::TopK;
use crate::error::CorruptionError;

fn terms(text: &str) -> Vec<(String, TermKind)> {
    let mut out = Vec::new();
    Analyzer::new().tokens(text, |emit| {
        out.push((emit.term.to_owned(), emit.kind));
        true
    });
    out
}

/// Formats terms as `word`, `+part`, `=whole`, `.single`.
fn spelled(text: &str) -> String {
    let mark = |kind| match kind {
        TermKind::Word => "",
        TermKind::Part => "+",
        TermKind::Whole => "=",
        TermKind::Single => ".",
    };
    let spelled: Vec<String> =
        terms(text).iter().map(|(term, kind)| format!("{}{term}", mark(*kind))).collect();
    spelled.join(" ")
}

#[test]
fn analysis_table() {
    for (text, wanted) in [
        ("", ""),
        (" -- ... ___ ", "=___"),
        ("The Cats are running.", "the cat are run"),
        ("Caf\u{E9} NA\u{CF}VE stra\u{DF}e", "cafe naiv strass"),
        ("don't Python's users\u{2019} O'Brien", "dont python user obrien"),
        ("getUserName", "=getusernam +get +user +name"),
        ("get_user_name", "=get_user_name +get +user +name"),
        ("HTTPServer2", "=httpserver2 +http +server +2"),
        ("foo::bar a.b.c", "=foo::bar +foo +bar =a.b.c +a +b +c"),
        ("src/net/conn.rs", "=src/net/conn.rs +src +net =conn.rs +conn +rs"),
        ("obj.getName()", "=obj.getname +obj =getnam +get +name"),
        ("3.12 PEP-387 0.99999", "=3.12 +3 +12 =pep-387 +pep +387 =0.99999 +0 +99999"),
        ("IPv6 x86 APIs mRNA", "=ipv6 +i +pv +6 =x86 +x +86 api =mrna +m +rna"),
        ("C++ and C# a+b", "=c++ +c and =c# +c a b"),
        ("__init__ a_", "=__init__ +init =a_ +a"),
        (
            "https://peps.python.org/a",
            "https =peps.python.org/a =peps.python.org +pep +python +org +a",
        ),
        ("state-of-the-art", "=state-of-the-art +state +of +the +art"),
        // A hash is not split.
        ("a1b2c3d4e5f6a7b8", "a1b2c3d4e5f6a7b8"),
        (
            "\u{6771}\u{4EAC}\u{90FD} \u{6C34}",
            ".\u{6771} \u{6771}\u{4EAC} .\u{4EAC} \u{4EAC}\u{90FD} .\u{90FD} \u{6C34}",
        ),
        ("\u{D55C}\u{AD6D}\u{C5B4} \u{AC80}\u{C0C9}", "\u{D55C}\u{AD6D}\u{C5B4} \u{AC80}\u{C0C9}"),
        // Thai: marks stay with their letter.
        ("\u{E01}\u{E34}\u{E19}", ".\u{E01}\u{E34} \u{E01}\u{E34}\u{E19} .\u{E19}"),
        (
            "\u{41F}\u{440}\u{438}\u{432}\u{435}\u{442}",
            "\u{43F}\u{440}\u{438}\u{432}\u{435}\u{442}",
        ),
        (
            "\u{939}\u{93F}\u{928}\u{94D}\u{926}\u{940}",
            "\u{939}\u{93F}\u{928}\u{94D}\u{926}\u{940}",
        ),
        ("ok \u{1F600}\u{1F3FD} \u{2764}\u{FE0F} \u{2014} fine", "ok fine"),
        ("\u{FF30}\u{FF39}3", "=py3 +py +3"),
    ] {
        assert_eq!(spelled(text), wanted, "{text:?}");
    }
}

#[test]
fn term_length_is_bounded() {
    let long = "x".repeat(1000);
    assert_eq!(terms(&long), vec![("x".repeat(TERM_BYTES_MAX), TermKind::Word)]);
    // Wholes above the maximum length are omitted; their parts remain.
    let path = format!("{}/b", "x".repeat(TERM_BYTES_MAX));
    assert_eq!(spelled(&path), format!("+{} +b", "x".repeat(TERM_BYTES_MAX)));
    // Truncation is between letters, never within a letter.
    let wide = "\u{436}".repeat(100);
    assert_eq!(terms(&wide)[0].0, "\u{436}".repeat(TERM_BYTES_MAX / 2));
    let mut builder = PostingsBuilder::new();
    builder.add(0, "", &"w ".repeat(ROW_TERMS_MAX + 9)).unwrap();
    let columns = builder.finish(1);
    let view = PostingsReader::open(columns.as_ref(), 1).unwrap();
    assert_eq!(view.length(0).unwrap(), Some(65_536), "words past the bound do not count");
}

proptest! {
    #[test]
    fn arbitrary_text_yields_bounded_terms(text in "\\PC{0,60}", more in "[a-zA-Z0-9_.:/'#+ -]{0,60}") {
        for (term, _) in terms(&format!("{text}{more}")) {
            prop_assert!(!term.is_empty() && term.len() <= TERM_BYTES_MAX);
        }
    }

    #[test]
    fn analyzer_reuse_does_not_change_terms(texts in prop::collection::vec("[a-zA-Z\u{E9}\u{4E00}'. ]{0,30}", 1..6)) {
        let mut reused = Analyzer::new();
        for text in &texts {
            let mut out = Vec::new();
            reused.tokens(text, |emit| {
                out.push((emit.term.to_owned(), emit.kind));
                true
            });
            prop_assert_eq!(out, terms(text));
        }
    }
}

fn ask(
    text: &str,
    views: &[&PostingsReader<&[u8]>],
    parameters: Bm25Parameters,
) -> (Query, Bm25Weight) {
    let query = Query::parse(&mut Analyzer::new(), text);
    let mut stats = CollectionStats::new(&query);
    for view in views {
        stats.add(**view, &query).unwrap();
    }
    let ranker = Bm25Weight::new(&query, &stats, parameters);
    (query, ranker)
}

/// Returns the segment's entries of the terms of `query`.
fn found<'a>(view: &PostingsReader<&'a [u8]>, query: &Query) -> SegmentTerms<&'a [u8]> {
    CollectionStats::new(query).add(*view, query).unwrap()
}

fn best(
    query: &Query,
    ranker: &Bm25Weight,
    view: &PostingsReader<&[u8]>,
    k: usize,
) -> Vec<(Score, u32)> {
    let mut top = TopK::new(k);
    let found = found(view, query);
    ranker.search(&found, &mut SearchScratch::default(), |_| true, |row| row, &mut top).unwrap();
    top.into_sorted()
}

/// Scores every row by lookup and sorts the rows.
fn brute(
    query: &Query,
    ranker: &Bm25Weight,
    view: &PostingsReader<&[u8]>,
    wanted: impl Fn(u32) -> bool,
    key: impl Fn(u32) -> u32,
) -> Vec<(Score, u32)> {
    let mut all = Vec::new();
    let found = found(view, query);
    let mut given = ranker.row_scorer(&found).unwrap();
    for row in (0..view.rows()).filter(|row| wanted(*row)) {
        let sum: u32 = given.matches(row).unwrap().iter().map(|found| found.score.0).sum();
        if sum > 0 {
            all.push((Score(sum), key(row)));
        }
    }
    all.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    all
}

/// Generates words of a tiny vocabulary with very different frequencies, which produces lists of all sizes and ties.
fn text(words: usize) -> impl Strategy<Value = String> {
    prop::collection::vec((0_u32..12, 0_u32..12), 0..words).prop_map(|pairs| {
        let words: Vec<String> = pairs
            .iter()
            .map(|(a, b)| format!("w{}z", char::from(b'a' + u8::try_from(a * b / 8).unwrap())))
            .collect();
        words.join(" ")
    })
}

pub(super) fn rows(most: usize) -> impl Strategy<Value = Vec<RowTexts>> {
    prop::collection::vec((text(3), text(14)), 0..most).prop_flat_map(move |seed| {
        // Repetition produces long lists cheaply, with several blocks and windows.
        (Just(seed), 1_usize..40).prop_map(|(seed, times)| {
            seed.iter().cycle().take(seed.len() * times).cloned().collect()
        })
    })
}

fn parameters() -> impl Strategy<Value = Bm25Parameters> {
    (0.0_f32..3.0, 0.0_f32..=1.0, 0.0_f32..5.0).prop_map(|(k1, b, title_weight)| Bm25Parameters {
        k1,
        b,
        title_weight,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn postings_roundtrip(rows in rows(120)) {
        let columns = build(&rows);
        let view = open(&columns, &rows);
        view.verify().unwrap();
        let mut wanted: BTreeMap<String, BTreeMap<u32, (u8, u8)>> = BTreeMap::new();
        for (row, (title, body)) in (0..).zip(&rows) {
            for (term, _) in terms(body) {
                wanted.entry(term).or_default().entry(row).or_default().0 += 1;
            }
            for (term, _) in terms(title) {
                wanted.entry(term).or_default().entry(row).or_default().1 += 1;
            }
            let length = terms(title).len() + terms(body).len();
            prop_assert_eq!(view.length(row).unwrap().unwrap() as usize, length);
        }
        prop_assert_eq!(view.terms() as usize, wanted.len());
        for (term, list) in &wanted {
            let listed: Result<Vec<Posting>, CorruptionError> = view.postings(term).unwrap().unwrap().collect();
            let list: Vec<Posting> = list.iter().map(|(row, (body, title))| Posting { row: *row, body: *body, title: *title }).collect();
            prop_assert_eq!(listed.unwrap(), list.clone());
            prop_assert_eq!(view.document_frequency(term).unwrap() as usize, list.len());
        }
    }

    #[test]
    fn top_equals_brute_force(rows in rows(300), question in text(9), k in 1_usize..30, stride in 1_u32..4, parameters in parameters(), flip: bool) {
        let columns = build(&rows);
        let view = open(&columns, &rows);
        let (query, ranker) = ask(&question, &[&view], parameters);
        let (wanted, key) = (|row| row % stride == 0, |row| if flip { u32::MAX - row } else { row });
        let mut top = TopK::new(k);
        ranker.search(&found(&view, &query), &mut SearchScratch::default(), wanted, key, &mut top).unwrap();
        let mut brute = brute(&query, &ranker, &view, wanted, key);
        brute.truncate(k);
        prop_assert_eq!(top.into_sorted(), brute);
    }

    #[test]
    fn split_segments_rank_like_one_segment(one in rows(60), two in rows(60), question in text(9), k in 1_usize..20) {
        let all: Vec<RowTexts> = one.iter().chain(&two).cloned().collect();
        let shift = u32::try_from(one.len()).unwrap();
        let (first, second, whole) = (build(&one), build(&two), build(&all));
        let (first, second, whole_view) = (open(&first, &one), open(&second, &two), open(&whole, &all));

        // Merging equals building, byte for byte.
        let total = u32::try_from(all.len()).unwrap();
        let by = |shift: u32| move |row: u32| Some(row + shift);
        let shifts = [(first, by(0)), (second, by(shift))];
        prop_assert_eq!(&merge(&shifts, total).unwrap(), &whole);

        let swapped = [shifts[1], shifts[0]];
        prop_assert_eq!(&merge(&swapped, total).unwrap(), &whole, "in any order of the sources");

        // Searching two segments with a shared `TopK` equals searching their union.
        let (query, ranker) = ask(&question, &[&first, &second], Bm25Parameters::default());
        let (mut top, mut scratch) = (TopK::new(k), SearchScratch::default());
        ranker.search(&found(&first, &query), &mut scratch, |_| true, |row| row, &mut top).unwrap();
        ranker.search(&found(&second, &query), &mut scratch, |_| true, |row| row + shift, &mut top).unwrap();
        prop_assert_eq!(top.into_sorted(), best(&query, &ranker, &whole_view, k));
    }

    #[test]
    fn hostile_columns_never_hang_or_panic(
        rows in rows(40),
        column in 0_usize..5,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut columns = build(&rows);
        let bytes = [&mut columns.dictionary, &mut columns.entries, &mut columns.blocks, &mut columns.postings, &mut columns.lengths]
            .into_iter().nth(column).unwrap();
        if !bytes.is_empty() {
            for (at, value) in &flips {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
        }
        let count = u32::try_from(rows.len()).unwrap();
        if let Ok(view) = PostingsReader::open(columns.as_ref(), count) {
            let _checked = view.verify();
            let query = Query::parse(&mut Analyzer::new(), "waz wbz wcz wdz wez wfz wgz whz");
            let mut stats = CollectionStats::new(&query);
            if let Ok(found) = stats.add(view, &query) {
                let ranker = Bm25Weight::new(&query, &stats, Bm25Parameters::default());
                let mut top = TopK::new(5);
                let _searched = ranker.search(&found, &mut SearchScratch::default(), |_| true, |row| row, &mut top);
                if let Ok(mut given) = ranker.row_scorer(&found) {
                    for row in 0..count.min(50) {
                        let _matched = given.matches(row);
                    }
                }
            }
            let _merged = merge(&[(view, Some)], count);
        }
    }
}

#[test]
fn flipped_bits_are_corruption_or_memory_safe() {
    let rows: Vec<RowTexts> =
        (0..300).map(|i| (format!("t{}", i % 3), format!("waz wb{i}z wcz"))).collect();
    let good = build(&rows);
    let query = Query::parse(&mut Analyzer::new(), "waz wcz t");
    for column in 0..4 {
        for at in 0..[&good.dictionary, &good.entries, &good.blocks, &good.postings][column].len() {
            let mut bad = good.clone();
            [&mut bad.dictionary, &mut bad.entries, &mut bad.blocks, &mut bad.postings][column]
                [at] ^= 0x81;
            let Ok(view) = PostingsReader::open(bad.as_ref(), 300) else { continue };
            let mut stats = CollectionStats::new(&query);
            if let Ok(found) = stats.add(view, &query) {
                let ranker = Bm25Weight::new(&query, &stats, Bm25Parameters::default());
                let _searched = ranker.search(
                    &found,
                    &mut SearchScratch::default(),
                    |_| true,
                    |row| row,
                    &mut TopK::new(3),
                );
            }
        }
    }
}

#[test]
fn corruption_error_names_its_rule() {
    let rows: Vec<RowTexts> = (0..200).map(|i| (String::new(), format!("waz wb{i}z"))).collect();
    let good = build(&rows);
    let rule = |change: &dyn Fn(&mut FulltextColumns), count: u32| {
        let mut bad = good.clone();
        change(&mut bad);
        PostingsReader::open(bad.as_ref(), count).and_then(|view| view.verify()).unwrap_err().rule
    };
    assert_eq!(rule(&|bad| bad.dictionary[0] = 9, 200), "WRD-01");
    assert_eq!(rule(&|bad| bad.entries[0] ^= 1, 200), "WRD-13");
    assert_eq!(rule(&|bad| bad.entries[20] = 1, 200), "WRD-12");
    assert_eq!(rule(&|bad| bad.entries.truncate(40), 200), "WRD-10");
    // The second term has one posting, whose row is moved past the last row.
    assert_eq!(rule(&|bad| bad.entries[48] = 200, 200), "WRD-11");
    assert_eq!(rule(&|bad| bad.blocks.truncate(30), 200), "WRD-20");
    assert_eq!(rule(&|bad| bad.blocks.truncate(24), 200), "WRD-11");
    assert_eq!(rule(&|bad| bad.blocks[0] = 126, 200), "WRD-30");
    assert_eq!(rule(&|bad| bad.blocks[3] = 1, 200), "WRD-21");
    assert_eq!(rule(&|bad| bad.blocks[8] = 33, 200), "WRD-22");
    assert_eq!(rule(&|bad| bad.blocks[12] = 7, 200), "WRD-23");
    assert_eq!(rule(&|bad| bad.blocks[9] = 0, 200), "WRD-31");
    assert_eq!(rule(&|_| {}, 201), "WRD-40");
}

#[test]
fn compound_weighs_at_most_two_words() {
    let rows: Vec<RowTexts> = [
        "parse getUserNameFromTable",
        "parse",
        "user name from table get",
        "get user",
        "something else",
    ]
    .map(|text| (String::new(), text.to_owned()))
    .to_vec();
    let columns = build(&rows);
    let view = open(&columns, &rows);
    let (query, ranker) = ask(
        "getUserNameFromTable",
        &[&view],
        Bm25Parameters { b: 0.0, ..Bm25Parameters::default() },
    );
    let found = best(&query, &ranker, &view, 9);
    assert_eq!(
        found.iter().map(|(_, row)| *row).collect::<Vec<_>>(),
        [0, 2, 3],
        "exact form, then all parts, then some"
    );
    let rarest = 2.2_f32 * (1.0 + (5.0_f32 - 1.0 + 0.5) / 1.5).ln() / 2.2;
    assert!(found[0].0.to_f32() <= 2.0 * rarest, "{:?}", found[0].0.to_f32());
    let found = self::found(&view, &query);
    let matched = ranker.row_scorer(&found).unwrap().matches(3).unwrap();
    let words: Vec<&str> =
        matched.iter().map(|found| query.terms()[found.term].term.as_str()).collect();
    assert_eq!(words, ["get", "user"]);
}

#[test]
fn titles_weigh_more_and_stop_words_less() {
    let rows: Vec<RowTexts> =
        [("", "alpha beta gamma"), ("alpha", "beta gamma"), ("", "what is the of"), ("", "delta")]
            .map(|(title, text)| (title.to_owned(), text.to_owned()))
            .to_vec();
    let columns = build(&rows);
    let view = open(&columns, &rows);
    let order = |question: &str| -> Vec<u32> {
        let (query, ranker) = ask(question, &[&view], Bm25Parameters::default());
        best(&query, &ranker, &view, 9).into_iter().map(|(_, row)| row).collect()
    };
    assert_eq!(order("alpha"), [1, 0]);
    assert_eq!(order("what is the delta"), [3, 2]);
    assert_eq!(order("what is"), [2], "alone they still find");
    assert_eq!(order("nothing here"), [0_u32; 0]);
}

#[test]
fn ties_are_never_pruned() {
    let rows: Vec<RowTexts> = (0..10_000).map(|_| (String::new(), "waz wbz".to_owned())).collect();
    let columns = build(&rows);
    let view = open(&columns, &rows);
    for question in ["waz", "waz wbz"] {
        let (query, ranker) = ask(question, &[&view], Bm25Parameters::default());
        let mut top = TopK::new(3);
        ranker
            .search(
                &found(&view, &query),
                &mut SearchScratch::default(),
                |_| true,
                |row| u32::MAX - row,
                &mut top,
            )
            .unwrap();
        let last: Vec<u32> = top.into_sorted().into_iter().map(|(_, key)| u32::MAX - key).collect();
        assert_eq!(last, [9999, 9998, 9997], "{question}");
    }
}

#[test]
fn entries_that_share_postings_are_bounded() {
    // 30,001 terms that each claim the same list of 10,000 rows would have 3 * 10^8 postings.
    let text = |i| format!("waz a{i} b{i} c{i}");
    let rows: Vec<RowTexts> = (0..10_000).map(|i| (String::new(), text(i))).collect();
    let mut columns = build(&rows);
    for entry in columns.entries[32..].chunks_exact_mut(12) {
        entry.copy_from_slice(&[0x10, 0x27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    let view = open(&columns, &rows);
    let mut lists = view.lists();
    let end = loop {
        match lists.next() {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(damage) => break Some(damage.rule),
        }
    };
    assert_eq!(end, Some("WRD-14"));
}

#[test]
fn empty_columns_and_empty_rows_are_valid() {
    for rows in [vec![], vec![(String::new(), String::new())]] {
        let columns = build(&rows);
        let view = open(&columns, &rows);
        view.verify().unwrap();
        let (query, ranker) = ask("anything", &[&view], Bm25Parameters::default());
        assert!(best(&query, &ranker, &view, 3).is_empty());
    }
}

#[test]
fn query_terms_are_bounded() {
    let words: Vec<String> = (0..500).map(|i| format!("q{i}")).collect();
    let query = Query::parse(&mut Analyzer::new(), &words.join(" "));
    assert_eq!(query.terms().len(), QUERY_TERMS_MAX);
}

/// Planning a wide window reads the bounds of all its blocks; a dense query must not repeat this cost for each narrow
/// window.
#[test]
fn crowded_wide_window_is_planned_once() {
    const ROWS: u32 = 70_000;
    let mut builder = PostingsBuilder::new();
    for row in 0..ROWS {
        let text = if row % 2 == 0 { "amber birch" } else { "cedar" };
        builder.add(row, "", text).unwrap();
    }
    let columns = builder.finish(ROWS);
    let view = PostingsReader::open(columns.as_ref(), ROWS).unwrap();
    let (query, ranker) = ask("amber birch", &[&view], Bm25Parameters::default());
    let (mut top, mut scratch) = (TopK::new(3), SearchScratch::default());
    ranker.search(&found(&view, &query), &mut scratch, |_| true, |row| row, &mut top).unwrap();
    let rows: Vec<u32> = top.into_sorted().into_iter().map(|(_, row)| row).collect();
    assert_eq!(rows, [0, 2, 4]);
    let windows = (ROWS as usize).div_ceil(WIDE_WINDOW);
    assert!(
        (1..=windows).contains(&scratch.wide_windows_planned),
        "{} times",
        scratch.wide_windows_planned
    );
}
