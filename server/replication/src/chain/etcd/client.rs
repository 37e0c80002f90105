//! Client of etcd's JSON gateway: one call after another, to one of several members. Has no knowledge of records and
//! watermarks.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use ureq::http::Method;
use zeroize::Zeroizing;

use crate::address::Coordinator;
use crate::counts::{Counts, Op};
use crate::environment::{Environment, Unusable};
use crate::http::{Answer, Ask, Http};
use crate::limits::{
    ETCD_ANSWER_BYTES_MAX, MESSAGE_CHARS_MAX, REPEAT_FOR, REPEAT_PAUSE_MIN, TRIES_MAX,
};
use crate::objects::{Away, Tried};

/// A gRPC status code, as etcd's gateway reports it.
type Code = u64;
/// Codes of calls that had no effect and never will: invalid argument, permission denied, no such call, not signed in.
const NEVER: [Code; 4] = [3, 7, 12, UNKNOWN_USER];
/// No space: the call had no effect; there may be space later.
const NO_ROOM: Code = 8;
/// The caller has not signed in.
const UNKNOWN_USER: Code = 16;

/// Client of all members of an etcd cluster.
pub(super) struct Client {
    http: Http,
    bases: Vec<String>,
    prefix: String,
    /// Index of the member to call first.
    first: AtomicUsize,
    user: Option<(String, Zeroizing<String>)>,
    token: Mutex<Option<Zeroizing<String>>>,
}

/// Error of a call to etcd.
#[derive(Debug)]
pub(super) struct Fault {
    why: String,
    may_be_done: bool,
    may_pass: bool,
    /// True if signing in again may help; the call had no effect.
    wants_token: bool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("bases", &self.bases)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl From<Fault> for Away {
    fn from(fault: Fault) -> Self {
        Self { why: fault.why, may_pass: fault.may_pass }
    }
}

impl From<Fault> for Tried {
    fn from(fault: Fault) -> Self {
        if fault.may_be_done || fault.may_pass {
            Self::Unsure(fault.why)
        } else {
            Self::Refused(fault.why)
        }
    }
}

impl Client {
    pub(super) fn open(
        at: &Coordinator,
        ca_file: Option<&Path>,
        environment: Environment<'_>,
        counts: Arc<Counts>,
    ) -> Result<Self, Unusable> {
        let http = Http::new(ca_file, false, counts).map_err(Unusable::new)?;
        let scheme = if at.tls { "https" } else { "http" };
        let bases = at.endpoints.iter().map(|host| format!("{scheme}://{host}")).collect();
        let get = |name: &str| environment(name).filter(|value| !value.is_empty());
        let user = match (get("ETCDCTL_USER").map(Zeroizing::new), get("ETCDCTL_PASSWORD")) {
            (None, _) => None,
            (Some(name), Some(password)) => Some((name.to_string(), Zeroizing::new(password))),
            (Some(both), None) => match both.split_once(':') {
                Some((name, password)) => {
                    Some((name.to_owned(), Zeroizing::new(password.to_owned())))
                }
                None => {
                    return Err(Unusable::new(
                        "ETCDCTL_USER names a user of etcd without a password; set ETCDCTL_PASSWORD",
                    ));
                }
            },
        };
        let (first, token) = (AtomicUsize::new(0), Mutex::new(None));
        Ok(Self { http, bases, prefix: at.prefix.clone(), first, user, token })
    }

    /// Key of a name below the prefix, in the base64 of etcd's JSON.
    pub(super) fn key(&self, name: &str) -> String {
        base64(format!("{}{name}", self.prefix).as_bytes())
    }

    /// Name of a key below the prefix; `None` for other keys.
    pub(super) fn name_of<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&self.prefix)
    }

    /// Calls the preferred member. If the call had no effect and the failure may be temporary (an unreachable member,
    /// for example), the call is repeated, once per member at most: `post` has made the next member the preferred one.
    /// If etcd rejects the authentication token, the call is repeated once with a new token. Any other failure is
    /// returned.
    pub(super) fn once(&self, op: Op, path: &str, body: &Value) -> Result<Value, Fault> {
        let body = body.to_string();
        let mut fault = None;
        for _ in 0..self.bases.len() {
            match self.ask(op, path, body.as_bytes()) {
                Err(not) if not.wants_token => {
                    self.forget_token();
                    return self.ask(op, path, body.as_bytes());
                }
                // The call had no effect, so a repetition is safe.
                Err(not) if not.may_pass && !not.may_be_done => fault = Some(not),
                answer => return answer,
            }
        }
        fault.map_or_else(|| Err(nobody()), Err)
    }

    /// Repeats a call until it succeeds, a repetition cannot help, or the limits `TRIES_MAX` and `REPEAT_FOR` are
    /// reached. Only for idempotent calls.
    pub(super) fn again(&self, op: Op, path: &str, body: &Value) -> Result<Value, Away> {
        let began = Instant::now();
        let mut pause = REPEAT_PAUSE_MIN;
        let mut tries = 1;
        loop {
            let fault = match self.once(op, path, body) {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            if !fault.may_pass || tries == TRIES_MAX || began.elapsed() >= REPEAT_FOR {
                return Err(fault.into());
            }
            std::thread::sleep(pause);
            pause *= 2;
            tries += 1;
        }
    }

    fn ask(&self, op: Op, path: &str, body: &[u8]) -> Result<Value, Fault> {
        let token = self.token()?;
        let headers: Vec<(&str, &str)> =
            token.iter().map(|token| ("authorization", token.as_str())).collect();
        self.post(op, path, &headers, body)
    }

    fn post(
        &self,
        op: Op,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Value, Fault> {
        let first = self.first.load(Relaxed);
        let base = &self.bases[first % self.bases.len()];
        let (method, url) = (Method::POST, format!("{base}/v3/{path}"));
        let most = ETCD_ANSWER_BYTES_MAX;
        let ask = Ask { op, method, url: &url, headers, body, most };
        let answer = self.http.ask(&ask).map_err(|none| Fault {
            why: format!("etcd at {base}: {}", none.why),
            may_be_done: none.may_be_done,
            may_pass: none.may_pass,
            wants_token: false,
        });
        let done = answer.and_then(|answer| self.read(base, &answer));
        if done.as_ref().is_err_and(|fault| fault.may_pass && !fault.wants_token) {
            // Calls that fail at the same time move the preferred member only once.
            let next = first.wrapping_add(1);
            let _moved = self.first.compare_exchange(first, next, Relaxed, Relaxed);
        }
        done
    }

    fn read(&self, base: &str, answer: &Answer) -> Result<Value, Fault> {
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.is_good() && value.is_object() && value["error"].is_null() {
            return Ok(value);
        }
        let code = value["code"].as_u64().unwrap_or_default();
        let said = value["error"].as_str().or_else(|| value["message"].as_str());
        let said = said.unwrap_or("something that is not etcd's");
        let plain: String =
            said.chars().filter(|letter| !letter.is_control()).take(MESSAGE_CHARS_MAX).collect();
        let advice = match code {
            7 => ": this user may not do this; grant it the prefix",
            UNKNOWN_USER if self.user.is_none() => ": set ETCDCTL_USER and ETCDCTL_PASSWORD",
            NO_ROOM => ": compact and defragment it, or give it more room",
            _ if answer.status == 404 => ": is there an etcd of version 3.4 or later?",
            _ => "",
        };
        let why = format!("etcd at {base} answered {}, {plain}{advice}", answer.status);
        let is_never = NEVER.contains(&code) || answer.status == 404;
        let wants_token = code == UNKNOWN_USER && self.user.is_some();
        let may_be_done = !is_never && code != NO_ROOM;
        Err(Fault { why, may_be_done, may_pass: !is_never || wants_token, wants_token })
    }

    /// Authentication token of a call, if this etcd has users.
    fn token(&self) -> Result<Option<Zeroizing<String>>, Fault> {
        let Some((name, password)) = &self.user else { return Ok(None) };
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if token.is_none() {
            let body = Zeroizing::new(json!({"name": name, "password": **password}).to_string());
            let answer = self.post(Op::SignIn, "auth/authenticate", &[], body.as_bytes());
            let answer = answer.map_err(|fault| Fault {
                why: format!("the user {name:?} was not let in: {}", fault.why),
                may_be_done: false,
                wants_token: false,
                ..fault
            })?;
            *token = answer["token"].as_str().map(|token| Zeroizing::new(token.to_owned()));
        }
        Ok(token.clone())
    }

    fn forget_token(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn nobody() -> Fault {
    let why = "there is no member of etcd to ask".into();
    Fault { why, may_be_done: false, may_pass: false, wants_token: false }
}

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Smallest name after all names that begin with `prefix`, which ends with `/`.
pub(super) fn prefix_end(prefix: &str) -> String {
    format!("{}0", prefix.trim_end_matches('/'))
}

/// First pair of the range at index `at` in a transaction's response; null if there is none.
pub(super) fn range_of(answer: &Value, at: usize) -> &Value {
    &answer["responses"][at]["response_range"]["kvs"][0]
}

/// Parses a 64-bit number, which is text in JSON.
pub(super) fn number_of(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Value of a pair; `None` if there is no pair.
pub(super) fn bytes_of(pair: &Value) -> Option<Vec<u8>> {
    // etcd omits the field of an empty value.
    pair.is_object()
        .then(|| BASE64_STANDARD.decode(pair["value"].as_str().unwrap_or_default()).ok())?
}

/// Key of a pair.
pub(super) fn key_of(pair: &Value) -> Option<String> {
    String::from_utf8(BASE64_STANDARD.decode(pair["key"].as_str()?).ok()?).ok()
}
