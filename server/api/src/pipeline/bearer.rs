//! Lookup of a tenant's bearer: an access token, or an API key.
//!
//! Maps a presented credential to a [`Caller`]. Reads the metastore on every request, so that a revocation takes effect
//! immediately.

use std::sync::Arc;

use engine::Micros;

use crate::app_state::AppState;
use recalld_auth::token::TokenRefusal;
use recalld_cluster::control_chain::CaughtUp;
use recalld_common::scope::Scope;
use recalld_metastore::{ControlError, CredentialFault, Hold, Kind, StandingFault, Tenant};
use recalld_oauth::authority::{Authority, NoToken};
use recalld_policy::identity::Turn;
use recalld_policy::rate::key_of;
use recalld_policy::{Caller, Credential, Metered, Token};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Reason for rejecting a bearer.
#[derive(Debug)]
pub(super) enum NoCaller {
    /// No credential of ours, or issued for another purpose; the response does not reveal which. Counts as a failed
    /// credential.
    Wrong,
    /// An access token of ours outside its period of validity, by its own claims. Does not count as a failed
    /// credential, and no other node knows better.
    OutOfTime,
    /// A credential of ours that has ended or was revoked. Does not count as a failed credential.
    Ended,
    /// A credential of ours whose grant or credential is not on record. Does not count as a failed credential.
    NotHere,
    /// The workspace is suspended.
    Suspended,
    /// The credential cannot be checked now.
    Unavailable,
}

/// Returns the caller of an access token or an API key. `takes_tokens` is true if the route is the resource for which
/// access tokens are issued.
///
/// An unknown credential may have been issued on another node a moment ago, so it triggers one catch-up with the
/// leader. If the catch-up fails, the result is [`NoCaller::Unavailable`] (NOD-30). `may_guess` returns true if the
/// client has failed attempts left: a catch-up occupies a worker, which a series of guesses must not do.
pub(super) fn caller(
    parts: &AppState,
    presented: &str,
    takes_tokens: bool,
    may_guess: impl FnOnce() -> bool,
) -> Result<Caller, NoCaller> {
    let found = caller_here(parts, presented, takes_tokens);
    match &parts.control_chain {
        Some(chain) if is_looked_for(&found, may_guess) => {
            settled(chain.catch_up(), found, || caller_here(parts, presented, takes_tokens))
        }
        _ => found,
    }
}

/// Returns true if another node may know better.
fn is_looked_for<T>(found: &Result<T, NoCaller>, may_guess: impl FnOnce() -> bool) -> bool {
    match found {
        Err(NoCaller::Ended | NoCaller::NotHere) => true,
        Err(NoCaller::Wrong) => may_guess(),
        Err(NoCaller::OutOfTime | NoCaller::Suspended | NoCaller::Unavailable) | Ok(_) => false,
    }
}

/// Returns the result after the catch-up. If the catch-up failed, an ended credential stays ended.
fn settled<T>(
    caught_up: CaughtUp,
    found: Result<T, NoCaller>,
    again: impl FnOnce() -> Result<T, NoCaller>,
) -> Result<T, NoCaller> {
    match (caught_up, &found) {
        // `Needless` repeats the lookup too: a node that became the leader a moment ago may know more now.
        (CaughtUp::Here | CaughtUp::Needless, _) => again(),
        (CaughtUp::Unknown, Err(NoCaller::Wrong | NoCaller::NotHere)) => Err(NoCaller::Unavailable),
        (CaughtUp::Unknown, _) => found,
    }
}

fn caller_here(parts: &AppState, presented: &str, takes_tokens: bool) -> Result<Caller, NoCaller> {
    match &parts.authority {
        // An API key contains no dot, and an access token contains two.
        Some(authority) if presented.contains('.') && takes_tokens => {
            of_token(parts, authority, presented)
        }
        _ => of_key(parts, presented),
    }
}

fn of_token(parts: &AppState, authority: &Authority, token: &str) -> Result<Caller, NoCaller> {
    let claims = authority.claims(&parts.control, token, parts.clock.now());
    let claims = claims.map_err(|why| of_no_token(parts, why))?;
    let (workspace, sid) = (&claims.workspace, &claims.hangs_on);
    let standing = parts.control.standing(workspace, sid, &claims.id, claims.issued_at);
    let standing = standing.map_err(|fault| of_standing(parts, fault))?;
    let scopes = claims.scope.split(' ');
    let subject = claims.subject.clone();
    let shown = Shown {
        principal: subject.clone(),
        subject: Some(subject),
        id: sid,
        // All sign-ins with one credential share the rate of that credential.
        counts_for: match &standing.hold {
            Hold::Grant(grant) => &grant.credential,
            Hold::Credential(credential) => &credential.id,
        },
        issued_at: claims.issued_at,
        token: Some(Token {
            id: claims.id.clone(),
            issued_at: claims.issued_at,
            expires_at: claims.expires_at,
        }),
    };
    of_tenant(parts, &standing.tenant, shown, scopes)
}

fn of_key(parts: &AppState, key: &str) -> Result<Caller, NoCaller> {
    let found = parts.control.find_credential(key.as_bytes(), &[Kind::Bearer, Kind::User]);
    let (credential, tenant) = found.map_err(|fault| of_credential(parts, fault))?;
    let scopes = credential.scopes.iter().map(String::as_str);
    // A key without a name has no subject (GOV-30).
    let principal = credential.principal();
    let subject = credential.name.is_some().then(|| principal.clone());
    let (id, issued_at) = (&*credential.id, credential.made_at);
    let shown = Shown { principal, subject, id, counts_for: id, issued_at, token: None };
    of_tenant(parts, &tenant, shown, scopes)
}

/// Claims of a presented credential about its caller.
struct Shown<'a> {
    principal: String,
    /// The person for whom the credential was issued, if any.
    subject: Option<String>,
    /// Id of the grant or credential on which the validity depends.
    id: &'a str,
    /// Id of the credential whose rate limit applies.
    counts_for: &'a str,
    /// In seconds since 1970.
    issued_at: u64,
    /// Set for an access token.
    token: Option<Token>,
}

fn of_tenant<'a>(
    parts: &AppState,
    tenant: &Tenant,
    Shown { principal, subject, id, counts_for, issued_at, token }: Shown<'_>,
    scopes: impl Iterator<Item = &'a str>,
) -> Result<Caller, NoCaller> {
    let Some(plan) = parts.config.plans.find(&tenant.plan) else {
        let why = format!("{} has the plan {:?}", tenant.slug, tenant.plan);
        parts.said.say("a workspace has a plan that the settings do not know", &why);
        return Err(NoCaller::Unavailable);
    };
    let granted: Vec<&str> = scopes.collect();
    let has = |scope: &Scope| granted.contains(&scope.name()) && plan.may_grant(*scope);
    let scopes: Vec<Scope> = Scope::ALL.iter().copied().filter(has).collect();
    let may_assert = scopes.contains(&Scope::IdentityAssert);
    Ok(Caller {
        workspace: tenant.slug.clone(),
        principal,
        plan: tenant.plan.clone(),
        entitled: Arc::clone(plan),
        scopes,
        judged: Arc::default(),
        metered: Some(Metered {
            bucket: key_of(format!("{}/{counts_for}", tenant.slug).as_bytes()),
            calls_per_month: tenant.calls_per_month.or(plan.calls_per_month),
            may_write: plan.may_write(tenant.email_verified_at.is_some()),
        }),
        credential: Some(Credential { issued_at: micros(issued_at), hold: id.to_owned(), token }),
        turn: Turn::of(parts.config.identity, subject, may_assert),
    })
}

fn micros(seconds: u64) -> Micros {
    Micros(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000))
}

/// Logs a fault of the metastore for the operator. The response to the caller names no file.
fn unavailable(parts: &AppState, error: &ControlError) -> NoCaller {
    parts.said.say("a credential could not be looked up", &error.to_string());
    NoCaller::Unavailable
}

/// Maps the rejection of an access token.
fn of_no_token(parts: &AppState, why: NoToken) -> NoCaller {
    match why {
        NoToken::Refused(refusal) => {
            let reason: &str = TokenRefusal::reason(&refusal);
            let fields = [("reason", Value::Text(&reason))];
            log::event(Level::Debug, "an access token was refused", &fields);
            // Times are checked after the signature (ATT-04, ATT-07), so the token is ours.
            match refusal {
                TokenRefusal::Expired | TokenRefusal::NotYet => NoCaller::OutOfTime,
                _ => NoCaller::Wrong,
            }
        }
        NoToken::Unavailable(error) => unavailable(parts, &error),
    }
}

fn of_standing(parts: &AppState, fault: StandingFault) -> NoCaller {
    match fault {
        StandingFault::Suspended => NoCaller::Suspended,
        StandingFault::Unknown | StandingFault::NotHere => NoCaller::NotHere,
        StandingFault::Control(error) if error.is_fault() => unavailable(parts, &error),
        _ => NoCaller::Ended,
    }
}

fn of_credential(parts: &AppState, fault: CredentialFault) -> NoCaller {
    match fault {
        CredentialFault::Suspended => NoCaller::Suspended,
        CredentialFault::Control(error) if error.is_fault() => unavailable(parts, &error),
        CredentialFault::Unknown => NoCaller::Wrong,
        // An ended credential of ours is no failed credential (GOV-04): its owner must learn that it has ended.
        _ => NoCaller::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_look_can_change_and_guesses_without_end_are_not_looked_for() {
        let looked_for = |why, may_guess| is_looked_for::<()>(&Err(why), || may_guess);
        assert!(looked_for(NoCaller::Wrong, true) && !looked_for(NoCaller::Wrong, false));
        for why in [NoCaller::Ended, NoCaller::NotHere] {
            assert!(looked_for(why, false), "it is one of ours, and no guess");
        }
        for why in [NoCaller::OutOfTime, NoCaller::Suspended, NoCaller::Unavailable] {
            assert!(!looked_for(why, true));
        }
        assert!(!is_looked_for(&Ok(()), || true));
    }

    #[test]
    fn what_is_not_known_here_is_refused_only_by_a_node_that_knows_all() {
        type Found = Result<(), NoCaller>;
        let after = |caught_up, found: Found| settled(caught_up, found, || Ok(()));
        for caught_up in [CaughtUp::Here, CaughtUp::Needless] {
            for found in [NoCaller::Wrong, NoCaller::NotHere, NoCaller::Ended] {
                assert!(after(caught_up, Err(found)).is_ok(), "what is here now counts");
            }
        }
        for found in [NoCaller::Wrong, NoCaller::NotHere] {
            let told = after(CaughtUp::Unknown, Err(found));
            assert!(matches!(told, Err(NoCaller::Unavailable)));
        }
        let told = after(CaughtUp::Unknown, Err(NoCaller::Ended));
        assert!(matches!(told, Err(NoCaller::Ended)));
    }
}
