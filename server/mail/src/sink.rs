//! A mail server for tests: accepts connections on its own port and records the lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Behavior of the server.
#[derive(Clone, Default)]
pub(super) struct Manner {
    /// Implicit TLS, if set.
    pub tls: Option<Arc<ServerConfig>>,
    /// STARTTLS, offered if set.
    pub starttls: Option<Arc<ServerConfig>>,
    /// The prefix of a command, and the reply to it instead of the usual one.
    pub instead: Option<(&'static str, &'static str)>,
}

/// The server; accepts connections until the test ends.
pub(super) struct Sink {
    /// The port of the listener.
    pub port: u16,
    talks: Receiver<Vec<String>>,
}

impl Sink {
    pub(super) fn open(manner: Manner) -> Sink {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, talks) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut lines = Vec::new();
                talk(stream.unwrap(), &manner, &mut lines);
                if tell.send(lines).is_err() {
                    break;
                }
            }
        });
        Sink { port, talks }
    }

    /// Returns all lines of the next connection, with `[encrypted]` where TLS began.
    pub(super) fn talk(&self) -> Vec<String> {
        self.talks.recv().unwrap()
    }
}

fn talk(stream: TcpStream, manner: &Manner, lines: &mut Vec<String>) {
    if let Some(config) = &manner.tls {
        let connection = ServerConnection::new(Arc::clone(config)).unwrap();
        lines.push("[encrypted]".into());
        let _done = commands(StreamOwned::new(connection, stream), manner, true, true, lines);
        return;
    }
    let wants_tls = commands(&stream, manner, true, false, lines);
    if let (true, Some(config)) = (wants_tls, &manner.starttls) {
        let connection = ServerConnection::new(Arc::clone(config)).unwrap();
        lines.push("[encrypted]".into());
        let _done = commands(StreamOwned::new(connection, &stream), manner, false, true, lines);
    }
}

/// Processes commands until the client leaves or requests TLS. Returns true if the client requested TLS.
fn commands(
    stream: impl Read + Write,
    manner: &Manner,
    greets: bool,
    is_encrypted: bool,
    lines: &mut Vec<String>,
) -> bool {
    let mut stream = BufReader::new(stream);
    if greets && stream.get_mut().write_all(b"220 sink\r\n").is_err() {
        return false;
    }
    let mut in_data = false;
    loop {
        let mut line = String::new();
        match stream.read_line(&mut line) {
            Ok(1..) => {}
            _ => return false,
        }
        let line = line.trim_end_matches(['\r', '\n']).to_owned();
        lines.push(line.clone());
        let answer = match (&manner.instead, in_data) {
            (Some((start, answer)), false) if line.starts_with(start) => answer,
            (_, true) if line == "." => "250 taken",
            (_, true) => continue,
            _ if line.starts_with("EHLO ") && manner.starttls.is_some() && !is_encrypted => {
                "250-sink\r\n250 STARTTLS"
            }
            _ if line.starts_with("EHLO ") => "250-sink\r\n250 AUTH PLAIN",
            _ if line == "STARTTLS" => "220 go on",
            _ if line.starts_with("AUTH ") => "235 welcome",
            _ if line == "DATA" => "354 go on",
            _ if line == "QUIT" => "221 bye",
            _ => "250 good",
        };
        in_data = answer.starts_with("354");
        if stream.get_mut().write_all(format!("{answer}\r\n").as_bytes()).is_err() {
            return false;
        }
        if answer == "220 go on" {
            return true;
        }
    }
}
