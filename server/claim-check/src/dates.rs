//! Parses dates, weekdays and times of day, and maps a date to the days it covers. A date without a year takes the year
//! of the date it is compared with.

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const LONG_MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
/// Placeholder for a missing year: a leap year, so 29 February is valid.
pub(super) const NO_YEAR: i32 = 2000;

/// Partial date: a year, a month or a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: Option<i32>,
    pub(super) month: Option<u32>,
    pub(super) day: Option<u32>,
}

impl Date {
    /// First and last day of the date, counted from 1970. `other_year` replaces a missing year.
    pub(super) fn days(self, other_year: Option<i32>) -> (f64, f64) {
        let year = self.year.or(other_year).unwrap_or(NO_YEAR);
        let first = self.month.unwrap_or(1);
        let last = self.month.unwrap_or(12);
        let from = day_number(year, first, self.day.unwrap_or(1));
        let to = match self.day {
            Some(day) => day_number(year, last, day),
            None if last == 12 => day_number(year + 1, 1, 1) - 1,
            None => day_number(year, last + 1, 1) - 1,
        };
        (f64::from(from), f64::from(to))
    }
}

/// Days from 1 January 1970 to a day of the Gregorian calendar.
fn day_number(year: i32, month: u32, day: u32) -> i32 {
    let (month, day) = (month.clamp(1, 12) as i32, day.clamp(1, 31) as i32);
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the number of a month, from 1. `may` is a month only beside a number, which the caller must check.
pub(super) fn month(word: &str) -> Option<u32> {
    let at = LONG_MONTHS.iter().position(|&month| month == word);
    let at = at.or_else(|| {
        MONTHS.iter().position(|&month| month == word || word == "sept" && month == "sep")
    })?;
    u32::try_from(at + 1).ok()
}

/// Returns the number of a weekday, from 0 for Monday, for its singular or plural.
pub(super) fn weekday(word: &str) -> Option<u32> {
    let word = word.strip_suffix('s').unwrap_or(word);
    let at = WEEKDAYS.iter().position(|&day| day == word)?;
    u32::try_from(at).ok()
}

/// Parses `2024-05-01` or `2024-05`.
pub(super) fn iso(word: &str) -> Option<Date> {
    let mut parts = word.split('-');
    let year = parts.next().filter(|year| year.len() == 4)?.parse().ok()?;
    let month = parts.next().filter(|month| month.len() == 2)?.parse().ok()?;
    let day = match parts.next() {
        Some(day) => Some(day.parse().ok()?),
        None => None,
    };
    let fits = (1..=12).contains(&month) && day.is_none_or(|day| (1..=31).contains(&day));
    (fits && parts.next().is_none()).then_some(Date { year: Some(year), month: Some(month), day })
}

/// Parses a day of a month: `3`, `3rd`, `14th`.
pub(super) fn day_of_month(word: &str) -> Option<u32> {
    let bare =
        ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    bare.parse().ok().filter(|day| bare.len() <= 2 && (1..=31).contains(day))
}

/// Parses a number of four digits that may be a year.
pub(super) fn year(word: &str) -> Option<i32> {
    word.parse().ok().filter(|year| word.len() == 4 && (1900..2100).contains(year))
}

/// Parses a time of day into minutes: `02:00`, `2am`, `noon`. `next` is the following token, possibly `am` or `pm`; the
/// flag is true if `next` was used.
pub(super) fn clock(word: &str, next: Option<&str>) -> Option<(f64, bool)> {
    match word {
        "noon" => return Some((720.0, false)),
        "midnight" => return Some((0.0, false)),
        _ => {}
    }
    let half = |word: &str| match word {
        "am" | "a.m" => Some(0.0),
        "pm" | "p.m" => Some(720.0),
        _ => None,
    };
    let (digits, glued) = match word.strip_suffix("am").map(|digits| (digits, "am")) {
        Some((digits, am)) => (digits, Some(am)),
        None => match word.strip_suffix("pm") {
            Some(digits) => (digits, Some("pm")),
            None => (word, None),
        },
    };
    let later = glued.and_then(half).or_else(|| next.and_then(half));
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (hours, minutes.split(':').next()?),
        None if later.is_some() => (digits, "0"),
        None => return None,
    };
    let hours: u32 = hours.parse().ok().filter(|hours| *hours < 25)?;
    let minutes: u32 = minutes.parse().ok().filter(|minutes| *minutes < 60)?;
    let hours = if later.is_some() { hours % 12 } else { hours };
    let read_next = glued.is_none() && later.is_some();
    Some((f64::from(hours * 60 + minutes) + later.unwrap_or(0.0), read_next))
}
