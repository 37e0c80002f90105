//! Probe of the MCP service as a client, with a remedy for each failure.
//!
//! The probe begins a session, lists the tools and recalls something. If the service requires sign-in, the probe
//! fetches the discovery documents instead. Must not depend on the configured client.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Response;
use ureq::{Body, Error};

use recalld_common::counted::counted;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Timeout of one request.
    const TIME_MAX: Duration = Duration::from_secs(10);
    /// Longest accepted response; a longer one is not from recalld.
    const ANSWER_BYTES_MAX: u64 = 8 << 20;
    /// Largest number of pages of the tool list.
    const PAGES_MAX: usize = 64;
}

/// The MCP protocol version of the probe.
const REVISION: &str = "2025-06-18";
/// The recall tools; the probe calls the first listed one. The second belongs to small tool lists.
const RECALLING: [&str; 2] = ["retrieval_arbitrate_tool", "brain_recall"];
/// The query; the probe ignores its results.
const QUESTION: &str = "what is on record?";

/// An MCP client of the service.
pub(super) struct Tried<'a> {
    agent: ureq::Agent,
    url: &'a str,
    bearer: Option<&'a str>,
    /// Advertised address of the server on this machine's data directory.
    announced: Option<&'a str>,
    session: Option<String>,
    asked: u64,
}

impl<'a> Tried<'a> {
    pub(super) fn new(url: &'a str, bearer: Option<&'a str>, announced: Option<&'a str>) -> Self {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIME_MAX))
            .http_status_as_error(false)
            .max_redirects(0);
        // A client reaches its own machine without a proxy.
        let is_local = !url.starts_with("https://");
        let agent = if is_local { agent.proxy(None) } else { agent };
        Self { agent: agent.build().into(), url, bearer, announced, session: None, asked: 0 }
    }

    /// Runs the probe. Returns the findings in a sentence, or the fault with its remedy.
    pub(super) fn run(mut self) -> Result<String, String> {
        let begin = json!({
            "protocolVersion": REVISION, "capabilities": {},
            "clientInfo": {"name": "recalld-connect", "version": env!("CARGO_PKG_VERSION")},
        });
        let answer = self.send("initialize", begin)?;
        if answer.status().as_u16() == 401 {
            return self.signing_in(&answer);
        }
        let session = answer.headers().get("Mcp-Session-Id").and_then(|value| value.to_str().ok());
        let session = session.map(str::to_owned);
        let begun = self.result(answer)?;
        let Some(server) = begun["serverInfo"]["name"].as_str().map(str::to_owned) else {
            return Err(self.stranger("its answer to `initialize` names no server"));
        };
        self.session = session;
        self.notify("notifications/initialized")?;
        let tested = self.used(&server);
        self.leave();
        tested
    }

    /// Lists the tools and calls a recall tool.
    fn used(&mut self, server: &str) -> Result<String, String> {
        let (mut count, mut recalling, mut cursor) = (0, None, Value::Null);
        for _ in 0..PAGES_MAX {
            let page = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let answer = self.send("tools/list", page)?;
            let mut listed = self.result(answer)?;
            let tools = listed["tools"].as_array().map_or(&[][..], Vec::as_slice);
            count += tools.len();
            let is_there = |name: &&str| tools.iter().any(|tool| tool["name"] == **name);
            recalling = recalling.or_else(|| RECALLING.iter().copied().find(is_there));
            cursor = listed["nextCursor"].take();
            if cursor.is_null() {
                break;
            }
        }
        let tools = counted(count, "tool");
        let Some(tool) = recalling else {
            return Err(format!(
                "{}: {server} answers, with {tools}, of which none recalls; the credential has neither the scope \
                 brain:proxy nor a plan with recall: see recalld key list WORKSPACE and recalld plan show PLAN",
                self.url
            ));
        };
        let arguments = json!({"query": QUESTION});
        let answer = self.send("tools/call", json!({"name": tool, "arguments": arguments}))?;
        let recalled = self.result(answer)?;
        if recalled["isError"] == true {
            let why = recalled["content"][0]["text"].as_str().unwrap_or("it does not say why");
            return Err(format!(
                "{}: {server} answers, with {tools}, but {tool} failed: {why}; recalld doctor looks closer",
                self.url
            ));
        }
        let items = recalled["structuredContent"]["items"].as_array().map_or(0, Vec::len);
        let found = if items == 0 { "nothing yet".to_owned() } else { counted(items, "item") };
        Ok(format!("{server} answers, with {tools}; {tool} was asked and gave {found}."))
    }

    /// Follows OAuth discovery, as a client without credentials does.
    fn signing_in(&self, refused: &Response<Body>) -> Result<String, String> {
        let url = self.url;
        let said = refused.headers().get("WWW-Authenticate").and_then(|value| value.to_str().ok());
        if self.bearer.is_some() {
            return Err(format!(
                "{url}: 401, the bearer is not taken: it is not whole, of another service, expired or revoked; see \
                 recalld key list WORKSPACE, and issue another one: recalld key issue WORKSPACE --kind bearer"
            ));
        }
        let document = said.and_then(|said| said.split("resource_metadata=\"").nth(1));
        let Some(document) = document.and_then(|rest| rest.split('"').next()) else {
            return Err(format!(
                "{url}: 401, it wants credentials and does not say where to sign in; test with a bearer: \
                 --bearer-env NAME, or see that --public-url is set where it is served"
            ));
        };
        let mend = "serve with --public-url as clients reach it, and see that whatever stands before it hands \
                    /.well-known/ on";
        let resource = self.document(document).map_err(|why| {
            format!("{url}: it asks to sign in, but {document} cannot be fetched: {why}; {mend}")
        })?;
        let own = url.split('?').next().unwrap_or(url);
        if resource["resource"] != own {
            return Err(format!(
                "{url}: it asks to sign in for {}, and clients take that for another service; use that address, \
                 or {mend}",
                resource["resource"]
            ));
        }
        let issuer = resource["authorization_servers"][0].as_str().unwrap_or_default();
        let place = format!("{issuer}/.well-known/oauth-authorization-server");
        let server = self.document(&place).map_err(|why| {
            format!("{url}: it asks to sign in, but {place} cannot be fetched: {why}; {mend}")
        })?;
        match server["authorization_endpoint"].as_str() {
            Some(page) => Ok(format!("It is there, and will ask you to sign in, at {page}.")),
            None => Err(format!("{url}: {place} names no page to sign in; {mend}")),
        }
    }

    fn document(&self, at: &str) -> Result<Value, String> {
        let mut answer = self.agent.get(at).call().map_err(|error| error.to_string())?;
        match answer.status().as_u16() {
            200 => body(&mut answer).and_then(|text| {
                serde_json::from_str(&text).map_err(|_| "it is no JSON".to_owned())
            }),
            status => Err(format!("it answers {status}")),
        }
    }

    fn send(&mut self, method: &str, parameters: Value) -> Result<Response<Body>, String> {
        self.asked += 1;
        let body =
            json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters});
        self.post(&body)
    }

    fn notify(&self, method: &str) -> Result<(), String> {
        self.post(&json!({"jsonrpc": "2.0", "method": method})).map(drop)
    }

    fn post(&self, body: &Value) -> Result<Response<Body>, String> {
        let request = self
            .agent
            .post(self.url)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream");
        let request = match self.bearer {
            Some(bearer) => request.header("Authorization", format!("Bearer {bearer}")),
            None => request,
        };
        let request = match &self.session {
            Some(session) => {
                request.header("Mcp-Session-Id", session).header("MCP-Protocol-Version", REVISION)
            }
            None => request,
        };
        request.send(body.to_string()).map_err(|error| self.unreached(&error))
    }

    /// Ends the session, as clients do. If the request fails, the service's timeout ends the session.
    fn leave(&self) {
        let Some(session) = &self.session else { return };
        let request = self.agent.delete(self.url).header("Mcp-Session-Id", session);
        let request = match self.bearer {
            Some(bearer) => request.header("Authorization", format!("Bearer {bearer}")),
            None => request,
        };
        let _left = request.call();
    }

    /// Extracts the result of a response, from JSON or an event stream.
    fn result(&self, mut answer: Response<Body>) -> Result<Value, String> {
        let status = answer.status().as_u16();
        let text = body(&mut answer).map_err(|why| self.stranger(&why))?;
        let whole: Option<Value> = serde_json::from_str(&text).ok();
        if status != 200 {
            let named = ["/detail", "/error/message", "/error_description"];
            let said = whole.as_ref().and_then(|whole| {
                named.iter().find_map(|at| whole.pointer(at).and_then(Value::as_str))
            });
            return Err(self.refused(status, said));
        }
        let mut events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let event = || events.find_map(|data| serde_json::from_str(data.trim()).ok());
        let Some(mut message) = whole.or_else(event) else {
            return Err(self.stranger("its answer is no JSON"));
        };
        if let Some(why) = message["error"]["message"].as_str() {
            return Err(format!("{}: it refuses: {why}; recalld doctor looks closer", self.url));
        }
        Ok(message["result"].take())
    }

    /// The message for a status other than 200.
    fn refused(&self, status: u16, said: Option<&str>) -> String {
        let detail = said.map_or_else(String::new, |said| format!(" ({said})"));
        let advice = match status {
            401 => {
                "the bearer is not taken; issue another one: recalld key issue WORKSPACE --kind bearer"
            }
            403 => {
                "the local listener answers programs of this machine alone, asked by its own address; others use \
                 the hosted one"
            }
            429 => "too many calls for the plan's rate; wait a moment and test again",
            500 => "it failed; its log says why, and recalld doctor looks closer",
            502 | 504 => {
                "what stands before the service does not reach it; start it, or mend the way there"
            }
            503 => "it has too much to do, or a job holds it; wait a moment, then recalld doctor",
            _ => return self.stranger(&format!("it answers {status}{detail}")),
        };
        format!("{}: {status}{detail}: {advice}", self.url)
    }

    /// The message for a failed connection.
    fn unreached(&self, error: &Error) -> String {
        let url = self.url;
        let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        match error {
            Error::Io(error) if is_refused(error) => self.absent("nothing listens there"),
            Error::ConnectionFailed => self.absent("nothing listens there"),
            Error::HostNotFound => {
                format!(
                    "{url}: there is no host of that name; see how it is written, and its DNS entry"
                )
            }
            Error::Timeout(_) => format!(
                "{url}: no answer within {} s; see whether a firewall, or another program with that port, is in \
                 between",
                TIME_MAX.as_secs()
            ),
            Error::Tls(_) | Error::Rustls(_) => format!(
                "{url}: its certificate is not taken: {error}; clients want one of an authority that they know, for \
                 this name, with its chain (recalld doctor --config FILE looks at it)"
            ),
            other => self.absent(&other.to_string()),
        }
    }

    /// The message for an answer that is not from recalld.
    fn stranger(&self, why: &str) -> String {
        self.absent(&format!("what answers there does not speak MCP as recalld does: {why}"))
    }

    /// The message if recalld is not at this URL: it is not running, or listens elsewhere.
    fn absent(&self, why: &str) -> String {
        let url = self.url;
        let asked = url.replacen("//localhost:", "//127.0.0.1:", 1);
        let elsewhere = self.announced.filter(|local| !asked.starts_with(&format!("{local}/mcp")));
        match elsewhere {
            Some(local) => format!(
                "{url}: {why}; the service of these data listens at {local}/mcp: leave --url out, or give that"
            ),
            None => format!(
                "{url}: {why}; start the service (recalld serve), or give its address: --url URL, whose path is /mcp"
            ),
        }
    }
}

fn body(answer: &mut Response<Body>) -> Result<String, String> {
    let read = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
    read.map_err(|error| error.to_string())
}
