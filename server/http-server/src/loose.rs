//! A stream without a connection, for tests of code that sends by a [`StreamSender`].

use std::net::IpAddr;
use std::sync::Arc;

use mio::{Poll, Token, Waker};

use super::config::{Limits, ListenerId};
use super::mailbox::{Mailbox, Note};
use super::places::Room;
use super::reply::{Feed, Reply, StreamSender};
use super::slots::Name;
use super::sse;
use crate::limits::STREAM_BACKLOG_BYTES_MAX;
use recalld_common::request_id::RequestId;

/// The reader's end of the stream. Dropping the reader simulates a disconnect.
pub struct Loose {
    feed: Arc<Feed>,
    /// Keeps the poll alive that the mailbox wakes.
    _poll: Poll,
}

impl Loose {
    /// Creates the sender and the reader.
    pub fn open() -> (StreamSender, Loose) {
        let poll = Poll::new().expect("a test has descriptors left");
        let waker = Waker::new(poll.registry(), Token(0)).expect("the poll is new");
        let mailbox = Arc::new(Mailbox::new(waker));
        let (name, id) = (Name::from_number(0), RequestId::parse("test").expect("it is plain"));
        let room = Arc::new(Room::new(Arc::default(), &Limits::default(), &[]));
        let place = room.take(ListenerId(0), IpAddr::from([127, 0, 0, 1]));
        let account = place.expect("the room is new").account().clone();
        let reply = Reply::new(name, Arc::clone(&mailbox), id, STREAM_BACKLOG_BYTES_MAX, account);
        let sender = reply.stream(sse::head());
        let mut notes = Vec::new();
        mailbox.collect(&mut notes, false);
        let Some(Note::Stream(_, _, feed)) = notes.pop() else {
            unreachable!("a stream's first note is its opening")
        };
        (sender, Loose { feed, _poll: poll })
    }

    /// Returns and removes the bytes sent since the last call.
    pub fn sent(&self) -> String {
        String::from_utf8_lossy(&self.feed.take().0).into_owned()
    }
}

impl Drop for Loose {
    fn drop(&mut self) {
        self.feed.close();
    }
}
