//! Due times: `tomorrow at 9`, `in 3 days`, `on Friday`, `2026-02-01 at 15:30 Europe/Berlin`.
//!
//! The grammar is about future times; the time mentions of recall are about past ones. A phrase that is not surely a
//! time is ignored. The calendar and the time zones are jiff's; the default zone is UTC.

use engine::Micros;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};

use crate::said::{Piece, Said, Sort};
use recalld_recall::{MONTHS, WEEKDAYS};

/// Default hour of a day.
const DAY_BEGINS: i8 = 9;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Highest count of units in a relative time: `in 3 weeks`.
    const UNITS_MAX: i64 = 10_000;
}

/// Fewest letters of an abbreviated month or weekday.
const SHORT_CHARS: usize = 3;

/// Due time of a command.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) at: Micros,
    /// Name of the time zone, if the command names one.
    pub(crate) zone: Option<String>,
    /// Recurrence: `daily`, `weekly` or `monthly`.
    pub(crate) repeat: Option<&'static str>,
    /// Per token: true if part of the time.
    pub(crate) used: Vec<bool>,
}

/// Parsed parts of a due time.
#[derive(Debug, Default)]
struct Parts {
    /// Relative time, with its own hour.
    from_now: Option<Zoned>,
    date: Option<Date>,
    /// Absolute time, complete by itself.
    whole: Option<Timestamp>,
    time: Option<Time>,
    repeat: Option<&'static str>,
}

/// Parses the first due time of a command.
pub(crate) fn moment(said: &Said<'_>, now: Micros) -> Option<Moment> {
    let zone = zone_of(said);
    let of_zone = zone.as_ref().map_or(TimeZone::UTC, |(zone, _)| zone.clone());
    let now = Timestamp::from_microsecond(now.0).ok()?.to_zoned(of_zone);
    let reader = Reader { pieces: &said.pieces, now };
    let mut used = vec![false; said.pieces.len()];
    let mut parts = Parts::default();
    let mut at = 0;
    while at < said.pieces.len() {
        match reader.part(at, &mut parts) {
            0 => at += 1,
            count => {
                used[at..at + count].fill(true);
                at += count;
            }
        }
    }
    let at = reader.joined(&parts)?;
    if let Some((_, piece)) = &zone {
        used[*piece] = true;
    }
    Some(Moment { at, zone: zone.and_then(|(zone, _)| named(&zone)), repeat: parts.repeat, used })
}

/// Name of the zone in the IANA database; `None` for UTC.
fn named(zone: &TimeZone) -> Option<String> {
    zone.iana_name().filter(|name| *name != "UTC").map(str::to_owned)
}

/// Finds a time zone in a command: the zone, and the index of its token.
pub(crate) fn zone_of(said: &Said<'_>) -> Option<(TimeZone, usize)> {
    said.pieces.iter().enumerate().find_map(|(at, piece)| match piece.sort {
        Sort::Zone => TimeZone::get(&piece.text).ok().map(|zone| (zone, at)),
        Sort::Word if matches!(piece.text.as_str(), "UTC" | "GMT") => Some((TimeZone::UTC, at)),
        _ => None,
    })
}

/// Parses the first day of a command, past or future.
pub(crate) fn day(said: &Said<'_>, now: Micros) -> Option<Date> {
    let zone = zone_of(said).map_or(TimeZone::UTC, |(zone, _)| zone);
    let now = Timestamp::from_microsecond(now.0).ok()?.to_zoned(zone);
    let reader = Reader { pieces: &said.pieces, now };
    let yesterday = |at: usize| {
        (reader.word(at) == "yesterday").then(|| reader.now.date().yesterday().ok()).flatten()
    };
    let places = || 0..said.pieces.len();
    places().find_map(|at| reader.date(at).map(|(date, _)| date).or_else(|| yesterday(at)))
}

struct Reader<'p> {
    pieces: &'p [Piece],
    now: Zoned,
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.pieces.get(at).map_or("", |piece| piece.word.as_str())
    }

    /// Text as written, for a word or a number: `9am`, `15:30`, `3`.
    fn text(&self, at: usize) -> &str {
        let is_said = |piece: &&Piece| matches!(piece.sort, Sort::Word | Sort::Number);
        self.pieces.get(at).filter(is_said).map_or("", |piece| piece.text.as_str())
    }

    /// Combines the parts into a time.
    fn joined(&self, parts: &Parts) -> Option<Micros> {
        if let Some(whole) = parts.whole {
            return Some(Micros(whole.as_microsecond()));
        }
        let zone = self.now.time_zone();
        let on = |date: Date, time: Time| date.to_datetime(time).to_zoned(zone.clone()).ok();
        let begins = || Time::new(DAY_BEGINS, 0, 0, 0).ok();
        let at = match (&parts.from_now, parts.date, parts.time) {
            (Some(then), _, Some(time)) => on(then.date(), time)?,
            (Some(then), _, None) => then.clone(),
            (None, Some(date), time) => on(date, time.or_else(begins)?)?,
            (None, None, Some(time)) => {
                let today = on(self.now.date(), time)?;
                if today > self.now { today } else { on(self.now.date().tomorrow().ok()?, time)? }
            }
            (None, None, None) => {
                let span = match parts.repeat? {
                    "weekly" => 7.days(),
                    "monthly" => 1.month(),
                    _ => 1.day(),
                };
                on(self.now.date().checked_add(span).ok()?, begins()?)?
            }
        };
        Some(Micros(at.timestamp().as_microsecond()))
    }

    /// Parses a part of a time, and returns the number of its tokens; 0 if no part starts here.
    fn part(&self, at: usize, parts: &mut Parts) -> usize {
        let lead =
            usize::from(matches!(self.word(at), "on" | "by" | "for" | "at" | "until" | "this"));
        let from = at + lead;
        if parts.repeat.is_none()
            && let Some((repeat, count)) = self.repeat(at)
        {
            parts.repeat = Some(repeat);
            return count;
        }
        let is_free = parts.date.is_none() && parts.from_now.is_none() && parts.whole.is_none();
        if is_free {
            if let Ok(whole) = self.text(from).parse::<Timestamp>() {
                parts.whole = Some(whole);
                return lead + 1;
            }
            if let Some((then, count)) = self.ahead(at) {
                parts.from_now = Some(then);
                return count;
            }
            if let Some((date, count)) = self.date(from) {
                parts.date = Some(date);
                let tonight = (self.word(from) == "tonight").then(|| Time::new(20, 0, 0, 0).ok());
                parts.time = parts.time.or(tonight.flatten());
                return lead + count;
            }
        }
        if parts.time.is_none()
            && let Some((time, count)) = self.clock(at)
        {
            parts.time = Some(time);
            return count;
        }
        0
    }

    /// Parses `every week`, `daily` or `each month`. `every Monday` is weekly, and its weekday is left to be parsed as
    /// a date.
    fn repeat(&self, at: usize) -> Option<(&'static str, usize)> {
        let of = |word: &str| match word {
            "day" | "daily" | "morning" | "evening" => Some("daily"),
            "week" | "weekly" => Some("weekly"),
            "month" | "monthly" => Some("monthly"),
            _ => None,
        };
        match self.word(at) {
            word @ ("daily" | "weekly" | "monthly") => Some((of(word)?, 1)),
            "every" | "each" => match of(self.word(at + 1)) {
                Some(repeat) => Some((repeat, 2)),
                None => weekday(self.word(at + 1)).map(|_| ("weekly", 1)),
            },
            _ => None,
        }
    }

    /// Parses `in 3 days`, `in an hour`, `two weeks from now` or `next week`.
    fn ahead(&self, at: usize) -> Option<(Zoned, usize)> {
        let (first, second) = (self.word(at), self.word(at + 1));
        if first == "next" {
            let span = unit(second, 1).filter(|_| matches!(second, "week" | "month" | "year"))?;
            return Some((self.now.checked_add(span).ok()?, 2));
        }
        let lead = usize::from(matches!(first, "in" | "within" | "after"));
        let count = self.count(at + lead)?;
        let then = self.now.checked_add(unit(self.word(at + lead + 1), count)?).ok()?;
        let is_from_now = self.word(at + lead + 2) == "from" && self.word(at + lead + 3) == "now";
        match (lead, is_from_now) {
            (_, true) => Some((then, lead + 4)),
            (1, false) => Some((then, 3)),
            _ => None,
        }
    }

    fn count(&self, at: usize) -> Option<i64> {
        const WORDS: [&str; 13] = [
            "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
            "eleven", "twelve",
        ];
        let word = self.word(at);
        let spelt = WORDS.iter().position(|name| *name == word).and_then(|n| i64::try_from(n).ok());
        let one = matches!(word, "a" | "an").then_some(1);
        let count = self.text(at).parse().ok().or(spelt).or(one)?;
        (0..=UNITS_MAX).contains(&count).then_some(count)
    }

    /// Parses a day, and returns the number of its tokens.
    fn date(&self, at: usize) -> Option<(Date, usize)> {
        let today = self.now.date();
        match self.word(at) {
            "today" | "tonight" => return Some((today, 1)),
            "tomorrow" => return Some((today.tomorrow().ok()?, 1)),
            "the" if self.word(at + 1) == "day" => {
                return self.date(at + 1).map(|(d, n)| (d, n + 1));
            }
            "day" if self.word(at + 1) == "after" && self.word(at + 2) == "tomorrow" => {
                return Some((today.checked_add(2.days()).ok()?, 3));
            }
            "next" | "coming" => {
                let day = weekday(self.word(at + 1))?;
                return Some((coming(today, day)?, 2));
            }
            word if let Some(day) = weekday(word) => return Some((coming(today, day)?, 1)),
            _ => {}
        }
        if let Ok(date) = self.text(at).parse::<Date>()
            && self.text(at).len() == 10
        {
            return Some((date, 1));
        }
        self.day_of_month(at)
    }

    /// Parses `March 5`, `5 March` or `5th of March 2027`.
    fn day_of_month(&self, at: usize) -> Option<(Date, usize)> {
        let of = usize::from(self.word(at + 1) == "of");
        let (day, month, used) = match (month(self.word(at)), month(self.word(at + 1 + of))) {
            (Some(month), _) => (ordinal(self.text(at + 1))?, month, 2),
            (None, Some(month)) => (ordinal(self.text(at))?, month, 2 + of),
            _ => return None,
        };
        let year = self.text(at + used);
        if let (4, Ok(year)) = (year.len(), year.parse()) {
            return Some((Date::new(year, month, day).ok()?, used + 1));
        }
        let today = self.now.date();
        let this = Date::new(today.year(), month, day).ok()?;
        let next = || Date::new(today.year().checked_add(1)?, month, day).ok();
        Some((if this >= today { this } else { next()? }, used))
    }

    /// Parses `at 9`, `9am`, `15:30`, `9 pm`, `at noon` or `in the morning`.
    fn clock(&self, at: usize) -> Option<(Time, usize)> {
        let whole = |hour: i8| Time::new(hour, 0, 0, 0).ok();
        if matches!(self.word(at), "in") && self.word(at + 1) == "the" {
            let hour = hour_of_part(self.word(at + 2))?;
            return Some((whole(hour)?, 3));
        }
        if let Some(hour) = hour_of_part(self.word(at)) {
            return Some((whole(hour)?, 1));
        }
        let lead = usize::from(matches!(self.word(at), "at" | "by"));
        if lead == 1
            && let Some(hour) = hour_of_part(self.word(at + 1))
        {
            return Some((whole(hour)?, 2));
        }
        let written = self.text(at + lead).to_lowercase();
        let half = ["am", "pm"].into_iter().find(|half| written.ends_with(half));
        let behind = self.word(at + lead + 1);
        let apart = ["am", "pm"].into_iter().find(|half| behind == *half && written != *half);
        let is_oclock = behind == "oclock";
        let digits = half.map_or(written.as_str(), |half| written.trim_end_matches(half));
        let (hour, minute) = digits.split_once(':').unwrap_or((digits, ""));
        // A bare number is not a time of day.
        if lead == 0 && half.or(apart).is_none() && minute.is_empty() && !is_oclock {
            return None;
        }
        let minute = if minute.is_empty() { 0 } else { minute.parse().ok()? };
        let hour: i8 = hour.parse().ok()?;
        let hour = match half.or(apart) {
            Some(_) if !(1..=12).contains(&hour) => return None,
            Some("pm") if hour < 12 => hour + 12,
            Some("am") if hour == 12 => 0,
            _ => hour,
        };
        let used = lead + 1 + usize::from(apart.is_some() || is_oclock);
        Some((Time::new(hour, minute, 0, 0).ok()?, used))
    }
}

/// Hour for a part of the day.
fn hour_of_part(word: &str) -> Option<i8> {
    Some(match word {
        "morning" => DAY_BEGINS,
        "noon" => 12,
        "afternoon" => 15,
        "evening" => 18,
        "midnight" => 0,
        _ => return None,
    })
}

fn unit(word: &str, count: i64) -> Option<Span> {
    let span = Span::new();
    match word {
        "minute" | "min" => span.try_minutes(count),
        "hour" => span.try_hours(count),
        "day" => span.try_days(count),
        "week" => span.try_weeks(count),
        "month" => span.try_months(count),
        "year" => span.try_years(count),
        _ => return None,
    }
    .ok()
}

/// Parses `5`, `5th` or `1st`.
fn ordinal(text: &str) -> Option<i8> {
    let ends = ["st", "nd", "rd", "th"];
    let bare = ends.iter().find_map(|end| text.strip_suffix(end)).unwrap_or(text);
    bare.parse().ok()
}

/// Parses a weekday's name; Monday is 0.
fn weekday(word: &str) -> Option<usize> {
    named_in(word, &WEEKDAYS)
}

fn month(word: &str) -> Option<i8> {
    named_in(word, &MONTHS).and_then(|at| i8::try_from(at + 1).ok())
}

/// Index of the name that equals the word, or that the word abbreviates.
fn named_in(word: &str, names: &[&str]) -> Option<usize> {
    // These abbreviations are more often other words.
    if word.len() < SHORT_CHARS || matches!(word, "sun" | "sat" | "mar" | "may") {
        return names.iter().position(|name| *name == word && word != "may");
    }
    let is_short = word.len() == SHORT_CHARS || matches!(word, "sept" | "tue" | "thur" | "thu");
    names.iter().position(|name| *name == word || (is_short && name.starts_with(word)))
}

/// Date of the weekday's next occurrence after today.
fn coming(today: Date, weekday: usize) -> Option<Date> {
    let day = i64::try_from(weekday).ok()?;
    let ahead = (day - i64::from(today.weekday().to_monday_zero_offset())).rem_euclid(7);
    today.checked_add(if ahead == 0 { 7.days() } else { ahead.days() }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use recalld_common::names;

    /// A Wednesday.
    const NOW: &str = "2026-01-14T09:30:00Z";

    fn read(text: &str) -> Option<Moment> {
        moment(&Said::of(text), names::parse_time(NOW).unwrap())
    }

    #[test]
    fn times_to_come_are_read_by_the_calendar() {
        for (text, at) in [
            ("tomorrow at 9", "2026-01-15T09:00:00Z"),
            ("tomorrow", "2026-01-15T09:00:00Z"),
            ("the day after tomorrow at noon", "2026-01-16T12:00:00Z"),
            ("on Friday", "2026-01-16T09:00:00Z"),
            ("next Wednesday at 9:45 pm", "2026-01-21T21:45:00Z"),
            ("in 3 days", "2026-01-17T09:30:00Z"),
            ("in an hour", "2026-01-14T10:30:00Z"),
            ("two weeks from now at 8am", "2026-01-28T08:00:00Z"),
            ("next month", "2026-02-14T09:30:00Z"),
            ("2026-02-01 at 15:30", "2026-02-01T15:30:00Z"),
            ("2026-02-01T10:00:00+01:00", "2026-02-01T09:00:00Z"),
            ("5th of March", "2026-03-05T09:00:00Z"),
            ("January 2", "2027-01-02T09:00:00Z"),
            ("at 8", "2026-01-15T08:00:00Z"),
            ("at 10", "2026-01-14T10:00:00Z"),
            ("12 am on Friday", "2026-01-16T00:00:00Z"),
            ("tomorrow at 9 Europe/Berlin", "2026-01-15T08:00:00Z"),
            ("on 2026-07-01 at 9 Europe/Berlin", "2026-07-01T07:00:00Z"),
            ("tonight", "2026-01-14T20:00:00Z"),
            ("every Monday at 8", "2026-01-19T08:00:00Z"),
        ] {
            assert_eq!(read(text).map(|read| names::time(read.at)).as_deref(), Some(at), "{text}");
        }
        for text in
            ["3 days", "room 9", "may be", "the 9 lives", "on 2026-13-01", "at home", "at 25"]
        {
            assert!(read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn zones_and_repeats_are_told() {
        let berlin = read("every week on Monday at 8 Europe/Berlin").unwrap();
        assert_eq!(
            (berlin.zone.as_deref(), berlin.repeat),
            (Some("Europe/Berlin"), Some("weekly"))
        );
        assert_eq!(read("tomorrow at 9 UTC").unwrap().zone, None);
        let used = read("call Ann tomorrow at 9 about it").unwrap().used;
        assert_eq!(used, [false, false, true, true, true, false, false]);
    }
}
