//! State shared by the connections of a loop, and a request queued for a worker.

use std::cell::Cell;
use std::sync::Arc;

use super::config::Limits;
use super::counters::Counters;
use super::mailbox::Mailbox;
use super::message::Response;
use super::places::Room;
use super::pool::Pool;
use super::reply::{Call, Reply, Service};
use super::tally::Tally;
use crate::limits::RETRY_AFTER_SECONDS;
use recalld_telemetry::log;

/// A request queued for a worker.
pub(super) struct Job<M> {
    pub call: Call,
    pub matched: M,
    pub reply: Reply,
}

impl<M> Job<M> {
    /// Lets the service answer. A request whose client left the queue is not started: under load the work would be
    /// wasted and would delay requests with a client.
    pub(super) fn run<S: Service<RouteMatch = M>>(self, service: &S, counters: &Counters) {
        counters.queue_wait.record(self.call.arrived.elapsed());
        if self.call.cancel.is_cancelled() {
            return self.reply.send(overloaded("the client left before its turn"));
        }
        let id = self.call.id;
        log::for_request(id.as_str(), || service.serve(self.call, self.matched, self.reply));
    }
}

/// State shared by the connections of a loop. The mailbox and `handshakes_left` belong to the loop; all other fields
/// are common to all loops.
pub(super) struct Shared<S: Service> {
    pub service: Arc<S>,
    pub pool: Arc<Pool<Job<S::RouteMatch>>>,
    /// Threads for long-running requests.
    pub jobs: Arc<Pool<Job<S::RouteMatch>>>,
    pub mailbox: Arc<Mailbox>,
    pub limits: Arc<Limits>,
    pub tally: Arc<Tally>,
    pub room: Arc<Room>,
    pub counters: Arc<Counters>,
    /// Costly handshake steps left in this pass of the loop.
    pub handshakes_left: Cell<usize>,
}

/// 503 with `Retry-After`; `why` must be text of the server.
pub(super) fn overloaded(why: &str) -> Response {
    Response::detail(503, &format!("Service Unavailable: {why}"))
        .header("retry-after", RETRY_AFTER_SECONDS.to_string())
}
