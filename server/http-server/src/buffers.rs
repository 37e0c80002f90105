//! What a connection has received and not read, and what it has said and not sent.
//!
//! Knows bytes only. Both give their memory back when they are empty, because most connections are
//! idle most of the time; how much they may hold is the state machine's to say.

use std::collections::VecDeque;

/// Bytes received and not yet read. Reading moves a mark; the buffer is compacted when more comes, so
/// many small requests in one buffer are not moved once each.
#[derive(Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
}

impl Inbox {
    /// Adds what has arrived.
    pub(super) fn push(&mut self, more: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(more);
    }

    /// Forgets the first `count` bytes, which have been read.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.bytes.len(), "no more is read than there is");
        if self.start == self.bytes.len() {
            *self = Inbox::default();
        }
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The same, for a reader that works in place.
    pub(super) fn rest_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// Bytes of memory that are held for it.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// How many bytes have not been read.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether all has been read.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes to send, in the buffers they were made in. A usual answer is one buffer and costs no queue.
#[derive(Default)]
pub(super) struct Outbox {
    /// The buffer that is being sent; empty when there is nothing to send.
    first: Vec<u8>,
    /// Those behind it.
    more: VecDeque<Vec<u8>>,
    /// Bytes of the first buffer that are sent.
    sent: usize,
    /// Bytes of memory that all buffers hold: each until its last byte is sent.
    held: usize,
}

impl Outbox {
    /// Adds a buffer; an empty one adds nothing.
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

    /// Forgets the first `count` bytes of `next`, which have been sent.
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

    /// The bytes to send next; none when all is sent.
    pub(super) fn next(&self) -> &[u8] {
        &self.first[self.sent..]
    }

    /// Bytes of memory that are held for what is not sent. More than what is not sent: a buffer goes as
    /// a whole.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Whether all is sent.
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
