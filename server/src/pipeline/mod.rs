//! The whole life of one call, in order: parse, authenticate, admit, execute, render.
//!
//! Each stage takes the previous one's type and gives the next or a [`Refusal`]. A [`Caller`] is
//! made here, from a credential or from the local listener, so nothing behind this point can be
//! reached without one.

mod authenticate;
mod route;

use std::sync::Arc;
use std::time::Instant;

use crate::limits::RETRY_AFTER_SECONDS;
use crate::mcp;
use crate::net::{Call, ListenerId, Reply, Response, Service};
use crate::operator;
use crate::parts::{Caller, Parts};
use crate::rest;

pub use authenticate::{Gate, check_local};
pub use route::{ROUTES, Route, Target};

/// The listener for the operator of this machine.
pub const LOCAL: ListenerId = ListenerId(0);
/// The listener for tenants.
pub const HOSTED: ListenerId = ListenerId(1);

/// Why a call is not answered: the status and body that say so.
#[derive(Debug)]
pub struct Refusal(Response);

impl Refusal {
    /// `{"detail": ...}` with a status.
    pub fn new(status: u16, detail: &str) -> Self {
        let body = serde_json::json!({"detail": detail}).to_string().into_bytes();
        Self(Response::json(status, body))
    }

    /// The same with one more header.
    #[must_use]
    pub fn with(self, name: &'static str, value: impl Into<String>) -> Self {
        Self(self.0.header(name, value.into()))
    }

    /// 503: something that every governed call needs is not there now.
    pub fn unavailable(detail: &str) -> Self {
        Self::new(503, detail).with("Retry-After", RETRY_AFTER_SECONDS.to_string())
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        refusal.0
    }
}

/// The service, as the network front end sees it.
pub struct Pipeline {
    parts: Arc<Parts>,
    local_port: u16,
}

impl Pipeline {
    /// Serves calls with these parts. `local_port` is the local listener's; calls that come from
    /// it must name it.
    pub fn new(parts: Arc<Parts>, local_port: u16) -> Self {
        Self { parts, local_port }
    }

    /// Parse, authenticate, admit.
    fn admitted(&self, call: &Call) -> Result<(&'static Target, Caller), Refusal> {
        if call.listener == LOCAL {
            check_local(call, self.local_port)?;
        }
        let route = route::find(call)?;
        let caller = authenticate::caller(&self.parts, route.gate, call)?;
        Ok((&route.target, caller))
    }
}

impl Service for Pipeline {
    fn serve(&self, call: Call, reply: Reply) {
        match self.admitted(&call) {
            Err(refusal) => reply.send(refusal.into()),
            Ok((target, caller)) => match target {
                Target::Health => reply.send(rest::health(&self.parts)),
                Target::Rest(run) => {
                    let deadline = Instant::now() + self.parts.call_time_max;
                    let answer = run(&rest::Ask {
                        parts: &self.parts,
                        caller: &caller,
                        call: &call,
                        deadline,
                    });
                    reply.send(answer.unwrap_or_else(Response::from));
                }
                Target::Mcp => mcp::serve(&self.parts, &caller, &call, reply),
                Target::OperatorIngest => operator::ingest(&self.parts, &caller, &call, reply),
                Target::OperatorImport => operator::import(&self.parts, &caller, &call, reply),
                Target::OperatorExport => operator::export(&self.parts, &caller, reply),
                Target::OperatorJob(run) => run(&self.parts, &caller, &call, reply),
            },
        }
    }

    fn quick(&self, call: &Call) -> Option<Response> {
        let plain = call.listener == HOSTED || check_local(call, self.local_port).is_ok();
        (plain && route::is_health(call)).then(|| rest::health(&self.parts))
    }

    /// A job of one who may ask for it; everybody else is refused by a worker, and takes no thread or
    /// place in a queue from the operator.
    fn takes_long(&self, call: &Call) -> bool {
        route::is_job(call) && self.admitted(call).is_ok()
    }
}
