//! Conversions of pydantic's lax mode: `"5"`, `5.0` and `true` to integers, `"yes"` and `1` to booleans.
//!
//! Each type has one function, which returns the value or the kind of error.

use super::json::Json;
use super::problem::Kind;
use super::text;

/// Digits of the longest integer that pydantic reads from text.
const INT_DIGITS_MAX: usize = 4300;
/// 2^63, the first float beyond `i64`.
const I64_END: f64 = 9_223_372_036_854_775_808.0;

const TRUE_WORDS: [&str; 6] = ["1", "on", "t", "true", "y", "yes"];
const FALSE_WORDS: [&str; 6] = ["0", "off", "f", "false", "n", "no"];

/// An integer: exact if it fits, else only its sign, which is enough for a bounds check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Exact(i64),
    Below,
    Above,
}

/// Accepts text only. A lone surrogate, which Rust strings cannot represent, becomes U+FFFD.
pub(super) fn to_text(value: &Json) -> Result<String, Kind> {
    match value {
        Json::Text(text) => Ok(text::to_string(text).into_owned()),
        _ => Err(Kind::StringType),
    }
}

/// Accepts `true`, 1, 1.0, or a word for true in any case, and their opposites.
pub(super) fn to_flag(value: &Json) -> Result<bool, Kind> {
    let number = match value {
        Json::Bool(flag) => return Ok(*flag),
        Json::Text(text) => return word(text),
        Json::Int(digits) => whole(digits),
        Json::Float(float) => whole_float(*float).map_err(|_| Kind::BoolType)?,
        Json::Null | Json::List(_) | Json::Object(_) => return Err(Kind::BoolType),
    };
    match number {
        Whole::Exact(0) => Ok(false),
        Whole::Exact(1) => Ok(true),
        Whole::Exact(_) => Err(Kind::BoolParsing),
        Whole::Below | Whole::Above => Err(Kind::BoolType),
    }
}

fn word(text: &[u8]) -> Result<bool, Kind> {
    let text = std::str::from_utf8(text).map_err(|_| Kind::StringUnicode)?;
    let is = |word: &&str| word.eq_ignore_ascii_case(text);
    if TRUE_WORDS.iter().any(is) {
        Ok(true)
    } else if FALSE_WORDS.iter().any(is) {
        Ok(false)
    } else {
        Err(Kind::BoolParsing)
    }
}

/// Accepts an integer, an integral float, a boolean, or an integer in text.
pub(super) fn to_whole(value: &Json) -> Result<Whole, Kind> {
    match value {
        Json::Bool(flag) => Ok(Whole::Exact(i64::from(*flag))),
        Json::Int(digits) => Ok(whole(digits)),
        Json::Float(float) => whole_float(*float),
        Json::Text(text) => whole_text(std::str::from_utf8(text).map_err(|_| Kind::StringUnicode)?),
        Json::Null | Json::List(_) | Json::Object(_) => Err(Kind::IntType),
    }
}

/// Reads digits with an optional `-`, and nothing else.
fn whole(digits: &str) -> Whole {
    match digits.parse() {
        Ok(exact) => Whole::Exact(exact),
        Err(_) if digits.starts_with('-') => Whole::Below,
        Err(_) => Whole::Above,
    }
}

fn whole_float(float: f64) -> Result<Whole, Kind> {
    if !float.is_finite() {
        Err(Kind::FiniteNumber)
    } else if float.fract() != 0.0 {
        Err(Kind::IntFromFloat)
    } else if -I64_END < float && float < I64_END {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and between the ends of i64")]
        let exact = float as i64;
        Ok(Whole::Exact(exact))
    } else {
        Err(Kind::IntParsingSize)
    }
}

/// Reads an integer in text: surrounding spaces, a sign, leading zeros, single underscores between digits, a trailing
/// `.000`. Odd results (`0-5` is -5) are those of pydantic.
fn whole_text(text: &str) -> Result<Whole, Kind> {
    let text = text.trim();
    if has_too_many_digits(text) {
        return Err(Kind::IntParsingSize);
    }
    let digits = clean(text).ok_or(Kind::IntParsing)?;
    if digits.trim_start_matches('-').len() > INT_DIGITS_MAX {
        return Err(Kind::IntParsing);
    }
    Ok(whole(&digits))
}

/// Returns true if the leading plain digits exceed the limit, regardless of later characters.
fn has_too_many_digits(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.starts_with('0')
        && digits.bytes().take_while(u8::is_ascii_digit).count() > INT_DIGITS_MAX
}

/// Returns the digits of `text`, with a `-` if negative; `None` if `text` is not an integer.
fn clean(text: &str) -> Option<String> {
    let (mut negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let body = match unsigned.split_once('.') {
        Some((_, zeros)) if zeros.is_empty() || zeros.bytes().any(|byte| byte != b'0') => {
            return None;
        }
        Some((body, _)) => body,
        None => unsigned,
    };
    let mut digits = body;
    if body.starts_with('0') {
        digits = body.trim_start_matches(['0', '_']);
        if digits.is_empty() {
            return body.ends_with('0').then(|| "0".into());
        }
        if let Some(after) = digits.strip_prefix('-').filter(|_| !negative) {
            negative = true;
            digits = after.strip_prefix('_').unwrap_or(after);
            let leading_zero = digits.trim_start_matches('_').starts_with('0');
            if leading_zero && digits.len() > 1 {
                return None;
            }
        }
    }
    if digits.starts_with('_') || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    let plain: String = digits.chars().filter(|&c| c != '_').collect();
    let whole = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit());
    whole.then(|| if negative { format!("-{plain}") } else { plain })
}
