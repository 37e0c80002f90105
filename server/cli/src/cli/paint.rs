//! Colour and columns for people: on a terminal, and nowhere else.
//!
//! Owns the escape sequences, which are few, and when they are wanted: standard output is a terminal, `NO_COLOR` is not
//! set (no-color.org), and `TERM` is not `dumb`. What programs read is never painted.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

/// Between two columns.
const GAP: &str = "  ";

/// Whether and how text is painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint {
    is_on: bool,
}

impl Paint {
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self { is_on: false };

    /// For standard output as it is now.
    pub(super) fn stdout() -> Self {
        Self::wanted(io::stdout().is_terminal(), &|name| std::env::var_os(name))
    }

    fn wanted(is_terminal: bool, variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
        Self { is_on: is_terminal && !is_set("NO_COLOR") && !is_dumb }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.is_on && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// What is named.
    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What stands beside.
    pub(super) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// What is as it should be.
    pub(super) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// What is worth a look.
    pub(super) fn warn(self, text: &str) -> String {
        self.with("33", text)
    }

    /// What is wrong.
    pub(super) fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }
}

/// Whether a person reads standard output: then a list is a table.
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Rows in columns as wide as they have to be, under a head unless it is empty. Texts cannot drive the terminal.
pub(super) fn table(paint: Paint, head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|name| name.replace('_', " ")).collect();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let mut widths = Vec::new();
    for row in std::iter::once(&head).chain(&rows) {
        for (at, cell) in row.iter().enumerate() {
            widths.resize(widths.len().max(at + 1), 0);
            widths[at] = widths[at].max(cell.chars().count());
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join(GAP).trim_end().to_owned()
    };
    let mut out = String::new();
    if !head.is_empty() {
        out += &format!("{}\n", paint.bold(&line(&head)));
    }
    rows.iter().fold(out, |out, row| out + &line(row) + "\n")
}

/// A recalled text must not drive the terminal that shows it.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_that_wants_colour_gets_it() {
        let of = |is_terminal, set: &'static [(&str, &str)]| {
            let variable = |name: &str| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
            };
            Paint::wanted(is_terminal, &variable).bad("no")
        };
        assert_eq!(of(true, &[("TERM", "xterm")]), "\u{1b}[1;31mno\u{1b}[0m");
        assert_eq!(of(true, &[("TERM", "xterm"), ("NO_COLOR", "")]), "\u{1b}[1;31mno\u{1b}[0m");
        for set in [&[("TERM", "xterm"), ("NO_COLOR", "1")][..], &[("TERM", "dumb")], &[]] {
            assert_eq!(of(true, set), "no");
        }
        assert_eq!(of(false, &[("TERM", "xterm")]), "no");
    }

    #[test]
    fn columns_are_as_wide_as_they_have_to_be_and_texts_are_plain() {
        let rows = [["a", "b\u{1b}[2J"], ["long", ""]].map(|row| row.map(str::to_owned).to_vec());
        let told = table(Paint::PLAIN, &["x", "made_at"], &rows);
        assert_eq!(told, "x     made at\na     b\u{fffd}[2J\nlong\n");
        assert_eq!(table(Paint::PLAIN, &[], &rows[1..]), "long\n");
    }
}
