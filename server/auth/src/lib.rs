//! Authentication: credentials, access tokens, the signing key, and their storage.
//!
//! Resolves a credential to its principal. Permissions are decided elsewhere (`policy`); routes and tools are unknown
//! here.
#![forbid(unsafe_code)]

mod check;
mod cluster_secret;
mod former;
mod keys;
mod signing;
pub mod token;
mod token_cache;
mod token_keys;

pub use check::{BEARER_BYTES_MAX, Bearer, Checker, Principal, bearer_of};
pub use cluster_secret::ClusterSecret;
pub use former::{
    FORMER_KEYS, PUBLIC_KEYS_MAX, bytes_of_hex, former_keys, keys_of_json, keys_to_json, put_former,
};
pub use keys::{
    Created, Credentials, Prefix, Shown, open_or_create_signing_key, take_shared_signing_key,
};
pub use signing::{KeyError, Signer, Verifier};
pub use token_cache::{TOKENS_REMEMBERED_MAX, TokenCache};
pub use token_keys::{TOKEN_KEYS_MAX, TokenKey, TokenKeys};

limit_table::limits! {
    pub const LIMITS = [former];
}
