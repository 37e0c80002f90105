//! The id of a request, in responses and in logs.
//!
//! A client may send its own id, to correlate its logs with the server's. Such an id is restricted to characters that
//! cannot break out of a line, a field or a string. Generated ids are composed of numbers that the connection already
//! has: no randomness, no shared counter.

use std::fmt;

use crate::limits::REQUEST_ID_BYTES_MAX;

/// Field of the id in requests and responses.
pub const FIELD: &str = "x-request-id";

/// 1 to `REQUEST_ID_BYTES_MAX` of `A-Z a-z 0-9 . _ -`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestId {
    text: [u8; REQUEST_ID_BYTES_MAX],
    length: u8,
}

impl RequestId {
    /// Parses a client's id; `None` if the form is invalid.
    pub fn parse(text: &str) -> Option<RequestId> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > REQUEST_ID_BYTES_MAX || !text.bytes().all(is_plain) {
            return None;
        }
        let mut id = RequestId::empty();
        text.bytes().for_each(|byte| id.push(byte));
        Some(id)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        let bytes = &self.text[..usize::from(self.length)];
        std::str::from_utf8(bytes).expect("only ASCII was put in")
    }

    fn empty() -> RequestId {
        RequestId { text: [0; REQUEST_ID_BYTES_MAX], length: 0 }
    }

    fn push(&mut self, byte: u8) {
        self.text[usize::from(self.length)] = byte;
        self.length += 1;
    }

    /// Appends a number in hexadecimal without leading zeros.
    fn push_hex(&mut self, number: u64) {
        let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
        for at in (0..digits).rev() {
            let digit = (number >> (4 * at)) & 0xf;
            self.push(b"0123456789abcdef"[usize::try_from(digit).expect("four bits")]);
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Generates the ids of one connection: `INSTANCE-CONNECTION-REQUEST`, three hexadecimal numbers.
#[derive(Clone, Copy, Debug)]
pub struct Numbering {
    /// Distinguishes runs of the server.
    pub instance: u32,
    /// Number of the connection.
    pub connection: u64,
    /// Number of requests on this connection so far.
    pub requests: u32,
}

impl Numbering {
    /// Returns the id of the next request.
    #[expect(
        clippy::should_implement_trait,
        reason = "numbering never ends, and no adapter is wanted"
    )]
    pub fn next(&mut self) -> RequestId {
        self.requests = self.requests.wrapping_add(1);
        let mut id = RequestId::empty();
        id.push_hex(u64::from(self.instance));
        id.push(b'-');
        id.push_hex(self.connection);
        id.push(b'-');
        id.push_hex(u64::from(self.requests));
        id
    }
}

// Three numbers of 8, 16 and 8 digits, and two hyphens.
const _: () = assert!(8 + 16 + 8 + 2 <= REQUEST_ID_BYTES_MAX);
const _: () = assert!(REQUEST_ID_BYTES_MAX <= u8::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_count_up_and_are_of_the_form_that_we_take() {
        let mut numbering = Numbering { instance: 0xab, connection: 16, requests: 0 };
        assert_eq!(numbering.next().as_str(), "ab-10-1");
        assert_eq!(numbering.next().as_str(), "ab-10-2");
        let mut last = Numbering { instance: u32::MAX, connection: u64::MAX, requests: u32::MAX };
        assert_eq!(last.next().as_str(), "ffffffff-ffffffffffffffff-0");
        assert_eq!(RequestId::parse(last.next().as_str()).unwrap().to_string().len(), 27);
    }

    #[test]
    fn a_client_brings_plain_characters_or_is_given_ours() {
        for good in ["a", "A.b_c-9", &"x".repeat(REQUEST_ID_BYTES_MAX)] {
            assert_eq!(RequestId::parse(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(REQUEST_ID_BYTES_MAX + 1);
        for bad in ["", " a", "a b", "a\tb", "a\"b", "a,b", "a=b", "\u{e9}", &long] {
            assert_eq!(RequestId::parse(bad), None, "{bad:?}");
        }
    }
}
