//! Which row of the table a request belongs to.

use super::authenticate::Gate;
use crate::app_state::AppState;
#[cfg(feature = "console")]
use crate::console::{self, assets};
use crate::listeners::{HOSTED, LOCAL};
use recalld_cluster::control_chain;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Method, Reply, Response};
use recalld_oauth::OAuthContext;
use recalld_oauth::pages::CONFIRM_PATH;
use recalld_oauth::{authorize, confirm, endpoints, metadata, registration, revoke, token};
use recalld_policy::Caller;

use crate::rest;
use crate::rest::{Operation, operations};
use recalld_http_server::own_page::Asset;

/// What answers a route.
pub enum Target {
    /// What is counted.
    Metrics,
    /// An operation of the HTTP API.
    Api(&'static Operation),
    /// The description of the HTTP API.
    OpenApi,
    /// A file of a page of ours.
    Asset(&'static Asset),
    /// What the console asks for.
    Console(rest::Run),
    /// A document of the authorization server.
    OAuth(fn(&OAuthContext<'_>, &Call) -> Response),
    /// An endpoint of the authorization server that takes a form.
    OAuthForm(fn(&OAuthContext<'_>, &Call) -> Response),
    /// The endpoint that takes what a client says of itself.
    Registration(fn(&OAuthContext<'_>, &Call) -> Response),
    /// A page of the sign-in, or one that confirms an address; no other page may ask it, and it may wait for a
    /// stranger's server.
    SignIn(fn(&OAuthContext<'_>, &Call) -> Response),
    /// What another node asks, which shares a secret with this one.
    Nodes,
    /// The MCP endpoint.
    Mcp,
    /// A question or a call of the operator's, or an act of administration: answered at once.
    Operator(rest::Run),
    /// Ingest on behalf of the operator, told as it goes.
    OperatorIngest,
    /// Lines of a file into the store, for the operator.
    OperatorImport,
    /// All that the store holds, for the operator.
    OperatorExport,
    /// A job on the whole store, for the operator, told as it goes.
    OperatorJob(fn(&AppState, &Caller, &Call, Reply)),
}

impl Target {
    /// The operation of the HTTP API that it is, if it is one.
    pub fn operation(&self) -> Option<&'static Operation> {
        match self {
            Self::Api(operation) => Some(operation),
            _ => None,
        }
    }

    /// Whether pages of every origin may ask it.
    pub fn is_for_any_page(&self) -> bool {
        matches!(self, Self::OAuth(_) | Self::OAuthForm(_) | Self::Registration(_))
    }

    /// Whether people and programs come to credentials by it: only under the canonical address.
    pub(super) fn issues_credentials(&self) -> bool {
        self.is_for_any_page() || matches!(self, Self::SignIn(_))
    }

    /// Returns true if this is `GET /health`.
    pub(super) fn is_health(&self) -> bool {
        self.operation()
            .is_some_and(|operation| std::ptr::eq(operation, &raw const operations::HEALTH))
    }

    /// Whether it may take hours, or wait that long.
    pub(super) fn takes_long(&self) -> bool {
        match self {
            Self::Metrics
            | Self::Api(_)
            | Self::OpenApi
            | Self::Asset(_)
            | Self::Console(_)
            | Self::OAuth(_)
            | Self::OAuthForm(_)
            | Self::Registration(_)
            | Self::SignIn(_)
            | Self::Nodes
            | Self::Mcp
            | Self::Operator(_) => false,
            Self::OperatorIngest
            | Self::OperatorImport
            | Self::OperatorExport
            | Self::OperatorJob(_) => true,
        }
    }
}

/// Which listeners have a route; on another one its path is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// That of this machine's operator.
    Local,
    /// That of tenants.
    Hosted,
    /// Both.
    Both,
}

impl On {
    /// Whether a call came in by one of them.
    pub(super) fn is_for(self, call: &Call) -> bool {
        match self {
            Self::Local => call.listener == LOCAL,
            Self::Hosted => call.listener == HOSTED,
            Self::Both => true,
        }
    }
}

/// One row: method, path, who may, what answers.
pub struct Route {
    /// `GET` also answers `HEAD`.
    pub method: Method,
    /// The whole path.
    pub path: &'static str,
    /// What the caller must show.
    pub gate: Gate,
    /// Which listener has it.
    pub on: On,
    /// What answers.
    pub target: Target,
}

impl Route {
    /// Returns true if pages of listed origins may ask this route; the operator's own never are, nor what people
    /// sign in by. Those of the authorization server say themselves who may.
    fn is_shareable(&self) -> bool {
        let is_sign_in = matches!(self.target, Target::SignIn(_));
        self.on != On::Local && !self.target.is_for_any_page() && !is_sign_in
    }
}

/// The routes of the service.
static SERVICE: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/health",
        gate: Gate::Open,
        on: On::Both,
        target: Target::Api(&operations::HEALTH),
    },
    Route {
        method: Method::Get,
        path: "/metrics",
        gate: Gate::Open,
        on: On::Local,
        target: Target::Metrics,
    },
    Route {
        method: Method::Get,
        path: "/stats",
        gate: Gate::GatewayAndBearer,
        on: On::Both,
        target: Target::Api(&operations::STATS),
    },
    Route {
        method: Method::Post,
        path: "/recall",
        gate: Gate::GatewayAndBearer,
        on: On::Both,
        target: Target::Api(&operations::RECALL),
    },
    Route {
        method: Method::Post,
        path: "/semantic-recall",
        gate: Gate::GatewayAndBearer,
        on: On::Both,
        target: Target::Api(&operations::SEMANTIC_RECALL),
    },
    Route {
        method: Method::Get,
        path: "/openapi.json",
        gate: Gate::Open,
        on: On::Both,
        target: Target::OpenApi,
    },
    asset(&rest::page::PAGE, On::Both),
    asset(&rest::page::SCRIPT, On::Both),
    asset(&rest::page::STYLE, On::Both),
    published(metadata::JWKS),
    published(metadata::SERVER_DOCUMENT),
    published(metadata::RESOURCE_DOCUMENT),
    published(metadata::MCP_RESOURCE_DOCUMENT),
    sign_in(Method::Get, metadata::AUTHORIZE, authorize::begin),
    sign_in(Method::Post, metadata::AUTHORIZE, authorize::decide),
    sign_in(Method::Get, CONFIRM_PATH, confirm::show),
    sign_in(Method::Post, CONFIRM_PATH, confirm::use_link),
    asked(metadata::TOKEN, Target::OAuthForm(token::token)),
    asked(metadata::REVOKE, Target::OAuthForm(revoke::revoke)),
    asked(metadata::REGISTER, Target::Registration(registration::register)),
    asked(control_chain::PATH, Target::Nodes),
    mcp(Method::Post),
    mcp(Method::Get),
    mcp(Method::Delete),
    Route {
        method: Method::Post,
        path: "/operator/recall",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::Operator(crate::operator::recall),
    },
    Route {
        method: Method::Post,
        path: "/operator/admin",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::Operator(crate::operator::admin::serve_admin),
    },
    Route {
        method: Method::Post,
        path: "/operator/call",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::Operator(crate::operator::call::serve_call),
    },
    Route {
        method: Method::Post,
        path: "/operator/ingest",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::OperatorIngest,
    },
    Route {
        method: Method::Post,
        path: "/operator/import",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::OperatorImport,
    },
    Route {
        method: Method::Post,
        path: "/operator/export",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::OperatorExport,
    },
    Route {
        method: Method::Post,
        path: "/operator/backup",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::OperatorJob(crate::operator::serve_backup),
    },
    Route {
        method: Method::Post,
        path: "/operator/compact",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::OperatorJob(crate::operator::serve_compact),
    },
    Route {
        method: Method::Post,
        path: "/operator/collect",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::Operator(crate::operator::serve_collect),
    },
    Route {
        method: Method::Post,
        path: "/operator/erase",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::OperatorJob(crate::operator::serve_erase),
    },
    Route {
        method: Method::Post,
        path: "/operator/reembed",
        gate: Gate::Bearer,
        on: On::Local,
        target: Target::OperatorJob(crate::operator::serve_reembed),
    },
];

/// Those of the console.
#[cfg(feature = "console")]
static CONSOLE: &[Route] = &[
    asset(&assets::PAGE, On::Local),
    asset(&assets::STYLE, On::Local),
    asset(&assets::THEME, On::Local),
    asset(&assets::APP, On::Local),
    asset(&assets::ASK, On::Local),
    asset(&assets::WHOSE, On::Local),
    asset(&assets::SHOW, On::Local),
    asset(&assets::SEARCH, On::Local),
    asset(&assets::ITEM, On::Local),
    asset(&assets::CHANGE, On::Local),
    asset(&assets::GRAPH, On::Local),
    asset(&assets::FILTERS, On::Local),
    asset(&assets::DOCUMENTS, On::Local),
    asset(&assets::WORK, On::Local),
    asset(&assets::LEDGER, On::Local),
    asset(&assets::FIGURES, On::Local),
    asset(&assets::PLOT, On::Local),
    asset(&assets::TENANTS, On::Local),
    asset(&assets::KEYS, On::Local),
    asset(&assets::ACTS, On::Local),
    console(Method::Post, "/console/call", Gate::OwnPage, console::call),
    console(Method::Get, "/console/session", Gate::OwnPage, console::look),
    console(Method::Post, "/console/session", Gate::OwnPage, console::sign_in),
    console(Method::Delete, "/console/session", Gate::OwnPage, console::sign_out),
    console(Method::Post, "/console/admin", Gate::Session, console::admin),
    console(Method::Post, "/console/change", Gate::Session, console::change),
];
#[cfg(not(feature = "console"))]
static CONSOLE: &[Route] = &[];

/// Every route: a method and a path have one row at most.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    SERVICE.iter().chain(CONSOLE)
}

/// How many there are.
pub(super) fn count() -> usize {
    SERVICE.len() + CONSOLE.len()
}

/// The row at a position in [`routes`].
fn at(position: usize) -> Option<&'static Route> {
    SERVICE.get(position).or_else(|| CONSOLE.get(position.checked_sub(SERVICE.len())?))
}

const fn mcp(method: Method) -> Route {
    let gate = Gate::LocalOrBearer;
    Route { method, path: "/mcp", gate, on: On::Both, target: Target::Mcp }
}

const fn asset(asset: &'static Asset, on: On) -> Route {
    let target = Target::Asset(asset);
    Route { method: Method::Get, path: asset.path, gate: Gate::Open, on, target }
}

#[cfg(feature = "console")]
const fn console(method: Method, path: &'static str, gate: Gate, run: rest::Run) -> Route {
    Route { method, path, gate, on: On::Local, target: Target::Console(run) }
}

const fn asked(path: &'static str, target: Target) -> Route {
    Route { method: Method::Post, path, gate: Gate::Open, on: On::Hosted, target }
}

const fn sign_in(
    method: Method,
    path: &'static str,
    answer: fn(&OAuthContext<'_>, &Call) -> Response,
) -> Route {
    Route { method, path, gate: Gate::Open, on: On::Hosted, target: Target::SignIn(answer) }
}

const fn published(path: &'static str) -> Route {
    let target = Target::OAuth(endpoints::document);
    Route { method: Method::Get, path, gate: Gate::Open, on: On::Hosted, target }
}

/// The rows of a request's path, from one pass over the table.
pub(super) struct PathMatch {
    /// The position of the request's row, for counting; one past the last where it has none.
    pub position: u16,
    /// That row, where the listener has it.
    pub route: Option<&'static Route>,
    /// Returns true if pages of other origins may be given leave to ask this path. One that is not here is no
    /// secret: they may learn as much, and on the hosted listener it must not be told from the operator's.
    pub is_shared: bool,
}

impl PathMatch {
    /// Looks a request's path up.
    pub(super) fn of(call: &Call) -> Self {
        let (method, path) = (method_of(call), call.request.path());
        let (mut position, mut is_here, mut is_shareable) = (count(), false, false);
        for (at, row) in routes().enumerate().filter(|(_, row)| row.path == path) {
            if row.method == *method {
                position = at;
            }
            if row.on.is_for(call) {
                is_here = true;
                is_shareable |= row.is_shareable();
            }
        }
        let route = at(position).filter(|route| route.on.is_for(call));
        let position = u16::try_from(position).expect("some dozens of routes");
        Self { position, route, is_shared: !is_here || is_shareable }
    }
}

/// The method whose row is meant: that of `GET` answers `HEAD` as well.
fn method_of(call: &Call) -> &Method {
    match &call.request.method {
        Method::Head => &Method::Get,
        other => other,
    }
}

/// Method and path of the row at that position.
pub(super) fn name(position: u16) -> (&'static str, &'static str) {
    let row = at(usize::from(position));
    row.map_or(("other", "other"), |route| (route.method.name(), route.path))
}

/// Whether a row is for the path of this call, on the listener it came in by.
pub(super) fn is_here(route: &Route, call: &Call) -> bool {
    route.path == call.request.path() && route.on.is_for(call)
}

/// Whether pages of every origin may ask this path: what the authorization server tells is for any client.
pub(super) fn is_for_any_page(call: &Call) -> bool {
    let mut here = routes().filter(|route| is_here(route, call));
    here.any(|route| route.target.is_for_any_page())
}

/// The methods of the rows that are wanted, in order of the alphabet: each once, with `HEAD` beside `GET`, and
/// with `OPTIONS`, which every path has. Empty without rows.
pub(super) fn methods(wanted: impl Fn(&Route) -> bool) -> Vec<&'static str> {
    let rows = routes().filter(|route| wanted(route));
    let mut methods: Vec<&str> = rows.map(|route| route.method.as_str()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    if !methods.is_empty() {
        methods.push("OPTIONS");
    }
    methods.sort_unstable();
    methods.dedup();
    methods
}

/// The answer to a request that has no row: 404 for an unknown path, 405 for a known one with another method.
pub(super) fn missing(call: &Call) -> Refusal {
    let allowed = methods(|route| is_here(route, call));
    if allowed.is_empty() {
        return Refusal::new(404, "Not Found");
    }
    Refusal::new(405, "Method Not Allowed").with("Allow", allowed.join(", "))
}
