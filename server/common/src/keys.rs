//! Tables of a TOML file, read key by key: each key is known or refused, each value checked where it is taken.
//!
//! Owns the errors, and how texts are written back. Must not know what any key means.

use std::fmt;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use crate::nearest::{cut, nearest};
use crate::regular_file;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Longest text of one key, in bytes, where nothing shorter is asked for.
    pub const TEXT_BYTES_MAX: usize = 4_096;
}

/// What is wrong with a file of settings or of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFault {
    /// It cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It is not TOML.
    Syntax {
        /// Where.
        place: Place,
        /// What the parser says.
        why: String,
    },
    /// A key or its value is wrong.
    Key {
        /// Where the value is, the unknown key, or the table that lacks one; where it was looked for and found.
        place: Option<Place>,
        /// How.
        fault: KeyFault,
    },
    /// The same of a value that does not stand in the file.
    Given {
        /// The flag or the environment variable that it stands in.
        by: String,
        /// How.
        fault: KeyFault,
    },
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Place {
    /// That of the byte `at`.
    fn at(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let last = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
        Self { line, column: last.chars().count() + 1 }
    }

    /// That of a key that is there.
    pub fn of(text: &str, key: &str) -> Option<Self> {
        let found = Found::of(text, key);
        found.filter(|found| found.is_all).map(|found| Self::at(text, found.key))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// What a text has of a key: as many of its names as there are.
struct Found {
    /// Where the innermost name is.
    key: usize,
    /// Where its value is.
    value: usize,
    /// Whether all of the key is there.
    is_all: bool,
    /// Whether the value is a table, which has no place of its own.
    is_table: bool,
}

impl Found {
    fn of(text: &str, key: &str) -> Option<Self> {
        let whole = DeTable::parse(text).ok()?;
        let mut table = whole.get_ref();
        let mut found: Option<Self> = None;
        let mut names = key.split('.').peekable();
        while let Some(name) = names.next() {
            let Some((at, value)) = table.get_key_value(name) else { break };
            let is_all = names.peek().is_none();
            let inner = match value.get_ref() {
                DeValue::Table(inner) => Some(inner),
                _ => None,
            };
            let (key, value) = (at.span().start, value.span().start);
            found = Some(Self { key, value, is_all, is_table: inner.is_some() });
            let Some(inner) = inner else { break };
            table = inner;
        }
        found
    }
}

impl FileFault {
    /// With its place in the text: a wrong value's own, else that of the key, or of the innermost of its tables that
    /// is there.
    pub fn placed(self, text: &str) -> Self {
        match self {
            Self::Key { place: None, fault } => {
                let is_value = matches!(fault, KeyFault::Value { .. });
                let found = Found::of(text, fault.key());
                let at = found.map(|it| if is_value && !it.is_table { it.value } else { it.key });
                Self::Key { place: at.map(|at| Place::at(text, at)), fault }
            }
            other => other,
        }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => write!(f, "{}: {why}", path.display()),
            Self::Syntax { place, why } => write!(f, "{place}: not TOML: {why}"),
            Self::Key { place: Some(place), fault } => write!(f, "{place}: {fault}"),
            Self::Key { place: None, fault } => fault.fmt(f),
            Self::Given { by, fault } => write!(f, "{by}: {fault}"),
        }
    }
}

impl std::error::Error for FileFault {}

impl From<KeyFault> for FileFault {
    fn from(fault: KeyFault) -> Self {
        Self::Key { place: None, fault }
    }
}

/// What is wrong with a key. Each names it with the tables that it stands in: `oauth.key_prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyFault {
    /// There is no such key. What it was given is not repeated: it may be a secret in the wrong place.
    Unknown {
        /// The key.
        key: String,
        /// The one that was probably meant.
        nearest: Option<String>,
        /// Those that there are.
        known: String,
    },
    /// Its value is not one of those allowed.
    Value {
        /// The key.
        key: String,
        /// What it is.
        given: String,
        /// What it may be.
        allowed: String,
    },
    /// It has to be there.
    Missing {
        /// The key.
        key: String,
        /// What it may be.
        allowed: String,
    },
}

impl KeyFault {
    /// The key, with the tables that it stands in.
    pub fn key(&self) -> &str {
        match self {
            Self::Unknown { key, .. } | Self::Value { key, .. } | Self::Missing { key, .. } => key,
        }
    }
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key, nearest: Some(nearest), .. } => {
                write!(f, "there is no key `{key}`; did you mean `{nearest}`?")
            }
            Self::Unknown { key, nearest: None, known } => {
                write!(f, "there is no key `{key}`; allowed here: {known}")
            }
            Self::Value { key, given, allowed } => {
                write!(f, "`{key}` is {given}; allowed: {allowed}")
            }
            Self::Missing { key, allowed } => write!(f, "`{key}` is missing; give {allowed}"),
        }
    }
}

/// The text of a file that has at most so many bytes.
///
/// # Errors
/// It is not there, is no file, is longer, or is not UTF-8.
pub fn text_of(path: &Path, bytes_max: usize) -> Result<String, FileFault> {
    let fault = |why: String| FileFault::Unreadable { path: path.to_owned(), why };
    let file = regular_file::open(path).map_err(|error| fault(error.to_string()))?;
    let file = file.ok_or_else(|| fault("it is not a file".to_owned()))?;
    let mut bytes = Vec::new();
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(|error| fault(error.to_string()))?;
    if bytes.len() > bytes_max {
        return Err(fault(format!("it has more than {bytes_max} bytes, which is the most")));
    }
    String::from_utf8(bytes).map_err(|_| fault("it is not UTF-8".to_owned()))
}

/// A table, and which keys it may have.
#[derive(Debug)]
pub struct Keys {
    path: String,
    table: Table,
    known: Vec<&'static str>,
}

impl Keys {
    /// The outermost table of a file.
    pub fn parse(text: &str) -> Result<Self, FileFault> {
        Ok(Self::of(Self::table_of(text)?))
    }

    /// The same, not yet looked into.
    pub fn table_of(text: &str) -> Result<Table, FileFault> {
        text.parse().map_err(|error: toml::de::Error| {
            let span = error.span().unwrap_or(text.len()..text.len());
            let place = Place::at(text, span.start);
            // A section that is put at the end of a file that has it already, as the example has all of them.
            let twice = error.message().starts_with("duplicate key");
            let why = match text.get(span).filter(|key| twice && !key.is_empty()) {
                Some(key) => format!("`{key}` is there twice; put the two together"),
                None => error.message().lines().collect::<Vec<_>>().join("; "),
            };
            FileFault::Syntax { place, why }
        })
    }

    /// An outermost table.
    pub fn of(table: Table) -> Self {
        Self::new(String::new(), table)
    }

    fn new(path: String, table: Table) -> Self {
        Self { path, table, known: Vec::new() }
    }

    /// A key with the tables that it stands in.
    pub(crate) fn named(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// From here on errors name this table so, too.
    pub fn name(&mut self, name: &str) {
        self.path = format!("{} {:?}", self.path, cut(name));
    }

    /// That the value of a key is wrong.
    pub fn fault(&self, key: &str, given: &str, allowed: impl Into<String>) -> KeyFault {
        let given = format!("{:?}", cut(given));
        KeyFault::Value { key: self.named(key), given, allowed: allowed.into() }
    }

    /// That a key has to be there.
    pub fn missing(&self, key: &str, allowed: impl Into<String>) -> KeyFault {
        KeyFault::Missing { key: self.named(key), allowed: allowed.into() }
    }

    /// Whether any key is there that was not taken yet.
    pub fn has_more(&self) -> bool {
        !self.table.is_empty()
    }

    /// Whether a key is there and was not taken yet.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    fn wrong<T>(
        &self,
        key: &str,
        value: &Value,
        allowed: impl Into<String>,
    ) -> Result<T, KeyFault> {
        let key = self.named(key);
        Err(KeyFault::Value { key, given: shown(value), allowed: allowed.into() })
    }

    /// A text of 1 to so many bytes, without control characters.
    pub fn text(
        &mut self,
        key: &'static str,
        bytes_max: usize,
    ) -> Result<Option<String>, KeyFault> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) if is_sound(&text, bytes_max) => Ok(Some(text)),
            Some(other) => self.wrong(key, &other, sound(bytes_max)),
        }
    }

    /// At most so many texts, each as above.
    pub fn texts(
        &mut self,
        key: &'static str,
        count_max: usize,
        bytes_max: usize,
    ) -> Result<Option<Vec<String>>, KeyFault> {
        let allowed = || format!("a list of at most {count_max}, each {}", sound(bytes_max));
        let Some(value) = self.take(key) else { return Ok(None) };
        let Value::Array(values) = value else { return self.wrong(key, &value, allowed()) };
        if values.len() > count_max {
            let given = format!("a list of {}", values.len());
            return Err(KeyFault::Value { key: self.named(key), given, allowed: allowed() });
        }
        let text = |value: Value| match value {
            Value::String(text) if is_sound(&text, bytes_max) => Ok(text),
            other => self.wrong(key, &other, allowed()),
        };
        values.into_iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// A whole number.
    pub fn whole(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, KeyFault> {
        let allowed = || format!("a whole number, {} to {}", range.start(), range.end());
        let Some(value) = self.take(key) else { return Ok(None) };
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => self.wrong(key, &value, allowed()),
        }
    }

    /// A whole number, or the word for none: `Some(None)`.
    pub fn whole_or_none(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<Option<u64>>, KeyFault> {
        if self.table.get(key).and_then(Value::as_str) == Some(NONE) {
            self.take(key);
            return Ok(Some(None));
        }
        let allowed =
            format!("a whole number, {} to {}, or \"{NONE}\"", range.start(), range.end());
        let found = self.whole(key, range).map_err(|fault| match fault {
            KeyFault::Value { key, given, .. } => KeyFault::Value { key, given, allowed },
            other => other,
        });
        Ok(found?.map(Some))
    }

    /// `true` or `false`.
    pub fn flag(&mut self, key: &'static str) -> Result<Option<bool>, KeyFault> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(flag)),
            Some(other) => self.wrong(key, &other, "true or false"),
        }
    }

    /// A time with its offset (RFC 3339), bare or as a text.
    pub fn time(&mut self, key: &'static str) -> Result<Option<jiff::Timestamp>, KeyFault> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let text = match &value {
            Value::Datetime(time) => time.to_string(),
            Value::String(text) => text.clone(),
            _ => String::new(),
        };
        match text.parse() {
            Ok(time) => Ok(Some(time)),
            Err(_) => {
                self.wrong(key, &value, "a time with its offset, such as 2026-11-09T00:00:00Z")
            }
        }
    }

    /// One of the things that have a word each.
    pub fn word<T: Copy>(
        &mut self,
        key: &'static str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>, KeyFault> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let text = value.as_str().unwrap_or_default();
        match all.iter().copied().find(|one| word(*one) == text) {
            Some(one) => Ok(Some(one)),
            None => self.wrong(key, &value, one_of(text, &words_of(all, word))),
        }
    }

    /// A list of such, none of them twice.
    pub fn words<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Result<Option<Vec<T>>, KeyFault> {
        // Each at most once, and one more to tell that there are too many.
        let Some(texts) = self.texts(key, all.len(), TEXT_BYTES_MAX)? else { return Ok(None) };
        let mut found = Vec::with_capacity(texts.len());
        for text in texts {
            let Some(one) = all.iter().copied().find(|one| word(*one) == text) else {
                let allowed = one_of(&text, &words_of(all, word));
                return Err(self.fault(key, &text, allowed));
            };
            if found.contains(&one) {
                return Err(self.fault(key, &text, "each name once"));
            }
            found.push(one);
        }
        Ok(Some(found))
    }

    /// A table within this one; an empty one where it is not there.
    pub fn table(&mut self, key: &'static str) -> Result<Keys, KeyFault> {
        match self.take(key) {
            None => Ok(Self::new(self.named(key), Table::new())),
            Some(Value::Table(table)) => Ok(Self::new(self.named(key), table)),
            Some(other) => self.wrong(key, &other, format!("a table, [{}]", self.named(key))),
        }
    }

    /// A list of tables, named by their places from 0.
    pub fn tables(&mut self, key: &'static str) -> Result<Vec<Keys>, KeyFault> {
        let allowed = format!("tables, each beginning with [[{}]]", self.named(key));
        let Some(value) = self.take(key) else { return Ok(Vec::new()) };
        let Value::Array(values) = value else { return self.wrong(key, &value, allowed) };
        let one = |(place, value): (usize, Value)| match value {
            Value::Table(table) => Ok(Self::new(format!("{}[{place}]", self.named(key)), table)),
            other => self.wrong(key, &other, allowed.clone()),
        };
        values.into_iter().enumerate().map(one).collect()
    }

    /// Tables under names that the file chooses, in order of these.
    pub fn named_tables(self) -> Result<Vec<(String, Keys)>, KeyFault> {
        let one = |(name, value): (String, Value)| match value {
            Value::Table(table) => {
                let path = self.named(&name);
                Ok((name, Self::new(path, table)))
            }
            other => self.wrong(&name, &other, format!("a table, [{}]", self.named(&name))),
        };
        self.table.clone().into_iter().map(one).collect()
    }

    /// All keys that there may be were taken: any other is refused.
    pub fn finish(self) -> Result<(), KeyFault> {
        let Some(key) = self.table.keys().next() else { return Ok(()) };
        let known = self.known.iter().copied();
        Err(KeyFault::Unknown {
            key: self.named(&cut(key)),
            nearest: nearest(key, known).map(|near| self.named(near)),
            known: self.known.join(", "),
        })
    }
}

/// The word for what is not bounded.
pub const NONE: &str = "none";

fn is_sound(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control)
}

fn sound(bytes_max: usize) -> String {
    format!("a text of 1 to {bytes_max} bytes without control characters")
}

fn words_of<T: Copy>(all: &[T], word: impl Fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().map(|one| word(*one)).collect()
}

/// What else a word may be.
pub fn one_of(given: &str, all: &[&str]) -> String {
    match nearest(given, all.iter().copied()) {
        Some(near) => format!("{}; did you mean \"{near}\"?", all.join(", ")),
        None => all.join(", "),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", cut(text)),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(_) => "a list".to_owned(),
        Value::Table(_) => "a table".to_owned(),
    }
}

/// A text as a file has it: a basic string of TOML.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            char if char.is_control() => out.push_str(&format!("\\U{:08X}", u32::from(char))),
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

/// Texts as a list of TOML.
pub fn quoted_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quoted).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str, take: impl Fn(&mut Keys) -> Result<(), KeyFault>) -> String {
        let mut keys = Keys::parse(text).unwrap();
        let taken = take(&mut keys);
        taken.and_then(|()| keys.finish()).map_or_else(|fault| fault.to_string(), |()| "ok".into())
    }

    #[test]
    fn errors_name_the_key_what_it_is_and_what_is_allowed() {
        let whole = |keys: &mut Keys| keys.whole("seconds", 60..=100).map(|_| ());
        assert_eq!(said("seconds = 60", whole), "ok");
        for (text, wanted) in [
            ("seconds = 59", "`seconds` is 59; allowed: a whole number, 60 to 100"),
            ("seconds = -1", "`seconds` is -1; allowed: a whole number, 60 to 100"),
            ("seconds = 60.5", "`seconds` is 60.5; allowed: a whole number, 60 to 100"),
            ("seconds = \"60\"", "`seconds` is \"60\"; allowed: a whole number, 60 to 100"),
            ("second = 60", "there is no key `second`; did you mean `seconds`?"),
            ("other = 60", "there is no key `other`; allowed here: seconds"),
        ] {
            assert_eq!(said(text, whole), wanted);
        }
        let within = |keys: &mut Keys| {
            let mut inner = keys.table("inner")?;
            inner.word("mode", &[true, false], |on| if on { "on" } else { "off" })?;
            inner.finish()
        };
        assert_eq!(said("inner.mode = \"on\"", within), "ok");
        let wanted = "`inner.mode` is \"onn\"; allowed: on, off; did you mean \"on\"?";
        assert_eq!(said("inner.mode = \"onn\"", within), wanted);
        assert_eq!(said("inner = 5", within), "`inner` is 5; allowed: a table, [inner]");
        let wanted = "there is no key `inner.mod`; did you mean `inner.mode`?";
        assert_eq!(said("inner.mod = \"hunter2\"", within), wanted);
    }

    #[test]
    fn what_is_not_toml_is_said_with_its_line() {
        let fault = Keys::parse("a = 1\nb = \n").unwrap_err();
        assert!(matches!(fault, FileFault::Syntax { place: Place { line: 2, .. }, .. }), "{fault}");
        let twice = Keys::parse("a = 1\n\na = 2\n").unwrap_err();
        assert!(
            matches!(twice, FileFault::Syntax { place: Place { line: 3, column: 1 }, .. }),
            "{twice}"
        );
        let twice = Keys::parse("[a]\nb = 1\n\n[a]\nc = 2\n").unwrap_err().to_string();
        assert_eq!(twice, "line 4, column 2: not TOML: `a` is there twice; put the two together");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn texts_are_written_so_that_they_are_read_again(text in any::<String>()) {
            let table: Table = format!("key = {}", quoted(&text)).parse().unwrap();
            prop_assert_eq!(table.get("key").and_then(Value::as_str), Some(text.as_str()));
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _either = Keys::parse(&text);
        }
    }
}
