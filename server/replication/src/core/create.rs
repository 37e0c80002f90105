//! Put-if-absent, the only primitive of the protocol: the creator learns for certain if the creation was its own
//! (`format-spec/remote.md`, Creating a record).
//!
//! An unsure response of the storage is never taken as a failure. After a timeout or an error the bytes may still be
//! there, and a repetition in a lower layer may have met its own first attempt. The bytes that are read back decide.

use std::sync::Arc;
use std::time::Duration;

use super::port::Port;
use crate::limits::{CREATE_WAIT_MAX, FRESH_MAX, PAUSE_MAX, PAUSE_MIN};
use crate::names::Key;
use crate::objects::{Away, Tried};
use crate::ticks::Ticks;

/// Target of a creation.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Record(u64),
    Object(Key),
}

/// Outcome of a creation.
#[derive(Debug)]
pub(super) enum Created {
    /// The creator's own bytes are there.
    Mine,
    /// These other bytes are there. The creator's own bytes never will be.
    Taken(Vec<u8>),
    /// The number is at or below the watermark: the workspace went on without this writer.
    Below,
    /// The store refuses the bytes. Nothing of them is there, and nothing will be.
    Refused(String),
    /// The time limit has passed. The bytes are there, will be there later, or will never be there.
    Unsure(String),
}

/// Backoff: longer and longer pauses, up to a time limit.
#[derive(Debug)]
pub(super) struct Patience {
    pause: Duration,
    until: Ticks,
}

impl Patience {
    pub(super) fn of(port: &Port, length: Duration) -> Self {
        Self { pause: PAUSE_MIN, until: port.now() + length }
    }

    /// Waits for the next pause. Returns false if the time limit has passed.
    pub(super) async fn lasts(&mut self, port: &Port) -> bool {
        if port.now() >= self.until {
            return false;
        }
        port.wait(self.pause).await;
        self.pause = PAUSE_MAX.min(self.pause * 2);
        true
    }
}

/// Creates record `number`. `known` is a time at which the record before was the newest. `is_open` states that these
/// bytes were sent before, with unknown outcome.
pub(super) async fn create(
    port: &Port,
    number: u64,
    bytes: &Arc<[u8]>,
    known: Ticks,
    is_open: bool,
) -> Created {
    let created = attempt(port, &Place::Record(number), bytes, is_open).await;
    let is_fresh = port.guards_edge() || port.now() - known <= FRESH_MAX;
    if !matches!(created, Created::Mine) || is_fresh {
        return created;
    }
    // The watermark is read after the response, so that a suspension anywhere before is noticed. Meanwhile another
    // writer may have created this number, continued, and removed it (REM-31).
    let mut patience = Patience::of(port, CREATE_WAIT_MAX);
    loop {
        let why = match port.edge().await {
            Ok(edge) if number <= edge.boundary => return Created::Below,
            Ok(_) => return Created::Mine,
            Err(away) => away.why,
        };
        if !patience.lasts(port).await {
            return Created::Unsure(why);
        }
    }
}

/// Creates the target, and reads it until the creator of its bytes is known.
pub(super) async fn attempt(
    port: &Port,
    place: &Place,
    bytes: &Arc<[u8]>,
    mut is_open: bool,
) -> Created {
    let mut patience = Patience::of(port, CREATE_WAIT_MAX);
    loop {
        let mut why = match place.create(port, Arc::clone(bytes)).await {
            Tried::Made => return Created::Mine,
            Tried::Refused(why) if !is_open => return Created::Refused(why),
            Tried::Refused(why) | Tried::Unsure(why) => why,
        };
        is_open = true;
        loop {
            match place.read(port).await {
                Ok(Some(found)) if found == **bytes => return Created::Mine,
                Ok(Some(found)) => return Created::Taken(found),
                Ok(None) => break,
                Err(away) => why = away.why,
            }
            if !patience.lasts(port).await {
                return Created::Unsure(why);
            }
        }
        if place.is_below(port).await {
            return Created::Below;
        }
        if !patience.lasts(port).await {
            return Created::Unsure(why);
        }
    }
}

impl Place {
    async fn create(&self, port: &Port, bytes: Arc<[u8]>) -> Tried {
        match self {
            Self::Record(number) => port.create(*number, bytes).await,
            Self::Object(key) => port.put_new(key.clone(), bytes).await,
        }
    }

    pub(super) async fn read(&self, port: &Port) -> Result<Option<Vec<u8>>, Away> {
        match self {
            Self::Record(number) => port.read(*number).await,
            Self::Object(key) => port.get(key.clone(), None, u64::MAX).await,
        }
    }

    /// Returns true if the watermark rules the creation out. If the storage enforces the watermark, an attempt at such
    /// a number fails for ever and nothing is there.
    async fn is_below(&self, port: &Port) -> bool {
        match self {
            Self::Record(number) => port.edge().await.is_ok_and(|edge| *number <= edge.boundary),
            Self::Object(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::core::{Answer, Ask, Machine, Step};
    use crate::edge::Edge;
    use crate::names::Tenant;

    #[test]
    fn what_is_refused_after_a_doubt_may_be_there_all_the_same() {
        let bytes: Arc<[u8]> = b"ours".as_slice().into();
        let sent = Arc::clone(&bytes);
        let body = async move |port: Rc<Port>| create(&port, 7, &sent, port.now(), false).await;
        let mut machine = Machine::new(Tenant::new("local").unwrap(), false, body);
        let (mut answer, mut tried) = (None, 0);
        let created = loop {
            let ask = match machine.step(answer, Ticks(1)) {
                Step::Done(created) => break created,
                Step::Ask(ask) => ask,
            };
            answer = Some(match ask {
                Ask::Create { number: 7, .. } => {
                    tried += 1;
                    // The first attempt is still in flight when the second one is refused.
                    Answer::Tried(match tried {
                        1 => Tried::Unsure("500".into()),
                        _ => Tried::Refused("403".into()),
                    })
                }
                Ask::Read(7) => Answer::Bytes(Ok((tried > 1).then(|| bytes.to_vec()))),
                Ask::Edge => Answer::Edge(Ok(Edge::default())),
                Ask::Wait(_) => Answer::Waited,
                other => panic!("it asks {other:?}"),
            });
        };
        assert!(matches!(created, Created::Mine), "{created:?}");
        assert_eq!(tried, 2);
    }
}
