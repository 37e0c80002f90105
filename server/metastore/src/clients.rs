//! Dynamically registered clients (RFC 7591), and revoked clients (CTL-30).

use std::fmt;
use std::ops::Bound;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::error::ControlError;
use super::hash::{Hash, hex};
use super::record::Record;
use super::schema::{self, EXPIRIES, TableEntry};
use super::store::Control;
use super::table::{Change, Expiry, LISTED_MAX, Look};
use super::text::{ADDRESS_BYTES_MAX, LINE_BYTES_MAX, check_line, check_word};
use recalld_auth::Prefix;
use recalld_common::secret::Secret;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of clients. Each person's program registers itself, some twice. A client without a sign-in is
    /// removed after a day, or earlier if a new client needs the room.
    pub const CLIENTS_MAX: u64 = 100_000;
}

/// Maximum number of redirect URIs of one client.
const REDIRECTS_MAX: usize = 16;
const DAY_SECONDS: u64 = 24 * 3_600;
/// Retention of a client after its last use or its revocation, in seconds.
const KEPT_SECONDS: u64 = 400 * DAY_SECONDS;
const ID_START: char = 'c';
const ID_BYTES: usize = 16;

/// An OAuth client. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// `client_id`: issued by this server, or the URL of the client id metadata document.
    pub id: String,
    /// `client_name`; empty if the client has no name.
    pub name: String,
    /// Registered redirect URIs.
    pub redirect_uris: Vec<String>,
    /// `token_endpoint_auth_method`: `none`, `client_secret_basic` or `client_secret_post`.
    pub auth_method: String,
    /// Hash of the client secret.
    #[serde(default)]
    pub secret: Option<Hash>,
    /// Time of the registration.
    pub made_at: u64,
    /// Time of the last sign-in, with a resolution of one day.
    #[serde(default)]
    pub used_at: Option<u64>,
    /// Time of the revocation.
    #[serde(default)]
    pub revoked_at: Option<u64>,
}

impl Record for Client {
    const ENTRY: TableEntry = schema::CLIENTS;

    fn removed_at(&self) -> Option<u64> {
        // Without its record, a revoked client with a URL as id would be admitted again.
        if self.revoked_at.is_some() && is_address(&self.id) {
            return None;
        }
        let unused = self.made_at.saturating_add(DAY_SECONDS);
        let end = self.revoked_at.or(self.used_at);
        Some(end.map_or(unused, |end| end.saturating_add(KEPT_SECONDS)))
    }
}

impl Client {
    /// Returns true if `presented` is the client secret; false for a client without a secret.
    pub fn is_secret(&self, presented: &[u8]) -> bool {
        self.secret.is_some_and(|hash| hash == Hash::of(presented))
    }

    /// Returns true if the client was used for a sign-in, or is revoked.
    fn is_of_use(&self) -> bool {
        self.used_at.is_some() || self.revoked_at.is_some()
    }
}

/// Registration of a new client.
#[derive(Debug, Clone, Copy)]
pub struct NewClient<'a> {
    /// `client_name`; empty if the client has no name.
    pub name: &'a str,
    /// Redirect URIs; the caller checks their form.
    pub redirect_uris: &'a [String],
    /// `none`, `client_secret_basic` or `client_secret_post`.
    pub auth_method: &'a str,
}

/// Reason for which a client is unusable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientFault {
    /// No client of this id is on record.
    Unknown,
    /// The operator has revoked the client.
    Revoked,
    /// The store failed.
    Control(ControlError),
}

impl From<ControlError> for ClientFault {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl fmt::Display for ClientFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such client"),
            Self::Revoked => f.write_str("the client is revoked"),
            Self::Control(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClientFault {}

/// Returns true if the id is the URL of a client id metadata document: a client of this kind needs no record.
fn is_address(id: &str) -> bool {
    id.starts_with("https://")
}

/// Returns true if the client may use its grants.
pub(super) fn may_use(look: &impl Look, id: &str) -> Result<bool, ControlError> {
    let found: Option<Client> = look.find(id.as_bytes())?;
    Ok(found.map_or(is_address(id), |client| client.revoked_at.is_none()))
}

/// Updates a client's last use, at most once a day.
pub(super) fn touch(change: &Change<'_>, id: &str, now: u64) -> Result<(), ControlError> {
    let Some(mut client) = change.find::<Client>(id.as_bytes())? else { return Ok(()) };
    if client.used_at.is_none_or(|used| now.saturating_sub(used) >= DAY_SECONDS) {
        client.used_at = Some(now);
        change.put(id.as_bytes(), &client)?;
    }
    Ok(())
}

impl Control {
    /// Registers a client. Returns its secret, if its authentication method has one.
    ///
    /// # Errors
    /// `Refused` if a field is invalid, or if [`CLIENTS_MAX`] clients are in use; otherwise a store error.
    pub fn register_client(
        &self,
        new: &NewClient<'_>,
        prefix: &Prefix,
    ) -> Result<(Client, Option<Secret>), ControlError> {
        self.register_within(new, prefix, CLIENTS_MAX)
    }

    pub(super) fn register_within(
        &self,
        new: &NewClient<'_>,
        prefix: &Prefix,
        clients_max: u64,
    ) -> Result<(Client, Option<Secret>), ControlError> {
        if !new.name.is_empty() {
            check_line("client_name", new.name, LINE_BYTES_MAX)?;
        }
        if !(1..=REDIRECTS_MAX).contains(&new.redirect_uris.len()) {
            let why =
                format!("there are {}, 1 to {REDIRECTS_MAX} are allowed", new.redirect_uris.len());
            return Err(ControlError::refused("redirect_uris", why));
        }
        let redirects = new.redirect_uris.iter();
        redirects
            .clone()
            .try_for_each(|uri| check_line("redirect_uris", uri, ADDRESS_BYTES_MAX))?;
        let secret = match new.auth_method {
            "none" => None,
            "client_secret_basic" | "client_secret_post" => {
                Some(self.secret(&format!("{}_client_", prefix.as_str())))
            }
            _ => {
                let why = "it may be none, client_secret_basic or client_secret_post";
                return Err(ControlError::refused("token_endpoint_auth_method", why));
            }
        };
        let client = Client {
            id: format!("{ID_START}{}", hex(&self.random::<ID_BYTES>())),
            name: new.name.to_owned(),
            redirect_uris: new.redirect_uris.to_vec(),
            auth_method: new.auth_method.to_owned(),
            secret: secret.as_ref().map(|secret| Hash::of(secret.expose().as_bytes())),
            made_at: self.now(),
            used_at: None,
            revoked_at: None,
        };
        self.write(|change| {
            self.make_room(change, clients_max)?;
            let unused_until = client.made_at.saturating_add(DAY_SECONDS);
            self.no_client_unused_before.fetch_min(unused_until, Ordering::Relaxed);
            change.put(client.id.as_bytes(), &client)
        })?;
        Ok((client, secret))
    }

    /// Makes room for a new client by removing the oldest client without a sign-in. Strangers can register as many
    /// clients as the limit allows (CTL-31).
    fn make_room(&self, change: &Change<'_>, clients_max: u64) -> Result<(), ControlError> {
        if change.count(Client::TABLE)? >= clients_max {
            self.sweep_in(change)?;
        }
        if change.count(Client::TABLE)? < clients_max {
            return Ok(());
        }
        // The lifetime of unused clients and one day more, as the clock may have been set back.
        let latest = self.now().saturating_add(2 * DAY_SECONDS);
        let from = self.no_client_unused_before.load(Ordering::Relaxed);
        let oldest = oldest_unused(change, from, latest)?;
        // If the transaction fails, the client still exists and is not older than this bound.
        let before = oldest.as_ref().map_or(latest, |oldest| oldest.at);
        self.no_client_unused_before.store(before, Ordering::Relaxed);
        let Some(oldest) = oldest else {
            let why = format!("{clients_max} clients are registered and used");
            return Err(ControlError::refused("clients", why));
        };
        change.remove::<Client>(&oldest.key).map(drop)
    }

    /// Looks up a client by id.
    ///
    /// # Errors
    /// `Revoked`, or `Unknown`; the caller then fetches the client id metadata document if the id is a URL.
    pub fn find_client(&self, id: &str) -> Result<Client, ClientFault> {
        let found: Option<Client> = self.read(|view| view.find(id.as_bytes()))?;
        let client = found.ok_or(ClientFault::Unknown)?;
        if client.revoked_at.is_some() { Err(ClientFault::Revoked) } else { Ok(client) }
    }

    /// Revokes a client, and thereby all of its grants. A client with a URL as id need not be on record.
    ///
    /// # Errors
    /// `Refused` if there is no such client; otherwise a store error.
    pub fn revoke_client(&self, id: &str) -> Result<Client, ControlError> {
        let now = self.now();
        self.write(|change| {
            let by_address = || Client {
                id: id.to_owned(),
                name: id.to_owned(),
                redirect_uris: Vec::new(),
                auth_method: "none".to_owned(),
                secret: None,
                made_at: now,
                used_at: None,
                revoked_at: None,
            };
            let found = change.find(id.as_bytes())?.or_else(|| is_address(id).then(by_address));
            let none = || ControlError::refused("client_id", "there is no such client");
            let mut client: Client = found.ok_or_else(none)?;
            check_line("client_id", id, ADDRESS_BYTES_MAX)?;
            client.revoked_at = client.revoked_at.or(Some(now));
            change.put(id.as_bytes(), &client)?;
            Ok(client)
        })
    }

    /// Clients in order of id, after `after`; at most `limit` or [`LISTED_MAX`](super::LISTED_MAX).
    ///
    /// # Errors
    /// A store error.
    pub fn clients(&self, after: Option<&str>, limit: usize) -> Result<Vec<Client>, ControlError> {
        let after = after.map(str::as_bytes);
        let found = self.read(|view| view.list::<Client>(b"", after, limit.min(LISTED_MAX)))?;
        Ok(found.into_iter().map(|(_, client)| client).collect())
    }
}

/// Finds the expiry of the first client without a sign-in between two times. Expiries of other tables are skipped, a
/// whole second at once.
fn oldest_unused(look: &impl Look, from: u64, latest: u64) -> Result<Option<Expiry>, ControlError> {
    let first_of = |at| Expiry { at, number: Client::NUMBER, key: Vec::new() };
    let mut from = first_of(from);
    loop {
        let mut next = None;
        look.walk(EXPIRIES, Bound::Included(&from.bytes()), |key, _| {
            next = Some(Expiry::read(key)?);
            Ok(false)
        })?;
        let Some(mut next) = next.filter(|next| next.at <= latest) else { return Ok(None) };
        from = match next.number {
            number if number < Client::NUMBER => first_of(next.at),
            number if number > Client::NUMBER => first_of(next.at.saturating_add(1)),
            _ => {
                let found: Option<Client> = look.find(&next.key)?;
                if found.is_some_and(|client| !client.is_of_use()) {
                    return Ok(Some(next));
                }
                // The smallest key greater than this one.
                next.key.push(0);
                next
            }
        };
    }
}

/// Checks the form of a client id in a code or grant.
pub(super) fn check_id(id: &str) -> Result<(), ControlError> {
    if is_address(id) {
        return check_line("client_id", id, ADDRESS_BYTES_MAX);
    }
    check_word("client_id", id)
}
