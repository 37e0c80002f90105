//! E-mail: one plain text to one address by SMTP, from a queue with its own thread.
//!
//! Implements addresses, the confirmation mail, and the SMTP client for the operator's mail server. Independent of
//! workspaces. Stores nothing: queued mails are lost when the server ends, and their recipients request another. Rules
//! PAG-28 to PAG-31 of `format-spec/pages.md`.
#![forbid(unsafe_code)]

mod address;
mod message;
mod queue;
#[cfg(test)]
mod sink;
mod smtp;
mod waiting;

pub use address::{ADDRESS_BYTES_MAX, Address, AddressError};
pub use message::{LINK_BYTES_MAX, Mail, UnfitForMail};
pub use queue::MailQueue;
pub use smtp::{MailSettings, MailSettingsError, Security, SmtpMailer};
pub use waiting::{MAILS_WAITING_MAX, PAUSES, QueueFull};

/// Sends mails. May block as long as the mail server does.
pub trait Mailer: Send + Sync {
    /// Sends `mail`.
    ///
    /// # Errors
    /// The server did not accept the mail. If the connection failed at the very end, the server may have accepted it.
    fn send(&self, mail: &Mail) -> Result<(), MailError>;
}

/// Reason for an unsent mail. Contains no address, and nothing from the server but its reply code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailError {
    /// True if a retry is useless.
    pub is_final: bool,
    /// Description for a log.
    pub why: String,
}
