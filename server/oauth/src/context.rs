use std::net::IpAddr;

use engine::os::clock::{Clock, Random};

use crate::authority::Authority;
use recalld_config::Config;
use recalld_metastore::Control;
use recalld_policy::rate::{Buckets, Guesses};
use recalld_workspace::tenants::Tenants;

/// Parts of the running service that the authorization server borrows for one call.
pub struct OAuthContext<'a> {
    /// The authorization server; `None` if the server has no public URL.
    pub authority: Option<&'a Authority>,
    /// Store of tenants, credentials, clients and grants.
    pub control: &'a Control,
    /// Workspaces, whose ledgers record sign-ins.
    pub tenants: &'a Tenants,
    /// Server settings.
    pub config: &'a Config,
    /// Rate limits per credential.
    pub rates: &'a Buckets,
    /// Rate limits per site, for requests without a credential.
    pub strangers: &'a Buckets,
    /// Login throttle: budgets of failed credentials.
    pub guesses: &'a Guesses,
    /// Wall clock.
    pub clock: &'a dyn Clock,
    /// Randomness source.
    pub random: &'a dyn Random,
    /// The client's address, as reported by trusted proxies.
    pub client_address: IpAddr,
}
