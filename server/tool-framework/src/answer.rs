use std::collections::BTreeSet;

use engine::ItemId;
use engine::ledger::{Decision, Effect, RULE_BYTES_MAX, TouchedItem};
use serde_json::{Value, json};

use recalld_audit::{BY_SCOPE, Receipt};
use recalld_policy::Verdict;
use recalld_secret_scan::Kind;

/// Result of a tool call: structured content, text, item effects and receipt.
#[derive(Debug)]
pub struct Answer {
    /// `structuredContent` as an object, without the receipt.
    pub structured: Value,
    /// The facts of `structured` as short text.
    pub text: String,
    /// Effects on items for the ledger, sensitivity events first.
    pub touched: Vec<TouchedItem>,
    /// The strictest policy decision of the call.
    pub decision: Decision,
    /// Name of the rule behind `decision`.
    pub rule: String,
    /// Proof of the call's ledger entry; `None` until the call is recorded.
    pub receipt: Option<Box<Receipt>>,
}

impl Answer {
    /// Builds an allowed answer without item effects; the rule is `BY_SCOPE`.
    pub fn plain(structured: Value, text: String) -> Self {
        let rule = BY_SCOPE.to_owned();
        let (touched, decision) = (Vec::new(), Decision::Allow);
        Self { structured, text, touched, decision, rule, receipt: None }
    }

    /// Takes `structuredContent`, which has the receipt if the call is recorded.
    pub fn take_content(&mut self) -> Value {
        let mut content = self.structured.take();
        if let Some(receipt) = self.receipt.take() {
            content["receipt"] = json!(receipt);
        }
        content
    }

    /// Records items whose sensitivity was raised because they contain secrets of `kinds`, and names the kinds in the
    /// call's rule. Call before [`Self::touching`], because sensitivity events come first.
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

    /// Records items that are less sensitive than the items that they supersede. Call before [`Self::touching`],
    /// because sensitivity events come first.
    pub fn lowering(mut self, items: impl IntoIterator<Item = ItemId>) -> Self {
        let before = self.touched.len();
        self = self.touching(Effect::Lowered, items);
        self.touched.rotate_left(before);
        self
    }

    /// Appends `effect` for every item read or written.
    pub fn touching(mut self, effect: Effect, items: impl IntoIterator<Item = ItemId>) -> Self {
        self.touched.extend(items.into_iter().map(|id| touched(effect, id)));
        self
    }
}

/// Rule name for items raised by secrets of these kinds: `secrets/A+B`, with as many kinds as fit into
/// `RULE_BYTES_MAX`.
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

/// Ledger record of one effect on one item.
pub fn touched(effect: Effect, id: ItemId) -> TouchedItem {
    TouchedItem { effect, item: id.0.to_le_bytes() }
}

/// Converts a policy verdict to the decision that the ledger stores.
pub fn decision_of(verdict: Verdict) -> Decision {
    match verdict {
        Verdict::Allow => Decision::Allow,
        Verdict::Redact => Decision::Redact,
        Verdict::Deny => Decision::Deny,
    }
}
