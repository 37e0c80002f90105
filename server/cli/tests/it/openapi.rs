//! The OpenAPI description of the HTTP API, its page, and CORS, as seen by clients and browsers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use recalld_api::pipeline::{Gate, routes};
use recalld_pydantic_compat::{RecallRequest, SemanticRecallRequest, Shape};
use serde_json::{Value, json};
use support_wire::mcp_client;
use support_wire::schema::{assert_fits, assert_open};
use support_wire::service::{Service, run, scratch, with_documents};
use support_wire::wire::{self, Answer, Ask};

const APP: &str = "https://app.example";
const OTHER_APP: &str = "http://localhost:3000";

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| with_documents(&["--allow-origin", APP, "--allow-origin", OTHER_APP]))
}

fn listeners() -> [&'static str; 2] {
    [service().local(), service().hosted()]
}

fn description() -> Value {
    let answer = service().ask(&Ask::get("/openapi.json"));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    answer.json()
}

/// All operations: method, path and description.
fn operations(description: &Value) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            found.push((method.to_ascii_uppercase(), path.clone(), operation.clone()));
        }
    }
    found
}

#[test]
fn every_operation_is_described_and_nothing_else() {
    let description = description();
    assert_eq!(description["openapi"], "3.1.0");
    assert_eq!(description["info"]["version"], "0.1.0");
    let described: Vec<(String, String)> =
        operations(&description).into_iter().map(|(method, path, _)| (method, path)).collect();
    let contract =
        [("GET", "/health"), ("POST", "/recall"), ("POST", "/semantic-recall"), ("GET", "/stats")];
    assert_eq!(described, contract.map(|(method, path)| (method.to_owned(), path.to_owned())));
    let rows = routes().filter(|route| route.target.operation().is_some());
    let rows: BTreeSet<(String, String)> =
        rows.map(|route| (route.method.to_string(), route.path.to_owned())).collect();
    assert_eq!(rows, described.into_iter().collect());
    // Every route that requires both credentials must be a described operation.
    for route in routes().filter(|route| route.gate == Gate::GatewayAndBearer) {
        assert!(route.target.operation().is_some(), "{}", route.path);
    }
}

#[test]
fn requests_are_described_by_the_rows_that_read_them() {
    let description = description();
    let schemas = &description["components"]["schemas"];
    let models = [
        ("RecallRequest", RecallRequest::FIELDS),
        ("SemanticRecallRequest", SemanticRecallRequest::FIELDS),
    ];
    for (name, fields) in models {
        let schema = &schemas[name];
        assert_eq!(schema["required"], json!(["query"]));
        assert_eq!(schema["properties"].as_object().unwrap().len(), fields.len());
        for field in fields {
            let property = &schema["properties"][field.name];
            assert_eq!(property["description"], field.about);
            match field.shape {
                Shape::Int(int) => assert_eq!(
                    (&property["minimum"], &property["maximum"], &property["default"]),
                    (&json!(int.min), &json!(int.max), &json!(int.default))
                ),
                Shape::Flag(flag) => assert_eq!(property["default"], flag.default),
                Shape::Text(_) => assert_eq!(property["type"], "string"),
                Shape::OptionalText(_) => assert_eq!(property["type"], json!(["string", "null"])),
            }
        }
    }
    let error = &schemas["ValidationError"];
    assert_eq!(error["required"], json!(["loc", "msg", "type"]));
    assert_eq!(schemas["HTTPValidationError"]["properties"]["detail"]["type"], "array");
}

#[test]
fn every_reference_leads_somewhere_and_every_example_fits() {
    fn walk(value: &Value, root: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(to) = fields.get("$ref").and_then(Value::as_str) {
                    assert!(root.pointer(to.strip_prefix('#').unwrap()).is_some(), "{to}");
                }
                if let (Some(schema), Some(example)) = (fields.get("schema"), fields.get("example"))
                {
                    assert_fits("an example", example, schema, root);
                }
                fields.values().for_each(|field| walk(field, root));
            }
            Value::Array(members) => members.iter().for_each(|member| walk(member, root)),
            _ => {}
        }
    }
    let description = description();
    walk(&description, &description);
    for (method, path, operation) in operations(&description) {
        let behind_gateway = operation["security"] != json!([]);
        let mut statuses: BTreeSet<&str> = BTreeSet::from([
            "200", "400", "403", "404", "405", "408", "413", "417", "431", "500", "501", "503",
            "505",
        ]);
        if behind_gateway {
            statuses.extend(["307", "401", "421", "422", "429", "502"]);
            let needed = json!([{"gatewayClientId": [], "gatewayClientSecret": [], "bearer": []}]);
            assert_eq!(operation["security"], needed);
            assert_eq!(operation["parameters"][0]["name"], "authorization");
        }
        let told: BTreeSet<&str> =
            operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(told, statuses, "{method} {path}");
        assert_eq!(operation.get("requestBody").is_some(), method == "POST", "{method} {path}");
    }
}

/// Sends a request and checks the response against the description of its status.
fn assert_described(description: &Value, method: &str, path: &str, ask: &Ask, status: u16) {
    let answer = service().ask(ask);
    assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
    let operation = &description["paths"][path][method.to_ascii_lowercase()];
    let mut told = &operation["responses"][status.to_string()];
    if let Some(to) = told["$ref"].as_str() {
        told = description.pointer(&to[1..]).unwrap();
    }
    let schema = &told["content"]["application/json"]["schema"];
    assert_fits(&format!("{method} {path}"), &answer.json(), schema, description);
    let headers = told["headers"].as_object().into_iter().flatten();
    for (name, _) in headers.filter(|(_, header)| header["required"] != false) {
        assert!(answer.header(name).is_some(), "{method} {path} {status} lacks {name}");
    }
}

#[test]
fn what_is_served_is_what_is_described() {
    let service = service();
    let mut description = description();
    // The description allows unknown fields for clients; this test does not.
    let schemas = description["components"]["schemas"].as_object_mut().unwrap();
    for (name, schema) in schemas.iter_mut().filter(|(name, _)| !name.ends_with("Request")) {
        assert_open(name, schema);
        close(schema);
    }
    let deep =
        json!({"query": "lamp keeper fog", "graph": true, "limit": 50, "neighbor_limit": 20});
    let asks = [
        ("GET", "/health", Ask::get("/health")),
        ("GET", "/stats", Ask::get("/stats")),
        ("POST", "/recall", Ask::post("/recall", &deep)),
        ("POST", "/semantic-recall", Ask::post("/semantic-recall", &json!({"query": "lamp"}))),
    ];
    for (method, path, ask) in asks {
        assert_described(&description, method, path, &service.signed(ask.clone()), 200);
        if path == "/health" {
            continue;
        }
        assert_described(&description, method, path, &ask, 403);
        let credentials = service.credentials();
        let gateway = ask
            .clone()
            .header("x-gateway-client-id", &credentials.gateway_id)
            .header("x-gateway-client-secret", &credentials.gateway_secret);
        assert_described(&description, method, path, &gateway, 401);
        if method == "POST" {
            let broken = service.signed(ask.clone().body(b"{".to_vec()));
            assert_described(&description, method, path, &broken, 422);
            let unreadable = service.signed(ask.clone().body(b"\"\xff\"".to_vec()));
            assert_described(&description, method, path, &unreadable, 400);
            let large = service.signed(ask.body(vec![b' '; 1024 * 1024 + 1]));
            assert_described(&description, method, path, &large, 413);
        }
    }
}

/// Forbids additional fields in a schema, recursively.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            if fields.get("type") == Some(&json!("object"))
                && fields.contains_key("properties")
                && !fields.contains_key("additionalProperties")
            {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(members) => members.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn documents_are_open_on_both_listeners() {
    let kinds = BTreeMap::from([
        ("/openapi.json", "application/json"),
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/page.js", "text/javascript; charset=utf-8"),
        ("/docs/page.css", "text/css; charset=utf-8"),
    ]);
    for authority in listeners() {
        for (path, kind) in &kinds {
            let answer = wire::ask(authority, &Ask::get(path));
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, Some(*kind)),
                "{path}"
            );
            let head = wire::ask(authority, &Ask::new("HEAD", path));
            assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
            assert_eq!(head.header("content-length"), answer.header("content-length"), "{path}");
        }
    }
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_runs_nothing_of_its_own() {
    let answer = service().ask(&Ask::get("/docs"));
    let policy = answer.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    for path in ["/docs", "/docs/page.js", "/docs/page.css"] {
        let text = service().ask(&Ask::get(path)).text();
        for word in
            ["://", "<style", " style=", " onclick", " onload", "innerHTML", "eval(", "@import"]
        {
            // In the page's files, `//` may occur in comments, but not in URLs.
            assert!(!text.contains(word), "{path} has {word}");
        }
        for word in ["localStorage", "sessionStorage", "document.cookie", "indexedDB"] {
            assert!(!text.contains(word), "{path} keeps something: {word}");
        }
    }
    let page = answer.text();
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("<script src=\"/docs/page.js\" defer></script>"));
}

const EXPOSED: [&str; 6] = [
    "mcp-session-id",
    "www-authenticate",
    "retry-after",
    "x-request-id",
    "x-recalld-left-out",
    "stale-seconds",
];

const PREFLIGHT: [(&str, &str); 2] = [
    ("Access-Control-Request-Method", "POST"),
    ("Access-Control-Request-Headers", "authorization,content-type,x-gateway-client-id"),
];

fn words(answer: &Answer, name: &str) -> Vec<String> {
    let value = answer.header(name).unwrap_or_else(|| panic!("no {name}"));
    value.split(", ").map(str::to_owned).collect()
}

#[track_caller]
fn assert_tells_no_page(answer: &Answer) {
    for name in ["origin", "methods", "headers", "credentials"] {
        assert_eq!(answer.header(&format!("access-control-allow-{name}")), None);
    }
    assert_eq!(answer.header("access-control-expose-headers"), None);
}

#[test]
fn options_names_the_methods_without_credentials() {
    for authority in listeners() {
        for (path, methods) in [
            ("/health", "GET, HEAD, OPTIONS"),
            ("/stats", "GET, HEAD, OPTIONS"),
            ("/recall", "OPTIONS, POST"),
            ("/semantic-recall?x", "OPTIONS, POST"),
            ("/openapi.json", "GET, HEAD, OPTIONS"),
        ] {
            let answer = wire::ask(authority, &Ask::new("OPTIONS", path));
            assert_eq!((answer.status, answer.header("allow")), (204, Some(methods)), "{path}");
            assert_tells_no_page(&answer);
        }
        let all = words(&wire::ask(authority, &Ask::new("OPTIONS", "*")), "allow");
        for method in ["GET", "HEAD", "OPTIONS", "POST"] {
            assert!(all.iter().any(|one| one == method), "{all:?}");
        }
        let answer = wire::ask(authority, &Ask::new("OPTIONS", "/nothing"));
        assert_eq!((answer.status, answer.json()), (404, json!({"detail": "Not Found"})));
    }
    let operators = wire::ask(service().hosted(), &Ask::new("OPTIONS", "/operator/export"));
    assert_eq!(operators.status, 404, "the hosted listener has none of the operator's routes");
}

#[test]
fn a_listed_origin_may_ask_and_read() {
    for authority in listeners() {
        for origin in [APP, OTHER_APP] {
            for path in ["/recall", "/mcp", "/semantic-recall"] {
                let ask = Ask::new("OPTIONS", path).header("Origin", origin).headers(&PREFLIGHT);
                let answer = wire::ask(authority, &ask);
                assert_eq!(answer.status, 204, "{path}");
                assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
                assert_eq!(answer.header("vary"), Some("Origin"));
                assert_eq!(answer.header("access-control-max-age"), Some("600"));
                let methods = words(&answer, "access-control-allow-methods");
                assert!(methods.iter().any(|method| method == "POST"), "{methods:?}");
                let fields = words(&answer, "access-control-allow-headers");
                for field in [
                    "authorization",
                    "content-type",
                    "x-gateway-client-id",
                    "x-gateway-client-secret",
                    "mcp-protocol-version",
                    "mcp-session-id",
                    "last-event-id",
                ] {
                    assert!(fields.iter().any(|one| one == field), "{field} of {fields:?}");
                }
            }
            let body = json!({"query": "lamp"});
            let asks = [
                (200, Ask::get("/health")),
                (403, Ask::get("/stats")),
                (200, service().signed(Ask::post("/recall", &body))),
                (422, service().signed(Ask::post("/recall", &json!({})))),
                (405, Ask::get("/recall")),
                (404, Ask::get("/nothing")),
                (200, service().signed(mcp_client::ask(&ping(None)))),
                (200, service().signed(mcp_client::ask(&ping(Some("t"))))),
            ];
            for (status, ask) in asks {
                let answer = wire::ask(authority, &ask.header("Origin", origin));
                assert_eq!(answer.status, status, "{}", answer.text());
                assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
                assert_eq!(answer.header("vary"), Some("Origin"));
                let exposed = words(&answer, "access-control-expose-headers");
                for field in EXPOSED {
                    assert!(exposed.iter().any(|one| one == field), "{field} of {exposed:?}");
                }
                assert_eq!(answer.header("access-control-allow-credentials"), None);
            }
        }
    }
}

/// A ping; with a progress token, its answer is a stream.
fn ping(token: Option<&str>) -> Value {
    let mut ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    if let Some(token) = token {
        ping["params"] = json!({"_meta": {"progressToken": token}});
    }
    ping
}

#[test]
fn nobody_elses_page_is_told_anything() {
    let foreign =
        ["https://evil.example", "https://app.example.evil.example", "https://APP.example", "null"];
    for origin in foreign {
        for ask in [Ask::get("/health"), Ask::new("OPTIONS", "/recall").headers(&PREFLIGHT)] {
            let ask = ask.header("Origin", origin);
            let hosted = wire::ask(service().hosted(), &ask);
            assert!([200, 204].contains(&hosted.status));
            assert_tells_no_page(&hosted);
            // A cache must not serve this response to an allowed origin.
            assert_eq!(hosted.header("vary"), Some("Origin"));
            let local = wire::ask(service().local(), &ask);
            assert_eq!(local.status, 403, "{origin}");
            assert_tells_no_page(&local);
        }
    }
    let twice = Ask::get("/health").header("Origin", APP).header("Origin", "https://evil.example");
    assert_tells_no_page(&wire::ask(service().hosted(), &twice));
    // Unknown paths and operator paths are indistinguishable at the hosted listener.
    for path in ["/nothing", "/operator/export"] {
        let hosted = wire::ask(service().hosted(), &Ask::get(path).header("Origin", APP));
        assert_eq!((hosted.status, hosted.header("vary")), (404, Some("Origin")), "{path}");
        assert_eq!(hosted.header("access-control-allow-origin"), Some(APP), "{path}");
    }
    // Operator routes are for local programs; no web page may call them.
    let preflight =
        Ask::new("OPTIONS", "/operator/export").header("Origin", APP).headers(&PREFLIGHT);
    let answer = wire::ask(service().local(), &preflight);
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_tells_no_page(&answer);
    let export = service().signed(Ask::post("/operator/export", &json!({}))).header("Origin", APP);
    assert_eq!(wire::ask(service().local(), &export).status, 403);
}

#[test]
fn an_origin_that_no_browser_sends_is_refused_at_the_start() {
    let scratch = scratch();
    for (origin, why) in [
        ("*", "every origin must be named"),
        ("https://app.example/", "nothing else"),
        ("https://App.example", "lower case"),
        ("https://app.example:443", "other than the scheme's own"),
    ] {
        let output = run(scratch.path(), &["serve", "--allow-origin", origin]);
        assert_eq!(output.status.code(), Some(2), "{origin}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(why) && said.contains("https://app.example"), "{said}");
    }
}
