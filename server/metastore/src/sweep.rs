//! Removal of expired records, in order of expiry and in bounded transactions (CTL-06); and validation of records by
//! table.

use super::anchors::Anchor;
use super::clients::Client;
use super::codes::Code;
use super::credentials::{self, Credential, CredentialId};
use super::error::ControlError;
use super::grants::{self, Family, Grant};
use super::mails::{Mail, drop_mail};
use super::record::{Record, decode, encode};
use super::schema::{EXPIRIES, TABLE_NAMES};
use super::standing::Revoked;
use super::store::{Control, Meta};
use super::table::{Change, Expiry, Look};
use super::tenants::Tenant;
use super::token_keys::TokenKeyRecord;
use super::usage::Usage;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of records removed in one transaction: some milliseconds.
    pub const SWEPT_TOGETHER_MAX: usize = 256;
}

/// Validates a value of a table.
type Check = fn(&[u8]) -> Result<(), ControlError>;

macro_rules! checks {
    ($($record:ident)*) => {
        const CHECKS: [(&str, Check); TABLE_NAMES.len()] =
            [$(($record::TABLE, check::<$record>)),*];
    };
}

checks!(Meta Tenant Credential CredentialId Client Grant Family Code Revoked Mail Anchor TokenKeyRecord Usage);

fn check<R: Record>(bytes: &[u8]) -> Result<(), ControlError> {
    let record: R = decode(bytes)?;
    // A decoded record must survive a further round trip unchanged.
    let again = encode(&record)?;
    if again != encode(&decode::<R>(&again)?)? {
        return Err(ControlError::damaged(R::TABLE, "a record changes when it is written again"));
    }
    Ok(())
}

/// Checks that `bytes` are a record of the table `name`.
///
/// # Errors
/// `Damaged` if the bytes are invalid, `Refused` if there is no such table.
pub fn check_record(name: &str, bytes: &[u8]) -> Result<(), ControlError> {
    let found = CHECKS.iter().find(|(table, _)| *table == name);
    let (_, check) =
        found.ok_or_else(|| ControlError::refused("table", "there is no such table"))?;
    check(bytes)
}

impl Control {
    /// Removes at most [`SWEPT_TOGETHER_MAX`] expired records. Returns their number; if equal to the maximum, there may
    /// be more.
    ///
    /// # Errors
    /// A store error.
    pub fn sweep(&self) -> Result<usize, ControlError> {
        // The leader removes expired records.
        if !self.may_change() {
            return Ok(0);
        }
        let now = self.now();
        if self.read(|view| view.over(now, 1))?.is_empty() && !self.is_time_to_keep() {
            return Ok(0);
        }
        self.write(|change| self.sweep_in(change))
    }

    /// As [`Self::sweep`], within the transaction of another operation.
    pub(super) fn sweep_in(&self, change: &Change<'_>) -> Result<usize, ControlError> {
        let over = change.over(self.now(), SWEPT_TOGETHER_MAX)?;
        over.iter().try_for_each(|expiry| remove(change, expiry))?;
        Ok(over.len())
    }
}

/// Removes the record of an entry of `expiries`, with dependent records.
fn remove(change: &Change<'_>, expiry: &Expiry) -> Result<(), ControlError> {
    match expiry.number {
        Credential::NUMBER => {
            if let Some(credential) = due::<Credential>(change, expiry)? {
                credentials::remove(change, &expiry.key, &credential)?;
            }
        }
        Grant::NUMBER => {
            if let Some(grant) = due::<Grant>(change, expiry)? {
                grants::remove(change, &grant)?;
            }
        }
        Mail::NUMBER => {
            if let Some(mail) = due::<Mail>(change, expiry)? {
                remove_mail(change, expiry, &mail)?;
            }
        }
        Client::NUMBER => remove_due::<Client>(change, expiry)?,
        Code::NUMBER => remove_due::<Code>(change, expiry)?,
        Revoked::NUMBER => remove_due::<Revoked>(change, expiry)?,
        TokenKeyRecord::NUMBER => remove_due::<TokenKeyRecord>(change, expiry)?,
        Usage::NUMBER => remove_due::<Usage>(change, expiry)?,
        number => {
            let why = format!("a key names table {number}, of which nothing expires");
            return Err(ControlError::damaged(EXPIRIES, why));
        }
    }
    change.forget(expiry)
}

/// The record of an entry, if the record still expires at the entry's time.
fn due<R: Record>(change: &Change<'_>, expiry: &Expiry) -> Result<Option<R>, ControlError> {
    let found: Option<R> = change.find(&expiry.key)?;
    Ok(found.filter(|record| record.removed_at() == Some(expiry.at)))
}

fn remove_due<R: Record>(change: &Change<'_>, expiry: &Expiry) -> Result<(), ControlError> {
    if due::<R>(change, expiry)?.is_some() {
        change.remove::<R>(&expiry.key)?;
    }
    Ok(())
}

/// Removes an unused link from its workspace.
fn remove_mail(change: &Change<'_>, expiry: &Expiry, mail: &Mail) -> Result<(), ControlError> {
    let key = mail.tenant.as_bytes();
    let tenant: Option<Tenant> = change.find(key)?;
    let is_out =
        |tenant: &Tenant| tenant.mail.as_ref().is_some_and(|hash| hash.bytes()[..] == expiry.key);
    if let Some(mut tenant) = tenant.filter(is_out) {
        drop_mail(change, &mut tenant)?;
        return change.put(key, &tenant);
    }
    change.remove::<Mail>(&expiry.key)?;
    Ok(())
}
