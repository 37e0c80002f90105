//! The cookie that identifies a browser during a sign-in.
//!
//! The cookie names nobody and opens nothing by itself: a sealed request is valid only together with its cookie.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::os::clock::Random;
use zeroize::Zeroizing;

use recalld_http_server::{Headers, SentTwice, cookie};

const KEY_BYTES: usize = 32;
/// Length of a key in base64url digits without padding.
const DIGITS: usize = 43;

/// Browsers accept this prefix only over TLS and only for the exact host (RFC 6265bis, section 4.1.3.2).
const NAME_WITH_TLS: &str = "__Host-recalld-signin";
const NAME_WITHOUT_TLS: &str = "recalld-signin";

/// Lifetime of the cookie in seconds. Longer than a sign-in may take, so that an expired sign-in is distinguished from
/// a missing cookie.
const MAX_AGE_SECONDS: u32 = 3600;

/// The secret of one browser. Has no `Debug`: anyone who knows the secret can submit forms in the browser's place.
pub struct Browser {
    key: Zeroizing<[u8; KEY_BYTES]>,
}

/// Reason for not identifying a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBrowser {
    /// The cookie is missing.
    Missing,
    /// The cookie was not set by this server.
    Malformed,
    /// The cookie was sent more than once: at most a single value is this server's, and nothing tells which.
    Twice,
}

impl Browser {
    /// Generates a new secret.
    pub fn new(random: &dyn Random) -> Browser {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        random.fill(&mut *key);
        Browser { key }
    }

    /// Parses the cookie of a request. The cookie's name depends on TLS: a cookie set without TLS is not accepted with
    /// TLS.
    ///
    /// # Errors
    /// No valid cookie, or more than one.
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

    /// The `Set-Cookie` value. The cookie is hidden from scripts and absent from cross-site requests, except when
    /// following a link (`SameSite=Lax`).
    pub fn set_cookie(&self, has_tls: bool) -> String {
        let (name, value) = (name_of(has_tls), URL_SAFE_NO_PAD.encode(*self.key));
        let secure = if has_tls { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={MAX_AGE_SECONDS}; HttpOnly; SameSite=Lax{secure}")
    }

    /// Key bytes for MACs bound to this browser.
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
            // Nonzero bits after the last byte.
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
