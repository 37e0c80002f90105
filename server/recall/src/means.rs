//! What recall works with.

use std::sync::Arc;

use engine::{Damage, Hidden, ItemView, Place, Snapshot};
use kernels::Kernels;

use super::meaning::Meaning;
use super::recalled::Withheld;
use super::route::Plan;
use recalld_embedding::embed::Embedder;
use recalld_policy::{Action, Decision, Rules, What, Who, decide};

/// The scope of those who may know what is kept from them.
const AUDITOR: &str = "audit:read";

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
    /// Who may see what.
    pub rules: &'a Rules,
    /// Who asks.
    pub who: &'a Who<'a>,
    /// What of the snapshot those rules hide from the one who asks; see [`HiddenFrom`].
    pub hidden: Option<Arc<Hidden>>,
}

impl Means<'_> {
    pub(super) fn may_read(&self, item: &ItemView<'_>) -> Decision<'_> {
        let what = What {
            workspace: self.who.workspace,
            kind: item.kind,
            sensitivity: item.sensitivity,
            gates: &item.gates,
        };
        decide(self.rules, self.who, &what, Action::Read)
    }

    /// Whether the caller may be told anything by what the item at a place says.
    pub(super) fn reads(&self, place: Place) -> bool {
        self.hidden.as_ref().is_none_or(|hidden| !self.snapshot.is_veiled(hidden, place))
    }

    /// Whether a plan goes by what the item at a place says: that which the caller reads, or else that which
    /// is kept from it.
    pub(super) fn goes_by(&self, plan: &Plan, place: Place) -> bool {
        self.reads(place) != plan.filter.only_hidden
    }

    /// An item that the answer does not show.
    pub(super) fn withheld(&self, place: Place) -> Result<Withheld, Damage> {
        let item = self.snapshot.item(place)?;
        let decision = self.may_read(&item);
        let is_told = self.who.scopes.contains(&AUDITOR) || self.rules.tells(decision.rule);
        let rule = decision.rule.to_owned();
        Ok(Withheld { place, verdict: decision.verdict, rule, is_shown: false, is_told })
    }
}
