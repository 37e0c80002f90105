//! Visibility cache: the visibility masks of recent callers.

use std::sync::{Arc, Mutex, PoisonError};

use engine::{AccessClass, SearchError, Snapshot, SnapshotVersion, Visibility, VisibilityMask};

use recalld_policy::{Action, Rules, Verdict, What, Who, decide};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Callers with a cached mask: one bit per row of the store, if anything is hidden. The least recently used mask is
    /// evicted and computed again on demand.
    const CALLERS_MAX: usize = 64;
}

/// Cache of visibility masks, for one store and one set of rules.
#[derive(Debug, Default)]
pub struct HiddenFrom {
    /// Ordered by last use (LRU, most recent last).
    callers: Mutex<Vec<(Asker, Arc<Mutex<Known>>)>>,
}

/// Cached mask of one caller. The lock is held while the mask is computed, so concurrent calls of one caller compute it
/// once.
#[derive(Debug, Default)]
struct Known {
    /// Newest snapshot version queried.
    edition: Option<SnapshotVersion>,
    hidden: Arc<VisibilityMask>,
}

/// All attributes of a caller that rules depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asker {
    workspace: String,
    principal: String,
    plan: String,
    scopes: Vec<String>,
    purpose: Option<String>,
}

impl Asker {
    fn of(who: &Who<'_>) -> Self {
        Self {
            workspace: who.workspace.to_owned(),
            principal: who.principal.to_owned(),
            plan: who.plan.to_owned(),
            scopes: who.scopes.iter().map(|&scope| scope.to_owned()).collect(),
            purpose: who.purpose.map(str::to_owned),
        }
    }

    fn is(&self, who: &Who<'_>) -> bool {
        self.principal == who.principal
            && self.workspace == who.workspace
            && self.plan == who.plan
            && self.scopes.iter().map(String::as_str).eq(who.scopes.iter().copied())
            && self.purpose.as_deref() == who.purpose
    }
}

impl HiddenFrom {
    /// Returns the mask of rows that a reading caller may not see; `None` if nothing is hidden.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn of(
        &self,
        snapshot: &Snapshot,
        rules: &Rules,
        who: &Who<'_>,
    ) -> Result<Option<Arc<VisibilityMask>>, SearchError> {
        let known = self.known(who);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let hidden = if known.hidden.covers(snapshot) {
            Arc::clone(&known.hidden)
        } else {
            let sight = |class: &AccessClass<'_>| sight(rules, who, class);
            let hidden = Arc::new(snapshot.mask(&known.hidden, sight)?);
            // A call on an older snapshot must not evict the mask of a newer one.
            if known.edition.is_none_or(|kept| kept <= snapshot.version()) {
                known.hidden = Arc::clone(&hidden);
            }
            hidden
        };
        known.edition = known.edition.max(Some(snapshot.version()));
        Ok((!hidden.is_empty()).then_some(hidden))
    }

    fn known(&self, who: &Who<'_>) -> Arc<Mutex<Known>> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = callers.iter().position(|(asker, _)| asker.is(who)) {
            callers[at..].rotate_left(1);
        } else {
            if callers.len() == CALLERS_MAX {
                callers.remove(0);
            }
            callers.push((Asker::of(who), Arc::default()));
        }
        callers.last().map_or_else(Arc::default, |(_, known)| Arc::clone(known))
    }
}

fn sight(rules: &Rules, who: &Who<'_>, class: &AccessClass<'_>) -> Visibility {
    let what = What {
        workspace: who.workspace,
        kind: class.kind,
        sensitivity: class.sensitivity,
        gates: class.gates,
    };
    match decide(rules, who, &what, Action::Read).verdict {
        Verdict::Allow => Visibility::Full,
        Verdict::Redact => Visibility::MetadataOnly,
        Verdict::Deny => Visibility::Denied,
    }
}

#[cfg(test)]
mod tests {
    use super::super::passes::tests::{items, store};
    use super::*;

    #[test]
    fn who_looks_at_an_older_state_takes_nothing_from_those_of_the_newer_one() {
        let (_folder, store) = store(1);
        let earlier = store.snapshot();
        store.write(items(1)).unwrap();
        let later = store.snapshot();
        let rules = Rules::new(Vec::new()).unwrap();
        let who =
            Who { workspace: "w", principal: "ada", plan: "team", scopes: &[], purpose: None };
        let from = HiddenFrom::default();
        let of = |snapshot| from.of(snapshot, &rules, &who).unwrap().expect("nothing is allowed");
        let newer = of(&later);
        assert!(newer.covers(&later) && !newer.covers(&earlier));
        assert!(of(&earlier).covers(&earlier));
        assert!(Arc::ptr_eq(&newer, &of(&later)));
    }
}
