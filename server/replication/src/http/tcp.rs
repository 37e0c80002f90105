//! TCP connections that acknowledge received data at once. Owns the timeouts of a connection.
//!
//! Some servers send the head and the body of a response separately and wait for the acknowledgment of the head
//! (Nagle's algorithm, which Ceph's gateway uses unless `tcp_nodelay=1` is set). The receiving kernel delays that
//! acknowledgment by 40 ms, to send it along with data, of which there is none. With the delay, each read of a small
//! object took as long as ten creates.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_tcp_quickack;
use rustix::net::{RecvFlags, recv};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, ShutdownHandle,
    Transport,
};
use ureq::{Error, Timeout};

use crate::limits::CONNECT_WAIT_MIN;

/// Connector for such connections.
#[derive(Debug)]
pub(super) struct Connects;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Arc<Stream>,
    buffers: LazyBuffers,
}

#[derive(Debug)]
struct Stream(TcpStream);

impl ShutdownHandle for Stream {
    fn shutdown(&self) {
        // The connection may be closed already.
        let _is_down_now = self.0.shutdown(Shutdown::Both);
    }
}

impl<In: Transport> Connector<In> for Connects {
    type Out = Either<In, Connection>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if let Some(by_proxy) = chained {
            return Ok(Some(Either::A(by_proxy)));
        }
        let wait = details.timeout.not_zero().map(|wait| *wait);
        let stream =
            connect(&details.addrs, wait).map_err(|error| told(error, Timeout::Connect))?;
        stream.set_nodelay(true)?;
        let stream = Arc::new(Stream(stream));
        let handle: Weak<dyn ShutdownHandle> = Arc::<Stream>::downgrade(&stream);
        (details.register_shutdown)(handle)?;
        let (input, output) =
            (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(Connection { stream, buffers: LazyBuffers::new(input, output) })))
    }
}

/// Connects to the first address that responds. Each address gets its share of the remaining time.
fn connect(addresses: &[SocketAddr], wait: Option<Duration>) -> io::Result<TcpStream> {
    let began = Instant::now();
    let mut failed = io::Error::from(ErrorKind::ConnectionRefused);
    for (left, address) in (1..=addresses.len()).rev().zip(addresses) {
        let share = wait.map(|wait| {
            let left = u32::try_from(left).unwrap_or(u32::MAX);
            (wait.saturating_sub(began.elapsed()) / left).max(CONNECT_WAIT_MIN)
        });
        let tried = match share {
            Some(share) => TcpStream::connect_timeout(address, share),
            None => TcpStream::connect(address),
        };
        match tried {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Reads available bytes and acknowledges them at once.
fn receive(mut stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    // The kernel resets the option after some traffic, so set it before each read.
    set_tcp_quickack(stream, true)?;
    stream.read(into)
}

/// Maps an I/O error to the client's error type, in which a timeout differs from a failed connection.
fn told(error: io::Error, waited: Timeout) -> Error {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Error::Timeout(waited),
        _ => Error::Io(error),
    }
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        let mut stream = &self.stream.0;
        stream.set_write_timeout(timeout.not_zero().map(|wait| *wait))?;
        let sent = stream.write_all(&self.buffers.output()[..amount]);
        sent.map_err(|error| told(error, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let wait = timeout.not_zero().map(|wait| *wait);
        let began = Instant::now();
        let came = loop {
            let left = wait.map(|wait| wait.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::Timeout(timeout.reason));
            }
            self.stream.0.set_read_timeout(left)?;
            match receive(&self.stream.0, self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                came => break came.map_err(|error| told(error, timeout.reason))?,
            }
        };
        self.buffers.input_appended(came);
        Ok(came > 0)
    }

    fn is_open(&mut self) -> bool {
        // No request is pending: unexpected bytes or an end make the connection unusable for the next response.
        let found = recv(&self.stream.0, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(found, Err(rustix::io::Errno::AGAIN))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::sockopt::tcp_quickack;

    use super::*;

    /// Reads with a delayed acknowledgment set. Returns true if `read` has switched the delay off.
    fn is_at_once(read: impl Fn(&TcpStream, &mut [u8]) -> io::Result<usize>) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        theirs.write_all(b"told").unwrap();
        // The bytes have arrived once they can be peeked.
        assert_eq!(ours.peek(&mut [0; 4]).unwrap(), 4);
        set_tcp_quickack(&ours, false).unwrap();
        assert_eq!(read(&ours, &mut [0; 4]).unwrap(), 4);
        tcp_quickack(&ours).unwrap()
    }

    #[test]
    fn what_comes_is_acknowledged_at_once() {
        assert!(!is_at_once(|mut stream, into| stream.read(into)), "the system does so by itself");
        assert!(is_at_once(receive));
    }

    #[test]
    fn one_address_of_several_is_enough() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let wait = Some(Duration::from_secs(5));
        assert_eq!(connect(&[gone, there], wait).unwrap().peer_addr().unwrap(), there);
        assert_eq!(connect(&[gone], wait).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(connect(&[], None).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}
