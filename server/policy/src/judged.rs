//! Decision cache: verdicts for one caller by class of items.
//!
//! The cache belongs to one caller and to the same caller under other turn identities, which the rules cannot
//! distinguish. No verdict is ever reused for another caller. Entries never expire, as the rules are fixed from start
//! to end of the server (GOV-45).

use std::sync::{Arc, Mutex, PoisonError};

use engine::Sensitivity;

use super::policy::{Action, Verdict, What};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of cached classes: combinations of kind, sensitivity and gate set. A store has some dozens;
    /// beyond the maximum, the rules are evaluated each time.
    pub(super) const CLASSES_JUDGED_MAX: usize = 64;
}

/// Verdicts by class of items.
#[derive(Debug, Default)]
pub struct Judged {
    /// In order of first use: the first classes are the most frequent.
    known: Mutex<Vec<Known>>,
}

/// A class of items and an action, with the verdict and its rule.
#[derive(Debug)]
struct Known {
    workspace: String,
    kind: String,
    sensitivity: Sensitivity,
    gates: Vec<String>,
    action: Action,
    verdict: Verdict,
    rule: Arc<str>,
}

impl Known {
    fn is(&self, what: &What<'_>, action: Action) -> bool {
        self.kind == what.kind
            && self.sensitivity == what.sensitivity
            && self.action == action
            && self.gates == what.gates
            && self.workspace == what.workspace
    }
}

impl Judged {
    /// Returns the cached decision for a class, or evaluates `decide` and caches the result.
    pub fn of(
        &self,
        what: &What<'_>,
        action: Action,
        decide: impl FnOnce() -> (Verdict, Arc<str>),
    ) -> (Verdict, Arc<str>) {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().iter().find(|known| known.is(what, action)) {
            return (known.verdict, Arc::clone(&known.rule));
        }
        let (verdict, rule) = decide();
        let mut known = known();
        if known.len() < CLASSES_JUDGED_MAX {
            known.push(Known {
                workspace: what.workspace.to_owned(),
                kind: what.kind.to_owned(),
                sensitivity: what.sensitivity,
                gates: what.gates.iter().map(|&gate| gate.to_owned()).collect(),
                action,
                verdict,
                rule: Arc::clone(&rule),
            });
        }
        (verdict, rule)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn each_class_is_decided_once_and_no_more_are_kept_than_may_be() {
        let (judged, asked) = (Judged::default(), Cell::new(0));
        let of = |judged: &Judged, what: &What<'_>, action| {
            let decide = || {
                asked.set(asked.get() + 1);
                (Verdict::Redact, Arc::from(format!("rule {}", asked.get())))
            };
            judged.of(what, action, decide)
        };
        let note =
            What { workspace: "acme", kind: "note", sensitivity: Sensitivity::Public, gates: &[] };
        let first = of(&judged, &note, Action::Read);
        assert_eq!(of(&judged, &note, Action::Read), first);
        assert_eq!(asked.get(), 1);
        // A difference in any property that rules can match makes another class.
        let internal = Sensitivity::Internal;
        for (what, action) in [
            (What { kind: "fact", ..note }, Action::Read),
            (What { sensitivity: internal, ..note }, Action::Read),
            (What { gates: &["pii"], ..note }, Action::Read),
            (What { gates: &["pii", "board"], ..note }, Action::Read),
            (What { workspace: "globex", ..note }, Action::Read),
            (note, Action::Write),
        ] {
            let before = asked.get();
            assert_ne!(of(&judged, &what, action).1, first.1);
            of(&judged, &what, action);
            assert_eq!(asked.get(), before + 1, "{what:?} {action:?}");
        }
        for n in 0..2 * CLASSES_JUDGED_MAX {
            of(&judged, &What { kind: &format!("kind {n}"), ..note }, Action::Read);
        }
        assert_eq!(judged.known.lock().unwrap().len(), CLASSES_JUDGED_MAX);
        assert_eq!(of(&judged, &note, Action::Read), first);
    }
}
