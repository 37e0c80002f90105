//! Family `verify`: checks of stored items, claims, receipts and the ledger.

mod claims;
pub(super) mod entries;
mod events;
mod explain;
mod reconcile;
mod scan;
mod staleness;
mod trail;

use recalld_tool_framework::Family;

limit_table::limits! {
    pub(crate) const LIMITS = [claims, entries, reconcile, staleness];
}

pub(super) static FAMILY: Family = Family {
    name: "verify",
    about: "Check what is remembered, and what was done.",
    tools: &[
        claims::ROW,
        staleness::ROW,
        reconcile::ROW,
        scan::ROW,
        trail::ROW,
        events::ROW,
        explain::ROW,
    ],
};
