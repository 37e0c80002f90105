//! The loop clock: the time of an event, and the text of the `Date` field.
//!
//! Reads no clock; the event loop passes both times in.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Length of an IMF-fixdate in bytes, e.g. `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_BYTES: usize = 29;

/// The current time for a state machine: a monotonic time, and the text of `Date`.
pub struct Moment {
    /// Monotonic time, for deadlines.
    pub now: Instant,
    second: u64,
    date: [u8; DATE_BYTES],
}

impl Moment {
    /// Creates a clock from one reading of both system clocks.
    pub fn at(now: Instant, wall: SystemTime) -> Moment {
        let second = unix_second(wall);
        Moment { now, second, date: imf_fixdate(second) }
    }

    /// Sets both times. The text is formatted only if the second has changed.
    pub fn advance(&mut self, now: Instant, wall: SystemTime) {
        self.now = now;
        let second = unix_second(wall);
        if second != self.second {
            self.second = second;
            self.date = imf_fixdate(second);
        }
    }

    /// Value of the `Date` field.
    pub fn date(&self) -> &[u8] {
        &self.date
    }
}

/// Returns seconds since 1970, clamped to years of four digits.
fn unix_second(wall: SystemTime) -> u64 {
    const YEAR_10000: u64 = 253_402_300_800;
    wall.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().min(YEAR_10000 - 1))
}

/// Formats an IMF-fixdate (RFC 9110, section 5.6.7). Calendar arithmetic after Hinnant, "chrono-compatible low-level
/// date algorithms": years begin in March, so that the leap day is the last day of its year.
fn imf_fixdate(second: u64) -> [u8; DATE_BYTES] {
    const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
    const MONTHS: [&[u8; 3]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let (days, clock) = (second / 86_400, second % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);

    let mut text = *b"DDD, dd MMM yyyy hh:mm:ss GMT";
    text[0..3].copy_from_slice(DAYS[index(days % 7)]);
    digits(&mut text[5..7], day);
    text[8..11].copy_from_slice(MONTHS[index(month)]);
    digits(&mut text[12..16], year);
    digits(&mut text[17..19], clock / 3_600);
    digits(&mut text[20..22], clock / 60 % 60);
    digits(&mut text[23..25], clock % 60);
    text
}

fn index(small: u64) -> usize {
    usize::try_from(small).expect("a remainder by 7 or 12 fits")
}

fn digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a remainder by 10 fits");
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        let text = |second| String::from_utf8(imf_fixdate(second).to_vec()).unwrap();
        assert_eq!(text(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(text(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(text(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(text(1_709_251_199), "Thu, 29 Feb 2024 23:59:59 GMT");
        assert_eq!(text(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
        assert_eq!(text(253_402_300_799), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
