//! What a machine asks of the storage, and what it may be told: the calls of [`Chain`] and [`Objects`] as
//! values, and a wait.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::beat::Beat;
use crate::chain::Chain;
use crate::edge::Edge;
use crate::names::{Key, Tenant};
use crate::objects::{About, Away, Objects, Tried};

/// One call, of the workspace whose machine asks.
#[derive(Debug, Clone)]
pub enum Ask {
    /// [`Chain::create`].
    Create {
        /// The number.
        number: u64,
        /// The record.
        bytes: Arc<[u8]>,
    },
    /// [`Chain::read`].
    Read(u64),
    /// [`Chain::numbers`].
    Numbers {
        /// Those above this one.
        after: u64,
        /// So many of them.
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
        /// Which object.
        key: Key,
        /// Which of its bytes.
        range: Option<Range<u64>>,
        /// How many at most.
        most: u64,
    },
    /// [`Objects::list`].
    List {
        /// What their keys begin with.
        prefix: String,
        /// Those after this one.
        after: Option<Key>,
        /// So many of them.
        most: usize,
    },
    /// [`Objects::remove`].
    Remove(Vec<Key>),
    /// To be asked again after so long.
    Wait(Duration),
}

/// What came of an [`Ask`].
#[derive(Debug, Clone)]
pub enum Answer {
    /// Of a creation.
    Tried(Tried),
    /// Of a record or an object.
    Bytes(Result<Option<Vec<u8>>, Away>),
    /// Of numbers.
    Numbers(Result<Vec<u64>, Away>),
    /// Of the edge.
    Edge(Result<Edge, Away>),
    /// Of beats.
    Beats(Result<Vec<Beat>, Away>),
    /// Of a list.
    Listed(Result<Vec<About>, Away>),
    /// Of what has no answer but that it was done.
    Done(Result<(), Away>),
    /// The time is over.
    Waited,
}

impl Answer {
    /// What was wrong, where it is none.
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
    /// Does it. A wait is not done here.
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

    /// What it is told where nobody knows what became of it.
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
