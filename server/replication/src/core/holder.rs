//! The writer of one epoch: it makes one record after the other, each in one attempt at a time, until it
//! gives the workspace away or meets whoever has it now.

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

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The node.
    pub node: NodeId,
    /// Its process.
    pub run: Nonce,
    /// Where it answers.
    pub url: String,
}

impl Writer {
    /// The same process, where it takes a chain only to collect it (REM-74): named after what was drawn for its run,
    /// and of no address, since nothing is written there.
    #[must_use]
    pub fn collecting(&self) -> Self {
        let drawn = Hex(self.run.0.first_chunk().copied().unwrap_or_default());
        Self { node: NodeId::of_collecting(&drawn), run: self.run, url: String::new() }
    }
}

/// What a record has that no protocol decides.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// The time, microseconds since 1970. A record's is at least that of the one before.
    pub at: i64,
    /// A number that nobody else has made.
    pub nonce: Nonce,
}

/// Who writes a workspace: one epoch of it.
#[derive(Debug)]
pub struct Holder {
    writer: Writer,
    newest: Mark,
    /// A moment at which `newest` was: just before it was sent first.
    known: Ticks,
    open: Option<Open>,
    over: Option<Over>,
}

/// A record that was sent, and nobody knows yet what became of it.
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

/// The workspace is another's: this epoch is over for good (REM-34). What was being written may stand all
/// the same, if it was below the edge already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fenced {
    /// By the writer of this record.
    By(Box<Head>),
    /// By whoever removed the number that was to be ours.
    Below(u64),
    /// What is at our number cannot be read.
    Damage(Damage),
}

/// What became of a record.
#[derive(Debug)]
pub enum Committed {
    /// It is in the chain, and will stay.
    Done(Noted),
    /// Nobody knows yet. Nothing else can be written until [`Holder::settle`] knows.
    Unsure(String),
    /// Nothing of it is there, nor will be: the store will not have it.
    Refused(String),
    /// Nothing was sent: it breaks a rule.
    Wrong(Damage),
    /// Nothing was sent: so much came since the last full record that the next one must be full.
    FullFirst,
    /// Nothing was sent: the epoch was given away.
    Given,
    /// The workspace is another's.
    Fenced(Fenced),
}

impl Holder {
    /// The holder of the epoch whose newest record this is, its take as a rule; `known` is a moment before it was
    /// sent, or when it was the newest.
    pub(crate) fn new(writer: Writer, newest: Mark, known: Ticks) -> Self {
        Self { writer, newest, known, open: None, over: None }
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.newest.head.epoch
    }

    /// The newest record.
    #[must_use]
    pub fn newest(&self) -> &Mark {
        &self.newest
    }

    /// A moment just before the newest record was sent. It says nothing of what others did once a give was sent: they
    /// take the workspace at once, so whoever gives shows nothing by its lease from before that on.
    #[must_use]
    pub fn known(&self) -> Ticks {
        self.known
    }

    /// Whether a record is open, so that [`Holder::settle`] must be called before anything is written.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether a full record is due.
    #[must_use]
    pub fn wants_full(&self) -> bool {
        let Behind { steps, bytes } = self.newest.behind;
        self.newest.head.base == 0 || steps >= STEPS_WANTED || bytes >= STEP_BYTES_WANTED
    }

    /// Steps behind the newest full record: who opens the workspace reads them one by one.
    #[must_use]
    pub fn steps_behind(&self) -> usize {
        self.newest.behind.steps
    }

    /// Adds a record that brings `kind`, with which `seq` is the newest commit in the chain.
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

    /// Finds out what became of the record that is open, and sends it again where it is not there. It is
    /// open still where this is dropped.
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

    /// The open record is in the chain; it was first sent just after `sent`.
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

/// The head of what comes behind `newest` in its epoch.
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

/// The head of the take behind `newest`, or of the first record of a chain.
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
