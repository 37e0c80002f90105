//! One e-mail address, in a form that no header and no SMTP command can be broken with.

use std::fmt;

/// Longest address, in bytes (RFC 5321, section 4.5.3.1.3: 256 with the brackets around it).
pub const ADDRESS_BYTES_MAX: usize = 254;
/// Longest part before the `@` (RFC 5321, section 4.5.3.1.1).
const LOCAL_BYTES_MAX: usize = 64;
/// Longest label of a host (RFC 1035, section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// An address that was checked (PAG-29).
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    at: usize,
}

/// Why a text is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// It has more than [`ADDRESS_BYTES_MAX`] bytes, or more than 64 before the `@`.
    TooLong,
    /// It has characters before the `@` that are not allowed, or none.
    Local,
    /// What follows the `@` is no host name.
    Host,
    /// It has no `@`.
    NoAt,
}

impl Address {
    /// The address that `text` is, exactly.
    ///
    /// # Errors
    /// It is none, or one of a form that is not taken: quoted, with a comment, of another script.
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

    /// All of it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What stands before the `@`.
    pub fn local(&self) -> &str {
        &self.text[..self.at]
    }

    /// What stands after the `@`: as much as a log may say.
    pub fn host(&self) -> &str {
        &self.text[self.at + 1..]
    }
}

/// RFC 5322, section 3.2.3.
fn is_atom_text(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte)
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Without the part before the `@`, which is a person's.
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
