//! Revival check of a deleted workspace (`format-spec/remote.md`, Purge). If the record log went on after the
//! deletion, the workspace may be alive on a node that does not know of the deletion. A second check asks the storage's
//! clock.

use std::time::Duration;

use crate::driver::Driver;
use crate::emptied::says_so;
use crate::history::{NotRestored, readable_numbers, record_at};
use crate::limits::DELETED_SLACK;
use crate::names::{NodeId, Tenant};
use crate::record::{Kind, Record};

/// Returns the sign that a workspace is alive after its deletion (`deleted_at`, microseconds since 1970). `None` if no
/// record up to `newest` shows one (REM-74). `own` is the asking node.
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
            // The history before a purge record was to be removed.
            Kind::Full(full) if says_so(full, number) => return Ok(None),
            Kind::Take if is_of_another(&record, own) => {
                return Ok(Some(told(&record, "took it")));
            }
            _ => newer = Some(record),
        }
    }
    // No record is left from before the deletion.
    Ok(newer.filter(|first| first.head.number > 1).map(|first| told(&first, "had it")))
}

/// Returns the reason why the newest record up to `newest` is too young for a purge, by the storage's clock. Records of
/// nodes that only collect garbage do not count. `None` if the record is old enough or the storage reports no age
/// (REM-73).
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

/// Sign of life between a record and the next readable one. Records between them may have been removed, even an
/// acquisition record.
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
