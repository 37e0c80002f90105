//! What a tool gives.

use std::collections::BTreeSet;

use engine::ItemId;
use engine::ledger::{Decision, Effect, RULE_BYTES_MAX, Touched};
use serde_json::Value;

use recalld_audit::BY_SCOPE;
use recalld_policy::Verdict;
use recalld_secret_scan::Kind;

/// What a tool gives.
#[derive(Debug)]
pub struct Answer {
    /// `structuredContent`, without the receipt: an object.
    pub structured: Value,
    /// The same facts, short enough to read.
    pub text: String,
    /// What became of which items, sensitivity events first.
    pub touched: Vec<Touched>,
    /// The strictest policy decision of the call.
    pub decision: Decision,
    /// Name of its rule.
    pub rule: String,
}

impl Answer {
    /// An answer that no policy rule touched.
    pub fn plain(structured: Value, text: String) -> Self {
        let rule = BY_SCOPE.to_owned();
        Self { structured, text, touched: Vec::new(), decision: Decision::Allow, rule }
    }

    /// Notes items that secrets of these kinds raised: the call's rule names them. Before [`Self::touching`], since
    /// sensitivity events come first.
    pub fn raising(
        mut self,
        items: impl IntoIterator<Item = ItemId>,
        kinds: &BTreeSet<Kind>,
    ) -> Self {
        let before = self.touched.len();
        self = self.touching(Effect::Raised, items);
        if self.touched.len() > before {
            self.touched.rotate_left(before);
            self.rule = raised_by(kinds);
        }
        self
    }

    /// Notes items that are less sensitive than what they replace. Before [`Self::touching`], as [`Self::raising`].
    pub fn lowering(mut self, items: impl IntoIterator<Item = ItemId>) -> Self {
        let before = self.touched.len();
        self = self.touching(Effect::Lowered, items);
        self.touched.rotate_left(before);
        self
    }

    /// Notes items that were read or written.
    pub fn touching(mut self, effect: Effect, items: impl IntoIterator<Item = ItemId>) -> Self {
        self.touched.extend(items.into_iter().map(|id| touched(effect, id)));
        self
    }
}

/// The name of the rule by which secrets of these kinds raise what holds them; as many kinds as a rule's name has
/// room for.
pub(super) fn raised_by(kinds: &BTreeSet<Kind>) -> String {
    let mut rule = String::from("secrets/");
    for (at, kind) in kinds.iter().enumerate() {
        if rule.len() + 1 + kind.name().len() > RULE_BYTES_MAX {
            break;
        }
        rule.push_str(if at > 0 { "+" } else { "" });
        rule.push_str(kind.name());
    }
    rule
}

/// An item in a ledger entry.
pub fn touched(effect: Effect, id: ItemId) -> Touched {
    Touched { effect, item: id.0.to_le_bytes() }
}

/// A policy verdict as the ledger names it.
pub fn decision_of(verdict: Verdict) -> Decision {
    match verdict {
        Verdict::Allow => Decision::Allow,
        Verdict::Redact => Decision::Redact,
        Verdict::Deny => Decision::Deny,
    }
}
