//! Requests of a state machine to the storage, and their responses: the calls of [`Chain`] and [`Objects`] as values,
//! and a wait.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::beat::Beat;
use crate::chain::Chain;
use crate::edge::Edge;
use crate::names::{Key, Tenant};
use crate::objects::{About, Away, Objects, Tried};

/// A request about the workspace of the state machine.
#[derive(Debug, Clone)]
pub enum Ask {
    /// [`Chain::create`].
    Create {
        /// Record number.
        number: u64,
        /// Encoded record.
        bytes: Arc<[u8]>,
    },
    /// [`Chain::read`].
    Read(u64),
    /// [`Chain::numbers`].
    Numbers {
        /// Lower bound, exclusive.
        after: u64,
        /// Maximum count.
        most: usize,
    },
    /// [`Chain::edge`].
    Edge,
    /// [`Chain::raise_edge`].
    RaiseEdge(Edge),
    /// [`Chain::remove`].
    RemoveRecords(Vec<u64>),
    /// [`Chain::beat`].
    Beat(Beat),
    /// [`Chain::beats`].
    Beats,
    /// [`Objects::put`].
    Put(Key, Arc<[u8]>),
    /// [`Objects::put_new`].
    PutNew(Key, Arc<[u8]>),
    /// [`Objects::get`].
    Get {
        /// Key of the object.
        key: Key,
        /// Range of bytes; `None` for the whole object.
        range: Option<Range<u64>>,
        /// Maximum count of bytes.
        most: u64,
    },
    /// [`Objects::list`].
    List {
        /// Prefix of the keys.
        prefix: String,
        /// Lower bound of the keys, exclusive.
        after: Option<Key>,
        /// Maximum count.
        most: usize,
    },
    /// [`Objects::remove`].
    Remove(Vec<Key>),
    /// Resume after this duration.
    Wait(Duration),
}

/// Response to an [`Ask`].
#[derive(Debug, Clone)]
pub enum Answer {
    /// Outcome of a creation.
    Tried(Tried),
    /// Bytes of a record or an object; `None` if it does not exist.
    Bytes(Result<Option<Vec<u8>>, Away>),
    /// Record numbers.
    Numbers(Result<Vec<u64>, Away>),
    /// The low watermark.
    Edge(Result<Edge, Away>),
    /// Heartbeats.
    Beats(Result<Vec<Beat>, Away>),
    /// Listed objects.
    Listed(Result<Vec<About>, Away>),
    /// Outcome of a request that returns no value.
    Done(Result<(), Away>),
    /// The wait has ended.
    Waited,
}

impl Answer {
    /// Error message; `None` if the request succeeded.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        let away = match self {
            Self::Tried(Tried::Made) | Self::Waited => return None,
            Self::Tried(Tried::Unsure(why) | Tried::Refused(why)) => return Some(why),
            Self::Bytes(bytes) => bytes.as_ref().err(),
            Self::Numbers(numbers) => numbers.as_ref().err(),
            Self::Edge(edge) => edge.as_ref().err(),
            Self::Beats(beats) => beats.as_ref().err(),
            Self::Listed(listed) => listed.as_ref().err(),
            Self::Done(done) => done.as_ref().err(),
        };
        away.map(|away| away.why.as_str())
    }
}

impl Ask {
    /// Performs the request. A wait returns at once.
    #[must_use]
    pub fn perform(&self, tenant: &Tenant, chain: &dyn Chain, objects: &dyn Objects) -> Answer {
        match self {
            Self::Create { number, bytes } => Answer::Tried(chain.create(tenant, *number, bytes)),
            Self::Read(number) => Answer::Bytes(chain.read(tenant, *number)),
            Self::Numbers { after, most } => Answer::Numbers(chain.numbers(tenant, *after, *most)),
            Self::Edge => Answer::Edge(chain.edge(tenant)),
            Self::RaiseEdge(edge) => Answer::Tried(chain.raise_edge(tenant, edge)),
            Self::RemoveRecords(numbers) => Answer::Done(chain.remove(tenant, numbers)),
            Self::Beat(beat) => Answer::Done(chain.beat(beat)),
            Self::Beats => Answer::Beats(chain.beats()),
            Self::Put(key, bytes) => Answer::Done(objects.put(key, bytes)),
            Self::PutNew(key, bytes) => Answer::Tried(objects.put_new(key, bytes)),
            Self::Get { key, range, most } => Answer::Bytes(objects.get(key, range.clone(), *most)),
            Self::List { prefix, after, most } => {
                Answer::Listed(objects.list(prefix, after.as_ref(), *most))
            }
            Self::Remove(keys) => Answer::Done(objects.remove(keys)),
            Self::Wait(_) => Answer::Waited,
        }
    }

    /// Response for a request whose outcome is unknown.
    #[must_use]
    pub fn unanswered(&self, why: &str) -> Answer {
        let away = || Away { why: why.into(), may_pass: true };
        match self {
            Self::Create { .. } | Self::RaiseEdge(_) | Self::PutNew(..) => {
                Answer::Tried(Tried::Unsure(why.into()))
            }
            Self::Read(_) | Self::Get { .. } => Answer::Bytes(Err(away())),
            Self::Numbers { .. } => Answer::Numbers(Err(away())),
            Self::Edge => Answer::Edge(Err(away())),
            Self::Beats => Answer::Beats(Err(away())),
            Self::List { .. } => Answer::Listed(Err(away())),
            Self::RemoveRecords(_) | Self::Beat(_) | Self::Put(..) | Self::Remove(_) => {
                Answer::Done(Err(away()))
            }
            Self::Wait(_) => Answer::Waited,
        }
    }
}
