//! Time mentions: the date, month, quarter, year or range that a question names.
//!
//! The grammar is small and strict: a phrase that is not surely a time is ignored, as a wrong time does more harm than
//! a missed one. Dates are in UTC, relative to the time of the question.

use engine::Micros;
use jiff::civil::Date;
use jiff::tz::TimeZone;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Words of a question that are parsed for a time.
    const WORDS_MAX: usize = 512;
    /// Highest count of units in a relative time: `3 weeks ago`.
    const UNITS_MAX: i64 = 10_000;
}

/// Range of bare numbers that are years; other numbers are quantities.
const BARE_YEARS: std::ops::RangeInclusive<i16> = 1900..=2100;

const DAY_MICROS: i64 = 86_400 * 1_000_000;

/// Names of the months in English, in order.
pub const MONTHS: [&str; 12] = [
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
/// Names of the weekdays in English, from Monday.
pub const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Half-open range of time: `start` is included, `end` is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// First moment of the range.
    pub start: Micros,
    /// First moment after the range.
    pub end: Micros,
}

impl Period {
    /// Returns true if the range contains the moment.
    pub fn has(self, at: Micros) -> bool {
        self.start <= at && at < self.end
    }
}

/// Temporal intent of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// `as of ...`: the store as known and as true at this moment.
    AsOf(Micros),
    /// `as of` a moment before the store's first record.
    BeforeTheRecord,
    /// Items of this period.
    Within(Period),
}

/// Returns the temporal intent of a question: `as of ...` before any other, else the first. Without `now`, relative
/// times are ignored.
pub fn named(question: &str, now: Option<Micros>) -> Option<When> {
    let words: Vec<String> = question.split_whitespace().take(WORDS_MAX).map(plain).collect();
    let reader = Reader { words: &words, now };
    let places = || 0..words.len();
    places().find_map(|at| reader.as_of(at)).or_else(|| places().find_map(|at| reader.within(at)))
}

/// Normalizes a word: strips punctuation around, and a possessive ending; converts to lower case.
fn plain(word: &str) -> String {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    let word = word.strip_suffix("'s").or(word.strip_suffix("\u{2019}s")).unwrap_or(word);
    word.to_ascii_lowercase()
}

/// Parsed range, and its number of words.
type Read = (Period, usize);

struct Reader<'a> {
    words: &'a [String],
    now: Option<Micros>,
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    fn as_of(&self, at: usize) -> Option<When> {
        let behind = match (self.word(at), self.word(at + 1)) {
            ("as-of", _) => at + 1,
            ("as", "of" | "at" | "on") => at + 2,
            _ => return None,
        };
        let (period, _) = self.date(behind)?;
        Some(When::AsOf(Micros(period.end.0 - 1)))
    }

    fn within(&self, at: usize) -> Option<When> {
        let (first, second) = (self.word(at), self.date(at + 1));
        let period = match (first, second) {
            ("between" | "from", Some((from, used))) => {
                let joins = self.word(at + 1 + used);
                let to = matches!(joins, "and" | "to" | "until" | "till" | "through");
                match self.date(at + 2 + used).filter(|_| to) {
                    Some((to, _)) if from.start <= to.start => Period { end: to.end, ..from },
                    Some(_) => return None,
                    None if first == "from" => from,
                    None => return None,
                }
            }
            ("since", Some((from, _))) => Period { end: Micros(i64::MAX), ..from },
            ("after", Some((from, _))) => Period { start: from.end, end: Micros(i64::MAX) },
            ("before", Some((to, _))) => Period { start: Micros(i64::MIN), end: to.start },
            ("until" | "till", Some((to, _))) => Period { start: Micros(i64::MIN), ..to },
            ("in" | "on" | "during" | "of" | "for" | "at", Some((period, _))) => period,
            _ => self.date(at)?.0,
        };
        Some(When::Within(period))
    }

    /// Parses a date at the words from `at` on.
    fn date(&self, at: usize) -> Option<Read> {
        let readers = [Self::iso, Self::quarter, Self::day_and_month, Self::relative, Self::year];
        readers.into_iter().find_map(|read| read(self, at))
    }

    /// Parses `2024-03-05`, `2024-03`, `2024-q1` or `2024-03-05T10:00:00Z`.
    fn iso(&self, at: usize) -> Option<Read> {
        let word = self.word(at);
        if word.contains('t')
            && let Ok(moment) = word.to_ascii_uppercase().parse::<jiff::Timestamp>()
        {
            let start = moment.as_microsecond();
            return Some((Period { start: Micros(start), end: Micros(start + 1_000_000) }, 1));
        }
        let mut parts = word.split('-');
        let year = digits(parts.next()?, 4)?;
        let second = parts.next()?;
        if let Some(quarter) = quarter_of(second) {
            return parts.next().is_none().then_some((quarter_period(year, quarter)?, 1));
        }
        let month = digits(second, 2)?;
        let period = match parts.next() {
            None => month_period(year, month)?,
            Some(day) => day_period(year, month, digits(day, 2)?)?,
        };
        parts.next().is_none().then_some((period, 1))
    }

    /// Parses `Q1 2024` or `2024 Q1`.
    fn quarter(&self, at: usize) -> Option<Read> {
        let (first, second) = (self.word(at), self.word(at + 1));
        let (quarter, year) = match quarter_of(first) {
            Some(quarter) => (quarter, year_of(second)?),
            None => (quarter_of(second)?, year_of(first)?),
        };
        Some((quarter_period(year, quarter)?, 2))
    }

    /// Parses `March 2025`, `5 March 2025`, `March 5, 2025` or `March 5th`.
    fn day_and_month(&self, at: usize) -> Option<Read> {
        let [first, second, third] = [at, at + 1, at + 2].map(|at| self.word(at));
        let (day, named) = match (month_of(first), year_of(second)) {
            (Some(month), Some(year)) => return Some((month_period(year, month)?, 2)),
            (Some(_), None) => (day_of(second)?, first),
            (None, _) => (day_of(first)?, second),
        };
        let month = month_of(named)?;
        match year_of(third) {
            Some(year) => Some((day_period(year, month, day)?, 3)),
            None if named == "may" => None, // more often than not another word
            None => Some((self.latest(|year| day_period(year, month, day))?, 2)),
        }
    }

    /// Returns the latest range of its kind that has begun by now.
    fn latest(&self, of_year: impl Fn(i16) -> Option<Period>) -> Option<Period> {
        let now = self.now?;
        let year = date_of(now)?.year();
        let mut years = [year, year.checked_sub(1)?].into_iter();
        years.find_map(|year| of_year(year).filter(|period| period.start <= now))
    }

    /// Parses `today`, `yesterday`, `last week`, `this month`, `past 3 days`, `2 years ago` or `last Monday`.
    fn relative(&self, at: usize) -> Option<Read> {
        let now = self.now?;
        let today = date_of(now)?;
        let midnight = micros_of(today)?.0;
        let days = |from: i64, to: i64| Period {
            start: Micros(midnight.saturating_add(from.saturating_mul(DAY_MICROS))),
            end: Micros(midnight.saturating_add(to.saturating_mul(DAY_MICROS))),
        };
        let (first, second, third) = (self.word(at), self.word(at + 1), self.word(at + 2));
        match first {
            "today" => return Some((days(0, 1), 1)),
            "yesterday" => return Some((days(-1, 0), 1)),
            "the" if matches!(second, "last" | "past" | "previous") => {
                let (period, used) = self.relative(at + 1)?;
                return Some((period, used + 1));
            }
            "last" | "past" | "previous" => {
                if let (Some(count), Some(unit)) = (count_of(second), Unit::of(third)) {
                    let start = unit.back(today, count)?;
                    return Some((Period { start, end: days(0, 1).end }, 3));
                }
                if let Some(weekday) = WEEKDAYS.iter().position(|day| *day == second) {
                    return Some((weekday_before(today, weekday, &days), 2));
                }
                let unit = Unit::of(second)?;
                let this = unit.around(today)?;
                let before = date_of(Micros(this.start.0 - 1))?;
                return Some((unit.around(before)?, 2));
            }
            "this" => return Some((Unit::of(second)?.around(today)?, 2)),
            _ => {}
        }
        let (count, unit) = (count_of(first)?, Unit::of(second)?);
        if third != "ago" {
            return None;
        }
        let then = date_of(unit.back(today, count)?)?;
        Some((unit.around(then)?, 3))
    }

    fn year(&self, at: usize) -> Option<Read> {
        let year = year_of(self.word(at))?;
        let end = first_of(year.checked_add(1)?, 1)?;
        Some((Period { start: first_of(year, 1)?, end }, 1))
    }
}

/// Returns the weekday's last occurrence before today; Monday is 0.
fn weekday_before(today: Date, weekday: usize, days: &dyn Fn(i64, i64) -> Period) -> Period {
    let today = i64::from(today.weekday().to_monday_zero_offset());
    let back = today - i64::try_from(weekday).unwrap_or(0);
    let back = if back <= 0 { back + 7 } else { back };
    days(-back, 1 - back)
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Unit {
    fn of(word: &str) -> Option<Self> {
        Some(match word.strip_suffix('s').unwrap_or(word) {
            "day" => Self::Day,
            "week" => Self::Week,
            "month" => Self::Month,
            "quarter" => Self::Quarter,
            "year" => Self::Year,
            _ => return None,
        })
    }

    /// Returns the unit's range that contains the date; weeks begin on Mondays.
    fn around(self, date: Date) -> Option<Period> {
        let midnight = micros_of(date)?.0;
        let month = date.month();
        Some(match self {
            Self::Day => day_period(date.year(), month, date.day())?,
            Self::Week => {
                let monday = i64::from(date.weekday().to_monday_zero_offset());
                let start = midnight - monday * DAY_MICROS;
                Period { start: Micros(start), end: Micros(start + 7 * DAY_MICROS) }
            }
            Self::Month => month_period(date.year(), month)?,
            Self::Quarter => quarter_period(date.year(), (month - 1) / 3 + 1)?,
            Self::Year => Period {
                start: first_of(date.year(), 1)?,
                end: first_of(date.year().checked_add(1)?, 1)?,
            },
        })
    }

    /// Returns the midnight `count` units before the date.
    fn back(self, date: Date, count: i64) -> Option<Micros> {
        let months = match self {
            Self::Day | Self::Week => {
                let days = if matches!(self, Self::Week) { 7 * count } else { count };
                return Some(Micros(micros_of(date)?.0 - days * DAY_MICROS));
            }
            Self::Month => count,
            Self::Quarter => 3 * count,
            Self::Year => 12 * count,
        };
        let at = i64::from(date.year()) * 12 + i64::from(date.month()) - 1 - months;
        let year = i16::try_from(at.div_euclid(12)).ok()?;
        let month = i8::try_from(at.rem_euclid(12) + 1).ok()?;
        let last = Date::new(year, month, 1).ok()?.days_in_month();
        micros_of(Date::new(year, month, date.day().min(last)).ok()?)
    }
}

fn micros_of(date: Date) -> Option<Micros> {
    let midnight = TimeZone::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
    Some(Micros(midnight.as_microsecond()))
}

fn date_of(at: Micros) -> Option<Date> {
    let moment = jiff::Timestamp::from_microsecond(at.0).ok()?;
    Some(TimeZone::UTC.to_datetime(moment).date())
}

fn first_of(year: i16, month: i8) -> Option<Micros> {
    micros_of(Date::new(year, month, 1).ok()?)
}

fn day_period(year: i16, month: i8, day: i8) -> Option<Period> {
    let start = micros_of(Date::new(year, month, day).ok()?)?;
    Some(Period { start, end: Micros(start.0 + DAY_MICROS) })
}

/// Range of `count` months, from the first of a month.
fn months(year: i16, month: i8, count: i8) -> Option<Period> {
    let behind = month + count;
    let end = if behind > 12 {
        first_of(year.checked_add(1)?, behind - 12)?
    } else {
        first_of(year, behind)?
    };
    Some(Period { start: first_of(year, month)?, end })
}

fn month_period(year: i16, month: i8) -> Option<Period> {
    (1..=12).contains(&month).then(|| months(year, month, 1))?
}

fn quarter_period(year: i16, quarter: i8) -> Option<Period> {
    months(year, quarter * 3 - 2, 3)
}

/// Parses a number of exactly `count` digits.
fn digits<T: std::str::FromStr>(text: &str, count: usize) -> Option<T> {
    let whole = text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    whole.then(|| text.parse().ok())?
}

fn year_of(word: &str) -> Option<i16> {
    digits(word, 4).filter(|year| BARE_YEARS.contains(year))
}

/// Parses `q1` to `q4`.
fn quarter_of(word: &str) -> Option<i8> {
    let quarter: i8 = digits(word.strip_prefix('q')?, 1)?;
    (1..=4).contains(&quarter).then_some(quarter)
}

/// Parses a month's name, or its first three letters.
fn month_of(word: &str) -> Option<i8> {
    let word = if word == "sept" { "sep" } else { word };
    let at = MONTHS.iter().position(|month| *month == word || month[..3] == *word)?;
    i8::try_from(at + 1).ok()
}

/// Parses `5`, `05` or `5th`.
fn day_of(word: &str) -> Option<i8> {
    let bare = ["st", "nd", "rd", "th"].into_iter().find_map(|end| word.strip_suffix(end));
    let bare = bare.unwrap_or(word);
    let day: i8 = digits(bare, 1).or_else(|| digits(bare, 2))?;
    (1..=31).contains(&day).then_some(day)
}

/// Parses `3`, `three` or `a`.
fn count_of(word: &str) -> Option<i64> {
    const NAMES: [&str; 13] = [
        "a", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    let named = NAMES.iter().position(|name| *name == word);
    let named = named.and_then(|at| i64::try_from(at.max(1)).ok());
    named.or_else(|| word.parse().ok()).filter(|count| (1..=UNITS_MAX).contains(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use recalld_common::names;

    /// A Wednesday.
    const NOW: &str = "2026-01-14T09:30:00Z";

    fn at(time: &str) -> Micros {
        names::parse_time(time).unwrap()
    }

    fn read(question: &str) -> Option<When> {
        named(question, Some(at(NOW)))
    }

    #[track_caller]
    fn assert_days(question: &str, start: &str, end: &str) {
        let midnight = |day: &str| match day {
            "" if start.is_empty() => Micros(i64::MIN),
            "" => Micros(i64::MAX),
            day => at(&format!("{day}T00:00:00Z")),
        };
        let period = Period { start: midnight(start), end: midnight(end) };
        assert_eq!(read(question), Some(When::Within(period)), "{question}");
    }

    #[test]
    fn days_months_quarters_and_years_are_periods() {
        for (question, start, end) in [
            ("what was decided on 2024-03-05?", "2024-03-05", "2024-03-06"),
            ("what was decided in 2024-02", "2024-02-01", "2024-03-01"),
            ("the 2024 plan", "2024-01-01", "2025-01-01"),
            ("deliveries of March 2025", "2025-03-01", "2025-04-01"),
            ("deliveries in Dec 2025", "2025-12-01", "2026-01-01"),
            ("on 5 March 2025", "2025-03-05", "2025-03-06"),
            ("on March 5th, 2025,", "2025-03-05", "2025-03-06"),
            ("on March 5", "2025-03-05", "2025-03-06"),
            ("on January 5", "2026-01-05", "2026-01-06"),
            ("figures of Q1 2024", "2024-01-01", "2024-04-01"),
            ("2024-Q4 figures", "2024-10-01", "2025-01-01"),
            ("the 2024 Q2 figures", "2024-04-01", "2024-07-01"),
        ] {
            assert_days(question, start, end);
        }
        let second = Period { start: at("2024-03-05T10:00:00Z"), end: at("2024-03-05T10:00:01Z") };
        assert_eq!(read("at 2024-03-05T10:00:00Z?"), Some(When::Within(second)));
    }

    #[test]
    fn times_are_told_from_the_moment_of_asking() {
        for (question, start, end) in [
            ("what happened today", "2026-01-14", "2026-01-15"),
            ("yesterday's decisions", "2026-01-13", "2026-01-14"),
            ("what did we decide last week?", "2026-01-05", "2026-01-12"),
            ("this week", "2026-01-12", "2026-01-19"),
            ("last month", "2025-12-01", "2026-01-01"),
            ("last quarter", "2025-10-01", "2026-01-01"),
            ("last year", "2025-01-01", "2026-01-01"),
            ("the past 3 days", "2026-01-11", "2026-01-15"),
            ("the last two weeks", "2025-12-31", "2026-01-15"),
            ("2 months ago", "2025-11-01", "2025-12-01"),
            ("a year ago", "2025-01-01", "2026-01-01"),
            ("last Monday", "2026-01-12", "2026-01-13"),
            ("last wednesday", "2026-01-07", "2026-01-08"),
        ] {
            assert_days(question, start, end);
            assert_eq!(named(question, None), None, "{question}");
        }
        assert_eq!(
            Unit::Month.back(Date::constant(2024, 3, 31), 1),
            Some(at("2024-02-29T00:00:00Z"))
        );
    }

    #[test]
    fn stretches_are_open_or_closed() {
        for (question, start, end) in [
            ("changes since 2024-03-05", "2024-03-05", ""),
            ("changes since last week", "2026-01-05", ""),
            ("changes after March 2025", "2025-04-01", ""),
            ("what stood before 2020?", "", "2020-01-01"),
            ("until 5 March 2025", "", "2025-03-06"),
            ("between 2020 and March 2021", "2020-01-01", "2021-04-01"),
            ("from 2024-01-01 to 2024-01-31", "2024-01-01", "2024-02-01"),
        ] {
            assert_days(question, start, end);
        }
    }

    #[test]
    fn as_of_is_the_end_of_what_it_names_and_goes_before_all_else() {
        for (question, moment) in [
            ("who kept the lamp as of 2024-03-05?", "2024-03-05T23:59:59.999999Z"),
            ("changes since 2020, as of March 2025", "2025-03-31T23:59:59.999999Z"),
            ("as of yesterday", "2026-01-13T23:59:59.999999Z"),
        ] {
            assert_eq!(read(question), Some(When::AsOf(at(moment))), "{question}");
        }
    }

    #[test]
    fn what_is_not_surely_a_time_is_none() {
        for question in [
            "",
            "why was this chosen?",
            "what may we do in march of progress", // a month without a year or a day
            "what may 5 people do",
            "room 20245, page 2024b, 1024 bytes, 9000 items",
            "2024-13-05",
            "2024-02-30 is no day",
            "as of now unknown",
            "between a rock and 2 hard places",
            "the last of them",
            "the last 0 days",
            "99999999999999999999 days ago",
            "Q5 2024x",
            "since the beginning",
        ] {
            assert_eq!(read(question), None, "{question}");
        }
        let long = format!("{}2024", "word ".repeat(WORDS_MAX));
        assert_eq!(read(&long), None);
    }
}
