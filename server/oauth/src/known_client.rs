//! Resolves a client id to a registered client or to a client with a metadata document.

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

/// A resolved client.
#[derive(Debug, Clone)]
pub(crate) struct KnownClient {
    /// The id as requested.
    pub id: String,
    /// Display name, as claimed by the client.
    pub name: Option<String>,
    /// The document's host, if the id is a document URL.
    pub host: Option<String>,
    /// Registered redirect URIs.
    pub redirects: Vec<Redirect>,
    /// Client authentication method.
    pub auth_method: AuthMethod,
    /// True if somebody has signed in with the client; always false for a metadata document.
    pub was_used: bool,
    secret: Option<Hash>,
}

/// Reason for a failed resolution of a client id.
#[derive(Debug)]
pub(crate) enum ClientTrouble {
    /// The id is unknown or blocked.
    Unknown,
    /// The metadata document is unavailable or invalid.
    Document(DocumentFault),
    /// The control store failed; the cause is in the log.
    Unavailable,
}

impl KnownClient {
    /// Returns true if `presented` is the client's secret; false for a client without a secret.
    pub(crate) fn is_secret(&self, presented: &[u8]) -> bool {
        self.secret.is_some_and(|hash| hash == Hash::of(presented))
    }

    /// Returns true if every redirect URI leads to the person's own machine, where any program may have claimed the
    /// address or scheme.
    pub(crate) fn is_local_only(&self) -> bool {
        let is_here =
            |redirect: &Redirect| Destination::of(redirect.text()).is_some_and(|it| it.is_here());
        self.redirects.iter().all(is_here)
    }

    fn registered(client: Client) -> Self {
        // A redirect URI accepted at registration but invalid under today's rules is dropped.
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

/// Resolves the client `id`, requested by `peer`. If a metadata document is not cached, this blocks as long as a fetch:
/// for worker threads only, never for an event loop.
///
/// # Errors
/// The client is unknown, or cannot be resolved now.
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

/// Logs the store error for the operator; clients learn no file names.
fn unavailable(error: &ControlError) -> ClientTrouble {
    log::event(Level::Error, "a client could not be looked up", &[("why", Value::Text(error))]);
    ClientTrouble::Unavailable
}

impl ClientTrouble {
    /// Returns true if the request may have been a guess.
    pub(crate) fn is_guess(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Document(fault) => fault.is_told_of_elsewhere(),
            Self::Unavailable => false,
        }
    }

    /// Returns true if a retry may succeed.
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
