//! Plans: which tools a workspace has, what its credentials may be granted, how many calls and how often.
//!
//! Owns what a plan may say and the three that are built in. Must not know where plans are written down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::rate::Rate;
use recalld_common::scope::Scope;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Plans of one installation.
    pub const PLANS_MAX: usize = 64;

    /// Longest name of a plan, in bytes.
    pub const PLAN_NAME_BYTES_MAX: usize = 32;

    /// Calls a second of a plan that says nothing else, and how many at once.
    const RATE_CALLS: u32 = 20;
    const RATE_BURST: u32 = 60;

    /// Calls of a calendar month in the free plan.
    const FREE_CALLS_PER_MONTH: u64 = 1_000;
}

/// The plan of the operator's own workspace, which settings cannot change.
pub const OPERATOR: &str = "operator";

/// The tools of the free plan, and no others.
pub const FREE_TOOLS: [&str; 3] = ["tenant_info", "brain_recall", "brain_remember"];

/// Every family that a plan may name, in the order of the catalog: those that have tools in this build, and those
/// that will.
pub const FAMILY_NAMES: [&str; 13] = [
    "recall",
    "docstore",
    "graph",
    "items",
    "status",
    "verify",
    "continuity",
    "work",
    "artifacts",
    "ingest",
    "agent_state",
    "bench",
    "tenant",
];

/// Which tools a plan has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tools {
    /// All tools of these families.
    Families(Vec<&'static str>),
    /// Exactly these.
    Named(Vec<&'static str>),
}

/// What a workspace is entitled to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its tools. What is not among them does not exist for the workspace.
    pub tools: Tools,
    /// The scopes that its credentials may be granted.
    pub scopes: Vec<Scope>,
    /// Calls of a calendar month; `None` for as many as there are. Calls are counted either way.
    pub calls_per_month: Option<u64>,
    /// How often each credential may call; `None` for as often as it can.
    pub rate: Option<Rate>,
    /// Whether nothing may be written before the workspace's e-mail address is verified.
    pub writes_need_verified_email: bool,
}

impl Plan {
    /// Whether it has a tool of a family.
    pub fn has_tool(&self, family: &str, tool: &str) -> bool {
        match &self.tools {
            Tools::Families(names) => names.contains(&family),
            Tools::Named(names) => names.contains(&tool),
        }
    }

    /// Whether its credentials may have a scope.
    pub fn may_grant(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whether a workspace may write.
    pub fn may_write(&self, is_email_verified: bool) -> bool {
        is_email_verified || !self.writes_need_verified_email
    }

    /// All there is, as often as one likes: what the operator of this machine has.
    pub fn operators() -> Arc<Self> {
        Arc::new(Self {
            tools: Tools::Families(FAMILY_NAMES.to_vec()),
            scopes: Scope::ALL.to_vec(),
            rate: None,
            ..Self::bare()
        })
    }

    /// What a plan has that says nothing: no tools, no scopes, the usual rate.
    pub fn bare() -> Self {
        Self {
            tools: Tools::Named(Vec::new()),
            scopes: Vec::new(),
            calls_per_month: None,
            rate: Rate::new(RATE_CALLS, Duration::from_secs(1), RATE_BURST),
            writes_need_verified_email: false,
        }
    }
}

/// Every plan, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plans {
    plans: BTreeMap<String, Arc<Plan>>,
}

impl Default for Plans {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Plans {
    /// `free`, `team` and `operator`.
    pub fn built_in() -> Self {
        let free = Plan {
            tools: Tools::Named(FREE_TOOLS.to_vec()),
            scopes: vec![Scope::TenantRead, Scope::BrainProxy, Scope::MemoryWrite],
            calls_per_month: Some(FREE_CALLS_PER_MONTH),
            writes_need_verified_email: true,
            ..Plan::bare()
        };
        let is_operators = |scope: Scope| matches!(scope, Scope::AuditRead | Scope::BenchRun);
        let team = Plan {
            tools: Tools::Families(
                FAMILY_NAMES.into_iter().filter(|name| *name != "bench").collect(),
            ),
            scopes: Scope::ALL.iter().copied().filter(|scope| !is_operators(*scope)).collect(),
            ..Plan::bare()
        };
        let named =
            [("free", Arc::new(free)), ("team", Arc::new(team)), (OPERATOR, Plan::operators())];
        Self { plans: named.map(|(name, plan)| (name.to_owned(), plan)).into() }
    }

    /// Puts a plan in the place of the one that has its name, or beside the others. The name is checked where it is
    /// read ([`is_plan_name`]).
    ///
    /// # Errors
    /// There are [`PLANS_MAX`] already.
    pub fn put(&mut self, name: &str, plan: Plan) -> Result<(), TooManyPlans> {
        if self.plans.len() >= PLANS_MAX && !self.plans.contains_key(name) {
            return Err(TooManyPlans);
        }
        self.plans.insert(name.to_owned(), Arc::new(plan));
        Ok(())
    }

    /// The plan of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Plan>> {
        self.plans.get(name)
    }

    /// Their names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.plans.keys().map(String::as_str).collect()
    }

    /// All of them, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Plan)> {
        self.plans.iter().map(|(name, plan)| (name.as_str(), &**plan))
    }
}

/// One more plan than [`PLANS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyPlans;

/// Whether a plan may be called so: a lower-case letter, then letters of that kind, digits, `-` and `_`, at most
/// [`PLAN_NAME_BYTES_MAX`].
pub fn is_plan_name(name: &str) -> bool {
    let is_inner = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_'
    };
    name.len() <= PLAN_NAME_BYTES_MAX
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && name.bytes().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_plans_are_the_contracts() {
        let plans = Plans::built_in();
        let plan = |name: &str| plans.find(name).unwrap();
        let free = plan("free");
        for (family, tool, has) in [
            ("tenant", "tenant_info", true),
            ("recall", "brain_recall", true),
            ("items", "brain_remember", true),
            ("recall", "retrieval_arbitrate_tool", false),
            ("recall", "search", false),
        ] {
            assert_eq!(free.has_tool(family, tool), has, "{tool}");
            assert!(plan("team").has_tool(family, tool) && plan("operator").has_tool(family, tool));
        }
        assert_eq!((free.calls_per_month, plan("team").calls_per_month), (Some(1_000), None));
        assert!(!free.may_write(false) && free.may_write(true) && plan("team").may_write(false));
        assert!(!plan("team").has_tool("bench", "brain_runtime_check"));
        assert!(plan("operator").has_tool("bench", "brain_runtime_check"));
        for scope in [Scope::AuditRead, Scope::BenchRun] {
            assert!(!plan("team").may_grant(scope) && plan("operator").may_grant(scope));
        }
        assert!(plan("team").may_grant(Scope::IdentityAssert));
        let usual = Rate::new(20, Duration::from_secs(1), 60);
        assert!(usual.is_some() && free.rate == usual && plan("team").rate == usual);
        assert_eq!(plan("operator").rate, None);
    }

    #[test]
    fn names_of_plans_are_plain_and_there_are_not_too_many() {
        for (name, is) in [
            ("team", true),
            ("team-2_x", true),
            ("", false),
            ("Team", false),
            ("2team", false),
            ("te am", false),
            (&"p".repeat(PLAN_NAME_BYTES_MAX + 1), false),
        ] {
            assert_eq!(is_plan_name(name), is, "{name}");
        }
        let mut plans = Plans::built_in();
        for number in 3..PLANS_MAX {
            plans.put(&format!("plan-{number}"), Plan::bare()).unwrap();
        }
        assert_eq!(plans.put("one-more", Plan::bare()), Err(TooManyPlans));
        assert_eq!(plans.put("team", Plan::bare()), Ok(()));
        assert_eq!(plans.iter().count(), PLANS_MAX);
    }
}
