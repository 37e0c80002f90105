//! Whole calls over HTTP on persistent connections: tenants call on the hosted listener, and the operator makes the
//! same call on the local one, alternately.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::made::{Made, Place};
use crate::{Failure, Times};

/// A governed read call that needs no encoder, so that governance is most of its cost.
const TOOL: &str = "recall_stats";

/// A running server with a data directory; killed on drop.
pub(crate) struct Served {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    local: Connection,
    hosted: Connection,
    bearers: Vec<String>,
    tokens: Vec<String>,
    size: String,
    _place: Place,
}

impl Served {
    pub(crate) fn start(recalld: &Path, made: Made) -> Result<Self, Failure> {
        let Made { control, callers, size, place } = made;
        // The server opens the metastore from here on.
        drop(control);
        let mut child = Command::new(recalld)
            .args(["serve", "--local", "127.0.0.1:0", "--hosted", "127.0.0.1:0", "--data"])
            .arg(place.data())
            .arg("--config")
            .arg(place.beside("settings.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let address = |name: &str| -> Result<String, Failure> {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            let found = word.and_then(|url| url.split_once("://"));
            Ok(found.ok_or_else(|| format!("not ready but {line:?}"))?.1.to_owned())
        };
        let (local, at) = (address("local=")?, address("hosted=")?);
        let (local, mut hosted) = (Connection::open(&local)?, Connection::open(&at)?);
        let mut tokens = Vec::new();
        for caller in &callers {
            let form = format!(
                "grant_type=client_credentials&client_id={}&client_secret={}",
                caller.slug, caller.key
            );
            let kind = "application/x-www-form-urlencoded";
            let given = hosted.send("/token", None, kind, form.as_bytes())?;
            let token = given["access_token"].as_str();
            tokens.push(token.ok_or_else(|| format!("no token but {given}"))?.to_owned());
        }
        let bearers = callers.iter().map(|caller| caller.bearer.clone()).collect();
        let mut served =
            Self { child, _stdout: stdout, local, hosted, bearers, tokens, size, _place: place };
        // Opens every store once before the measurement.
        for bearer in served.bearers.clone() {
            served.hosted.call(Some(&bearer))?;
        }
        served.local.call(None)?;
        Ok(served)
    }

    /// Runs one round. Calls of the operator and of tenants alternate, so that both meet the same machine load.
    pub(crate) fn measure(&mut self, calls: u32) -> Result<(), Failure> {
        let (mut local, mut bearer, mut token) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..calls {
            let at = number as usize % self.bearers.len();
            let one = |into: &mut Vec<_>, connection: &mut Connection, shown: Option<&str>| {
                let mut times = Times::of(1, |_| connection.call(shown))?;
                into.append(&mut times.0);
                Ok::<(), Failure>(())
            };
            one(&mut local, &mut self.local, None)?;
            one(&mut bearer, &mut self.hosted, Some(&self.bearers[at]))?;
            one(&mut token, &mut self.hosted, Some(&self.tokens[at]))?;
        }
        for (case, mut times) in [
            ("a call of the operator, without a credential", local),
            ("a call with a bearer", bearer),
            ("a call with an access token", token),
        ] {
            times.sort_unstable();
            Times(times).tell(case, &self.size);
        }
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

struct Connection {
    authority: String,
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(authority: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(authority)?;
        stream.set_nodelay(true)?;
        Ok(Self { authority: authority.to_owned(), stream: BufReader::new(stream) })
    }

    /// Calls the tool.
    ///
    /// # Errors
    /// The response is not a success.
    fn call(&mut self, bearer: Option<&str>) -> Result<(), Failure> {
        let params = json!({"name": TOOL, "arguments": {}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let said = self.send("/mcp", bearer, "application/json", message.to_string().as_bytes())?;
        if said["result"]["isError"] == false { Ok(()) } else { Err(said.to_string().into()) }
    }

    fn send(
        &mut self,
        path: &str,
        bearer: Option<&str>,
        kind: &str,
        body: &[u8],
    ) -> Result<Value, Failure> {
        let shown = bearer.map(|bearer| format!("Authorization: Bearer {bearer}\r\n"));
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{}\r\n",
            self.authority,
            body.len(),
            shown.unwrap_or_default()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err("the server left".into());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line.trim_end().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }
}
