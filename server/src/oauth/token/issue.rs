//! An access token, its entry in the ledger, and the answer that carries it.

use std::time::Instant;

use engine::hex;
use engine::ledger::{Decision, Outcome};
use serde_json::{Value, json};

use super::Asked;
use crate::auth::Secret;
use crate::auth::token::Claims;
use crate::authority::seconds;
use crate::control::{Holder, Tenant};
use crate::govern::rate::key_of;
use crate::govern::{Trace, hash_arguments};
use crate::net::Response;
use crate::oauth::asker::{NoAnswer, unavailable};
use crate::oauth::error::{OAuthError, untold};
use crate::oauth::scopes::Scopes;
use crate::tenants::{Closed, Lease};
use crate::tools::{BY_SCOPE, Scope};

/// The operation in the ledger.
const OPERATION: &str = "oauth/token";
/// Random bytes of a token's id.
const ID_BYTES: usize = 16;

/// What a token is made of.
pub(super) struct Making<'a> {
    pub(super) grant_type: &'static str,
    pub(super) workspace: &'a Lease,
    pub(super) client: &'a str,
    pub(super) principal: &'a str,
    /// The grant or credential that it ends with.
    pub(super) hangs_on: &'a str,
    pub(super) granted: &'a Scopes,
    /// What the next token is had with.
    pub(super) refresh: Option<&'a Secret>,
}

impl Asked<'_> {
    /// A workspace whose ledger takes entries: looked at before anything is spent, since no token leaves without its
    /// entry. `None` where it has no data any more.
    ///
    /// # Errors
    /// It cannot be opened now, or its ledger takes none.
    pub(super) fn open(&self, slug: &str) -> Result<Option<Lease>, OAuthError> {
        match self.parts.tenants.open(slug) {
            Ok(lease) if lease.audit.failure().is_none() => Ok(Some(lease)),
            Err(Closed::Missing) => Ok(None),
            Ok(_) | Err(_) => Err(unavailable()),
        }
    }

    /// What is left of these scopes under a workspace's plan.
    pub(super) fn under_plan<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        tenant: &Tenant,
    ) -> Result<Scopes, OAuthError> {
        let plan = self.parts.config.plans.find(&tenant.plan).ok_or_else(unavailable)?;
        Ok(names.filter_map(Scope::of).filter(|scope| plan.may_grant(*scope)).collect())
    }

    /// What of these a holder may have under the plan of its workspace: looked at before anything is spent.
    ///
    /// # Errors
    /// `invalid_scope` where nothing is left; or it cannot be known now.
    pub(super) fn left(&self, holder: &Holder) -> Result<(), OAuthError> {
        let tenant = self.parts.control.find_tenant(&holder.tenant).map_err(|_| unavailable())?;
        let Some(tenant) = tenant else { return Ok(()) };
        let names = || holder.scopes.iter().map(String::as_str);
        let had: Scopes = names().filter_map(Scope::of).collect();
        had.granted(&self.under_plan(names(), &tenant)?).map(drop)
    }

    /// Tokens for a key are asked for no more often than calls with it.
    pub(super) fn slow(&self, tenant: &Tenant, credential: &str) -> Result<(), NoAnswer> {
        let plan = self.parts.config.plans.find(&tenant.plan).ok_or_else(unavailable)?;
        let Some(rate) = plan.rate else { return Ok(()) };
        let bucket = key_of(format!("{}/{credential}", tenant.slug).as_bytes());
        let taken = self.parts.rates.take(&bucket, rate, Instant::now());
        taken.map_err(|wait| NoAnswer::TooMany(wait.seconds))
    }

    /// Makes the token, leaves its entry, which is on disk before it is given away, and answers.
    pub(super) fn issue(&self, making: &Making<'_>) -> Result<Response, OAuthError> {
        let lives = self.parts.config.oauth.access_token_seconds;
        let token = self.mint(making, lives)?;
        self.record(making.workspace, making.principal, Outcome::Done, &json!({
            "grant_type": making.grant_type, "client": making.client, "scope": making.granted.to_string(),
        }))?;
        let mut body = json!({
            "access_token": token, "token_type": "Bearer", "expires_in": lives,
            "scope": making.granted.to_string(),
        });
        if let Some(refresh) = making.refresh {
            body["refresh_token"] = refresh.expose().into();
        }
        Ok(untold(Response::json(200, body.to_string().into_bytes())))
    }

    fn mint(&self, making: &Making<'_>, lives: u64) -> Result<String, OAuthError> {
        let issued_at = seconds(self.parts.clock.now());
        let mut id = [0; ID_BYTES];
        self.parts.random.fill(&mut id);
        let claims = Claims {
            audience: self.authority.places.resource().to_owned(),
            client: making.client.to_owned(),
            expires_at: issued_at + lives,
            issued_at,
            issuer: self.authority.places.issuer().to_owned(),
            id: hex(&id),
            scope: making.granted.to_string(),
            hangs_on: making.hangs_on.to_owned(),
            subject: making.principal.to_owned(),
            workspace: making.workspace.name.clone(),
        };
        self.authority.mint(&self.parts.control, &claims).map_err(|_| unavailable())
    }

    /// Leaves an entry in the workspace's ledger, on disk when this returns.
    pub(super) fn record(
        &self,
        workspace: &Lease,
        principal: &str,
        outcome: Outcome,
        arguments: &Value,
    ) -> Result<(), OAuthError> {
        let is_done = outcome == Outcome::Done;
        let trace = Trace {
            tool: OPERATION,
            principal: principal.to_owned(),
            arguments: hash_arguments(&json!({"tool": OPERATION, "arguments": arguments})),
            decision: if is_done { Decision::Allow } else { Decision::Deny },
            rule: if is_done { BY_SCOPE } else { REPLAYED }.to_owned(),
            touched: Vec::new(),
            outcome,
        };
        workspace.audit.record(&trace, true).map(drop).map_err(|_| unavailable())
    }
}

/// The rule's name where a code or refresh token that was used before ends its grant.
pub(super) const REPLAYED: &str = "fixed/replayed";
