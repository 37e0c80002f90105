//! Tables of the format's pages against the engine.

use std::collections::BTreeSet;
use std::fs;

use engine::{COLUMNS, Cells, Table, limits, words};
use support_engine::pages::{page, root, table, value};

fn rows_of(table: Table) -> &'static str {
    match table {
        Table::Symbols => "y",
        Table::Items => "n",
        Table::Sources => "s",
        Table::Edges => "e",
        Table::Tombstones => "t",
        Table::Vectors => "v",
        Table::Nodes => "m",
    }
}

fn cells(cells: Cells) -> String {
    match cells {
        Cells::Any => "*".to_owned(),
        Cells::Of(table) => rows_of(table).to_owned(),
        Cells::OffsetsOf(table) => format!("{}+1", rows_of(table)),
        Cells::OfOrNone(table) => format!("{}?", rows_of(table)),
        Cells::Halves => "v*h".to_owned(),
        Cells::Codes => "v*k".to_owned(),
        Cells::Unpadded => panic!("no column of version 2 is like this"),
    }
}

#[test]
fn columns_are_those_of_the_page() {
    let written = table(&page("segment.md"), "| number | name | cell | cells |");
    let written: Vec<Vec<String>> = written.into_iter().map(|row| row[..4].to_vec()).collect();
    let coded: Vec<Vec<String>> = COLUMNS
        .iter()
        .map(|spec| {
            let name = spec.name.to_lowercase();
            vec![spec.number.to_string(), name, spec.cell_bytes.to_string(), cells(spec.cells)]
        })
        .collect();
    for (written, coded) in written.iter().zip(&coded) {
        assert_eq!(written, coded);
    }
    assert_eq!(written.len(), coded.len());
    let numbers: Vec<u16> = COLUMNS.iter().map(|spec| spec.number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "look-ups count on it");
}

#[test]
fn fields_of_an_index_are_those_of_the_page() {
    let written = table(&page("index.md"), "| offset | size | name | meaning |");
    let number = |cell: &str| cell.parse::<usize>().expect("a number");
    let written: Vec<(String, usize, usize)> =
        written.iter().map(|row| (row[2].clone(), number(&row[0]), number(&row[1]))).collect();
    let mut end = 0;
    for (name, at, bytes) in &written {
        assert_eq!(*at, end, "{name} begins where the field before ends");
        end = at + bytes;
    }
    let named = written.iter().filter(|(name, ..)| name != "reserved");
    let coded: Vec<(String, usize, usize)> = engine::INDEX_HEADER
        .iter()
        .map(|&(name, at, bytes)| (name.to_lowercase(), at, bytes))
        .collect();
    assert_eq!(named.cloned().collect::<Vec<_>>(), coded);
}

macro_rules! values {
    ($home:ident: $($name:ident),* $(,)?) => { [$((stringify!($name), $home::$name as u64)),*] };
}

#[test]
fn limits_are_those_of_the_page() {
    let coded = values![
        limits:
        TEXT_BYTES_MAX,
        TITLE_BYTES_MAX,
        ATTRIBUTE_BYTES_MAX,
        NAME_BYTES_MAX,
        REF_BYTES_MAX,
        URI_BYTES_MAX,
        LIST_MAX,
        SUPERSEDES_MAX,
        BATCH_RECORDS_MAX,
        FRAME_BYTES_MAX,
        SEGMENT_ROWS_MAX,
        SEGMENTS_MAX,
        DIMENSIONS_MAX,
        TAIL_BYTES_SEAL,
        TAIL_PARTS_MAX,
        MERGE_BYTES_MAX,
        MANIFEST_BYTES_MAX,
        LOG_BYTES_SEAL,
        LOG_BYTES_MAX,
        LOG_RESERVE_STEP,
        LOGS_MAX,
        ERASURES_PENDING_MAX,
        COMPACT_BYTES_MAX,
        COMPACT_RUN_MIN,
        SEGMENTS_MANY,
        REEMBED_BATCH_MAX,
        REEMBED_LAST_MAX,
        REEMBED_ROUNDS_MAX,
        REEMBED_TAKEN_BACK_MAX,
        COMPACT_FREE_BYTES_MIN,
        INDEX_ROWS_MIN,
        INDEX_LISTS_MAX,
        INDEX_LISTS_PER_ROOT,
        INDEX_SAMPLE,
        INDEX_ROUNDS,
        INDEX_QUESTIONS,
        INDEX_QUESTION_ROWS_MAX,
        INDEX_LIMIT_MAX,
        INDEX_RECALL_MIN_PERMILLE,
        APPROXIMATE_ROWS_MIN,
        UNINDEXED_SHARE_MAX,
        FILL_BYTES,
        FILL_WIDE_BYTES,
        FILL_THREADS_MAX,
    ];
    let wait = limits::FILL_WAIT_MAX.as_millis().try_into().unwrap();
    let coded = [&coded[..], &[("FILL_WAIT_MAX", wait)]].concat();
    let of_words = values![words: TERM_BYTES_MAX, ROW_TERMS_MAX, SEGMENT_POSTINGS_MAX];
    let written: BTreeSet<(String, u64)> = table(&page("limits.md"), "| name | value | why |")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
        .collect();
    let listed = coded.iter().chain(&of_words);
    let listed = listed.map(|&(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(written, listed);
    // The lists above are all there is.
    for (file, coded) in [("limits.rs", &coded[..]), ("words/layout.rs", &of_words)] {
        let constants = fs::read_to_string(root().join("engine/src").join(file)).unwrap();
        let constants = constants.lines().filter_map(|line| line.trim().strip_prefix("pub const "));
        let constants = constants.filter_map(|rest| rest.split_once(':')).map(|(name, _)| name);
        let listed: BTreeSet<&str> = coded.iter().map(|(name, _)| *name).collect();
        assert_eq!(constants.collect::<BTreeSet<_>>(), listed, "{file}");
    }
}
