//! Clients that registered themselves (RFC 7591), and those that the operator keeps out (CTL-30).

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

    /// Clients on record. Each person's program registers itself, some of them twice; one that nobody signs in by is
    /// removed after a day, and before that where there is no room for a new one.
    pub const CLIENTS_MAX: u64 = 100_000;
}

/// Redirects of one client.
const REDIRECTS_MAX: usize = 16;
const DAY_SECONDS: u64 = 24 * 3_600;
/// How long a client that is not used any more, or revoked, stays on record, in seconds.
const KEPT_SECONDS: u64 = 400 * DAY_SECONDS;
const ID_START: char = 'c';
const ID_BYTES: usize = 16;

/// A client. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// `client_id`: given by us, or the address of its metadata document.
    pub id: String,
    /// What it calls itself; empty where it has no name.
    pub name: String,
    /// Where answers may go.
    pub redirect_uris: Vec<String>,
    /// How it shows who it is at the token endpoint: `none`, `client_secret_basic` or `client_secret_post`.
    pub auth_method: String,
    /// What its secret is compared with.
    #[serde(default)]
    pub secret: Option<Hash>,
    /// When it registered.
    pub made_at: u64,
    /// When somebody signed in by it last, to a day.
    #[serde(default)]
    pub used_at: Option<u64>,
    /// When it was revoked.
    #[serde(default)]
    pub revoked_at: Option<u64>,
}

impl Record for Client {
    const ENTRY: TableEntry = schema::CLIENTS;

    fn removed_at(&self) -> Option<u64> {
        // Without its record, a client that is an address would be let in again.
        if self.revoked_at.is_some() && is_address(&self.id) {
            return None;
        }
        let unused = self.made_at.saturating_add(DAY_SECONDS);
        let end = self.revoked_at.or(self.used_at);
        Some(end.map_or(unused, |end| end.saturating_add(KEPT_SECONDS)))
    }
}

impl Client {
    /// Whether `presented` is its secret; `false` for one without.
    pub fn is_secret(&self, presented: &[u8]) -> bool {
        self.secret.is_some_and(|hash| hash == Hash::of(presented))
    }

    /// Whether somebody signed in by it, or the operator keeps it out.
    fn is_of_use(&self) -> bool {
        self.used_at.is_some() || self.revoked_at.is_some()
    }
}

/// What a client registers as.
#[derive(Debug, Clone, Copy)]
pub struct NewClient<'a> {
    /// What it calls itself; empty where it has no name.
    pub name: &'a str,
    /// Where answers may go; their forms are the caller's to check.
    pub redirect_uris: &'a [String],
    /// `none`, `client_secret_basic` or `client_secret_post`.
    pub auth_method: &'a str,
}

/// Why a client is none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientFault {
    /// None of this id is on record.
    Unknown,
    /// The operator keeps it out.
    Revoked,
    /// The store cannot say.
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

/// Whether a client names itself by the address of its metadata, so that it need not be on record.
fn is_address(id: &str) -> bool {
    id.starts_with("https://")
}

/// Whether what was granted to a client may be used by it.
pub(super) fn may_use(look: &impl Look, id: &str) -> Result<bool, ControlError> {
    let found: Option<Client> = look.find(id.as_bytes())?;
    Ok(found.map_or(is_address(id), |client| client.revoked_at.is_none()))
}

/// Notes that a client was used, at most daily.
pub(super) fn touch(change: &Change<'_>, id: &str, now: u64) -> Result<(), ControlError> {
    let Some(mut client) = change.find::<Client>(id.as_bytes())? else { return Ok(()) };
    if client.used_at.is_none_or(|used| now.saturating_sub(used) >= DAY_SECONDS) {
        client.used_at = Some(now);
        change.put(id.as_bytes(), &client)?;
    }
    Ok(())
}

impl Control {
    /// Registers a client; gives its secret where its way of showing itself has one.
    ///
    /// # Errors
    /// `Refused` where a field is not as it must be, or there are too many that somebody signed in by; else a fault
    /// of the store.
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

    /// Makes room for one more: the oldest goes of those that nobody signed in by, since a stranger can register as
    /// many as there may be (CTL-31).
    fn make_room(&self, change: &Change<'_>, clients_max: u64) -> Result<(), ControlError> {
        if change.count(Client::TABLE)? >= clients_max {
            self.sweep_in(change)?;
        }
        if change.count(Client::TABLE)? < clients_max {
            return Ok(());
        }
        // A day more than they have, since the clock may have been set back.
        let latest = self.now().saturating_add(2 * DAY_SECONDS);
        let from = self.no_client_unused_before.load(Ordering::Relaxed);
        let oldest = oldest_unused(change, from, latest)?;
        // What is not committed after all is still there, and no earlier.
        let before = oldest.as_ref().map_or(latest, |oldest| oldest.at);
        self.no_client_unused_before.store(before, Ordering::Relaxed);
        let Some(oldest) = oldest else {
            let why = format!("{clients_max} clients are registered and used");
            return Err(ControlError::refused("clients", why));
        };
        change.remove::<Client>(&oldest.key).map(drop)
    }

    /// The client of this id.
    ///
    /// # Errors
    /// Why there is none. A client that is known by the address of its metadata is `Unknown`, which the caller
    /// then fetches, or `Revoked`.
    pub fn find_client(&self, id: &str) -> Result<Client, ClientFault> {
        let found: Option<Client> = self.read(|view| view.find(id.as_bytes()))?;
        let client = found.ok_or(ClientFault::Unknown)?;
        if client.revoked_at.is_some() { Err(ClientFault::Revoked) } else { Ok(client) }
    }

    /// Keeps a client out, with all that was granted to it. One that is known by the address of its metadata need
    /// not be on record for that.
    ///
    /// # Errors
    /// `Refused` where there is none; else a fault of the store.
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

    /// Clients in order of their ids, those after `after`: `limit` or [`LISTED_MAX`](super::LISTED_MAX) at most.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn clients(&self, after: Option<&str>, limit: usize) -> Result<Vec<Client>, ControlError> {
        let after = after.map(str::as_bytes);
        let found = self.read(|view| view.list::<Client>(b"", after, limit.min(LISTED_MAX)))?;
        Ok(found.into_iter().map(|(_, client)| client).collect())
    }
}

/// The end of the client that goes first of those that nobody signed in by, looked for between two times. What else
/// ends meanwhile is skipped, all of a second at once.
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
                // The next key that there can be.
                next.key.push(0);
                next
            }
        };
    }
}

/// An id of a client as it is named in codes and grants.
pub(super) fn check_id(id: &str) -> Result<(), ControlError> {
    if is_address(id) {
        return check_line("client_id", id, ADDRESS_BYTES_MAX);
    }
    check_word("client_id", id)
}
