//! Calendar months in UTC, the period of a quota.

use std::fmt;

use engine::Micros;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// A month of the proleptic Gregorian calendar. Displayed as `YYYY-MM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    /// First day of the month.
    first: Date,
}

impl Month {
    /// Returns the month of a time in UTC; `None` before 1970 and after 9998, which no valid clock shows.
    pub fn of(at: Micros) -> Option<Self> {
        let moment = Timestamp::from_microsecond(at.0).ok()?;
        let date = moment.to_zoned(TimeZone::UTC).date();
        (1970..=9998).contains(&date.year()).then(|| Self { first: date.first_of_month() })
    }

    /// Returns the first microsecond of the next month.
    pub fn ends_at(self) -> Micros {
        let next =
            self.first.last_of_month().tomorrow().and_then(|day| day.to_zoned(TimeZone::UTC));
        next.map_or(Micros(i64::MAX), |start| Micros(start.timestamp().as_microsecond()))
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.first.year(), self.first.month())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Micros {
        Micros(text.parse::<Timestamp>().unwrap().as_microsecond())
    }

    #[test]
    fn a_month_begins_and_ends_at_midnight_in_utc() {
        for (moment, name, end) in [
            ("2026-11-22T22:00:00Z", "2026-11", "2026-12-01T00:00:00Z"),
            ("2026-12-31T23:59:59.999999Z", "2026-12", "2027-01-01T00:00:00Z"),
            ("2027-01-01T00:00:00Z", "2027-01", "2027-02-01T00:00:00Z"),
            ("2028-02-29T12:00:00Z", "2028-02", "2028-03-01T00:00:00Z"),
            ("1970-01-01T00:00:00Z", "1970-01", "1970-02-01T00:00:00Z"),
        ] {
            let month = Month::of(at(moment)).unwrap();
            assert_eq!((month.to_string(), month.ends_at()), (name.to_owned(), at(end)));
        }
        assert!(Month::of(at("2026-12-01T00:00:00Z")) > Month::of(at("2026-11-30T00:00:00Z")));
    }

    #[test]
    fn times_that_no_clock_tells_have_no_month() {
        for micros in [i64::MIN, -1, i64::MAX] {
            assert_eq!(Month::of(Micros(micros)), None, "{micros}");
        }
    }
}
