//! The body of a request being received, and its body decision.
//!
//! Supports framing by length and by chunks; must not know connections or services. A small body is read without a body
//! decision. A larger body, or a body whose client waits for `100 Continue`, needs a body decision of the service.
//! `unasked` returns the size to decide on, and `grant` sets the accepted size.

use super::chunked::Chunked;
use super::config::Limits;
use super::http::{Fault, Framing};
use super::render::Exchange;
use crate::limits::BODY_BYTES_SMALL;

/// A body being received, with its exchange.
pub(super) struct Gathering {
    /// The properties of the request that determine its response.
    pub exchange: Exchange,
    /// The client waits for `100 Continue`, and the body decision is pending.
    waits: bool,
    body: Vec<u8>,
    reader: Reader,
}

enum Reader {
    Length { left: usize, granted: usize },
    Chunked(Chunked),
}

impl Gathering {
    /// Creates an empty body; `None` if the request has no body. `waits`: the client waits for `100 Continue`.
    pub(super) fn of(
        framing: Framing,
        exchange: Exchange,
        waits: bool,
        limits: &Limits,
    ) -> Option<Gathering> {
        let reader = match framing {
            Framing::Length(0) => return None,
            Framing::Length(left) => Reader::Length { left, granted: BODY_BYTES_SMALL },
            Framing::Chunked => {
                Reader::Chunked(Chunked::new(limits.body_bytes_max, BODY_BYTES_SMALL))
            }
        };
        // Memory grows with the received bytes: announcing megabytes allocates nothing.
        Some(Gathering { exchange, waits, body: Vec::new(), reader })
    }

    /// Known size of the body, if a body decision is needed. No byte is read until `grant`.
    pub(super) fn unasked(&self) -> Option<usize> {
        match &self.reader {
            Reader::Length { left, granted } => {
                let length = self.body.len() + left;
                (self.waits || length > *granted).then_some(length)
            }
            Reader::Chunked(chunked) => {
                let held = chunked.held().map(|chunk| self.body.len() + chunk);
                held.or(self.waits.then_some(0))
            }
        }
    }

    /// Accepts a body of `bytes_max`. Returns true if `100 Continue` must be sent now, or `Err` if the body is larger
    /// than accepted.
    pub(super) fn grant(&mut self, bytes_max: usize) -> Result<bool, Fault> {
        let waits = std::mem::take(&mut self.waits);
        match &mut self.reader {
            Reader::Length { granted, .. } => *granted = bytes_max,
            Reader::Chunked(chunked) => chunked.grant(bytes_max, self.body.len()),
        }
        if self.unasked().is_some() { Err(Fault::body_too_large()) } else { Ok(waits) }
    }

    /// Reads body bytes and returns the number of bytes consumed.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        match &mut self.reader {
            Reader::Length { left, .. } => {
                let used = bytes.len().min(*left);
                self.body.extend_from_slice(&bytes[..used]);
                *left -= used;
                Ok(used)
            }
            Reader::Chunked(chunked) => chunked.read(bytes, &mut self.body),
        }
    }

    /// Returns true if the last byte of the body was read.
    pub(super) fn is_whole(&self) -> bool {
        match &self.reader {
            Reader::Length { left, .. } => *left == 0,
            Reader::Chunked(chunked) => chunked.is_done(),
        }
    }

    /// Bytes received so far.
    pub(super) fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns the complete body.
    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }
}
