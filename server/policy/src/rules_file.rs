//! TOML form of policy rules: parses and formats [`Rules`] without loss (GOV-40 to GOV-44).

use std::fmt;
use std::path::Path;

use engine::Sensitivity;

use super::plans::Plans;
use super::policy::{Action, Verdict};
use super::rules::{RULES_MAX, Rule, RuleFault, Rules, WhatMatch, WhoMatch};
use recalld_common::keys::{FileFault, KeyFault, Keys, one_of, quoted, quoted_list, text_of};
use recalld_common::scope::Scope;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum size of a rules file in bytes: one kilobyte per rule at the maximum number of rules, and as much for
    /// comments.
    pub const RULES_FILE_BYTES_MAX: usize = 2 * 1024 * 1024;

    /// Longest name of a principal, purpose, kind or gate in bytes, as in the store.
    const NAME_BYTES_MAX: usize = 256;
}

const _: () = assert!(RULES_FILE_BYTES_MAX == 2 * 1024 * RULES_MAX);

/// Reason for rejecting a rules file. Names the index of the rule, from 0, and the key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RulesFileFault {
    /// The file or one of its keys is invalid.
    File(FileFault),
    /// Every key of a rule is valid, but the rule is not.
    Rule(RuleFault),
}

impl fmt::Display for RulesFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(fault) => fault.fmt(f),
            Self::Rule(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for RulesFileFault {}

impl From<FileFault> for RulesFileFault {
    fn from(fault: FileFault) -> Self {
        Self::File(fault)
    }
}

impl From<KeyFault> for RulesFileFault {
    fn from(fault: KeyFault) -> Self {
        Self::File(fault.into())
    }
}

/// Reads a rules file. Rules may name only existing `plans`: a deny for an unknown plan would deny nothing.
///
/// # Errors
/// The file cannot be read, or [`parse`] rejects the text.
pub fn read(path: &Path, plans: &Plans) -> Result<Rules, RulesFileFault> {
    parse(&text_of(path, RULES_FILE_BYTES_MAX)?, plans)
}

/// Parses the text of a rules file.
///
/// # Errors
/// The text is not TOML, a key or value is unknown, or [`Rules::new`] rejects a rule.
pub fn parse(text: &str, plans: &Plans) -> Result<Rules, RulesFileFault> {
    let mut keys = Keys::parse(text)?;
    let tables = keys.tables("rule")?;
    keys.finish()?;
    if tables.len() > RULES_MAX {
        return Err(RulesFileFault::Rule(RuleFault::TooMany(tables.len())));
    }
    let rules = tables.into_iter().map(|keys| rule(keys, plans)).collect::<Result<_, _>>()?;
    Rules::new(rules).map_err(RulesFileFault::Rule)
}

fn rule(mut keys: Keys, plans: &Plans) -> Result<Rule, KeyFault> {
    let name = keys.text("name", NAME_BYTES_MAX)?;
    let name =
        name.ok_or_else(|| keys.missing("name", "what decisions and receipts call the rule"))?;
    keys.name(&name);
    let verdict = keys.word("verdict", Verdict::ALL, Verdict::word)?;
    let verdict = verdict.ok_or_else(|| keys.missing("verdict", "allow, redact or deny"))?;
    let actions = keys.words("actions", Action::ALL, Action::word)?;
    let actions =
        actions.ok_or_else(|| keys.missing("actions", "a list of read, export, write, erase"))?;
    let who = WhoMatch {
        plan: plan(&mut keys, "plan", plans)?,
        plan_not: plan(&mut keys, "plan_not", plans)?,
        scope: keys.word("scope", Scope::ALL, Scope::name)?.map(|scope| scope.name().to_owned()),
        principal: keys.text("principal", NAME_BYTES_MAX)?,
        purpose: keys.text("purpose", NAME_BYTES_MAX)?,
    };
    let from = keys.word("from", &Sensitivity::ALL, Sensitivity::name)?;
    // An allow must name its maximum sensitivity; a deny or redact covers all unless limited.
    let up_to = keys.word("up_to", &Sensitivity::ALL, Sensitivity::name)?;
    let up_to = match (up_to, verdict) {
        (Some(up_to), _) => up_to,
        (None, Verdict::Allow) => {
            return Err(keys.missing("up_to", "the highest sensitivity that this allows"));
        }
        (None, Verdict::Redact | Verdict::Deny) => Sensitivity::Restricted,
    };
    let what = WhatMatch {
        kind: keys.text("kind", NAME_BYTES_MAX)?,
        from: from.unwrap_or(Sensitivity::Public),
        up_to,
        gate: keys.text("gate", NAME_BYTES_MAX)?,
    };
    let opens_unknown_gates = keys.flag("opens_unknown_gates")?.unwrap_or_default();
    let tells = keys.flag("tells")?.unwrap_or_default();
    keys.finish()?;
    Ok(Rule { name, who, what, actions, verdict, opens_unknown_gates, tells })
}

fn plan(keys: &mut Keys, key: &'static str, plans: &Plans) -> Result<Option<String>, KeyFault> {
    let Some(name) = keys.text(key, NAME_BYTES_MAX)? else { return Ok(None) };
    if plans.find(&name).is_some() {
        return Ok(Some(name));
    }
    Err(keys.fault(key, &name, one_of(&name, &plans.names())))
}

/// Formats the rules as TOML.
pub fn show(rules: &Rules) -> String {
    rules.iter().map(shown).collect::<Vec<_>>().join("\n")
}

fn shown(rule: &Rule) -> String {
    let Rule { name, who, what, actions, verdict, opens_unknown_gates, tells } = rule;
    let mut out = format!("[[rule]]\nname = {}\n", quoted(name));
    let mut text = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            out += &format!("{key} = {}\n", quoted(value));
        }
    };
    text("plan", who.plan.as_deref());
    text("plan_not", who.plan_not.as_deref());
    text("scope", who.scope.as_deref());
    text("principal", who.principal.as_deref());
    text("purpose", who.purpose.as_deref());
    text("kind", what.kind.as_deref());
    text("from", Some(what.from.name()).filter(|_| what.from > Sensitivity::Public));
    text("up_to", Some(what.up_to.name()));
    text("gate", what.gate.as_deref());
    out += &format!("actions = {}\n", quoted_list(actions.iter().map(|action| action.word())));
    out += &format!("verdict = {}\n", quoted(verdict.word()));
    for (key, flag) in [("opens_unknown_gates", opens_unknown_gates), ("tells", tells)] {
        if *flag {
            out += &format!("{key} = true\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<Rules, RulesFileFault> {
        parse(text, &Plans::built_in())
    }

    #[test]
    fn the_initial_rules_are_written_and_read_again() {
        let initial = Rules::initial();
        assert_eq!(parsed(&show(&initial)).unwrap(), initial);
        assert_eq!(parsed("").unwrap().iter().count(), 0);
    }

    #[test]
    fn what_a_rule_does_not_say_is_anyone_anything_and_nothing_opened() {
        let text = "[[rule]]\nname = \"a\"\nactions = [\"read\", \"write\"]\nverdict = \"deny\"\n";
        let rules = parsed(text).unwrap();
        let rule = rules.iter().next().unwrap();
        assert_eq!(rule.who, WhoMatch::default());
        assert_eq!(rule.what, WhatMatch::up_to(Sensitivity::Restricted));
        assert_eq!(rule.actions, [Action::Read, Action::Write]);
        assert!(!rule.opens_unknown_gates && !rule.tells);
    }

    #[test]
    fn each_fault_names_the_rule_and_the_key() {
        const GOOD: &str = "name = \"acme/a\"\nactions = [\"read\"]\nverdict = \"deny\"\n";
        for (text, words) in [
            ("[[rules]]\n", &["`rules`", "did you mean `rule`", ""]),
            ("[[rule]]\nverdict = \"deny\"\n", &["rule[0].name", "missing", ""]),
            (
                "[[rule]]\nname = \"a\"\nactions = [\"read\"]\n",
                &["rule[0] \"a\".verdict", "missing", "redact"],
            ),
            (
                "[[rule]]\nname = \"a\"\nverdict = \"deny\"\n",
                &["rule[0] \"a\".actions", "missing", "erase"],
            ),
            (
                &format!("[[rule]]\n{GOOD}plan = \"tema\"\n"),
                &["rule[0] \"acme/a\".plan", "\"tema\"", "did you mean \"team\""],
            ),
            (
                &format!("[[rule]]\n{GOOD}scope = \"tenant\"\n"),
                &["rule[0] \"acme/a\".scope", "\"tenant\"", "tenant:read"],
            ),
            (
                &format!("[[rule]]\n{GOOD}sensitivity = \"public\"\n"),
                &["rule[0] \"acme/a\".sensitivity", "allowed here", "up_to"],
            ),
            (
                &format!("[[rule]]\n{GOOD}up_to = \"secret\"\n"),
                &["rule[0] \"acme/a\".up_to", "\"secret\"", "restricted"],
            ),
            (
                &format!("[[rule]]\n{GOOD}tells = 1\n"),
                &["rule[0] \"acme/a\".tells", "is 1", "true or false"],
            ),
            (
                &format!("[[rule]]\n{GOOD}\n[[rule]]\n{GOOD}"),
                &["policy rule 1", "acme/a", "another"],
            ),
            (
                &format!("[[rule]]\n{GOOD}from = \"restricted\"\nup_to = \"public\"\n"),
                &["policy rule 0", "acme/a", "higher sensitivity"],
            ),
            (
                "[[rule]]\nname = \"fixed/a\"\nactions = [\"read\"]\nverdict = \"deny\"",
                &["policy rule 0", "fixed/a", "does not start"],
            ),
            (
                "[[rule]]\nname = \"a\"\nactions = []\nverdict = \"deny\"",
                &["policy rule 0", "names no action", ""],
            ),
            (
                "[[rule]]\nname = \"a\"\nactions = [\"read\"]\nverdict = \"allow\"",
                &["rule[0] \"a\".up_to", "missing", "highest"],
            ),
            ("rule = 5", &["`rule`", "5", "[[rule]]"]),
            ("[[rule]\n", &["line 1", "not TOML", ""]),
        ] {
            let said = parsed(text).unwrap_err().to_string();
            assert!(words.iter().all(|word| said.contains(word)), "{text}: {said}");
        }
        let many = "[[rule]]\n".repeat(RULES_MAX + 1);
        assert_eq!(parsed(&many), Err(RulesFileFault::Rule(RuleFault::TooMany(RULES_MAX + 1))));
    }

    fn name() -> impl Strategy<Value = String> {
        "[^\\p{C}]{1,20}"
            .prop_filter("fixed names are not to be had", |name| !name.starts_with("fixed/"))
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let plan =
            || proptest::option::of(proptest::sample::select(vec!["free", "team", "operator"]));
        let scope = proptest::option::of(proptest::sample::select(Scope::ALL));
        let text = || proptest::option::of(name());
        let who = (plan(), plan(), scope, text(), text());
        let what = (text(), 0usize..4, 0usize..4, text());
        let actions = proptest::sample::subsequence(Action::ALL, 1..=4);
        let verdict = proptest::sample::select(Verdict::ALL);
        (name(), who, what, actions, verdict, any::<bool>(), any::<bool>()).prop_map(
            |(name, who, what, actions, verdict, opens_unknown_gates, tells)| Rule {
                name,
                who: WhoMatch {
                    plan: who.0.map(str::to_owned),
                    plan_not: who.1.map(str::to_owned),
                    scope: who.2.map(|scope| scope.name().to_owned()),
                    principal: who.3,
                    purpose: who.4,
                },
                what: WhatMatch {
                    kind: what.0,
                    from: Sensitivity::ALL[what.1.min(what.2)],
                    up_to: Sensitivity::ALL[what.1.max(what.2)],
                    gate: what.3,
                },
                actions,
                verdict,
                opens_unknown_gates,
                tells,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn rules_are_written_and_read_again(rules in proptest::collection::vec(rule(), 0..8)) {
            // Rules with duplicate names are invalid.
            if let Ok(rules) = Rules::new(rules) {
                prop_assert_eq!(parsed(&show(&rules)).unwrap(), rules);
            }
        }
    }
}
