//! The OAuth 2.1 authorization server: endpoints, parameters, documents, errors and challenges (format-spec/oauth.md).
//!
//! The only state is caches and sign-ins in progress; clients, codes and grants are in the control store.
#![forbid(unsafe_code)]

mod addresses;
mod asker;
pub mod authority;
pub mod authorize;
pub mod challenge;
mod client_auth;
mod client_document;
mod client_documents;
pub mod confirm;
mod context;
pub mod endpoints;
mod error;
mod fetch;
mod form;
mod known_client;
pub mod metadata;
pub mod pages;
mod pkce;
mod redirect;
mod register;
pub mod registration;
pub mod revoke;
mod scopes;
pub mod token;
mod uri;

pub use client_auth::{AuthMethod, ShownClient};
pub use client_document::{ClientDocument, ClientUrl, DocumentFault};
pub use client_documents::{ClientDocuments, DOCUMENTS_MAX, FETCHES_MAX};
pub use context::OAuthContext;
pub use error::{ErrorCode, OAuthError};
pub use fetch::{Fetch, FetchFault, Fetched};
pub use form::{FORM_BYTES_MAX, Form, SIGN_IN_FORM_BYTES_MAX};
pub use metadata::Places;
pub use pkce::Challenge;
pub use redirect::{Redirect, RedirectFault};
pub use register::{ClientMetadata, REDIRECTS_MAX, REGISTRATION_BYTES_MAX, Registered};
pub use scopes::Scopes;
pub use uri::UriFault;
