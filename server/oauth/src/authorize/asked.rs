//! Parses and validates an authorization request.
//!
//! Client and redirect URI are checked first. Their errors are shown on a page, as nobody may be redirected to an
//! address that the client never registered. All later errors are reported to the client.

use std::net::IpAddr;

use super::answer::{Back, Refused, unavailable};
use crate::authority::Authority;
use crate::client_document::DocumentFault;
use crate::context::OAuthContext;
use crate::error::{ErrorCode, OAuthError};
use crate::form::Form;
use crate::known_client::{ClientTrouble, KnownClient, known_client};
use crate::pages::{Destination, Problem};
use crate::pkce::Challenge;
use crate::redirect::Redirect;
use crate::scopes::Scopes;

/// Request object parameters (RFC 9101). Ignoring a request object would change the meaning of the request.
const BY_ANOTHER_WAY: [(&str, ErrorCode); 2] = [
    ("request", ErrorCode::RequestNotSupported),
    ("request_uri", ErrorCode::RequestUriNotSupported),
];

/// A valid authorization request.
pub(super) struct Asked {
    /// The requesting client.
    pub client: KnownClient,
    /// Target of the response.
    pub back: Back,
    /// The target, as shown to the person.
    pub destination: Destination,
    /// The requested scopes, resource and PKCE challenge.
    pub wanted: Wanted,
}

/// Stage at which a request is parsed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before any person has seen the request.
    BeforePerson,
    /// After a person has decided.
    Decided,
}

/// The requested access.
pub(super) struct Wanted {
    /// PKCE challenge for which the redeemer of the code must present the verifier.
    pub challenge: Challenge,
    /// Resource indicator: the audience of the tokens.
    pub resource: String,
    /// The requested scopes.
    pub scopes: Scopes,
}

impl Asked {
    /// Parses the query of an authorization request sent by `peer`.
    ///
    /// # Errors
    /// The first violation, and the recipient of its report.
    pub(super) fn read(
        context: &OAuthContext<'_>,
        authority: &Authority,
        (query, peer): (Option<&str>, IpAddr),
        moment: Moment,
    ) -> Result<Self, Refused> {
        let form = Form::of_query(query).map_err(|_| Problem::BadRequest)?;
        let client = client(context, authority, &form, peer)?;
        let redirect = redirect(&client, &form)?;
        let destination = Destination::of(redirect.text()).ok_or(Problem::UnknownRedirect)?;
        // If `state` occurs twice, the client's own value is unknown, so no `state` is returned.
        let state = form.once("state").ok().flatten().map(str::to_owned);
        let back = Back { redirect, state };
        match Wanted::read(authority, &form) {
            Ok(wanted) => Ok(Self { client, back, destination, wanted }),
            Err(error) => {
                let issuer = authority.places.issuer();
                // Anybody can register any address: no automatic redirect to an unused client before a person decided
                // (OAU-53).
                let is_known = client.was_used || back.redirect.is_loopback();
                Err(match moment {
                    Moment::BeforePerson if !is_known => back.offered(&error, issuer, destination),
                    Moment::BeforePerson | Moment::Decided => back.refused(&error, issuer),
                })
            }
        }
    }

    /// Display name of the client: its name, else its host, else the host of the redirect URI.
    pub(super) fn name(&self) -> String {
        let name = self.client.name.clone().or_else(|| self.client.host.clone());
        name.unwrap_or_else(|| self.back.redirect.place())
    }
}

impl Wanted {
    fn read(authority: &Authority, form: &Form) -> Result<Self, OAuthError> {
        form.each_once()?;
        if let Some((name, code)) = BY_ANOTHER_WAY.iter().find(|(name, _)| form.get(name).is_some())
        {
            return Err(OAuthError::new(
                *code,
                &format!("{name} is not taken; send the parameters"),
            ));
        }
        if form.need("response_type")? != "code" {
            let said = "response_type must be code";
            return Err(OAuthError::new(ErrorCode::UnsupportedResponseType, said));
        }
        if form.get("response_mode").is_some_and(|mode| mode != "query") {
            let said = "response_mode must be query, or not be there";
            return Err(OAuthError::new(ErrorCode::InvalidRequest, said));
        }
        let challenge = Challenge::of_request(form)?;
        let resource = authority.places.asked(form.get("resource"))?.to_owned();
        let scopes = form.get("scope").map_or_else(|| Ok(Scopes::everyday()), Scopes::parse)?;
        Ok(Self { challenge, resource, scopes })
    }
}

fn client(
    context: &OAuthContext<'_>,
    authority: &Authority,
    form: &Form,
    peer: IpAddr,
) -> Result<KnownClient, Problem> {
    let id = form.need("client_id").map_err(|_| Problem::BadRequest)?;
    known_client(context, authority, (id, peer)).map_err(|trouble| match trouble {
        trouble if trouble.is_passing() => unavailable(),
        ClientTrouble::Document(DocumentFault::Uri(_) | DocumentFault::NotADocument(_)) => {
            Problem::UnknownClient
        }
        ClientTrouble::Document(_) => Problem::ClientUnreadable,
        _ => Problem::UnknownClient,
    })
}

/// The presented redirect URI if registered by the client. If the client has a single redirect URI, the parameter may
/// be omitted.
fn redirect(client: &KnownClient, form: &Form) -> Result<Redirect, Problem> {
    let presented = form.once("redirect_uri").map_err(|_| Problem::BadRequest)?;
    match (presented, &*client.redirects) {
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Problem::BadRequest),
        (Some(presented), registered) => {
            let is_met = registered.iter().any(|one| one.is_met_by(presented));
            let redirect = Redirect::parse(presented).ok().filter(|_| is_met);
            redirect.ok_or(Problem::UnknownRedirect)
        }
    }
}
