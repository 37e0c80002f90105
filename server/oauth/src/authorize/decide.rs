//! `POST /authorize`: the person's decision and key.
//!
//! The order of checks is fixed (OAU-44 to OAU-51): origin of the form, seal and browser binding, authorization
//! request, decision, key; then one code per form.

use std::time::{Duration, Instant};

use engine::ledger::{Decision, Outcome};
use serde_json::json;

use super::answer::{Back, Refused, unavailable};
use super::asked::{Asked, Moment};
use super::attempts::{Attempt, OPERATION};
use super::begin::page;
use super::complete::NotBegun;
use crate::authority::Authority;
use crate::context::OAuthContext;
use crate::error::{ErrorCode, OAuthError};
use crate::form::{Form, SIGN_IN_FORM_BYTES_MAX};
use crate::pages::{Browser, Fault, NoBrowser, OpenError, Opened, Problem, Sealed, fields};
use crate::scopes::Scopes;
use recalld_audit::BY_SCOPE;
use recalld_audit::{Trace, hash_call};
use recalld_common::scope::Scope;
use recalld_common::secret::Secret;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Response};
use recalld_metastore::{CodeRequest, Credential, CredentialFault, Kind, SignInError, Tenant};
use recalld_policy::identity::in_ledger;
use recalld_policy::plans::Plan;
use recalld_policy::rate::{Rate, key_of};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Credential kinds accepted for a sign-in.
const KINDS: [Kind; 2] = [Kind::Once, Kind::User];
/// Audit rule: the person denied the request.
const BY_PERSON: &str = "person";
/// Audit rule: the key was invalid.
const BY_CREDENTIAL: &str = "credential";

/// Burst of sign-ins with one key: a person with many clients on the first day.
const SIGN_INS_OF_KEY_BURST: u32 = 30;
/// Burst of sign-ins of one workspace: all its people on the morning after their tokens were revoked.
const SIGN_INS_OF_WORKSPACE_BURST: u32 = 1_000;
/// Refill interval of both bursts, in seconds.
const SIGN_IN_SECONDS: u64 = 10;

/// Handles `POST /authorize`. May fetch a client metadata document: runs on a worker thread.
pub fn decide(context: &OAuthContext<'_>, call: &Call) -> Response {
    let Some(authority) = context.authority else {
        return Refusal::new(404, "Not Found").into();
    };
    let decided = Sent::read(context, authority, call).and_then(|sent| match sent.decision {
        Choice::Refuse => Err(sent.refuse()),
        Choice::Allow => sent.allow(),
    });
    decided.unwrap_or_else(Refused::response)
}

/// A submitted form whose seal, browser binding and request are valid and not yet complete.
struct Sent<'a> {
    context: &'a OAuthContext<'a>,
    authority: &'a Authority,
    form: Form,
    sealed: Sealed,
    opened: Opened,
    asked: Asked,
    decision: Choice,
}

#[derive(Clone, Copy)]
enum Choice {
    Allow,
    Refuse,
}

/// A valid key of the named workspace.
struct Signed<'a> {
    credential: Credential,
    tenant: Tenant,
    plan: &'a Plan,
}

impl<'a> Sent<'a> {
    fn read(
        context: &'a OAuthContext<'a>,
        authority: &'a Authority,
        call: &Call,
    ) -> Result<Self, Refused> {
        let headers = &call.request.headers;
        if !is_from_here(call, authority.places.issuer()) {
            return Err(Problem::Forged.into());
        }
        let types = headers.get_all("content-type");
        let form = Form::of_body_within(types, &call.request.body, SIGN_IN_FORM_BYTES_MAX);
        let form = form.map_err(|_| Problem::BadRequest)?;
        let browser =
            Browser::of(headers, authority.places.has_tls()).map_err(|why| match why {
                NoBrowser::Twice => Problem::CookieTwice,
                NoBrowser::Missing | NoBrowser::Malformed => Problem::OtherBrowser,
            })?;
        let field = |name| form.get(name).unwrap_or_default().to_owned();
        let sealed = Sealed { request: field(fields::REQUEST), csrf: field(fields::CSRF) };
        let now = context.clock.now();
        let opened = authority.sealer.open(&browser, &sealed.request, &sealed.csrf, now);
        let opened = opened.map_err(|why| match why {
            OpenError::Forged => Problem::Forged,
            OpenError::Expired => Problem::Expired,
            OpenError::OtherBrowser => Problem::OtherBrowser,
        })?;
        if authority.complete.has(&opened) {
            return Err(Problem::AlreadyComplete.into());
        }
        let decision = match form.get(fields::DECISION) {
            Some(fields::ALLOW) => Choice::Allow,
            Some(fields::REFUSE) => Choice::Refuse,
            _ => return Err(Problem::BadRequest.into()),
        };
        // Parsed again: client, redirect URIs and settings may have changed since the page was shown.
        let query = (Some(&*opened.parameters), context.client_address);
        let asked = Asked::read(context, authority, query, Moment::Decided)?;
        Ok(Self { context, authority, form, sealed, opened, asked, decision })
    }

    /// Text of a form field, trimmed: pasting adds spaces.
    fn typed(&self, name: &str) -> &str {
        self.form.get(name).unwrap_or_default().trim()
    }

    fn refuse(&self) -> Refused {
        let workspace = self.typed(fields::WORKSPACE);
        // An entry consumes throttle budget, so that nobody can fill another workspace's ledger.
        if !workspace.is_empty() && self.failed(workspace).is_ok() {
            self.note(workspace, BY_PERSON);
        }
        let error = OAuthError::new(ErrorCode::AccessDenied, "the person said no");
        self.asked.back.refused(&error, self.authority.places.issuer())
    }

    fn allow(&self) -> Result<Response, Refused> {
        let (workspace, key) = (self.typed(fields::WORKSPACE), self.typed(fields::KEY));
        match (workspace.is_empty(), key.is_empty()) {
            (true, true) => return Ok(self.again(Fault::Neither)),
            (true, false) => return Ok(self.again(Fault::NoWorkspace)),
            (false, true) => return Ok(self.again(Fault::NoKey)),
            (false, false) => {}
        }
        let Some(signed) = self.signed(workspace, key)? else { return self.wrong(workspace) };
        let issuer = self.authority.places.issuer();
        let granted = self.asked.wanted.scopes.granted(&signed.scopes());
        let granted = granted.map_err(|error| self.asked.back.refused(&error, issuer))?;
        self.limit(&signed)?;
        let open = self.context.tenants.open(&signed.tenant.slug);
        let open = open.map_err(|why| failed("a workspace could not be opened", &why))?;
        self.authority.complete.begin(&self.opened, self.context.clock.now()).map_err(|why| {
            match why {
                NotBegun::Before => Problem::AlreadyComplete,
                NotBegun::Full => unavailable(),
            }
        })?;
        // The audit entry is durable before a one-time key is spent: a failing ledger costs nobody a key.
        let recorded = open.audit.record(&self.trace(&signed, &granted, Outcome::Done), true);
        if let Err(why) = recorded {
            self.authority.complete.give_up(&self.opened);
            return Err(failed("a sign-in could not be recorded", &why).into());
        }
        match self.put_code(&signed, key, &granted) {
            Ok(code) => Ok(self.asked.back.with_code(code.expose(), issuer)),
            Err(why) => {
                self.authority.complete.give_up(&self.opened);
                let came_to_nothing = self.trace(&signed, &granted, Outcome::Failed);
                if let Err(why) = open.audit.record(&came_to_nothing, true) {
                    failed("a sign-in gave no code, and the ledger says that it did", &why);
                }
                self.without_code(workspace, &why)
            }
        }
    }

    /// Looks up the credential of `key`; `None` if the key is not valid in this workspace, for any reason.
    fn signed(&self, workspace: &str, key: &str) -> Result<Option<Signed<'a>>, Refused> {
        let (credential, tenant) =
            match self.context.control.find_credential(key.as_bytes(), &KINDS) {
                Ok(found) => found,
                Err(CredentialFault::Control(why)) if why.is_fault() => {
                    return Err(failed("a key could not be looked up", &why).into());
                }
                Err(_) => return Ok(None),
            };
        if tenant.slug != workspace {
            return Ok(None);
        }
        let Some(plan) = self.context.config.plans.find(&tenant.plan) else {
            let what = "a workspace has a plan that the settings do not know";
            return Err(failed(what, &tenant.slug).into());
        };
        Ok(Some(Signed { credential, tenant, plan }))
    }

    /// Rate-limits sign-ins per key and per workspace: each sign-in is retained for a day, and the store must have room
    /// for all. Calls of the workspace's agents do not count.
    fn limit(&self, signed: &Signed<'_>) -> Result<(), Problem> {
        let Signed { tenant, credential, .. } = signed;
        let every = Duration::from_secs(SIGN_IN_SECONDS);
        for (name, burst) in [
            (format!("sign-in/{}/{}", tenant.slug, credential.id), SIGN_INS_OF_KEY_BURST),
            (format!("sign-in/{}", tenant.slug), SIGN_INS_OF_WORKSPACE_BURST),
        ] {
            let rate = Rate::new(1, every, burst).expect("a rate that can be");
            let taken = self.context.rates.take(&key_of(name.as_bytes()), rate, Instant::now());
            taken.map_err(|wait| Problem::TooMany { wait_seconds: wait.seconds })?;
        }
        Ok(())
    }

    fn put_code(
        &self,
        signed: &Signed<'_>,
        key: &str,
        granted: &Scopes,
    ) -> Result<Secret, SignInError> {
        let Asked { client, back, wanted, .. } = &self.asked;
        let scopes: Vec<String> = granted.iter().map(|scope| scope.name().to_owned()).collect();
        let request = CodeRequest {
            tenant: &signed.tenant.slug,
            key: key.as_bytes(),
            client: &client.id,
            redirect_uri: back.redirect.text(),
            challenge: &wanted.challenge.text(),
            scopes: &scopes,
            resource: &wanted.resource,
        };
        self.context.control.put_code(&request, &self.context.config.oauth.key_prefix)
    }

    /// The response if the code could not be stored although the key was valid a moment before.
    fn without_code(&self, workspace: &str, why: &SignInError) -> Result<Response, Refused> {
        match why {
            SignInError::Key(_) => self.wrong(workspace),
            SignInError::WrongClient => Err(Problem::UnknownClient.into()),
            _ => Err(failed("a code could not be given", why).into()),
        }
    }

    /// Rejects workspace and key together. Neither the message nor the response time reveals which of the two is wrong.
    fn wrong(&self, workspace: &str) -> Result<Response, Refused> {
        // A concurrent submission of the same form spent the one-time key.
        if self.authority.complete.has(&self.opened) {
            return Err(Problem::AlreadyComplete.into());
        }
        self.failed(workspace)?;
        self.note(workspace, BY_CREDENTIAL);
        Ok(self.again(Fault::Refused))
    }

    /// Counts a failed credential against the client address and the named workspace.
    fn failed(&self, workspace: &str) -> Result<(), Problem> {
        let (peer, now) = (self.context.client_address, Instant::now());
        let budget = self.context.guesses.check(peer, Some(workspace), now);
        self.context.guesses.failed(peer, Some(workspace), now);
        budget.map_err(|wait| Problem::TooMany { wait_seconds: wait.seconds })
    }

    fn note(&self, workspace: &str, rule: &'static str) {
        let (workspace, client) = (workspace.to_owned(), self.asked.client.id.clone());
        self.authority.attempts.note(Attempt { workspace, client, rule });
    }

    /// The form with an error. Reuses the seal, so the deadline is not extended.
    fn again(&self, fault: Fault) -> Response {
        page(self.context, &self.asked, &self.sealed, self.typed(fields::WORKSPACE), Some(fault))
    }

    /// The audit entry of a sign-in: principal, client, redirect URI and scopes; all but the principal as a hash.
    fn trace(&self, signed: &Signed<'_>, granted: &Scopes, outcome: Outcome) -> Trace {
        let Back { redirect, .. } = &self.asked.back;
        let arguments = json!({
            "client_id": self.asked.client.id, "redirect_uri": redirect.text(),
            "scope": granted.to_string(),
        });
        Trace {
            tool: OPERATION,
            principal: in_ledger(None, &signed.credential.principal()),
            arguments: hash_call(OPERATION, &arguments),
            decision: Decision::Allow,
            rule: BY_SCOPE.to_owned(),
            touched: Vec::new(),
            outcome,
        }
    }
}

impl Signed<'_> {
    /// The scopes that both the key and the plan of its workspace allow.
    fn scopes(&self) -> Scopes {
        let named = self.credential.scopes.iter().filter_map(|name| Scope::of(name));
        named.filter(|scope| self.plan.may_grant(*scope)).collect()
    }
}

/// Returns true unless `Origin` or `Sec-Fetch-Site` name another origin. `Origin: null` is accepted: browsers send
/// `null` because the page's referrer policy is `no-referrer` (Fetch, "append a request Origin header").
fn is_from_here(call: &Call, issuer: &str) -> bool {
    let headers = &call.request.headers;
    let mut origins = headers.get_all("origin");
    let mut sites = headers.get_all("sec-fetch-site");
    origins.all(|origin| origin == issuer || origin == "null")
        && sites.all(|site| site == "same-origin")
}

/// Logs the cause for the operator. The page shown to the person reveals no internals.
fn failed(what: &'static str, why: &dyn std::fmt::Display) -> Problem {
    log::event(Level::Error, what, &[("why", Value::Text(why))]);
    unavailable()
}
