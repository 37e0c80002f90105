//! An in-process HTTP server, and clients that send arbitrary bytes to it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use recalld_http_server::{Identity, Limits, Listen, ListenerId, NetConfig, Server, Service};

/// A server that is silent for this long has failed.
pub const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Serves on two free ports; with an identity, the second speaks TLS.
pub fn start<S: Service>(service: Arc<S>, identity: Option<&Arc<Identity>>) -> [SocketAddr; 2] {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listeners = [0, 1].map(|id| Listen { id: ListenerId(id), address }).to_vec();
    let (limits, wall_clock) = (Limits::default(), || SystemTime::UNIX_EPOCH);
    let config = NetConfig { listeners, workers: 2, limits, wall_clock };
    let server = Server::bind(config).expect("free ports");
    let server = match identity {
        Some(identity) => server.with_tls(ListenerId(1), identity),
        None => server,
    };
    let addresses = server.addresses().expect("it is bound");
    std::thread::spawn(move || server.run(service).map(|_| ()).expect("it runs"));
    [addresses[0].1, addresses[1].1]
}

/// Connects to a server; `None` if the system has no socket left.
pub fn connect(address: SocketAddr) -> Option<TcpStream> {
    let socket = TcpStream::connect(address).ok()?;
    socket.set_read_timeout(Some(SILENCE_MAX)).ok()?;
    socket.set_nodelay(true).ok()?;
    Some(socket)
}

/// Sends the pieces, then the end of the stream, and returns the whole response.
pub fn ask(address: SocketAddr, pieces: &[&[u8]]) -> Option<Vec<u8>> {
    let mut socket = connect(address)?;
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        // A server that has rejected the first piece may have closed already.
        let _closed = socket.write_all(piece);
    }
    let _closed = socket.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _reset = socket.read_to_end(&mut answer);
    Some(answer)
}

/// Removes the request ids, which differ in every response.
pub fn without_names(answer: &[u8]) -> Vec<u8> {
    let field = b"x-request-id: ";
    let lines = answer.split_inclusive(|byte| *byte == b'\n');
    // The last line may have been cut off in the middle.
    let lines = lines.filter(|line| !line.starts_with(field) && !field.starts_with(line));
    lines.flat_map(|line| line.iter().copied()).collect()
}

/// Returns true if a call waited for a worker longer than `HALF_CLOSED_GRACE`. The cause is a stalled machine, not the
/// input.
pub fn was_given_up(answer: &[u8]) -> bool {
    let why = b"the client left before its turn";
    answer.windows(why.len()).any(|piece| piece == why)
}
