//! Who calls, and what is counted for it.

use std::sync::{Arc, LazyLock};

use engine::Micros;

use super::identity::{Enforcement, Turn, in_ledger};
use super::plans::{OPERATOR, Plan};
use super::rate::Key;
use super::{Action, Judged, Rules, Verdict, What, Who, decide};
use recalld_common::scope::Scope;

/// Who calls: made by `recalld_api::pipeline` from a credential or from the local listener, and by
/// nothing that stands in a request's body.
#[derive(Debug)]
pub struct Caller {
    /// The workspace.
    pub workspace: String,
    /// The name in ledger entries and policy rules.
    pub principal: String,
    /// The plan's name.
    pub plan: String,
    /// What the workspace is entitled to.
    pub entitled: Arc<Plan>,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// What is counted for it; `None` for the operator of this machine.
    pub metered: Option<Metered>,
    /// What it showed; `None` for the operator, whose credential only a restart changes.
    pub credential: Option<Credential>,
    /// What policy said of classes of items so far.
    pub judged: Arc<Judged>,
    /// For whom it calls this time.
    pub turn: Turn,
}

/// What a caller showed, so that it can be asked again whether it stands.
#[derive(Debug, Clone)]
pub struct Credential {
    /// When it was issued.
    pub issued_at: Micros,
    /// The credential or grant that it is, or hangs on.
    pub hold: String,
    /// Of an access token.
    pub token: Option<Token>,
}

/// What of an access token can end, beside what it hangs on.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its own id.
    pub id: String,
    /// In seconds since 1970.
    pub issued_at: u64,
    /// The first second in which it is not good any more, since 1970.
    pub expires_at: u64,
}

/// What is counted for a caller.
#[derive(Debug, Clone)]
pub struct Metered {
    /// The bucket of its credential.
    pub bucket: Key,
    /// Calls of a calendar month, if that is bounded.
    pub calls_per_month: Option<u64>,
    /// Whether it may write: not before the e-mail address is verified, where the plan wants that.
    pub may_write: bool,
}

impl Caller {
    /// The operator of this machine, on the local listener.
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

    /// The same caller in another turn. What policy said holds there, too: it does not look at turns.
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

    /// What stands in the ledger as the principal of its calls.
    pub fn in_ledger(&self) -> String {
        in_ledger(self.turn.identity().ok().flatten(), &self.principal)
    }

    /// Whether it may write anything at all.
    pub fn may_write(&self) -> bool {
        self.metered.as_ref().is_none_or(|metered| metered.may_write)
    }

    /// Whether it may read the ledger.
    pub fn audits(&self) -> bool {
        self.scopes.contains(&Scope::AuditRead)
    }

    /// What policy says of items like this, and the rule. The rules are asked once for each class of items.
    pub fn judge(&self, rules: &Rules, what: &What<'_>, action: Action) -> (Verdict, Arc<str>) {
        self.judged.of(what, action, || {
            self.as_who(|who| {
                let decision = decide(rules, who, what, action);
                (decision.verdict, Arc::from(decision.rule))
            })
        })
    }

    /// Runs `work` with this caller as policy sees it.
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
