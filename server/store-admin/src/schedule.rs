//! Due times of scheduled backups, in the plan's time zone. Pure functions of the given time.

use engine::Micros;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use recalld_config::backups::{Every, ScheduledBackup};

/// Days searched for the last or the next due time: a week, and one more for a day that a time zone skipped.
const DAYS_LOOKED_THROUGH: i64 = 8;

/// Returns the latest due time not after `now`; `None` only at the limits of the time range.
pub(super) fn last_due(plan: &ScheduledBackup, now: Micros) -> Option<Micros> {
    let now = Timestamp::from_microsecond(now.0).ok()?;
    let found = match plan.every {
        Every::Hour => minute_before(plan, now)?,
        Every::Day | Every::Week => {
            let days = (-DAYS_LOOKED_THROUGH..=0).rev();
            days.filter_map(|days| on_day(plan, now, days)).find(|due| *due <= now)?
        }
    };
    Some(Micros(found.as_microsecond()))
}

/// Returns the first due time after `now`.
pub(super) fn next_due(plan: &ScheduledBackup, now: Micros) -> Option<Micros> {
    let now = Timestamp::from_microsecond(now.0).ok()?;
    let found = match plan.every {
        Every::Hour => minute_before(plan, now)?.checked_add(SignedDuration::from_hours(1)).ok()?,
        Every::Day | Every::Week => {
            let mut days = 0..=DAYS_LOOKED_THROUGH;
            days.find_map(|days| on_day(plan, now, days).filter(|due| *due > now))?
        }
    };
    Some(Micros(found.as_microsecond()))
}

/// Returns the plan's time zone; the system's if none is set or known.
fn zone(plan: &ScheduledBackup) -> TimeZone {
    let named = plan.time_zone.as_deref().and_then(|name| TimeZone::get(name).ok());
    named.unwrap_or_else(TimeZone::system)
}

/// Returns the last time at which local clocks showed the plan's minute. Computed in elapsed time, so that a clock
/// change skips no hour.
fn minute_before(plan: &ScheduledBackup, now: Timestamp) -> Option<Timestamp> {
    let here = now.to_zoned(zone(plan));
    let since = (i64::from(here.minute()) - i64::from(plan.at.1)).rem_euclid(60);
    let whole = now.as_second().div_euclid(60) * 60;
    Timestamp::from_second(whole.checked_sub(since * 60)?).ok()
}

/// Returns the plan's time on the day `days` after today; `None` on another day of the week.
fn on_day(plan: &ScheduledBackup, now: Timestamp, days: i64) -> Option<Timestamp> {
    let zone = zone(plan);
    let today: Date = now.to_zoned(zone.clone()).date();
    let day = today.checked_add(days.days()).ok()?;
    if plan.every == Every::Week && day.weekday() != plan.weekday.0 {
        return None;
    }
    // A local time skipped by a clock change is moved one hour later; for a repeated local time, the first occurrence
    // counts.
    let at = day.at(plan.at.0, plan.at.1, 0, 0).to_zoned(zone).ok()?;
    Some(at.timestamp())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use recalld_common::names::{parse_time, time};
    use recalld_config::Config;

    fn plan(text: &str) -> ScheduledBackup {
        let text = format!("[backup]\nto = \"/b\"\n{text}");
        Config::parse(&text, Path::new(""), &[]).unwrap().backup.unwrap()
    }

    fn around(text: &str, now: &str) -> [String; 2] {
        let (plan, now) = (plan(text), parse_time(now).unwrap());
        [last_due(&plan, now), next_due(&plan, now)].map(|due| time(due.unwrap()))
    }

    #[test]
    fn a_day_and_a_week_are_those_of_the_zone() {
        const BERLIN: &str = "time_zone = \"Europe/Berlin\"\n";
        let daily = format!("{BERLIN}at = \"03:30\"");
        for (now, last, next) in [
            ("2026-01-10T12:00:00Z", "2026-01-10T02:30:00Z", "2026-01-11T02:30:00Z"),
            ("2026-01-10T02:30:00Z", "2026-01-10T02:30:00Z", "2026-01-11T02:30:00Z"),
            ("2026-01-10T02:29:59Z", "2026-01-09T02:30:00Z", "2026-01-10T02:30:00Z"),
            // Summer time begins on March 29.
            ("2026-03-29T00:30:00Z", "2026-03-28T02:30:00Z", "2026-03-29T01:30:00Z"),
            // Summer time ends on October 25.
            ("2026-10-25T12:00:00Z", "2026-10-25T02:30:00Z", "2026-10-26T02:30:00Z"),
        ] {
            assert_eq!(around(&daily, now), [last, next], "{now}");
        }
        // 02:30 does not exist on March 29, and occurs twice on October 25.
        let gap = format!("{BERLIN}at = \"02:30\"");
        assert_eq!(around(&gap, "2026-03-29T12:00:00Z")[0], "2026-03-29T01:30:00Z");
        assert_eq!(around(&gap, "2026-10-25T12:00:00Z")[0], "2026-10-25T00:30:00Z");
        let weekly = format!("{BERLIN}every = \"week\"\nweekday = \"monday\"\nat = \"00:15\"");
        let wanted = ["2026-01-04T23:15:00Z", "2026-01-11T23:15:00Z"];
        assert_eq!(around(&weekly, "2026-01-10T12:00:00Z"), wanted);
        assert_eq!(around(&weekly, "2026-01-11T23:14:00Z"), wanted);
    }

    #[test]
    fn every_hour_has_one_where_clocks_are_set_too() {
        let hourly = "every = \"hour\"\nat = \"00:45\"\ntime_zone = \"Europe/Berlin\"";
        let mut now = parse_time("2026-10-24T22:50:00Z").unwrap();
        for _ in 0..6 {
            let [last, next] = [last_due(&plan(hourly), now), next_due(&plan(hourly), now)];
            assert_eq!(next.unwrap().0 - last.unwrap().0, 3_600_000_000);
            assert_eq!(time(last.unwrap()).get(14..16), Some("45"));
            now = next.unwrap();
        }
        // A time zone with an offset of half an hour.
        let half = "every = \"hour\"\nat = \"00:10\"\ntime_zone = \"Asia/Kolkata\"";
        let wanted = ["2026-01-10T11:40:00Z", "2026-01-10T12:40:00Z"];
        assert_eq!(around(half, "2026-01-10T12:00:00Z"), wanted);
    }
}
