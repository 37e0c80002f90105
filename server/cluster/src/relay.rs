//! Relay: sends a call to another node and streams the response back.
//!
//! Owns the connections to other nodes and the threads that wait for them. Authorization was checked before.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ureq::http::{Request as Sent, Response as Got};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, BodyReader, Timeout};
use url::{Host, Url};

use super::fields::{Keeps, homeward, outward};
use super::not_here::NotHere;
use super::whereabouts::Peer;
use crate::limits::{
    NODE_ANSWER_MAX, RELAY_BYTES_MAX, RELAY_CONNECT_MAX, RELAY_SILENCE_MAX, RELAYS_MAX,
};
use recalld_common::threads::Threads;
use recalld_http_server::limits::{HEAD_BYTES_MAX, READ_BYTES_MAX};
use recalld_http_server::{Call, Head, Method, Reply, Response, StreamSender};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// TLS settings of connections to other nodes.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Root certificates in PEM, which replace the default ones.
    pub roots: Option<Vec<u8>>,
    /// True if plain HTTP may leave this machine.
    pub allow_http: bool,
}

/// Client that forwards calls.
pub struct Relay {
    agent: Agent,
    threads: Threads,
    allow_http: bool,
}

/// A call to forward.
pub struct Passed {
    /// Receiving node.
    pub peer: Peer,
    /// The call.
    pub call: Call,
    /// Responder of the call.
    pub reply: Reply,
    /// Effective client address.
    pub from: IpAddr,
    /// Additional fields to forward.
    pub keeps: Keeps,
    /// True if the response is an endless stream, which lasts until one side closes the connection.
    pub listens: bool,
    /// Builds the error response to the client.
    pub refused: Box<dyn Fn(NotHere) -> Response + Send>,
}

impl Relay {
    /// Creates a relay with a connection pool.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub fn new(trust: &Trust) -> Result<Self, String> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            // Add no defaults: only the client's own fields are forwarded.
            .user_agent("")
            .accept("")
            .accept_encoding("")
            .allow_non_standard_methods(true)
            .max_response_header_size(HEAD_BYTES_MAX)
            .max_idle_connections_per_host(RELAYS_MAX)
            .max_idle_connections(RELAYS_MAX)
            .timeout_resolve(Some(RELAY_CONNECT_MAX))
            .timeout_connect(Some(RELAY_CONNECT_MAX))
            .timeout_per_read(Some(RELAY_SILENCE_MAX))
            .timeout_per_write(Some(RELAY_SILENCE_MAX))
            .tls_config(TlsConfig::builder().root_certs(roots(trust)?).build())
            .build();
        let threads = Threads::new("relay", RELAYS_MAX);
        Ok(Self { agent: config.into(), threads, allow_http: trust.allow_http })
    }

    /// Forwards a call on a thread of its own. Never blocks.
    pub fn pass(&self, passed: Passed) {
        let Passed { peer, call, reply, from, keeps, listens, refused } = passed;
        let refuse = |reply: Reply, why: NotHere| reply.send((*refused)(why));
        let Some(url) = peer.url.clone() else { return refuse(reply, NotHere::WrittenBy(peer)) };
        if let Err(why) = self.check(&url) {
            let node = &peer.node;
            return refuse(reply, NotHere::Nowhere(format!("Node {node} cannot be asked: {why}")));
        }
        let Some(place) = self.threads.place() else { return refuse(reply, NotHere::Busy) };
        let agent = self.agent.clone();
        place.run(move || match asked(&agent, &url, &call, from, keeps).and_then(came) {
            Ok(Came::Whole(answer)) => reply.send(answer),
            Ok(Came::Stream(head, mut body)) => {
                let stream =
                    if listens { reply.stream(head) } else { reply.answer_by_stream(head) };
                stream_through(&mut body, stream);
            }
            Err(error) => {
                tell(&peer, &url, &error);
                reply.send(refused(match was_asked(&error) {
                    false => NotHere::Unreached(peer),
                    true => NotHere::Lost(peer),
                }));
            }
        });
    }

    /// Sends a request of this node to another one and waits for its response, of at most `most` bytes.
    ///
    /// # Errors
    /// No response was received; the request may have been executed.
    pub fn ask(
        &self,
        peer: &Peer,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
        most: u64,
    ) -> Result<Got<Vec<u8>>, String> {
        let url = peer.url.as_deref().ok_or("does not say where it is (`remote.node_url`)")?;
        self.check(url)?;
        let at = format!("{}{path}", url.trim_end_matches('/'));
        let mut sent = self.agent.post(&at);
        for (name, value) in fields {
            sent = sent.header(*name, *value);
        }
        let sent = sent.config().timeout_global(Some(NODE_ANSWER_MAX)).build();
        let answer = sent.send(body).map_err(|error| format!("did not answer: {error}"))?;
        let (head, body) = answer.into_parts();
        let read = body.into_with_config().limit(most).read_to_vec();
        let read = read.map_err(|error| format!("its answer broke off: {error}"))?;
        Ok(Got::from_parts(head, read))
    }

    /// Checks that clients' credentials may be sent to this address.
    fn check(&self, url: &str) -> Result<(), &'static str> {
        let Ok(at) = Url::parse(url) else { return Err("its address is none") };
        let is_near = match at.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => {
                address.is_loopback()
                    || address.to_ipv4_mapped().is_some_and(|v4: Ipv4Addr| v4.is_loopback())
            }
            None => return Err("its address names no host"),
        };
        match at.scheme() {
            "https" => Ok(()),
            "http" if is_near || self.allow_http => Ok(()),
            "http" => Err("its address is of plain HTTP, and `remote.allow_http` is off"),
            _ => Err("its address must be of http or https"),
        }
    }
}

/// Root certificates for connections to other nodes.
fn roots(trust: &Trust) -> Result<RootCerts, String> {
    let Some(pem) = &trust.roots else { return Ok(RootCerts::WebPki) };
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        match item.map_err(|error| format!("the certificates cannot be read: {error}"))? {
            PemItem::Certificate(certificate) => found.push(certificate),
            _ => return Err("there is something else than certificates".to_owned()),
        }
    }
    if found.is_empty() {
        return Err("there are no certificates".to_owned());
    }
    Ok(RootCerts::Specific(Arc::new(found)))
}

/// Sends a call and waits for the head of its response.
fn asked(
    agent: &Agent,
    url: &str,
    call: &Call,
    from: IpAddr,
    keeps: Keeps,
) -> Result<Got<Body>, ureq::Error> {
    let request = &call.request;
    // The front end removes the body for HEAD, but needs its length.
    let method = match &request.method {
        Method::Head => "GET",
        other => other.as_str(),
    };
    let mut sent = Sent::builder()
        .method(method)
        .uri(format!("{}{}", url.trim_end_matches('/'), request.target))
        .body(())
        .map_err(ureq::Error::Http)?;
    *sent.headers_mut() = outward(request, (&call.id.to_string(), from), keeps);
    if request.body.is_empty() && request.method != Method::Post {
        return agent.run(sent);
    }
    agent.run(sent.map(|()| &request.body[..]))
}

/// Returns true if the call may have arrived. Before a connection is established, nothing is sent.
fn was_asked(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect)
        | ureq::Error::Tls(_)
        | ureq::Error::Rustls(_)
        | ureq::Error::BadUri(_)
        | ureq::Error::Http(_) => false,
        ureq::Error::Io(error) => !matches!(
            error.kind(),
            std::io::ErrorKind::ConnectionRefused
                | std::io::ErrorKind::HostUnreachable
                | std::io::ErrorKind::NetworkUnreachable
                | std::io::ErrorKind::AddrNotAvailable
        ),
        _ => true,
    }
}

fn tell(peer: &Peer, url: &str, error: &ureq::Error) {
    let fields = [
        ("node", Value::Text(&peer.node)),
        ("url", Value::Text(&url)),
        ("why", Value::Text(error)),
    ];
    log::event(Level::Warn, "a call could not be passed on", &fields);
}

/// A response: whole, or its head and a stream.
enum Came {
    Whole(Response),
    Stream(Head, BodyReader<'static>),
}

/// Reads a response whole if its length is known and at most `RELAY_BYTES_MAX`; otherwise returns a stream.
fn came(answer: Got<Body>) -> Result<Came, ureq::Error> {
    let (got, body) = answer.into_parts();
    let head = homeward(got.status.as_u16(), &got.headers);
    let is_bodiless = matches!(head.status, 204 | 304);
    let length = if is_bodiless { Some(0) } else { body.content_length() };
    let mut body = body.into_reader();
    let Some(length) = length.filter(|length| *length <= RELAY_BYTES_MAX) else {
        return Ok(Came::Stream(head, body));
    };
    let mut whole = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    body.read_to_end(&mut whole)?;
    Ok(Came::Whole(Response { head, body: whole }))
}

/// Streams a body at the pace of the receiver. A read error aborts the stream, so that no truncated body looks
/// complete.
fn stream_through(body: &mut impl Read, stream: StreamSender) {
    let mut piece = vec![0; READ_BYTES_MAX];
    loop {
        match body.read(&mut piece) {
            Ok(0) => return,
            Ok(read) => {
                if stream.send_in_turn(&piece[..read]).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return stream.break_off(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_go_over_tls_or_stay_on_this_machine() {
        let relay = |allow_http| Relay::new(&Trust { allow_http, ..Trust::default() }).unwrap();
        for (url, is_good) in [
            ("https://b.example", true),
            ("http://127.0.0.1:8789", true),
            ("http://[::1]:8789", true),
            ("http://localhost:8789", true),
            ("http://localhost.b.example", false),
            ("http://10.0.0.2:8789", false),
            ("http://b.example", false),
        ] {
            assert_eq!(relay(false).check(url).is_ok(), is_good, "{url}");
            assert!(relay(true).check(url).is_ok(), "{url}");
        }
        for url in ["ftp://b.example", "b.example", "", "file:///b"] {
            assert!(relay(true).check(url).is_err(), "{url}");
        }
    }

    #[test]
    fn certificates_are_certificates() {
        let with =
            |pem: &[u8]| Relay::new(&Trust { roots: Some(pem.to_vec()), ..Trust::default() }).err();
        assert_eq!(with(b"").as_deref(), Some("there are no certificates"));
        let pair = rcgen::generate_simple_self_signed(vec!["b".to_owned()]).unwrap();
        assert_eq!(with(pair.cert.pem().as_bytes()), None);
        let why = with(pair.signing_key.serialize_pem().as_bytes());
        assert_eq!(why.as_deref(), Some("there is something else than certificates"));
    }
}
