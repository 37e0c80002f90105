//! Mails and their text on the wire.

use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use engine::os::clock::Micros;

use super::address::{Address, AddressError};

/// Maximum length of a link in bytes, so that its line has fewer than 998 bytes (RFC 5322, section 2.1.1).
pub const LINK_BYTES_MAX: usize = 900;
/// Maximum length of a workspace's name in a mail, in bytes.
const WORKSPACE_BYTES_MAX: usize = 64;

const MINUTE_SECONDS: u64 = 60;
const HOUR_SECONDS: u64 = 60 * MINUTE_SECONDS;

/// A plain text for one address.
///
/// `Debug` omits the local part of the address and the text, whose link contains a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Mail {
    to: Address,
    subject: &'static str,
    text: String,
}

/// The sender of mails.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) address: Address,
    /// Display name of visible ASCII and spaces, without `"` and `\`.
    name: Option<String>,
}

impl Sender {
    /// Parses `ADDRESS` or `NAME <ADDRESS>`; `None` if the name is not allowed in a mail.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, AddressError> {
        let Some((name, rest)) = text.split_once('<') else {
            return Ok(Some(Self { address: Address::parse(text)?, name: None }));
        };
        let address = Address::parse(rest.strip_suffix('>').unwrap_or(rest))?;
        let name = name.trim();
        let is_sound =
            name.chars().all(|char| matches!(char, ' '..='~') && char != '"' && char != '\\');
        let name = Some(name.to_owned()).filter(|name| !name.is_empty());
        Ok(is_sound.then_some(Self { address, name }))
    }

    /// Formats the value of `From` (RFC 5322, section 3.4).
    fn shown(&self) -> String {
        let address = self.address.as_str();
        match &self.name {
            Some(name) => format!("\"{name}\" <{address}>"),
            None => address.to_owned(),
        }
    }
}

/// The part that makes a mail invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfitForMail {
    /// The link is not visible ASCII, or longer than [`LINK_BYTES_MAX`] bytes.
    Link,
    /// The workspace's name is not visible ASCII, or longer than 64 bytes.
    Workspace,
}

impl Mail {
    /// Creates a mail that asks its reader to confirm the address by `link`, which is valid for `good_for`.
    ///
    /// # Errors
    /// The link or the name is not allowed in a mail.
    pub fn confirmation(
        to: Address,
        workspace: &str,
        link: &str,
        good_for: Duration,
    ) -> Result<Mail, UnfitForMail> {
        let fits = |text: &str, bytes_max| {
            (1..=bytes_max).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !fits(link, LINK_BYTES_MAX) {
            return Err(UnfitForMail::Link);
        }
        if !fits(workspace, WORKSPACE_BYTES_MAX) {
            return Err(UnfitForMail::Workspace);
        }
        let good_for = in_words(good_for);
        let text = format!(
            "This address was given for the workspace {workspace}\n\
             of a memory recall service. To confirm it, open this link and press the\n\
             button there:\n\
             \n\
             {link}\n\
             \n\
             The link is good for {good_for}, and once.\n\
             \n\
             If you did not ask for this, ignore it: the address stays unconfirmed.\n"
        );
        Ok(Mail { to, subject: "Confirm your e-mail address", text })
    }

    /// The recipient.
    pub fn to(&self) -> &Address {
        &self.to
    }

    /// The text, with lines that end with LF.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Renders the whole message (PAG-28) with the sender `from`, the date `at`, and `number` for a unique Message-ID.
    pub(super) fn rendered(&self, from: &Sender, at: Micros, number: [u8; 16]) -> String {
        let id = format!("{:032x}@{}", u128::from_le_bytes(number), from.address.host());
        let mut out = String::with_capacity(512 + self.text.len());
        for (name, value) in [
            ("From", &*from.shown()),
            ("To", self.to.as_str()),
            ("Subject", self.subject),
            ("Date", &date(at)),
            ("Message-ID", &format!("<{id}>")),
            ("Auto-Submitted", "auto-generated"),
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=us-ascii"),
            ("Content-Transfer-Encoding", "7bit"),
        ] {
            write!(out, "{name}: {value}\r\n").expect("a text takes what is written to it");
        }
        for line in ["\n", &self.text].concat().lines() {
            out.push_str(line);
            out.push_str("\r\n");
        }
        out
    }
}

/// Formats a date (RFC 5322, section 3.3). A time outside the calendar becomes 1970.
fn date(at: Micros) -> String {
    let moment = jiff::Timestamp::from_microsecond(at.0).unwrap_or_default();
    let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
    let printed = printer.timestamp_to_string(&moment);
    printed.expect("the printer refuses years before 0 and after 9999, which no clock shows")
}

/// Formats a duration in whole hours, or else in minutes, at least one.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let (count, unit) = if seconds >= HOUR_SECONDS && seconds.is_multiple_of(HOUR_SECONDS) {
        (seconds / HOUR_SECONDS, "hour")
    } else {
        ((seconds / MINUTE_SECONDS).max(1), "minute")
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

impl fmt::Debug for Mail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Mail")
            .field("to", &self.to)
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for UnfitForMail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, bytes_max) = match self {
            Self::Link => ("link", LINK_BYTES_MAX),
            Self::Workspace => ("workspace", WORKSPACE_BYTES_MAX),
        };
        write!(out, "the {what} of a mail has 1 to {bytes_max} bytes of visible ASCII")
    }
}

impl std::error::Error for UnfitForMail {}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    fn mail(workspace: &str, link: &str) -> Result<Mail, UnfitForMail> {
        Mail::confirmation(address("ada@b.example"), workspace, link, Duration::from_secs(86_400))
    }

    #[test]
    fn a_mail_is_these_lines() {
        let mail = mail("acme-notes", "https://recall.example/confirm?token=T").unwrap();
        // 2026-11-22T10:20:30Z, computed with GNU date.
        let at = Micros(1_795_342_830_000_000);
        let from = |text: &str| Sender::parse(text).unwrap().unwrap();
        let text = mail.rendered(&from("no-reply@recall.example"), at, [1; 16]);
        assert_eq!(
            text.replace("\r\n", "\n"),
            "From: no-reply@recall.example\n\
             To: ada@b.example\n\
             Subject: Confirm your e-mail address\n\
             Date: Sun, 22 Nov 2026 10:20:30 -0000\n\
             Message-ID: <01010101010101010101010101010101@recall.example>\n\
             Auto-Submitted: auto-generated\n\
             MIME-Version: 1.0\n\
             Content-Type: text/plain; charset=us-ascii\n\
             Content-Transfer-Encoding: 7bit\n\
             \n\
             This address was given for the workspace acme-notes\n\
             of a memory recall service. To confirm it, open this link and press the\n\
             button there:\n\
             \n\
             https://recall.example/confirm?token=T\n\
             \n\
             The link is good for 24 hours, and once.\n\
             \n\
             If you did not ask for this, ignore it: the address stays unconfirmed.\n"
        );
        assert!(text.split("\r\n").all(|line| !line.contains(['\r', '\n']) && line.len() < 998));
        assert!(!format!("{mail:?}").contains("ada") && !format!("{mail:?}").contains("token"));
        assert!(mail.rendered(&from("a@b"), Micros(i64::MAX), [0; 16]).contains(" 1970 "));
        let named = mail.rendered(&from("The Memory <a@b>"), at, [0; 16]);
        assert!(named.starts_with("From: \"The Memory\" <a@b>\r\n"), "{named}");
        assert!(Sender::parse("a\"b <a@b>").unwrap().is_none());
        assert!(Sender::parse("\u{e9} <a@b>").unwrap().is_none());
    }

    #[test]
    fn what_could_break_its_lines_is_refused() {
        let long = "x".repeat(LINK_BYTES_MAX);
        assert!(mail("acme", &long).is_ok());
        for link in ["", "https://a\r\nb", "https://a b", "https://\u{e9}", &format!("{long}x")] {
            assert_eq!(mail("acme", link), Err(UnfitForMail::Link), "{link:?}");
        }
        for workspace in ["", "a\nb", &"x".repeat(WORKSPACE_BYTES_MAX + 1)] {
            assert_eq!(mail(workspace, "https://a"), Err(UnfitForMail::Workspace));
        }
    }

    #[test]
    fn times_are_told_in_hours_or_minutes() {
        let told = |seconds| in_words(Duration::from_secs(seconds));
        assert_eq!(told(86_400), "24 hours");
        assert_eq!([told(3600), told(5400), told(1)], ["1 hour", "90 minutes", "1 minute"]);
    }
}
