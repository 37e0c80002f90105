//! Reads the expiry time of a certificate, the one X.509 field of which operators must be warned.
//!
//! Parses the DER of the first certificate up to its validity (RFC 5280, section 4.1). The time is reported only;
//! `rustls` validates certificates independently. An X.509 crate would add a dozen dependencies for two fields.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::limits::TLS_FILE_BYTES_MAX;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// Tag of the version, which every current certificate contains.
const VERSION: u8 = 0xa0;
/// Two-digit years from here on belong to the previous century (RFC 5280, section 4.1.2.5.1).
const YEAR_OF_CENTURY: i16 = 50;

/// Returns the expiry time of the first certificate in a PEM file.
///
/// # Errors
/// The file cannot be read or contains no certificate; the message says why.
pub fn certificate_ends(file: &Path) -> Result<Timestamp, String> {
    let opened = recalld_common::regular_file::open(file).map_err(|error| error.to_string())?;
    let opened = opened.ok_or("it is no regular file")?;
    let mut bytes = Vec::new();
    let read = std::io::Read::read_to_end(
        &mut std::io::Read::take(opened, TLS_FILE_BYTES_MAX),
        &mut bytes,
    );
    read.map_err(|error| error.to_string())?;
    let first = CertificateDer::pem_slice_iter(&bytes).next().ok_or("no certificate is in it")?;
    let first = first.map_err(|error| error.to_string())?;
    ends(&first).ok_or_else(|| "its first certificate cannot be read".to_owned())
}

fn ends(certificate: &[u8]) -> Option<Timestamp> {
    let (signed, _) = inner(certificate, SEQUENCE)?;
    let (fields, _) = inner(signed, SEQUENCE)?;
    let rest = inner(fields, VERSION).map_or(fields, |(_, rest)| rest);
    let (_, rest) = inner(rest, INTEGER)?;
    let (_, rest) = inner(rest, SEQUENCE)?; // the algorithm
    let (_, rest) = inner(rest, SEQUENCE)?; // who issued it
    let (validity, _) = inner(rest, SEQUENCE)?;
    let (_, rest) = time(validity)?;
    time(rest).map(|(ends, _)| ends)
}

/// Returns the content of the leading DER value, which must have this tag, and the remaining bytes.
fn inner(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (&short, rest) = rest.split_first()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    if *found != tag {
        return None;
    }
    rest.split_at_checked(length)
}

/// Parses the leading DER time. Returns the time and the remaining bytes.
fn time(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (text, rest, century) = match inner(bytes, UTC_TIME) {
        Some((text, rest)) => (text, rest, None),
        None => {
            let (text, rest) = inner(bytes, GENERALIZED_TIME)?;
            let (century, text) = text.split_at_checked(2)?;
            (text, rest, Some(two(century)?))
        }
    };
    let text = text.strip_suffix(b"Z").filter(|text| text.len() == 12)?;
    let mut parts = text.chunks(2).map(two);
    let mut next = || parts.next()?;
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let century = century.unwrap_or(if i16::from(year) < YEAR_OF_CENTURY { 20 } else { 19 });
    let year = i16::from(century) * 100 + i16::from(year);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let day = jiff::civil::Date::new(year, month, day).ok()?;
    let at = jiff::civil::Time::new(hour, minute, second, 0).ok()?;
    let at = day.to_datetime(at).to_zoned(TimeZone::UTC).ok()?;
    Some((at.timestamp(), rest))
}

fn two(digits: &[u8]) -> Option<i8> {
    let [tens, ones] = digits else { return None };
    let digit = |byte: &u8| i8::try_from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?).ok();
    Some(digit(tens)? * 10 + digit(ones)?)
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn the_end_is_read_out_of_a_certificate_and_out_of_nothing_else() {
        let mut parameters = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        for (year, month, day) in [(2031, 2, 28), (2049, 12, 31), (2050, 1, 1), (2105, 6, 7)] {
            parameters.not_after = rcgen::date_time_ymd(year, month, day);
            let made = parameters.clone().self_signed(&key).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("chain.pem");
            std::fs::write(&file, made.pem()).unwrap();
            let wanted = date(
                i16::try_from(year).unwrap(),
                i8::try_from(month).unwrap(),
                i8::try_from(day).unwrap(),
            );
            let wanted = wanted.to_zoned(TimeZone::UTC).unwrap().timestamp();
            assert_eq!(certificate_ends(&file), Ok(wanted));
            // Truncated input yields a time or none, never a panic.
            for length in 0..made.der().len() {
                let _either = ends(&made.der()[..length]);
            }
            std::fs::write(&file, "no certificate").unwrap();
            assert!(certificate_ends(&file).is_err());
        }
    }
}
