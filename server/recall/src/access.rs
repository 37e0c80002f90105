//! The items of a snapshot that a caller may see.

use std::sync::Arc;

use engine::{Hidden, ItemView, SearchError, Snapshot};

use super::masks::HiddenFrom;
use recalld_policy::{Action, Caller, Rules, Verdict, What};

/// The scope of those who may know what is kept from them.
const AUDITOR: &str = "audit:read";

/// One answer of policy to one call: the mask that retrieval goes by, and the decisions that gating and rendering go
/// by. Made once for a snapshot.
pub struct AccessView<'a> {
    caller: &'a Caller,
    rules: &'a Rules,
    hidden: Option<Arc<Hidden>>,
}

impl<'a> AccessView<'a> {
    /// The view of a caller on a snapshot. `masks` retains what the rules hide from one call to the next.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn of(
        snapshot: &Snapshot,
        caller: &'a Caller,
        rules: &'a Rules,
        masks: &HiddenFrom,
    ) -> Result<Self, SearchError> {
        let hidden = caller.as_who(|who| masks.of(snapshot, rules, who))?;
        Ok(Self { caller, rules, hidden })
    }

    /// The mask; `None` where nothing is hidden.
    pub fn hidden(&self) -> Option<&Arc<Hidden>> {
        self.hidden.as_ref()
    }

    /// The decision on reading an item, and its rule. The rules are asked once for each class of items.
    pub fn judge(&self, item: &ItemView<'_>) -> (Verdict, Arc<str>) {
        let what = What {
            workspace: &self.caller.workspace,
            kind: item.kind,
            sensitivity: item.sensitivity,
            gates: &item.gates,
        };
        self.caller.judge(self.rules, &what, Action::Read)
    }

    /// Returns true if the caller may know that an item is there, if only by its id.
    pub fn may_know(&self, item: &ItemView<'_>) -> bool {
        self.judge(item).0 != Verdict::Deny
    }

    /// Returns true if the caller may learn that a rule kept something back.
    pub(super) fn is_told(&self, rule: &str) -> bool {
        self.caller.scopes.iter().any(|scope| scope.name() == AUDITOR) || self.rules.tells(rule)
    }
}
