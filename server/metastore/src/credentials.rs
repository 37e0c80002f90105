//! Credentials of workspaces: issued once, and stored only as hashes (CTL-20 to CTL-23).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::ControlError;
use super::grants::end_grants;
use super::hash::{Hash, hex};
use super::record::Record;
use super::schema::{self, TableEntry};
use super::store::Control;
use super::table::{Change, LISTED_MAX, Look};
use super::tenants::{Tenant, TenantState, find_tenant, living};
use super::text::{check_scopes, check_word, under};
use recalld_auth::Prefix;
use recalld_common::secret::Secret;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of credentials of one workspace, including ended ones that are not yet removed.
    pub const CREDENTIALS_EACH_MAX: usize = 1_024;
}

/// Default lifetime of a one-time key in seconds: a day.
const ONCE_SECONDS: u64 = 24 * 3_600;
/// Retention of an ended credential in seconds: a month.
const KEPT_SECONDS: u64 = 30 * 24 * 3_600;
/// First character of credential ids; grant ids have another one.
pub(super) const ID_START: char = 'k';
const ID_BYTES: usize = 12;

/// Kind of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The workspace key: `client_secret` at the token endpoint.
    Workspace,
    /// User key of the free tier: any number of sign-ins, and a bearer credential.
    User,
    /// A person's bearer credential.
    Bearer,
    /// A one-time key, for a single sign-in.
    Once,
}

impl Kind {
    /// The text between the prefix and the random part of a key.
    fn infix(self) -> &'static str {
        match self {
            Self::Workspace => "ws",
            Self::User => "user",
            Self::Bearer => "pat",
            Self::Once => "once",
        }
    }
}

/// State of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialState {
    /// Valid until its expiry.
    Active,
    /// Used: a one-time key after its sign-in.
    Spent,
    /// Revoked.
    Revoked,
}

/// Record of a credential, without the secret. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// The workspace.
    pub tenant: String,
    /// Id in lists and tokens.
    pub id: String,
    /// The kind.
    pub kind: Kind,
    /// Owner or purpose of the credential.
    #[serde(default)]
    pub name: Option<String>,
    /// Permitted scopes.
    pub scopes: Vec<String>,
    /// Time of issue.
    pub made_at: u64,
    /// Expiry; `None` if unlimited.
    #[serde(default)]
    pub expires_at: Option<u64>,
    /// The state.
    pub state: CredentialState,
    /// Time at which the credential was spent or revoked.
    #[serde(default)]
    pub ended_at: Option<u64>,
}

impl Record for Credential {
    const ENTRY: TableEntry = schema::CREDENTIALS;

    fn removed_at(&self) -> Option<u64> {
        self.ended_at.or(self.expires_at).map(|end| end.saturating_add(KEPT_SECONDS))
    }
}

impl Credential {
    /// The principal: `sub` of tokens, and the principal of policy and ledger.
    pub fn principal(&self) -> String {
        match (self.kind, &self.name) {
            (Kind::Workspace, _) => format!("workspace:{}", self.tenant),
            (_, Some(name)) => format!("user:{name}"),
            (_, None) => format!("key:{}", self.id),
        }
    }

    /// Checks that the credential is valid at `now`.
    pub(super) fn check(&self, now: u64) -> Result<(), CredentialFault> {
        match self.state {
            CredentialState::Spent => Err(CredentialFault::Spent),
            CredentialState::Revoked => Err(CredentialFault::Revoked),
            CredentialState::Active if self.expires_at.is_some_and(|end| now >= end) => {
                Err(CredentialFault::Expired)
            }
            CredentialState::Active => Ok(()),
        }
    }

    fn end(&mut self, state: CredentialState, now: u64) {
        self.state = state;
        self.ended_at = Some(now);
    }
}

/// Index from the id to the hash of a credential.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CredentialId {
    pub(super) hash: Hash,
}

impl Record for CredentialId {
    const ENTRY: TableEntry = schema::CREDENTIAL_IDS;
}

/// Properties of a new credential.
#[derive(Debug, Clone, Copy)]
pub struct NewCredential<'a> {
    /// The kind.
    pub kind: Kind,
    /// Owner or purpose; for a person's bearer credential, the person's name.
    pub name: Option<&'a str>,
    /// Permitted scopes.
    pub scopes: &'a [String],
    /// Expiry in seconds since 1970. The default for a one-time key is one day, for others `None`.
    pub expires_at: Option<u64>,
}

/// A new credential with its secret, which is available only here.
pub struct Issued {
    /// The secret, to be shown once.
    pub secret: Secret,
    /// The record.
    pub credential: Credential,
}

/// Reason for which a presented credential is invalid. Responses to clients are identical for all variants except
/// `Suspended`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CredentialFault {
    /// No credential of the requested kinds has this secret.
    Unknown,
    /// The credential has expired.
    Expired,
    /// The one-time key was used.
    Spent,
    /// The credential is revoked.
    Revoked,
    /// The workspace is suspended.
    Suspended,
    /// The workspace is deleted.
    Deleted,
    /// The store failed.
    Control(ControlError),
}

impl From<ControlError> for CredentialFault {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl fmt::Display for CredentialFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no such credential",
            Self::Expired => "the credential has expired",
            Self::Spent => "the credential was good for once, and is spent",
            Self::Revoked => "the credential is revoked",
            Self::Suspended => "the workspace is suspended",
            Self::Deleted => "the workspace is deleted",
            Self::Control(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for CredentialFault {}

/// The workspace of a presented credential, if active.
pub(super) fn active_tenant(look: &impl Look, slug: &str) -> Result<Tenant, CredentialFault> {
    let tenant = find_tenant(look, slug)?.ok_or(CredentialFault::Unknown)?;
    match tenant.state {
        TenantState::Active => Ok(tenant),
        TenantState::Suspended => Err(CredentialFault::Suspended),
        TenantState::Deleted => Err(CredentialFault::Deleted),
    }
}

/// The presented credential and its workspace, if valid at `now`.
pub(super) fn presented(
    look: &impl Look,
    hash: &Hash,
    kinds: &[Kind],
    now: u64,
) -> Result<(Credential, Tenant), CredentialFault> {
    let found: Option<Credential> = look.find(hash.bytes())?;
    let found = found.filter(|credential| kinds.contains(&credential.kind));
    let credential = found.ok_or(CredentialFault::Unknown)?;
    credential.check(now)?;
    let tenant = active_tenant(look, &credential.tenant)?;
    Ok((credential, tenant))
}

/// Looks up a credential by id; also returns the hash that is its key.
pub(super) fn find_by_id(
    look: &impl Look,
    slug: &str,
    id: &str,
) -> Result<Option<(Hash, Credential)>, ControlError> {
    let Some(CredentialId { hash }) = look.find(&under(slug, id))? else { return Ok(None) };
    let credential: Option<Credential> = look.find(hash.bytes())?;
    let is_it = |found: &Credential| found.tenant == slug && found.id == id;
    let credential = credential.filter(is_it).ok_or_else(|| {
        ControlError::damaged(CredentialId::TABLE, "an id names a credential that is not it")
    })?;
    Ok(Some((hash, credential)))
}

/// Expiry of the grants of a key, in seconds since 1970. The expiry of a one-time key applies to the sign-in only, so
/// its grants have no such end.
pub(super) fn end_of_key(look: &impl Look, slug: &str, id: &str) -> Result<u64, ControlError> {
    let key = find_by_id(look, slug, id)?.map(|(_, key)| key);
    let end = key.filter(|key| key.kind != Kind::Once).and_then(|key| key.expires_at);
    Ok(end.unwrap_or(u64::MAX))
}

pub(super) fn spend(
    change: &Change<'_>,
    hash: &Hash,
    mut credential: Credential,
    now: u64,
) -> Result<(), ControlError> {
    credential.end(CredentialState::Spent, now);
    change.put(hash.bytes(), &credential)
}

fn all_of(change: &Change<'_>, slug: &str) -> Result<Vec<(Hash, Credential)>, ControlError> {
    let ids = change.list::<CredentialId>(&under(slug, ""), None, CREDENTIALS_EACH_MAX)?;
    let found = ids.into_iter().map(|(_, CredentialId { hash })| {
        let credential = change.find::<Credential>(hash.bytes())?;
        let why = "an id names a credential that is not there";
        let missing = || ControlError::damaged(CredentialId::TABLE, why);
        credential.map(|credential| (hash, credential)).ok_or_else(missing)
    });
    found.collect()
}

/// Revokes the active credentials of a workspace that `which` selects, and their grants.
pub(super) fn end_credentials(
    change: &Change<'_>,
    slug: &str,
    now: u64,
    which: impl Fn(&Credential) -> bool,
) -> Result<(), ControlError> {
    let mut ended = Vec::new();
    for (hash, mut credential) in all_of(change, slug)? {
        if credential.state == CredentialState::Active && which(&credential) {
            credential.end(CredentialState::Revoked, now);
            change.put(hash.bytes(), &credential)?;
            ended.push(credential.id);
        }
    }
    end_grants(change, slug, now, |grant| ended.contains(&grant.credential)).map(drop)
}

/// Makes room for a new credential by removing ended credentials before their retention is over.
fn make_room(change: &Change<'_>, slug: &str, now: u64) -> Result<(), ControlError> {
    let all = all_of(change, slug)?;
    let mut left = all.len();
    if left < CREDENTIALS_EACH_MAX {
        return Ok(());
    }
    for (hash, credential) in all {
        if credential.check(now).is_err() {
            remove(change, hash.bytes(), &credential)?;
            left -= 1;
        }
    }
    if left < CREDENTIALS_EACH_MAX {
        return Ok(());
    }
    let why = format!("the workspace has {CREDENTIALS_EACH_MAX} that are good; revoke one");
    Err(ControlError::refused("credentials", why))
}

/// Removes a credential and its index entry.
pub(super) fn remove(
    change: &Change<'_>,
    hash: &[u8],
    credential: &Credential,
) -> Result<(), ControlError> {
    change.remove::<Credential>(hash)?;
    change.remove::<CredentialId>(&under(&credential.tenant, &credential.id))?;
    Ok(())
}

impl Control {
    /// Issues a credential. A workspace has one workspace key at a time: see [`Control::rotate_workspace_key`].
    ///
    /// # Errors
    /// `Refused` if there is no such workspace, a field is invalid, or there are too many credentials; otherwise a
    /// store error.
    pub fn issue_credential(
        &self,
        slug: &str,
        new: &NewCredential<'_>,
        prefix: &Prefix,
    ) -> Result<Issued, ControlError> {
        self.check_new(new)?;
        let now = self.now();
        self.write(|change| {
            living(change, slug)?;
            let is_one_at_a_time = |credential: &Credential| {
                credential.kind == Kind::Workspace && credential.check(now).is_ok()
            };
            if new.kind == Kind::Workspace
                && all_of(change, slug)?.iter().any(|(_, credential)| is_one_at_a_time(credential))
            {
                return Err(ControlError::refused("kind", "the workspace has its key; rotate it"));
            }
            self.issue(change, slug, new, prefix, now)
        })
    }

    /// Revokes the workspace key and issues a new one, by default with the same scopes.
    ///
    /// # Errors
    /// As [`Control::issue_credential`].
    pub fn rotate_workspace_key(
        &self,
        slug: &str,
        scopes: Option<&[String]>,
        prefix: &Prefix,
    ) -> Result<Issued, ControlError> {
        check_scopes(scopes.unwrap_or_default())?;
        let now = self.now();
        self.write(|change| {
            living(change, slug)?;
            let is_key = |credential: &Credential| credential.kind == Kind::Workspace;
            let all = all_of(change, slug)?;
            let newest = all.iter().map(|(_, credential)| credential).filter(|key| is_key(key));
            let newest =
                newest.max_by_key(|key| (key.state == CredentialState::Active, key.made_at));
            let kept = newest.map(|key| key.scopes.clone()).unwrap_or_default();
            end_credentials(change, slug, now, is_key)?;
            let scopes = scopes.unwrap_or(&kept);
            let new = NewCredential { kind: Kind::Workspace, name: None, scopes, expires_at: None };
            self.issue(change, slug, &new, prefix, now)
        })
    }

    /// Revokes a credential and all of its grants.
    ///
    /// # Errors
    /// `Refused` if the workspace has no credential of this id; otherwise a store error.
    pub fn revoke_credential(&self, slug: &str, id: &str) -> Result<Credential, ControlError> {
        let now = self.now();
        self.write(|change| {
            let found = find_by_id(change, slug, id)?;
            let none = || ControlError::refused("id", "the workspace has no such credential");
            let (hash, mut credential) = found.ok_or_else(none)?;
            if credential.state != CredentialState::Revoked {
                credential.end(CredentialState::Revoked, now);
                change.put(hash.bytes(), &credential)?;
                end_grants(change, slug, now, |grant| grant.credential == id)?;
            }
            Ok(credential)
        })
    }

    /// Credentials of a workspace in order of id, after `after`; at most `limit` or [`LISTED_MAX`](super::LISTED_MAX).
    ///
    /// # Errors
    /// A store error.
    pub fn credentials(
        &self,
        slug: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Credential>, ControlError> {
        let after = after.map(|id| under(slug, id));
        self.read(|view| {
            let most = limit.min(LISTED_MAX);
            let ids = view.list::<CredentialId>(&under(slug, ""), after.as_deref(), most)?;
            let found = ids.into_iter().map(|(_, CredentialId { hash })| view.find(hash.bytes()));
            Ok(found.collect::<Result<Vec<_>, ControlError>>()?.into_iter().flatten().collect())
        })
    }

    /// Looks up a presented credential of one of `kinds`, if valid, with its workspace.
    ///
    /// # Errors
    /// The reason for which the credential is invalid.
    pub fn find_credential(
        &self,
        secret: &[u8],
        kinds: &[Kind],
    ) -> Result<(Credential, Tenant), CredentialFault> {
        let (hash, now) = (Hash::of(secret), self.now());
        self.read(|view| presented(view, &hash, kinds, now))
    }

    fn check_new(&self, new: &NewCredential<'_>) -> Result<(), ControlError> {
        check_scopes(new.scopes)?;
        new.name.map_or(Ok(()), |name| check_word("name", name))?;
        if new.expires_at.is_some_and(|end| end <= self.now()) {
            return Err(ControlError::refused("expires_at", "it must be later than now"));
        }
        Ok(())
    }

    fn issue(
        &self,
        change: &Change<'_>,
        slug: &str,
        new: &NewCredential<'_>,
        prefix: &Prefix,
        now: u64,
    ) -> Result<Issued, ControlError> {
        make_room(change, slug, now)?;
        let secret = self.secret(&format!("{}_{}_", prefix.as_str(), new.kind.infix()));
        let hash = Hash::of(secret.expose().as_bytes());
        let once = (new.kind == Kind::Once).then(|| now.saturating_add(ONCE_SECONDS));
        let credential = Credential {
            tenant: slug.to_owned(),
            id: format!("{ID_START}{}", hex(&self.random::<ID_BYTES>())),
            kind: new.kind,
            name: new.name.map(str::to_owned),
            scopes: new.scopes.to_vec(),
            made_at: now,
            expires_at: new.expires_at.or(once),
            state: CredentialState::Active,
            ended_at: None,
        };
        change.put(hash.bytes(), &credential)?;
        change.put(&under(slug, &credential.id), &CredentialId { hash })?;
        Ok(Issued { secret, credential })
    }
}
