//! The child process that reads PDFs, as its parent sees it.
//!
//! Owns its start, the bounds that are kept from outside, and its end: it is killed when it takes too
//! long, says too much, or nobody waits for it any more.

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

    /// How long one file may take.
    const PDF_TIME_MAX: Duration = Duration::from_secs(30);
    /// Bytes of the child's answer: the text with each byte escaped, and what is around it.
    const ANSWER_BYTES_MAX: usize = 80 << 20;
}

/// What the program is told to do; hidden from its help.
pub const SUBCOMMAND: &str = "read-pdf";

/// Which program reads PDFs, and how long it may take for one.
#[derive(Debug, Clone)]
pub struct PdfReader {
    program: PathBuf,
    time_max: Duration,
}

/// How a child's work ended.
enum Ended {
    Said(Vec<u8>),
    Late,
    Cancelled,
}

impl PdfReader {
    /// By `recalld`, or what understands `read-pdf` as it does.
    pub fn new(program: PathBuf) -> Self {
        Self { program, time_max: PDF_TIME_MAX }
    }

    /// The same with another bound on the time of one file.
    #[must_use]
    pub fn within(self, time_max: Duration) -> Self {
        Self { time_max, ..self }
    }

    /// What the child says of a file.
    pub(super) fn run(&self, bytes: &[u8], call: CallScope<'_>) -> Result<Told, Unread> {
        let mut child = self.start()?;
        let deadline = Instant::now() + self.time_max;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(broken("its reader has no pipes".to_owned()));
        };
        std::thread::scope(|scope| {
            // A child that ended does not read on; its answer or its end says why.
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
            // Whatever became of it, it is gone now, and so the pipes are closed. One that had ended by itself is not
            // reached any more: its status is its own.
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
