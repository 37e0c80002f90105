//! The child process that reads PDFs, from the side of its parent.
//!
//! The parent kills a child that exceeds its time or output limit, or whose call was cancelled.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::format::Unread;
use super::told::Told;
use recalld_common::cancel::CallScope;
use recalld_common::monitor::Monitor;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum time for one file.
    const PDF_TIME_MAX: Duration = Duration::from_secs(30);
    /// Bytes of the child's output: the text with every byte escaped, and the JSON around it.
    const ANSWER_BYTES_MAX: usize = 80 << 20;
}

/// Subcommand that runs the child; hidden from the help text.
pub const SUBCOMMAND: &str = "read-pdf";

/// Program that reads PDFs, and its maximum time per file.
#[derive(Debug, Clone)]
pub struct PdfReader {
    program: PathBuf,
    time_max: Duration,
}

/// Outcome of the child's work.
enum Ended {
    Said(Vec<u8>),
    Late,
    Cancelled,
}

impl PdfReader {
    /// Uses `program`: `recalld`, or a program with the same `read-pdf` subcommand.
    pub fn new(program: PathBuf) -> Self {
        Self { program, time_max: PDF_TIME_MAX }
    }

    /// Returns the reader with another maximum time per file.
    #[must_use]
    pub fn within(self, time_max: Duration) -> Self {
        Self { time_max, ..self }
    }

    /// Runs the child on a file and returns its output.
    pub(super) fn run(&self, bytes: &[u8], call: CallScope<'_>) -> Result<Told, Unread> {
        let mut child = self.start()?;
        let deadline = Instant::now() + self.time_max;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(broken("its reader has no pipes".to_owned()));
        };
        std::thread::scope(|scope| {
            // The write fails if the child has exited; the child's output or exit status has the reason.
            scope.spawn(move || drop(stdin.write_all(bytes)));
            let answer = Monitor::new(None);
            let answered = answer.clone();
            scope.spawn(move || {
                let mut said = Vec::new();
                let read = stdout.take(ANSWER_BYTES_MAX as u64 + 1).read_to_end(&mut said);
                *answered.lock() = Some(read.map(|_| said).unwrap_or_default());
                answered.notify_all();
            });
            let ended = wait(&answer, deadline, call);
            let told = match &ended {
                Ended::Said(said) if said.len() <= ANSWER_BYTES_MAX => {
                    serde_json::from_slice(said).ok()
                }
                _ => None,
            };
            // The child is killed in every case, which closes the pipes. If the child had already exited, the kill has
            // no effect and the exit status is the child's own.
            drop(child.kill());
            let status = child.wait();
            match (ended, told) {
                (Ended::Cancelled, _) => Err(Unread::Cancelled),
                (Ended::Late, _) => {
                    Err(broken(format!("it takes longer than {:?}", self.time_max)))
                }
                (Ended::Said(_), Some(told)) => Ok(told),
                (Ended::Said(said), None) => Err(broken(match status {
                    _ if said.len() > ANSWER_BYTES_MAX => "it has too much text".to_owned(),
                    Ok(status) => format!("its reader broke off ({status})"),
                    Err(_) => "its reader broke off".to_owned(),
                })),
            }
        })
    }

    fn start(&self) -> Result<Child, Unread> {
        Command::new(&self.program)
            .arg(SUBCOMMAND)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                let program = self.program.display();
                Unread::Broken(format!(
                    "a PDF; {program}, which reads PDFs, does not start: {error}"
                ))
            })
    }
}

fn broken(why: String) -> Unread {
    Unread::Broken(format!("a PDF that cannot be read: {why}"))
}

fn wait(answer: &Monitor<Option<Vec<u8>>>, deadline: Instant, call: CallScope<'_>) -> Ended {
    let _woken = answer.woken_by(&call);
    let until = call.deadline.map_or(deadline, |end| end.min(deadline));
    let mut state = answer.lock();
    loop {
        if let Some(said) = state.take() {
            return Ended::Said(said);
        }
        if call.is_over() {
            return Ended::Cancelled;
        }
        if Instant::now() >= deadline {
            return Ended::Late;
        }
        state = answer.wait_until(state, Some(until));
    }
}
