//! The thread that sends mails, so that nobody waits for a mail server.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::message::Mail;
use super::waiting::{Attempt, QueueFull, Waiting};
use super::{MailError, Mailer};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Sends what is put into it, in a thread of its own. Dropping it lets that thread end once it is through with the
/// mail at hand; those that wait are lost.
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
    /// A queue whose mails go to `mailer`.
    ///
    /// # Errors
    /// The system started no thread.
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

    /// Has `mail` sent as soon as it can be.
    ///
    /// # Errors
    /// Too many wait.
    pub fn put(&self, mail: Mail) -> Result<(), QueueFull> {
        self.shared.lock().waiting.put(mail, Instant::now())?;
        self.shared.changed.notify_one();
        Ok(())
    }

    /// How many wait, the one that is being sent among them.
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
    /// Waits for the next mail that is due; `None` when it is over.
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

    /// What is in it is whole whenever the lock is free, even after a panic.
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

    /// Tells what it was asked to send, and answers what it is told to.
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
        // The one that failed for now waits for its second try, beside the next one.
        queue.put(mail("e")).unwrap();
        assert_eq!(asks.recv().unwrap(), "e");
        assert_eq!(queue.waiting(), 2);
        drop(queue);
        answer.send(Ok(())).unwrap();
        // The thread is gone, and its mailer with it.
        assert!(asks.recv().is_err());
    }
}
