//! The corpus of hostile requests, read from `tests/hostile/`; its README describes the file format.
//!
//! This module parses the files with the standard library only, because the server's own tests include it as well. The
//! module MUST NOT depend on how a case runs.

use std::fs;
use std::path::Path;

/// A step of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sends bytes, after replacing the names in them.
    Send(Text),
    /// The client half-closes.
    HalfClose,
    /// A response is expected.
    Answer(Wanted),
}

/// Text to send, as written in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(String);

/// An expected response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Expected status.
    pub status: u16,
    /// True for a response to HEAD, which has no body.
    pub is_head: bool,
    /// Text that the head or the body must contain.
    pub text: String,
}

/// A request sequence of the corpus.
#[derive(Debug, Clone)]
pub struct Case {
    /// File and name of the case.
    pub name: String,
    /// Listener of the case: `local`, `hosted`, or empty for both.
    pub listener: String,
    /// Steps in order.
    pub steps: Vec<Step>,
    /// True if the connection closes at the end; otherwise it stays usable.
    pub closes: bool,
}

/// Values of the names in a case.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Address of the listener.
    pub host: String,
    /// Credential of the operator.
    pub bearer: String,
    /// Session ids of earlier responses, in order.
    pub sessions: Vec<String>,
}

/// Reads all cases of all files.
///
/// # Panics
/// A file does not follow the format of the README.
pub fn cases(folder: &Path) -> Vec<Case> {
    let entries = fs::read_dir(folder).expect("the corpus is there");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files.iter().flat_map(|path| of_file(path)).collect()
}

fn of_file(path: &Path) -> Vec<Case> {
    let file = path.file_stem().and_then(|stem| stem.to_str()).expect("files have plain names");
    let text = fs::read_to_string(path).expect("a file of the corpus is text");
    let mut listener = String::new();
    let mut cases: Vec<Case> = Vec::new();
    let mut reading = Reading::default();
    for (number, line) in text.lines().enumerate() {
        let at = || format!("{}:{}: {line}", path.display(), number + 1);
        if let Some(name) = line.strip_prefix("= ") {
            assert!(reading.is_over, "{}: the case before has no end", at());
            reading = Reading { is_over: false, ..Reading::default() };
            let (name, listener) = (format!("{file}: {name}"), listener.clone());
            cases.push(Case { name, listener, steps: Vec::new(), closes: false });
        } else if let Some(on) = line.strip_prefix("on: ") {
            on.clone_into(&mut listener);
        } else if !line.is_empty() && !line.starts_with('#') {
            let case =
                cases.last_mut().filter(|_| !reading.is_over).unwrap_or_else(|| panic!("{}", at()));
            reading.line(case, line).unwrap_or_else(|| panic!("{}: not understood", at()));
        }
    }
    assert!(reading.is_over, "{}: the last case has no end", path.display());
    cases
}

/// State of parsing a case.
struct Reading {
    fields: Vec<String>,
    is_over: bool,
}

impl Default for Reading {
    fn default() -> Self {
        Self { fields: Vec::new(), is_over: true }
    }
}

impl Reading {
    fn line(&mut self, case: &mut Case, line: &str) -> Option<()> {
        let (kind, rest) = line.split_at(1);
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        match (kind, rest) {
            (">", _) => push(case, &format!("{rest}\\r\\n")),
            ("|", _) => push(case, rest),
            ("&", _) => self.fields.push(rest.to_owned()),
            ("*", _) => push(case, &self.post(rest)),
            ("+", "half-close") => case.steps.push(Step::HalfClose),
            ("<", "close") => (self.is_over, case.closes) = (true, true),
            ("<", "open") => self.is_over = true,
            ("<", _) => case.steps.push(Step::Answer(wanted(rest)?)),
            _ => return None,
        }
        Some(())
    }

    /// Makes a POST of a body to `/mcp`, with the fields collected for it.
    fn post(&mut self, body: &str) -> String {
        let mut fields = std::mem::take(&mut self.fields);
        for usual in
            ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
        {
            let name = usual.split(':').next().unwrap_or_default();
            if !fields.iter().any(|field| field.starts_with(name)) {
                fields.push(usual.to_owned());
            }
        }
        // A body contains no names, so its length is known here.
        let length = Text(body.to_owned()).bytes(&Names::default()).len();
        let fields: String = fields.iter().map(|field| format!("{field}\\r\\n")).collect();
        format!(
            "POST /mcp HTTP/1.1\\r\\nHost: {{host}}\\r\\n{fields}Content-Length: {length}\\r\\n\\r\\n{body}"
        )
    }
}

fn push(case: &mut Case, text: &str) {
    match case.steps.last_mut() {
        Some(Step::Send(before)) => before.0.push_str(text),
        _ => case.steps.push(Step::Send(Text(text.to_owned()))),
    }
}

fn wanted(text: &str) -> Option<Wanted> {
    let (is_head, text) = text.strip_prefix("HEAD ").map_or((false, text), |rest| (true, rest));
    let (status, text) = text.split_once(' ').unwrap_or((text, ""));
    Some(Wanted { status: status.parse().ok()?, is_head, text: text.to_owned() })
}

impl Text {
    /// Returns the bytes: names are replaced first, then repetitions, then escapes.
    ///
    /// # Panics
    /// An escape is invalid.
    pub fn bytes(&self, names: &Names) -> Vec<u8> {
        let mut text = self.0.replace("{host}", &names.host).replace("{bearer}", &names.bearer);
        for (number, session) in names.sessions.iter().enumerate() {
            text = text.replace(&format!("{{session{}}}", number + 1), session);
        }
        unescaped(&repeated(&text))
    }
}

/// Expands every `{N*TEXT}` in the text.
fn repeated(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let times = after.split_once('*').and_then(|(times, after)| {
            let (what, after) = after.split_once('}')?;
            Some((times.parse::<usize>().ok()?, what, after))
        });
        match times {
            Some((times, what, after)) => {
                out.push_str(&what.repeat(times));
                rest = after;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out + rest
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next() {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let value = digit().zip(digit()).map(|(high, low)| high * 16 + low);
                value.and_then(|value| u8::try_from(value).ok()).expect("two digits behind \\x")
            }
            other => panic!("an escape of {other:?}"),
        });
    }
    out
}
