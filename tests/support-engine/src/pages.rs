//! Tables of the specification, for tests that compare them with the code.

use std::fs;
use std::path::{Path, PathBuf};

/// Path of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a page of the specification.
///
/// # Panics
/// The page does not exist.
pub fn page(name: &str) -> String {
    fs::read_to_string(root().join("format-spec").join(name)).expect("the page is there")
}

/// Rows of the table whose head starts with `head`, without their outer bars, cells trimmed.
///
/// # Panics
/// No table starts with `head`.
pub fn table(text: &str, head: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
        inner.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    let rows = text.lines().skip_while(|line| !line.starts_with(head));
    let rows: Vec<_> = rows.skip(2).take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty(), "no table starts with {head}");
    rows
}

/// Parses `1 MiB`, `256 B`, `65,536` or `2^31` as a number.
///
/// # Panics
/// The text has none of these forms.
pub fn value(text: &str) -> u64 {
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
