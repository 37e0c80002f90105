//! The body of a request as it arrives, and how much of it may come unasked.
//!
//! Knows framing by length and by chunks; must not know connections or services. A body that is small
//! is simply taken. Before a larger one, and before one whose client waits to be told to go on, the
//! service has to be asked: `unasked` says so, and `grant` brings its answer.

use super::chunked::Chunked;
use super::config::Limits;
use super::http::{Fault, Framing};
use super::render::Exchange;
use crate::limits::BODY_BYTES_SMALL;

/// A body that is being read, and the exchange that it belongs to.
pub(super) struct Gathering {
    /// What its answer is shaped by.
    pub exchange: Exchange,
    /// The client waits for `100 Continue`, and nobody has said yet whether it may go on.
    waits: bool,
    body: Vec<u8>,
    reader: Reader,
}

enum Reader {
    Length { left: usize, granted: usize },
    Chunked(Chunked),
}

impl Gathering {
    /// A body of which nothing has been read; `None` where there is none. `waits`: its client wants to be
    /// told to go on.
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
        // The body grows with what arrives: announcing megabytes costs us nothing.
        Some(Gathering { exchange, waits, body: Vec::new(), reader })
    }

    /// How long the body is to be, as far as that is known, where the service has to be asked about it.
    /// Nothing more is read until `grant`.
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

    /// The body may have `bytes_max`. Says whether the client now has to be told to go on; `Err` where it
    /// is longer than that.
    pub(super) fn grant(&mut self, bytes_max: usize) -> Result<bool, Fault> {
        let waits = std::mem::take(&mut self.waits);
        match &mut self.reader {
            Reader::Length { granted, .. } => *granted = bytes_max,
            Reader::Chunked(chunked) => chunked.grant(bytes_max, self.body.len()),
        }
        if self.unasked().is_some() { Err(Fault::body_too_large()) } else { Ok(waits) }
    }

    /// Reads on, and gives how many bytes were used.
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

    /// Whether the last byte has been read.
    pub(super) fn is_whole(&self) -> bool {
        match &self.reader {
            Reader::Length { left, .. } => *left == 0,
            Reader::Chunked(chunked) => chunked.is_done(),
        }
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> usize {
        self.body.len()
    }

    /// The body, whole.
    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }
}
