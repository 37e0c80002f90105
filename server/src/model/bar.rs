//! Progress for people: a bar where standard error is a terminal, plain lines where it is a file or a log.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

use super::progress::Progress;

/// Plain lines per file or job: one at each of these parts of it.
const LINES_PER_FILE: u64 = 4;
const MEGABYTE: f64 = 1e6;

/// Draws on standard error.
pub struct Bar(Form);

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of a file.
    Bytes,
    /// Files of a job.
    Files,
    /// Lines of a file.
    Lines,
    /// Items of a store.
    Items,
}

impl Unit {
    fn template(self) -> &'static str {
        match self {
            Self::Bytes => "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            Self::Files => "{msg} [{bar:30}] {pos}/{len} files {elapsed} (about {eta} left)",
            Self::Lines => "{msg} [{bar:30}] {pos}/{len} lines {elapsed} (about {eta} left)",
            Self::Items => "{msg} [{bar:30}] {pos}/{len} items {elapsed} (about {eta} left)",
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a size for people, to one decimal")]
    fn words(self, done: u64, total: u64) -> String {
        match self {
            Self::Bytes => {
                format!("{:.1} of {:.1} MB", done as f64 / MEGABYTE, total as f64 / MEGABYTE)
            }
            Self::Files => format!("{done} of {total} files"),
            Self::Lines => format!("{done} of {total} lines"),
            Self::Items => format!("{done} of {total} items"),
        }
    }
}

enum Form {
    Drawn { bar: ProgressBar, what: String },
    Lines(Lines<io::Stderr>),
}

impl Bar {
    /// A bar for standard error as it is now: drawn on a terminal, in lines elsewhere.
    pub fn stderr(unit: Unit) -> Self {
        if !io::stderr().is_terminal() {
            return Self(Form::Lines(Lines::new(io::stderr(), unit)));
        }
        Self::drawn(unit)
    }

    fn drawn(unit: Unit) -> Self {
        let style = ProgressStyle::with_template(unit.template())
            .expect("the template is a constant that a test draws");
        Self(Form::Drawn { bar: ProgressBar::new(0).with_style(style), what: String::new() })
    }
}

impl Progress for Bar {
    fn say(&mut self, message: &str) {
        match &mut self.0 {
            Form::Drawn { bar, .. } => bar.println(message),
            Form::Lines(lines) => lines.say(message),
        }
    }

    fn advance(&mut self, what: &str, done: u64, total: Option<u64>) {
        match &mut self.0 {
            Form::Drawn { bar, what: shown } => {
                if shown != what {
                    *shown = what.to_owned();
                    bar.reset();
                    bar.set_message(what.to_owned());
                }
                bar.set_length(total.unwrap_or(done));
                bar.set_position(done);
            }
            Form::Lines(lines) => lines.advance(what, done, total),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Form::Drawn { bar, .. } = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A few lines per file, for a log.
struct Lines<W> {
    out: W,
    unit: Unit,
    what: String,
    next: u64,
}

impl<W: Write> Lines<W> {
    fn new(out: W, unit: Unit) -> Self {
        Self { out, unit, what: String::new(), next: 0 }
    }

    /// A log that cannot be written must not stop a fetch that can, so a failed write is dropped.
    fn line(&mut self, text: &str) {
        drop(writeln!(self.out, "{text}"));
    }
}

impl<W: Write> Progress for Lines<W> {
    fn say(&mut self, message: &str) {
        self.line(message);
    }

    fn advance(&mut self, what: &str, done: u64, total: Option<u64>) {
        if self.what != what {
            self.what = what.to_owned();
            self.next = 1;
        }
        let Some(total) = total else { return };
        let reached = done.saturating_mul(LINES_PER_FILE) / total.max(1);
        if reached >= self.next {
            self.next = reached + 1;
            self.line(&format!("{what}: {}", self.unit.words(done, total)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::ProgressDrawTarget;

    #[test]
    fn a_log_gets_a_few_lines_for_each_file() {
        let mut lines = Lines::new(Vec::new(), Unit::Bytes);
        lines.say("fetching");
        for done in 1..=100 {
            lines.advance("a", done * 1_000_000, Some(100_000_000));
        }
        lines.advance("b", 5, None);
        lines.advance("c", 0, Some(0));
        let text = String::from_utf8(lines.out).unwrap();
        let seen: Vec<&str> = text.lines().collect();
        assert_eq!(
            seen,
            [
                "fetching",
                "a: 25.0 of 100.0 MB",
                "a: 50.0 of 100.0 MB",
                "a: 75.0 of 100.0 MB",
                "a: 100.0 of 100.0 MB",
            ]
        );
    }

    #[test]
    fn a_terminal_gets_a_bar_with_the_file_and_its_size() {
        let mut drawn = Bar::drawn(Unit::Bytes);
        let Form::Drawn { bar, .. } = &drawn.0 else { panic!("drawn() draws") };
        let bar = bar.clone();
        bar.set_draw_target(ProgressDrawTarget::hidden());
        drawn.say("fetching");
        drawn.advance("tokenizer.json", 7, None);
        assert_eq!(
            (bar.message().as_str(), bar.position(), bar.length()),
            ("tokenizer.json", 7, Some(7))
        );
        drawn.advance("model.safetensors", 1024, Some(2048));
        assert_eq!(
            (bar.message().as_str(), bar.position(), bar.length()),
            ("model.safetensors", 1024, Some(2048))
        );
        drop(drawn);
        assert!(bar.is_finished());
    }
}
