//! Line-by-line reading of data set files, with errors that name file and line.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use recalld_interchange::lines::LINE_BYTES_MAX;

/// The error of an unusable data set.
#[derive(Debug)]
pub struct DatasetError {
    file: PathBuf,
    /// Line number, from 1.
    line: Option<u64>,
    why: String,
}

impl DatasetError {
    pub(super) fn of(file: &Path, why: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), line: None, why: why.to_string() }
    }

    pub(super) fn at(file: &Path, line: u64, why: impl fmt::Display) -> Self {
        Self { line: Some(line), ..Self::of(file, why) }
    }
}

impl fmt::Display for DatasetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.why)
    }
}

impl std::error::Error for DatasetError {}

/// Passes each non-empty line with its number to `sink`, until `sink` returns an error.
pub(super) fn each(
    file: &Path,
    lines_max: u64,
    mut sink: impl FnMut(u64, &str) -> Result<(), String>,
) -> Result<(), DatasetError> {
    let opened = File::open(file).map_err(|error| DatasetError::of(file, error))?;
    let mut reader = BufReader::new(opened);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let wrong = |why: String| DatasetError::at(file, number, why);
        let read = next_line(&mut reader, &mut line);
        match read.map_err(|error| wrong(error.to_string()))? {
            0 => break,
            bytes if bytes > LINE_BYTES_MAX => {
                return Err(wrong(format!("is longer than {LINE_BYTES_MAX} bytes")));
            }
            _ if number > lines_max => return Err(wrong(format!("only {lines_max} are read"))),
            _ => {}
        }
        let text = std::str::from_utf8(&line).map_err(|error| wrong(error.to_string()))?;
        let text = text.trim_end_matches(['\n', '\r']);
        if !text.is_empty() {
            sink(number, text).map_err(wrong)?;
        }
    }
    Ok(())
}

/// Reads one line with its newline. For a line above the limit, reads one byte more than the limit.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    reader.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', line)
}

/// As [`each`], for lines of JSON objects.
pub(super) fn each_object(
    file: &Path,
    lines_max: u64,
    mut sink: impl FnMut(&Value) -> Result<(), String>,
) -> Result<(), DatasetError> {
    each(file, lines_max, |_, text| {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if value.is_object() { sink(&value) } else { Err("is not a JSON object".to_owned()) }
    })
}

/// Converts a non-empty string or an integer to a name.
pub(super) fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) if number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

/// The first present field of `fields`, as a name.
pub(super) fn name_of(object: &Value, fields: [&str; 2]) -> Result<String, String> {
    let found = fields.iter().find_map(|field| object.get(field));
    found.and_then(name).ok_or_else(|| format!("has no `{}` that is a name", fields[0]))
}

/// A text field; empty if absent or null.
pub(super) fn text_of<'a>(object: &'a Value, field: &str) -> Result<&'a str, String> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("`{field}` is not a text")),
    }
}
