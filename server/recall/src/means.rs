use std::sync::Arc;

use engine::{CorruptionError, RowAddress, VisibilityMask};
use kernels::Kernels;

use super::access::AccessView;
use super::meaning::Meaning;
use super::recalled::Withheld;
use super::route::Plan;
use recalld_common::cancel::CallScope;
use recalld_embedding::embed::Embedder;
use recalld_policy::Action;

/// Dependencies of one recall.
pub struct Means<'a> {
    /// Snapshot of the store as the caller may see it. Its stop signal cancels the recall.
    pub snapshot: &'a AccessView<'a>,
    /// Visibility mask of the snapshot; `None` if nothing is hidden.
    pub hidden: Option<Arc<VisibilityMask>>,
    /// Encoder of the snapshot's model.
    pub embedder: &'a Embedder,
    /// Kernels for vector arithmetic.
    pub kernels: &'a Kernels,
    /// Shared state of the store's vector retrievers.
    pub meaning: &'a Meaning,
    /// Cancellation token and deadline of the call.
    pub call: CallScope<'a>,
}

impl Means<'_> {
    /// Returns true if the item's content may influence the answer, since the caller may read it.
    pub(super) fn reads(&self, place: RowAddress) -> bool {
        self.hidden.as_ref().is_none_or(|hidden| !self.snapshot.is_masked(hidden, place))
    }

    /// Returns true if the plan matches the item's content: readable items, or for a plan over hidden items the masked
    /// ones.
    pub(super) fn goes_by(&self, plan: &Plan, place: RowAddress) -> bool {
        self.reads(place) != plan.filter.only_masked
    }

    /// Builds the record of an item that the answer does not show.
    pub(super) fn withheld(&self, place: RowAddress) -> Result<Withheld, CorruptionError> {
        let item = self.snapshot.item(place)?;
        let (verdict, rule) = self.snapshot.judge(&item, Action::Read);
        let is_told = self.snapshot.is_told(&rule);
        Ok(Withheld { place, verdict, rule, is_shown: false, is_told })
    }
}
