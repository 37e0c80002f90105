//! What recall works with.

use engine::{Damage, Place, Snapshot};
use kernels::Kernels;

use super::access::AccessView;
use super::meaning::Meaning;
use super::recalled::Withheld;
use super::route::Plan;
use recalld_common::cancel::CallScope;
use recalld_embedding::embed::Embedder;

/// What recall works with.
pub struct Means<'a> {
    /// The store at one moment. Its stop ends the recall.
    pub snapshot: &'a Snapshot,
    /// The encoder of the snapshot's model.
    pub embedder: &'a Embedder,
    /// Vector arithmetic.
    pub kernels: &'a Kernels,
    /// What the meaning lanes of the store share.
    pub meaning: &'a Meaning,
    /// The items of the snapshot that the caller may see.
    pub access: &'a AccessView<'a>,
    /// How long the recall goes on.
    pub call: CallScope<'a>,
}

impl Means<'_> {
    /// Whether the caller may be told anything by what the item at a place says.
    pub(super) fn reads(&self, place: Place) -> bool {
        self.access.hidden().is_none_or(|hidden| !self.snapshot.is_veiled(hidden, place))
    }

    /// Whether a plan goes by what the item at a place says: that which the caller reads, or else that which
    /// is kept from it.
    pub(super) fn goes_by(&self, plan: &Plan, place: Place) -> bool {
        self.reads(place) != plan.filter.only_hidden
    }

    /// An item that the answer does not show.
    pub(super) fn withheld(&self, place: Place) -> Result<Withheld, Damage> {
        let item = self.snapshot.item(place)?;
        let (verdict, rule) = self.access.judge(&item);
        let is_told = self.access.is_told(&rule);
        Ok(Withheld { place, verdict, rule, is_shown: false, is_told })
    }
}
