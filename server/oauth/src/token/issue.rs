//! Issues an access token: audit entry, signature and response.

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

/// Operation of the audit entry.
const OPERATION: &str = "oauth/token";
/// Random bytes of a token id (`jti`).
const ID_BYTES: usize = 16;

/// Parameters of a token to be issued.
pub(super) struct Making<'a> {
    pub(super) grant_type: &'static str,
    pub(super) workspace: &'a Lease,
    pub(super) client: &'a str,
    pub(super) principal: &'a str,
    pub(super) granted: Scopes,
}

/// The stored grant or credential behind a token.
pub(super) struct Given<'a> {
    /// Session id (`sid`): the id of the grant or credential, with which the token becomes inactive.
    pub(super) hangs_on: &'a str,
    /// Expiry of the grant or credential in seconds since the Unix epoch; `None` for none.
    pub(super) ends_at: Option<u64>,
    /// The next refresh token.
    pub(super) refresh: Option<&'a Secret>,
}

impl Asked<'_> {
    /// Looks up the workspace of a code or token.
    ///
    /// # Errors
    /// `invalid_grant` for a deleted workspace, or the control store failed.
    pub(super) fn tenant(&self, slug: &str) -> Result<Tenant, OAuthError> {
        let found = self.context.control.find_tenant(slug).map_err(|_| unavailable())?;
        let found = found.filter(|tenant| tenant.state != TenantState::Deleted);
        found.ok_or_else(|| invalid_grant("the workspace is deleted"))
    }

    /// Opens the workspace and checks its ledger before anything is spent: no token is issued without an audit entry.
    /// If the workspace's data is missing, the error is transient, so that clients do not discard their tokens.
    ///
    /// # Errors
    /// The workspace cannot be opened now, or its ledger accepts no entries.
    pub(super) fn open(&self, tenant: &Tenant) -> Result<Lease, OAuthError> {
        match self.context.tenants.open(&tenant.slug) {
            Ok(lease) if lease.audit.failure().is_none() => Ok(lease),
            Ok(_) | Err(_) => Err(unavailable()),
        }
    }

    /// The subset of these scopes that a workspace's plan allows.
    pub(super) fn under_plan<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        tenant: &Tenant,
    ) -> Result<Scopes, OAuthError> {
        let plan = self.context.config.plans.find(&tenant.plan).ok_or_else(unavailable)?;
        Ok(names.filter_map(Scope::of).filter(|scope| plan.may_grant(*scope)).collect())
    }

    /// The scopes to grant under the workspace's plan; checked before anything is spent.
    ///
    /// # Errors
    /// `invalid_scope` if no scope remains, or the plan is unknown.
    pub(super) fn left(&self, names: &[String], tenant: &Tenant) -> Result<Scopes, OAuthError> {
        let names = || names.iter().map(String::as_str);
        let had: Scopes = names().filter_map(Scope::of).collect();
        had.granted(&self.under_plan(names(), tenant)?)
    }

    /// Limits token requests per credential to its rate of calls, with a bucket of their own: token requests do not
    /// reduce the calls.
    pub(super) fn slow(&self, tenant: &Tenant, credential: &str) -> Result<(), NoAnswer> {
        slow(self.context, tenant, credential)
    }

    /// Records the issuance durably, before anything is spent: a failing ledger costs nobody a code or refresh token.
    /// Also loads the signing keys, so that issuing cannot fail for lack of them afterwards.
    ///
    /// # Errors
    /// No token can be issued now.
    pub(super) fn announce(&self, making: &Making<'_>) -> Result<(), OAuthError> {
        let keys = self.authority.with_public(self.context.control, |_| ());
        keys.map_err(|_| unavailable())?;
        self.record(making, Outcome::Done).map_err(|_| unavailable())
    }

    /// Records the replay of a code or refresh token durably.
    ///
    /// # Errors
    /// The ledger accepts no entry.
    pub(super) fn record_replay(&self, making: &Making<'_>) -> Result<(), OAuthError> {
        self.record(making, Outcome::Refused).map_err(|_| unavailable())
    }

    /// Records that a recorded issuance failed: a concurrent request was faster, or the control store failed.
    pub(super) fn record_failure(&self, making: &Making<'_>) {
        if let Err(why) = self.record(making, Outcome::Failed) {
            let fields =
                [("workspace", Value::Text(&making.workspace.name)), ("why", Value::Text(&why))];
            let what = "no token was given, and the ledger says that one was";
            log::event(Level::Error, what, &fields);
        }
    }

    /// Signs the token and builds the response.
    ///
    /// # Errors
    /// The signing keys are not loaded.
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

/// Audit rule: a replayed code or refresh token revoked its grant.
const REPLAYED: &str = "fixed/replayed";
