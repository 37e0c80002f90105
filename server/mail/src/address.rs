//! An e-mail address in a form that cannot break a header or an SMTP command.

use std::fmt;

/// Maximum length of an address in bytes (RFC 5321, section 4.5.3.1.3: 256 including the angle brackets).
pub const ADDRESS_BYTES_MAX: usize = 254;
/// Maximum length of the local part in bytes (RFC 5321, section 4.5.3.1.1).
const LOCAL_BYTES_MAX: usize = 64;
/// Maximum length of a host's label in bytes (RFC 1035, section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// A validated address (PAG-29).
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    at: usize,
}

/// Reason for rejecting an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// The address has more than [`ADDRESS_BYTES_MAX`] bytes, or the local part more than 64.
    TooLong,
    /// The local part is empty or contains a character that is not allowed.
    Local,
    /// The part after the `@` is not a host name.
    Host,
    /// The text contains no `@`.
    NoAt,
}

impl Address {
    /// Parses `text`, all of which must be the address.
    ///
    /// # Errors
    /// The text is no address, or has an unsupported form: quoted, with a comment, non-ASCII.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        let (local, host) = text.rsplit_once('@').ok_or(AddressError::NoAt)?;
        if text.len() > ADDRESS_BYTES_MAX || local.len() > LOCAL_BYTES_MAX {
            return Err(AddressError::TooLong);
        }
        let is_atom = |atom: &str| !atom.is_empty() && atom.bytes().all(is_atom_text);
        if !local.split('.').all(is_atom) {
            return Err(AddressError::Local);
        }
        if !host.split('.').all(is_label) {
            return Err(AddressError::Host);
        }
        Ok(Address { at: local.len(), text: text.to_owned() })
    }

    /// The whole address.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The local part, before the `@`.
    pub fn local(&self) -> &str {
        &self.text[..self.at]
    }

    /// The host, after the `@`; the only part that a log may contain.
    pub fn host(&self) -> &str {
        &self.text[self.at + 1..]
    }
}

/// Returns true for a character of an atom (RFC 5322, section 3.2.3).
fn is_atom_text(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte)
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Omits the local part, which is personal data.
impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Address(...@{})", self.host())
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(
                out,
                "an address has at most {ADDRESS_BYTES_MAX} bytes, and {LOCAL_BYTES_MAX} before the @"
            ),
            Self::Local => out.write_str(
                "before the @ of an address stand letters, digits and !#$%&'*+-/=?^_`{|}~, \
                 with single dots between them",
            ),
            Self::Host => out.write_str(
                "after the @ of an address stands a host name in letters, digits and hyphens",
            ),
            Self::NoAt => out.write_str("an address has the form name@host"),
        }
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_addresses_are_taken_as_they_are() {
        for text in
            ["a@b.example", "Ada.Lovelace+x@mail.example.org", "o'neil@x-1.example", "a@localhost"]
        {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.as_str(), text);
            assert_eq!(format!("{}@{}", address.local(), address.host()), text);
        }
        let longest = format!("{}@{}b.example", "a".repeat(64), "a.".repeat(90));
        assert_eq!(longest.len(), ADDRESS_BYTES_MAX);
        assert!(Address::parse(&longest).is_ok());
        assert!(!format!("{:?}", Address::parse("ada@b.example").unwrap()).contains("ada"));
    }

    #[test]
    fn anything_else_is_refused_by_its_reason() {
        for (text, error) in [
            ("", AddressError::NoAt),
            ("a", AddressError::NoAt),
            ("@b", AddressError::Local),
            ("a..b@c", AddressError::Local),
            (".a@c", AddressError::Local),
            ("a b@c", AddressError::Local),
            ("a@b@c", AddressError::Local),
            ("\"a b\"@c", AddressError::Local),
            ("a(x)@c", AddressError::Local),
            ("a,b@c", AddressError::Local),
            ("<a@c", AddressError::Local),
            ("a\r\nBcc: d@c", AddressError::Local),
            ("\u{e9}@c", AddressError::Local),
            ("a@", AddressError::Host),
            ("a@c>", AddressError::Host),
            ("a@c\r\n", AddressError::Host),
            ("a@c d", AddressError::Host),
            ("a@-c", AddressError::Host),
            ("a@c-", AddressError::Host),
            ("a@c..d", AddressError::Host),
            ("a@[127.0.0.1]", AddressError::Host),
            ("a@\u{e9}.example", AddressError::Host),
        ] {
            assert_eq!(Address::parse(text), Err(error), "{text:?}");
        }
        assert_eq!(Address::parse(&format!("{}@b", "a".repeat(65))), Err(AddressError::TooLong));
        let long = format!("{}@{}bb.example", "a".repeat(64), "a.".repeat(90));
        assert_eq!(Address::parse(&long), Err(AddressError::TooLong));
        assert_eq!(Address::parse(&format!("a@{}", "a".repeat(64))), Err(AddressError::Host));
    }

    proptest! {
        #[test]
        fn no_address_can_break_a_line_or_a_command(text in "[ -~\r\n\t]{0,20}@[ -~\r\n]{0,20}") {
            if let Ok(address) = Address::parse(&text) {
                let safe = |byte: u8| byte.is_ascii_graphic() && !b"<>(),;:\\\"[]".contains(&byte);
                prop_assert!(address.as_str().bytes().all(safe));
                prop_assert_eq!(address.as_str().matches('@').count(), 1);
            }
        }
    }
}
