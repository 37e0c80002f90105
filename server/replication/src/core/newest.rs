//! Finds the newest record, and the records that lead to it from a full record or from the reader's position.
//!
//! Records may be removed while they are read, and a writer that was suspended for long may create its own record in
//! such a gap. So the watermark is read once more at the end. Records above that watermark were never removed, and the
//! hashes from the newest record back to the first record prove that none was replaced (REM-31).

use serde::{Deserialize, Serialize};

use super::port::Port;
use crate::fault::Damage;
use crate::hex::Hash;
use crate::limits::{FIND_TRIES_MAX, NUMBERS_AT_ONCE, WALK_BYTES_MAX, WALK_STEPS_MAX};
use crate::names::NodeId;
use crate::objects::Away;
use crate::record::{Head, Kind, Record};
use crate::ticks::Ticks;

/// Record position: a verified record to which the next record must fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Header of the record.
    pub head: Head,
    /// Hash by which the next record references this record.
    pub hash: Hash,
    /// Release of the epoch, if this record ended it.
    pub given: Option<Given>,
    /// Steps since the newest full record.
    pub behind: Behind,
}

/// Release of an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Node in favour of which the epoch was released; `None` for any node.
    pub to: Option<NodeId>,
}

/// Steps since a full record.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// Number of steps.
    pub steps: usize,
    /// Bytes of the step records.
    pub bytes: usize,
}

/// Head of a record log: the newest record and the records that lead to it.
#[derive(Debug, Clone)]
pub struct Found {
    /// Position of the newest record.
    pub newest: Mark,
    /// A time at which `newest` was the newest record.
    pub as_of: Ticks,
    /// Step records and full records up to the newest record, ascending. The first is a full record, or record 1, or
    /// follows the reader's position.
    pub records: Vec<Record>,
}

/// Error of the search for the newest record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The storage did not respond, or the log advanced faster than it was read.
    Away(Away),
    /// The log is invalid.
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
    /// Makes the position of a record with this hash and length in bytes, which follows `before`.
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
    /// Counts one more record of this length, if the record is a step.
    fn and(self, record: &Record, bytes: usize) -> Self {
        match record.kind {
            Kind::Take | Kind::Give { .. } | Kind::Full(_) => self,
            Kind::Step(_) => Self { steps: self.steps + 1, bytes: self.bytes + bytes },
        }
    }
}

/// Finds the newest record; `None` if the log has none. `mine` is the position of the reader.
///
/// # Errors
/// The storage did not respond, or the log is invalid.
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

/// Reads record `number` and the records that lead to it from its base, ascending: the store as of that record. Returns
/// `None` if one of these records is gone. A reader of any record but the newest must pin it first.
///
/// # Errors
/// The storage did not respond, or the log is invalid.
pub async fn reach(port: &Port, number: u64) -> Result<Option<(Mark, Vec<Record>)>, Lost> {
    walk(port, None, &mut { number }).await
}

/// Highest record number above `after`, and a time before the request that returned it.
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

/// Reads from record `lowest`, the newest, back to its base or to `mine`. On return, `lowest` is the lowest number that
/// was read. Returns `None` if a record was removed meanwhile.
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

/// Retains a step or a full record. Acquire and release records have no content, so there may be any number of them.
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

/// Checks that a reader may advance from `mine` to `newest` without the records in between.
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
