//! Splits a line into keys and raw JSON values, and reads the values as types.
//!
//! Values stay raw because `attributes` is stored byte for byte as written.

use std::str::FromStr;

use engine::{EdgeId, ItemId, Micros, SourceId};
use jiff::civil::DateTime;
use serde_json::Value;

use recalld_common::names;

use super::text::EPOCH;

/// The fields of a JSON object. Each field is read once; fields that are left over are an error.
pub(super) struct Fields<'line> {
    rest: Vec<(String, &'line str)>,
}

impl<'line> Fields<'line> {
    /// Splits a JSON object into fields.
    pub(super) fn of(text: &'line str) -> Result<Self, String> {
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(_)) => {}
            Ok(_) => return Err("not a JSON object".to_owned()),
            Err(error) => return Err(format!("not JSON: {error}")),
        }
        let mut rest: Vec<(String, &str)> = Vec::new();
        let mut at = text.find('{').map_or(text.len(), |at| at + 1);
        // The text is a complete object, so every delimiter searched for is present.
        while let Some(start) = text[at..].find('"').map(|found| at + found) {
            let end = value_end(text, start);
            let key: String = serde_json::from_str(&text[start..end]).map_err(|e| e.to_string())?;
            let value = text[end..].find(':').map_or(end, |colon| end + colon + 1);
            let value = text.len() - text[value..].trim_start().len();
            at = value_end(text, value);
            if rest.iter().any(|(other, _)| *other == key) {
                return Err(format!("{key} is given twice"));
            }
            rest.push((key, text[value..at].trim_end()));
        }
        Ok(Self { rest })
    }

    /// Removes and returns the raw value of a key; `None` for null.
    pub(super) fn raw(&mut self, key: &str) -> Option<&'line str> {
        let at = self.rest.iter().position(|(name, _)| name == key)?;
        Some(self.rest.swap_remove(at).1).filter(|raw| *raw != "null")
    }

    fn value<T>(
        &mut self,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(raw) = self.raw(key) else { return Ok(None) };
        read(raw).map(Some).ok_or_else(|| format!("{key}: {wanted} is wanted"))
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        self.value(key, "a text", |raw| serde_json::from_str(raw).ok())
    }

    pub(super) fn needed(&mut self, key: &str) -> Result<String, String> {
        self.text(key)?.ok_or_else(|| format!("{key} is missing"))
    }

    pub(super) fn texts(&mut self, key: &str) -> Result<Vec<String>, String> {
        let read = |raw: &str| serde_json::from_str(raw).ok();
        Ok(self.value(key, "a list of texts", read)?.unwrap_or_default())
    }

    pub(super) fn flag(&mut self, key: &str) -> Result<Option<bool>, String> {
        self.value(key, "true or false", |raw| serde_json::from_str(raw).ok())
    }

    pub(super) fn natural<T: FromStr>(&mut self, key: &str) -> Result<Option<T>, String> {
        self.value(key, "a whole number without sign", |raw| raw.parse().ok())
    }

    pub(super) fn weight(&mut self, key: &str) -> Result<Option<f32>, String> {
        self.value(key, "a number", |raw| raw.parse().ok())
    }

    pub(super) fn hash(&mut self, key: &str) -> Result<Option<[u8; 32]>, String> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let bytes = (0..32).map(|at| {
            let pair = text.get(at * 2..at * 2 + 2)?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        let bytes = bytes.filter(|_| text.len() == 64).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Some).ok_or_else(|| format!("{key}: 64 hexadecimal digits are wanted"))
    }

    /// Reads a time as text or in microseconds (EXP-04).
    pub(super) fn time(&mut self, key: &str) -> Result<Option<Micros>, String> {
        let Some(raw) = self.raw(key) else { return Ok(None) };
        if let Ok(micros) = raw.parse() {
            return Ok(Some(Micros(micros)));
        }
        let text: String = serde_json::from_str(raw)
            .map_err(|_| format!("{key}: a time in RFC 3339 is wanted, or whole microseconds"))?;
        time(&text).map(Some).map_err(|why| format!("{key}: {why}"))
    }

    pub(super) fn item_id(&mut self, key: &str) -> Result<Option<ItemId>, String> {
        self.id(key, "itm_", names::parse_item)
    }

    pub(super) fn source_id(&mut self, key: &str) -> Result<Option<SourceId>, String> {
        self.id(key, "src_", names::parse_source)
    }

    pub(super) fn edge_id(&mut self, key: &str) -> Result<Option<EdgeId>, String> {
        self.id(key, "edg_", names::parse_edge)
    }

    fn id<T, E>(
        &mut self,
        key: &str,
        prefix: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let id = parse(&text);
        id.map(Some)
            .map_err(|_| format!("{key}: an id such as {prefix} and 26 characters is wanted"))
    }

    /// Returns an error if a key was not read: a misspelt key must be reported rather than lost.
    pub(super) fn end(self) -> Result<(), String> {
        match self.rest.first() {
            Some((key, _)) => Err(format!("there is no key {key} on such a line")),
            None => Ok(()),
        }
    }
}

/// Returns the end of the JSON value that starts at `start`. The text must be valid JSON.
fn value_end(text: &str, start: usize) -> usize {
    let (mut depth, mut in_text, mut escaped) = (0u32, false, false);
    for (at, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => {
                in_text = !in_text;
                if !in_text && depth == 0 {
                    return at + 1;
                }
            }
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// Reads a time from an export, or any other RFC 3339 time. UTC times are not parsed by `jiff::Timestamp`, whose range
/// ends a day before the year 9999 does.
fn time(text: &str) -> Result<Micros, String> {
    let utc = text.strip_suffix(['Z', 'z']).and_then(|text| text.parse::<DateTime>().ok());
    let Some(utc) = utc else { return names::parse_time(text) };
    let since = utc.duration_since(EPOCH).as_micros();
    i64::try_from(since).map(Micros).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_as_they_were_written() {
        let line =
            r#" { "a" : "x\"}, \\" , "b":{ "c" : [1.50, "]"] } ,"d":-0,"e":null, "\u0066":[] } "#;
        let mut fields = Fields::of(line).unwrap();
        assert_eq!(fields.text("a").unwrap().as_deref(), Some("x\"}, \\"));
        assert_eq!(fields.raw("b"), Some(r#"{ "c" : [1.50, "]"] }"#));
        assert_eq!(fields.raw("d"), Some("-0"));
        assert_eq!(fields.raw("e"), None);
        assert_eq!(fields.texts("f").unwrap(), Vec::<String>::new());
        fields.end().unwrap();
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (line, why) in [
            ("[1]", "not a JSON object"),
            ("{\"a\":1", "not JSON"),
            ("{\"a\":1,\"a\":2}", "a is given twice"),
            ("{\"b\":1}", "no key b"),
        ] {
            let found = Fields::of(line).and_then(Fields::end).unwrap_err();
            assert!(found.contains(why), "{line}: {found}");
        }
        let mut fields = Fields::of("{\"t\":\"yesterday\",\"n\":-1,\"h\":\"\u{e9}\"}").unwrap();
        assert!(fields.time("t").unwrap_err().contains("RFC 3339"));
        assert!(fields.natural::<u64>("n").unwrap_err().contains("without sign"));
        assert!(fields.hash("h").unwrap_err().contains("64 hexadecimal"));
    }

    #[test]
    fn times_of_all_years_are_read() {
        for (text, at) in [
            ("1970-01-01T01:00:00+01:00", 0),
            ("0001-01-01T00:00:00.000000Z", -62_135_596_800_000_000),
            ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
        ] {
            assert_eq!(time(text), Ok(Micros(at)), "{text}");
        }
        let mut fields = Fields::of("{\"t\":-9223372036854775807}").unwrap();
        assert_eq!(fields.time("t"), Ok(Some(Micros(i64::MIN + 1))));
    }
}
