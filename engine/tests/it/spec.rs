//! Tables of the format specification against the engine.

use engine::{COLUMNS, Cells, Table};
use support_engine::pages::{page, table};

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
fn columns_match_the_specification() {
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
fn index_header_fields_match_the_specification() {
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
