//! Point-in-time restore of a workspace into a directory, and the list of workspaces on a remote.

use std::fmt;
use std::sync::Arc;

use engine::os::clock::Random;
use engine::os::disk::Disk;

use crate::core::{Lost, Mark, Pin, Pinned, Port, pin, reach};
use crate::driver::Driver;
use crate::edge::Edge;
use crate::emptied::emptied_by;
use crate::fault::Damage;
use crate::follow::{LocalCopy, NotApplied};
use crate::hex::Nonce;
use crate::limits::{NUMBERS_AT_ONCE, PIN_SECONDS_MAX, RESTORE_TRIES_MAX, TENANTS_MAX};
use crate::names::{Key, NodeId, Tenant};
use crate::objects::{Away, Objects};
use crate::parts::Shelf;
use crate::record::{Head, Record};

/// Error of a restore.
#[derive(Debug)]
pub enum NotRestored {
    /// The remote has no such workspace.
    Missing,
    /// The workspace was purged.
    Emptied,
    /// No retained record is that old; the oldest one is of this time, in microseconds since 1970.
    TooOld(i64),
    /// The storage did not respond.
    Away(String),
    /// The content of the storage is damaged.
    Damage(Damage),
    /// The files could not be fetched or written.
    Files(NotApplied),
    /// The restore was cancelled.
    Over,
}

impl fmt::Display for NotRestored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the remote has no such workspace"),
            Self::Emptied => f.write_str("it was deleted, and can be restored no more"),
            Self::TooOld(_) => f.write_str("nothing as old as that is kept"),
            Self::Away(why) => f.write_str(why),
            Self::Damage(damage) => damage.fmt(f),
            Self::Files(why) => why.fmt(f),
            Self::Over => f.write_str("it was called off"),
        }
    }
}

impl std::error::Error for NotRestored {}

impl From<Lost> for NotRestored {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Away(away) => away.into(),
            Lost::Damage(damage) => Self::Damage(damage),
        }
    }
}

impl From<Away> for NotRestored {
    fn from(away: Away) -> Self {
        Self::Away(away.why)
    }
}

/// Restores a workspace into an empty directory, as of a time (microseconds since 1970) or as of now. Returns the
/// restored record. A pin protects the record from garbage collection meanwhile.
///
/// # Errors
/// No record is that old, the storage did not respond, or its content is damaged; the written files are of no use then.
pub fn restore(
    driver: &Driver,
    tenant: &Tenant,
    node: &NodeId,
    as_of: Option<i64>,
    (disk, random): (&Arc<dyn Disk>, &dyn Random),
) -> Result<Mark, NotRestored> {
    for _ in 0..RESTORE_TRIES_MAX {
        let number = number_as_of(driver, tenant, as_of)?;
        let nonce = Nonce::drawn(random);
        let wanted = Pin { number, seconds: PIN_SECONDS_MAX };
        let pinned =
            run(driver, tenant, async |port| pin(&port, node.clone(), nonce, &wanted).await)?;
        let key = match pinned {
            Pinned::Held(key) => key,
            // The record was removed before the pin: choose among the records retained now.
            Pinned::Late => continue,
            Pinned::Away(away) => return Err(away.into()),
        };
        let restored = pinned_restore(driver, tenant, number, disk);
        // If the removal fails, the pin expires.
        let _removed = driver.objects.remove(&[key]);
        return restored;
    }
    Err(NotRestored::Away("what is kept changed faster than it could be read".into()))
}

fn pinned_restore(
    driver: &Driver,
    tenant: &Tenant,
    number: u64,
    disk: &Arc<dyn Disk>,
) -> Result<Mark, NotRestored> {
    let reached = run(driver, tenant, async |port| reach(&port, number).await)??;
    let Some((mark, records)) = reached else {
        let why = format!("record {number}, or one that leads to it, is gone");
        return Err(NotRestored::Damage(Damage::new("REM-04", why)));
    };
    if emptied_by(&records).is_some() {
        return Err(NotRestored::Emptied);
    }
    let mut copy = LocalCopy::over(Arc::clone(disk));
    let shelf = Shelf { objects: &*driver.objects, tenant };
    copy.apply(shelf, &records, &|| !driver.halt.is_raised()).map_err(NotRestored::Files)?;
    copy.clear().and_then(|()| copy.sync()).map_err(|error| NotRestored::Files(error.into()))?;
    if copy.is_store() { Ok(mark) } else { Err(NotRestored::Missing) }
}

/// Newest retained record of that time or before.
fn number_as_of(driver: &Driver, tenant: &Tenant, as_of: Option<i64>) -> Result<u64, NotRestored> {
    let numbers = readable_numbers(driver, tenant)?;
    let Some(&newest) = numbers.last() else { return Err(NotRestored::Missing) };
    let Some(as_of) = as_of else { return Ok(newest) };
    // Times of records never decrease along the log.
    let (mut low, mut high) = (0, numbers.len());
    let mut found = None;
    while low < high {
        let middle = low.midpoint(high);
        let head = head_of(driver, tenant, numbers[middle])?;
        if head.at <= as_of {
            low = middle + 1;
            found = Some(head);
        } else {
            high = middle;
        }
    }
    match found {
        // Before the first full record there is nothing to restore.
        Some(head) if head.base > 0 => Ok(head.number),
        _ => {
            let first = numbers.get(low).copied().unwrap_or(newest);
            Err(NotRestored::TooOld(head_of(driver, tenant, first)?.at))
        }
    }
}

/// Numbers of all readable records: those that the low watermark retains, and those above it.
pub(crate) fn readable_numbers(driver: &Driver, tenant: &Tenant) -> Result<Vec<u64>, Away> {
    let edge = driver.chain.edge(tenant)?;
    let mut numbers: Vec<u64> = edge.kept.iter().map(|kept| kept.number).collect();
    numbers.append(&mut numbers_above(driver, tenant, &edge)?);
    Ok(numbers)
}

/// All record numbers above a low watermark.
pub(crate) fn numbers_above(
    driver: &Driver,
    tenant: &Tenant,
    edge: &Edge,
) -> Result<Vec<u64>, Away> {
    let mut numbers = Vec::new();
    let mut after = edge.boundary;
    loop {
        let mut more = driver.chain.numbers(tenant, after, NUMBERS_AT_ONCE)?;
        let is_last = more.len() < NUMBERS_AT_ONCE;
        after = more.last().copied().unwrap_or(after);
        numbers.append(&mut more);
        if is_last {
            return Ok(numbers);
        }
    }
}

fn head_of(driver: &Driver, tenant: &Tenant, number: u64) -> Result<Head, NotRestored> {
    record_at(driver, tenant, number).map(|record| record.head)
}

/// Reads a listed record.
pub(crate) fn record_at(
    driver: &Driver,
    tenant: &Tenant,
    number: u64,
) -> Result<Record, NotRestored> {
    let bytes = driver.chain.read(tenant, number)?;
    let gone = || NotRestored::Away(format!("record {number} went while it was read"));
    let (record, _) = Record::decode(&bytes.ok_or_else(gone)?).map_err(NotRestored::Damage)?;
    Ok(record)
}

/// Runs a protocol task to its end.
pub(crate) fn run<'a, T, F>(
    driver: &Driver,
    tenant: &Tenant,
    body: impl FnOnce(std::rc::Rc<Port>) -> F,
) -> Result<T, NotRestored>
where
    F: Future<Output = T> + 'a,
{
    driver.run(tenant, body).ok_or(NotRestored::Over)
}

/// Workspaces that have objects on the storage, ascending, at most [`TENANTS_MAX`].
///
/// # Errors
/// The storage did not respond.
pub fn tenants(objects: &dyn Objects) -> Result<Vec<Tenant>, Away> {
    let mut found: Vec<Tenant> = Vec::new();
    let mut after = None;
    while found.len() < TENANTS_MAX {
        let listed = objects.list("t/", after.as_ref(), 1)?;
        let Some(tenant) = listed.first().and_then(|about| about.key.tenant()) else { break };
        // Pins sort last among a workspace's objects, and no pin sorts after this one.
        let last = NodeId::new("z".repeat(crate::limits::NODE_BYTES_MAX)).expect("it is a name");
        after = Some(Key::Pin(tenant.clone(), last, Nonce::MOST));
        found.push(tenant.clone());
    }
    Ok(found)
}
