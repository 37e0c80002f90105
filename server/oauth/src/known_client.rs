//! The client of an id: one that registered, or one that is a document of its own.
//!
//! Owns where a client is looked for, for every endpoint that is told of one. Must not know what it asks for, nor
//! how it is answered.

use std::net::IpAddr;

use super::client_auth::{AuthMethod, CLIENT_ID_BYTES_MAX};
use super::client_document::{ClientDocument, ClientUrl, DocumentFault};
use super::error::{ErrorCode, OAuthError};
use super::pages::Destination;
use super::redirect::Redirect;
use crate::authority::{Authority, seconds};
use crate::context::OAuthContext;
use recalld_metastore::{Client, ClientFault, ControlError, Hash};
use recalld_policy::rate::key_of_site;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// A client that may be used.
#[derive(Debug, Clone)]
pub(crate) struct KnownClient {
    /// Its id, as it was asked for.
    pub id: String,
    /// What people know it by; its own claim.
    pub name: Option<String>,
    /// The host that vouches for it, where its id is the address of a document.
    pub host: Option<String>,
    /// Where answers may go.
    pub redirects: Vec<Redirect>,
    /// How it shows itself.
    pub auth_method: AuthMethod,
    /// Whether somebody signed in by it; of a document nobody knows.
    pub was_used: bool,
    secret: Option<Hash>,
}

/// Why there is no client.
#[derive(Debug)]
pub(crate) enum ClientTrouble {
    /// Nobody is known by this id, or whoever was is kept out.
    Unknown,
    /// Its document cannot be had or is not taken.
    Document(DocumentFault),
    /// The control store cannot say. The log has why.
    Unavailable,
}

impl KnownClient {
    /// Whether `presented` is its secret; `false` for one without.
    pub(crate) fn is_secret(&self, presented: &[u8]) -> bool {
        self.secret.is_some_and(|hash| hash == Hash::of(presented))
    }

    /// Whether all its answers go to the machine of whoever signs in, where any program may have taken the address or
    /// the scheme.
    pub(crate) fn is_local_only(&self) -> bool {
        let is_here =
            |redirect: &Redirect| Destination::of(redirect.text()).is_some_and(|it| it.is_here());
        self.redirects.iter().all(is_here)
    }

    fn registered(client: Client) -> Self {
        // Whatever was registered was taken then; what is not taken any more is good for nothing.
        let redirects = client.redirect_uris.iter().filter_map(|uri| Redirect::parse(uri).ok());
        Self {
            redirects: redirects.collect(),
            name: Some(client.name).filter(|name| !name.is_empty()),
            host: None,
            auth_method: AuthMethod::named(&client.auth_method).unwrap_or(AuthMethod::None),
            was_used: client.used_at.is_some(),
            secret: client.secret,
            id: client.id,
        }
    }

    fn documented(document: &ClientDocument) -> Self {
        Self {
            id: document.url.text().to_owned(),
            name: document.metadata.name.clone(),
            host: Some(document.url.host().to_owned()),
            redirects: document.metadata.redirects.clone(),
            auth_method: AuthMethod::None,
            was_used: false,
            secret: None,
        }
    }
}

/// The client of `id`, asked for by `peer`. Where that is the address of a document that is not remembered, this
/// takes as long as a fetch: it is for workers, never for an event loop.
///
/// # Errors
/// Why there is none.
pub(crate) fn known_client(
    context: &OAuthContext<'_>,
    authority: &Authority,
    (id, peer): (&str, IpAddr),
) -> Result<KnownClient, ClientTrouble> {
    if id.is_empty() || id.len() > CLIENT_ID_BYTES_MAX {
        return Err(ClientTrouble::Unknown);
    }
    match context.control.find_client(id) {
        Ok(client) => return Ok(KnownClient::registered(client)),
        Err(ClientFault::Unknown) if ClientUrl::is_meant(id) => {}
        Err(ClientFault::Control(error)) => return Err(unavailable(&error)),
        Err(_) => return Err(ClientTrouble::Unknown),
    }
    let url = ClientUrl::parse(id).map_err(ClientTrouble::Document)?;
    let site = key_of_site("document", peer);
    let found = authority.documents.find(&url, site, seconds(context.clock.now()));
    found.map(|document| KnownClient::documented(&document)).map_err(ClientTrouble::Document)
}

/// Whoever runs the server is told what the store could not say; clients are told of no file.
fn unavailable(error: &ControlError) -> ClientTrouble {
    log::event(Level::Error, "a client could not be looked up", &[("why", Value::Text(error))]);
    ClientTrouble::Unavailable
}

impl ClientTrouble {
    /// Whether who was told of it might have been guessing.
    pub(crate) fn is_guess(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Document(fault) => fault.is_told_of_elsewhere(),
            Self::Unavailable => false,
        }
    }

    /// Whether it may be over by itself in a moment.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unknown => false,
            Self::Document(fault) => fault.is_passing(),
            Self::Unavailable => true,
        }
    }
}

impl From<ClientTrouble> for OAuthError {
    fn from(trouble: ClientTrouble) -> Self {
        match trouble {
            ClientTrouble::Unknown => Self::new(ErrorCode::InvalidClient, "no such client"),
            ClientTrouble::Document(fault) => Self::from(&fault),
            ClientTrouble::Unavailable => {
                let said = "clients cannot be looked up now; try again";
                Self::new(ErrorCode::TemporarilyUnavailable, said)
            }
        }
    }
}
