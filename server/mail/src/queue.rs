//! The thread that sends mails, so that no caller waits for a mail server.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::message::Mail;
use super::waiting::{Attempt, QueueFull, Waiting};
use super::{MailError, Mailer};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// A queue of mails and the thread that sends them. If dropped, the thread ends after the current mail, and queued
/// mails are lost.
pub struct MailQueue {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Waiting,
    is_over: bool,
}

impl MailQueue {
    /// Starts a queue that sends with `mailer`.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(mailer: Arc<dyn Mailer>) -> io::Result<MailQueue> {
        let shared =
            Arc::new(Shared { state: Mutex::new(State::default()), changed: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let send_all = move || {
            while let Some(attempt) = of_thread.next() {
                let outcome = mailer.send(&attempt.mail);
                of_thread.settle(attempt, outcome);
            }
        };
        thread::Builder::new().name("mail".to_owned()).spawn(send_all)?;
        Ok(MailQueue { shared })
    }

    /// Queues `mail` for immediate sending.
    ///
    /// # Errors
    /// The queue is full.
    pub fn put(&self, mail: Mail) -> Result<(), QueueFull> {
        self.shared.lock().waiting.put(mail, Instant::now())?;
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Number of unsent mails, including the one being sent.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting.count()
    }
}

impl Drop for MailQueue {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    /// Waits for the next due mail; `None` if the queue was dropped.
    fn next(&self) -> Option<Attempt> {
        let mut state = self.lock();
        while !state.is_over {
            let now = Instant::now();
            if let Some(attempt) = state.waiting.take(now) {
                return Some(attempt);
            }
            state = match state.waiting.due() {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let pause = due.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(state, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        None
    }

    fn settle(&self, mut attempt: Attempt, outcome: Result<(), MailError>) {
        let Err(error) = outcome else { return self.lock().waiting.sent() };
        let given_up = if error.is_final {
            self.lock().waiting.sent();
            attempt.failures += 1;
            Some(attempt)
        } else {
            self.lock().waiting.failed(attempt, Instant::now())
        };
        if let Some(attempt) = given_up {
            log::event(
                Level::Error,
                "a mail was not sent",
                &[
                    ("host", Value::Text(&attempt.mail.to().host())),
                    ("tries", Value::Count(attempt.failures as u64)),
                    ("why", Value::Text(&error.why)),
                ],
            );
        }
    }

    /// The state is consistent whenever the lock is free, even after a panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::super::address::Address;
    use super::*;

    /// A mailer that reports each mail to the test and returns the outcome that the test chooses.
    struct Watched {
        asked: Mutex<Sender<String>>,
        answers: Mutex<Receiver<Result<(), MailError>>>,
    }

    impl Mailer for Watched {
        fn send(&self, mail: &Mail) -> Result<(), MailError> {
            self.asked.lock().unwrap().send(mail.to().local().to_owned()).unwrap();
            self.answers.lock().unwrap().recv().unwrap()
        }
    }

    fn mail(name: &str) -> Mail {
        let to = Address::parse(&format!("{name}@b.example")).unwrap();
        Mail::confirmation(to, "acme", "https://a", Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn mails_go_out_in_their_order_and_failures_do_not_hold_up_the_others() {
        let (asked, asks) = channel();
        let (answer, answers) = channel();
        let mailer = Watched { asked: Mutex::new(asked), answers: Mutex::new(answers) };
        let queue = MailQueue::start(Arc::new(mailer)).unwrap();
        for name in ["a", "b", "c", "d"] {
            queue.put(mail(name)).unwrap();
        }
        let failed = |is_final| Err(MailError { is_final, why: "x".into() });
        for (name, outcome) in
            [("a", Ok(())), ("b", failed(true)), ("c", failed(false)), ("d", Ok(()))]
        {
            assert_eq!(asks.recv().unwrap(), name);
            answer.send(outcome).unwrap();
        }
        // The mail with a temporary failure waits for its second attempt, beside the next mail.
        queue.put(mail("e")).unwrap();
        assert_eq!(asks.recv().unwrap(), "e");
        assert_eq!(queue.waiting(), 2);
        drop(queue);
        answer.send(Ok(())).unwrap();
        // The disconnected channel shows that the thread and its mailer are gone.
        assert!(asks.recv().is_err());
    }
}
