//! Client of the running server, for a command that finds the store locked.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::failure::Failure;
use recalld_embedding::model::{Bar, Progress};
use recalld_interchange::lines::LINE_BYTES_MAX;
use recalld_workspace::opening::SERVING;

/// Longest accepted response; a longer one is not from recalld.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The file that advertises the server's local listener; removed on drop.
pub(super) struct Announcement {
    file: PathBuf,
}

impl Announcement {
    pub(super) fn write(data: &Path, local: &str) -> std::io::Result<Self> {
        let file = data.join(SERVING);
        let fresh = data.join("serving.json.new");
        std::fs::write(&fresh, json!({"local": local}).to_string())?;
        std::fs::rename(&fresh, &file)?;
        Ok(Self { file })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // A leftover file names a server that no longer responds; commands report that.
        let _left = std::fs::remove_file(&self.file);
    }
}

/// The advertised local listener of the server that has this data directory.
pub(super) fn announced(data: &Path) -> Option<String> {
    let said = std::fs::read_to_string(data.join(SERVING)).ok()?;
    let said: Value = serde_json::from_str(&said).ok()?;
    said["local"].as_str().map(str::to_owned)
}

/// Shows the progress of the server's ingest or import, or that it waits for another job.
pub(super) fn show_step(bar: &mut Bar, what: &str, step: &Value) {
    if step["waiting"] == true {
        bar.say("another ingest or import is running; this one begins when that has ended");
    } else {
        bar.advance(what, step["done"].as_u64().unwrap_or_default(), step["total"].as_u64());
    }
}

pub(super) struct Remote {
    local: String,
    bearer: String,
    agent: ureq::Agent,
}

impl Remote {
    /// Finds the server by its advertised address.
    pub(super) fn find(data: &Path) -> Result<Self, Failure> {
        let busy = |why: &str| {
            Failure::Could(format!(
                "{} is in use by another recalld process, {why}; stop it, or wait until it is ready",
                data.display()
            ))
        };
        let text = std::fs::read_to_string(data.join(SERVING))
            .map_err(|_| busy("which has no local listener (yet)"))?;
        let said: Value = serde_json::from_str(&text).unwrap_or_default();
        let local = said["local"].as_str().ok_or_else(|| busy("which does not say where"))?;
        let (credentials, _) =
            recalld_workspace::opening::credentials(data).map_err(Failure::could)?;
        let bearer = format!("Bearer {}", credentials.show().bearer.expose());
        let agent = ureq::Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            .proxy(None)
            .build()
            .into();
        Ok(Self { local: local.to_owned(), bearer, agent })
    }

    /// The unauthenticated health report.
    pub(super) fn health(&self) -> Result<Value, Failure> {
        let url = format!("{}/health", self.local);
        let answer = self.agent.get(&url).call();
        let answer =
            answer.map_err(|error| Failure::Could(format!("{url} did not answer: {error}")))?;
        whole(answer.into_body().into_reader())
    }

    fn post(&self, path: &str, body: &Value) -> Result<impl Read + use<>, Failure> {
        self.send(path, body)?.map_err(|(status, detail)| {
            Failure::Could(format!("the server answered {status}: {detail}"))
        })
    }

    /// Posts a request. Returns the body of a 200 response, or the status and detail of a rejection.
    fn send(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<Result<impl Read + use<>, (u16, String)>, Failure> {
        let url = format!("{}{path}", self.local);
        let sent = self
            .agent
            .post(&url)
            .header("Authorization", &self.bearer)
            .header("Content-Type", "application/json")
            .send(body.to_string());
        let mut response =
            sent.map_err(|error| Failure::Could(format!("{url} did not answer: {error}")))?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(Ok(response.into_body().into_reader()));
        }
        let text = response.body_mut().read_to_string().unwrap_or_default();
        let said: Value = serde_json::from_str(&text).unwrap_or_default();
        let detail = said["detail"].as_str().unwrap_or("no reason given");
        Ok(Err((status, detail.to_owned())))
    }

    /// Posts an administrative action, and maps a rejection to its exit code.
    pub(super) fn administer(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        match self.send(path, body)? {
            Ok(answer) => whole(answer),
            Err((404, why)) => Err(Failure::No(why)),
            Err((422, why)) => Err(Failure::Usage(why)),
            Err((_, why)) => Err(Failure::Could(why)),
        }
    }

    /// Posts a request and reads the JSON response.
    pub(super) fn ask(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        whole(self.post(path, body)?)
    }

    /// Posts a request and passes progress events to `tell`. Returns the report, the data of the last event.
    pub(super) fn follow(
        &self,
        path: &str,
        body: &Value,
        mut tell: impl FnMut(&Value),
    ) -> Result<Value, Failure> {
        self.events(path, body, |name, data| {
            if name == "progress" {
                tell(&parsed(data)?);
            }
            Ok(())
        })
    }

    /// Posts a request and passes each line, without its newline, to `take`. Returns the report.
    pub(super) fn lines(
        &self,
        path: &str,
        body: &Value,
        mut take: impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Value, Failure> {
        self.events(path, body, |name, line| if name == "lines" { take(line) } else { Ok(()) })
    }

    /// Passes the name and data of each event to `tell`, until the report, which is returned, or an error.
    fn events(
        &self,
        path: &str,
        body: &Value,
        mut tell: impl FnMut(&str, &str) -> Result<(), Failure>,
    ) -> Result<Value, Failure> {
        let mut answer = BufReader::new(self.post(path, body)?);
        let (mut name, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            let most = (LINE_BYTES_MAX + "data: \n".len()) as u64;
            let read = answer.by_ref().take(most).read_line(&mut line).map_err(Failure::could)?;
            if read == 0 {
                let why =
                    "the server ended the job before its report; see what it says, and try again";
                return Err(Failure::Could(why.to_owned()));
            }
            let line = line.trim_end_matches('\n');
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            }
            let Some(data) = line.strip_prefix("data: ") else { continue };
            match name.as_str() {
                "report" => return parsed(data),
                "error" => {
                    let said = parsed(data)?;
                    let why = said["detail"].as_str().unwrap_or(&name).to_owned();
                    let is_wrong = said["wrong_use"] == true;
                    return Err(if is_wrong { Failure::Usage(why) } else { Failure::Could(why) });
                }
                _ => tell(&name, data)?,
            }
        }
    }
}

fn whole(answer: impl Read) -> Result<Value, Failure> {
    let mut text = String::new();
    answer.take(ANSWER_BYTES_MAX).read_to_string(&mut text).map_err(Failure::could)?;
    parsed(&text)
}

fn parsed(data: &str) -> Result<Value, Failure> {
    serde_json::from_str(data).map_err(Failure::could)
}
