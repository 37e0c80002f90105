//! The parts of the service that the authorization server uses for one call.

use std::net::IpAddr;

use engine::os::clock::{Clock, Random};

use crate::authority::Authority;
use recalld_config::Config;
use recalld_metastore::Control;
use recalld_policy::rate::{Buckets, Guesses};
use recalld_workspace::tenants::Tenants;

/// Borrowed from the running service for one call.
pub struct OAuthContext<'a> {
    /// The keys and endpoints of the authorization server; `None` where the server has no public URL.
    pub authority: Option<&'a Authority>,
    /// Tenants, credentials, clients and grants.
    pub control: &'a Control,
    /// The workspaces whose ledgers record sign-ins.
    pub tenants: &'a Tenants,
    /// The settings.
    pub config: &'a Config,
    /// The rate limit of each credential.
    pub rates: &'a Buckets,
    /// The rate limit of each site for requests without a credential.
    pub strangers: &'a Buckets,
    /// Wrong credentials lately.
    pub guesses: &'a Guesses,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Randomness.
    pub random: &'a dyn Random,
    /// The client's address, as far as trusted proxies vouch for it.
    pub client_address: IpAddr,
}
