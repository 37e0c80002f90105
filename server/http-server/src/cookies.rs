//! Cookies of a request (RFC 6265, section 5.4): pairs with `=`, between semicolons, in any number of fields.

use super::message::Headers;

/// The cookie of this name is sent more than once: one of them is somebody else's, and nothing tells which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentTwice;

/// The value of the cookie of this name, if it is sent.
///
/// # Errors
/// It is sent more than once.
pub fn cookie<'a>(headers: &'a Headers, name: &str) -> Result<Option<&'a str>, SentTwice> {
    let mut values = headers
        .get_all("cookie")
        .flat_map(|field| field.split(';'))
        .filter_map(|pair| pair.trim_matches([' ', '\t']).split_once('='))
        .filter(|(sent, _)| *sent == name)
        .map(|(_, value)| value);
    let first = values.next();
    if values.next().is_some() { Err(SentTwice) } else { Ok(first) }
}
