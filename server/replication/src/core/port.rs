//! The one thing that a machine awaits, and the machine as what is stepped from ask to ask.
//!
//! `async` here is how the compiler writes state machines, and no more: nothing is ever woken.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::ask::{Answer, Ask};
use crate::beat::Beat;
use crate::edge::Edge;
use crate::names::{Key, Tenant};
use crate::objects::{About, Away, Tried};
use crate::ticks::Ticks;

/// An answer of another kind than the ask: as if there had been none.
const OTHER: &str = "the answer is to another question";

/// Where a machine asks, about one workspace.
#[derive(Debug)]
pub struct Port {
    tenant: Tenant,
    guards_edge: bool,
    now: Cell<Ticks>,
    ask: RefCell<Option<Ask>>,
    answer: RefCell<Option<Answer>>,
}

/// A machine on its way.
pub struct Machine<'a, T> {
    port: Rc<Port>,
    body: Pin<Box<dyn Future<Output = T> + 'a>>,
}

/// How far a machine came.
#[derive(Debug)]
pub enum Step<T> {
    /// It wants this done, and its answer.
    Ask(Ask),
    /// It came to its end.
    Done(T),
}

impl<'a, T> Machine<'a, T> {
    /// A machine that has not begun. `guards_edge` is what the chain says of itself
    /// ([`Chain::guards_edge`](crate::Chain::guards_edge)).
    pub fn new<F>(tenant: Tenant, guards_edge: bool, body: impl FnOnce(Rc<Port>) -> F) -> Self
    where
        F: Future<Output = T> + 'a,
    {
        let (now, ask, answer) = (Cell::new(Ticks(0)), RefCell::default(), RefCell::default());
        let port = Rc::new(Port { tenant, guards_edge, now, ask, answer });
        let body = Box::pin(body(Rc::clone(&port)));
        Self { port, body }
    }

    /// Goes on to the next ask. `answer` is that of the ask before, none at the beginning; `now` was read
    /// after it came.
    pub fn step(&mut self, answer: Option<Answer>, now: Ticks) -> Step<T> {
        self.port.now.set(now);
        *self.port.answer.borrow_mut() = answer;
        match self.body.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(end) => Step::Done(end),
            // Nothing but a port is awaited, and a port always asks.
            Poll::Pending => Step::Ask(self.port.ask.take().unwrap_or(Ask::Wait(Duration::ZERO))),
        }
    }
}

impl<T> fmt::Debug for Machine<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Port {
    /// The workspace.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The time after the last answer, and so before the next ask.
    #[must_use]
    pub fn now(&self) -> Ticks {
        self.now.get()
    }

    pub(super) fn guards_edge(&self) -> bool {
        self.guards_edge
    }

    async fn ask(&self, ask: Ask) -> Answer {
        *self.ask.borrow_mut() = Some(ask);
        let mut is_asked = false;
        poll_fn(|_| {
            if !is_asked {
                is_asked = true;
                return Poll::Pending;
            }
            self.answer.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    async fn tried(&self, ask: Ask) -> Tried {
        match self.ask(ask).await {
            Answer::Tried(tried) => tried,
            _ => Tried::Unsure(OTHER.into()),
        }
    }

    async fn bytes(&self, ask: Ask) -> Result<Option<Vec<u8>>, Away> {
        match self.ask(ask).await {
            Answer::Bytes(bytes) => bytes,
            _ => Err(other()),
        }
    }

    async fn done(&self, ask: Ask) -> Result<(), Away> {
        match self.ask(ask).await {
            Answer::Done(done) => done,
            _ => Err(other()),
        }
    }

    pub(super) async fn create(&self, number: u64, bytes: Arc<[u8]>) -> Tried {
        self.tried(Ask::Create { number, bytes }).await
    }

    pub(super) async fn read(&self, number: u64) -> Result<Option<Vec<u8>>, Away> {
        self.bytes(Ask::Read(number)).await
    }

    pub(super) async fn numbers(&self, after: u64, most: usize) -> Result<Vec<u64>, Away> {
        match self.ask(Ask::Numbers { after, most }).await {
            Answer::Numbers(numbers) => numbers,
            _ => Err(other()),
        }
    }

    /// The highest edge.
    ///
    /// # Errors
    /// No answer.
    pub async fn edge(&self) -> Result<Edge, Away> {
        match self.ask(Ask::Edge).await {
            Answer::Edge(edge) => edge,
            _ => Err(other()),
        }
    }

    pub(super) async fn raise_edge(&self, edge: Edge) -> Tried {
        self.tried(Ask::RaiseEdge(edge)).await
    }

    pub(super) async fn remove_records(&self, numbers: Vec<u64>) -> Result<(), Away> {
        self.done(Ask::RemoveRecords(numbers)).await
    }

    /// Says that this node lives.
    ///
    /// # Errors
    /// Nobody said that it was heard.
    pub async fn beat(&self, beat: Beat) -> Result<(), Away> {
        self.done(Ask::Beat(beat)).await
    }

    /// The beats of all nodes.
    ///
    /// # Errors
    /// No answer.
    pub async fn beats(&self) -> Result<Vec<Beat>, Away> {
        match self.ask(Ask::Beats).await {
            Answer::Beats(beats) => beats,
            _ => Err(other()),
        }
    }

    /// Puts an object there.
    ///
    /// # Errors
    /// Nobody said that it is there.
    pub async fn put(&self, key: Key, bytes: Arc<[u8]>) -> Result<(), Away> {
        self.done(Ask::Put(key, bytes)).await
    }

    pub(super) async fn put_new(&self, key: Key, bytes: Arc<[u8]>) -> Tried {
        self.tried(Ask::PutNew(key, bytes)).await
    }

    /// An object's bytes, those of `range` where one is given, at most `most`.
    ///
    /// # Errors
    /// No answer, or more than that.
    pub async fn get(
        &self,
        key: Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Away> {
        self.bytes(Ask::Get { key, range, most }).await
    }

    pub(super) async fn list(
        &self,
        prefix: &str,
        after: Option<Key>,
        most: usize,
    ) -> Result<Vec<About>, Away> {
        match self.ask(Ask::List { prefix: prefix.into(), after, most }).await {
            Answer::Listed(listed) => listed,
            _ => Err(other()),
        }
    }

    /// Removes objects.
    ///
    /// # Errors
    /// Some may be there still.
    pub async fn remove(&self, keys: Vec<Key>) -> Result<(), Away> {
        self.done(Ask::Remove(keys)).await
    }

    /// Lets time go by.
    pub async fn wait(&self, length: Duration) {
        self.ask(Ask::Wait(length)).await;
    }
}

fn other() -> Away {
    Away { why: OTHER.into(), may_pass: false }
}
