//! A mail server for tests, which receives mails on a port of its own.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Longest wait for a mail that will arrive.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The server; it accepts connections until the test ends.
pub struct MailSink {
    port: u16,
    letters: Receiver<String>,
}

impl MailSink {
    /// Listens on the loopback address.
    ///
    /// # Panics
    /// No port is available.
    pub fn open() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let (tell, letters) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let taken = talk(&stream);
                if taken.is_ok_and(|letter| tell.send(letter).is_err()) {
                    break;
                }
            }
        });
        Self { port, letters }
    }

    /// The settings section that sends mails to this server.
    pub fn settings(&self) -> String {
        let port = self.port;
        format!(
            "[mail]\nhost = \"127.0.0.1\"\nport = {port}\nsecurity = \"none\"\nfrom = \"Memory <no-reply@recall.example>\"\n"
        )
    }

    /// The next mail: its fields and its text, lines ended by LF.
    ///
    /// # Panics
    /// No mail arrives.
    pub fn letter(&self) -> String {
        self.letters.recv_timeout(WAIT_MAX).expect("a letter comes")
    }

    /// Returns true if an unread mail is there.
    pub fn has_another(&self) -> bool {
        self.letters.try_recv().is_ok()
    }
}

/// Handles one connection and returns its mail.
fn talk(stream: &TcpStream) -> io::Result<String> {
    let mut lines = BufReader::new(stream).lines();
    let say = |line: &str| { stream }.write_all(format!("{line}\r\n").as_bytes());
    say("220 sink")?;
    let (mut letter, mut is_text) = (String::new(), false);
    while let Some(line) = lines.next().transpose()? {
        match line.as_str() {
            "." if is_text => {
                is_text = false;
                say("250 taken")?;
            }
            line if is_text => letter.push_str(&format!("{line}\n")),
            "DATA" => {
                is_text = true;
                say("354 go on")?;
            }
            "QUIT" => {
                say("221 bye")?;
                break;
            }
            _ => say("250 good")?,
        }
    }
    Ok(letter)
}
