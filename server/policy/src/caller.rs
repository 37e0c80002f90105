//! The caller of a request, with its rate limits and quota.

use std::sync::{Arc, LazyLock};

use engine::Micros;

use super::identity::{Enforcement, Turn, in_ledger};
use super::plans::{OPERATOR, Plan};
use super::rate::Key;
use super::{Action, Judged, Rules, Verdict, What, Who, decide};
use recalld_common::scope::Scope;

/// The authenticated caller. Constructed by `recalld_api::pipeline` from a credential or the local listener, never from
/// a request body.
#[derive(Debug)]
pub struct Caller {
    /// The caller's workspace.
    pub workspace: String,
    /// The name in audit entries and policy rules.
    pub principal: String,
    /// Name of the plan.
    pub plan: String,
    /// Entitlements of the workspace.
    pub entitled: Arc<Plan>,
    /// Granted scopes.
    pub scopes: Vec<Scope>,
    /// Rate limit and quota; `None` for the local operator.
    pub metered: Option<Metered>,
    /// The presented credential; `None` for the operator, whose credential changes only by a restart.
    pub credential: Option<Credential>,
    /// Decision cache: verdicts of this caller by class of items.
    pub judged: Arc<Judged>,
    /// Turn identity of this call.
    pub turn: Turn,
}

/// The presented credential, for repeated token introspection.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Time of issue.
    pub issued_at: Micros,
    /// Session id: the credential or grant behind the call.
    pub hold: String,
    /// The access token, if one was presented.
    pub token: Option<Token>,
}

/// Properties of an access token that can end apart from its session.
#[derive(Debug, Clone)]
pub struct Token {
    /// Id of the token (`jti`).
    pub id: String,
    /// Time of issue in seconds since the Unix epoch.
    pub issued_at: u64,
    /// The first second in which the token is expired, since the Unix epoch.
    pub expires_at: u64,
}

/// Usage limits of a caller.
#[derive(Debug, Clone)]
pub struct Metered {
    /// Bucket key of the credential's rate limit.
    pub bucket: Key,
    /// Quota of calls per calendar month; `None` for unlimited.
    pub calls_per_month: Option<u64>,
    /// True if writes are allowed. If the plan requires a verified e-mail address, false until the verification.
    pub may_write: bool,
}

impl Caller {
    /// The local operator, on the local listener.
    pub fn local_operator(workspace: &str) -> Self {
        static ENTITLED: LazyLock<Arc<Plan>> = LazyLock::new(Plan::operators);
        Self {
            workspace: workspace.to_owned(),
            principal: "operator".to_owned(),
            plan: OPERATOR.to_owned(),
            entitled: Arc::clone(&ENTITLED),
            scopes: Scope::ALL.to_vec(),
            metered: None,
            credential: None,
            judged: Arc::default(),
            turn: Turn::of(Enforcement::Off, None, true),
        }
    }

    /// A copy of this caller with another turn identity. Shares the decision cache, as policy does not depend on the
    /// turn.
    #[must_use]
    pub fn in_turn(&self, turn: Turn) -> Self {
        Self {
            workspace: self.workspace.clone(),
            principal: self.principal.clone(),
            plan: self.plan.clone(),
            entitled: Arc::clone(&self.entitled),
            scopes: self.scopes.clone(),
            metered: self.metered.clone(),
            credential: self.credential.clone(),
            judged: Arc::clone(&self.judged),
            turn,
        }
    }

    /// The principal of this caller's audit entries.
    pub fn in_ledger(&self) -> String {
        in_ledger(self.turn.identity().ok().flatten(), &self.principal)
    }

    /// Returns true if the caller may write at all.
    pub fn may_write(&self) -> bool {
        self.metered.as_ref().is_none_or(|metered| metered.may_write)
    }

    /// Returns true if the caller may read the audit log.
    pub fn audits(&self) -> bool {
        self.scopes.contains(&Scope::AuditRead)
    }

    /// Returns the verdict for an item and the deciding rule. The rules are evaluated once per class of items.
    pub fn judge(&self, rules: &Rules, what: &What<'_>, action: Action) -> (Verdict, Arc<str>) {
        self.judged.of(what, action, || {
            self.as_who(|who| {
                let decision = decide(rules, who, what, action);
                (decision.verdict, Arc::from(decision.rule))
            })
        })
    }

    /// Calls `work` with this caller as a policy subject.
    pub fn as_who<T>(&self, work: impl FnOnce(&Who<'_>) -> T) -> T {
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.name()).collect();
        work(&Who {
            workspace: &self.workspace,
            principal: &self.principal,
            plan: &self.plan,
            scopes: &scopes,
            purpose: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use engine::Sensitivity;

    use super::*;

    #[test]
    fn another_turn_of_a_caller_asks_no_rule_again_and_another_caller_does() {
        let rules = Rules::initial();
        let what = What {
            workspace: "acme",
            kind: "note",
            sensitivity: Sensitivity::Internal,
            gates: &[],
        };
        let caller = Caller::local_operator("acme");
        let said = caller.judge(&rules, &what, Action::Read);
        let turned = caller.in_turn(Turn::of(Enforcement::Record, None, true));
        let known = turned.judged.of(&what, Action::Read, || panic!("the rules are asked again"));
        assert_eq!(known, said);
        let other = Caller { principal: "user:ada".to_owned(), ..Caller::local_operator("acme") };
        let mut asked = false;
        other.judged.of(&what, Action::Read, || {
            asked = true;
            said.clone()
        });
        assert!(asked);
    }
}
