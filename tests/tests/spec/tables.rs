//! Tables of the pages against constants of the engine.

use std::collections::BTreeSet;

use engine::{COLUMNS, Cells, Table, limits, words};

use crate::pages::{page, root, server_source, source};

/// Rows of the table whose head starts with `head`, without their outer bars, cells trimmed.
pub(crate) fn table(text: &str, head: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
        inner.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    let rows = text.lines().skip_while(|line| !line.starts_with(head));
    let rows: Vec<_> = rows.skip(2).take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty(), "no table starts with {head}");
    rows
}

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

/// `1 MiB`, `256 B`, `65,536` or `2^31` as a number.
pub(crate) fn value(text: &str) -> u64 {
    let number = |digits: &str| digits.replace(',', "").parse::<u64>().expect(text);
    if let Some((base, power)) = text.split_once('^') {
        return number(base).pow(power.parse().expect(text));
    }
    match text.split_once(' ') {
        None => number(text),
        Some((digits, "B" | "ms")) => number(digits),
        Some((digits, "s")) => number(digits) * 1000,
        Some((digits, "KiB")) => number(digits) << 10,
        Some((digits, "MiB")) => number(digits) << 20,
        Some((digits, "GiB")) => number(digits) << 30,
        Some((_, unit)) => panic!("{text}: {unit} is no unit of the page"),
    }
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
        let constants = source(file);
        let constants = constants.lines().filter_map(|line| line.trim().strip_prefix("pub const "));
        let constants = constants.filter_map(|rest| rest.split_once(':')).map(|(name, _)| name);
        let listed: BTreeSet<&str> = coded.iter().map(|(name, _)| *name).collect();
        assert_eq!(constants.collect::<BTreeSet<_>>(), listed, "{file}");
    }
}

/// A constant's number in a source file of the server, by its text: such as `65_536 + 16`.
fn constant(file: &str, name: &str) -> u64 {
    let starts = ["usize", "u64"].map(|kind| format!("const {name}: {kind} = "));
    let text = server_source(file);
    let after = |line| starts.iter().find_map(|start| str::split_once(line, start.as_str()));
    let line = text.lines().find_map(after).expect(name).1;
    let number = |term: &str| term.replace('_', "").parse::<u64>().expect(name);
    let terms = line.trim_end_matches(';').split(" + ");
    terms
        .map(|term| match term.split_once(" << ") {
            Some((digits, bits)) => number(digits) << number(bits),
            None => number(term),
        })
        .sum()
}

#[test]
fn limits_around_the_store_are_those_of_the_page() {
    let coded = [
        ("BACKUPS_MAX", "store-admin/src/known.rs"),
        ("PENDING_MAX", "store-admin/src/known.rs"),
        ("ERASE_ITEMS_MAX", "store-admin/src/erase.rs"),
        ("PUBLIC_KEYS_MAX", "auth/src/former.rs"),
        ("FILES_MAX", "store-admin/src/catalogue.rs"),
        ("WORKSPACES_MAX", "store-admin/src/catalogue.rs"),
    ];
    let coded = coded.map(|(name, file)| (name.to_owned(), constant(file, name)));
    let written: Vec<(String, u64)> = table(&page("limits.md"), "| kept there | value | why |")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
        .collect();
    assert_eq!(written, coded);
}

#[test]
fn limits_of_a_model_are_those_of_the_page() {
    let kept = ["PACKED_FILES_MAX", "PACKED_BYTES_MAX", "FREE_BYTES_MIN", "SOURCES_MAX"];
    let kept = kept.map(|name| (name.to_owned(), constant("embedding/src/model/shelf.rs", name)));
    let config =
        std::fs::read_to_string(root().join("encoder/src/config.rs")).expect("it is there");
    let ranges = config.lines().filter_map(|line| {
        let (name, range) =
            line.strip_prefix("const ")?.split_once(": RangeInclusive<usize> = ")?;
        let (_, most) = range.trim_end_matches(';').split_once("..=")?;
        Some((name.to_owned(), most.replace('_', "").parse::<u64>().expect(name)))
    });
    let coded: Vec<(String, u64)> = ranges.chain(kept).collect();
    let written: Vec<(String, u64)> = table(&page("limits.md"), "| of a model | value | why |")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
        .collect();
    assert_eq!(written, coded);
}

#[test]
fn limits_of_an_inflow_are_those_of_the_page() {
    let coded = [
        ("PARCEL_TEXTS_MAX".to_owned(), recalld_embedding::inflow::PARCEL_TEXTS_MAX as u64),
        ("TEXTS_LOST_MAX".to_owned(), recalld_embedding::inflow::TEXTS_LOST_MAX as u64),
    ];
    let written: Vec<(String, u64)> = table(&page("limits.md"), "| of an inflow | value | why |")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
        .collect();
    assert_eq!(written, coded);
}

#[test]
fn limits_of_an_import_are_those_of_the_page() {
    let coded = [
        ("LINES_MAX".to_owned(), u64::from(recalld_interchange::lines::LINES_MAX)),
        ("LINE_BYTES_MAX".to_owned(), recalld_interchange::lines::LINE_BYTES_MAX as u64),
    ];
    let written: Vec<(String, u64)> = table(&page("limits.md"), "| of an import | value | why |")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
        .collect();
    assert_eq!(written, coded);
}

#[test]
fn limits_of_the_control_store_are_those_of_the_page() {
    use recalld_metastore as control;

    let coded = values![
        control:
        CACHE_BYTES_MAX,
        RECORD_BYTES_MAX,
        TENANTS_MAX,
        ANCHORS_APART_MAX,
        CREDENTIALS_EACH_MAX,
        CLIENTS_MAX,
        CODES_MAX,
        GRANTS_EACH_MAX,
        REVOKED_MAX,
        KEYS_PUBLISHED_MAX,
        BLOCK_CALLS_MAX,
        BLOCKS_OUT_MAX,
        BLOCKS_OVER_MAX,
        SWEPT_TOGETHER_MAX,
        LISTED_MAX,
    ];
    let coded = coded.map(|(name, value)| (name.to_owned(), value));
    let written: Vec<(String, u64)> =
        table(&page("limits.md"), "| of the control store | value | why |")
            .into_iter()
            .map(|row| (row[0].trim_matches('`').to_owned(), value(&row[1])))
            .collect();
    assert_eq!(written, coded);
}

#[test]
fn tables_of_the_control_store_are_those_of_the_page() {
    use recalld_metastore::{ControlError, TABLE_NAMES, check_record};
    let written = table(&page("control.md"), "| table | number | key |");
    let numbered: Vec<(String, String)> =
        written.iter().map(|row| (row[0].trim_matches('`').to_owned(), row[1].clone())).collect();
    let coded = TABLE_NAMES.map(|(name, number)| (name.to_owned(), number.to_string()));
    let last = ("expiries".to_owned(), String::new());
    assert_eq!(numbered, [&coded[..], &[last]].concat());
    for (name, _) in TABLE_NAMES {
        assert!(matches!(check_record(name, b""), Err(ControlError::Damaged { .. })), "{name}");
    }
}
