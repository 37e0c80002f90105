//! `GET /openapi.json`: the description of the HTTP API, generated from its routes.
//!
//! Defines the form (OpenAPI 3.1.0) and the responses common to all operations. Independent of the operations'
//! behavior. Generated once per process and constant afterwards.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::authenticate::{GATEWAY_ID, GATEWAY_SECRET, Gate};
use super::route::{Route, routes};
use super::schemas;
use crate::limits::API_BODY_BYTES_MAX;
use crate::rest::operations::Operation;
use recalld_http_server::Response;

/// Version of the HTTP API, independent of the program's version.
const API_VERSION: &str = "0.1.0";

static DOCUMENT: LazyLock<Vec<u8>> = LazyLock::new(|| document().to_string().into_bytes());

/// Handles `GET /openapi.json`.
pub(super) fn openapi() -> Response {
    Response::json(200, DOCUMENT.clone()).header("cache-control", "no-cache")
}

/// Builds the description.
fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for (route, operation) in described() {
        let method = route.method.as_str().to_ascii_lowercase();
        paths.entry(route.path).or_insert_with(|| json!({}))[method] = of(route, operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Memory recall",
            "version": API_VERSION,
            "summary": "Consult what is on record before answering.",
            "description": "Typed memory items with provenance, supersession and policy, recalled by words or \
                by meaning. Credentials are checked in this order: the gateway's service token, then the \
                bearer, then the rate, then the body.",
        },
        "paths": paths,
        "components": {
            "schemas": all_schemas(),
            "responses": REFUSALS.iter().map(|row| (row.name.to_owned(), row.response())).collect::<Map<_, _>>(),
            "securitySchemes": security_schemes(),
        },
    })
}

/// Returns the routes that are operations of the HTTP API.
fn described() -> impl Iterator<Item = (&'static Route, &'static Operation)> {
    routes().filter_map(|route| Some((route, route.target.operation()?)))
}

fn all_schemas() -> Value {
    let bodies = described().filter_map(|(_, operation)| operation.body.as_ref());
    let mut all: Map<String, Value> = bodies
        .map(|body| (body.name.to_owned(), schemas::of_body(body.name, body.about, body.fields)))
        .collect();
    all.extend(schemas::of_answers().into_iter().map(|(name, schema)| (name.to_owned(), schema)));
    Value::Object(all)
}

fn security_schemes() -> Value {
    json!({
        "gatewayClientId": {"type": "apiKey", "in": "header", "name": GATEWAY_ID, "x-order": 0,
            "description": "The gateway's service token: its id."},
        "gatewayClientSecret": {"type": "apiKey", "in": "header", "name": GATEWAY_SECRET, "x-order": 1,
            "description": "The gateway's service token: its secret."},
        "bearer": {"type": "http", "scheme": "bearer", "x-order": 2,
            "description": "An operator-issued token. Never taken from a URL."},
    })
}

/// Describes one operation with all its responses.
fn of(route: &Route, operation: &Operation) -> Value {
    let is_behind_gateway = route.gate == Gate::GatewayAndBearer;
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "description": operation.about,
        "security": [],
        "responses": {"200": answer(operation, is_behind_gateway)},
    });
    if is_behind_gateway {
        described["security"] =
            json!([{"gatewayClientId": [], "gatewayClientSecret": [], "bearer": []}]);
        // Declared by the contract. By the rules of OpenAPI, tools derive this field from `bearer` instead.
        described["parameters"] = json!([{
            "name": "authorization", "in": "header", "required": false,
            "description": "`Bearer` and the token. What security asks for above.",
            "schema": {"type": ["string", "null"]},
        }]);
    }
    if let Some(body) = &operation.body {
        described["requestBody"] = json!({
            "required": true,
            "description": format!("At most {API_BODY_BYTES_MAX} bytes. Unknown fields are ignored."),
            "content": {"application/json": {
                "schema": schemas::reference(body.name), "example": parsed(body.example),
            }},
        });
    }
    for refusal in REFUSALS.iter().filter(|row| is_behind_gateway || !row.behind_gateway) {
        described["responses"][refusal.status.to_string()] =
            json!({"$ref": format!("#/components/responses/{}", refusal.name)});
    }
    described
}

fn answer(operation: &Operation, is_behind_gateway: bool) -> Value {
    let one = schemas::reference(operation.schema);
    let schema = if operation.list { json!({"type": "array", "items": one}) } else { one };
    let mut shown = json!({
        "description": operation.answers,
        "content": {"application/json": {"schema": schema, "example": parsed(operation.example)}},
    });
    if is_behind_gateway {
        shown["headers"]["Stale-Seconds"] = json!({
            "description": "Of a node that follows another one: how old the answer may be. All that was acknowledged \
                longer ago is in it.",
            "required": false, "schema": {"type": "integer", "minimum": 0},
        });
    }
    if operation.body.is_some() {
        shown["headers"]["X-Recalld-Left-Out"] = json!({
            "description": "How many items and neighbors the answer had no room for, where there were any.",
            "required": false, "schema": {"type": "integer", "minimum": 1},
        });
    }
    shown
}

fn parsed(example: &str) -> Value {
    serde_json::from_str(example).expect("the tests parse every example")
}

/// A response shared by several operations.
struct Shared {
    status: u16,
    name: &'static str,
    about: &'static str,
    /// True if only operations that require credentials have this response.
    behind_gateway: bool,
    detail: &'static str,
    headers: &'static [(&'static str, &'static str)],
}

const RETRY_AFTER: (&str, &str) = ("Retry-After", "Seconds to wait.");

static REFUSALS: &[Shared] = &[
    Shared {
        status: 307,
        name: "AskThere",
        about: "Another node has the workspace, and this one is told to send its clients there.",
        behind_gateway: true,
        detail: "This workspace is written by node box-2, at https://box-2.example.com; ask there",
        headers: &[("Location", "The same path and query of that node.")],
    },
    Shared {
        status: 400,
        name: "BadRequest",
        about: "The request is malformed, or the body is no text, nested too deeply, or has a number of more than \
                4,300 digits.",
        behind_gateway: false,
        detail: "There was an error parsing the body",
        headers: &[],
    },
    Shared {
        status: 401,
        name: "NotAuthenticated",
        about: "The bearer is missing or wrong.",
        behind_gateway: true,
        detail: "Not authenticated",
        headers: &[(
            "WWW-Authenticate",
            "`Bearer`; with `error=\"invalid_token\"` when one was sent.",
        )],
    },
    Shared {
        status: 403,
        name: "Forbidden",
        about: "The gateway's service token is missing or wrong, or the workspace is suspended; on the local \
                listener also a foreign `Host` or `Origin`.",
        behind_gateway: false,
        detail: "Gateway service token required",
        headers: &[],
    },
    Shared {
        status: 404,
        name: "NotFound",
        about: "There is no such path.",
        behind_gateway: false,
        detail: "Not Found",
        headers: &[],
    },
    Shared {
        status: 405,
        name: "MethodNotAllowed",
        about: "The path has other methods.",
        behind_gateway: false,
        detail: "Method Not Allowed",
        headers: &[("Allow", "The methods of the path.")],
    },
    Shared {
        status: 408,
        name: "TooSlow",
        about: "The request did not come in time.",
        behind_gateway: false,
        detail: "Request Timeout",
        headers: &[],
    },
    Shared {
        status: 413,
        name: "TooLarge",
        about: "The body is too large.",
        behind_gateway: false,
        detail: "Content Too Large",
        headers: &[],
    },
    Shared {
        status: 417,
        name: "ExpectationFailed",
        about: "`Expect` asks for something else than `100-continue`.",
        behind_gateway: false,
        detail: "Expectation Failed: only 100-continue is known",
        headers: &[],
    },
    Shared {
        status: 421,
        name: "Misdirected",
        about: "Another node has the workspace, and this one passes nothing on.",
        behind_gateway: true,
        detail: "This workspace is written by node box-2, at https://box-2.example.com; ask there",
        headers: &[],
    },
    Shared {
        status: 422,
        name: "Unprocessable",
        about: "The body or a parameter is not what the operation takes.",
        behind_gateway: true,
        detail: "",
        headers: &[],
    },
    Shared {
        status: 429,
        name: "TooManyRequests",
        about: "More requests than the credential's rate allows.",
        behind_gateway: true,
        detail: "Too Many Requests",
        headers: &[RETRY_AFTER],
    },
    Shared {
        status: 431,
        name: "HeadTooLarge",
        about: "The request's head is too large.",
        behind_gateway: false,
        detail: "Request Header Fields Too Large: the whole head",
        headers: &[],
    },
    Shared {
        status: 500,
        name: "Fault",
        about: "A fault of the service.",
        behind_gateway: false,
        detail: "Internal Server Error",
        headers: &[],
    },
    Shared {
        status: 501,
        name: "NotImplemented",
        about: "The body has a transfer coding other than `chunked`.",
        behind_gateway: false,
        detail: "Not Implemented: the only transfer coding is chunked",
        headers: &[],
    },
    Shared {
        status: 502,
        name: "AnswerLost",
        about: "The node that has the workspace was asked, and its answer did not come.",
        behind_gateway: true,
        detail: "Node box-2, which writes this workspace, was asked, and its answer did not come; what was asked \
                 may have been done",
        headers: &[],
    },
    Shared {
        status: 503,
        name: "Unavailable",
        about: "Overloaded, or something that every call needs is not there now; or this node follows another one, and \
                is too far behind.",
        behind_gateway: false,
        detail: "Service Unavailable: the queue is full",
        headers: &[RETRY_AFTER],
    },
    Shared {
        status: 505,
        name: "VersionNotSupported",
        about: "The request line names a version other than HTTP/1.1 and HTTP/1.0.",
        behind_gateway: false,
        detail: "HTTP Version Not Supported: use HTTP/1.1",
        headers: &[],
    },
];

impl Shared {
    fn response(&self) -> Value {
        let content = if self.status == 422 {
            let error = json!({"type": "missing", "loc": ["body", "query"], "msg": "Field required", "input": {}});
            json!({"schema": schemas::reference("HTTPValidationError"), "example": {"detail": [error]}})
        } else {
            json!({"schema": schemas::reference("Problem"), "example": {"detail": self.detail}})
        };
        let mut shown =
            json!({"description": self.about, "content": {"application/json": content}});
        for (name, about) in self.headers {
            shown["headers"][name] = json!({"description": about, "schema": {"type": "string"}});
        }
        shown
    }
}
