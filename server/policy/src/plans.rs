//! Plans: the tools, scopes, monthly quota and rate of a workspace. Defines the three built-in plans.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::rate::Rate;
use recalld_common::scope::Scope;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of plans of an installation.
    pub const PLANS_MAX: usize = 64;

    /// Longest plan name in bytes.
    pub const PLAN_NAME_BYTES_MAX: usize = 32;

    /// Default rate of a plan: calls per second, and burst.
    const RATE_CALLS: u32 = 20;
    const RATE_BURST: u32 = 60;

    /// Monthly quota of calls in the free plan.
    const FREE_CALLS_PER_MONTH: u64 = 1_000;
}

/// Name of the plan of the operator's own workspace; not changeable by settings.
pub const OPERATOR: &str = "operator";

/// The only tools of the free plan.
pub const FREE_TOOLS: [&str; 3] = ["tenant_info", "brain_recall", "brain_remember"];

/// All tool families a plan may name, in catalog order. Some have no tools in this build yet.
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

/// The tools of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tools {
    /// All tools of these families.
    Families(Vec<&'static str>),
    /// Exactly these tools.
    Named(Vec<&'static str>),
}

/// The entitlements of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Available tools. Any other tool does not exist for the workspace.
    pub tools: Tools,
    /// The scopes that can be granted to its credentials.
    pub scopes: Vec<Scope>,
    /// Quota of calls per calendar month; `None` for unlimited. Calls are counted in both cases.
    pub calls_per_month: Option<u64>,
    /// Rate limit of each credential; `None` for unlimited.
    pub rate: Option<Rate>,
    /// True if writes require a verified e-mail address of the workspace.
    pub writes_need_verified_email: bool,
}

impl Plan {
    /// Returns true if the plan has this tool of this family.
    pub fn has_tool(&self, family: &str, tool: &str) -> bool {
        match &self.tools {
            Tools::Families(names) => names.contains(&family),
            Tools::Named(names) => names.contains(&tool),
        }
    }

    /// Returns true if credentials may be granted `scope`.
    pub fn may_grant(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Returns true if a workspace may write.
    pub fn may_write(&self, is_email_verified: bool) -> bool {
        is_email_verified || !self.writes_need_verified_email
    }

    /// The local operator's plan: every tool and scope, no limits.
    pub fn operators() -> Arc<Self> {
        Arc::new(Self {
            tools: Tools::Families(FAMILY_NAMES.to_vec()),
            scopes: Scope::ALL.to_vec(),
            rate: None,
            ..Self::bare()
        })
    }

    /// An empty plan: no tools, no scopes, the default rate.
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

/// All plans, by name.
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
    /// The built-in plans `free`, `team` and `operator`.
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

    /// Adds or replaces a plan. Names are validated where they are parsed ([`is_plan_name`]).
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

    /// Looks up a plan by name.
    pub fn find(&self, name: &str) -> Option<&Arc<Plan>> {
        self.plans.get(name)
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.plans.keys().map(String::as_str).collect()
    }

    /// All plans, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Plan)> {
        self.plans.iter().map(|(name, plan)| (name.as_str(), &**plan))
    }
}

/// There are [`PLANS_MAX`] plans already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyPlans;

/// Returns true for a valid plan name: a lower-case letter, then lower-case letters, digits, `-` and `_`, at most
/// [`PLAN_NAME_BYTES_MAX`] bytes.
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
