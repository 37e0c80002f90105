//! Access view: the items of a snapshot that one caller may see.

use std::sync::Arc;

use engine::{ItemView, SearchError, Snapshot, VisibilityMask};

use super::masks::HiddenFrom;
use recalld_policy::{Action, Caller, Rules, Verdict, What};

/// Scope whose holders may learn of withheld items.
const AUDITOR: &str = "audit:read";

/// Policy decisions for one call on one snapshot: the visibility mask for retrieval, and the verdicts for gating and
/// rendering.
pub struct AccessView<'a> {
    caller: &'a Caller,
    rules: &'a Rules,
    hidden: Option<Arc<VisibilityMask>>,
}

impl<'a> AccessView<'a> {
    /// Makes the view of `caller` on `snapshot`. `masks` caches visibility masks between calls.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn of(
        snapshot: &Snapshot,
        caller: &'a Caller,
        rules: &'a Rules,
        masks: &HiddenFrom,
    ) -> Result<Self, SearchError> {
        let hidden = caller.as_who(|who| masks.of(snapshot, rules, who))?;
        Ok(Self { caller, rules, hidden })
    }

    /// Visibility mask; `None` if nothing is hidden.
    pub fn hidden(&self) -> Option<&Arc<VisibilityMask>> {
        self.hidden.as_ref()
    }

    /// Returns the verdict on reading an item, and the rule's name. The rules are evaluated once for each class of
    /// items.
    pub fn judge(&self, item: &ItemView<'_>) -> (Verdict, Arc<str>) {
        let what = What {
            workspace: &self.caller.workspace,
            kind: item.kind,
            sensitivity: item.sensitivity,
            gates: &item.gates,
        };
        self.caller.judge(self.rules, &what, Action::Read)
    }

    /// Returns true if the caller may learn that the item exists, at least by its id.
    pub fn may_know(&self, item: &ItemView<'_>) -> bool {
        self.judge(item).0 != Verdict::Deny
    }

    /// Returns true if the caller may learn that this rule withheld an item.
    pub(super) fn is_told(&self, rule: &str) -> bool {
        self.caller.scopes.iter().any(|scope| scope.name() == AUDITOR) || self.rules.tells(rule)
    }
}
