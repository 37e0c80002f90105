//! The metastore: workspaces, credentials, clients, grants, revocations, usage.
//!
//! Owns `control.redb` of a data directory (format-spec/control.md): its tables, its records, and the operations on
//! them, each of which is one transaction. While the file is unusable, every operation returns an error. Must not know
//! HTTP, OAuth error names, nor the content of a plan: only names of plans and scopes are stored.
#![forbid(unsafe_code)]

mod anchors;
mod carried;
mod clients;
mod codes;
mod credentials;
mod deletion;
mod error;
mod far;
mod file;
mod grants;
mod hash;
mod last_checkpoint;
mod latest;
mod mails;
mod meter;
mod operations;
mod record;
mod refresh;
mod restored;
mod schema;
mod sealed;
mod snapshot;
mod standing;
mod store;
mod sweep;
mod table;
mod tenants;
mod text;
mod token_keys;
mod usage;

limit_table::limits! {
    pub const LIMITS = [
        anchors, clients, codes, credentials, file, grants, record, standing, sweep, table, tenants,
        token_keys, usage,
    ];
}

#[cfg(test)]
mod tests;

pub use anchors::ANCHORS_APART_MAX;
pub use carried::Foreign;
pub use clients::{CLIENTS_MAX, Client, ClientFault, NewClient};
pub use codes::{CODES_MAX, CodeRequest, RedeemError, Redeemed, Redemption, SignInError};
pub use credentials::{
    CREDENTIALS_EACH_MAX, Credential, CredentialFault, CredentialState, Issued, Kind, NewCredential,
};
pub use error::ControlError;
pub use far::{Elsewhere, Far};
pub use file::CACHE_BYTES_MAX;
pub use grants::{GRANTS_EACH_MAX, Grant, Holder};
pub use hash::{Hash, Seed};
pub use last_checkpoint::LastCheckpoint;
pub use mails::{LINK_SECONDS, Mail, MailError};
pub use operations::{
    KEY_BYTES_MAX, OPERATIONS_BYTES_MAX, Operation, Operations, TablesDigest, parse,
};
pub use record::RECORD_BYTES_MAX;
pub use refresh::{RefreshError, Refreshed};
pub use schema::TABLE_NAMES;
pub use standing::{Hold, REVOKED_MAX, Standing, StandingFault};
pub use store::{Control, VERSION};
pub use sweep::{SWEPT_TOGETHER_MAX, check_record};
pub use table::LISTED_MAX;
pub use tenants::{NewTenant, TENANTS_MAX, Tenant, TenantState, check_slug};
pub use token_keys::{KEYS_PUBLISHED_MAX, TokenKeyRecord};
pub use usage::{BLOCK_CALLS_MAX, BLOCKS_OUT_MAX, BLOCKS_OVER_MAX, Block, Over, Settlement, Usage};
