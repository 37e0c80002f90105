//! The route table, and routing of requests by method and path.

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

/// Handler of a route.
pub enum Target {
    /// The metrics page.
    Metrics,
    /// An operation of the HTTP API.
    Api(&'static Operation),
    /// The description of the HTTP API.
    OpenApi,
    /// A static file of a page.
    Asset(&'static Asset),
    /// An endpoint of the console.
    Console(rest::Run),
    /// A document of the authorization server.
    OAuth(fn(&OAuthContext<'_>, &Call) -> Response),
    /// An endpoint of the authorization server with a form body.
    OAuthForm(fn(&OAuthContext<'_>, &Call) -> Response),
    /// The registration endpoint, whose body is client metadata.
    Registration(fn(&OAuthContext<'_>, &Call) -> Response),
    /// A page of the sign-in or of the address confirmation. Other pages may not request it, and it may wait for a
    /// third party's server.
    SignIn(fn(&OAuthContext<'_>, &Call) -> Response),
    /// Requests of other nodes that share the cluster secret.
    Nodes,
    /// The MCP endpoint.
    Mcp,
    /// An operator's question, call or act of administration, answered without a stream.
    Operator(rest::Run),
    /// Ingest on behalf of the operator, with progress events.
    OperatorIngest,
    /// Import of a file's lines for the operator.
    OperatorImport,
    /// Export of the whole store for the operator.
    OperatorExport,
    /// A job on the whole store for the operator, with progress events.
    OperatorJob(fn(&AppState, &Caller, &Call, Reply)),
}

impl Target {
    /// Returns the operation of the HTTP API, if this is one.
    pub fn operation(&self) -> Option<&'static Operation> {
        match self {
            Self::Api(operation) => Some(operation),
            _ => None,
        }
    }

    /// Returns true if pages of every origin may send requests to this target.
    pub fn is_for_any_page(&self) -> bool {
        matches!(self, Self::OAuth(_) | Self::OAuthForm(_) | Self::Registration(_))
    }

    /// Returns true if this target issues credentials, which happens only under the canonical address.
    pub(super) fn issues_credentials(&self) -> bool {
        self.is_for_any_page() || matches!(self, Self::SignIn(_))
    }

    /// Returns true if this is `GET /health`.
    pub(super) fn is_health(&self) -> bool {
        self.operation()
            .is_some_and(|operation| std::ptr::eq(operation, &raw const operations::HEALTH))
    }

    /// Returns true if a call may run, or wait, for hours.
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

/// Listeners that serve a route; on the others its path does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// The listener of this machine's operator.
    Local,
    /// The listener of tenants.
    Hosted,
    /// Both listeners.
    Both,
}

impl On {
    /// Returns true if a call arrived on one of these listeners.
    pub(super) fn is_for(self, call: &Call) -> bool {
        match self {
            Self::Local => call.listener == LOCAL,
            Self::Hosted => call.listener == HOSTED,
            Self::Both => true,
        }
    }
}

/// A row of the route table.
pub struct Route {
    /// `GET` also answers `HEAD`.
    pub method: Method,
    /// The exact path.
    pub path: &'static str,
    /// Credentials required of the caller.
    pub gate: Gate,
    /// Listeners that serve the route.
    pub on: On,
    /// The handler.
    pub target: Target,
}

impl Route {
    /// Returns true if pages of listed origins may send requests to this route. The operator's routes and the sign-in
    /// pages never allow it; endpoints of the authorization server define their own rule.
    fn is_shareable(&self) -> bool {
        let is_sign_in = matches!(self.target, Target::SignIn(_));
        self.on != On::Local && !self.target.is_for_any_page() && !is_sign_in
    }
}

/// Routes of the service.
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

/// Routes of the console.
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

/// Returns every route. Each pair of method and path occurs at most once.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    SERVICE.iter().chain(CONSOLE)
}

/// Returns the number of routes.
pub(super) fn count() -> usize {
    SERVICE.len() + CONSOLE.len()
}

/// Returns the row at a position in [`routes`].
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

/// The rows that match a request's path, from one pass over the table.
pub(super) struct PathMatch {
    /// Position of the matching row, for metrics; one past the last row if no row matches.
    pub position: u16,
    /// The matching row, if the listener serves it.
    pub route: Option<&'static Route>,
    /// True if pages of listed origins may send requests to this path. True for unknown paths too: their absence is no
    /// secret, and the hosted listener must not distinguish them from the operator's paths.
    pub is_shared: bool,
}

impl PathMatch {
    /// Matches a request's path.
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

/// Returns the method to match: a row of `GET` answers `HEAD` as well.
fn method_of(call: &Call) -> &Method {
    match &call.request.method {
        Method::Head => &Method::Get,
        other => other,
    }
}

/// Returns method and path of the row at a position.
pub(super) fn name(position: u16) -> (&'static str, &'static str) {
    let row = at(usize::from(position));
    row.map_or(("other", "other"), |route| (route.method.name(), route.path))
}

/// Returns true if a row has the path of this call and the call's listener serves it.
pub(super) fn is_here(route: &Route, call: &Call) -> bool {
    route.path == call.request.path() && route.on.is_for(call)
}

/// Returns true if pages of every origin may request this path: responses of the authorization server are for any
/// client.
pub(super) fn is_for_any_page(call: &Call) -> bool {
    let mut here = routes().filter(|route| is_here(route, call));
    here.any(|route| route.target.is_for_any_page())
}

/// Returns the methods of the selected rows in alphabetical order without duplicates. Adds `HEAD` for `GET`, and
/// `OPTIONS`, which every path accepts. Empty if no row is selected.
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

/// Returns 404 for an unknown path, or 405 for a known path with another method.
pub(super) fn missing(call: &Call) -> Refusal {
    let allowed = methods(|route| is_here(route, call));
    if allowed.is_empty() {
        return Refusal::new(404, "Not Found");
    }
    Refusal::new(405, "Method Not Allowed").with("Allow", allowed.join(", "))
}
