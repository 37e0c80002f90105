//! Tables of delimited values: each row is a record, with its cells as lines of `Header: value`.
//!
//! Guesses the delimiter and the header row; the crate `csv` parses quotes.

use csv::{ByteRecord, Reader, ReaderBuilder};

use super::document::{Document, HEADING_CHARS_MAX, tidy};
use super::format::Format;
use super::records::{Records, say};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Columns read per row; columns further right are left out.
    const COLUMNS_MAX: usize = 256;
    /// Bytes from which the delimiter and the header are guessed.
    const SAMPLE_BYTES: usize = 64 << 10;
    /// Characters of the longest cell in a header; a longer cell is a value.
    const NAME_CHARS_MAX: usize = 80;
}

/// Rows from which the delimiter and the header are guessed.
const SAMPLE_ROWS: usize = 50;
/// Minimum rows of a file that is recognised as a table by its content alone.
const ROWS_MIN: usize = 3;
/// Minimum columns of a file that is recognised by its content alone: prose has commas, too.
const COLUMNS_MIN: usize = 3;
/// Numbers that count as years, and so may be column names.
const YEARS: std::ops::RangeInclusive<u32> = 1_800..=2_200;
/// Cell delimiters that are tried.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Delimiter and dimensions of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dialect {
    delimiter: u8,
    columns: usize,
    rows: usize,
}

/// Returns true if `start` looks like a table. If the name claims the format, any delimiter that splits three of four
/// rows into equally many cells is enough. Otherwise the text needs at least `ROWS_MIN` rows of equally many cells, at
/// least `COLUMNS_MIN`, and must not look like prose.
pub(super) fn looks_so(start: &str, is_named: bool) -> bool {
    match dialect(start, is_named) {
        Some(_) if is_named => true,
        Some(found) => found.rows >= ROWS_MIN && found.columns >= COLUMNS_MIN && !is_prose(start),
        None => false,
    }
}

/// Returns true if any line ends like a sentence or like code.
fn is_prose(start: &str) -> bool {
    start.lines().take(SAMPLE_ROWS).any(|line| line.trim_end().ends_with(['.', ':', '{', '}', ',']))
}

fn reader(source: &str, delimiter: u8, quoting: bool) -> Reader<&[u8]> {
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).delimiter(delimiter).quoting(quoting);
    builder.from_reader(source.as_bytes())
}

/// Returns the delimiter that splits most of the first rows into equally many cells; of two such delimiters, the one
/// with more cells. All rows must match, or three of four if `is_lenient`.
fn dialect(start: &str, is_lenient: bool) -> Option<Dialect> {
    let start = &start[..start.floor_char_boundary(SAMPLE_BYTES)];
    let found = DELIMITERS.iter().filter_map(|&delimiter| {
        let rows = sample(start, delimiter);
        let widths: Vec<usize> = rows.iter().map(ByteRecord::len).collect();
        let same = |width: usize| widths.iter().filter(|&&other| other == width).count();
        let columns = widths.iter().copied().max_by_key(|&width| (same(width), width))?;
        let alike = same(columns);
        let enough = if is_lenient { alike * 4 >= rows.len() * 3 } else { alike == rows.len() };
        let share = alike * SAMPLE_ROWS / rows.len();
        (columns > 1 && enough).then_some((share, Dialect { delimiter, columns, rows: rows.len() }))
    });
    found.max_by_key(|(share, found)| (*share, found.columns)).map(|(_, found)| found)
}

fn sample(start: &str, delimiter: u8) -> Vec<ByteRecord> {
    let mut rows: Vec<ByteRecord> = reader(start, delimiter, true)
        .into_byte_records()
        .map_while(Result::ok)
        .take(SAMPLE_ROWS)
        .collect();
    // The last row may be incomplete.
    if rows.len() > ROWS_MIN && !start.ends_with('\n') {
        rows.pop();
    }
    rows
}

/// Reads a table; `None` if the text is not one.
pub(super) fn read(source: &str) -> Option<Document> {
    let delimiter = dialect(source, true)?.delimiter;
    let mut lost = Vec::new();
    let open = open_quote(source, delimiter);
    if let Some(line) = open {
        lost.push(format!(
            "line {line} opens a quote that nothing closes; quotes are read as plain letters"
        ));
    }
    let rows = sample(source, delimiter);
    let names = header(&rows);
    let mut table = Table {
        records: Records::new(source, "Row"),
        names: names.clone().unwrap_or_default(),
        widest: 0,
    };
    table.read(source, reader(source, delimiter, open.is_none()), names.is_some());
    let Table { records, widest, .. } = table;
    if widest > COLUMNS_MAX {
        let left_out = widest - COLUMNS_MAX;
        lost.push(format!("{left_out} of {widest} columns are left out; {COLUMNS_MAX} are read"));
    }
    (!records.is_empty()).then(|| records.finish(Format::Csv, lost))
}

struct Table<'a> {
    records: Records<'a>,
    names: Vec<String>,
    widest: usize,
}

impl Table<'_> {
    /// Reads the rows, numbered from 1 without the header.
    fn read(&mut self, source: &str, mut rows: Reader<&[u8]>, has_header: bool) {
        let mut row = ByteRecord::new();
        let mut number = 0;
        let mut is_header = has_header;
        loop {
            let from = place(&rows, source);
            if !matches!(rows.read_byte_record(&mut row), Ok(true)) {
                break;
            }
            if std::mem::take(&mut is_header) {
                continue;
            }
            number += 1;
            self.widest = self.widest.max(row.len());
            let said = self.said(&row);
            let to = place(&rows, source).max(from);
            let blank = source[from..to].bytes().take_while(|byte| b"\r\n".contains(byte)).count();
            if !self.records.add(number, from + blank..to, &said) {
                break;
            }
        }
    }

    fn said(&mut self, row: &ByteRecord) -> String {
        let mut said = String::new();
        for (at, cell) in row.iter().take(COLUMNS_MAX).enumerate() {
            if self.names.len() <= at {
                self.names.push(column(at));
            }
            say(&mut said, &self.names[at], &String::from_utf8_lossy(cell));
        }
        said
    }
}

/// Byte position of a reader.
fn place(rows: &Reader<&[u8]>, source: &str) -> usize {
    let byte = usize::try_from(rows.position().byte()).unwrap_or(usize::MAX);
    source.floor_char_boundary(byte.min(source.len()))
}

fn column(at: usize) -> String {
    format!("Column {}", at + 1)
}

/// Returns the line of a quote that is still open at the end of the file: the last row has an odd number of quotes.
fn open_quote(source: &str, delimiter: u8) -> Option<u32> {
    let mut rows = reader(source, delimiter, true);
    let mut row = ByteRecord::new();
    let mut last = 0;
    loop {
        let from = place(&rows, source);
        match rows.read_byte_record(&mut row) {
            Ok(true) => last = from,
            _ => break,
        }
    }
    let odd = source[last..].bytes().filter(|&byte| byte == b'"').count() % 2 == 1;
    let runs_on = source[last..].trim().contains('\n') || source[last..].trim_end().len() > 1;
    let opened = source[last..].find('"')? + last;
    let line = source[..opened].matches('\n').count() + 1;
    (odd && runs_on && last_cell_is_quoted(source, last, delimiter))
        .then(|| u32::try_from(line).unwrap_or(u32::MAX))
}

/// Returns true if a cell of the row at `from` begins with a quote; other quotes are plain characters.
fn last_cell_is_quoted(source: &str, from: usize, delimiter: u8) -> bool {
    let row = source[from..].trim_start().as_bytes();
    row.first() == Some(&b'"') || row.windows(2).any(|two| two == [delimiter, b'"'])
}

/// Returns the column names if the first row has them. A header has no number or date except years. In addition, a name
/// must have a column of numbers below, or no name may recur below itself.
fn header(rows: &[ByteRecord]) -> Option<Vec<String>> {
    let (first, below) = rows.split_first()?;
    if below.is_empty() {
        return None;
    }
    let cells: Vec<String> = first
        .iter()
        .take(COLUMNS_MAX)
        .map(|cell| String::from_utf8_lossy(cell).trim().to_owned())
        .collect();
    let words = cells.iter().filter(|cell| !cell.is_empty() && !is_value(cell)).count();
    let values = cells.iter().filter(|cell| is_value(cell) && !is_year(cell)).count();
    let long = cells.iter().any(|cell| cell.chars().count() > NAME_CHARS_MAX);
    if words == 0 || values > 0 || long {
        return None;
    }
    let of_column = |at: usize| below.iter().filter_map(move |row| row.get(at));
    let column = |at: usize| of_column(at).map(|cell| String::from_utf8_lossy(cell));
    let numbers_below = |at: usize| {
        let mut filled = column(at).filter(|cell| !cell.trim().is_empty()).peekable();
        filled.peek().is_some() && filled.all(|cell| is_value(cell.trim()))
    };
    let is_name_of_numbers =
        |at: usize| !cells[at].is_empty() && !is_value(&cells[at]) && numbers_below(at);
    let comes_again =
        |at: usize| !cells[at].is_empty() && column(at).any(|cell| cell.trim() == cells[at]);
    let all = 0..cells.len();
    let named = all.clone().any(is_name_of_numbers) || !all.clone().any(comes_again);
    named.then(|| names(&cells))
}

/// Returns the column names: an empty name becomes its column number, a repeated name gets a counter.
fn names(cells: &[String]) -> Vec<String> {
    let mut taken = std::collections::HashMap::<String, usize>::new();
    let name = |(at, cell): (usize, &String)| {
        let name = if cell.is_empty() { column(at) } else { tidy(cell, HEADING_CHARS_MAX) };
        let times = taken.entry(name.to_lowercase()).or_default();
        *times += 1;
        if *times == 1 { name } else { format!("{name} ({times})") }
    };
    cells.iter().enumerate().map(name).collect()
}

/// Returns true for a number, an amount, a percentage, a date or a time.
fn is_value(cell: &str) -> bool {
    let digits = cell.chars().filter(char::is_ascii_digit).count();
    let marks = |c: char| c.is_ascii_digit() || " .,:-+/%$\u{20ac}\u{a3}TZeE()".contains(c);
    digits > 0 && cell.chars().all(marks)
}

fn is_year(cell: &str) -> bool {
    cell.len() == 4 && cell.parse().is_ok_and(|year| YEARS.contains(&year))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Source;

    fn text(source: &str) -> String {
        read(source).map(|document| document.text).unwrap_or_default()
    }

    #[test]
    fn each_delimiter_is_found() {
        for delimiter in [",", ";", "\t", "|"] {
            let source = "name,age\nAda,36\nBob,7\n".replace(',', delimiter);
            assert_eq!(text(&source), "name: Ada\nage: 36\n\nname: Bob\nage: 7\n\n", "{delimiter}");
        }
        // Commas within cells, and decimal commas.
        assert_eq!(text("what;cost\na, b;1,5\nc;2,5\n").lines().next(), Some("what: a, b"));
        assert_eq!(text("one\ntwo\n"), "");
    }

    #[test]
    fn a_header_is_told_from_a_row() {
        assert_eq!(text("1,2\n3,4\n"), "Column 1: 1\nColumn 2: 2\n\nColumn 1: 3\nColumn 2: 4\n\n");
        assert!(text("city,2023,2024\nOslo,5,6\n").starts_with("city: Oslo\n2023: 5\n2024: 6"));
        assert!(text("a,b\nx,y\nz,w\n").starts_with("a: x\nb: y"), "words over words");
        assert!(text("yes,Ada\nno,Bob\nyes,Eve\n").starts_with("Column 1: yes"), "comes again");
        assert!(text("n,,n\n1,2,3\n").starts_with("n: 1\nColumn 2: 2\nn (2): 3"));
    }

    #[test]
    fn ragged_rows_and_quoted_lines_keep_their_places() {
        let source = "a,b\n\"x\ny\",1\n\n,2,more\n3,4\n5,6\n7,8\n";
        let document = read(source).unwrap();
        assert!(document.text.starts_with("a: x y\nb: 1\n\nb: 2\nColumn 3: more\n\na: 3"));
        let Source::Extracted { runs, .. } = &document.source else { panic!() };
        assert_eq!(&source[runs[1].source_start..runs[1].source_end], ",2,more\n");
    }

    #[test]
    fn an_open_quote_does_not_swallow_the_rest() {
        let document = read("a,b\n1,2\n3,\"x\n4,5\n6,7\n8,9\n").unwrap();
        assert!(document.lost.unwrap().starts_with("line 3 opens a quote"));
        assert!(document.text.ends_with("a: 8\nb: 9\n\n"), "{}", document.text);
        assert_eq!(read("a,b\n1,5\" pipe\n2,6\" pipe\n3,x\n").unwrap().lost, None);
    }

    #[test]
    fn a_wide_table_is_cut() {
        let row = |fill: &str| vec![fill; COLUMNS_MAX + 2].join(",") + "\n";
        let document = read(&[row("1"), row("2"), row("3")].concat()).unwrap();
        assert!(document.lost.unwrap().starts_with("2 of 258 columns"));
        assert!(!document.text.contains("Column 257"));
    }

    #[test]
    fn prose_is_no_table() {
        assert!(looks_so("a,b,c\n1,2,3\n4,5,6\n", false));
        assert!(!looks_so("a,b\n1,2\n3,4\n", false) && looks_so("a,b\n1,2\n3,4\n", true));
        let prose = "First, second, third.\nOnce, twice, thrice.\nOne, two, three.\n";
        assert!(!looks_so(prose, false));
        assert!(!looks_so("words\nmore words\n", true));
    }
}
