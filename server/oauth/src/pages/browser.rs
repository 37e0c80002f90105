//! The cookie that tells one browser from another while somebody signs in.
//!
//! It names nobody and is worth nothing by itself: a sealed request is good only where this cookie is.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::os::clock::Random;
use zeroize::Zeroizing;

use recalld_http_server::{Headers, SentTwice, cookie};

const KEY_BYTES: usize = 32;
/// Digits of a key in base64url without padding.
const DIGITS: usize = 43;

/// A name with this prefix is set over TLS only, for the whole host and no other (RFC 6265bis, section 4.1.3.2).
const NAME_WITH_TLS: &str = "__Host-recalld-signin";
const NAME_WITHOUT_TLS: &str = "recalld-signin";

/// How long the browser keeps the cookie, in seconds: longer than a sign-in may take, so that one that took too
/// long is told from one that never began.
const MAX_AGE_SECONDS: u32 = 3600;

/// A browser that signs in. Has no `Debug`, since who knows it can send forms in its place.
pub struct Browser {
    key: Zeroizing<[u8; KEY_BYTES]>,
}

/// Why the browser is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBrowser {
    /// It sent no such cookie.
    Missing,
    /// Its cookie is none of ours.
    Malformed,
    /// It sent the cookie more than once. One of them is somebody else's, and nothing tells which.
    Twice,
}

impl Browser {
    /// A new one.
    pub fn new(random: &dyn Random) -> Browser {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        random.fill(&mut *key);
        Browser { key }
    }

    /// The one that sent `headers`. With TLS and without, the cookie has another name: one that was set without TLS
    /// is worth nothing with it.
    ///
    /// # Errors
    /// There is no cookie of ours, or not exactly one.
    pub fn of(headers: &Headers, has_tls: bool) -> Result<Browser, NoBrowser> {
        let sent = cookie(headers, name_of(has_tls)).map_err(|_: SentTwice| NoBrowser::Twice)?;
        let value = sent.ok_or(NoBrowser::Missing)?;
        if value.len() != DIGITS {
            return Err(NoBrowser::Malformed);
        }
        let bytes = URL_SAFE_NO_PAD.decode(value).map(Zeroizing::new);
        let key = bytes.ok().and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes.as_slice()).ok());
        Ok(Browser { key: Zeroizing::new(key.ok_or(NoBrowser::Malformed)?) })
    }

    /// The value of the `Set-Cookie` field that makes the browser this one. No script reads it, and no request
    /// from another site carries it, but for following a link.
    pub fn set_cookie(&self, has_tls: bool) -> String {
        let (name, value) = (name_of(has_tls), URL_SAFE_NO_PAD.encode(*self.key));
        let secure = if has_tls { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={MAX_AGE_SECONDS}; HttpOnly; SameSite=Lax{secure}")
    }

    /// Its bytes, to bind something to it.
    pub(super) fn key(&self) -> &[u8] {
        &*self.key
    }
}

fn name_of(has_tls: bool) -> &'static str {
    if has_tls { NAME_WITH_TLS } else { NAME_WITHOUT_TLS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::os::clock::SystemRandom;
    use proptest::prelude::*;

    fn cookies(fields: &[&str]) -> Headers {
        let mut headers = Headers::default();
        for field in fields {
            headers.push("Cookie", field.as_bytes());
        }
        headers
    }

    #[test]
    fn a_browser_is_known_again_by_what_it_was_told() {
        for has_tls in [true, false] {
            let browser = Browser::new(&SystemRandom);
            let set = browser.set_cookie(has_tls);
            let (pair, attributes) = set.split_once("; ").unwrap();
            let plain = "Path=/; Max-Age=3600; HttpOnly; SameSite=Lax";
            assert_eq!(attributes, if has_tls { format!("{plain}; Secure") } else { plain.into() });
            assert_eq!(pair.starts_with("__Host-"), has_tls);
            for sent in [pair.to_owned(), format!("a=b; {pair};c=d"), format!("a; {pair}")] {
                let again = Browser::of(&cookies(&["x=y", &sent]), has_tls).ok().unwrap();
                assert_eq!(again.key(), browser.key());
            }
            assert_eq!(Browser::of(&cookies(&[pair]), !has_tls).err(), Some(NoBrowser::Missing));
            let twice = format!("{pair}; {pair}");
            assert_eq!(Browser::of(&cookies(&[&twice]), has_tls).err(), Some(NoBrowser::Twice));
            assert_eq!(Browser::of(&cookies(&[pair, pair]), has_tls).err(), Some(NoBrowser::Twice));
        }
    }

    #[test]
    fn a_cookie_that_is_not_ours_is_told() {
        let good = Browser::new(&SystemRandom).set_cookie(false);
        let value = &good["recalld-signin=".len()..][..DIGITS];
        for wrong in [
            String::new(),
            value[1..].to_owned(),
            format!("{value}A"),
            format!("\"{value}\""),
            "/".repeat(DIGITS),
            // Bits after the last byte are set.
            format!("{}B", &"A".repeat(DIGITS)[1..]),
        ] {
            let field = format!("recalld-signin={wrong}");
            let found = Browser::of(&cookies(&[&field]), false).err();
            assert_eq!(found, Some(NoBrowser::Malformed), "{wrong}");
        }
        for none in
            ["", "recalld-signin", "Recalld-Signin=a", "xrecalld-signin=a", "a=recalld-signin=b"]
        {
            assert_eq!(
                Browser::of(&cookies(&[none]), false).err(),
                Some(NoBrowser::Missing),
                "{none}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_cookie_field_is_read(field in any::<Vec<u8>>()) {
            let mut headers = Headers::default();
            headers.push("cookie", &field);
            prop_assert!(Browser::of(&headers, true).is_err());
        }
    }
}
