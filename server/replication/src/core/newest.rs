//! Finding the newest record, and the way to it from a full one or from where the reader is.
//!
//! What is read in between may go while it is read, and a writer that was stopped for long may put its own
//! record where one went. So the edge is read once more at the end: what is above it then was never removed,
//! and what the newest record names by its hash, back to the first of them, is what was there (REM-31).

use serde::{Deserialize, Serialize};

use super::port::Port;
use crate::fault::Damage;
use crate::hex::Hash;
use crate::limits::{FIND_TRIES_MAX, NUMBERS_AT_ONCE, WALK_BYTES_MAX, WALK_STEPS_MAX};
use crate::names::NodeId;
use crate::objects::Away;
use crate::record::{Head, Kind, Record};
use crate::ticks::Ticks;

/// A record that is known: what the next one must fit to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Its head.
    pub head: Head,
    /// The hash by which the next one names it.
    pub hash: Hash,
    /// Whether its epoch ended with it, and who shall take the workspace next.
    pub given: Option<Given>,
    /// What came since the newest full record.
    pub behind: Behind,
}

/// That an epoch was given away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// To whom, if to one alone.
    pub to: Option<NodeId>,
}

/// Steps behind a full record.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// How many.
    pub steps: usize,
    /// Bytes of their records.
    pub bytes: usize,
}

/// The newest record and those that lead to it.
#[derive(Debug, Clone)]
pub struct Found {
    /// The newest.
    pub newest: Mark,
    /// A moment at which it was the newest.
    pub as_of: Ticks,
    /// Those that bring something, up to the newest, ascending. The first is a full one, or the first of all,
    /// or follows where the reader was.
    pub records: Vec<Record>,
}

/// Why the newest record was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The storage did not answer, or the chain went on faster than it was read.
    Away(Away),
    /// The chain is not what it must be.
    Damage(Damage),
}

impl From<Away> for Lost {
    fn from(away: Away) -> Self {
        Self::Away(away)
    }
}

impl From<Damage> for Lost {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

impl Mark {
    /// What is known of a record of so many bytes with this hash, which comes behind `before`.
    #[must_use]
    pub fn new(record: &Record, hash: Hash, bytes: usize, before: Option<&Self>) -> Self {
        let given = match &record.kind {
            Kind::Give { to } => Some(Given { to: to.clone() }),
            _ => None,
        };
        let is_full = matches!(record.kind, Kind::Full(_));
        let behind = before.filter(|_| !is_full).map_or(Behind::default(), |before| before.behind);
        Self { head: record.head.clone(), hash, given, behind: behind.and(record, bytes) }
    }
}

impl Behind {
    /// With one more record of so many bytes.
    fn and(self, record: &Record, bytes: usize) -> Self {
        match record.kind {
            Kind::Take | Kind::Give { .. } | Kind::Full(_) => self,
            Kind::Step(_) => Self { steps: self.steps + 1, bytes: self.bytes + bytes },
        }
    }
}

/// Finds the newest record, `None` where the chain has none. `mine` is the record at which the reader is.
///
/// # Errors
/// No answer, or damage.
pub async fn find(port: &Port, mine: Option<&Mark>) -> Result<Option<Found>, Lost> {
    for _ in 0..FIND_TRIES_MAX {
        let edge = port.edge().await?;
        let after = mine.map_or(0, |mark| mark.head.number - 1).max(edge.boundary);
        let Some((newest, as_of)) = newest_number(port, after).await? else {
            if after == 0 {
                return Ok(None);
            }
            let why = format!("record {} was there, and none is behind it", after + 1);
            return Err(Damage::new("REM-04", why).into());
        };
        let mut lowest = newest;
        let walked = match walk(port, mine, &mut lowest).await {
            Err(Lost::Away(away)) => return Err(away.into()),
            walked => walked,
        };
        if lowest <= port.edge().await?.boundary {
            continue;
        }
        if let Some((newest, records)) = walked? {
            return Ok(Some(Found { newest, as_of, records }));
        }
    }
    let why = "the chain went on faster than it could be read".into();
    Err(Away { why, may_pass: true }.into())
}

/// Record `number` and those that lead to it from its base, ascending: the store as it was. `None` where one
/// of them is gone. Whoever wants what is not the newest pins it first.
///
/// # Errors
/// No answer, or damage.
pub async fn reach(port: &Port, number: u64) -> Result<Option<(Mark, Vec<Record>)>, Lost> {
    walk(port, None, &mut { number }).await
}

/// The highest number above `after`, and a moment before it was looked for.
pub(super) async fn newest_number(
    port: &Port,
    mut after: u64,
) -> Result<Option<(u64, Ticks)>, Away> {
    let mut newest = None;
    loop {
        let as_of = port.now();
        let numbers = port.numbers(after, NUMBERS_AT_ONCE).await?;
        if let Some(&last) = numbers.last() {
            (newest, after) = (Some((last, as_of)), last);
        }
        if numbers.len() < NUMBERS_AT_ONCE {
            return Ok(newest);
        }
    }
}

/// Reads from record `lowest`, the newest, back to its base or to `mine`; `lowest` is then the lowest that
/// was looked at. `None` where one went meanwhile.
async fn walk(
    port: &Port,
    mine: Option<&Mark>,
    lowest: &mut u64,
) -> Result<Option<(Mark, Vec<Record>)>, Lost> {
    let Some((last, hash, bytes)) = read(port, *lowest).await? else { return Ok(None) };
    let mut newest = Mark::new(&last, hash, bytes, None);
    if let Some(mine) = mine {
        check_onward(mine, &newest)?;
        if newest.head.number == mine.head.number {
            return Ok(Some((mine.clone(), Vec::new())));
        }
    }
    let mine = mine.filter(|mine| mine.head.number >= newest.head.base);
    let first = mine.map_or(newest.head.base.max(1), |mine| mine.head.number + 1);
    let mut held = Vec::new();
    let mut next = last;
    while *lowest > first {
        let Some((record, hash, bytes)) = read(port, *lowest - 1).await? else { return Ok(None) };
        *lowest -= 1;
        next.check_after(&record.head, hash)?;
        newest.behind = newest.behind.and(&record, bytes);
        hold(&mut held, std::mem::replace(&mut next, record), newest.behind)?;
    }
    if let Some(mine) = mine {
        next.check_after(&mine.head, mine.hash)?;
        newest.behind.steps += mine.behind.steps;
        newest.behind.bytes += mine.behind.bytes;
    }
    hold(&mut held, next, newest.behind)?;
    held.reverse();
    Ok(Some((newest, held)))
}

/// Keeps a record that brings something. Takes and gives bring nothing, so there may be any number of them.
fn hold(held: &mut Vec<Record>, record: Record, behind: Behind) -> Result<(), Damage> {
    if behind.steps > WALK_STEPS_MAX || behind.bytes > WALK_BYTES_MAX {
        let Behind { steps, bytes } = behind;
        let why = format!(
            "{steps} steps of {bytes} bytes since a full record; {WALK_STEPS_MAX} of {WALK_BYTES_MAX} are allowed"
        );
        return Err(Damage::new("REM-08", why));
    }
    if matches!(record.kind, Kind::Step(_) | Kind::Full(_)) {
        held.push(record);
    }
    Ok(())
}

/// Whether a reader may come from `mine` to `newest` without what lies between.
fn check_onward(mine: &Mark, newest: &Mark) -> Result<(), Damage> {
    let (from, to) = (&mine.head, &newest.head);
    let faults = [
        (to.store != from.store, "it is another store's"),
        (to.number < from.number, "the chain went back"),
        (to.number == from.number && newest.hash != mine.hash, "it is not what it was"),
        (to.epoch < from.epoch, "the epoch fell"),
    ];
    match faults.into_iter().find(|(is_fault, _)| *is_fault) {
        None => Ok(()),
        Some((_, why)) => Err(Damage::new("REM-04", format!("record {}: {why}", to.number))),
    }
}

/// Record `number`, its hash and the length of its bytes.
pub(super) async fn read(port: &Port, number: u64) -> Result<Option<(Record, Hash, usize)>, Lost> {
    let found = read_whole(port, number).await?;
    Ok(found.map(|(record, hash, bytes)| (record, hash, bytes.len())))
}

/// Record `number`, its hash and its bytes.
pub(super) async fn read_whole(
    port: &Port,
    number: u64,
) -> Result<Option<(Record, Hash, Vec<u8>)>, Lost> {
    let Some(bytes) = port.read(number).await? else { return Ok(None) };
    let (record, hash) = Record::decode(&bytes)?;
    if record.head.number != number || record.head.tenant != *port.tenant() {
        let why = format!("record {number}: it is another one, or another workspace's");
        return Err(Damage::new("REM-04", why).into());
    }
    Ok(Some((record, hash, bytes)))
}
