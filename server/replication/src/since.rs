//! Whether a chain went on after its workspace was deleted (`format-spec/remote.md`, Emptying): then it is alive where
//! nobody knows of that. And whether the storage's clock says as well that it is old.
//!
//! Owns what is a sign of life. Must not know who deleted it, nor what is to become of it.

use std::time::Duration;

use crate::driver::Driver;
use crate::emptied::says_so;
use crate::history::{NotRestored, readable_numbers, record_at};
use crate::limits::DELETED_SLACK;
use crate::names::{NodeId, Tenant};
use crate::record::{Kind, Record};

/// What says that a workspace is alive that was deleted at a time, microseconds since 1970; `None` where nothing in its
/// chain up to record `newest` does (REM-74). `own` is who asks.
pub(crate) fn went_on(
    driver: &Driver,
    tenant: &Tenant,
    (newest, deleted_at): (u64, i64),
    own: &NodeId,
) -> Result<Option<String>, NotRestored> {
    let slack = i64::try_from(DELETED_SLACK.as_micros()).unwrap_or(i64::MAX);
    let until = deleted_at.saturating_add(slack);
    let numbers = readable_numbers(driver, tenant)?;
    let mut newer: Option<Record> = None;
    for number in numbers.into_iter().rev().filter(|&number| number <= newest) {
        let record = record_at(driver, tenant, number)?;
        if let Some(did) = newer.as_ref().and_then(|newer| did(newer, &record, own)) {
            return Ok(Some(did));
        }
        match &record.kind {
            _ if record.head.at <= until => return Ok(None),
            // What came before that was to go.
            Kind::Full(full) if says_so(full, number) => return Ok(None),
            Kind::Take if is_of_another(&record, own) => {
                return Ok(Some(told(&record, "took it")));
            }
            _ => newer = Some(record),
        }
    }
    // From before it was deleted there is nothing.
    Ok(newer.filter(|first| first.head.number > 1).map(|first| told(&first, "had it")))
}

/// Why nothing is emptied yet whose newest record up to `newest`, but for those of nodes that only collect, must be so
/// old: the storage says that it is younger. `None` where it does not say how old one is (REM-73).
pub(crate) fn is_young(
    driver: &Driver,
    tenant: &Tenant,
    (newest, kept): (u64, Duration),
) -> Result<Option<String>, NotRestored> {
    let numbers = readable_numbers(driver, tenant)?;
    for number in numbers.into_iter().rev().filter(|&number| number <= newest) {
        if record_at(driver, tenant, number)?.head.node.only_collects() {
            continue;
        }
        let age = driver.chain.age(tenant, number)?;
        let young = age.filter(|age| age.saturating_add(DELETED_SLACK) < kept);
        return Ok(young.map(|age| {
            let (age, kept) = (age.as_secs(), kept.as_secs());
            format!(
                "by the storage's clock its newest record, {number}, is {age} seconds old, and it can be restored for \
                 {kept} (remote.keep_hours): the clock of this node, or of the one that deleted it, may be wrong"
            )
        }));
    }
    Ok(None)
}

/// What was done between a record and the next one that can be read, if somebody lives by that. What came in between
/// may be gone, a take as well.
fn did(newer: &Record, record: &Record, own: &NodeId) -> Option<String> {
    if newer.head.seq > record.head.seq {
        return Some(told(newer, "wrote it"));
    }
    let took = newer.head.epoch > record.head.epoch && is_of_another(newer, own);
    took.then(|| told(newer, "took it"))
}

fn is_of_another(record: &Record, own: &NodeId) -> bool {
    record.head.node != *own && !record.head.node.only_collects()
}

fn told(record: &Record, did: &str) -> String {
    let (node, number) = (&record.head.node, record.head.number);
    format!(
        "node {node} {did} after it was deleted (record {number}), so it may be alive there; if it is not, \
         run `recalld tenant delete --again` for it, and it goes after the same time as before"
    )
}
