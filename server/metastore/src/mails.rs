//! Addresses of mail, and the links that show that they are read (CTL-15).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::credentials::{CredentialFault, active_tenant};
use super::error::ControlError;
use super::hash::Hash;
use super::record::Record;
use super::schema::{self, TableEntry};
use super::store::Control;
use super::table::{Change, Look};
use super::tenants::{Tenant, living};
use super::text::{LINE_BYTES_MAX, check_line};
use recalld_auth::Prefix;
use recalld_common::secret::Secret;

/// How long a link is good, in seconds: a day.
pub const LINK_SECONDS: u64 = 24 * 3_600;

/// A link that is out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The workspace.
    pub tenant: String,
    /// The address that it was sent to.
    pub address: String,
    /// From when on it is good no more, in seconds since 1970.
    pub expires_at: u64,
}

impl Record for Mail {
    const ENTRY: TableEntry = schema::MAILS;

    fn removed_at(&self) -> Option<u64> {
        Some(self.expires_at)
    }
}

/// Why a link does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MailError {
    /// None of ours, used before, or replaced by a later one.
    Unknown,
    /// Its day is over.
    Expired,
    /// The workspace is stopped.
    Suspended,
    /// The store cannot say.
    Control(ControlError),
}

impl From<ControlError> for MailError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl From<CredentialFault> for MailError {
    fn from(fault: CredentialFault) -> Self {
        match fault {
            CredentialFault::Suspended => Self::Suspended,
            CredentialFault::Control(error) => Self::Control(error),
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for MailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the link was used, or a later one was sent",
            Self::Expired => "the link has expired; ask for another one",
            Self::Suspended => "the workspace is suspended",
            Self::Control(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for MailError {}

/// The link of this hash, if it can be used at `now`.
fn good(look: &impl Look, hash: &Hash, now: u64) -> Result<(Mail, Tenant), MailError> {
    let mail: Mail = look.find(hash.bytes())?.ok_or(MailError::Unknown)?;
    if now >= mail.expires_at {
        return Err(MailError::Expired);
    }
    let tenant = active_tenant(look, &mail.tenant)?;
    if tenant.mail.as_ref() != Some(hash) || tenant.email.as_ref() != Some(&mail.address) {
        return Err(MailError::Unknown);
    }
    Ok((mail, tenant))
}

impl Control {
    /// Gives a workspace an address of mail, which is not verified, and the secret of the link to send there. The
    /// link before does nothing any more.
    ///
    /// # Errors
    /// `Refused` where there is no such workspace, or `address` is none; else a fault of the store.
    pub fn set_email(
        &self,
        slug: &str,
        address: &str,
        prefix: &Prefix,
    ) -> Result<Secret, ControlError> {
        check_line("email", address, LINE_BYTES_MAX)?;
        let halves = address.rsplit_once('@');
        if !halves.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()) {
            return Err(ControlError::refused("email", "it must be NAME@HOST"));
        }
        let secret = self.secret(&format!("{}_mail_", prefix.as_str()));
        let hash = Hash::of(secret.expose().as_bytes());
        let expires_at = self.now().saturating_add(LINK_SECONDS);
        let mail = Mail { tenant: slug.to_owned(), address: address.to_owned(), expires_at };
        self.write(|change| {
            let mut tenant = living(change, slug)?;
            drop_mail(change, &mut tenant)?;
            tenant.email = Some(address.to_owned());
            tenant.email_verified_at = None;
            tenant.mail = Some(hash);
            change.put(hash.bytes(), &mail)?;
            change.put(slug.as_bytes(), &tenant)
        })?;
        Ok(secret)
    }

    /// Takes a workspace's address as verified, by the word of whoever runs the service. The link that is out does
    /// nothing any more.
    ///
    /// # Errors
    /// `Refused` where there is no such workspace, or it has no address; else a fault of the store.
    pub fn mark_email_verified(&self, slug: &str) -> Result<Tenant, ControlError> {
        let now = self.now();
        self.write(|change| {
            let mut tenant = living(change, slug)?;
            if tenant.email.is_none() {
                let why = "the workspace has no address; give it one: recalld tenant email";
                return Err(ControlError::refused("email", why));
            }
            drop_mail(change, &mut tenant)?;
            tenant.email_verified_at = Some(now);
            change.put(slug.as_bytes(), &tenant)?;
            Ok(tenant)
        })
    }

    /// What a link is for, for the page that asks; uses nothing up.
    ///
    /// # Errors
    /// Why it does nothing.
    pub fn find_mail(&self, secret: &[u8]) -> Result<Mail, MailError> {
        let (hash, now) = (Hash::of(secret), self.now());
        self.read(|view| good(view, &hash, now).map(|(mail, _)| mail))
    }

    /// Uses a link: the workspace's address is verified from now on. Once.
    ///
    /// # Errors
    /// Why it does nothing.
    pub fn verify_email(&self, secret: &[u8]) -> Result<Tenant, MailError> {
        let (hash, now) = (Hash::of(secret), self.now());
        self.write(|change| {
            let (_, mut tenant) = good(change, &hash, now)?;
            drop_mail(change, &mut tenant)?;
            tenant.email_verified_at = Some(now);
            change.put(tenant.slug.as_bytes(), &tenant)?;
            Ok(tenant)
        })
    }
}

/// Takes away the link that is out, so that it does nothing any more.
pub(super) fn drop_mail(change: &Change<'_>, tenant: &mut Tenant) -> Result<(), ControlError> {
    if let Some(hash) = tenant.mail.take() {
        change.remove::<Mail>(hash.bytes())?;
    }
    Ok(())
}
