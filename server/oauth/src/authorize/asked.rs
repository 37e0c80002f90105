//! An authorization request, checked.
//!
//! Owns the order: first who asks and where the answer goes, which are told on a page where they are wrong, since
//! nobody may be sent to an address that its client never named; then all else, which the client is told.

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

/// Requests that come by another way (RFC 9101): they would be taken for something that they are not if these were
/// ignored.
const BY_ANOTHER_WAY: [(&str, ErrorCode); 2] = [
    ("request", ErrorCode::RequestNotSupported),
    ("request_uri", ErrorCode::RequestUriNotSupported),
];

/// A request that may be shown to a person.
pub(super) struct Asked {
    /// Who asks.
    pub client: KnownClient,
    /// Where the answer goes.
    pub back: Back,
    /// The same, as people are told it.
    pub destination: Destination,
    /// For what.
    pub wanted: Wanted,
}

/// When a request is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Nobody has seen it yet.
    BeforePerson,
    /// A person has decided on it.
    Decided,
}

/// What is asked for.
pub(super) struct Wanted {
    /// What whoever redeems the code must know the origin of.
    pub challenge: Challenge,
    /// Where the tokens are to be good.
    pub resource: String,
    /// What for.
    pub scopes: Scopes,
}

impl Asked {
    /// Reads the query of an authorization request that `peer` sent.
    ///
    /// # Errors
    /// What is wrong with it, and whom to tell.
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
        // Of two states nothing tells which one is the client's.
        let state = form.once("state").ok().flatten().map(str::to_owned);
        let back = Back { redirect, state };
        match Wanted::read(authority, &form) {
            Ok(wanted) => Ok(Self { client, back, destination, wanted }),
            Err(error) => {
                let issuer = authority.places.issuer();
                // Anybody registers any address: nobody is sent there before a person decided (OAU-53).
                let is_known = client.was_used || back.redirect.is_loopback();
                Err(match moment {
                    Moment::BeforePerson if !is_known => back.offered(&error, issuer, destination),
                    Moment::BeforePerson | Moment::Decided => back.refused(&error, issuer),
                })
            }
        }
    }

    /// What people know the client by.
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

/// The redirect URI that is presented, where it is one of the client's. It may be left out where there is one.
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
