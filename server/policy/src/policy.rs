//! Access decisions (ABAC): a pure function of the rules, subject, resource and action.
//!
//! The order of evaluation, strictest first; each decision names its rule:
//!
//! 1. Fixed, always: an item of another workspace is denied; `legal_hold` denies erasure.
//! 2. A matching deny.
//! 3. Without a matching allow: deny. A redact rule alone discloses nothing.
//! 4. A gate that no deny or redact rule names is closed, unless a matching allow names the gate.
//! 5. A matching redact.
//! 6. The allow.
//!
//! Each rule has a maximum sensitivity ([`WhatMatch::up_to`]), so that a broad allow does not disclose restricted items
//! by accident.

use engine::Sensitivity;

use super::rules::{Rule, Rules};

/// The gate that denies erasure.
pub(crate) const LEGAL_HOLD: &str = "legal_hold";
/// Name prefix of fixed rules; forbidden for configured rules.
pub(super) const FIXED: &str = "fixed/";
const OTHER_WORKSPACE: &str = "fixed/other-workspace";
const HELD: &str = "fixed/legal-hold";
const UNKNOWN_GATE: &str = "fixed/unknown-gate";
const RESTRICTED: &str = "fixed/restricted";
const NO_RULE: &str = "fixed/no-rule";

/// Declares an enum with a word for each value.
macro_rules! worded {
    ($(#[$about:meta])* $name:ident { $($(#[$about_one:meta])* $one:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$about_one])* $one,)+ }

        impl $name {
            /// All values, in order.
            pub const ALL: &'static [Self] = &[$(Self::$one),+];

            /// The word in arguments, results and settings.
            pub fn word(self) -> &'static str {
                match self { $(Self::$one => $word,)+ }
            }

            /// The value with this word; `None` for any other text.
            pub fn of(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.word() == word)
            }
        }
    };
}

worded! {
    /// The action on an item.
    Action {
        /// Show the item.
        Read = "read",
        /// Return items in bulk.
        Export = "export",
        /// Add or supersede an item.
        Write = "write",
        /// Remove the item's content for good.
        Erase = "erase",
    }
}

worded! {
    /// The verdict, mildest first.
    Verdict {
        /// Full access.
        Allow = "allow",
        /// Access with parts omitted.
        Redact = "redact",
        /// No access.
        Deny = "deny",
    }
}

/// The subject of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    /// The credential's workspace.
    pub workspace: &'a str,
    /// The principal's name.
    pub principal: &'a str,
    /// The plan's name.
    pub plan: &'a str,
    /// Granted scopes.
    pub scopes: &'a [&'a str],
    /// The purpose stated by the caller, if any.
    pub purpose: Option<&'a str>,
}

/// The resource of a decision.
#[derive(Debug, Clone, Copy)]
pub struct What<'a> {
    /// The item's workspace.
    pub workspace: &'a str,
    /// The item's kind.
    pub kind: &'a str,
    /// The item's sensitivity.
    pub sensitivity: Sensitivity,
    /// The item's gates.
    pub gates: &'a [&'a str],
}

/// A verdict and the deciding rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The verdict.
    pub verdict: Verdict,
    /// The rule's name.
    pub rule: &'a str,
}

/// Decides if `who` may do `action` to `what`. Linear in the number of rules; allocates nothing.
pub fn decide<'a>(
    rules: &'a Rules,
    who: &Who<'_>,
    what: &What<'_>,
    action: Action,
) -> Decision<'a> {
    let deny = |rule| Decision { verdict: Verdict::Deny, rule };
    if who.workspace != what.workspace {
        return deny(OTHER_WORKSPACE);
    }
    if action == Action::Erase && what.gates.contains(&LEGAL_HOLD) {
        return deny(HELD);
    }
    let matching = || rules.iter().filter(|rule| rule.matches(who, what, action));
    let first = |verdict| matching().find(|rule| rule.verdict == verdict);
    if let Some(rule) = first(Verdict::Deny) {
        return deny(&rule.name);
    }
    let Some(allow) = first(Verdict::Allow) else {
        let is_restricted = what.sensitivity == Sensitivity::Restricted;
        return deny(if is_restricted { RESTRICTED } else { NO_RULE });
    };
    let opens = |gate: &str| {
        let names = |rule: &Rule| rule.what.gate.as_deref() == Some(gate);
        matching().any(|rule| rule.opens_unknown_gates || names(rule))
    };
    if what.gates.iter().any(|gate| !rules.know_gate(gate) && !opens(gate)) {
        return deny(UNKNOWN_GATE);
    }
    match first(Verdict::Redact) {
        Some(rule) => Decision { verdict: Verdict::Redact, rule: &rule.name },
        None => Decision { verdict: Verdict::Allow, rule: &allow.name },
    }
}

/// A rule evaluated for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// The rule's verdict.
    pub verdict: Verdict,
    /// True if the rule matches this subject, resource and action.
    pub matches: bool,
}

/// The configured rules in order, each with its match. [`decide`] returns the resulting decision.
pub fn explain<'a>(
    rules: &'a Rules,
    who: &Who<'_>,
    what: &What<'_>,
    action: Action,
) -> impl Iterator<Item = Tried<'a>> {
    rules.iter().map(move |rule| Tried {
        rule: &rule.name,
        verdict: rule.verdict,
        matches: rule.matches(who, what, action),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rules::tests::allow;
    use super::super::rules::{WhatMatch, WhoMatch};
    use super::*;

    const OPERATOR: Who<'_> = Who {
        workspace: "local",
        principal: "operator",
        plan: "operator",
        scopes: &[],
        purpose: None,
    };
    const MEMBER: Who<'_> = Who {
        workspace: "local",
        principal: "user:ada",
        plan: "team",
        scopes: &["tenant:read", "memory:write"],
        purpose: None,
    };

    const GATES: &[&str] = &["operator_only", "no_export", "pii", "legal_hold", "board"];

    fn item<'a>(sensitivity: Sensitivity, gates: &'a [&'a str]) -> What<'a> {
        What { workspace: "local", kind: "note", sensitivity, gates }
    }

    fn ask(who: Who<'_>, what: What<'_>, action: Action) -> (Verdict, String) {
        let rules = Rules::initial();
        let decision = decide(&rules, &who, &what, action);
        (decision.verdict, decision.rule.to_owned())
    }

    fn says(verdict: Verdict, rule: &str) -> (Verdict, String) {
        (verdict, rule.to_owned())
    }

    #[test]
    fn the_operator_may_do_everything_but_erase_what_is_held() {
        let gates =
            ["operator_only", "no_export", "no_external_ai", "pii", "legal_hold", "of-their-own"];
        for sensitivity in Sensitivity::ALL {
            for &action in Action::ALL {
                let wanted = match action {
                    Action::Erase => says(Verdict::Deny, "fixed/legal-hold"),
                    _ => says(Verdict::Allow, "default/operator"),
                };
                assert_eq!(ask(OPERATOR, item(sensitivity, &gates), action), wanted);
                assert_eq!(
                    ask(OPERATOR, item(sensitivity, &[]), action),
                    says(Verdict::Allow, "default/operator")
                );
            }
        }
        let elsewhere = What { workspace: "acme", ..item(Sensitivity::Public, &[]) };
        assert_eq!(
            ask(OPERATOR, elsewhere, Action::Read),
            says(Verdict::Deny, "fixed/other-workspace")
        );
    }

    #[test]
    fn members_are_bound_by_sensitivity_gates_and_scopes() {
        use Action::{Erase, Export, Read, Write};
        use Sensitivity::{Confidential, Internal, Public, Restricted};
        let external = Who { purpose: Some("external_ai"), ..MEMBER };
        let scopeless = Who { scopes: &[], ..MEMBER };
        for (who, what, action, verdict, rule) in [
            (MEMBER, item(Confidential, &[]), Read, Verdict::Allow, "default/read"),
            (MEMBER, item(Restricted, &[]), Read, Verdict::Deny, "fixed/restricted"),
            (
                MEMBER,
                item(Internal, &["operator_only"]),
                Read,
                Verdict::Deny,
                "default/operator-only",
            ),
            (MEMBER, item(Internal, &["no_export"]), Read, Verdict::Allow, "default/read"),
            (MEMBER, item(Internal, &["no_export"]), Export, Verdict::Deny, "default/no-export"),
            (MEMBER, item(Internal, &["pii"]), Read, Verdict::Redact, "default/pii"),
            (MEMBER, item(Restricted, &["pii"]), Read, Verdict::Deny, "fixed/restricted"),
            (
                MEMBER,
                item(Internal, &["pii", "no_export"]),
                Export,
                Verdict::Deny,
                "default/no-export",
            ),
            (MEMBER, item(Internal, &["no_external_ai"]), Read, Verdict::Allow, "default/read"),
            (
                external,
                item(Internal, &["no_external_ai"]),
                Read,
                Verdict::Deny,
                "default/no-external-ai",
            ),
            (MEMBER, item(Public, &["board"]), Read, Verdict::Deny, "fixed/unknown-gate"),
            (MEMBER, item(Internal, &["pii", "board"]), Read, Verdict::Deny, "fixed/unknown-gate"),
            (MEMBER, item(Internal, &["legal_hold"]), Write, Verdict::Allow, "default/write"),
            (MEMBER, item(Internal, &["legal_hold"]), Erase, Verdict::Deny, "fixed/legal-hold"),
            (MEMBER, item(Internal, &[]), Erase, Verdict::Allow, "default/write"),
            (scopeless, item(Public, &[]), Read, Verdict::Deny, "fixed/no-rule"),
            (scopeless, item(Public, &["pii"]), Read, Verdict::Deny, "fixed/no-rule"),
        ] {
            assert_eq!(ask(who, what, action), says(verdict, rule), "{action:?} {what:?}");
        }
    }

    #[test]
    fn a_rule_may_open_restricted_items_by_saying_so_and_a_gate_by_naming_it() {
        let broad = allow("broad", Sensitivity::Confidential);
        let named = Rule {
            who: WhoMatch { principal: Some("user:ada".into()), ..WhoMatch::default() },
            ..allow("ada", Sensitivity::Restricted)
        };
        let who = WhoMatch { principal: Some("user:ada".into()), ..WhoMatch::default() };
        let what = WhatMatch::gated("board");
        let gate = Rule { who, what, ..allow("board", Sensitivity::Restricted) };
        let rules = Rules::new(vec![broad, named, gate]).unwrap();
        let read = |who, what| decide(&rules, &who, &what, Action::Read).rule.to_owned();
        assert_eq!(read(MEMBER, item(Sensitivity::Restricted, &[])), "ada");
        let other = Who { principal: "user:bob", ..MEMBER };
        assert_eq!(read(other, item(Sensitivity::Restricted, &[])), "fixed/restricted");
        // A gate opened for one subject stays closed to everyone else.
        assert_eq!(read(MEMBER, item(Sensitivity::Public, &["board"])), "broad");
        assert_eq!(read(other, item(Sensitivity::Public, &["board"])), "fixed/unknown-gate");
    }

    #[test]
    fn an_explanation_lists_every_rule_in_order() {
        let rules = Rules::initial();
        let tried: Vec<Tried<'_>> =
            explain(&rules, &MEMBER, &item(Sensitivity::Internal, &["pii"]), Action::Read)
                .collect();
        assert_eq!(tried.len(), rules.iter().count());
        let matching: Vec<&str> =
            tried.iter().filter(|tried| tried.matches).map(|tried| tried.rule).collect();
        assert_eq!(matching, ["default/pii", "default/read"]);
    }

    #[test]
    fn words_and_order_are_the_contracts() {
        assert!(Sensitivity::ALL.is_sorted() && Verdict::ALL.is_sorted());
        let words: Vec<&str> = Sensitivity::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(words, ["public", "internal", "confidential", "restricted"]);
        assert_eq!(Sensitivity::from_name("restricted"), Some(Sensitivity::Restricted));
        assert_eq!(Action::of("Read"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Adding a deny, a gate or sensitivity never results in a milder verdict.
        #[test]
        fn stricter_inputs_never_give_milder_answers(
            sensitivity in 0usize..4, more in 0usize..4, action in 0usize..4,
            gates in proptest::sample::subsequence(GATES, 0..GATES.len()),
            extra in proptest::sample::select(GATES),
        ) {
            let rules = Rules::initial();
            let action = Action::ALL[action];
            let low = Sensitivity::ALL[sensitivity.min(more)];
            let high = Sensitivity::ALL[sensitivity.max(more)];
            let with_extra: Vec<&str> = gates.iter().copied().chain([extra]).collect();
            let mild = decide(&rules, &MEMBER, &item(low, &gates), action).verdict;
            prop_assert!(decide(&rules, &MEMBER, &item(high, &gates), action).verdict >= mild);
            prop_assert!(decide(&rules, &MEMBER, &item(low, &with_extra), action).verdict >= mild);

            let everything = allow("deny", Sensitivity::Restricted);
            let deny = Rule { verdict: Verdict::Deny, actions: vec![action], ..everything };
            let with_deny = Rules::new(rules.iter().cloned().chain([deny]).collect()).unwrap();
            let verdict = decide(&with_deny, &OPERATOR, &item(low, &[]), action).verdict;
            prop_assert_eq!(verdict, Verdict::Deny);
        }
    }
}
