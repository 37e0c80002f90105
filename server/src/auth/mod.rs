//! Who is asking: credentials, the signing key, and how both are kept.
//!
//! Owns the secrets of this installation on disk and in memory. Must not know routes, tools or
//! policy: it answers who a credential belongs to, never what they may do.

mod check;
mod error;
mod keys;
mod private_file;
mod secret;
mod signing;
pub mod token;
mod token_cache;
mod token_keys;

pub use check::{BEARER_BYTES_MAX, Bearer, Checker, Principal, bearer_of};
pub use error::CredentialsError;
pub use keys::{Created, Credentials, LOCAL_WORKSPACE, Prefix, Shown, open_or_create_signing_key};
pub(crate) use private_file::read as read_private_file;
pub use secret::{Random, Secret, SecretHash};
pub use signing::{KeyError, Signer, Verifier};
pub use token_cache::{TOKENS_REMEMBERED_MAX, TokenCache};
pub use token_keys::{TOKEN_KEYS_MAX, TokenKey, TokenKeys};
