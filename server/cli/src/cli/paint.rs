//! Colors and columns on a terminal.
//!
//! Escape sequences are written only if standard output is a terminal, `NO_COLOR` is not set (no-color.org), and `TERM`
//! is not `dumb`. Output for programs is never colored.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

/// Separator of two columns.
const GAP: &str = "  ";

/// The text style: escape sequences on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint {
    is_on: bool,
}

impl Paint {
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self { is_on: false };

    /// The style for the current standard output.
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

    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(super) fn warn(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }
}

/// Returns true if standard output is a terminal: lists are then tables.
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Formats rows in columns of minimal width, below `head` unless that is empty. Control characters in cells are
/// replaced.
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

/// Replaces control characters, because a recalled text must not control the terminal.
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
