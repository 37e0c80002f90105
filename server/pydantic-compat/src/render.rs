//! Renders errors as the bytes that Starlette's `JSONResponse` sends: Python's `json.dumps` without spaces, unescaped
//! text, floats in Python's notation.
//!
//! For values on which Python fails (a non-finite number, a lone surrogate), the output is `null` and U+FFFD.

use super::json::Json;
use super::problem::{Context, Place, Problem};
use super::text;

/// Prefix of keys that FastAPI omits from the echoed input, because an object mapper (SQLAlchemy) adds them.
const HIDDEN_PREFIX: &[u8] = b"_sa";
/// Python writes an exponent from this power of ten on, and below `EXPONENT_BELOW`.
const EXPONENT_FROM: i32 = 16;
const EXPONENT_BELOW: i32 = -4;

/// Renders the complete response.
pub(super) fn answer(problems: &[Problem]) -> Vec<u8> {
    let mut out = String::from("{\"detail\":[");
    for (i, problem) in problems.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        one(&mut out, problem);
    }
    out.push_str("]}");
    out.into_bytes()
}

fn one(out: &mut String, problem: &Problem) {
    out.push_str("{\"type\":");
    string(out, problem.kind.name());
    out.push_str(",\"loc\":[\"body\"");
    match problem.place {
        Place::Body => {}
        Place::At(at) => out.push_str(&format!(",{at}")),
        Place::Field(name) => {
            out.push(',');
            string(out, name);
        }
    }
    out.push_str("],\"msg\":");
    string(out, &problem.kind.message());
    out.push_str(",\"input\":");
    value(out, &problem.input);
    match problem.kind.context() {
        None => {}
        Some(Context::Bound(name, bound)) => {
            out.push_str(&format!(",\"ctx\":{{\"{name}\":{bound}}}"))
        }
        Some(Context::Error(message)) => {
            out.push_str(",\"ctx\":{\"error\":");
            string(out, message);
            out.push('}');
        }
    }
    out.push('}');
}

/// Renders one value; the parser's `DEPTH_MAX` bounds the recursion.
fn value(out: &mut String, json: &Json) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Json::Int(digits) => out.push_str(digits),
        Json::Float(number) => float(out, *number),
        Json::Text(text) => string(out, &text::to_string(text)),
        Json::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                value(out, item);
            }
            out.push(']');
        }
        Json::Object(entries) => {
            out.push('{');
            let shown = entries.iter().filter(|(key, _)| !key.starts_with(HIDDEN_PREFIX));
            for (i, (key, inner)) in shown.enumerate() {
                if i > 0 {
                    out.push(',');
                }
                string(out, &text::to_string(key));
                out.push(':');
                value(out, inner);
            }
            out.push('}');
        }
    }
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0C}' => out.push_str("\\f"),
            '\0'..='\u{1F}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// Renders a float like Python's `repr`: the shortest digits that read back equal, always with a point or an exponent.
/// The exponent is signed and has at least two digits.
fn float(out: &mut String, number: f64) {
    if !number.is_finite() {
        return out.push_str("null");
    }
    let shortest = format!("{number:e}");
    let (digits, exponent) = parts(&shortest);
    let after_first = digits.bytes().filter(u8::is_ascii_digit).count() - 1;
    if !(EXPONENT_BELOW..EXPONENT_FROM).contains(&exponent) {
        let even = even_or(format!("{number:.after_first$e}"), shortest, number);
        let (digits, exponent) = parts(&even);
        let sign = if exponent < 0 { '-' } else { '+' };
        return out.push_str(&format!("{digits}e{sign}{:02}", exponent.abs()));
    }
    let after_first = i32::try_from(after_first).expect("17 digits at most");
    let decimals = usize::try_from(after_first - exponent).unwrap_or(0);
    let plain = even_or(format!("{number:.decimals$}"), number.to_string(), number);
    out.push_str(&plain);
    if !plain.contains('.') {
        out.push_str(".0");
    }
}

/// Splits the output of `{:e}` into digits and exponent.
fn parts(written: &str) -> (&str, i32) {
    let (digits, exponent) = written.split_once('e').expect("`{:e}` writes an exponent");
    (digits, exponent.parse().expect("`{:e}` writes a whole exponent"))
}

/// Returns `even` if it reads back as `number`, else `shortest`. If two shortest representations are equally near
/// (700867944314236.25), Rust rounds up and Python rounds to the even digit.
fn even_or(even: String, shortest: String, number: f64) -> String {
    if even.parse() == Ok(number) { even } else { shortest }
}
