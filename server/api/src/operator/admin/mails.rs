//! E-mail addresses of workspaces: set, confirmed by mail, marked as verified.

use std::time::Duration;

use serde_json::{Value, json};

use super::act::EmailOfTenant;
use super::office::{AdminError, Office, shown};
use recalld_mail::{Address, Mail};
use recalld_metastore::LINK_SECONDS;
use recalld_oauth::pages::{CONFIRM_PATH, CONFIRM_TOKEN_FIELD};

impl Office<'_> {
    /// Sets a workspace's address, or sends the confirmation mail to the stored address again.
    pub(super) fn email_tenant(&self, of: &EmailOfTenant) -> Result<Value, AdminError> {
        let tenant = self.living(&of.slug)?;
        let address = of.email.as_deref().or(tenant.email.as_deref()).ok_or_else(|| {
            AdminError::wrong("email", "the workspace has no address yet; give one")
        })?;
        let address = checked(address)?;
        // A repeated mail would make the address unverified and disable writes until the confirmation.
        if tenant.email_verified_at.is_some() && tenant.email.as_deref() == Some(address.as_str()) {
            return Err(AdminError::wrong("email", "it is confirmed already; nothing was sent"));
        }
        self.write_to(&of.slug, address)
    }

    /// Marks a workspace's address as verified on the operator's authority.
    pub(super) fn verify_tenant(&self, slug: &str) -> Result<Value, AdminError> {
        self.living(slug)?;
        Ok(shown(&self.control.mark_email_verified(slug)?))
    }

    /// Sets the address, which makes it unverified, and queues the confirmation mail if mail is configured. In the
    /// response, `mail` is the outcome and `mail_about` the next step.
    pub(super) fn write_to(&self, slug: &str, address: Address) -> Result<Value, AdminError> {
        let prefix = &self.config.oauth.key_prefix;
        let secret = self.control.set_email(slug, address.as_str(), prefix)?;
        let by_hand = format!("once you know that it is theirs: recalld tenant verify {slug}");
        let again = format!("recalld tenant email {slug}");
        let live = self.live.map(|live| (live.mail.as_ref(), live.authority.as_ref()));
        let (word, about) = match live {
            None => {
                let about = format!(
                    "no server runs that could send it; start it, then: {again}; or, {by_hand}"
                );
                ("not_sent", about)
            }
            Some((None, _)) => (
                "not_sent",
                format!("the settings have no [mail], so no letter is sent; {by_hand}"),
            ),
            Some((_, None)) => {
                let about = format!("without --public-url there is no link to send; {by_hand}");
                ("not_sent", about)
            }
            Some((Some(queue), Some(authority))) => {
                let (issuer, secret) = (authority.places.issuer(), secret.expose());
                let link = format!("{issuer}{CONFIRM_PATH}?{CONFIRM_TOKEN_FIELD}={secret}");
                let good_for = Duration::from_secs(LINK_SECONDS);
                let letter = Mail::confirmation(address, slug, &link, good_for);
                let letter = letter.map_err(|why| AdminError::Failed(why.to_string()))?;
                queue.put(letter).map_err(|why| {
                    AdminError::Failed(format!("{why}; the address is kept; later: {again}"))
                })?;
                ("queued", format!("a letter goes out; if none comes: {again}"))
            }
        };
        let mut report = shown(&self.living(slug)?);
        report["mail"] = json!(word);
        report["mail_about"] = json!(about);
        Ok(report)
    }
}

/// Parses an address to which mail can be sent.
pub(super) fn checked(email: &str) -> Result<Address, AdminError> {
    Address::parse(email).map_err(|why| AdminError::wrong("email", why.to_string()))
}
