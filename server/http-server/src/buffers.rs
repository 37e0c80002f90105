//! Buffers of one connection for received and for unsent bytes.
//!
//! Both free their memory when empty, because most connections are idle most of the time. The state machine in `conn`
//! enforces their size limits.

use std::collections::VecDeque;

/// Bytes received and not yet parsed. Consuming only advances an offset; the next `push` compacts the buffer, so many
/// small pipelined requests are not each moved.
#[derive(Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
}

impl Inbox {
    pub(super) fn push(&mut self, more: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(more);
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.bytes.len(), "no more is read than there is");
        if self.start == self.bytes.len() {
            *self = Inbox::default();
        }
    }

    /// The unparsed bytes.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The unparsed bytes, for in-place TLS decryption.
    pub(super) fn rest_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// Allocated memory in bytes.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Number of unparsed bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes to send, in the buffers in which they were encoded. A typical response is one buffer and uses no queue.
#[derive(Default)]
pub(super) struct Outbox {
    /// The buffer being sent; empty if nothing is to be sent.
    first: Vec<u8>,
    /// The buffers after `first`.
    more: VecDeque<Vec<u8>>,
    /// Bytes of `first` already sent.
    sent: usize,
    /// Allocated memory of all buffers in bytes; a buffer counts until its last byte is sent.
    held: usize,
}

impl Outbox {
    /// Appends a buffer; an empty buffer is dropped.
    pub(super) fn push(&mut self, buffer: Vec<u8>) {
        if buffer.is_empty() {
            return;
        }
        self.held += buffer.capacity();
        if self.first.is_empty() {
            self.first = buffer;
        } else {
            self.more.push_back(buffer);
        }
    }

    /// Discards the first `count` bytes of `next`, which were sent.
    pub(super) fn consume(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.first.len(), "no more is sent than was given");
        if self.sent == self.first.len() {
            self.sent = 0;
            self.held -= self.first.capacity();
            self.first = self.more.pop_front().unwrap_or_default();
            if self.more.is_empty() {
                self.more = VecDeque::new();
            }
        }
    }

    /// The bytes to send next; empty if all bytes are sent.
    pub(super) fn next(&self) -> &[u8] {
        &self.first[self.sent..]
    }

    /// Allocated memory in bytes. Exceeds the unsent bytes, because a buffer is freed as a whole.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inbox_reads_on_across_pieces_and_gives_its_memory_back() {
        let mut inbox = Inbox::default();
        inbox.push(b"abc");
        inbox.consume(2);
        inbox.push(b"de");
        assert_eq!((inbox.rest(), inbox.len()), (&b"cde"[..], 3));
        inbox.consume(3);
        assert_eq!((inbox.is_empty(), inbox.held()), (true, 0));
    }

    #[test]
    fn an_outbox_sends_buffers_in_order() {
        let mut outbox = Outbox::default();
        [&b"ab"[..], b"", b"c"].into_iter().for_each(|buffer| outbox.push(buffer.to_vec()));
        outbox.consume(1);
        assert_eq!(outbox.next(), b"b");
        outbox.consume(1);
        assert_eq!(outbox.next(), b"c");
        outbox.consume(1);
        assert!(outbox.is_empty() && outbox.next().is_empty());
        assert_eq!(outbox.held(), 0);
        assert_eq!((outbox.first.capacity(), outbox.more.capacity()), (0, 0));
    }

    #[test]
    fn what_is_held_counts_whole_until_it_is_let_go() {
        let mut outbox = Outbox::default();
        outbox.push(vec![b'x'; 1000]);
        let mut roomy = Vec::with_capacity(300);
        roomy.push(b'y');
        outbox.push(roomy);
        assert_eq!(outbox.held(), 1300);
        outbox.consume(999);
        assert_eq!(outbox.held(), 1300, "all but the last byte is sent and nothing is free");
        outbox.consume(1);
        assert_eq!(outbox.held(), 300);
        let mut inbox = Inbox::default();
        inbox.push(&[0; 1000]);
        inbox.consume(999);
        assert_eq!((inbox.len(), inbox.held()), (1, 1000));
    }
}
