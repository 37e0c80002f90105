//! Policy rules as data: whom, what, which acts, which answer; and the set a workspace starts with.
//!
//! Owns what a rule may say and when it matches. Must not know in which order rules count.

use std::fmt;

use engine::ledger::RULE_BYTES_MAX;

use engine::Sensitivity;

use super::policy::{Action, FIXED, LEGAL_HOLD, Verdict, What, Who};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Rules of one workspace, at most.
    pub(super) const RULES_MAX: usize = 1_024;
}

/// Whom a rule is about. `None` is anyone; all that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WhoMatch {
    /// Of this plan.
    pub plan: Option<String>,
    /// Of any plan but this.
    pub plan_not: Option<String>,
    /// With this scope.
    pub scope: Option<String>,
    /// This principal.
    pub principal: Option<String>,
    /// For this purpose.
    pub purpose: Option<String>,
}

/// What a rule is about. `None` is anything; all that is given must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatMatch {
    /// Items of this kind.
    pub kind: Option<String>,
    /// At least this sensitive.
    pub from: Sensitivity,
    /// At most this sensitive.
    pub up_to: Sensitivity,
    /// With this gate.
    pub gate: Option<String>,
}

impl WhatMatch {
    /// Everything up to `sensitivity`.
    pub fn up_to(sensitivity: Sensitivity) -> Self {
        Self { kind: None, from: Sensitivity::Public, up_to: sensitivity, gate: None }
    }

    /// Everything with this gate.
    pub fn gated(gate: &str) -> Self {
        Self { gate: Some(gate.to_owned()), ..Self::up_to(Sensitivity::Restricted) }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its name in decisions, receipts and the ledger.
    pub name: String,
    /// Whom it is about.
    pub who: WhoMatch,
    /// What it is about.
    pub what: WhatMatch,
    /// What is to be done.
    pub actions: Vec<Action>,
    /// The answer.
    pub verdict: Verdict,
    /// An allow that also opens gates that have no meaning here.
    pub opens_unknown_gates: bool,
    /// Whether callers may learn how many items it kept from them that answered their question. What can be
    /// counted can be searched for, word by word; without this only those with `audit:read` are told.
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

/// The rules of a workspace, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
}

/// Why rules are not taken. Names the rule by its place, from 0, and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleFault {
    /// More than `RULES_MAX`; holds how many.
    TooMany(usize),
    /// The name is empty, too long, holds a control character, or is one of our own.
    Name(usize, String),
    /// An earlier rule has the name.
    Twice(usize, String),
    /// It names no action.
    NoAction(usize, String),
    /// It starts above where it ends, so it could never match.
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
    /// Checks `rules`. Among rules of one verdict, the earlier one gives its name to the decision.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RuleFault> {
        if rules.len() > RULES_MAX {
            return Err(RuleFault::TooMany(rules.len()));
        }
        for (place, rule) in rules.iter().enumerate() {
            let fault =
                |fault: fn(usize, String) -> RuleFault| Err(fault(place, rule.name.clone()));
            let name = rule.name.as_str();
            // Every name must fit a ledger entry: a decision that cannot be recorded must not be
            // made.
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

    /// The rules a new workspace starts with. The operator may do everything (but see
    /// `legal_hold`); others read, export and write by their scopes up to confidential, and gates
    /// close as named.
    pub fn initial() -> Self {
        use Action::{Erase, Export, Read, Write};
        use Sensitivity::{Confidential, Restricted};
        use Verdict::{Allow, Deny, Redact};

        let everyone = WhoMatch::default;
        let others = || WhoMatch { plan_not: Some("operator".into()), ..everyone() };
        let operator = WhoMatch { plan: Some("operator".into()), ..everyone() };
        let with = |scope: &str| WhoMatch { scope: Some(scope.into()), ..everyone() };
        // The gate means nothing else, so that it is closed to those without the scope.
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

    /// The rules, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Whether callers may learn that the rule of this name kept items from them. The fixed rules tell nothing.
    pub fn tells(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.tells && rule.name == name)
    }

    /// Whether the gate means something: it is a fixed one, or a deny or redact says what it
    /// closes. An allow that names it does not count here, or opening it to one would open it to
    /// all.
    pub(super) fn know_gate(&self, gate: &str) -> bool {
        let closes =
            |rule: &Rule| rule.verdict != Verdict::Allow && rule.what.gate.as_deref() == Some(gate);
        gate == LEGAL_HOLD || self.rules.iter().any(closes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Anyone may read anything up to `up_to`.
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
