//! The front end from outside: any bytes over a socket, whole or in two pieces, get HTTP answers or
//! a closed connection, and the same ones however they were cut.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use libfuzzer_sys::fuzz_target;
use server::net::{Call, Limits, Listen, ListenerId, NetConfig, Reply, Response, Server, Service};

/// Answers with the length of the body, so that framing shows in the answer.
struct Count;

impl Service for Count {
    fn serve(&self, call: Call, reply: Reply) {
        reply.send(Response::json(200, call.request.body.len().to_string().into_bytes()));
    }
}

fn address() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(|| {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(NetConfig {
            listeners: vec![Listen { id: ListenerId(0), address: any }],
            workers: 2,
            limits: Limits::default(),
            wall_clock: || SystemTime::UNIX_EPOCH,
        })
        .expect("a free port");
        let address = server.addresses().expect("it is bound")[0].1;
        std::thread::spawn(move || server.run(Arc::new(Count)).map(|_| ()).expect("it runs"));
        address
    })
}

/// All that is answered; `None` where the system has no socket left.
fn ask(pieces: [&[u8]; 2]) -> Option<Vec<u8>> {
    let mut socket = TcpStream::connect(address()).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    socket.set_nodelay(true).ok()?;
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        // A server that has refused the first piece may have closed already.
        let _closed = socket.write_all(piece);
    }
    let _closed = socket.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _reset = socket.read_to_end(&mut answer);
    Some(answer)
}

/// An answer without the names of its requests, which are never twice the same.
fn without_names(answer: &[u8]) -> Vec<u8> {
    let field = b"x-request-id: ";
    let lines = answer.split_inclusive(|byte| *byte == b'\n');
    // The last line may have been cut off in the middle.
    let lines = lines.filter(|line| !line.starts_with(field) && !field.starts_with(line));
    lines.flat_map(|line| line.iter().copied()).collect()
}

/// Whether a call waited for a worker longer than `HALF_CLOSED_GRACE`: on a machine that stood still, and
/// no matter of the bytes.
fn was_given_up(answer: &[u8]) -> bool {
    let why = b"the client left before its turn";
    answer.windows(why.len()).any(|piece| piece == why)
}

fuzz_target!(|data: &[u8]| {
    let Some((&cut, bytes)) = data.split_first() else { return };
    let cut = usize::from(cut) * bytes.len() / 256;
    let Some(whole) = ask([bytes, &[]]) else { return };
    assert!(whole.is_empty() || whole.starts_with(b"HTTP/1."), "{whole:?}");
    let Some(cut) = ask(bytes.split_at(cut).into()) else { return };
    if was_given_up(&whole) || was_given_up(&cut) {
        return;
    }
    let (whole, cut) = (without_names(&whole), without_names(&cut));
    // A reset can lose the end of an answer, never change what came before.
    assert!(whole.starts_with(&cut) || cut.starts_with(&whole), "{whole:?} {cut:?}");
});
