//! An access token, its entry in the ledger, and the answer that carries it.

use engine::hex;
use engine::ledger::{Decision, Outcome};
use serde_json::json;

use super::asked::Asked;
use crate::asker::{NoAnswer, invalid_grant, slow, unavailable};
use crate::authority::seconds;
use crate::error::{OAuthError, untold};
use crate::scopes::Scopes;
use recalld_audit::BY_SCOPE;
use recalld_audit::{Trace, Unrecorded, hash_call};
use recalld_auth::token::Claims;
use recalld_common::scope::Scope;
use recalld_common::secret::Secret;
use recalld_http_server::Response;
use recalld_metastore::{Tenant, TenantState};
use recalld_policy::identity::in_ledger;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};
use recalld_workspace::tenants::Lease;

/// The operation in the ledger.
const OPERATION: &str = "oauth/token";
/// Random bytes of a token's id.
const ID_BYTES: usize = 16;

/// A token that is to be made.
pub(super) struct Making<'a> {
    pub(super) grant_type: &'static str,
    pub(super) workspace: &'a Lease,
    pub(super) client: &'a str,
    pub(super) principal: &'a str,
    pub(super) granted: Scopes,
}

/// What was put on record for it.
pub(super) struct Given<'a> {
    /// The grant or credential that it ends with.
    pub(super) hangs_on: &'a str,
    /// When that is over, in seconds since 1970, if it ever is.
    pub(super) ends_at: Option<u64>,
    /// What the next token is had with.
    pub(super) refresh: Option<&'a Secret>,
}

impl Asked<'_> {
    /// The workspace of a code or token.
    ///
    /// # Errors
    /// It is deleted: nothing of it is good any more. Or it cannot be known now.
    pub(super) fn tenant(&self, slug: &str) -> Result<Tenant, OAuthError> {
        let found = self.context.control.find_tenant(slug).map_err(|_| unavailable())?;
        let found = found.filter(|tenant| tenant.state != TenantState::Deleted);
        found.ok_or_else(|| invalid_grant("the workspace is deleted"))
    }

    /// A workspace whose ledger takes entries: looked at before anything is spent, since no token leaves without its
    /// entry. One whose data is gone from its place is no reason for a client to throw its tokens away.
    ///
    /// # Errors
    /// It cannot be opened now, or its ledger takes none.
    pub(super) fn open(&self, tenant: &Tenant) -> Result<Lease, OAuthError> {
        match self.context.tenants.open(&tenant.slug) {
            Ok(lease) if lease.audit.failure().is_none() => Ok(lease),
            Ok(_) | Err(_) => Err(unavailable()),
        }
    }

    /// What is left of these scopes under a workspace's plan.
    pub(super) fn under_plan<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        tenant: &Tenant,
    ) -> Result<Scopes, OAuthError> {
        let plan = self.context.config.plans.find(&tenant.plan).ok_or_else(unavailable)?;
        Ok(names.filter_map(Scope::of).filter(|scope| plan.may_grant(*scope)).collect())
    }

    /// What of these may be had under the plan of a workspace: looked at before anything is spent.
    ///
    /// # Errors
    /// `invalid_scope` where nothing is left; or it cannot be known now.
    pub(super) fn left(&self, names: &[String], tenant: &Tenant) -> Result<Scopes, OAuthError> {
        let names = || names.iter().map(String::as_str);
        let had: Scopes = names().filter_map(Scope::of).collect();
        had.granted(&self.under_plan(names(), tenant)?)
    }

    /// Tokens for a credential are asked for no more often than calls with it; that they are takes nothing from those.
    pub(super) fn slow(&self, tenant: &Tenant, credential: &str) -> Result<(), NoAnswer> {
        slow(self.context, tenant, credential)
    }

    /// Leaves the entry of a token, on disk when this returns: before anything is spent, so that a ledger that fails
    /// costs nobody a code or a refresh token. What is needed to make it is there from here on.
    ///
    /// # Errors
    /// No token can be made now.
    pub(super) fn announce(&self, making: &Making<'_>) -> Result<(), OAuthError> {
        let keys = self.authority.with_public(self.context.control, |_| ());
        keys.map_err(|_| unavailable())?;
        self.record(making, Outcome::Done).map_err(|_| unavailable())
    }

    /// Leaves the entry of a code or refresh token that was used before, on disk when this returns.
    ///
    /// # Errors
    /// The ledger takes none.
    pub(super) fn record_replay(&self, making: &Making<'_>) -> Result<(), OAuthError> {
        self.record(making, Outcome::Refused).map_err(|_| unavailable())
    }

    /// Says that nothing came of what was announced: somebody was quicker, or the control store failed.
    pub(super) fn record_failure(&self, making: &Making<'_>) {
        if let Err(why) = self.record(making, Outcome::Failed) {
            let fields =
                [("workspace", Value::Text(&making.workspace.name)), ("why", Value::Text(&why))];
            let what = "no token was given, and the ledger says that one was";
            log::event(Level::Error, what, &fields);
        }
    }

    /// Makes the token and answers.
    ///
    /// # Errors
    /// The keys that sign are not known.
    pub(super) fn give(
        &self,
        making: &Making<'_>,
        given: &Given<'_>,
    ) -> Result<Response, OAuthError> {
        let now = seconds(self.context.clock.now());
        let left = given.ends_at.map_or(u64::MAX, |end| end.saturating_sub(now));
        let lives = self.context.config.oauth.access_token_seconds.min(left);
        let token = self.mint(making, given.hangs_on, (now, lives))?;
        let mut body = json!({
            "access_token": token, "token_type": "Bearer", "expires_in": lives,
            "scope": making.granted.to_string(),
        });
        if let Some(refresh) = given.refresh {
            body["refresh_token"] = refresh.expose().into();
        }
        Ok(untold(Response::json(200, body.to_string().into_bytes())))
    }

    fn mint(
        &self,
        making: &Making<'_>,
        hangs_on: &str,
        (issued_at, lives): (u64, u64),
    ) -> Result<String, OAuthError> {
        let mut id = [0; ID_BYTES];
        self.context.random.fill(&mut id);
        let claims = Claims {
            audience: self.authority.places.resource().to_owned(),
            client: making.client.to_owned(),
            expires_at: issued_at + lives,
            issued_at,
            issuer: self.authority.places.issuer().to_owned(),
            id: hex(&id),
            scope: making.granted.to_string(),
            hangs_on: hangs_on.to_owned(),
            subject: making.principal.to_owned(),
            workspace: making.workspace.name.clone(),
        };
        self.authority.mint(self.context.control, &claims).map_err(|_| unavailable())
    }

    fn record(&self, making: &Making<'_>, outcome: Outcome) -> Result<(), Unrecorded> {
        let (decision, rule) = match outcome {
            Outcome::Refused => (Decision::Deny, REPLAYED),
            _ => (Decision::Allow, BY_SCOPE),
        };
        let arguments = json!({
            "grant_type": making.grant_type, "client": making.client,
            "scope": making.granted.to_string(),
        });
        let trace = Trace {
            tool: OPERATION,
            principal: in_ledger(None, making.principal),
            arguments: hash_call(OPERATION, &arguments),
            decision,
            rule: rule.to_owned(),
            touched: Vec::new(),
            outcome,
        };
        making.workspace.audit.record(&trace, true).map(drop)
    }
}

/// The rule's name where a code or refresh token that was used before ends its grant.
const REPLAYED: &str = "fixed/replayed";
