//! Argument types with a parser of their own: fractions, dates, hashes, ids, sources and arbitrary JSON.

use engine::{EdgeId, Sensitivity, SourceId, hex};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::argument::{Argument, Shown, Text, unquoted, wanted};
use super::choice::one_of;
use recalld_common::names;
use recalld_common::nearest::{cut, nearest};

const THOUSAND: f64 = 1_000.0;

/// A number from `MIN` to `MAX` thousandths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Real<const MIN: i32, const MAX: i32>(pub f64);

impl<const MIN: i32, const MAX: i32> Argument for Real<MIN, MAX> {
    fn schema() -> Value {
        let number = |thousandths: i32| {
            let whole = thousandths % 1_000 == 0;
            if whole {
                json!(thousandths / 1_000)
            } else {
                json!(f64::from(thousandths) / THOUSAND)
            }
        };
        json!({"type": "number", "minimum": number(MIN), "maximum": number(MAX)})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let number = unquoted(value).as_f64().ok_or_else(|| wanted("a number", value))?;
        let (min, max) = (f64::from(MIN) / THOUSAND, f64::from(MAX) / THOUSAND);
        if !(min..=max).contains(&number) {
            return Err(format!("is {number}; {min} to {max} is allowed"));
        }
        Ok(Self(number))
    }
}

impl<const MIN: i32, const MAX: i32> Shown for Real<MIN, MAX> {
    fn shown(&self) -> Option<Value> {
        Some(self.0.into())
    }
}

/// Implements `Shown` without a default in the schema.
macro_rules! without_default {
    ($($name:ty),*) => { $(impl Shown for $name { fn shown(&self) -> Option<Value> { None } })* };
}
without_default!(Day, Sha256, Edge, Source, SourceGiven, AnyNumber);

/// A JSON object of at most `BYTES` bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct AnyObject<const BYTES: usize>(pub Value);

impl<const BYTES: usize> Argument for AnyObject<BYTES> {
    fn schema() -> Value {
        json!({"type": "object"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        match AnyJson::<BYTES>::read(value)? {
            AnyJson(object) if object.is_object() => Ok(Self(object)),
            _ => Err(wanted("an object", value)),
        }
    }
}

impl<const BYTES: usize> Shown for AnyObject<BYTES> {
    fn shown(&self) -> Option<Value> {
        None
    }
}

/// Any JSON value of at most `BYTES` bytes. If the value is a string that contains JSON, the string is parsed, as for
/// all types but text. The schema declares `object`, because some clients cannot handle union types.
#[derive(Debug, Clone, PartialEq)]
pub struct AnyJson<const BYTES: usize>(pub Value);

impl<const BYTES: usize> Argument for AnyJson<BYTES> {
    fn schema() -> Value {
        json!({"type": "object"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let value = unquoted(value);
        let bytes = value.to_string().len();
        if bytes > BYTES {
            return Err(format!("has {bytes} bytes as JSON; {BYTES} are allowed"));
        }
        Ok(Self(value))
    }
}

impl<const BYTES: usize> Shown for AnyJson<BYTES> {
    fn shown(&self) -> Option<Value> {
        None
    }
}

/// Any finite number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnyNumber(pub f64);

impl Argument for AnyNumber {
    fn schema() -> Value {
        json!({"type": "number"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let number = unquoted(value).as_f64().filter(|number| number.is_finite());
        number.map(Self).ok_or_else(|| wanted("a number", value))
    }
}

/// A calendar date (`2026-01-31`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day(pub Date);

impl Argument for Day {
    fn schema() -> Value {
        json!({"type": "string", "format": "date"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(|| wanted("a date", value))?;
        let date = text.parse().map_err(|_| wanted("a date such as 2026-01-31", value))?;
        Ok(Self(date))
    }
}

/// A time zone of the IANA database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(pub TimeZone);

impl Argument for Zone {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let name = value.as_str().ok_or_else(|| wanted("a time zone", value))?;
        let zone = TimeZone::get(name).map(Self);
        zone.map_err(|_| wanted("a time zone of the IANA database such as Europe/Berlin", value))
    }
}

impl Shown for Zone {
    fn shown(&self) -> Option<Value> {
        self.0.iana_name().map(Value::from)
    }
}

/// A SHA-256 hash as 64 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    /// Lower-case hex digits.
    pub fn to_hex(self) -> String {
        hex(&self.0)
    }
}

impl Argument for Sha256 {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let not_one = || wanted("a SHA-256, which is 64 hex digits,", value);
        let text = value.as_str().filter(|text| text.len() == 64).ok_or_else(not_one)?;
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().as_chunks::<2>().0) {
            let digits = std::str::from_utf8(digits).ok();
            let digits =
                digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let read = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            *byte = read.ok_or_else(not_one)?;
        }
        Ok(Self(bytes))
    }
}

/// An edge id (`edg_...`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge(pub EdgeId);

impl Argument for Edge {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(|| wanted("an edge's id", value))?;
        let id = names::parse_edge(text).map(Self);
        id.map_err(|_| wanted("an edge's id, which begins with edg_,", value))
    }
}

/// A source id (`src_...`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source(pub SourceId);

impl Argument for Source {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(|| wanted("a source's id", value))?;
        let id = names::parse_source(text).map(Self);
        id.map_err(|_| wanted("a source's id, which begins with src_,", value))
    }
}

/// Origin of a text: `{uri, title}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceGiven {
    /// URI of 1 to 2048 characters.
    pub uri: String,
    /// Title of 0 to 1000 characters.
    pub title: String,
}

impl Argument for SourceGiven {
    fn schema() -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["uri"],
            "properties": {
                "uri": Text::<1, 2048>::schema(), "title": Text::<0, 1000>::schema(),
            },
        })
    }

    fn read(value: &Value) -> Result<Self, String> {
        let object = unquoted(value);
        let object = object.as_object().ok_or_else(|| wanted("an object {uri, title}", value))?;
        if let Some(other) = object.keys().find(|key| *key != "uri" && *key != "title") {
            let meant =
                nearest(other, ["uri", "title"]).map(|name| format!("did you mean `{name}`?"));
            let hint = meant.unwrap_or_else(|| "uri and title are allowed".to_owned());
            return Err(format!("has `{}`; {hint}", cut(other)));
        }
        let uri = object.get("uri").ok_or("has no uri")?;
        let uri = Text::<1, 2048>::read(uri).map_err(|why| format!("its uri {why}"))?.0;
        let title = object.get("title").map(Text::<0, 1000>::read).transpose();
        let title = title.map_err(|why| format!("its title {why}"))?;
        Ok(Self { uri, title: title.map(|title| title.0).unwrap_or_default() })
    }
}

impl Argument for Sensitivity {
    fn schema() -> Value {
        json!({"type": "string", "enum": Sensitivity::ALL.map(Sensitivity::name)})
    }

    fn read(value: &Value) -> Result<Self, String> {
        one_of(value, &Sensitivity::ALL.map(Sensitivity::name)).map(|at| Sensitivity::ALL[at])
    }
}

impl Shown for Sensitivity {
    fn shown(&self) -> Option<Value> {
        Some(self.name().into())
    }
}
