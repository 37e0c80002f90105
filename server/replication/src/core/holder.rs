//! The writer of one epoch creates one record after the other, each in one attempt at a time, until it releases the
//! epoch or is fenced.

use std::sync::Arc;

use super::create::{Created, create};
use super::newest::{Behind, Mark};
use super::noted::Noted;
use super::port::Port;
use crate::fault::Damage;
use crate::hex::{Hash, Hex, Nonce};
use crate::limits::{STEP_BYTES_MAX, STEP_BYTES_WANTED, STEPS_MAX, STEPS_WANTED};
use crate::names::NodeId;
use crate::record::{Head, Kind, Record};
use crate::ticks::Ticks;

/// Identity of a writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// Name of the node.
    pub node: NodeId,
    /// Id of the node's process.
    pub run: Nonce,
    /// URL of the node; may be empty.
    pub url: String,
}

impl Writer {
    /// Identity of the same process when it acquires a log only to collect garbage (REM-74). The name is derived from
    /// the run's random id. The URL is empty, since nothing is written there.
    #[must_use]
    pub fn collecting(&self) -> Self {
        let drawn = Hex(self.run.0.first_chunk().copied().unwrap_or_default());
        Self { node: NodeId::of_collecting(&drawn), run: self.run, url: String::new() }
    }
}

/// Fields of a record that the protocol does not decide.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// Time, in microseconds since 1970. The time of a record is at least that of the record before.
    pub at: i64,
    /// Random number that no other record has.
    pub nonce: Nonce,
}

/// Writer of one epoch of a workspace.
#[derive(Debug)]
pub struct Holder {
    writer: Writer,
    newest: Mark,
    /// A time just before `newest` was first sent.
    known: Ticks,
    open: Option<Open>,
    over: Option<Over>,
}

/// A record in flight: sent, with unknown outcome.
#[derive(Debug)]
struct Open {
    bytes: Arc<[u8]>,
    mark: Mark,
    noted: Noted,
    sent: Option<Ticks>,
}

#[derive(Debug, Clone)]
enum Over {
    Given,
    Fenced(Fenced),
}

/// Evidence that another writer has the workspace: this epoch is over for good (REM-34). The record in flight may still
/// be in the log, if its number was already below the watermark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fenced {
    /// Fenced by the writer of the record with this header.
    By(Box<Head>),
    /// Fenced by the process that removed this writer's next number.
    Below(u64),
    /// The record at this writer's next number cannot be read.
    Damage(Damage),
}

/// Outcome of a commit.
#[derive(Debug)]
pub enum Committed {
    /// The record is in the log, and will stay.
    Done(Noted),
    /// The outcome is unknown. Nothing else can be written until [`Holder::settle`] has resolved the record.
    Unsure(String),
    /// The store refuses the record. Nothing of the record is there, and nothing will be.
    Refused(String),
    /// Nothing was sent: the record breaks a rule.
    Wrong(Damage),
    /// Nothing was sent: there are so many steps since the last full record that the next record must be full.
    FullFirst,
    /// Nothing was sent: the epoch was released.
    Given,
    /// Another writer has the workspace.
    Fenced(Fenced),
}

impl Holder {
    /// Makes the writer of the epoch whose newest record is `newest`, as a rule the acquire record. `known` is a time
    /// before this record was sent, or at which it was the newest.
    pub(crate) fn new(writer: Writer, newest: Mark, known: Ticks) -> Self {
        Self { writer, newest, known, open: None, over: None }
    }

    /// Epoch of this writer.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.newest.head.epoch
    }

    /// Position of the newest record.
    #[must_use]
    pub fn newest(&self) -> &Mark {
        &self.newest
    }

    /// A time just before the newest record was sent. Once a release was sent, this time proves nothing about other
    /// writers, since they acquire the workspace at once. So from before the release on, this writer must not serve
    /// reads under its lease.
    #[must_use]
    pub fn known(&self) -> Ticks {
        self.known
    }

    /// Returns true if a record is in flight. [`Holder::settle`] must then be called before anything is written.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns true if a full record is due.
    #[must_use]
    pub fn wants_full(&self) -> bool {
        let Behind { steps, bytes } = self.newest.behind;
        self.newest.head.base == 0 || steps >= STEPS_WANTED || bytes >= STEP_BYTES_WANTED
    }

    /// Steps since the newest full record; opening the workspace reads these steps one by one.
    #[must_use]
    pub fn steps_behind(&self) -> usize {
        self.newest.behind.steps
    }

    /// Adds a record of `kind`, with which `seq` becomes the newest commit in the log.
    pub async fn commit(&mut self, port: &Port, kind: Kind, seq: u64, stamp: Stamp) -> Committed {
        match &self.over {
            Some(Over::Fenced(fenced)) => return Committed::Fenced(fenced.clone()),
            Some(Over::Given) => return Committed::Given,
            None if self.is_open() => return Committed::Unsure("a record is open".into()),
            None => {}
        }
        let Behind { steps, bytes } = self.newest.behind;
        let is_much = steps >= STEPS_MAX || bytes >= STEP_BYTES_MAX;
        if is_much && matches!(kind, Kind::Step(_)) {
            return Committed::FullFirst;
        }
        let head = next_head(&self.newest, &self.writer, &kind, seq, stamp);
        match Open::new(Record { head, kind }, &self.newest) {
            Ok(open) => self.open = Some(open),
            Err(damage) => return Committed::Wrong(damage),
        }
        self.settle(port).await
    }

    /// Resolves the outcome of the record in flight, and sends the record again if it is not there. If this future is
    /// dropped, the record remains in flight.
    pub async fn settle(&mut self, port: &Port) -> Committed {
        let Some(open) = &mut self.open else {
            return Committed::Refused("no record is open".into());
        };
        let is_open = open.sent.is_some();
        let sent = *open.sent.get_or_insert(port.now());
        let number = open.mark.head.number;
        let bytes = Arc::clone(&open.bytes);
        let created = create(port, number, &bytes, self.known, is_open).await;
        let fenced = match created {
            Created::Mine => return self.took(sent),
            Created::Unsure(why) => return Committed::Unsure(why),
            Created::Refused(why) => {
                self.open = None;
                return Committed::Refused(why);
            }
            Created::Below => Fenced::Below(number),
            Created::Taken(bytes) => match Record::decode(&bytes) {
                Ok((record, _)) => Fenced::By(Box::new(record.head)),
                Err(damage) => Fenced::Damage(damage),
            },
        };
        self.open = None;
        self.over = Some(Over::Fenced(fenced.clone()));
        Committed::Fenced(fenced)
    }

    /// Completes the record in flight, which is in the log and was first sent just after `sent`.
    fn took(&mut self, sent: Ticks) -> Committed {
        let Some(Open { mark, noted, .. }) = self.open.take() else {
            return Committed::Refused("no record is open".into());
        };
        self.over = mark.given.is_some().then_some(Over::Given);
        (self.newest, self.known) = (mark, sent);
        Committed::Done(noted)
    }
}

impl Open {
    fn new(record: Record, newest: &Mark) -> Result<Self, Damage> {
        record.check_after(&newest.head, newest.hash)?;
        let (bytes, hash) = record.encode()?;
        let mark = Mark::new(&record, hash, bytes.len(), Some(newest));
        let noted = Noted::of(&record, hash, &bytes);
        Ok(Self { bytes: bytes.into(), mark, noted, sent: None })
    }
}

/// Header of the record after `newest`, in the same epoch.
fn next_head(newest: &Mark, writer: &Writer, kind: &Kind, seq: u64, stamp: Stamp) -> Head {
    let before = &newest.head;
    let number = before.number + 1;
    Head {
        number,
        tenant: before.tenant.clone(),
        store: before.store,
        epoch: before.epoch,
        node: writer.node.clone(),
        run: writer.run,
        url: writer.url.clone(),
        nonce: stamp.nonce,
        at: stamp.at.max(before.at),
        previous: newest.hash,
        base: if matches!(kind, Kind::Full(_)) { number } else { before.base },
        seq,
    }
}

/// Header of the acquire record after `newest`, or of the first record of a log.
pub(super) fn take_head(
    port: &Port,
    newest: Option<&Mark>,
    writer: &Writer,
    store: Nonce,
    stamp: Stamp,
) -> Head {
    let Some(newest) = newest else {
        return Head {
            number: 1,
            tenant: port.tenant().clone(),
            store,
            epoch: 1,
            node: writer.node.clone(),
            run: writer.run,
            url: writer.url.clone(),
            nonce: stamp.nonce,
            at: stamp.at.max(0),
            previous: Hash::NONE,
            base: 0,
            seq: 0,
        };
    };
    let next = next_head(newest, writer, &Kind::Take, newest.head.seq, stamp);
    Head { epoch: newest.head.epoch + 1, ..next }
}
