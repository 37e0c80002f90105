//! The life of one call, in order: parse, authenticate, admit, execute, render.
//!
//! Each stage consumes the previous stage's type and returns the next, or a [`Refusal`]. A [`Caller`] is created only
//! here, from a credential or from the local listener, so that no code behind this point runs without a caller.

mod authenticate;
mod bearer;
mod cors;
mod elsewhere;
mod legacy;
mod meters;
mod openapi;
mod route;
mod route_match;
mod schemas;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value as Json;

use crate::app_state::AppState;
use crate::console;
use crate::console::CONSOLE_BODY_BYTES_MAX;
use crate::forwarded::asks_from;
use crate::limits::{API_BODY_BYTES_MAX, TENANT_BODY_BYTES_MAX};
use crate::listeners::{HOSTED, LOCAL};
use crate::mcp_host::{Product, Visitor};
use recalld_cluster::control_chain;
use recalld_common::age::STALE_SECONDS;
use recalld_common::wants::Wants;
use recalld_http_server::limits::BODY_BYTES_MAX;
use recalld_http_server::{Admission, Answered, Call, Counters, Reply, Response, Service};
use recalld_mcp_protocol::Endpoint;
use recalld_oauth::{FORM_BYTES_MAX, REGISTRATION_BYTES_MAX, SIGN_IN_FORM_BYTES_MAX};
use recalld_policy::Caller;
use recalld_telemetry::log;
use recalld_telemetry::log::Value;
use recalld_telemetry::metrics::Stage;

use crate::rest;
use crate::service_error::over_http;
use recalld_workspace::workspace::Workspace;

pub use authenticate::{GATEWAY_ID, GATEWAY_SECRET, Gate, check_local};
pub use cors::Origins;
pub use legacy::name_of;
use recalld_http_server::refusal::Refusal;
pub use route::{On, Route, Target, routes};

use authenticate::{EarlyAuth, Known};
use elsewhere::ForwardPlan;
use legacy::HostStatus;
use meters::Meters;
use route::PathMatch;
pub use route_match::RouteMatch;

/// The service behind the HTTP server.
pub struct Pipeline {
    parts: Arc<AppState>,
    local_ports: Box<[u16]>,
    hosted_speaks_tls: bool,
    origins: Origins,
    meters: Meters,
    mcp: Endpoint<Product>,
}

impl Pipeline {
    /// Serves calls with these components. `local_ports` are those of the local listener's sockets; each call of that
    /// listener must name one of them.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn new(parts: Arc<AppState>, local_ports: &[u16]) -> io::Result<Self> {
        let settings = recalld_mcp_protocol::Settings {
            call_time_max: parts.call_time_max,
            random: Arc::clone(&parts.random),
        };
        let mcp = Endpoint::start(Product::new(Arc::clone(&parts)), settings)?;
        let changes = mcp.changes();
        let theirs = Arc::clone(&changes);
        parts.local.tell_of_news(move || changes.note());
        parts.tenants.tell_of_news(move || theirs.note());
        let (meters, origins) = (Meters::default(), Origins::default());
        let local_ports = local_ports.into();
        Ok(Self { parts, local_ports, hosted_speaks_tls: false, origins, meters, mcp })
    }

    /// Allows cross-origin requests from pages of these origins.
    #[must_use]
    pub fn sharing_with(self, origins: Origins) -> Self {
        Self { origins, ..self }
    }

    /// Sets whether the hosted listener has TLS.
    #[must_use]
    pub fn with_hosted_tls(self, hosted_speaks_tls: bool) -> Self {
        Self { hosted_speaks_tls, ..self }
    }

    /// Adds the counters of the HTTP server to the metrics.
    #[must_use]
    pub fn counting(self, counters: Arc<Counters>) -> Self {
        Self { meters: self.meters.with(counters), ..self }
    }

    /// Rejects calls that the listener does not serve.
    fn check_listener(
        &self,
        call: &Call,
        host: HostStatus,
        is_shared: bool,
    ) -> Result<(), Refusal> {
        if call.listener == LOCAL {
            let listed = is_shared.then_some(&self.origins);
            return check_local(call, &self.local_ports, listed);
        }
        match host {
            HostStatus::Gone => Err(legacy::gone(&self.parts)),
            HostStatus::Current | HostStatus::Waning { .. } => Ok(()),
        }
    }

    /// Returns the status of the host named by a call. The local listener has no legacy hosts.
    fn host(&self, call: &Call) -> HostStatus {
        let legacy = &self.parts.config.legacy;
        if call.listener == LOCAL || legacy.hosts.is_empty() {
            return HostStatus::Current;
        }
        legacy::standing(legacy, authenticate::only(call, "host"), self.parts.clock.now())
    }

    /// Adds the CORS fields to a response sent without a [`Reply`].
    fn shared(&self, call: &Call, is_shared: bool, answer: Response) -> Response {
        let fields = self.origins.fields(call, is_shared).into_iter();
        fields.fold(answer, |answer, (name, value)| answer.header(name, value))
    }

    /// Returns the maximum body size of a call, or the response if the body need not be read.
    fn judged(
        &self,
        call: &Call,
        matched: &mut RouteMatch,
        body_bytes: usize,
    ) -> Result<usize, Response> {
        let Some(route) = matched.route.clone()? else {
            return Err(self.options(call, matched.is_shared));
        };
        let known = authenticate::at_once(&self.parts, route.gate, call, &mut matched.early)?;
        match &route.target {
            // Public on every listener; these routes read no body, so no body is accepted.
            target if target.is_health() => Err(rest::health(&self.parts)),
            Target::OpenApi => Err(openapi::openapi()),
            Target::Asset(asset) => Err(asset.answer()),
            Target::Console(_) => match body_bytes {
                0..=CONSOLE_BODY_BYTES_MAX => Ok(CONSOLE_BODY_BYTES_MAX),
                _ => Err(console::body_too_large().into()),
            },
            // These handlers may access the metastore.
            Target::OAuth(_) | Target::OAuthForm(_) => Ok(FORM_BYTES_MAX),
            Target::Registration(_) => Ok(REGISTRATION_BYTES_MAX),
            Target::SignIn(_) => Ok(SIGN_IN_FORM_BYTES_MAX),
            Target::Api(operation) if operation.body.is_some() => match body_bytes {
                0..=API_BODY_BYTES_MAX => Ok(API_BODY_BYTES_MAX),
                _ => Err(rest::body_too_large().into()),
            },
            _ => Ok(match known {
                Known::Operator => BODY_BYTES_MAX,
                Known::Nobody => TENANT_BODY_BYTES_MAX,
            }),
        }
    }

    /// Runs an operation of the HTTP API and adds the staleness to its response.
    fn read(&self, run: rest::Run, caller: &Caller, call: &Call) -> Response {
        let (workspace, stale) = match self.parts.enter(caller, Wants::Reads, &call.cancel) {
            Ok(entered) => entered,
            Err(error) => return over_http(error).into(),
        };
        let answer = self.run_in(run, &workspace, caller, call);
        let aged =
            |answer: Response, seconds: u64| answer.header(STALE_SECONDS, seconds.to_string());
        stale.into_iter().fold(answer, aged)
    }

    /// Runs an operation of this machine's operator.
    fn run(&self, run: rest::Run, caller: &Caller, call: &Call) -> Response {
        match self.parts.workspace_of(caller) {
            Ok(workspace) => self.run_in(run, &workspace, caller, call),
            Err(closed) => over_http(closed).into(),
        }
    }

    fn run_in(
        &self,
        run: rest::Run,
        workspace: &Workspace,
        caller: &Caller,
        call: &Call,
    ) -> Response {
        let deadline = Instant::now() + self.parts.call_time_max;
        run(&rest::Ask { parts: &self.parts, workspace, caller, call, deadline })
            .unwrap_or_else(Response::from)
    }

    /// Takes one call from the credential's token bucket.
    fn limit(&self, caller: &Caller) -> Result<(), Refusal> {
        self.parts.limit(caller).map_err(|wait| Refusal::too_many(wait.seconds))
    }

    /// Answers OPTIONS.
    fn options(&self, call: &Call, is_shared: bool) -> Response {
        self.origins.options(call, is_shared).unwrap_or_else(Response::from)
    }

    /// Returns the route of a call if the call's origin is allowed; `None` for OPTIONS, which every path accepts.
    fn routed(
        &self,
        call: &Call,
        found: &PathMatch,
        host: HostStatus,
    ) -> Result<Option<&'static Route>, Refusal> {
        self.check_listener(call, host, found.is_shared)?;
        if cors::is_options(call) {
            return Ok(None);
        }
        let route = found.route.ok_or_else(|| route::missing(call))?;
        if call.listener == HOSTED && matches!(route.target, Target::Mcp) {
            authenticate::check_hosted_origin(call, self.hosted_speaks_tls, &self.origins)?;
        }
        if host != HostStatus::Current && route.target.issues_credentials() {
            return Err(legacy::gone(&self.parts));
        }
        Ok(Some(route))
    }

    /// Runs the handler of a call that this node answers.
    fn answer(&self, target: &Target, caller: Arc<Caller>, call: Call, reply: Reply) {
        match target {
            Target::Metrics => reply.send(self.meters.page(&self.parts, self.mcp.figures())),
            Target::Api(operation) => {
                reply.send(self.read(operation.run, &caller, &call));
            }
            Target::Operator(run) | Target::Console(run) => {
                reply.send(self.run(*run, &caller, &call));
            }
            Target::OpenApi => reply.send(openapi::openapi()),
            Target::Asset(asset) => reply.send(asset.answer()),
            Target::OAuth(answer)
            | Target::OAuthForm(answer)
            | Target::Registration(answer)
            | Target::SignIn(answer) => {
                let context = self.parts.oauth(asks_from(&self.parts, &call));
                reply.send(answer(&context, &call));
            }
            Target::Nodes => {
                let chain = self.parts.control_chain.as_deref();
                reply.send(control_chain::serve(chain, &self.parts.control, &call));
            }
            Target::Mcp => self.answer_mcp(caller, call, reply),
            Target::OperatorIngest => crate::operator::ingest(&self.parts, &caller, &call, reply),
            Target::OperatorImport => crate::operator::import(&self.parts, &caller, &call, reply),
            Target::OperatorExport => crate::operator::export(&self.parts, &caller, &call, reply),
            Target::OperatorJob(run) => run(&self.parts, &caller, &call, reply),
        }
    }

    /// Answers an MCP call here, or forwards the call if a tool that it calls needs another node.
    fn answer_mcp(&self, caller: Arc<Caller>, call: Call, reply: Reply) {
        let visitor = match Visitor::of(Arc::clone(&caller), call.request.query()) {
            Ok(visitor) => visitor,
            Err(fault) => return reply.send(recalld_mcp_protocol::refusal(&Json::Null, &fault)),
        };
        let body = self.mcp.read(&call, &visitor);
        let knows_session = |call: &Call| self.mcp.has_session(call, &visitor);
        let plan = |call: &Call| Some(ForwardPlan::of_mcp(call, &body, &knows_session));
        if let Some((call, reply)) = elsewhere::steer(&self.parts, plan, &caller, call, reply) {
            self.mcp.serve_read(&call, body, visitor, reply);
        }
    }

    /// Authenticates the caller of a route and checks the host.
    fn authenticated(
        &self,
        call: &Call,
        route: &Route,
        host: HostStatus,
        early: Option<EarlyAuth>,
    ) -> Result<Caller, Refusal> {
        let caller = authenticate::caller(&self.parts, route.gate, call, early)?;
        if route.gate != Gate::Open && !host.takes(&caller) {
            return Err(authenticate::not_here(&self.parts, route.gate));
        }
        Ok(caller)
    }
}

impl Service for Pipeline {
    type RouteMatch = RouteMatch;

    fn resolve(&self, call: &Call) -> RouteMatch {
        let (found, host) = (PathMatch::of(call), self.host(call));
        let route = self.routed(call, &found, host);
        let PathMatch { position, is_shared, .. } = found;
        RouteMatch { position, is_shared, host, route, early: None }
    }

    fn serve(&self, call: Call, matched: RouteMatch, reply: Reply) {
        let RouteMatch { is_shared, host, route, early, .. } = matched;
        let reply = reply.with_fields(self.origins.fields(&call, is_shared));
        let began = Instant::now();
        let admitted = match route {
            Ok(None) => return reply.send(self.options(&call, is_shared)),
            Ok(Some(route)) => {
                let caller = self.authenticated(&call, route, host, early);
                caller.map(|caller| (&route.target, Arc::new(caller)))
            }
            Err(refusal) => Err(refusal),
        };
        self.parts.stages.record(Stage::Authenticate, began.elapsed());
        match admitted {
            Err(refusal) => reply.send(refusal.into()),
            Ok((_, caller)) if let Err(refusal) = self.limit(&caller) => reply.send(refusal.into()),
            Ok((target, caller)) => {
                let plan = |_: &Call| ForwardPlan::of(target);
                let steered = elsewhere::steer(&self.parts, plan, &caller, call, reply);
                if let Some((call, reply)) = steered {
                    self.answer(target, caller, call, reply);
                }
            }
        }
    }

    fn quick(&self, call: &Call, matched: &RouteMatch) -> Option<Response> {
        let Ok(Some(route)) = &matched.route else { return None };
        let answer = match &route.target {
            target if target.is_health() => rest::health(&self.parts),
            // On the hosted listener `/mcp` requires a bearer, which a worker looks up.
            Target::Mcp if call.listener == LOCAL && call.request.query().is_none() => {
                Endpoint::<Product>::quick(call)?
            }
            _ => return None,
        };
        Some(self.shared(call, matched.is_shared, answer))
    }

    /// Decides by the head alone: route, listener, `Host`, `Origin`, and the credentials of `credentials.toml`,
    /// compared as hashes in memory. A tenant's credential is looked up by a worker, because the metastore is on disk.
    fn admit(&self, call: &Call, matched: &mut RouteMatch, body_bytes: usize) -> Admission {
        match self.judged(call, matched, body_bytes) {
            Ok(bytes_max) => Admission::UpTo(bytes_max),
            Err(answer) => Admission::Answer(self.shared(call, matched.is_shared, answer)),
        }
    }

    /// Returns true for a store job of the operator. All other callers are rejected by a worker, so that they occupy no
    /// thread or queue slot of the operator.
    fn takes_long(&self, call: &Call, matched: &mut RouteMatch) -> bool {
        let Ok(Some(route)) = matched.route else { return false };
        let early = || EarlyAuth::of(&self.parts, route.gate, call);
        route.target.takes_long() && matched.early.get_or_insert_with(early).is_operators()
    }

    fn drain(&self) {
        self.mcp.close();
    }

    fn route(&self, matched: &RouteMatch) -> u16 {
        matched.position
    }

    fn answered(&self, answered: &Answered) {
        self.meters.count(answered);
        if log::wants_access() {
            log_access(answered);
        }
    }
}

/// Logs one line per request. Text chosen by the client is omitted, except the request id, which has safe characters
/// only. The route replaces the path, which may contain confidential data.
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
