//! Next occurrence of a repeated follow-up, in the calendar and the local time of its zone.
//!
//! Each occurrence is computed from the first, not from the previous. A monthly follow-up on the 31st falls on the last
//! day of shorter months and then returns to the 31st. If a clock change skips its hour, the follow-up returns to its
//! hour afterwards. Calendar and zones come from jiff.

use engine::Micros;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use recalld_tool_framework::args::choices;

const WEEK_DAYS: i64 = 7;
const YEAR_MONTHS: i64 = 12;
/// Candidates tried: the occurrence in the period of `after` may be over, and the next may fall on the same instant if
/// the zone skipped a day.
const TRIED_MAX: i64 = 3;

choices! {
    /// Repeat interval of a follow-up.
    pub(super) enum Repeat {
        None = "none",
        Daily = "daily",
        Weekly = "weekly",
        Monthly = "monthly",
    }
}

/// First occurrence after `after` of a series that begins at `first`. `None` if the series does not repeat or the
/// calendar ends.
pub(super) fn next_after(
    first: Micros,
    zone: &TimeZone,
    repeat: Repeat,
    after: Micros,
) -> Option<Micros> {
    let zoned = |at: Micros| {
        let time = Timestamp::from_microsecond(at.0).ok();
        time.map(|time| time.to_zoned(zone.clone()))
    };
    let (first, after) = (zoned(first)?, zoned(after)?);
    let gone = gone_by(&first, &after, repeat)?.max(1);
    for count in gone..gone.saturating_add(TRIED_MAX) {
        let due = first.checked_add(span(repeat, count)?).ok()?;
        if due > after {
            return Some(Micros(due.timestamp().as_microsecond()));
        }
    }
    None
}

/// Number of whole calendar periods (days, weeks or months) from `first` to the date of `after`.
fn gone_by(first: &Zoned, after: &Zoned, repeat: Repeat) -> Option<i64> {
    let days = || first.date().until(after.date()).ok().map(|span| i64::from(span.get_days()));
    match repeat {
        Repeat::None => None,
        Repeat::Daily => days(),
        Repeat::Weekly => days().map(|days| days.div_euclid(WEEK_DAYS)),
        Repeat::Monthly => {
            let month =
                |zoned: &Zoned| i64::from(zoned.year()) * YEAR_MONTHS + i64::from(zoned.month());
            Some(month(after) - month(first))
        }
    }
}

fn span(repeat: Repeat, count: i64) -> Option<Span> {
    let span = Span::new();
    match repeat {
        Repeat::None => None,
        Repeat::Daily => span.try_days(count).ok(),
        Repeat::Weekly => span.try_weeks(count).ok(),
        Repeat::Monthly => span.try_months(count).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recalld_common::names;

    /// The next `count` occurrences after `first`, in local time.
    fn times(first: &str, zone: &str, repeat: Repeat, count: usize) -> Vec<String> {
        let zone = TimeZone::get(zone).unwrap();
        let first = names::parse_time(first).unwrap();
        let mut at = first;
        let mut shown = Vec::new();
        for _ in 0..count {
            at = next_after(first, &zone, repeat, at).unwrap();
            let zoned = Timestamp::from_microsecond(at.0).unwrap().to_zoned(zone.clone());
            shown.push(zoned.strftime("%m-%dT%H:%M%:z").to_string());
        }
        shown
    }

    #[test]
    fn the_hour_stays_when_clocks_change() {
        let spring = times("2026-03-07T09:00:00-05:00", "America/New_York", Repeat::Daily, 2);
        assert_eq!(spring, ["03-08T09:00-04:00", "03-09T09:00-04:00"]);
        let autumn = times("2026-10-31T09:00:00-04:00", "America/New_York", Repeat::Daily, 2);
        assert_eq!(autumn, ["11-01T09:00-05:00", "11-02T09:00-05:00"]);
        let weekly = times("2026-03-02T09:00:00-05:00", "America/New_York", Repeat::Weekly, 2);
        assert_eq!(weekly, ["03-09T09:00-04:00", "03-16T09:00-04:00"]);
        let kathmandu = times("2026-01-31T08:15:00+05:45", "Asia/Kathmandu", Repeat::Monthly, 2);
        assert_eq!(kathmandu, ["02-28T08:15+05:45", "03-31T08:15+05:45"]);
    }

    #[test]
    fn an_hour_that_a_day_does_not_have_comes_back_on_the_next() {
        let gap = times("2026-03-07T02:30:00-05:00", "America/New_York", Repeat::Daily, 2);
        assert_eq!(gap, ["03-08T03:30-04:00", "03-09T02:30-04:00"]);
        // If an hour occurs twice, the first is used.
        let fold = times("2026-10-31T01:30:00-04:00", "America/New_York", Repeat::Daily, 2);
        assert_eq!(fold, ["11-01T01:30-04:00", "11-02T01:30-05:00"]);
        // Samoa skipped 2011-12-30, so the occurrence of that day falls on the 31st, once.
        let skipped = times("2011-12-28T09:00:00-10:00", "Pacific/Apia", Repeat::Daily, 3);
        assert_eq!(skipped, ["12-29T09:00-10:00", "12-31T09:00+14:00", "01-01T09:00+14:00"]);
    }

    #[test]
    fn the_31st_is_the_last_day_of_shorter_months_and_returns() {
        let months = times("2027-12-31T12:00:00Z", "UTC", Repeat::Monthly, 5);
        let days = ["01-31", "02-29", "03-31", "04-30", "05-31"];
        assert_eq!(months, days.map(|day| format!("{day}T12:00+00:00")), "2028 is a leap year");
        let leap = times("2028-02-29T12:00:00Z", "UTC", Repeat::Monthly, 13);
        assert_eq!((&*leap[11], &*leap[12]), ("02-28T12:00+00:00", "03-29T12:00+00:00"));
    }

    #[test]
    fn the_next_one_is_the_first_after_a_time_however_many_were_missed() {
        let time = |text: &str| names::parse_time(text).unwrap();
        let first = time("2026-01-31T12:00:00Z");
        let next = |repeat: Repeat, after: &str| {
            let next = next_after(first, &TimeZone::UTC, repeat, time(after));
            next.map(names::time)
        };
        let on = |day: &str| Some(format!("{day}T12:00:00Z"));
        assert_eq!(next(Repeat::Daily, "2026-01-31T12:00:00Z"), on("2026-02-01"));
        assert_eq!(next(Repeat::Daily, "2031-05-05T11:59:59Z"), on("2031-05-05"));
        assert_eq!(next(Repeat::Daily, "2031-05-05T12:00:00Z"), on("2031-05-06"));
        assert_eq!(next(Repeat::Weekly, "2026-02-13T00:00:00Z"), on("2026-02-14"));
        assert_eq!(next(Repeat::Weekly, "2026-02-14T12:00:00Z"), on("2026-02-21"));
        assert_eq!(next(Repeat::Monthly, "2026-02-28T12:00:00Z"), on("2026-03-31"));
        assert_eq!(next(Repeat::Monthly, "2026-02-28T11:59:59Z"), on("2026-02-28"));
        assert_eq!(next(Repeat::Monthly, "2025-01-01T00:00:00Z"), on("2026-02-28"));
        assert_eq!(next(Repeat::None, "2026-02-28T12:00:00Z"), None);
        assert_eq!(next(Repeat::Daily, "9999-12-30T12:00:00Z"), None, "the calendar ends");
    }
}
