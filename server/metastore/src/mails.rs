//! Email addresses of workspaces, and their confirmation links (CTL-15).

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

/// Lifetime of a link in seconds: a day.
pub const LINK_SECONDS: u64 = 24 * 3_600;

/// An outstanding confirmation link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The workspace.
    pub tenant: String,
    /// The address to confirm.
    pub address: String,
    /// Expiry in seconds since 1970.
    pub expires_at: u64,
}

impl Record for Mail {
    const ENTRY: TableEntry = schema::MAILS;

    fn removed_at(&self) -> Option<u64> {
        Some(self.expires_at)
    }
}

/// Reason for which a link is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MailError {
    /// The link was never issued, was used before, or was replaced by a later link.
    Unknown,
    /// The link has expired.
    Expired,
    /// The workspace is suspended.
    Suspended,
    /// The store failed.
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

/// The link of this hash and its workspace, if the link is valid at `now`.
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
    /// Sets a workspace's email address, unverified, and returns the secret of its confirmation link. The previous link
    /// becomes invalid.
    ///
    /// # Errors
    /// `Refused` if there is no such workspace, or `address` is invalid; otherwise a store error.
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

    /// Marks a workspace's address as verified on the operator's authority. The outstanding link becomes invalid.
    ///
    /// # Errors
    /// `Refused` if there is no such workspace, or the workspace has no address; otherwise a store error.
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

    /// Looks up a link for the confirmation page, without using it.
    ///
    /// # Errors
    /// The reason for which the link is invalid.
    pub fn find_mail(&self, secret: &[u8]) -> Result<Mail, MailError> {
        let (hash, now) = (Hash::of(secret), self.now());
        self.read(|view| good(view, &hash, now).map(|(mail, _)| mail))
    }

    /// Uses a link once: marks the workspace's address as verified.
    ///
    /// # Errors
    /// The reason for which the link is invalid.
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

/// Removes the outstanding link.
pub(super) fn drop_mail(change: &Change<'_>, tenant: &mut Tenant) -> Result<(), ControlError> {
    if let Some(hash) = tenant.mail.take() {
        change.remove::<Mail>(hash.bytes())?;
    }
    Ok(())
}
