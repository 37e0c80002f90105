//! Batcher: concurrent callers with the same kind of request are served together by one of the waiting threads
//! (leader-follower, combining).
//!
//! Owns the queue, the number of workers, and when a batch starts. Has no threads of its own, and must not know
//! requests or answers. Cancelled callers stop waiting, and the callers of a failed worker receive `None`.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use recalld_common::cancel::CallScope;
use recalld_common::monitor::Monitor;

/// A batcher of requests `Q` with answers `A`.
pub struct Gather<Q, A> {
    /// Waiters are woken when answers are ready, and when a batch may start.
    state: Monitor<State<Q, A>>,
    workers_max: usize,
}

struct State<Q, A> {
    /// In order of arrival; at most one request for each calling thread.
    waiting: VecDeque<Waiting<Q, A>>,
    /// Threads that serve a batch.
    working: usize,
}

struct Waiting<Q, A> {
    question: Q,
    since: Instant,
    slot: Arc<Slot<A>>,
}

type Slot<A> = Mutex<Answer<A>>;

enum Answer<A> {
    Wanted,
    /// `None` if the worker failed.
    Given(Option<A>),
}

/// Snapshot of the queue given to the batch policy.
pub struct Work<'a, Q> {
    /// Queued requests in order of arrival; at least one.
    pub waiting: &'a [&'a Q],
    /// Waiting time of the first request.
    pub waited: Duration,
    /// Threads that already serve a batch.
    pub working: usize,
    /// Maximum number of concurrent workers.
    pub workers_max: usize,
}

/// Decision of the batch policy.
pub enum Turn {
    /// Serve the requests at these indices, in ascending order.
    Take(Vec<usize>),
    /// Wait for more requests, at most for this time.
    Wait(Duration),
}

/// Batch policy, and the computation of the answers.
pub trait Acts<Q, A> {
    /// Chooses the next batch from the queue.
    fn choose(&self, work: &Work<'_, Q>) -> Turn;
    /// An answer for each request, in order; `None` for a failed request.
    fn answer(&self, questions: Vec<Q>) -> Vec<Option<A>>;
}

impl<Q: Send + 'static, A: Send + 'static> Gather<Q, A> {
    /// A batcher with at most `workers_max` concurrent workers; at least one.
    pub fn new(workers_max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), working: 0 };
        Self { state: Monitor::new(state), workers_max: workers_max.max(1) }
    }

    /// Waits for the answer, and serves a batch of waiting requests if this thread becomes the worker. Returns `None`
    /// if the call ended first or the worker failed.
    pub fn ask(&self, question: Q, acts: &dyn Acts<Q, A>, call: &CallScope<'_>) -> Option<A> {
        let slot = Arc::new(Mutex::new(Answer::Wanted));
        let mut state = self.state.lock();
        let mut waker = None;
        let own = Waiting { question, since: Instant::now(), slot: Arc::clone(&slot) };
        state.waiting.push_back(own);
        loop {
            let answer = std::mem::replace(&mut *lock(&slot), Answer::Wanted);
            if let Answer::Given(answer) = answer {
                return answer;
            }
            if call.is_over() {
                state.waiting.retain(|waiting| !Arc::ptr_eq(&waiting.slot, &slot));
                // Another waiter must start the batch that this caller would have started.
                self.state.notify_all();
                return None;
            }
            let until = match self.turn(&state, acts) {
                Some(Turn::Take(places)) => {
                    state = self.work(state, places, acts);
                    continue;
                }
                Some(Turn::Wait(most)) => {
                    let until = Instant::now() + most;
                    Some(call.deadline.map_or(until, |deadline| deadline.min(until)))
                }
                None => call.deadline,
            };
            if waker.is_none() {
                waker = Some(self.state.woken_by(call));
                if call.is_over() {
                    continue;
                }
            }
            state = self.state.wait_until(state, until);
        }
    }

    /// Wakes all waiters to evaluate the batch policy again.
    pub fn look_again(&self) {
        // Taking the lock waits for any thread between its policy check and its wait, so no wakeup is lost.
        drop(self.state.lock());
        self.state.notify_all();
    }

    fn turn(&self, state: &State<Q, A>, acts: &dyn Acts<Q, A>) -> Option<Turn> {
        let first = state.waiting.front()?;
        if state.working >= self.workers_max {
            return None;
        }
        let waiting: Vec<&Q> = state.waiting.iter().map(|waiting| &waiting.question).collect();
        Some(acts.choose(&Work {
            waiting: &waiting,
            waited: first.since.elapsed(),
            working: state.working,
            workers_max: self.workers_max,
        }))
    }

    fn work<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<Q, A>>,
        places: Vec<usize>,
        acts: &dyn Acts<Q, A>,
    ) -> MutexGuard<'a, State<Q, A>> {
        // From the last index to the first, so that the remaining indices stay valid.
        let taken = places.into_iter().rev().filter_map(|at| state.waiting.remove(at));
        let mut taken: Vec<Waiting<Q, A>> = taken.collect();
        taken.reverse();
        state.working += 1;
        if !state.waiting.is_empty() && state.working < self.workers_max {
            // Another waiter may start a batch from the rest of the queue.
            self.state.notify_all();
        }
        drop(state);
        let (questions, slots): (Vec<Q>, Vec<Arc<Slot<A>>>) =
            taken.into_iter().map(|waiting| (waiting.question, waiting.slot)).unzip();
        let answers = catch_unwind(AssertUnwindSafe(|| acts.answer(questions)));
        let (answers, panic) = match answers {
            Ok(answers) => (answers, None),
            Err(panic) => (Vec::new(), Some(panic)),
        };
        let mut state = self.state.lock();
        state.working -= 1;
        let answers = answers.into_iter().chain(std::iter::repeat_with(|| None));
        for (slot, answer) in slots.iter().zip(answers) {
            *lock(slot) = Answer::Given(answer);
        }
        self.state.notify_all();
        if let Some(panic) = panic {
            drop(state);
            resume_unwind(panic);
        }
        state
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;
    use recalld_common::cancel::CancellationToken;

    /// Doubles each number; waits until `count` requests are queued, and reports the batch size.
    struct Doubles<'a> {
        count: usize,
        together: &'a (dyn Fn(usize) + Sync),
    }

    impl Acts<u32, u32> for Doubles<'_> {
        fn choose(&self, work: &Work<'_, u32>) -> Turn {
            if work.waiting.len() < self.count {
                return Turn::Wait(Duration::from_secs(60));
            }
            Turn::Take((0..work.waiting.len()).collect())
        }

        fn answer(&self, questions: Vec<u32>) -> Vec<Option<u32>> {
            (self.together)(questions.len());
            questions.into_iter().map(|question| (question != 7).then_some(question * 2)).collect()
        }
    }

    #[test]
    fn all_that_have_gathered_are_answered_at_once_each_with_its_own() {
        let most = AtomicUsize::new(0);
        let together = |count| {
            most.fetch_max(count, Ordering::SeqCst);
        };
        let (gather, acts) = (Gather::new(1), Doubles { count: 6, together: &together });
        let token = CancellationToken::new();
        let call = CallScope { token: &token, deadline: None };
        std::thread::scope(|scope| {
            let ask = |question| gather.ask(question, &acts, &call);
            let all: Vec<_> = (3..9).map(|question| scope.spawn(move || ask(question))).collect();
            let answers: Vec<_> = all.into_iter().map(|one| one.join().unwrap()).collect();
            assert_eq!(answers, [Some(6), Some(8), Some(10), Some(12), None, Some(16)]);
        });
        assert_eq!(most.into_inner(), 6);
    }

    #[test]
    fn what_nobody_wants_any_more_is_not_waited_for() {
        let (gather, acts) = (Gather::new(1), Doubles { count: 2, together: &drop });
        let token = CancellationToken::new();
        let call = CallScope { token: &token, deadline: None };
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| gather.ask(1, &acts, &call));
            while gather.state.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            token.cancel();
            assert_eq!(waits.join().unwrap(), None);
            assert!(gather.state.lock().waiting.is_empty());
        });
    }

    struct Fails;

    impl Acts<u32, u32> for Fails {
        fn choose(&self, work: &Work<'_, u32>) -> Turn {
            let all = work.waiting.len();
            if all < 2 { Turn::Wait(Duration::from_secs(60)) } else { Turn::Take(vec![0, 1]) }
        }

        fn answer(&self, _: Vec<u32>) -> Vec<Option<u32>> {
            panic!("as asked");
        }
    }

    #[test]
    fn who_waits_for_one_that_fails_is_told() {
        let gather = Gather::new(1);
        let token = CancellationToken::new();
        let call = CallScope { token: &token, deadline: None };
        let (told, hears) = mpsc::channel();
        std::thread::scope(|scope| {
            for question in 0..2 {
                let (told, gather) = (told.clone(), &gather);
                scope.spawn(move || {
                    let asked = AssertUnwindSafe(|| gather.ask(question, &Fails, &call));
                    told.send(catch_unwind(asked).ok()).unwrap();
                });
            }
        });
        drop(told);
        let mut heard: Vec<Option<Option<u32>>> = hears.iter().collect();
        heard.sort();
        assert_eq!(heard, [None, Some(None)], "one panics, the other one has no answer");
        assert_eq!(gather.state.lock().working, 0);
    }
}
