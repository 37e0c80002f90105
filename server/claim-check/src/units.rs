//! Numbers and units. A unit has a comparison key and a factor to the base unit of that key.

/// Unit family, which determines the tolerance of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Exact.
    Plain,
    /// `MB`: 1,000-based or 1,024-based, as usage varies.
    Decimal,
    /// `MiB`: 1,024-based.
    Binary,
    /// Months and years, which vary in length.
    Calendar,
    /// Versions, compared part by part.
    Version,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    /// Comparison key.
    pub(super) key: &'static str,
    /// Factor to the base unit.
    pub(super) factor: f64,
    pub(super) family: Family,
}

const SECONDS_A_MONTH: f64 = 30.4375 * 86_400.0;

const UNITS: &[(&str, &str, f64, Family)] = &[
    ("us microsecond microseconds", "time", 1e-6, Family::Plain),
    ("ms millisecond milliseconds msec", "time", 1e-3, Family::Plain),
    ("s sec secs second seconds", "time", 1.0, Family::Plain),
    ("min mins minute minutes", "time", 60.0, Family::Plain),
    ("h hr hrs hour hours", "time", 3_600.0, Family::Plain),
    ("d day days night nights", "time", 86_400.0, Family::Plain),
    ("week weeks wk wks", "time", 604_800.0, Family::Plain),
    ("fortnight fortnights", "time", 1_209_600.0, Family::Plain),
    ("month months", "time", SECONDS_A_MONTH, Family::Calendar),
    ("quarter quarters", "time", SECONDS_A_MONTH * 3.0, Family::Calendar),
    ("year years yr yrs", "time", SECONDS_A_MONTH * 12.0, Family::Calendar),
    ("b byte bytes", "bytes", 1.0, Family::Plain),
    ("kb", "bytes", 1e3, Family::Decimal),
    ("mb", "bytes", 1e6, Family::Decimal),
    ("gb", "bytes", 1e9, Family::Decimal),
    ("tb", "bytes", 1e12, Family::Decimal),
    ("kib", "bytes", 1_024.0, Family::Binary),
    ("mib", "bytes", 1_048_576.0, Family::Binary),
    ("gib", "bytes", 1_073_741_824.0, Family::Binary),
    ("tib", "bytes", 1_099_511_627_776.0, Family::Binary),
    ("% percent pct per-cent", "percent", 1.0, Family::Plain),
    ("$ usd dollar dollars", "usd", 1.0, Family::Plain),
    ("eur euro euros \u{20ac}", "eur", 1.0, Family::Plain),
    ("\u{a3} gbp pound pounds", "gbp", 1.0, Family::Plain),
    ("chf franc francs", "chf", 1.0, Family::Plain),
    ("cent cents", "cent", 1.0, Family::Plain),
    ("m metre metres meter meters", "metre", 1.0, Family::Plain),
    ("km kilometre kilometres kilometer kilometers", "metre", 1e3, Family::Plain),
    ("kg kilogram kilograms", "gram", 1e3, Family::Plain),
    ("w watt watts", "watt", 1.0, Family::Plain),
    ("kw kilowatt kilowatts", "watt", 1e3, Family::Plain),
    ("l litre litres liter liters", "litre", 1.0, Family::Plain),
    ("knot knots kn", "knot", 1.0, Family::Plain),
    ("rpm", "rpm", 1.0, Family::Plain),
    ("rps", "n:request/t", 1.0, Family::Plain),
    ("mbps mbit/s", "bits/t", 1e6, Family::Plain),
    ("gbps gbit/s", "bits/t", 1e9, Family::Plain),
];

const NUMBERS: [(&str, f64); 31] = [
    ("zero", 0.0),
    ("one", 1.0),
    ("two", 2.0),
    ("three", 3.0),
    ("four", 4.0),
    ("five", 5.0),
    ("six", 6.0),
    ("seven", 7.0),
    ("eight", 8.0),
    ("nine", 9.0),
    ("ten", 10.0),
    ("eleven", 11.0),
    ("twelve", 12.0),
    ("thirteen", 13.0),
    ("fourteen", 14.0),
    ("fifteen", 15.0),
    ("sixteen", 16.0),
    ("seventeen", 17.0),
    ("eighteen", 18.0),
    ("nineteen", 19.0),
    ("twenty", 20.0),
    ("thirty", 30.0),
    ("forty", 40.0),
    ("fifty", 50.0),
    ("sixty", 60.0),
    ("seventy", 70.0),
    ("eighty", 80.0),
    ("ninety", 90.0),
    ("dozen", 12.0),
    ("couple", 2.0),
    ("a-dozen", 12.0),
];
const MULTIPLES: [(&str, f64); 4] =
    [("hundred", 100.0), ("thousand", 1e3), ("million", 1e6), ("billion", 1e9)];

/// Returns the unit of this name, in lower case.
pub(super) fn unit(name: &str) -> Option<Unit> {
    let row = UNITS.iter().find(|(names, ..)| names.split(' ').any(|known| known == name));
    row.map(|&(_, key, factor, family)| Unit { key, factor, family })
}

/// Parses a number word, including `twenty-three`.
pub(super) fn word_number(word: &str) -> Option<f64> {
    let of = |word: &str| NUMBERS.iter().find(|(known, _)| *known == word).map(|(_, n)| *n);
    of(word).or_else(|| {
        let (tens, ones) = word.split_once('-')?;
        let (tens, ones) = (of(tens)?, of(ones)?);
        (tens >= 20.0 && ones < 10.0).then_some(tens + ones)
    })
}

/// Returns the factor of a multiplier such as `hundred`.
pub(super) fn multiple(word: &str) -> Option<f64> {
    MULTIPLES.iter().find(|(known, _)| *known == word).map(|(_, n)| *n)
}

/// Parses the number at the start of a text, and returns the rest: `1,200`, `90s`, `1.5min`. Commas separate thousands.
pub(super) fn leading_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
    let (digits, behind) = text.split_at(end.unwrap_or(text.len()));
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.matches('.').count() <= 1;
    let groups: Vec<&str> = digits.split('.').next().unwrap_or_default().split(',').collect();
    let are_thousands = groups.iter().skip(1).all(|group| group.len() == 3);
    if !is_number || !are_thousands {
        return None;
    }
    digits.replace(',', "").parse().ok().map(|number| (number, behind))
}
