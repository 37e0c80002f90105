//! E-mail: one plain text to one address, by SMTP, from a queue with a thread of its own.
//!
//! Owns addresses, the mail that asks to confirm one, and the way to the operator's mail server. Knows no workspaces
//! and keeps nothing: what waits is lost when the server ends, and whoever waits for a mail asks for another. Rules
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

/// Sends mails. May take as long as its server does.
pub trait Mailer: Send + Sync {
    /// Sends `mail`.
    ///
    /// # Errors
    /// The server did not take it. It may have, where the connection broke off at the very end.
    fn send(&self, mail: &Mail) -> Result<(), MailError>;
}

/// Why a mail was not sent. Names no address, and repeats nothing that a server said but its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailError {
    /// Whether it makes no sense to try again.
    pub is_final: bool,
    /// What happened, for a log.
    pub why: String,
}
