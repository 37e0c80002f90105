//! The whole life of one call, in order: parse, authenticate, admit, execute, render.
//!
//! Each stage takes the previous one's type and gives the next or a [`Refusal`]. A [`Caller`] is
//! made here, from a credential or from the local listener, so nothing behind this point can be
//! reached without one.

mod authenticate;
mod meters;
pub mod refusal;
mod route;

use std::sync::Arc;
use std::time::Instant;

use crate::log::{self, Value};
use crate::mcp;
use crate::metrics::Stage;
use crate::net::{Answered, Call, Counters, ListenerId, Reply, Response, Service};
use crate::operator;
use crate::parts::{Caller, Parts};
use crate::rest;

pub use authenticate::{Gate, check_local};
pub use refusal::Refusal;
pub use route::{ROUTES, Route, Target};

use meters::Meters;

/// The listener for the operator of this machine.
pub const LOCAL: ListenerId = ListenerId(0);
/// The listener for tenants.
pub const HOSTED: ListenerId = ListenerId(1);

/// The service, as the network front end sees it.
pub struct Pipeline {
    parts: Arc<Parts>,
    local_port: u16,
    meters: Meters,
}

impl Pipeline {
    /// Serves calls with these parts. `local_port` is the local listener's; calls that come from
    /// it must name it.
    pub fn new(parts: Arc<Parts>, local_port: u16) -> Self {
        Self { parts, local_port, meters: Meters::default() }
    }

    /// The same, which also shows what the front end counts.
    #[must_use]
    pub fn counting(self, counters: Arc<Counters>) -> Self {
        Self { meters: self.meters.with(counters), ..self }
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
        let began = Instant::now();
        let admitted = self.admitted(&call);
        self.parts.stages.record(Stage::Authenticate, began.elapsed());
        match admitted {
            Err(refusal) => reply.send(refusal.into()),
            Ok((target, caller)) => match target {
                Target::Health => reply.send(rest::health(&self.parts)),
                Target::Metrics => reply.send(self.meters.page(&self.parts)),
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

    fn route(&self, call: &Call) -> u16 {
        route::position(call)
    }

    fn answered(&self, answered: &Answered) {
        self.meters.count(answered);
        if log::wants_access() {
            log_access(answered);
        }
    }
}

/// One line for a request. What the client chose is left out but for its request id, which is of plain
/// characters: the route stands for the path, which may hold what nobody should read.
fn log_access(answered: &Answered) {
    let (method, path) = route::name(answered.route);
    let listener = if answered.listener == LOCAL { "local" } else { "hosted" };
    let status = answered.status.map_or_else(|| "gone".to_owned(), |status| status.to_string());
    let mut fields = vec![
        ("request_id", Value::Text(&answered.id)),
        ("listener", Value::Text(&listener)),
        ("peer", Value::Text(&answered.peer)),
        ("method", Value::Text(&method)),
        ("route", Value::Text(&path)),
        ("status", Value::Text(&status)),
    ];
    match answered.body_bytes {
        Some(bytes) => fields.push(("bytes", Value::Count(bytes as u64))),
        None => fields.push(("stream", Value::Text(&"begun"))),
    }
    fields.push(("took", Value::Seconds(answered.took)));
    log::access(&fields);
}
