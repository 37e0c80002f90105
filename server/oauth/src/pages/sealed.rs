//! Sealed authorization request, carried through the sign-in form. Accepted only unchanged, in time, and from the
//! browser that was shown the form.
//!
//! The text is base64url of version, end time, random id, two HMAC-SHA-256 and the parameters (PAG-20). The first MAC
//! authenticates the request as issued here, the second binds the request to a browser. The content is not secret: the
//! parameters came in a URL of that browser.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::os::clock::{Micros, Random};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::browser::Browser;

/// Time limit of a sign-in.
pub(crate) const SEALED_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// Maximum size of the parameters in bytes: half of the largest request head, in which they arrive.
pub(crate) const PARAMETERS_BYTES_MAX: usize = 8 * 1024;

const VERSION: u8 = 1;
const MAC_BYTES: usize = 32;
const ID_BYTES: usize = 16;
/// Version, end time in microseconds, and random id.
const FRONT_BYTES: usize = 1 + 8 + ID_BYTES;
const HEAD_BYTES: usize = FRONT_BYTES + 2 * MAC_BYTES;
/// Maximum length of the sealed text: four digits for three bytes.
const SEALED_BYTES_MAX: usize = (HEAD_BYTES + PARAMETERS_BYTES_MAX).div_ceil(3) * 4;

/// Domain separation of the MACs: none passes for another.
const OURS: &[u8] = b"recalld sign-in request 1\0";
const BROWSER: &[u8] = b"recalld sign-in browser 1\0";
const FORM: &[u8] = b"recalld sign-in form 1\0";

/// Seals and opens requests. Has no `Debug`, because of its key.
pub struct Sealer {
    key: Zeroizing<[u8; 32]>,
}

/// A sealed request, and the CSRF token of its form.
pub struct Sealed {
    /// Value of the form field `request`.
    pub request: String,
    /// Value of the form field `csrf`.
    pub csrf: String,
}

/// A verified request.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// Unique id of the sealed request, by which completion is recorded.
    pub id: [u8; ID_BYTES],
    /// End of validity; a record of completion need not be retained longer.
    pub ends_at: Micros,
    /// The parameters as sealed.
    pub parameters: String,
}

/// The parameters exceed `PARAMETERS_BYTES_MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Reason for rejecting a sealed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The request was not issued here or was changed, or its CSRF token is wrong.
    Forged,
    /// The time limit has passed.
    Expired,
    /// The form was shown to another browser.
    OtherBrowser,
}

impl Sealer {
    /// A sealer with a key of 256 random bits, not used elsewhere.
    pub fn new(key: [u8; 32]) -> Sealer {
        Sealer { key: Zeroizing::new(key) }
    }

    /// Seals `parameters` for `browser`, valid from `now` for `SEALED_TIME_MAX`.
    ///
    /// # Errors
    /// The parameters are too long.
    pub fn seal(
        &self,
        browser: &Browser,
        parameters: &str,
        now: Micros,
        random: &dyn Random,
    ) -> Result<Sealed, TooLong> {
        if parameters.len() > PARAMETERS_BYTES_MAX {
            return Err(TooLong);
        }
        let mut bytes = Vec::with_capacity(HEAD_BYTES + parameters.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&now.0.saturating_add(time_max_micros()).to_le_bytes());
        let mut id = [0; ID_BYTES];
        random.fill(&mut id);
        bytes.extend_from_slice(&id);
        let ours = self.mac(OURS, &[&bytes, parameters.as_bytes()]).finalize().into_bytes();
        let of_browser = self.mac(BROWSER, &[browser.key(), &ours]).finalize().into_bytes();
        bytes.extend_from_slice(&ours);
        bytes.extend_from_slice(&of_browser);
        bytes.extend_from_slice(parameters.as_bytes());
        let request = URL_SAFE_NO_PAD.encode(bytes);
        let csrf = URL_SAFE_NO_PAD.encode(self.form(browser, &request).finalize().into_bytes());
        Ok(Sealed { request, csrf })
    }

    /// Verifies the form fields `request` and `csrf` sent by `browser`, and returns the content.
    ///
    /// # Errors
    /// The request was not sealed here for this browser, or has expired.
    pub fn open(
        &self,
        browser: &Browser,
        request: &str,
        csrf: &str,
        now: Micros,
    ) -> Result<Opened, OpenError> {
        if request.len() > SEALED_BYTES_MAX {
            return Err(OpenError::Forged);
        }
        let bytes = URL_SAFE_NO_PAD.decode(request).map_err(|_| OpenError::Forged)?;
        let parts = Parts::of(&bytes).ok_or(OpenError::Forged)?;
        let ours = self.mac(OURS, &[parts.front, parts.parameters]);
        ours.verify_slice(parts.ours).map_err(|_| OpenError::Forged)?;
        // The first MAC is valid: the request was issued here.
        if now >= parts.ends_at || now.0 < parts.ends_at.0.saturating_sub(time_max_micros()) {
            return Err(OpenError::Expired);
        }
        let of_browser = self.mac(BROWSER, &[browser.key(), parts.ours]);
        of_browser.verify_slice(parts.of_browser).map_err(|_| OpenError::OtherBrowser)?;
        let token = URL_SAFE_NO_PAD.decode(csrf).map_err(|_| OpenError::Forged)?;
        self.form(browser, request).verify_slice(&token).map_err(|_| OpenError::Forged)?;
        let parameters = std::str::from_utf8(parts.parameters).map_err(|_| OpenError::Forged)?;
        Ok(Opened { id: parts.id, ends_at: parts.ends_at, parameters: parameters.to_owned() })
    }

    fn form(&self, browser: &Browser, request: &str) -> Hmac<Sha256> {
        self.mac(FORM, &[browser.key(), request.as_bytes()])
    }

    /// MAC of the concatenated parts. For each purpose, all parts but the last have a fixed length, so the
    /// concatenation is unambiguous.
    fn mac(&self, purpose: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&*self.key).expect("a MAC takes keys of any length");
        mac.update(purpose);
        for part in parts {
            mac.update(part);
        }
        mac
    }
}

/// The fields of a sealed request.
struct Parts<'a> {
    front: &'a [u8],
    ends_at: Micros,
    id: [u8; ID_BYTES],
    ours: &'a [u8],
    of_browser: &'a [u8],
    parameters: &'a [u8],
}

impl Parts<'_> {
    fn of(bytes: &[u8]) -> Option<Parts<'_>> {
        let (front, rest) = bytes.split_at_checked(FRONT_BYTES)?;
        let (ours, rest) = rest.split_at_checked(MAC_BYTES)?;
        let (of_browser, parameters) = rest.split_at_checked(MAC_BYTES)?;
        let (version, after) = front.split_first()?;
        let (ends_at, id) = after.split_first_chunk()?;
        let id = id.try_into().ok()?;
        let ends_at = Micros(i64::from_le_bytes(*ends_at));
        (*version == VERSION).then_some(Parts { front, ends_at, id, ours, of_browser, parameters })
    }
}

fn time_max_micros() -> i64 {
    i64::try_from(SEALED_TIME_MAX.as_micros()).expect("ten minutes are less than 2^63 microseconds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::os::clock::SystemRandom;
    use proptest::prelude::*;

    const NOW: Micros = Micros(1_800_000_000_000_000);

    fn later(micros: i64) -> Micros {
        Micros(NOW.0 + micros)
    }

    #[test]
    fn what_was_asked_comes_back_to_the_same_browser() {
        let (sealer, browser) = (Sealer::new([7; 32]), Browser::new(&SystemRandom));
        let asked = "{\"client_id\":\"a\",\"state\":\"\u{e9}\"}";
        let sealed = sealer.seal(&browser, asked, NOW, &SystemRandom).ok().unwrap();
        let opened = sealer.open(&browser, &sealed.request, &sealed.csrf, later(1)).unwrap();
        assert_eq!(opened.parameters, asked);
        assert_eq!(opened.ends_at, later(time_max_micros()));
        let again = sealer.seal(&browser, asked, NOW, &SystemRandom).ok().unwrap();
        let again = sealer.open(&browser, &again.request, &again.csrf, NOW).unwrap();
        assert_ne!(again.id, opened.id);
        let other = Browser::new(&SystemRandom);
        let open = |sealer: &Sealer, browser, csrf: &str| {
            sealer.open(browser, &sealed.request, csrf, NOW).err()
        };
        assert_eq!(open(&sealer, &other, &sealed.csrf), Some(OpenError::OtherBrowser));
        assert_eq!(open(&Sealer::new([8; 32]), &browser, &sealed.csrf), Some(OpenError::Forged));
        for csrf in ["", "AAAA", "*", &sealed.csrf[1..], &sealed.request] {
            assert_eq!(open(&sealer, &browser, csrf), Some(OpenError::Forged), "{csrf}");
        }
    }

    #[test]
    fn it_is_over_after_ten_minutes_and_before_it_began() {
        let (sealer, browser) = (Sealer::new([7; 32]), Browser::new(&SystemRandom));
        let sealed = sealer.seal(&browser, "a", NOW, &SystemRandom).ok().unwrap();
        let open = |now| sealer.open(&browser, &sealed.request, &sealed.csrf, now).map(|_| ());
        let last = time_max_micros() - 1;
        assert_eq!([open(NOW), open(later(last))], [Ok(()), Ok(())]);
        assert_eq!(open(later(last + 1)), Err(OpenError::Expired));
        assert_eq!(open(later(-1)), Err(OpenError::Expired));
    }

    #[test]
    fn none_of_its_characters_can_be_changed() {
        let (sealer, browser) = (Sealer::new([7; 32]), Browser::new(&SystemRandom));
        let sealed = sealer.seal(&browser, "{\"a\":1}", NOW, &SystemRandom).ok().unwrap();
        let open = |request: &str| sealer.open(&browser, request, &sealed.csrf, NOW).err();
        for at in 0..sealed.request.len() {
            let mut touched = sealed.request.clone().into_bytes();
            touched[at] = if touched[at] == b'A' { b'B' } else { b'A' };
            let touched = String::from_utf8(touched).unwrap();
            let found = open(&touched);
            // A changed second MAC is indistinguishable from the MAC of another browser.
            assert!(matches!(found, Some(OpenError::Forged | OpenError::OtherBrowser)), "{at}");
            assert!(open(&sealed.request[..at]).is_some(), "cut at {at}");
        }
        assert_eq!(open(&format!("{}AAAA", sealed.request)), Some(OpenError::Forged));
        assert_eq!(open(&"A".repeat(SEALED_BYTES_MAX)), Some(OpenError::Forged));
        assert_eq!(open(&"A".repeat(SEALED_BYTES_MAX + 1)), Some(OpenError::Forged));
    }

    #[test]
    fn the_longest_parameters_fit_and_longer_ones_are_refused() {
        let (sealer, browser) = (Sealer::new([7; 32]), Browser::new(&SystemRandom));
        let longest = "x".repeat(PARAMETERS_BYTES_MAX);
        let sealed = sealer.seal(&browser, &longest, NOW, &SystemRandom).ok().unwrap();
        assert!(sealed.request.len() <= SEALED_BYTES_MAX);
        assert!(sealer.open(&browser, &sealed.request, &sealed.csrf, NOW).is_ok());
        let longer = format!("{longest}x");
        assert_eq!(sealer.seal(&browser, &longer, NOW, &SystemRandom).err(), Some(TooLong));
    }

    proptest! {
        #[test]
        fn foreign_texts_are_forged(request in "[A-Za-z0-9_-]{0,300}", csrf in any::<String>()) {
            let (sealer, browser) = (Sealer::new([7; 32]), Browser::new(&SystemRandom));
            prop_assert_eq!(sealer.open(&browser, &request, &csrf, NOW), Err(OpenError::Forged));
        }
    }
}
