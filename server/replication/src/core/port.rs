//! The only future that a state machine awaits, and the machine as a value that is stepped from request to request.
//!
//! The compiler writes the state machines, and `async` has no other purpose here: nothing is ever woken.

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

/// Error for a response that does not match the request; it counts as no response.
const OTHER: &str = "the answer is to another question";

/// Interface through which a state machine sends requests, for one workspace.
#[derive(Debug)]
pub struct Port {
    tenant: Tenant,
    guards_edge: bool,
    now: Cell<Ticks>,
    ask: RefCell<Option<Ask>>,
    answer: RefCell<Option<Answer>>,
}

/// A state machine in progress.
pub struct Machine<'a, T> {
    port: Rc<Port>,
    body: Pin<Box<dyn Future<Output = T> + 'a>>,
}

/// Result of a step of a state machine.
#[derive(Debug)]
pub enum Step<T> {
    /// The machine needs the response to this request.
    Ask(Ask),
    /// The machine has ended.
    Done(T),
}

impl<'a, T> Machine<'a, T> {
    /// Makes a machine that has not started. `guards_edge` is the value of
    /// [`Chain::guards_edge`](crate::Chain::guards_edge).
    pub fn new<F>(tenant: Tenant, guards_edge: bool, body: impl FnOnce(Rc<Port>) -> F) -> Self
    where
        F: Future<Output = T> + 'a,
    {
        let (now, ask, answer) = (Cell::new(Ticks(0)), RefCell::default(), RefCell::default());
        let port = Rc::new(Port { tenant, guards_edge, now, ask, answer });
        let body = Box::pin(body(Rc::clone(&port)));
        Self { port, body }
    }

    /// Advances to the next request. `answer` is the response to the previous request, or `None` at the start. `now`
    /// was read after the response arrived.
    pub fn step(&mut self, answer: Option<Answer>, now: Ticks) -> Step<T> {
        self.port.now.set(now);
        *self.port.answer.borrow_mut() = answer;
        match self.body.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(end) => Step::Done(end),
            // A machine awaits nothing but a port, and a port always sets a request.
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
    /// Workspace of the requests.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Time after the last response, and so before the next request.
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

    /// Highest low watermark.
    ///
    /// # Errors
    /// The storage did not respond.
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

    /// Publishes a heartbeat of this node.
    ///
    /// # Errors
    /// The storage did not confirm the heartbeat.
    pub async fn beat(&self, beat: Beat) -> Result<(), Away> {
        self.done(Ask::Beat(beat)).await
    }

    /// Heartbeats of all nodes.
    ///
    /// # Errors
    /// The storage did not respond.
    pub async fn beats(&self) -> Result<Vec<Beat>, Away> {
        match self.ask(Ask::Beats).await {
            Answer::Beats(beats) => beats,
            _ => Err(other()),
        }
    }

    /// Puts an object.
    ///
    /// # Errors
    /// The storage did not confirm the object.
    pub async fn put(&self, key: Key, bytes: Arc<[u8]>) -> Result<(), Away> {
        self.done(Ask::Put(key, bytes)).await
    }

    pub(super) async fn put_new(&self, key: Key, bytes: Arc<[u8]>) -> Tried {
        self.tried(Ask::PutNew(key, bytes)).await
    }

    /// Bytes of an object, or of `range` in it, at most `most`; `None` if there is no object.
    ///
    /// # Errors
    /// The storage did not respond, or the object has more than `most` bytes.
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
    /// Some objects may still exist.
    pub async fn remove(&self, keys: Vec<Key>) -> Result<(), Away> {
        self.done(Ask::Remove(keys)).await
    }

    /// Waits for `length`.
    pub async fn wait(&self, length: Duration) {
        self.ask(Ask::Wait(length)).await;
    }
}

fn other() -> Away {
    Away { why: OTHER.into(), may_pass: false }
}
