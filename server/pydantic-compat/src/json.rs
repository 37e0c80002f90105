//! Reads JSON like Python's `json.loads`: NaN and Infinity, integers of any size, lone surrogates, and the last of two
//! equal keys. Error messages and positions are those of CPython 3.11 (`_json.c`).

use std::collections::HashMap;

use super::text::{self, Wtf8};

/// Maximum nesting depth. Python stops at its recursion limit, part of which the framework has used. Reading and
/// rendering at this depth uses less than 512 KiB of stack, a quarter of a thread's default.
const DEPTH_MAX: usize = 900;
/// Digits of the longest integer that Python reads (`sys.int_info.default_max_str_digits`).
const INT_DIGITS_MAX: usize = 4300;

const EXPECTING_VALUE: &str = "Expecting value";
const EXPECTING_NAME: &str = "Expecting property name enclosed in double quotes";
const EXPECTING_COLON: &str = "Expecting ':' delimiter";
const EXPECTING_COMMA: &str = "Expecting ',' delimiter";
const EXTRA_DATA: &str = "Extra data";
const UNTERMINATED: &str = "Unterminated string starting at";
const CONTROL: &str = "Invalid control character at";
const BAD_ESCAPE: &str = "Invalid \\escape";
const BAD_UNICODE_ESCAPE: &str = "Invalid \\uXXXX escape";

/// Bytes of the digits in a `\u` escape, and of the whole escape.
const HEX_DIGITS: usize = 4;
const ESCAPE_BYTES: usize = 6;

/// A JSON value, lossless.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// Digits, with a leading `-` for a negative number.
    Int(String),
    Float(f64),
    Text(Wtf8),
    List(Vec<Json>),
    Object(Vec<(Wtf8, Json)>),
}

/// The reason for which a body is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A syntax error, `at` code points from the start.
    Syntax { at: usize, message: &'static str },
    /// Not text, nested too deeply, or with a number of too many digits.
    Other,
}

/// Reads a whole body as one value.
pub(super) fn parse(body: &[u8]) -> Result<Json, Unreadable> {
    let text = text::decode(body).ok_or(Unreadable::Other)?;
    let mut reader = Reader { text: &text, at: 0, depth: 0 };
    reader.space();
    let value = reader.value()?;
    reader.space();
    if reader.at < text.len() {
        return Err(reader.wrong(EXTRA_DATA, reader.at));
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Returns a syntax error at a byte, with the position in code points.
    fn wrong(&self, message: &'static str, byte: usize) -> Unreadable {
        Unreadable::Syntax { at: text::length(&self.text[..byte]), message }
    }

    fn value(&mut self) -> Result<Json, Unreadable> {
        match self.peek() {
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::list),
            _ => self.plain(),
        }
    }

    /// Reads a literal word or a number. A function of its own, so that nested calls do not hold its stack frame.
    fn plain(&mut self) -> Result<Json, Unreadable> {
        const WORDS: [(&str, Json); 6] = [
            ("null", Json::Null),
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
            ("NaN", Json::Float(f64::NAN)),
            ("Infinity", Json::Float(f64::INFINITY)),
            ("-Infinity", Json::Float(f64::NEG_INFINITY)),
        ];
        let rest = &self.text[self.at..];
        if let Some((word, value)) =
            WORDS.into_iter().find(|(word, _)| rest.starts_with(word.as_bytes()))
        {
            self.at += word.len();
            return Ok(value);
        }
        self.number()
    }

    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Json, Unreadable>,
    ) -> Result<Json, Unreadable> {
        if self.depth == DEPTH_MAX {
            return Err(Unreadable::Other);
        }
        self.depth += 1;
        self.at += 1;
        self.space();
        let value = read(self)?;
        self.at += 1;
        self.depth -= 1;
        Ok(value)
    }

    /// Reads the entries up to the closing brace.
    fn object(&mut self) -> Result<Json, Unreadable> {
        let mut entries: Vec<(Wtf8, Json)> = Vec::new();
        let mut places: HashMap<Wtf8, usize> = HashMap::new();
        if self.peek() == Some(b'}') {
            return Ok(Json::Object(entries));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.wrong(EXPECTING_NAME, self.at));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.wrong(EXPECTING_COLON, self.at));
            }
            self.at += 1;
            self.space();
            let value = self.value()?;
            // The last value of equal keys wins, at the position of the first.
            match places.get(&key) {
                Some(&place) => entries[place].1 = value,
                None => {
                    places.insert(key.clone(), entries.len());
                    entries.push((key, value));
                }
            }
            if self.ends(b'}')? {
                return Ok(Json::Object(entries));
            }
        }
    }

    /// Reads the elements up to the closing bracket.
    fn list(&mut self) -> Result<Json, Unreadable> {
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value()?);
            if self.ends(b']')? {
                return Ok(Json::List(items));
            }
        }
    }

    /// Returns true if `close` is next; otherwise consumes the required comma.
    fn ends(&mut self, close: u8) -> Result<bool, Unreadable> {
        self.space();
        match self.peek() {
            Some(byte) if byte == close => Ok(true),
            Some(b',') => {
                self.at += 1;
                self.space();
                Ok(false)
            }
            _ => Err(self.wrong(EXPECTING_COMMA, self.at)),
        }
    }

    /// Reads a number as far as it is valid: `1.` is 1, followed by extra data.
    fn number(&mut self) -> Result<Json, Unreadable> {
        let digits_from =
            |at: usize| self.text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let start = self.at;
        let first = start + usize::from(self.peek() == Some(b'-'));
        let whole = match self.text.get(first) {
            Some(b'0') => 1,
            _ => digits_from(first),
        };
        if whole == 0 {
            return Err(self.wrong(EXPECTING_VALUE, start));
        }
        let mut end = first + whole;
        if self.text.get(end) == Some(&b'.') {
            let fraction = digits_from(end + 1);
            end += if fraction > 0 { 1 + fraction } else { 0 };
        }
        if let Some(b'e' | b'E') = self.text.get(end) {
            let sign = usize::from(matches!(self.text.get(end + 1), Some(b'+' | b'-')));
            let exponent =
                self.text.get(end + 1 + sign..).map_or(0, |_| digits_from(end + 1 + sign));
            end += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
        self.at = end;
        let digits =
            std::str::from_utf8(&self.text[start..end]).expect("only ASCII was passed above");
        if end > first + whole {
            return Ok(Json::Float(digits.parse().expect("Rust reads every number of JSON")));
        }
        match digits {
            "-0" => Ok(Json::Int("0".into())),
            _ if whole > INT_DIGITS_MAX => Err(Unreadable::Other),
            _ => Ok(Json::Int(digits.into())),
        }
    }

    /// Reads a string, from its opening quote to past its closing quote.
    fn string(&mut self) -> Result<Wtf8, Unreadable> {
        let begin = self.at;
        self.at += 1;
        let mut out = Wtf8::new();
        loop {
            let plain = &self.text[self.at..];
            let run = plain.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20);
            let Some(run) = run else { return Err(self.wrong(UNTERMINATED, begin)) };
            out.extend_from_slice(&plain[..run]);
            self.at += run;
            match plain[run] {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => self.escape(begin, &mut out)?,
                _ => return Err(self.wrong(CONTROL, self.at)),
            }
        }
    }

    /// Reads one escape, or two that are a surrogate pair; `self.at` is at the backslash.
    fn escape(&mut self, begin: usize, out: &mut Wtf8) -> Result<(), Unreadable> {
        let plain = match self.text.get(self.at + 1) {
            None => return Err(self.wrong(UNTERMINATED, begin)),
            Some(b'u') => return self.unicode_escape(out),
            Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(_) => return Err(self.wrong(BAD_ESCAPE, self.at)),
        };
        out.push(plain);
        self.at += 2;
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut Wtf8) -> Result<(), Unreadable> {
        let high = self.hex(self.at)?;
        self.at += ESCAPE_BYTES;
        if (0xD800..0xDC00).contains(&high) && self.text[self.at..].starts_with(b"\\u") {
            let low = self.hex(self.at)?;
            if (0xDC00..0xE000).contains(&low) {
                self.at += ESCAPE_BYTES;
                text::push(out, 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00));
                return Ok(());
            }
        }
        text::push(out, high);
        Ok(())
    }

    /// Returns the code unit of the `\uXXXX` at `at`. The four digits must be followed by at least one byte, such as
    /// the closing quote.
    fn hex(&self, at: usize) -> Result<u32, Unreadable> {
        let digits = self
            .text
            .get(at + 2..at + 2 + HEX_DIGITS)
            .filter(|_| at + ESCAPE_BYTES < self.text.len());
        let code = digits.and_then(|digits| {
            digits
                .iter()
                .try_fold(0, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?))
        });
        code.ok_or_else(|| self.wrong(BAD_UNICODE_ESCAPE, at + 1))
    }
}
