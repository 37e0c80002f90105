//! Blocking HTTP client, one request at a time. Owns connections, timeouts and response limits. Does not interpret a
//! status and does not retry.
//!
//! Error messages never contain the URL, which may contain a signature.

mod tcp;

use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::http::{HeaderMap, Method, Request, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, RustlsConnector};
use ureq::{Agent, Body, Error, Timeout};

use crate::counts::{Counts, Op, Outcome};
use crate::limits::{
    ANSWER_WAIT, CERTIFICATES_BYTES_MAX, CERTIFICATES_MAX, CONNECT_WAIT, ERROR_BYTES_MAX,
    IDLE_CONNECTIONS_MAX, IDLE_MAX, SLOWEST_BYTES_PER_SECOND,
};

/// Client of one or more hosts.
pub(crate) struct Http {
    agent: Agent,
    counts: Arc<Counts>,
}

pub(crate) struct Ask<'a> {
    /// Operation under which the request is counted.
    pub(crate) op: Op,
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// Body of PUT and POST, sent even if empty.
    pub(crate) body: &'a [u8],
    /// Maximum bytes of a successful response; a longer one is an error.
    pub(crate) most: u64,
}

/// A response. The body of an error response is truncated at [`ERROR_BYTES_MAX`].
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Error of a missing or incomplete response.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    /// Message for users.
    pub(crate) why: String,
    /// True if the request may have been executed.
    #[cfg_attr(
        not(feature = "etcd"),
        expect(dead_code, reason = "objects are told by their state")
    )]
    pub(crate) may_be_done: bool,
    /// True if a retry may succeed.
    pub(crate) may_pass: bool,
}

impl Answer {
    pub(crate) fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Body as text; invalid UTF-8 is replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").finish_non_exhaustive()
    }
}

impl Http {
    /// Creates a client that trusts the certificates of `ca_file`, or the default ones. If `by_proxy`, the client uses
    /// the proxy of the environment.
    ///
    /// # Errors
    /// The file cannot be read or parsed.
    pub(crate) fn new(
        ca_file: Option<&Path>,
        by_proxy: bool,
        counts: Arc<Counts>,
    ) -> Result<Self, String> {
        let roots = ca_file.map_or(Ok(RootCerts::WebPki), certificates)?;
        let mut config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("recalld/", env!("CARGO_PKG_VERSION")))
            .max_idle_connections(IDLE_CONNECTIONS_MAX)
            .max_idle_connections_per_host(IDLE_CONNECTIONS_MAX)
            .max_idle_age(IDLE_MAX)
            .timeout_resolve(Some(CONNECT_WAIT))
            .timeout_connect(Some(CONNECT_WAIT))
            .timeout_per_read(Some(ANSWER_WAIT))
            .timeout_per_write(Some(ANSWER_WAIT));
        if !by_proxy {
            config = config.proxy(None);
        }
        let connector =
            ().chain(ConnectProxyConnector::default())
                .chain(tcp::Connects)
                .chain(RustlsConnector::default());
        let agent = Agent::with_parts(config.build(), connector, DefaultResolver::default());
        Ok(Self { agent, counts })
    }

    /// Sends a request once.
    pub(crate) fn ask(&self, ask: &Ask<'_>) -> Result<Answer, NoAnswer> {
        let began = Instant::now();
        let answer = self.send(ask).and_then(|answer| read(answer, ask.most));
        let (outcome, received) = match &answer {
            Ok(answer) => (Outcome::of(answer.status), answer.body.len()),
            Err(_) => (Outcome::Silent, 0),
        };
        self.counts.note(ask.op, outcome, ask.body.len(), received, began.elapsed());
        answer
    }

    fn send(&self, ask: &Ask<'_>) -> Result<Response<Body>, NoAnswer> {
        let mut request = Request::builder().method(ask.method.clone()).uri(ask.url);
        for (name, value) in ask.headers {
            request = request.header(*name, *value);
        }
        let bytes = ask.most.max(ask.body.len() as u64);
        let wait = ANSWER_WAIT + Duration::from_secs(bytes / SLOWEST_BYTES_PER_SECOND);
        let has_body = ask.method == Method::PUT || ask.method == Method::POST;
        let answer = if has_body {
            let request = request.body(ask.body).map_err(unsendable)?;
            let request = self.agent.configure_request(request).timeout_global(Some(wait)).build();
            self.agent.run(request)
        } else {
            let request = request.body(()).map_err(unsendable)?;
            let request = self.agent.configure_request(request).timeout_global(Some(wait)).build();
            self.agent.run(request)
        };
        answer.map_err(|error| no_answer(&error))
    }
}

fn read(answer: Response<Body>, most: u64) -> Result<Answer, NoAnswer> {
    let (head, body) = answer.into_parts();
    let is_good = head.status.is_success();
    let most = if is_good { most } else { ERROR_BYTES_MAX };
    let mut bytes = Vec::new();
    let read = body.into_reader().take(most.saturating_add(1)).read_to_end(&mut bytes);
    let cut = |why: String, may_pass| NoAnswer { why, may_be_done: true, may_pass };
    match read {
        Err(error) if is_good => {
            return Err(cut(format!("its answer was cut off ({error})"), true));
        }
        // The status of an error response is sufficient.
        Err(_) | Ok(_) => {}
    }
    if bytes.len() as u64 > most {
        if is_good {
            return Err(cut(format!("its answer has more than {most} bytes"), false));
        }
        bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: bytes })
}

/// Discards the error's own text, which contains the URL.
fn unsendable(_: ureq::http::Error) -> NoAnswer {
    let why = "the request cannot be sent: its address or a header is not valid".into();
    NoAnswer { why, may_be_done: false, may_pass: false }
}

fn no_answer(error: &Error) -> NoAnswer {
    let (why, may_be_done, may_pass) = match error {
        Error::HostNotFound => ("its host has no address".into(), false, true),
        Error::ConnectionFailed => ("it cannot be reached".into(), false, true),
        Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            (format!("it cannot be reached within {} s", CONNECT_WAIT.as_secs()), false, true)
        }
        Error::Timeout(_) => ("it did not answer in time".into(), true, true),
        Error::Io(error) => {
            let is_refused = error.kind() == ErrorKind::ConnectionRefused;
            (format!("the connection failed ({error})"), !is_refused, true)
        }
        Error::Rustls(error) => (format!("TLS failed ({error})"), true, false),
        Error::Tls(why) => (format!("TLS failed ({why})"), true, false),
        Error::Protocol(_) => ("what it answered is not HTTP".into(), true, true),
        Error::BadUri(_) => ("its address is not valid".into(), false, false),
        _ => ("the request failed".into(), true, true),
    };
    NoAnswer { why, may_be_done, may_pass }
}

fn certificates(file: &Path) -> Result<RootCerts, String> {
    let wrong = |why: &str| format!("{}: {why}", file.display());
    let mut pem = Vec::new();
    let opened = std::fs::File::open(file).map_err(|error| wrong(&error.to_string()))?;
    let read = opened.take(CERTIFICATES_BYTES_MAX + 1).read_to_end(&mut pem);
    let bytes = read.map_err(|error| wrong(&error.to_string()))?;
    if bytes as u64 > CERTIFICATES_BYTES_MAX {
        return Err(wrong(&format!("it has more than {CERTIFICATES_BYTES_MAX} bytes")));
    }
    let mut found: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&pem).take(CERTIFICATES_MAX) {
        match item {
            Ok(PemItem::Certificate(certificate)) => found.push(certificate),
            Ok(_) => {}
            Err(_) => return Err(wrong("it is not PEM")),
        }
    }
    if found.is_empty() {
        return Err(wrong("there is no certificate in it; a file of PEM certificates is wanted"));
    }
    Ok(RootCerts::new_with_certs(&found))
}
