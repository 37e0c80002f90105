//! Executor of protocol tasks on the current thread: requests and waits block.

use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::ahead::Ahead;
use crate::chain::Chain;
use crate::core::{Answer, Ask, Machine, Port, Step};
use crate::names::Tenant;
use crate::objects::Objects;
use crate::ticks::TickSource;

/// Environment of a node's protocol tasks.
#[derive(Debug, Clone)]
pub struct Driver {
    /// Storage of record logs, low watermarks and heartbeats.
    pub chain: Arc<dyn Chain>,
    /// Object storage.
    pub objects: Arc<dyn Objects>,
    /// Monotonic clock.
    pub ticks: Arc<dyn TickSource>,
    /// Shutdown signal, which ends waits and tasks.
    pub halt: Arc<Halt>,
}

/// Shutdown signal that wakes waiting threads.
#[derive(Default)]
pub struct Halt {
    is_over: Mutex<bool>,
    changed: Condvar,
    asked: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Halt").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl Halt {
    /// Creates a signal that also counts as raised while `is_over` returns true. The closure is called before each
    /// request and wakes no waiting thread.
    #[must_use]
    pub fn asking(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { asked: Some(Box::new(is_over)), ..Self::default() }
    }

    /// Raises the signal and wakes all waiting threads.
    pub fn raise(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Returns true if the signal is raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
            || self.asked.as_ref().is_some_and(|is_over| is_over())
    }

    /// Waits for `length`, or until the signal is raised. Returns true if it is raised.
    pub fn wait(&self, length: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_over, length, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Driver {
    /// Runs a task to its end; `None` if the shutdown signal was raised before.
    pub fn run<'a, T, F>(&self, tenant: &Tenant, body: impl FnOnce(Rc<Port>) -> F) -> Option<T>
    where
        F: Future<Output = T> + 'a,
    {
        self.run_telling(tenant, &|_| (), body)
    }

    /// Runs a task to its end, as [`Driver::run`] does, and reports each failed request to `tell` while it is retried.
    pub fn run_telling<'a, T, F>(
        &self,
        tenant: &Tenant,
        tell: &dyn Fn(&str),
        body: impl FnOnce(Rc<Port>) -> F,
    ) -> Option<T>
    where
        F: Future<Output = T> + 'a,
    {
        let mut machine = Machine::new(tenant.clone(), self.chain.guards_edge(), body);
        let (mut answer, mut ahead) = (None, Ahead::default());
        loop {
            if self.halt.is_raised() {
                return None;
            }
            let ask = match machine.step(answer.take(), self.ticks.now()) {
                Step::Done(end) => return Some(end),
                Step::Ask(ask) => ask,
            };
            let told = match ask {
                Ask::Wait(length) => {
                    self.halt.wait(length);
                    Answer::Waited
                }
                Ask::Read(number) => Answer::Bytes(ahead.read(number, tenant, &*self.chain)),
                ask => ask.perform(tenant, &*self.chain, &*self.objects),
            };
            told.trouble().into_iter().for_each(tell);
            answer = Some(told);
        }
    }
}
