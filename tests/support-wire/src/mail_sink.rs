//! A mail server for tests: takes letters on a port of its own and hands them over.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// Who waits longer for a letter waits for one that does not come.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The server; it takes connections until the test ends.
pub struct MailSink {
    port: u16,
    letters: Receiver<String>,
}

impl MailSink {
    /// Listens on this machine.
    ///
    /// # Panics
    /// When the system gives no port.
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

    /// The section of the settings that leads here.
    pub fn settings(&self) -> String {
        let port = self.port;
        format!(
            "[mail]\nhost = \"127.0.0.1\"\nport = {port}\nsecurity = \"none\"\nfrom = \"Memory <no-reply@recall.example>\"\n"
        )
    }

    /// The next letter: its fields and its text, lines ended by LF.
    ///
    /// # Panics
    /// When none comes.
    pub fn letter(&self) -> String {
        self.letters.recv_timeout(WAIT_MAX).expect("a letter comes")
    }

    /// Whether a letter is there that nobody has taken.
    pub fn has_another(&self) -> bool {
        self.letters.try_recv().is_ok()
    }
}

/// One connection: the letter that came by it.
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
