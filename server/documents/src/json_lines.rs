//! JSON Lines: each object is a record, with its values as lines of `path: value`.
//!
//! A line that is not JSON is left out and reported; reading continues after the line.

use serde_json::Value;

use super::document::{Document, lines};
use super::format::Format;
use super::records::{Records, say};
use recalld_common::counted::{agreed, counted};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Levels of nesting with a path of their own; deeper values are shown as JSON.
    const DEPTH_MAX: usize = 16;
    /// Values of one record.
    const VALUES_MAX: usize = 1_000;
    /// Characters of a path to a value.
    const PATH_CHARS_MAX: usize = 200;
    /// Numbers of broken lines that are listed; further ones are only counted.
    const TOLD_MAX: usize = 20;
}

/// Objects at the start by which a file is recognised as JSON Lines.
const SEEN_MIN: usize = 2;

/// Returns true if `start` looks like JSON Lines. If the name claims the format, one object among the first lines is
/// enough; otherwise the first `SEEN_MIN` lines must be objects.
pub(super) fn looks_so(start: &str, is_named: bool) -> bool {
    let mut seen = 0;
    for line in start.lines().filter(|line| !line.trim().is_empty()) {
        if seen == SEEN_MIN {
            break;
        }
        // If the name claims JSON Lines, broken lines may precede the objects.
        match serde_json::from_str::<Value>(line.trim()) {
            Ok(Value::Object(_)) => seen += 1,
            _ if is_named => {}
            _ => return false,
        }
    }
    // The first line may be longer than the inspected bytes.
    let is_long = seen == 0 && !start.contains('\n') && start.trim_start().starts_with('{');
    if is_named { seen > 0 || is_long } else { seen >= SEEN_MIN }
}

/// Reads JSON Lines; `None` if a line is not JSON and no line gives a record.
pub(super) fn read(source: &str) -> Option<Document> {
    let mut records = Records::new(source, "Line");
    let (mut broken, mut first_broken) = (0_u64, Vec::new());
    for range in lines(source) {
        let line = source[range.clone()].trim();
        if line.is_empty() {
            continue;
        }
        let number = u64::from(records.line_at(range.start));
        let Ok(value) = serde_json::from_str::<Value>(line) else {
            broken += 1;
            if first_broken.len() < TOLD_MAX {
                first_broken.push(number.to_string());
            }
            continue;
        };
        let mut record = Record::default();
        record.add(&mut String::new(), &value, 0);
        if !records.add(number, range, &record.said) {
            break;
        }
    }
    if records.is_empty() && broken > 0 {
        return None;
    }
    let mut lost = Vec::new();
    if broken > 0 {
        let more = if broken > TOLD_MAX as u64 { " and more" } else { "" };
        let told = first_broken.join(", ");
        lost.push(format!(
            "{} left out, which {} no JSON: {told}{more}",
            counted(broken, "line"),
            agreed(broken, "is", "are")
        ));
    }
    Some(records.finish(Format::JsonLines, lost))
}

/// The lines of one record.
#[derive(Default)]
struct Record {
    said: String,
    values: usize,
}

impl Record {
    /// Adds the value at `path`. Recursion ends at `DEPTH_MAX`.
    fn add(&mut self, path: &mut String, value: &Value, depth: usize) {
        if self.values >= VALUES_MAX {
            return;
        }
        match value {
            Value::Null => {}
            Value::Object(fields) if depth < DEPTH_MAX => {
                for (name, inner) in fields {
                    let dot = if path.is_empty() { "" } else { "." };
                    self.below(path, &format!("{dot}{name}"), inner, depth);
                }
            }
            Value::Array(all) if depth < DEPTH_MAX && all.iter().any(is_nested) => {
                for (at, inner) in all.iter().enumerate() {
                    self.below(path, &format!("[{at}]"), inner, depth);
                }
            }
            Value::Array(all) if depth < DEPTH_MAX => {
                let all: Vec<String> = all.iter().map(plain).collect();
                self.say(path, &all.join(", "));
            }
            other => self.say(path, &plain(other)),
        }
    }

    fn below(&mut self, path: &mut String, step: &str, inner: &Value, depth: usize) {
        let length = path.len();
        path.extend(step.chars().take(PATH_CHARS_MAX.saturating_sub(length)));
        self.add(path, inner, depth + 1);
        path.truncate(length);
    }

    fn say(&mut self, path: &str, value: &str) {
        self.values += 1;
        say(&mut self.said, path, value);
    }
}

fn is_nested(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// Returns a string unquoted, and any other value as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_named_by_their_path() {
        let source = "{\"a\":{\"b\":[1,2],\"c\":null},\"d\":[{\"e\":\"x\\ny\"}],\"f\":true}\n";
        let document = read(source).unwrap();
        assert_eq!(document.text, "a.b: 1, 2\nd[0].e: x y\nf: true\n\n");
        assert_eq!(document.sections[0].heading_path, ["Line 1"]);
    }

    #[test]
    fn broken_lines_are_told_once() {
        let document = read("{\"a\":1}\n{\"a\":\n\nnot json\n{\"a\":2}\n").unwrap();
        assert_eq!(document.text, "a: 1\n\na: 2\n\n");
        let lost = document.lost.unwrap();
        assert_eq!(lost, "2 lines left out, which are no JSON: 2, 4");
        assert_eq!(document.notes, [lost]);
        assert!(read("{\"a\":\n").is_none());
    }

    #[test]
    fn what_lies_deep_is_shown_as_json_or_left_out() {
        let nest = |levels: usize| "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels) + "\n";
        let document = read(&nest(20)).unwrap();
        assert!(document.text.starts_with("a.a.") && document.text.contains("{\"a\":"));
        let document = read(&format!("{}{}", nest(1), nest(5_000))).unwrap();
        assert!(document.lost.unwrap().ends_with(": 2"));
    }

    #[test]
    fn a_file_is_known_by_its_lines() {
        assert!(looks_so("{\"a\":1}\n{\"b\":2}\n", false));
        assert!(!looks_so("{\"a\":1}\n", false), "one object is JSON, too");
        assert!(!looks_so("{\"a\":1}\nwords\n", false));
        assert!(looks_so("{\"a\":1}\n", true) && looks_so("x\n{\"a\":1}\n", true));
        assert!(!looks_so("x\n", true));
    }
}
