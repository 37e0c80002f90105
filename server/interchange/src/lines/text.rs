//! Writes values in the JSON Lines form: texts, times, lists, and objects with ordered keys.

use engine::Micros;
use jiff::SignedDuration;
use jiff::civil::DateTime;

/// A JSON object under construction; keys retain their order of insertion.
pub(super) struct Object<'out> {
    out: &'out mut Vec<u8>,
    is_empty: bool,
}

impl<'out> Object<'out> {
    pub(super) fn begin(out: &'out mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }

    /// Writes a key; the caller writes its value next.
    pub(super) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        text(self.out, key);
        self.out.push(b':');
        self.out
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        text(self.key(key), value);
    }

    /// Writes a text, unless it is empty.
    pub(super) fn text_or_none(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.text(key, value);
        }
    }

    /// Writes a list of texts, unless it is empty.
    pub(super) fn texts_or_none<T: AsRef<str>>(&mut self, key: &str, values: &[T]) {
        if values.is_empty() {
            return;
        }
        let out = self.key(key);
        for (at, value) in values.iter().enumerate() {
            out.push(if at == 0 { b'[' } else { b',' });
            text(out, value.as_ref());
        }
        out.push(b']');
    }

    /// Writes bytes that are JSON already.
    pub(super) fn raw(&mut self, key: &str, json: &str) {
        self.key(key).extend_from_slice(json.as_bytes());
    }

    pub(super) fn time(&mut self, key: &str, at: Micros) {
        let time = time(at);
        self.raw(key, &time);
    }

    pub(super) fn time_or_none(&mut self, key: &str, at: Option<Micros>) {
        if let Some(at) = at {
            self.time(key, at);
        }
    }

    /// Writes `value` unless it is the default.
    pub(super) fn flag_unless(&mut self, key: &str, value: bool, usual: bool) {
        if value != usual {
            self.raw(key, if value { "true" } else { "false" });
        }
    }
}

/// Writes a JSON string (EXP-02): `serde_json` escapes exactly the characters that the rule names.
fn text(out: &mut Vec<u8>, value: &str) {
    serde_json::to_writer(out, value).expect("a text has a JSON form, and a vector takes all");
}

pub(super) const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Returns a time as JSON (EXP-04). Not by `jiff::Timestamp`, whose range ends a day before the year 9999 does.
fn time(at: Micros) -> String {
    let shown = EPOCH.checked_add(SignedDuration::from_micros(at.0));
    match shown {
        Ok(shown) if (1..=9999).contains(&shown.year()) => {
            format!(
                "\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z\"",
                shown.year(),
                shown.month(),
                shown.day(),
                shown.hour(),
                shown.minute(),
                shown.second(),
                shown.subsec_nanosecond() / 1000
            )
        }
        _ => at.0.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn times_are_texts_in_four_digit_years_and_numbers_outside() {
        for (at, wanted) in [
            (0, "\"1970-01-01T00:00:00.000000Z\""),
            (-1, "\"1969-12-31T23:59:59.999999Z\""),
            (-62_135_596_800_000_000, "\"0001-01-01T00:00:00.000000Z\""),
            (-62_135_596_800_000_001, "-62135596800000001"),
            (253_402_300_799_999_999, "\"9999-12-31T23:59:59.999999Z\""),
            (253_402_300_800_000_000, "253402300800000000"),
            (i64::MAX, "9223372036854775807"),
            (i64::MIN + 1, "-9223372036854775807"),
        ] {
            assert_eq!(time(Micros(at)), wanted);
        }
    }

    #[test]
    fn the_years_end_where_the_rule_says() {
        assert_eq!(date(9999, 12, 31).at(23, 59, 59, 999_999_999), DateTime::MAX);
    }

    #[test]
    fn texts_escape_what_the_rule_names() {
        let mut out = Vec::new();
        text(&mut out, "\"\\\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f}/\u{2028}\u{1f9ed}");
        let wanted = "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}/\u{2028}\u{1f9ed}\"";
        assert_eq!(String::from_utf8_lossy(&out), wanted);
    }
}
