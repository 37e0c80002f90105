use engine::Micros;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde_json::Value;

use recalld_common::names;

/// Least number that is read as milliseconds: as seconds, such numbers are times after the year 5138.
const MILLIS_FROM: f64 = 1e11;
/// Least number that is read as microseconds: as milliseconds, such numbers are times after the year 5138.
const MICROS_FROM: f64 = 1e14;

/// Reads a time: RFC 3339, a date, a date and time without an offset (read as UTC), or seconds, milliseconds or
/// microseconds since 1970.
pub(super) fn time(value: &Value) -> Option<Micros> {
    match value {
        Value::Number(number) => of_number(number.as_f64()?),
        Value::String(text) => of_text(text.trim()),
        _ => None,
    }
}

fn of_text(text: &str) -> Option<Micros> {
    if let Ok(at) = names::parse_time(text) {
        return Some(at);
    }
    let civil = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(DateTime::from));
    match civil {
        Ok(civil) => {
            let at = civil.to_zoned(TimeZone::UTC).ok()?;
            Some(Micros(at.timestamp().as_microsecond()))
        }
        Err(_) => of_number(text.parse().ok()?),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range was looked at")]
fn of_number(number: f64) -> Option<Micros> {
    let micros = match number.abs() {
        size if size >= MICROS_FROM => number,
        size if size >= MILLIS_FROM => number * 1e3,
        _ => number * 1e6,
    };
    // This range includes the years 0001 to 9999.
    (micros.is_finite() && micros.abs() < 2.6e17).then(|| Micros(micros.round() as i64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_way_to_write_a_time_is_read() {
        let at = Micros(1_769_850_000_000_000);
        for said in [
            json!("2026-01-31T09:00:00Z"),
            json!("2026-01-31T01:00:00-08:00"),
            json!("2026-01-31 09:00:00"),
            json!("2026-01-31T09:00:00"),
            json!(1_769_850_000),
            json!(1_769_850_000.0),
            json!(1_769_850_000_000_u64),
            json!("1769850000"),
        ] {
            assert_eq!(time(&said), Some(at), "{said}");
        }
        assert_eq!(time(&json!("2026-01-31")), Some(Micros(1_769_817_600_000_000)));
        for said in [json!(null), json!("soon"), json!(1e300), json!([1])] {
            assert_eq!(time(&said), None, "{said}");
        }
    }
}
