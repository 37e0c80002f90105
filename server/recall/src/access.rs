//! Access view: a snapshot as one caller may see it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use engine::{AsOf, ItemView, SearchError, Snapshot, VisibilityMask};

use super::masks::HiddenFrom;
use recalld_policy::{Action, Caller, Rules, Verdict, What};

/// A snapshot with the policy decisions of one caller: the visibility mask for retrieval, and the verdicts for gating
/// and rendering.
pub struct AccessView<'a> {
    snapshot: Snapshot,
    caller: &'a Caller,
    rules: &'a Rules,
    masks: &'a HiddenFrom,
    /// Computed on first use, as most calls only judge single items.
    hidden: OnceLock<Option<Arc<VisibilityMask>>>,
}

/// Reads of the snapshot itself are independent of the caller.
impl Deref for AccessView<'_> {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl<'a> AccessView<'a> {
    /// Makes the view of `caller` on `snapshot`. `masks` caches visibility masks between calls.
    pub fn of(
        snapshot: Snapshot,
        caller: &'a Caller,
        rules: &'a Rules,
        masks: &'a HiddenFrom,
    ) -> Self {
        Self { snapshot, caller, rules, masks, hidden: OnceLock::new() }
    }

    /// Returns the view as of `moment`. The mask depends on rows only, so both views share it.
    #[must_use]
    pub fn with_as_of(&self, moment: AsOf) -> Self {
        Self { snapshot: self.snapshot.with_as_of(moment), hidden: self.hidden.clone(), ..*self }
    }

    /// Visibility mask; `None` if nothing is hidden.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn hidden(&self) -> Result<Option<Arc<VisibilityMask>>, SearchError> {
        if let Some(hidden) = self.hidden.get() {
            return Ok(hidden.clone());
        }
        let hidden = self.caller.as_who(|who| self.masks.of(&self.snapshot, self.rules, who))?;
        Ok(self.hidden.get_or_init(|| hidden).clone())
    }

    /// Returns the verdict on an action on an item, and the rule's name. The rules are evaluated once for each class of
    /// items.
    pub fn judge(&self, item: &ItemView<'_>, action: Action) -> (Verdict, Arc<str>) {
        let what = What {
            workspace: &self.caller.workspace,
            kind: item.kind,
            sensitivity: item.sensitivity,
            gates: &item.gates,
        };
        self.caller.judge(self.rules, &what, action)
    }

    /// Returns true if the caller may learn that the item exists, at least by its id.
    pub fn may_know(&self, item: &ItemView<'_>) -> bool {
        self.judge(item, Action::Read).0 != Verdict::Deny
    }

    /// Returns true if the caller may learn that this rule withheld an item.
    pub fn is_told(&self, rule: &str) -> bool {
        self.caller.audits() || self.rules.tells(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::tests::{items, store};

    #[test]
    fn a_view_computes_one_mask_which_covers_its_snapshot() {
        let (_folder, store) = store(1);
        let (rules, masks) = (Rules::new(Vec::new()).unwrap(), HiddenFrom::default());
        let caller = Caller::local_operator("w");
        let view = |snapshot| AccessView::of(snapshot, &caller, &rules, &masks);
        let earlier = view(store.snapshot());
        store.write(items(1)).unwrap();
        let later = view(store.snapshot());
        // The cache retains only the mask of the later snapshot.
        for view in [&later, &earlier] {
            let hidden = view.hidden().unwrap().expect("nothing is allowed");
            assert!(hidden.covers(view));
            let then = view.with_as_of(AsOf::default());
            for again in [view.hidden(), then.hidden()] {
                assert!(Arc::ptr_eq(&hidden, &again.unwrap().expect("nothing is allowed")));
            }
        }
    }
}
