//! Which row of the table a request belongs to.

use super::authenticate::Gate;
use super::{LOCAL, Refusal};
use crate::net::{Call, Method, Reply, Response};
use crate::operator;
use crate::parts::{Caller, Parts};
use crate::rest;

/// What answers a route.
pub enum Target {
    /// Liveness.
    Health,
    /// An operation of the HTTP API.
    Rest(fn(&rest::Ask<'_>) -> Result<Response, Refusal>),
    /// The MCP endpoint.
    Mcp,
    /// Ingest on behalf of the operator, told as it goes.
    OperatorIngest,
    /// Lines of a file into the store, for the operator.
    OperatorImport,
    /// All that the store holds, for the operator.
    OperatorExport,
    /// A job on the whole store, for the operator, told as it goes.
    OperatorJob(fn(&Parts, &Caller, &Call, Reply)),
}

impl Target {
    /// Whether it may take hours, or wait that long.
    fn takes_long(&self) -> bool {
        match self {
            Self::Health | Self::Rest(_) | Self::Mcp => false,
            Self::OperatorIngest
            | Self::OperatorImport
            | Self::OperatorExport
            | Self::OperatorJob(_) => true,
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
    /// Whether only the local listener has it.
    pub local_only: bool,
    /// What answers.
    pub target: Target,
}

/// Every route.
pub static ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/health",
        gate: Gate::Open,
        local_only: false,
        target: Target::Health,
    },
    Route {
        method: Method::Get,
        path: "/stats",
        gate: Gate::GatewayAndBearer,
        local_only: false,
        target: Target::Rest(rest::stats),
    },
    Route {
        method: Method::Post,
        path: "/recall",
        gate: Gate::GatewayAndBearer,
        local_only: false,
        target: Target::Rest(rest::recall),
    },
    Route {
        method: Method::Post,
        path: "/semantic-recall",
        gate: Gate::GatewayAndBearer,
        local_only: false,
        target: Target::Rest(rest::semantic_recall),
    },
    mcp(Method::Post),
    mcp(Method::Get),
    mcp(Method::Delete),
    Route {
        method: Method::Post,
        path: "/operator/recall",
        gate: Gate::Bearer,
        local_only: true,
        target: Target::Rest(operator::recall),
    },
    Route {
        method: Method::Post,
        path: "/operator/ingest",
        gate: Gate::Bearer,
        local_only: true,
        target: Target::OperatorIngest,
    },
    Route {
        method: Method::Post,
        path: "/operator/import",
        gate: Gate::Bearer,
        local_only: true,
        target: Target::OperatorImport,
    },
    Route {
        method: Method::Post,
        path: "/operator/export",
        gate: Gate::Bearer,
        local_only: true,
        target: Target::OperatorExport,
    },
    Route {
        method: Method::Post,
        path: "/operator/backup",
        gate: Gate::Bearer,
        local_only: true,
        target: Target::OperatorJob(operator::serve_backup),
    },
    Route {
        method: Method::Post,
        path: "/operator/compact",
        gate: Gate::Bearer,
        local_only: true,
        target: Target::OperatorJob(operator::serve_compact),
    },
    Route {
        method: Method::Post,
        path: "/operator/erase",
        gate: Gate::Bearer,
        local_only: true,
        target: Target::OperatorJob(operator::serve_erase),
    },
    Route {
        method: Method::Post,
        path: "/operator/reembed",
        gate: Gate::Bearer,
        local_only: true,
        target: Target::OperatorJob(operator::serve_reembed),
    },
];

const fn mcp(method: Method) -> Route {
    let gate = Gate::LocalOrBearer;
    Route { method, path: "/mcp", gate, local_only: false, target: Target::Mcp }
}

/// Whether this is a plain `GET /health`.
pub(super) fn is_health(call: &Call) -> bool {
    matches!(call.request.method, Method::Get | Method::Head) && call.request.path() == "/health"
}

/// Whether this asks for a job of the operator's.
pub(super) fn is_job(call: &Call) -> bool {
    find(call).is_ok_and(|route| route.target.takes_long())
}

/// The row of a request: 404 for an unknown path, 405 for a known one with another method.
pub(super) fn find(call: &Call) -> Result<&'static Route, Refusal> {
    let here = |route: &&Route| {
        route.path == call.request.path() && (!route.local_only || call.listener == LOCAL)
    };
    let asked = match &call.request.method {
        Method::Head => &Method::Get,
        other => other,
    };
    if let Some(route) = ROUTES.iter().filter(here).find(|route| route.method == *asked) {
        return Ok(route);
    }
    let mut allowed: Vec<&str> = ROUTES.iter().filter(here).map(|r| r.method.as_str()).collect();
    if allowed.is_empty() {
        return Err(Refusal::new(404, "Not Found"));
    }
    if allowed.contains(&"GET") {
        allowed.push("HEAD");
    }
    Err(Refusal::new(405, "Method Not Allowed").with("Allow", allowed.join(", ")))
}
