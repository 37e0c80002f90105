//! The whole life of one call, in order: parse, authenticate, admit, execute, render.
//!
//! Each stage takes the previous one's type and gives the next or a [`Refusal`]. A [`Caller`] is
//! made here, from a credential or from the local listener, so nothing behind this point can be
//! reached without one.

mod authenticate;
pub mod refusal;
mod route;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use crate::mcp::{self, Endpoint};
use crate::mcp_host::{Product, Visitor};
use crate::net::{Call, ListenerId, Reply, Response, Service};
use crate::operator;
use crate::parts::{Caller, Parts};
use crate::rest;

pub use authenticate::{Gate, check_local};
pub use refusal::Refusal;
pub use route::{ROUTES, Route, Target};

/// The listener for the operator of this machine.
pub const LOCAL: ListenerId = ListenerId(0);
/// The listener for tenants.
pub const HOSTED: ListenerId = ListenerId(1);

/// The service, as the network front end sees it.
pub struct Pipeline {
    parts: Arc<Parts>,
    local_port: u16,
    mcp: Endpoint<Product>,
}

impl Pipeline {
    /// Serves calls with these parts. `local_port` is the local listener's; calls that come from
    /// it must name it.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn new(parts: Arc<Parts>, local_port: u16) -> io::Result<Self> {
        let settings =
            mcp::Settings { call_time_max: parts.call_time_max, random: Arc::clone(&parts.random) };
        let mcp = Endpoint::start(Product::new(Arc::clone(&parts)), settings)?;
        let changes = mcp.changes();
        parts.workspace.store.tell_of_news(move || changes.note());
        Ok(Self { parts, local_port, mcp })
    }

    /// Ends streams in good order; for the end of the server.
    pub fn close(&self) {
        self.mcp.close();
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
                Target::Mcp => match Visitor::of(caller, call.request.query()) {
                    Ok(visitor) => self.mcp.serve(&call, visitor, reply),
                    Err(fault) => reply.send(mcp::refusal(&Value::Null, &fault)),
                },
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
