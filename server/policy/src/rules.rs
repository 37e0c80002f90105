//! Policy rules as data: subject, resource, actions and verdict; and the default rules of a workspace. The order of
//! evaluation is in `policy`.

use std::fmt;

use engine::ledger::RULE_BYTES_MAX;

use engine::Sensitivity;

use super::policy::{Action, FIXED, LEGAL_HOLD, Verdict, What, Who};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of rules per workspace.
    pub(super) const RULES_MAX: usize = 1_024;
}

/// Subject conditions of a rule. `None` matches any subject; all present conditions must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WhoMatch {
    /// Matches this plan.
    pub plan: Option<String>,
    /// Matches any other plan.
    pub plan_not: Option<String>,
    /// Matches subjects with this scope.
    pub scope: Option<String>,
    /// Matches this principal.
    pub principal: Option<String>,
    /// Matches this stated purpose.
    pub purpose: Option<String>,
}

/// Resource conditions of a rule. `None` matches any item; all present conditions must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatMatch {
    /// Matches this item kind.
    pub kind: Option<String>,
    /// Minimum sensitivity.
    pub from: Sensitivity,
    /// Maximum sensitivity.
    pub up_to: Sensitivity,
    /// Matches items with this gate.
    pub gate: Option<String>,
}

impl WhatMatch {
    /// Matches every item up to `sensitivity`.
    pub fn up_to(sensitivity: Sensitivity) -> Self {
        Self { kind: None, from: Sensitivity::Public, up_to: sensitivity, gate: None }
    }

    /// Matches every item with this gate.
    pub fn gated(gate: &str) -> Self {
        Self { gate: Some(gate.to_owned()), ..Self::up_to(Sensitivity::Restricted) }
    }
}

/// A policy rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Name in decisions, receipts and the ledger.
    pub name: String,
    /// Subject conditions.
    pub who: WhoMatch,
    /// Resource conditions.
    pub what: WhatMatch,
    /// Matching actions.
    pub actions: Vec<Action>,
    /// The verdict of a match.
    pub verdict: Verdict,
    /// True for an allow rule that also opens unknown gates.
    pub opens_unknown_gates: bool,
    /// True if callers may learn the number of matching items withheld by this rule. A count can be searched word by
    /// word, so by default only callers with `audit:read` receive the number.
    pub tells: bool,
}

impl Rule {
    pub(super) fn matches(&self, who: &Who<'_>, what: &What<'_>, action: Action) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let has = |wanted: &Option<String>, found: &[&str]| {
            wanted.as_deref().is_none_or(|wanted| found.contains(&wanted))
        };
        self.actions.contains(&action)
            && is(&self.who.plan, who.plan)
            && self.who.plan_not.as_deref().is_none_or(|not| not != who.plan)
            && has(&self.who.scope, who.scopes)
            && is(&self.who.principal, who.principal)
            && self.who.purpose.as_deref().is_none_or(|wanted| who.purpose == Some(wanted))
            && is(&self.what.kind, what.kind)
            && (self.what.from..=self.what.up_to).contains(&what.sensitivity)
            && has(&self.what.gate, what.gates)
    }
}

/// The validated rules of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
}

/// Reason for rejecting rules. Carries the index of the rule, from 0, and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleFault {
    /// More than `RULES_MAX`; carries the count.
    TooMany(usize),
    /// The name is empty, too long, contains a control character, or has the prefix of fixed rules.
    Name(usize, String),
    /// Duplicate of an earlier name.
    Twice(usize, String),
    /// The list of actions is empty.
    NoAction(usize, String),
    /// The minimum sensitivity is above the maximum, so the rule could never match.
    EmptyRange(usize, String),
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(found) => {
                write!(f, "{found} policy rules; at most {RULES_MAX} are allowed")
            }
            Self::Name(place, name) => write!(
                f,
                "policy rule {place} is named {name:?}; a name has 1 to {RULE_BYTES_MAX} bytes without control \
                 characters and does not start with `{FIXED}`"
            ),
            Self::Twice(place, name) => {
                write!(f, "policy rule {place}: there is another rule named {name:?}")
            }
            Self::NoAction(place, name) => {
                write!(
                    f,
                    "policy rule {place} ({name}) names no action; give read, export, write or erase"
                )
            }
            Self::EmptyRange(place, name) => {
                write!(
                    f,
                    "policy rule {place} ({name}) starts at a higher sensitivity than it ends at"
                )
            }
        }
    }
}

impl std::error::Error for RuleFault {}

impl Rules {
    /// Validates `rules`. Among matching rules of one verdict, the first is named in the decision.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RuleFault> {
        if rules.len() > RULES_MAX {
            return Err(RuleFault::TooMany(rules.len()));
        }
        for (place, rule) in rules.iter().enumerate() {
            let fault =
                |fault: fn(usize, String) -> RuleFault| Err(fault(place, rule.name.clone()));
            let name = rule.name.as_str();
            // Every name must fit an audit entry: a decision that cannot be recorded must not be made.
            let fits =
                (1..=RULE_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
            if !fits || name.starts_with(FIXED) {
                return fault(RuleFault::Name);
            }
            if rules[..place].iter().any(|earlier| earlier.name == name) {
                return fault(RuleFault::Twice);
            }
            if rule.actions.is_empty() {
                return fault(RuleFault::NoAction);
            }
            if rule.what.from > rule.what.up_to {
                return fault(RuleFault::EmptyRange);
            }
        }
        Ok(Self { rules })
    }

    /// The default rules of a new workspace. The operator may do everything, except as limited by `legal_hold`. Other
    /// callers read, export and write by their scopes up to confidential, and gates close as named.
    pub fn initial() -> Self {
        use Action::{Erase, Export, Read, Write};
        use Sensitivity::{Confidential, Restricted};
        use Verdict::{Allow, Deny, Redact};

        let everyone = WhoMatch::default;
        let others = || WhoMatch { plan_not: Some("operator".into()), ..everyone() };
        let operator = WhoMatch { plan: Some("operator".into()), ..everyone() };
        let with = |scope: &str| WhoMatch { scope: Some(scope.into()), ..everyone() };
        // No deny or redact rule names this gate, so that callers without the scope are denied (unknown gate).
        let agents = WhatMatch {
            kind: Some("agent_state".into()),
            gate: Some("agent_state".into()),
            ..WhatMatch::up_to(Confidential)
        };
        let external = WhoMatch { purpose: Some("external_ai".into()), ..others() };
        let rule = |name: &str, who, what, actions: &[Action], verdict| Rule {
            name: format!("default/{name}"),
            who,
            what,
            actions: actions.to_vec(),
            verdict,
            opens_unknown_gates: false,
            tells: false,
        };
        let ordinary = || WhatMatch::up_to(Confidential);
        let mut rules = vec![
            rule("operator", operator, WhatMatch::up_to(Restricted), Action::ALL, Allow),
            rule("operator-only", others(), WhatMatch::gated("operator_only"), Action::ALL, Deny),
            rule("no-export", others(), WhatMatch::gated("no_export"), &[Export], Deny),
            rule(
                "no-external-ai",
                external,
                WhatMatch::gated("no_external_ai"),
                &[Read, Export],
                Deny,
            ),
            rule("pii", others(), WhatMatch::gated("pii"), &[Read, Export], Redact),
            rule("read", with("tenant:read"), ordinary(), &[Read], Allow),
            rule("export", with("tenant:read"), ordinary(), &[Export], Allow),
            rule("write", with("memory:write"), ordinary(), &[Write, Erase], Allow),
            rule("ingest", with("ingest:write"), ordinary(), &[Write], Allow),
            rule("agent-state", with("agent:state"), agents, &[Read, Write, Erase], Allow),
        ];
        rules[0].opens_unknown_gates = true;
        Self::new(rules).expect("the built-in rules keep their own bounds; a test asks")
    }

    /// The rules in order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Returns true if callers may learn that the named rule withheld items. Always false for fixed rules.
    pub fn tells(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.tells && rule.name == name)
    }

    /// Returns true if the gate is a fixed gate, or named by a deny or redact rule. An allow that names the gate does
    /// not count: otherwise, opening the gate to a single subject would open the gate to all.
    pub(super) fn know_gate(&self, gate: &str) -> bool {
        let closes =
            |rule: &Rule| rule.verdict != Verdict::Allow && rule.what.gate.as_deref() == Some(gate);
        gate == LEGAL_HOLD || self.rules.iter().any(closes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A rule that allows everyone to read every item up to `up_to`.
    pub(in super::super) fn allow(name: &str, up_to: Sensitivity) -> Rule {
        Rule {
            name: name.into(),
            who: WhoMatch::default(),
            what: WhatMatch::up_to(up_to),
            actions: vec![Action::Read],
            verdict: Verdict::Allow,
            opens_unknown_gates: false,
            tells: false,
        }
    }

    #[test]
    fn a_rule_tells_what_it_keeps_back_by_saying_so() {
        let told =
            Rule { tells: true, verdict: Verdict::Deny, ..allow("told", Sensitivity::Public) };
        let rules = Rules::new(vec![told, allow("quiet", Sensitivity::Public)]).unwrap();
        let asked = ["told", "quiet", "fixed/no-rule", "fixed/restricted"];
        assert_eq!(asked.map(|name| rules.tells(name)), [true, false, false, false]);
        assert!(Rules::initial().iter().all(|rule| !rule.tells));
    }

    #[test]
    fn rules_that_cannot_mean_anything_are_refused() {
        let rule = || allow("a", Sensitivity::Public);
        let named = |name: &str| Rule { name: name.into(), ..rule() };
        for (bad, fault) in [
            (vec![named("")], RuleFault::Name(0, String::new())),
            (vec![rule(), named("fixed/x")], RuleFault::Name(1, "fixed/x".into())),
            (vec![named("a\n")], RuleFault::Name(0, "a\n".into())),
            (vec![rule(), rule()], RuleFault::Twice(1, "a".into())),
            (vec![Rule { actions: vec![], ..rule() }], RuleFault::NoAction(0, "a".into())),
            (
                vec![Rule {
                    what: WhatMatch { from: Sensitivity::Internal, ..rule().what },
                    ..rule()
                }],
                RuleFault::EmptyRange(0, "a".into()),
            ),
            (vec![rule(); RULES_MAX + 1], RuleFault::TooMany(RULES_MAX + 1)),
        ] {
            assert_eq!(Rules::new(bad).unwrap_err(), fault);
        }
        assert!(Rules::new(vec![named(&"n".repeat(RULE_BYTES_MAX + 1))]).is_err());
    }
}
