//! Progress for people: a bar if standard error is a terminal, plain lines if standard error is a file or a log,
//! nothing for a program.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::progress::Progress;
use recalld_common::counted::counted;

/// Plain lines per file or job, evenly spaced.
const LINES_PER_FILE: u64 = 4;
const MEGABYTE: f64 = 1e6;
/// Shorter work shows no bar.
const DRAW_AFTER: Duration = Duration::from_secs(1);

/// Progress output on standard error.
pub struct Bar(Form);

/// The unit of progress.
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
    /// Questions of a data set.
    Questions,
    /// Entries of a ledger.
    Entries,
}

impl Unit {
    /// The text without the bar fits 40 columns; the bar fills the rest of the line, if any.
    fn template(self) -> &'static str {
        match self {
            Self::Bytes => "{msg} {bytes}/{total_bytes} {wide_bar} {bytes_per_sec} eta {eta}",
            Self::Files | Self::Lines | Self::Items | Self::Questions | Self::Entries => {
                "{msg} {human_pos}/{human_len} {wide_bar} {rate} eta {eta}"
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a size for people, to one decimal")]
    fn words(self, done: u64, total: u64) -> String {
        match self {
            Self::Bytes => {
                format!("{:.1} of {:.1} MB", done as f64 / MEGABYTE, total as f64 / MEGABYTE)
            }
            Self::Files => format!("{done} of {}", counted(total, "file")),
            Self::Lines => format!("{done} of {}", counted(total, "line")),
            Self::Items => format!("{done} of {}", counted(total, "item")),
            Self::Questions => format!("{done} of {}", counted(total, "question")),
            Self::Entries => format!("{done} of {}", counted(total, "entry")),
        }
    }
}

enum Form {
    Drawn(Drawn),
    Lines(Lines<io::Stderr>),
    Nothing,
}

struct Drawn {
    bar: ProgressBar,
    what: String,
    /// Creation time of a bar that is not drawn yet.
    hidden_since: Option<Instant>,
}

impl Bar {
    /// Progress on standard error: a bar on a terminal, drawn after one second of work; lines otherwise.
    pub fn stderr(unit: Unit) -> Self {
        if !io::stderr().is_terminal() {
            return Self(Form::Lines(Lines::new(io::stderr(), unit)));
        }
        Self::drawn(unit)
    }

    /// Progress for a command: as [`Self::stderr`], but nothing if the output is JSON for a program.
    pub fn of_command(unit: Unit, json: bool) -> Self {
        if json { Self(Form::Nothing) } else { Self::stderr(unit) }
    }

    fn drawn(unit: Unit) -> Self {
        let style = ProgressStyle::with_template(unit.template())
            .expect("the template is a constant that a test draws")
            .with_key("rate", rate);
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        let hidden_since = Some(Instant::now());
        Self(Form::Drawn(Drawn { bar: bar.with_style(style), what: String::new(), hidden_since }))
    }
}

/// Items per second, without the fractions of indicatif's own rate.
fn rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    // A failure to draw must not stop the work.
    let _undrawn = write!(out, "{:.0}/s", state.per_sec());
}

impl Drawn {
    fn advance(&mut self, what: &str, done: u64, total: Option<u64>) {
        if self.hidden_since.is_some_and(|since| since.elapsed() >= DRAW_AFTER) {
            self.hidden_since = None;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if self.what != what {
            what.clone_into(&mut self.what);
            self.bar.reset();
            self.bar.set_message(what.to_owned());
        }
        self.bar.set_length(total.unwrap_or(done));
        self.bar.set_position(done);
    }

    /// Messages are printed immediately, with or without a bar.
    fn say(&self, message: &str) {
        if self.hidden_since.is_some() {
            drop(writeln!(io::stderr(), "{message}"));
        } else {
            self.bar.println(message);
        }
    }
}

impl Progress for Bar {
    fn say(&mut self, message: &str) {
        match &mut self.0 {
            Form::Drawn(drawn) => drawn.say(message),
            Form::Lines(lines) => lines.say(message),
            Form::Nothing => {}
        }
    }

    fn advance(&mut self, what: &str, done: u64, total: Option<u64>) {
        match &mut self.0 {
            Form::Drawn(drawn) => drawn.advance(what, done, total),
            Form::Lines(lines) => lines.advance(what, done, total),
            Form::Nothing => {}
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Form::Drawn(drawn) = &self.0 {
            drawn.bar.finish_and_clear();
        }
    }
}

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

    /// A failed write is ignored: a log that cannot be written must not stop a fetch that can.
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
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

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
        let Form::Drawn(inner) = &drawn.0 else { panic!("drawn() draws") };
        let bar = inner.bar.clone();
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

    /// A terminal that stores the written text and ignores the cursor.
    #[derive(Debug, Clone, Default)]
    struct Terminal {
        columns: u16,
        written: Arc<Mutex<String>>,
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            self.columns
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.written.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.written.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The bar as drawn on a terminal of `columns` columns.
    fn line(unit: Unit, columns: usize, what: &str) -> String {
        let columns = u16::try_from(columns).unwrap();
        let terminal = Terminal { columns, ..Terminal::default() };
        let Bar(Form::Drawn(drawn)) = &mut Bar::drawn(unit) else { panic!("drawn() draws") };
        drawn.hidden_since = None;
        drawn.bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        drawn.advance(what, 25_088, Some(100_000));
        drawn.bar.force_draw();
        let written = terminal.written.lock().unwrap();
        written.clone()
    }

    #[test]
    fn a_bar_keeps_to_one_line_of_a_narrow_terminal_and_fills_a_wide_one() {
        for (unit, what) in [(Unit::Lines, "importing"), (Unit::Items, "embedding")] {
            for columns in [40, 80] {
                let line = line(unit, columns, what);
                let words: Vec<&str> = line.split_whitespace().collect();
                let (begins, ends) = ([what, "25,088/100,000"], ["eta", "0s"]);
                assert!(words.starts_with(&begins) && words.ends_with(&ends), "{line:?}");
                // The rate of the test is unrealistic; a real rate is below a hundred thousand.
                let rate = words[words.len() - 3];
                let rest = line.trim_end().chars().count() - rate.len();
                assert!(rate.ends_with("/s") && rest + "99999/s".len() <= columns, "{line:?}");
                assert_eq!(columns == 80, line.contains('\u{2588}'), "{line:?}");
            }
        }
    }
}
