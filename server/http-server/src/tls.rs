//! TLS between a socket and the state machine, without the socket: ciphertext on one side, the plaintext of a `Conn` on
//! the other.
//!
//! Owns received bytes until decrypted, and encrypted bytes until sent; must not know HTTP or files. Uses the
//! unbuffered API of `rustls`, so that an idle connection has no buffers. Plaintext counts as sent only when its
//! ciphertext is sent, so that the timers of the state machine mean the same with and without TLS.

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

/// Phase of a TLS connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No bytes received.
    Fresh,
    Handshake,
    Open,
    /// `close_notify` was sent or queued; nothing more is encrypted.
    Closing,
    /// The client violated the protocol; an alert may be queued.
    Failed,
}

/// Event that results from received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// The handshake is complete.
    Opened,
    /// The client violated the protocol, or no common parameters exist. Reported once.
    Failed,
}

/// TLS state of one connection.
pub(super) struct Tls {
    session: UnbufferedServerConnection,
    stage: Stage,
    /// Start of the handshake.
    since: Instant,
    /// Buffers; `None` on an idle connection.
    traffic: Option<Box<Traffic>>,
    /// True if the client sends no more; `end_told` is true if the connection was informed.
    ended: bool,
    end_told: bool,
    /// Reason of the failure, for the log.
    fault: Option<Box<rustls::Error>>,
    /// Costly handshake steps caused by the last received bytes.
    worked: u8,
}

/// Bytes received and not yet parsed, and bytes encrypted and not yet sent.
#[derive(Default)]
struct Traffic {
    /// Ciphertext of an incomplete record or handshake message.
    incoming: Inbox,
    /// Plaintext for which the connection had no room.
    plain: Inbox,
    outgoing: Outbox,
    /// Bytes of the connection's plaintext that `outgoing` contains as ciphertext.
    covered_bytes: usize,
}

impl Traffic {
    fn is_over(&self) -> bool {
        self.incoming.is_empty() && self.plain.is_empty() && self.outgoing.is_empty()
    }
}

// `rustls` allocates more: two ciphers' keys and tables of 560 bytes each, a list of 640 bytes for handshake messages,
// and the key schedule. TLS thus needs 3.4 KB per idle connection in TLS 1.3. A whole idle connection must stay below 4
// KiB (tests/campaigns/idle.sh), which leaves little for this struct.
const _: () = assert!(size_of::<Tls>() <= size_of::<UnbufferedServerConnection>() + 48);

impl Tls {
    /// Creates the TLS state of a new connection.
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

    /// Bytes that `receive` accepts now.
    pub(super) fn room(&self, conn: &Conn) -> usize {
        match self.stage {
            Stage::Failed => conn.room(),
            // Bytes that the connection discards while lingering are still decrypted here.
            _ => TLS_RECEIVED_BYTES_MAX - self.unread_bytes(),
        }
    }

    /// Returns true if `bytes` are the first bytes of a client that speaks HTTP without TLS.
    pub(super) fn is_plain_http(&self, bytes: &[u8]) -> bool {
        // A method begins with a capital letter, a TLS record with a number below 32.
        self.stage == Stage::Fresh && bytes.first().is_some_and(u8::is_ascii_uppercase)
    }

    /// Returns true if the next bytes may cause a signature or a key agreement.
    pub(super) fn is_shaking_hands(&self) -> bool {
        matches!(self.stage, Stage::Fresh | Stage::Handshake)
    }

    /// Takes the number of costly steps caused by the last received bytes, even if they failed.
    pub(super) fn take_worked(&mut self) -> usize {
        usize::from(std::mem::take(&mut self.worked))
    }

    /// Decrypts bytes from the socket, at most `room` of them, and passes the plaintext to the connection.
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

    /// Records that the client closed its sending half of the socket.
    pub(super) fn end(&mut self, conn: &mut Conn, now: Instant) {
        self.ended = true;
        if self.is_shaking_hands() {
            conn.lose();
        } else {
            self.hand_over(conn, now);
        }
    }

    /// Passes as much plaintext to the connection as the connection accepts. Returns true on progress.
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

    /// Encrypts output of the connection, once all earlier ciphertext is sent.
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
                // A message of the TLS protocol, such as a key update, is sent first.
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
            // The keys are exhausted, which takes more data than any client transfers, or the session ended by itself.
            Some(Err(_)) | None => {
                self.fail(rustls::Error::EncryptError, conn, now);
                Change::Failed
            }
        }
    }

    /// Queues `close_notify`, which lets the client distinguish this end from an abort. Nothing is sent afterwards.
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

    /// The next bytes for the socket; empty if there are none.
    pub(super) fn output(&self) -> &[u8] {
        self.traffic.as_ref().map_or(&[], |traffic| traffic.outgoing.next())
    }

    /// Returns true if all bytes are sent.
    pub(super) fn is_quiet(&self) -> bool {
        self.traffic.as_ref().is_none_or(|traffic| traffic.outgoing.is_empty())
    }

    /// Records that the socket accepted `count` bytes of `output`.
    pub(super) fn wrote(&mut self, count: usize, conn: &mut Conn, now: Instant) {
        let Some(traffic) = &mut self.traffic else { return };
        traffic.outgoing.consume(count);
        if traffic.outgoing.is_empty() && traffic.covered_bytes > 0 {
            conn.wrote(std::mem::take(&mut traffic.covered_bytes), now);
        }
        self.rest();
    }

    /// Bytes received and not yet passed to the connection.
    pub(super) fn unread_bytes(&self) -> usize {
        let unread = |traffic: &Traffic| traffic.incoming.len() + traffic.plain.len();
        self.traffic.as_deref().map_or(0, unread)
    }

    /// Memory allocated for unread bytes and for unsent ciphertext; the connection counts its own plaintext.
    pub(super) fn held_bytes(&self) -> usize {
        let held = |it: &Traffic| it.incoming.held() + it.plain.held() + it.outgoing.held();
        self.traffic.as_deref().map_or(0, held)
    }

    /// Start of the handshake; `None` once the handshake is complete.
    pub(super) fn handshake_since(&self) -> Option<Instant> {
        self.is_shaking_hands().then_some(self.since)
    }

    /// Reason of the failure.
    pub(super) fn fault(&self) -> Option<&rustls::Error> {
        self.fault.as_deref()
    }

    /// Processes all complete records.
    fn read_records(&mut self) -> Result<(), rustls::Error> {
        // A flight of messages costs one step, however many records it contains.
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
                    // The data is already queued in `outgoing`, and later data is queued behind it.
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
                // Early data, which is never allowed, and states of a later `rustls` version.
                _ => return Err(rustls::Error::HandshakeNotComplete),
            };
            incoming.consume(used);
            // Counted now and not at the end, because the bytes after a hello may be garbage. After the handshake only
            // tickets are sent, which are cheap. A HelloRetryRequest counts too, so that a client cannot get a
            // HelloRetryRequest for free.
            let is_answer = is_saying && (!has_said || used > 0) && session.is_handshaking();
            // In TLS 1.2 the client's bytes after the hello contain its key share (RFC 5246, section 7.4.7). Computing
            // the key costs as much as a signature, and no response shows it until the end. Therefore any progress of
            // the handshake counts. TLS 1.3 has no such step.
            let is_agreement = is_shaking_hands && !is_answer && used > 0 && is_of_tls12(session);
            if is_answer || is_agreement {
                self.worked = self.worked.saturating_add(1);
            }
            if self.ended {
                // A client sends nothing after its `close_notify` (RFC 8446, section 6.1).
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

    /// Counts a failed handshake, which may have cost a step before failing. If nothing was counted yet, one step
    /// counts. In TLS 1.2 one step counts in any case, because the client's key share may have followed the hello.
    fn count_failure(&mut self, is_shaking_hands: bool) {
        if is_shaking_hands && (self.worked == 0 || is_of_tls12(&self.session)) {
            self.worked = self.worked.saturating_add(1);
        }
    }

    /// Runs `work` with the session's writer; `None` if the session cannot write now.
    fn with_writer<T>(
        &mut self,
        work: impl FnOnce(
            &mut rustls::unbuffered::WriteTraffic<'_, rustls::server::ServerConnectionData>,
        ) -> T,
    ) -> Option<T> {
        let Tls { session, traffic, .. } = self;
        let arrived = traffic.as_mut().map_or(&mut [][..], |it| it.incoming.rest_mut());
        let status = session.process_tls_records(arrived);
        // All received bytes were processed on arrival, so the state is `WriteTraffic` if the session can write.
        match status.state {
            Ok(ConnectionState::WriteTraffic(mut writer)) => Some(work(&mut writer)),
            _ => None,
        }
    }

    /// Queues the remaining output, above all the alert with the reason, and aborts the connection.
    fn fail(&mut self, error: rustls::Error, conn: &mut Conn, now: Instant) {
        self.stage = Stage::Failed;
        self.fault = Some(Box::new(error));
        self.traffic().covered_bytes = 0;
        // The alert follows queued handshake messages, because the alert may be encrypted with their keys. The session
        // is polled only while output is pending; otherwise the same bytes would be processed and fail again.
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

    /// Frees the buffers if they are empty.
    fn rest(&mut self) {
        if self.traffic.as_ref().is_some_and(|traffic| traffic.is_over()) {
            self.traffic = None;
        }
    }
}

fn is_of_tls12(session: &UnbufferedServerConnection) -> bool {
    session.protocol_version() == Some(ProtocolVersion::TLSv1_2)
}

/// Encodes a handshake record into a buffer of its exact size.
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
