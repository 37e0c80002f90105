//! TLS between a socket and the state machine, without the socket: ciphertext in and out on one side,
//! the plaintext of a `Conn` on the other.
//!
//! Owns what is received and not yet decrypted, and what is encrypted and not yet sent; knows neither
//! HTTP nor files. The protocol is `rustls`', by its interface without buffers: an idle connection
//! keeps none. What the state machine said counts as sent once its ciphertext is, so that its clocks
//! mean the same with TLS and without.

use std::time::Instant;

use rustls::ProtocolVersion;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use super::buffers::{Inbox, Outbox};
use super::conn::Conn;
use crate::limits::{
    TLS_RECEIVED_BYTES_MAX, TLS_RECORD_OVERHEAD_MAX, TLS_SEALED_BYTES_MAX, TLS_UNSENT_BYTES_MAX,
};

/// Largest plaintext of one record (RFC 8446, section 5.1).
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing has been received.
    Fresh,
    Handshake,
    Open,
    /// Our `close_notify` is said; nothing more is encrypted.
    Closing,
    /// The protocol was broken; an alert may wait to be sent.
    Failed,
}

/// What the bytes so far have led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing to tell.
    None,
    /// The handshake is done.
    Opened,
    /// The client broke the protocol, or we do not speak alike. Told once.
    Failed,
}

/// The TLS of one connection.
pub(super) struct Tls {
    session: UnbufferedServerConnection,
    stage: Stage,
    /// When the handshake began.
    since: Instant,
    /// What is under way; an idle connection has none.
    traffic: Option<Box<Traffic>>,
    /// The client will send no more, and whether the connection knows.
    ended: bool,
    end_told: bool,
    /// Why it failed, for the log.
    fault: Option<Box<rustls::Error>>,
    /// Costly steps that what was received last took the handshake through.
    worked: u8,
}

/// Bytes that have come and are not read, or are said and not sent.
#[derive(Default)]
struct Traffic {
    /// Ciphertext that is not a whole record or handshake message yet.
    incoming: Inbox,
    /// Plaintext that the connection had no room for.
    plain: Inbox,
    outgoing: Outbox,
    /// Plaintext of the connection's that `outgoing` holds.
    covered_bytes: usize,
}

impl Traffic {
    fn is_over(&self) -> bool {
        self.incoming.is_empty() && self.plain.is_empty() && self.outgoing.is_empty()
    }
}

// With what `rustls` has beside it (two ciphers' keys and tables of 560 bytes each, a list of 640 for
// handshake messages, the key schedule) its part of an idle connection is 3.4 KB in TLS 1.3. All of one
// takes less than 4 KiB (tests/campaigns/idle.sh), which leaves us little.
const _: () = assert!(size_of::<Tls>() <= size_of::<UnbufferedServerConnection>() + 48);

impl Tls {
    /// A connection that has said nothing yet.
    pub(super) fn open(session: UnbufferedServerConnection, now: Instant) -> Tls {
        Tls {
            session,
            stage: Stage::Fresh,
            since: now,
            traffic: None,
            ended: false,
            end_told: false,
            fault: None,
            worked: 0,
        }
    }

    /// How many bytes `receive` may be given now.
    pub(super) fn room(&self, conn: &Conn) -> usize {
        match self.stage {
            Stage::Failed => conn.room(),
            // What the connection throws away while it lingers comes through here all the same.
            _ => TLS_RECEIVED_BYTES_MAX - self.unread_bytes(),
        }
    }

    /// Whether these are the first bytes of a client that speaks HTTP without TLS.
    pub(super) fn is_plain_http(&self, bytes: &[u8]) -> bool {
        // A method begins with a capital letter, a record with a number below 32.
        self.stage == Stage::Fresh && bytes.first().is_some_and(u8::is_ascii_uppercase)
    }

    /// Whether what arrives next may cost a signature, or an agreement of keys.
    pub(super) fn is_shaking_hands(&self) -> bool {
        matches!(self.stage, Stage::Fresh | Stage::Handshake)
    }

    /// How many of them what was received last has cost, whatever became of it.
    pub(super) fn take_worked(&mut self) -> usize {
        usize::from(std::mem::take(&mut self.worked))
    }

    /// Takes bytes from the socket, at most `room` of them, and gives the connection what they hold.
    pub(super) fn receive(&mut self, bytes: &[u8], conn: &mut Conn, now: Instant) -> Change {
        if self.stage == Stage::Failed {
            conn.receive(bytes, now);
            return Change::None;
        }
        if self.stage == Stage::Fresh {
            self.stage = Stage::Handshake;
        }
        self.traffic().incoming.push(bytes);
        let before = self.stage;
        if let Err(error) = self.read_records() {
            self.fail(error, conn, now);
            return Change::Failed;
        }
        self.hand_over(conn, now);
        let is_opened = before == Stage::Handshake && self.stage == Stage::Open;
        if is_opened { Change::Opened } else { Change::None }
    }

    /// The client closed its sending half of the socket.
    pub(super) fn end(&mut self, conn: &mut Conn, now: Instant) {
        self.ended = true;
        if self.is_shaking_hands() {
            conn.lose();
        } else {
            self.hand_over(conn, now);
        }
    }

    /// Gives the connection what it has room for. Says whether there was any.
    pub(super) fn hand_over(&mut self, conn: &mut Conn, now: Instant) -> bool {
        let mut count = 0;
        if let Some(traffic) = &mut self.traffic {
            let plain = &mut traffic.plain;
            count = conn.room().min(plain.len());
            if count > 0 {
                conn.receive(&plain.rest()[..count], now);
                plain.consume(count);
            }
        }
        let is_read = self.traffic.as_ref().is_none_or(|traffic| traffic.plain.is_empty());
        self.rest();
        if self.ended && is_read && !self.end_told {
            self.end_told = true;
            conn.end(now);
            return true;
        }
        count > 0
    }

    /// Encrypts what the connection wants to say, once everything before it is sent.
    pub(super) fn seal(&mut self, conn: &mut Conn, now: Instant) -> Change {
        let plain = conn.output();
        if self.stage != Stage::Open || plain.is_empty() || !self.is_quiet() {
            return Change::None;
        }
        let plain = &plain[..plain.len().min(TLS_SEALED_BYTES_MAX)];
        let count = plain.len();
        let records = count.div_ceil(RECORD_BYTES_MAX);
        let mut sealed = vec![0; count + records * TLS_RECORD_OVERHEAD_MAX];
        let outcome = self.with_writer(|writer| match writer.encrypt(plain, &mut sealed) {
            Err(EncryptError::InsufficientSize(needs)) => {
                // Something of the protocol's own goes first, such as new keys.
                sealed.resize(needs.required_size, 0);
                writer.encrypt(plain, &mut sealed)
            }
            other => other,
        });
        match outcome {
            Some(Ok(length)) => {
                sealed.truncate(length);
                self.queue(sealed);
                self.traffic().covered_bytes = count;
                Change::None
            }
            // The keys are used up, which takes more than any client has patience for, or the
            // session came to an end by itself.
            Some(Err(_)) | None => {
                self.fail(rustls::Error::EncryptError, conn, now);
                Change::Failed
            }
        }
    }

    /// Says `close_notify`, so that the client can tell this end from a cut. Nothing follows it.
    pub(super) fn close(&mut self) {
        const ALERT_BYTES_MAX: usize = 1024;
        if self.stage != Stage::Open {
            return;
        }
        self.stage = Stage::Closing;
        let mut alert = vec![0; ALERT_BYTES_MAX];
        let said = self.with_writer(|writer| writer.queue_close_notify(&mut alert));
        if let Some(Ok(length)) = said {
            alert.truncate(length);
            self.queue(alert);
        }
    }

    /// The next bytes for the socket; empty when there are none.
    pub(super) fn output(&self) -> &[u8] {
        self.traffic.as_ref().map_or(&[], |traffic| traffic.outgoing.next())
    }

    /// Whether all is sent.
    pub(super) fn is_quiet(&self) -> bool {
        self.traffic.as_ref().is_none_or(|traffic| traffic.outgoing.is_empty())
    }

    /// The socket took `count` bytes of `output`.
    pub(super) fn wrote(&mut self, count: usize, conn: &mut Conn, now: Instant) {
        let Some(traffic) = &mut self.traffic else { return };
        traffic.outgoing.consume(count);
        if traffic.outgoing.is_empty() && traffic.covered_bytes > 0 {
            conn.wrote(std::mem::take(&mut traffic.covered_bytes), now);
        }
        self.rest();
    }

    /// Bytes that have arrived and that the connection has not been given.
    pub(super) fn unread_bytes(&self) -> usize {
        let unread = |traffic: &Traffic| traffic.incoming.len() + traffic.plain.len();
        self.traffic.as_deref().map_or(0, unread)
    }

    /// Bytes of memory held for these, and for ciphertext that is not sent; the connection still counts its
    /// plaintext.
    pub(super) fn held_bytes(&self) -> usize {
        let held = |it: &Traffic| it.incoming.held() + it.plain.held() + it.outgoing.held();
        self.traffic.as_deref().map_or(0, held)
    }

    /// Since when the client has been asked for its handshake; `None` once it is done.
    pub(super) fn handshake_since(&self) -> Option<Instant> {
        self.is_shaking_hands().then_some(self.since)
    }

    /// Why it failed.
    pub(super) fn fault(&self) -> Option<&rustls::Error> {
        self.fault.as_deref()
    }

    /// Goes through what has arrived as far as it is whole.
    fn read_records(&mut self) -> Result<(), rustls::Error> {
        // What is said in one flight costs once, however many records it is.
        let mut is_saying = false;
        loop {
            let is_shaking_hands = self.is_shaking_hands();
            let Tls { session, traffic, .. } = self;
            let Traffic { incoming, plain, .. } = &mut **traffic.get_or_insert_default();
            let UnbufferedStatus { discard, state, .. } =
                session.process_tls_records(incoming.rest_mut());
            let mut used = discard;
            let mut encoded = None;
            let state = match state {
                Ok(state) => state,
                Err(error) => {
                    self.count_failure(is_shaking_hands);
                    return Err(error);
                }
            };
            let has_said = std::mem::replace(
                &mut is_saying,
                matches!(state, ConnectionState::EncodeTlsData(_)),
            );
            let is_more = match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        used += record.discard;
                        plain.push(record.payload);
                    }
                    true
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encoded = encode(|out| data.encode(out));
                    true
                }
                ConnectionState::TransmitTlsData(data) => {
                    // It stands in `outgoing`, and what follows stands behind it.
                    data.done();
                    true
                }
                ConnectionState::PeerClosed => {
                    self.ended = true;
                    true
                }
                ConnectionState::WriteTraffic(_) => {
                    if self.stage == Stage::Handshake {
                        self.stage = Stage::Open;
                    }
                    false
                }
                ConnectionState::BlockedHandshake | ConnectionState::Closed => false,
                // Early data, which we never allow, and states of a later version.
                _ => return Err(rustls::Error::HandshakeNotComplete),
            };
            incoming.consume(used);
            // Now, and not at the end: what stands behind a hello may be garbage. With the end of the
            // handshake only tickets are said. That the client is asked for another hello counts as well,
            // lest it come as a gift.
            let is_answer = is_saying && (!has_said || used > 0) && session.is_handshaking();
            // In TLS 1.2 what goes beyond the hello has the client's part of the keys in it (RFC 5246,
            // section 7.4.7), which costs as much, and no answer until the end shows it. Whatever of it
            // takes the handshake on counts; in TLS 1.3 there is nothing of the kind.
            let is_agreement = is_shaking_hands && !is_answer && used > 0 && is_of_tls12(session);
            if is_answer || is_agreement {
                self.worked = self.worked.saturating_add(1);
            }
            if self.ended {
                // After its `close_notify` a client has nothing to say (RFC 8446, section 6.1).
                *incoming = Inbox::default();
            }
            encoded.into_iter().for_each(|bytes| self.queue(bytes));
            if self.traffic().outgoing.held() > TLS_UNSENT_BYTES_MAX {
                return Err(rustls::Error::General("unread protocol messages".to_owned()));
            }
            if !is_more {
                break;
            }
        }
        let Traffic { incoming, plain, .. } = self.traffic();
        if plain.is_empty() && incoming.len() >= TLS_RECEIVED_BYTES_MAX {
            return Err(rustls::Error::General("a message that is too long".to_owned()));
        }
        Ok(())
    }

    /// A handshake that fails may have cost before it did: where nothing has been counted yet, that counts,
    /// and in TLS 1.2 in any case, for behind the hello may have stood the client's part of the keys.
    fn count_failure(&mut self, is_shaking_hands: bool) {
        if is_shaking_hands && (self.worked == 0 || is_of_tls12(&self.session)) {
            self.worked = self.worked.saturating_add(1);
        }
    }

    /// What the session lets us write with; `None` where it lets us not.
    fn with_writer<T>(
        &mut self,
        work: impl FnOnce(
            &mut rustls::unbuffered::WriteTraffic<'_, rustls::server::ServerConnectionData>,
        ) -> T,
    ) -> Option<T> {
        let Tls { session, traffic, .. } = self;
        let arrived = traffic.as_mut().map_or(&mut [][..], |it| it.incoming.rest_mut());
        let status = session.process_tls_records(arrived);
        // All that had arrived was gone through when it came, so this is no other state than that.
        match status.state {
            Ok(ConnectionState::WriteTraffic(mut writer)) => Some(work(&mut writer)),
            _ => None,
        }
    }

    /// Takes what is left to say, the alert above all that tells the client why, and has the connection wind up.
    fn fail(&mut self, error: rustls::Error, conn: &mut Conn, now: Instant) {
        self.stage = Stage::Failed;
        self.fault = Some(Box::new(error));
        self.traffic().covered_bytes = 0;
        // Behind what was begun of the handshake: the alert may be in the keys that it agrees on. Asked
        // for only while there is something, for else the same bytes would be read and fail again.
        while self.session.wants_write() {
            let Tls { session, traffic, .. } = self;
            let incoming = &mut traffic.get_or_insert_default().incoming;
            let status = session.process_tls_records(incoming.rest_mut());
            let Ok(ConnectionState::EncodeTlsData(mut data)) = status.state else { break };
            let alert = encode(|out| data.encode(out));
            alert.into_iter().for_each(|alert| self.queue(alert));
        }
        let traffic = self.traffic();
        (traffic.incoming, traffic.plain) = Default::default();
        self.rest();
        conn.break_off(now);
    }

    fn queue(&mut self, bytes: Vec<u8>) {
        self.traffic().outgoing.push(bytes);
    }

    fn traffic(&mut self) -> &mut Traffic {
        self.traffic.get_or_insert_default()
    }

    /// Gives the memory of what is under way back, if there is nothing.
    fn rest(&mut self) {
        if self.traffic.as_ref().is_some_and(|traffic| traffic.is_over()) {
            self.traffic = None;
        }
    }
}

fn is_of_tls12(session: &UnbufferedServerConnection) -> bool {
    session.protocol_version() == Some(ProtocolVersion::TLSv1_2)
}

/// A handshake record in a buffer of its size.
fn encode(mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>) -> Option<Vec<u8>> {
    match encode(&mut []) {
        Err(EncodeError::InsufficientSize(needs)) => {
            let mut bytes = vec![0; needs.required_size];
            let length = encode(&mut bytes).ok()?;
            bytes.truncate(length);
            Some(bytes)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
