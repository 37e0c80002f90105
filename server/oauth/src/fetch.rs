//! Fetches a stranger's document with an SSRF guard.
//!
//! A host name is resolved once, every address must be public, and the connection goes to a resolved address. No
//! redirects, no proxy, bounded size and time.

use std::fmt;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use ureq::http::{HeaderMap, Uri, header};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Timeout};

use super::addresses::is_public;

/// Maximum document size in bytes.
const DOCUMENT_BYTES_MAX: usize = 64 * 1024;
/// Timeout of a fetch, from name resolution to the last byte.
pub(super) const FETCH_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum number of concurrent name lookups. A system lookup may outlast its fetch; beyond this number, no lookup
/// starts.
const LOOKUPS_MAX: usize = 16;
/// Maximum number of addresses of a name that are checked and may be tried.
const ADDRESSES_MAX: usize = 16;
/// Maximum size of a response head in bytes.
const ANSWER_HEAD_BYTES_MAX: usize = 16 * 1024;

/// A fetched document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The `Content-Type`; empty if missing.
    pub content_type: String,
    /// Freshness lifetime from `Cache-Control`, in seconds.
    pub max_age_seconds: Option<u64>,
    /// The document, at most `DOCUMENT_BYTES_MAX` bytes.
    pub body: Vec<u8>,
}

/// Reason for a failed fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchFault {
    /// The name resolves to this address, which is not public.
    NotPublic(IpAddr),
    /// The response status is not 200.
    Status(u16),
    /// The document is too long.
    TooLong,
    /// The fetch timed out.
    TooSlow,
    /// Too many fetches or lookups are running.
    Busy,
    /// No response, for this reason.
    Unreachable(String),
}

/// For the log only: shown to a stranger, this text would reveal names inside the private network.
impl fmt::Display for FetchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPublic(address) => {
                write!(f, "its host has the address {address}, which is not public")
            }
            Self::Status(status) => write!(f, "it answered {status}, wanted is 200"),
            Self::TooLong => write!(f, "it has more than {DOCUMENT_BYTES_MAX} bytes"),
            Self::TooSlow => write!(f, "it took more than {} s", FETCH_TIME_MAX.as_secs()),
            Self::Busy => f.write_str("too many documents are being fetched; try again"),
            Self::Unreachable(why) => write!(f, "its host cannot be reached: {why}"),
        }
    }
}

impl FetchFault {
    /// Returns true if the document no longer exists or is too long. After any other error, the document may still
    /// exist.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Status(404 | 410) | Self::TooLong)
    }

    /// Returns true if a retry may succeed. A non-public host counts as transient, to be indistinguishable from an
    /// unreachable host.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Status(status) => *status == 429 || *status >= 500,
            Self::TooLong => false,
            Self::NotPublic(_) | Self::TooSlow | Self::Busy | Self::Unreachable(_) => true,
        }
    }
}

impl std::error::Error for FetchFault {}

/// A fetcher of documents.
pub trait Fetch: Send + Sync {
    /// Returns the document at `url`.
    ///
    /// # Errors
    /// The document is unavailable.
    fn fetch(&self, url: &str) -> Result<Fetched, FetchFault>;
}

/// Fetcher over HTTPS from public addresses.
#[derive(Debug)]
pub(crate) struct HttpFetch {
    agent: Agent,
}

impl Default for HttpFetch {
    fn default() -> Self {
        Self::within(is_public, true, FETCH_TIME_MAX)
    }
}

impl HttpFetch {
    fn within(is_allowed: fn(IpAddr) -> bool, https_only: bool, time_max: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(https_only)
            // A proxy would resolve names itself, bypassing the guard.
            .proxy(None)
            .max_redirects(0)
            .max_response_header_size(ANSWER_HEAD_BYTES_MAX)
            // No connection is reused, so that each fetch connects to an address checked for this fetch.
            .max_idle_connections(0)
            .timeout_global(Some(time_max))
            .user_agent(concat!("recalld/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .build();
        let guard = Guard { is_allowed, lookups: Arc::default() };
        Self { agent: Agent::with_parts(config, DefaultConnector::default(), guard) }
    }
}

impl Fetch for HttpFetch {
    fn fetch(&self, url: &str) -> Result<Fetched, FetchFault> {
        let mut response = self.agent.get(url).call().map_err(fault)?;
        if response.status().as_u16() != 200 {
            return Err(FetchFault::Status(response.status().as_u16()));
        }
        let content_type = text(response.headers(), &header::CONTENT_TYPE);
        let max_age_seconds = max_age(&text(response.headers(), &header::CACHE_CONTROL));
        let mut body = Vec::new();
        let mut bounded = response.body_mut().as_reader().take(DOCUMENT_BYTES_MAX as u64 + 1);
        bounded.read_to_end(&mut body).map_err(|error| fault(error.into()))?;
        if body.len() > DOCUMENT_BYTES_MAX {
            return Err(FetchFault::TooLong);
        }
        Ok(Fetched { content_type, max_age_seconds, body })
    }
}

fn text(headers: &HeaderMap, name: &header::HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// The `max-age` of a `Cache-Control` value (RFC 9111, section 5.2); 0 for `no-store` and `no-cache`.
fn max_age(cache_control: &str) -> Option<u64> {
    let directives = || cache_control.split(',').map(|it| it.trim().to_ascii_lowercase());
    if directives().any(|it| it == "no-store" || it == "no-cache") {
        return Some(0);
    }
    directives().find_map(|it| it.strip_prefix("max-age=")?.parse().ok())
}

fn fault(error: ureq::Error) -> FetchFault {
    match error {
        ureq::Error::Timeout(_) => FetchFault::TooSlow,
        ureq::Error::Other(other) => match other.downcast::<FetchFault>() {
            Ok(fault) => *fault,
            Err(other) => FetchFault::Unreachable(other.to_string()),
        },
        other => FetchFault::Unreachable(other.to_string()),
    }
}

/// A resolver that rejects names with a disallowed address.
#[derive(Debug)]
struct Guard {
    is_allowed: fn(IpAddr) -> bool,
    lookups: Arc<AtomicUsize>,
}

impl Resolver for Guard {
    fn resolve(
        &self,
        uri: &Uri,
        _: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port =
            uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
        let addresses = self.look_up(host, port, *timeout.after)?;
        // A name with any non-public address is rejected: a mix of public and private addresses is an attack.
        if let Some(other) = addresses.iter().find(|address| !(self.is_allowed)(address.ip())) {
            return Err(ureq::Error::Other(Box::new(FetchFault::NotPublic(other.ip()))));
        }
        let mut resolved = self.empty();
        addresses.into_iter().for_each(|address| resolved.push(address));
        if resolved.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(resolved) }
    }
}

impl Guard {
    /// Resolves a name. The system's lookup cannot be cancelled, so each lookup has a thread of its own, at most
    /// [`LOOKUPS_MAX`].
    fn look_up(
        &self,
        host: String,
        port: u16,
        time_max: Duration,
    ) -> Result<Vec<SocketAddr>, ureq::Error> {
        let Some(seat) = Seat::take(&self.lookups, LOOKUPS_MAX) else {
            return Err(ureq::Error::Other(Box::new(FetchFault::Busy)));
        };
        let (tell, told) = sync_channel(1);
        let look_up = move || {
            let found = (host.as_str(), port).to_socket_addrs();
            let found = found.map(|all| all.take(ADDRESSES_MAX).collect::<Vec<_>>());
            drop(seat);
            // After a timeout, the receiver is gone.
            tell.send(found).unwrap_or_default();
        };
        std::thread::Builder::new().name("look-up".into()).spawn(look_up)?;
        match told.recv_timeout(time_max) {
            Ok(found) => Ok(found?),
            Err(RecvTimeoutError::Timeout) => Err(ureq::Error::Timeout(Timeout::Resolve)),
            Err(RecvTimeoutError::Disconnected) => Err(ureq::Error::HostNotFound),
        }
    }
}

/// A permit from a bounded number, released on drop.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    /// Acquires a permit if fewer than `max` are taken.
    fn take(taken: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let one_more = |count| if count < max { Some(count + 1) } else { None };
        let is_free = taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        is_free.is_ok().then(|| Self(Arc::clone(taken)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn anywhere(_: IpAddr) -> bool {
        true
    }

    /// Serves one request with `answer`. Returns the URL.
    fn serve(answer: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = format!("http://{}/client", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            // The client may close the connection before the end.
            stream.write_all(&answer).unwrap_or_default();
            // The connection stays open until the client closes it, so that only the length marks the end.
            stream.read_to_end(&mut Vec::new()).unwrap_or_default();
        });
        at
    }

    fn fetched(answer: &[u8]) -> Result<Fetched, FetchFault> {
        HttpFetch::within(anywhere, false, FETCH_TIME_MAX).fetch(&serve(answer.to_vec()))
    }

    fn answer(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{fields}\r\n");
        [head.as_bytes(), body].concat()
    }

    #[test]
    fn a_document_is_fetched_with_what_is_said_of_it() {
        let fields = "Content-Type: application/json\r\nCache-Control: private, max-age=60\r\n";
        let wanted = Fetched {
            content_type: "application/json".into(),
            max_age_seconds: Some(60),
            body: b"{}".to_vec(),
        };
        assert_eq!(fetched(&answer("200 OK", fields, b"{}")), Ok(wanted));
    }

    #[test]
    fn a_redirect_is_not_followed() {
        let fields = "Location: http://127.0.0.1:1/\r\n";
        for (status, number) in [("302 Found", 302), ("308 Permanent Redirect", 308)] {
            let found = fetched(&answer(status, fields, b""));
            assert_eq!(found, Err(FetchFault::Status(number)));
        }
        assert_eq!(fetched(&answer("404 Not Found", "", b"{}")), Err(FetchFault::Status(404)));
    }

    #[test]
    fn a_document_has_a_bound() {
        let long = fetched(&answer("200 OK", "", &vec![b' '; DOCUMENT_BYTES_MAX]));
        assert_eq!(long.unwrap().body.len(), DOCUMENT_BYTES_MAX);
        let longer = fetched(&answer("200 OK", "", &vec![b' '; DOCUMENT_BYTES_MAX + 1]));
        assert_eq!(longer, Err(FetchFault::TooLong));
        let head = format!("X-Long: {}\r\n", "x".repeat(ANSWER_HEAD_BYTES_MAX));
        let headed = fetched(&answer("200 OK", &head, b"{}"));
        assert!(matches!(headed, Err(FetchFault::Unreachable(_))), "{headed:?}");
    }

    #[test]
    fn who_does_not_answer_in_time_is_given_up() {
        let short = HttpFetch::within(anywhere, false, Duration::from_millis(50));
        assert_eq!(short.fetch(&serve(Vec::new())), Err(FetchFault::TooSlow));
        let half = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_vec();
        assert_eq!(short.fetch(&serve(half)), Err(FetchFault::TooSlow));
    }

    #[test]
    fn nothing_is_sent_to_an_address_that_is_not_public() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let fetch = HttpFetch::within(is_public, false, FETCH_TIME_MAX);
        for host in
            ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"]
        {
            let found = fetch.fetch(&format!("http://{host}:{port}/client"));
            assert!(matches!(found, Err(FetchFault::NotPublic(_))), "{host}: {found:?}");
        }
        assert_eq!(listener.accept().map(|_| ()).unwrap_err().kind(), ErrorKind::WouldBlock);
        let plain = HttpFetch::default().fetch("http://a.example/client");
        assert!(matches!(plain, Err(FetchFault::Unreachable(_))), "{plain:?}");
    }

    #[test]
    fn seats_are_bounded_and_given_back() {
        let taken = Arc::default();
        let one = Seat::take(&taken, 2).unwrap();
        let _two = Seat::take(&taken, 2).unwrap();
        assert!(Seat::take(&taken, 2).is_none());
        drop(one);
        assert!(Seat::take(&taken, 2).is_some());
    }

    #[test]
    fn what_may_be_kept_is_read_from_the_header() {
        for (text, wanted) in [
            ("", None),
            ("public", None),
            ("max-age=5", Some(5)),
            ("Public, Max-Age=5", Some(5)),
            ("max-age=5, no-store", Some(0)),
            ("no-cache", Some(0)),
            ("max-age=-5", None),
            ("max-age=99999999999999999999999", None),
        ] {
            assert_eq!(max_age(text), wanted, "{text}");
        }
    }
}
