//! Cookies of a request (RFC 6265, section 5.4): pairs with `=`, between semicolons, in any number of fields.

use super::message::Headers;

/// The cookie name occurs more than once: another party set one of the cookies, and the request does not show which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentTwice;

/// Returns the value of the cookie `name`, if present.
///
/// # Errors
/// The cookie occurs more than once.
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
