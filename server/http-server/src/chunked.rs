//! Incremental, strict decoder of a chunked request body (RFC 9112, section 7.1).
//!
//! The result does not depend on how the input is split. A lenient decoder enables request smuggling. Every line must
//! end with CRLF, a size is hexadecimal digits only, and whitespace around a size is rejected.

use super::http::Fault;
use crate::limits::{CHUNK_EXTENSION_BYTES_MAX, CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX};
use recalld_common::target::hex;

/// More digits, leading zeros included, than any size below the body limit needs.
const SIZE_DIGITS_MAX: usize = 16;

/// Decoder of one chunked body.
#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    body_bytes_max: usize,
    /// Body length up to which no body decision is needed.
    granted: usize,
    line_bytes: usize,
    extension_bytes: usize,
    trailer_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size {
        value: usize,
        digits: usize,
    },
    Extension {
        value: usize,
    },
    SizeEnd {
        value: usize,
    },
    /// A chunk that would exceed `granted` was announced.
    Held {
        value: usize,
    },
    Data {
        left: usize,
    },
    DataCr,
    DataEnd,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerEnd,
    LastEnd,
    Done,
}

impl Chunked {
    /// Creates a decoder for a body of at most `body_bytes_max`. Decoding stops before a chunk that would exceed
    /// `granted`.
    pub(super) fn new(body_bytes_max: usize, granted: usize) -> Chunked {
        Chunked {
            state: State::Size { value: 0, digits: 0 },
            body_bytes_max,
            granted,
            line_bytes: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
        }
    }

    /// Returns true if the last byte of the body was decoded.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Size of the chunk that waits for `grant`.
    pub(super) fn held(&self) -> Option<usize> {
        match self.state {
            State::Held { value } => Some(value),
            _ => None,
        }
    }

    /// Raises the accepted body length to `granted`; `body_bytes` were decoded so far. A chunk that exceeds the new
    /// length too keeps waiting.
    pub(super) fn grant(&mut self, granted: usize, body_bytes: usize) {
        self.granted = granted;
        if let State::Held { value } = self.state
            && value <= granted.saturating_sub(body_bytes)
        {
            self.state = State::Data { left: value };
        }
    }

    /// Decodes from `input`, appends to `body` and returns the number of bytes consumed. Stops before a chunk that
    /// waits for `grant` and after the end of the body; later bytes belong to the next request.
    pub(super) fn read(&mut self, input: &[u8], body: &mut Vec<u8>) -> Result<usize, Fault> {
        let mut used = 0;
        while let Some(byte) = input.get(used).copied() {
            if let State::Data { left } = self.state {
                let piece = &input[used..input.len().min(used + left)];
                body.extend_from_slice(piece);
                used += piece.len();
                let left = left - piece.len();
                self.state = if left == 0 { State::DataCr } else { State::Data { left } };
                continue;
            }
            if self.is_done() || self.held().is_some() {
                break;
            }
            self.state = self.next(byte, body.len())?;
            used += 1;
        }
        Ok(used)
    }

    /// Returns the state after the framing byte `byte`.
    fn next(&mut self, byte: u8, body_bytes: usize) -> Result<State, Fault> {
        match self.state {
            State::Size { value, digits } => self.size(byte, value, digits),
            State::Extension { value } => match byte {
                b'\r' => Ok(State::SizeEnd { value }),
                b'\t' | b' '..=b'~' => {
                    self.count_extension()?;
                    Ok(State::Extension { value })
                }
                _ => Err(Fault::bad("odd byte in a chunk extension")),
            },
            State::SizeEnd { value } => {
                expect(byte, b'\n', "chunk size line without its line feed")?;
                self.line_bytes = 0;
                if value > self.body_bytes_max - body_bytes {
                    return Err(Fault::body_too_large());
                }
                Ok(match value {
                    0 => State::TrailerStart,
                    _ if value > self.granted.saturating_sub(body_bytes) => State::Held { value },
                    _ => State::Data { left: value },
                })
            }
            State::DataCr => {
                expect(byte, b'\r', "chunk data longer than its size")?;
                Ok(State::DataEnd)
            }
            State::DataEnd => {
                expect(byte, b'\n', "chunk data without its line feed")?;
                Ok(State::Size { value: 0, digits: 0 })
            }
            State::LastEnd => {
                expect(byte, b'\n', "chunked body without its last line feed")?;
                Ok(State::Done)
            }
            _ => self.trailer(byte),
        }
    }

    fn size(&mut self, byte: u8, value: usize, digits: usize) -> Result<State, Fault> {
        match byte {
            b'\r' if digits > 0 => Ok(State::SizeEnd { value }),
            b';' if digits > 0 => {
                self.line_bytes = digits;
                self.count_extension()?;
                Ok(State::Extension { value })
            }
            _ => {
                let digit = hex(byte).ok_or(Fault::bad("odd chunk size"))?;
                if digits == SIZE_DIGITS_MAX {
                    return Err(Fault::bad("chunk size with too many digits"));
                }
                let value = value.saturating_mul(16).saturating_add(usize::from(digit));
                Ok(State::Size { value, digits: digits + 1 })
            }
        }
    }

    fn count_extension(&mut self) -> Result<(), Fault> {
        self.line_bytes += 1;
        self.extension_bytes += 1;
        if self.line_bytes > CHUNK_LINE_BYTES_MAX
            || self.extension_bytes > CHUNK_EXTENSION_BYTES_MAX
        {
            return Err(Fault::bad("chunk extensions too long"));
        }
        Ok(())
    }

    /// Trailer fields must match the grammar of header fields, and are discarded.
    fn trailer(&mut self, byte: u8) -> Result<State, Fault> {
        if self.state == State::TrailerStart && byte == b'\r' {
            return Ok(State::LastEnd);
        }
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(Fault::head_too_large("trailer fields"));
        }
        match (self.state, byte) {
            (State::TrailerEnd, b'\n') => Ok(State::TrailerStart),
            (State::TrailerStart | State::TrailerName, byte) if is_token(byte) => {
                Ok(State::TrailerName)
            }
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerValue, b'\r') => Ok(State::TrailerEnd),
            (State::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => Ok(State::TrailerValue),
            _ => Err(Fault::bad("odd trailer field")),
        }
    }
}

fn expect(byte: u8, wanted: u8, otherwise: &'static str) -> Result<(), Fault> {
    if byte == wanted { Ok(()) } else { Err(Fault::bad(otherwise)) }
}

/// Returns true if `byte` is allowed in a token (RFC 9110, section 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `input` in two pieces, split at `at`.
    fn decode(input: &[u8], at: usize) -> Result<(Vec<u8>, usize, bool), Fault> {
        let mut decoder = Chunked::new(100, 100);
        let mut body = Vec::new();
        let used = decoder.read(&input[..at], &mut body)?;
        if used < at {
            return Ok((body, used, decoder.is_done()));
        }
        let more = decoder.read(&input[at..], &mut body)?;
        Ok((body, at + more, decoder.is_done()))
    }

    #[test]
    fn every_split_gives_the_same_body() {
        let input =
            b"5\r\nhello\r\n0A;name=\"v\"\r\n, world...\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\nGET /";
        for at in 0..=input.len() {
            let (body, used, done) = decode(input, at).unwrap();
            assert_eq!(body, b"hello, world...", "split at {at}");
            assert_eq!((used, done), (input.len() - 5, true), "split at {at}");
        }
    }

    #[test]
    fn an_unfinished_body_is_not_done() {
        let input = b"5\r\nhello\r\n0\r\n\r";
        assert_eq!(decode(input, 3).unwrap(), (b"hello".to_vec(), input.len(), false));
    }

    #[test]
    fn wrong_framing_is_refused_at_every_split() {
        let long_extension = format!("1;{}\r\nx\r\n", "e".repeat(CHUNK_LINE_BYTES_MAX));
        let long_trailer = format!("0\r\nX: {}\r\n\r\n", "v".repeat(TRAILER_BYTES_MAX));
        let many_extensions = format!("1;{}\r\nx\r\n", "e".repeat(200)).repeat(21);
        let cases: &[(&[u8], u16)] = &[
            (b"\r\n", 400),
            (b";x\r\n", 400),
            (b"g\r\n", 400),
            (b"-1\r\n", 400),
            (b"+1\r\n", 400),
            (b"0x1\r\nx\r\n", 400),
            (b" 1\r\nx\r\n", 400),
            (b"1 \r\nx\r\n", 400),
            (b"1 ;e\r\nx\r\n", 400),
            (b"1\nx\r\n", 400),
            (b"1\r\r\nx\r\n", 400),
            (b"1\r\nxy\r\n", 400),
            (b"1\r\nx\n", 400),
            (b"1\r\nx\rx", 400),
            (b"1;a\nb\r\nx\r\n", 400),
            (b"1;\x00\r\nx\r\n", 400),
            (b"00000000000000001\r\nx\r\n", 400),
            (b"65\r\n", 413),
            (b"ffffffffffffffff\r\n", 413),
            (b"0\r\n bad: 1\r\n\r\n", 400),
            (b"0\r\nbad : 1\r\n\r\n", 400),
            (b"0\r\nbad\r\n\r\n", 400),
            (b"0\r\n: v\r\n\r\n", 400),
            (b"0\r\nX: v\n\r\n", 400),
            (b"0\r\n\n", 400),
            (b"0\r\n\rx", 400),
            (long_extension.as_bytes(), 400),
            (many_extensions.as_bytes(), 400),
            (long_trailer.as_bytes(), 431),
        ];
        for (input, status) in cases {
            let text = String::from_utf8_lossy(input);
            for at in 0..=input.len() {
                let fault = decode(input, at).expect_err(&text);
                assert_eq!(fault.status, *status, "{text:?} split at {at}: {}", fault.detail);
            }
        }
    }

    #[test]
    fn a_chunk_beyond_what_is_granted_is_held_at_its_size_line() {
        let input = b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n";
        let held_at = b"3\r\nabc\r\n3\r\n".len();
        for at in 0..=input.len() {
            let (mut decoder, mut body) = (Chunked::new(100, 5), Vec::new());
            let mut used = decoder.read(&input[..at], &mut body).unwrap();
            used += decoder.read(&input[used..], &mut body).unwrap();
            assert_eq!((used, decoder.held(), body.len()), (held_at, Some(3), 3), "cut at {at}");
            decoder.grant(5, body.len());
            assert_eq!(decoder.held(), Some(3));
            decoder.grant(6, body.len());
            used += decoder.read(&input[used..], &mut body).unwrap();
            assert_eq!((used, decoder.is_done(), &body[..]), (input.len(), true, &b"abcdef"[..]));
        }
    }

    #[test]
    fn the_cap_counts_all_chunks() {
        let mut input = b"32\r\n".to_vec();
        input.extend([b'x'; 50]);
        input.extend(b"\r\n33\r\n");
        assert_eq!(decode(&input, 0).unwrap_err().status, 413);
        let end = input.len() - 3;
        input[end] = b'2';
        assert!(decode(&input, 0).is_ok());
    }
}
