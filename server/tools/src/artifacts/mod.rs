//! Family `artifacts`: ids of things made elsewhere, and comparison of these things with their issued hashes.

mod artifact;
mod issue;
mod list;
mod reconcile;

use recalld_tool_framework::Family;

limit_table::limits! {
    pub(crate) const LIMITS = [issue];
}

pub(super) static FAMILY: Family = Family {
    name: "artifacts",
    about: "Ids for builds, reports, files and other things, and whether they changed.",
    tools: &[issue::ONE, issue::BUNDLE, reconcile::RECONCILE, list::LIST],
};
