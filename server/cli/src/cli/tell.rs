//! Output of commands: the report on standard output, everything else on standard error.
//!
//! The report comes after the work. A reader such as `head` may close the pipe early, which does not change the exit
//! code. Any other failure to write the report fails the command.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use super::failure::Failure;
use recalld_telemetry::log;
use recalld_telemetry::log::Level;

/// Writes a report, with its final newline, to standard output.
pub(super) fn tell(report: &str) -> Result<(), Failure> {
    tell_in(&mut io::stdout().lock(), report)
}

/// As [`tell`], for a report without its final newline.
pub(super) fn tell_line(report: &impl Display) -> Result<(), Failure> {
    tell(&format!("{report}\n"))
}

fn tell_in(out: &mut impl Write, report: &str) -> Result<(), Failure> {
    match out.write_all(report.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Could(format!(
            "standard output: {error}; what was asked for is done, only the report is lost"
        ))),
        _ => Ok(()),
    }
}

/// Prints a message on standard error. A failure to print is ignored.
pub(super) fn say(what: &impl Display) {
    log::event(Level::Info, &what.to_string(), &[]);
}

/// Quotes a path for a shell.
pub(super) fn shell_word(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:,@%".contains(c);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_spaces_is_one_word_of_a_shell() {
        assert_eq!(shell_word(Path::new("/a/b-c")), "/a/b-c");
        assert_eq!(shell_word(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_left_is_no_failure_and_a_full_disk_is() {
        assert!(tell_in(&mut Broken(ErrorKind::BrokenPipe), "report\n").is_ok());
        let full = tell_in(&mut Broken(ErrorKind::StorageFull), "report\n");
        assert!(matches!(full, Err(Failure::Could(_))), "{full:?}");
    }
}
