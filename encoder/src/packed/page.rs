//! (tests) The tables of `format-spec/weights.md` match the code.

use std::collections::BTreeMap;

use kernels::Precision;

use super::layout::{Cell, HEADER_BYTES, Layout, NO_LAYER, at, entry};
use crate::config::Config;
use crate::tiny::{HIDDEN, INNER, POSITIONS, Tiny, WORDS};

/// Returns the rows of the table whose head starts with `head`, cells trimmed.
fn table(head: &str) -> Vec<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../format-spec/weights.md");
    let text = std::fs::read_to_string(path).unwrap();
    let cells = |line: &str| {
        let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
        inner.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    let rows = text.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty(), "no table starts with {head}");
    rows
}

/// Returns field offsets by name, and asserts that the fields are contiguous.
fn fields(head: &str, whole: usize) -> BTreeMap<String, usize> {
    let mut end = 0;
    let mut fields = BTreeMap::new();
    for row in table(head) {
        let offset: usize = row[0].parse().unwrap();
        assert_eq!(offset, end, "{row:?}");
        end = offset + row[1].parse::<usize>().unwrap();
        fields.insert(row[2].clone(), offset);
    }
    assert_eq!(end, whole);
    fields
}

fn named(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect()
}

#[test]
fn header_and_entries_are_those_of_the_page() {
    let coded = [
        ("magic", 0),
        ("read_version", at::READ_VERSION),
        ("write_version", at::WRITE_VERSION),
        ("packing", at::PACKING),
        ("precision", at::PRECISION),
        ("hidden", at::HIDDEN),
        ("heads", at::HEADS),
        ("layers", at::LAYERS),
        ("inner", at::INNER),
        ("positions", at::POSITIONS),
        ("vocabulary", at::VOCABULARY),
        ("epsilon", at::EPSILON),
        ("source_sha256", at::SOURCE_SHA256),
        ("source_bytes", at::SOURCE_BYTES),
        ("file_bytes", at::FILE_BYTES),
        ("sections", at::SECTIONS),
        ("directory_crc", at::DIRECTORY_CRC),
        ("reserved", at::RESERVED),
        ("header_crc", at::HEADER_CRC),
    ];
    assert_eq!(fields("| offset | size | name |", HEADER_BYTES), named(&coded));
    let coded = [
        ("kind", entry::KIND),
        ("layer", entry::LAYER),
        ("crc", entry::CRC),
        ("offset", entry::OFFSET),
        ("bytes", entry::BYTES),
        ("reserved", entry::RESERVED),
    ];
    assert_eq!(fields("| at | size | name |", super::layout::ENTRY_BYTES), named(&coded));
}

/// Evaluates a formula of the specification for the tiny model.
fn cells(formula: &str) -> usize {
    let p = |width: usize| width.next_multiple_of(16);
    let c = |depth: usize, width: usize| depth.next_multiple_of(64) * p(width);
    match formula {
        "vocabulary * d" => WORDS.len() * HIDDEN,
        "positions * d" => POSITIONS * HIDDEN,
        "d" => HIDDEN,
        "p(d)" => p(HIDDEN),
        "p(3d)" => p(3 * HIDDEN),
        "p(i)" => p(INNER),
        "c(d, 3d)" => c(HIDDEN, 3 * HIDDEN),
        "c(d, d)" => c(HIDDEN, HIDDEN),
        "c(d, i)" => c(HIDDEN, INNER),
        "c(i, d)" => c(INNER, HIDDEN),
        other => panic!("{other} is no formula of the page"),
    }
}

#[test]
fn sections_are_those_of_the_page() {
    let config = Config::read(&Tiny::new().files().borrowed().settings()).unwrap();
    let rows = table("| kind | name | cell | cells |");
    for &precision in Precision::ALL {
        let is_of = |row: &&Vec<String>| {
            let of_codes = row[1].ends_with("_scales") || row[1].ends_with("_offsets");
            precision == Precision::Int8 || !of_codes
        };
        let listed: Vec<&Vec<String>> = rows.iter().filter(is_of).collect();
        let (once, of_blocks) = listed.split_at(4);
        let wanted = once.iter().chain((0..config.layers).flat_map(|_| of_blocks.iter()));
        let layout = Layout::of(&config, precision);
        assert_eq!(layout.sections.len(), 4 + config.layers * of_blocks.len());
        let mut end = HEADER_BYTES + layout.sections.len() * 32;
        for (i, (section, row)) in layout.sections.iter().zip(wanted).enumerate() {
            let cell = match (row[2].as_str(), precision) {
                ("f32", _) | ("*" | "t", Precision::F32) => (Cell::F32, 4),
                ("i32", _) => (Cell::I32, 4),
                ("t", _) | ("*", Precision::F16) => (Cell::F16, 2),
                ("*", Precision::Int8) => (Cell::I8, 1),
                other => panic!("{other:?}"),
            };
            let layer = if i < 4 { NO_LAYER as usize } else { (i - 4) / of_blocks.len() };
            let bytes = cells(&row[3]) * cell.1;
            let offset = end.next_multiple_of(if bytes < 4096 { 64 } else { 4096 });
            let found = (
                (section.kind.number.to_string(), section.kind.name, section.cell),
                (usize::from(section.layer), section.offset, section.bytes),
            );
            assert_eq!(found, ((row[0].clone(), row[1].as_str(), cell.0), (layer, offset, bytes)));
            if !row[4].is_empty() && !row[4].starts_with("only") {
                assert!(row[4].contains(section.kind.tensor), "{row:?}");
            }
            end = offset + bytes;
        }
        assert_eq!(layout.file_bytes, end);
    }
}
