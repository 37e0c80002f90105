//! Reader of TOML tables key by key: unknown keys are rejected, and each value is validated when read.
//!
//! Defines the errors and the quoting of texts. Independent of the meaning of any key.

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

    /// Maximum length of a key's text in bytes, unless a key has a smaller limit.
    pub const TEXT_BYTES_MAX: usize = 4_096;
}

/// Error in a file of settings or rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFault {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The file is not TOML.
    Syntax {
        /// Position of the error.
        place: Place,
        /// The parser's message.
        why: String,
    },
    /// A key or its value is invalid.
    Key {
        /// Position of the value, of the unknown key, or of the table that lacks the key; `None` if not located.
        place: Option<Place>,
        /// The fault of the key.
        fault: KeyFault,
    },
    /// A value from outside the file is invalid.
    Given {
        /// The flag or the environment variable with the value.
        by: String,
        /// The fault of the key.
        fault: KeyFault,
    },
}

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Place {
    /// Returns the position of the byte offset `at`.
    fn at(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let last = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
        Self { line, column: last.chars().count() + 1 }
    }

    /// Returns the position of a key, if present.
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

/// The part of a dotted key that is present in a text.
struct Found {
    /// Byte offset of the innermost name found.
    key: usize,
    /// Byte offset of its value.
    value: usize,
    /// True if the whole key is present.
    is_all: bool,
    /// True if the value is a table; a table has no position of its own.
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
    /// Adds the position in the text: of a wrong value, else of the key or of the innermost of its tables that is
    /// present.
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

/// Fault of a key. Each variant contains the key with its tables: `oauth.key_prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyFault {
    /// The key is unknown. Its value is not repeated, because the value may be a misplaced secret.
    Unknown {
        /// The key.
        key: String,
        /// The known key with the most similar name.
        nearest: Option<String>,
        /// The known keys.
        known: String,
    },
    /// The value is not allowed.
    Value {
        /// The key.
        key: String,
        /// The given value.
        given: String,
        /// The allowed values.
        allowed: String,
    },
    /// A required key is missing.
    Missing {
        /// The key.
        key: String,
        /// The allowed values.
        allowed: String,
    },
}

impl KeyFault {
    /// The key with its tables.
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

/// Reads a file of at most `bytes_max` bytes.
///
/// # Errors
/// The file is missing, not a regular file, too long, or not UTF-8.
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

/// A table with the keys that it may contain.
#[derive(Debug)]
pub struct Keys {
    path: String,
    table: Table,
    known: Vec<&'static str>,
}

impl Keys {
    /// Parses a file and returns its root table.
    pub fn parse(text: &str) -> Result<Self, FileFault> {
        Ok(Self::of(Self::table_of(text)?))
    }

    /// Parses a file without checking keys.
    pub fn table_of(text: &str) -> Result<Table, FileFault> {
        text.parse().map_err(|error: toml::de::Error| {
            let span = error.span().unwrap_or(text.len()..text.len());
            let place = Place::at(text, span.start);
            // Typical cause: a section appended to a file that already contains it, as the example file contains all
            // sections.
            let twice = error.message().starts_with("duplicate key");
            let why = match text.get(span).filter(|key| twice && !key.is_empty()) {
                Some(key) => format!("`{key}` is there twice; put the two together"),
                None => error.message().lines().collect::<Vec<_>>().join("; "),
            };
            FileFault::Syntax { place, why }
        })
    }

    /// Wraps a root table.
    pub fn of(table: Table) -> Self {
        Self::new(String::new(), table)
    }

    fn new(path: String, table: Table) -> Self {
        Self { path, table, known: Vec::new() }
    }

    /// Prefixes a key with its tables.
    pub(crate) fn named(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Adds a name for this table to all further errors.
    pub fn name(&mut self, name: &str) {
        self.path = format!("{} {:?}", self.path, cut(name));
    }

    /// Builds the fault of a wrong value.
    pub fn fault(&self, key: &str, given: &str, allowed: impl Into<String>) -> KeyFault {
        let given = format!("{:?}", cut(given));
        KeyFault::Value { key: self.named(key), given, allowed: allowed.into() }
    }

    /// Builds the fault of a missing key.
    pub fn missing(&self, key: &str, allowed: impl Into<String>) -> KeyFault {
        KeyFault::Missing { key: self.named(key), allowed: allowed.into() }
    }

    /// Returns true if the table has keys that were not read yet.
    pub fn has_more(&self) -> bool {
        !self.table.is_empty()
    }

    /// Returns true if a key is present and was not read yet.
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

    /// Reads a text of 1 to `bytes_max` bytes without control characters.
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

    /// Reads a list of at most `count_max` texts, each as in [`Self::text`].
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

    /// Reads an integer in a range.
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

    /// Reads an integer in a range, or the word [`NONE`] as `Some(None)`.
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

    /// Reads `true` or `false`.
    pub fn flag(&mut self, key: &'static str) -> Result<Option<bool>, KeyFault> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(flag)),
            Some(other) => self.wrong(key, &other, "true or false"),
        }
    }

    /// Reads a time with an offset (RFC 3339), as a TOML datetime or as a text.
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

    /// Reads one word of a fixed set.
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

    /// Reads a list of distinct words of a fixed set.
    pub fn words<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Result<Option<Vec<T>>, KeyFault> {
        // At most one occurrence of each word, so a longer list is rejected.
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

    /// Reads a nested table; returns an empty one if the key is absent.
    pub fn table(&mut self, key: &'static str) -> Result<Keys, KeyFault> {
        match self.take(key) {
            None => Ok(Self::new(self.named(key), Table::new())),
            Some(Value::Table(table)) => Ok(Self::new(self.named(key), table)),
            Some(other) => self.wrong(key, &other, format!("a table, [{}]", self.named(key))),
        }
    }

    /// Reads a list of tables, named by their index from 0.
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

    /// Returns the tables under names chosen by the file, ordered by name.
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

    /// Rejects keys that were not read.
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

/// Word for "no limit".
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

/// Describes the allowed words, for an error.
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

/// Quotes a text as a TOML basic string.
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

/// Formats texts as a TOML array.
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
