//! Authentication before any other check: each row of the table of credentials and each limit of the HTTP API, on both
//! listeners, for an operator and for tenants.
//!
//! Other tests cover the remaining rows:
//! - `/mcp`: `tenancy.rs`, `free_lane.rs`, `streams_end.rs`.
//! - `/token`: `tenancy.rs`.
//! - Legacy hosts: `legacy.rs`.
//! - Quotas: `tenancy.rs`, `free_lane.rs`.
//! - Oversized, slow or malformed requests: `hostile.rs`.
//! - The timeout of tool calls: `mcp_eras/bounds.rs`.

use serde_json::{Value, json};
use support_server::house::{House, call, given};
use support_wire::service::{Service, run_json};
use support_wire::wire::{self, Answer, Ask};

/// The operations that require credentials.
fn operations() -> [Ask; 3] {
    let body = json!({"query": "anything?"});
    [Ask::get("/stats"), Ask::post("/recall", &body), Ask::post("/semantic-recall", &body)]
}

/// A request with an invalid body.
fn broken(path: &str) -> Ask {
    Ask::post(path, &json!({})).body(b"{".to_vec())
}

fn listeners(service: &Service) -> [&str; 2] {
    [service.local(), service.hosted()]
}

fn with_gateway(service: &Service, ask: Ask) -> Ask {
    let known = service.credentials();
    ask.header("x-gateway-client-id", &known.gateway_id)
        .header("x-gateway-client-secret", &known.gateway_secret)
}

fn with_bearer(ask: Ask, bearer: &str) -> Ask {
    ask.header("Authorization", &format!("Bearer {bearer}"))
}

/// Status, `detail` and challenge of a response.
fn told(answer: &Answer) -> (u16, Value, Option<&str>) {
    (answer.status, answer.json()["detail"].clone(), answer.header("www-authenticate"))
}

const GATEWAY: &str = "Gateway service token required";
const BEARER: &str = "Not authenticated";
const WRONG: &str = "Bearer error=\"invalid_token\"";

#[test]
fn the_gateway_comes_first_then_the_bearer_then_the_body() {
    let house = House::new();
    let acme = house.tenant("acme", "team");
    let (service, _scratch) = house.serve(&[]);
    let operators = service.credentials().bearer.clone();
    let (id, secret) = (&service.credentials().gateway_id, &service.credentials().gateway_secret);
    for at in listeners(&service) {
        for ask in operations().into_iter().chain([broken("/recall"), broken("/semantic-recall")]) {
            let send = |ask: &Ask| wire::ask(at, ask);
            for bearer in ["none", &acme, &operators] {
                let bare = with_bearer(ask.clone(), bearer);
                for wrong in [
                    bare.clone(),
                    bare.clone().header("x-gateway-client-id", id),
                    bare.clone()
                        .headers(&[("x-gateway-client-id", id), ("x-gateway-client-secret", "no")]),
                    bare.clone().headers(&[
                        ("x-gateway-client-id", "no"),
                        ("x-gateway-client-secret", secret),
                    ]),
                    // A duplicated header counts as missing.
                    with_gateway(&service, bare.clone()).header("x-gateway-client-secret", secret),
                ] {
                    let answer = send(&wrong);
                    assert_eq!(told(&answer), (403, json!(GATEWAY), None), "{at} {bearer}");
                }
            }
            let gated = with_gateway(&service, ask.clone());
            assert_eq!(told(&send(&gated)), (401, json!(BEARER), Some("Bearer")), "{at}");
            let wrong = send(&with_bearer(gated.clone(), "recalld_pat_none"));
            assert_eq!(told(&wrong), (401, json!(BEARER), Some(WRONG)), "{at}");
            let twice = with_bearer(with_bearer(gated.clone(), &acme), &acme);
            assert_eq!(told(&send(&twice)), (401, json!(BEARER), Some("Bearer")), "{at}");
        }
        for bearer in [&acme, &operators] {
            for ask in operations() {
                let good = wire::ask(at, &with_bearer(with_gateway(&service, ask), bearer));
                assert_eq!(good.status, 200, "{at}: {}", good.text());
            }
            let answer =
                wire::ask(at, &with_bearer(with_gateway(&service, broken("/recall")), bearer));
            assert_eq!(answer.status, 422, "{at}: {}", answer.text());
            // A bearer in the query is ignored.
            for name in ["access_token", "authorization", "bearer", "token"] {
                let ask = Ask::get(&format!("/stats?{name}={bearer}"));
                let answer = wire::ask(at, &with_gateway(&service, ask));
                assert_eq!(told(&answer), (401, json!(BEARER), Some("Bearer")), "{at} {name}");
            }
        }
    }
}

#[test]
fn a_stopped_workspace_and_a_spent_rate_are_told_before_the_body() {
    let house = House::new();
    let stopped = house.tenant("stopped", "team");
    let gone = house.tenant("gone", "team");
    let slow = house.tenant("slow", "slow");
    let settings = "[plans.slow]\nfamilies = [\"recall\", \"status\"]\n\
                    scopes = [\"tenant:read\", \"brain:proxy\"]\nrate_per_second = 1\nburst = 1\n";
    let (service, _scratch) = house.serve_with(settings);
    run_json(service.data(), &["tenant", "suspend", "stopped"]);
    run_json(service.data(), &["tenant", "delete", "gone", "--confirm", "gone"]);
    for at in listeners(&service) {
        for ask in operations().into_iter().chain([broken("/recall")]) {
            let send =
                |bearer| wire::ask(at, &with_bearer(with_gateway(&service, ask.clone()), bearer));
            assert_eq!(told(&send(&stopped)), (403, json!("Workspace suspended"), None), "{at}");
            assert_eq!(told(&send(&gone)), (401, json!(BEARER), Some(WRONG)), "{at}");
        }
        // At one call a second, most of many calls at once are rejected, whatever their body.
        let mut limited = 0;
        for _ in 0..40 {
            let ask = with_bearer(with_gateway(&service, broken("/recall")), &slow);
            let answer = wire::ask(at, &ask);
            if answer.status == 429 {
                limited += 1;
                assert_eq!(answer.json(), json!({"detail": "Too Many Requests"}));
                let wait = answer.header("retry-after").and_then(|wait| wait.parse::<u32>().ok());
                assert!(wait.is_some_and(|wait| wait >= 1), "{at}: {}", answer.head());
            } else {
                assert_eq!(answer.status, 422, "{at}: {}", answer.text());
            }
        }
        assert!(limited > 0, "{at}");
        // A resumed workspace works as before.
        run_json(service.data(), &["tenant", "resume", "stopped"]);
        let ask = with_bearer(with_gateway(&service, Ask::get("/stats")), &stopped);
        assert_eq!(wire::ask(at, &ask).status, 200, "{at}");
        run_json(service.data(), &["tenant", "suspend", "stopped"]);
    }
    // Rates are independent, though all calls come from one address.
    let operators = service.credentials().bearer.clone();
    for _ in 0..80 {
        let ask = with_bearer(with_gateway(&service, Ask::get("/stats")), &operators);
        assert_eq!(wire::ask(service.local(), &ask).status, 200);
    }
}

#[test]
fn a_workspace_that_does_not_open_says_when_to_come_again() {
    let house = House::new();
    let acme = house.tenant("acme", "team");
    std::fs::remove_dir_all(house.data().join("tenants/acme/store")).unwrap();
    let (service, _scratch) = house.serve(&[]);
    for at in listeners(&service) {
        for ask in operations() {
            let answer = wire::ask(at, &with_bearer(with_gateway(&service, ask), &acme));
            assert_eq!(answer.status, 503, "{at}: {}", answer.text());
            assert!(answer.header("retry-after").is_some(), "{at}: {}", answer.head());
        }
    }
    let answer = call(&service, &acme, "brain_recall", &json!({"query": "x"}));
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.json()["error"]["data"]["reason"], "workspace_unavailable");
    assert!(answer.header("retry-after").is_some(), "{}", answer.head());
}

#[test]
fn paths_and_methods_are_told_apart_without_credentials() {
    let (service, _scratch) = House::new().serve(&[]);
    for at in listeners(&service) {
        for path in ["/nowhere", "/recall/", "/stats/x", "/operator", "/Recall"] {
            let answer = wire::ask(at, &Ask::get(path));
            assert_eq!(
                (answer.status, answer.json()),
                (404, json!({"detail": "Not Found"})),
                "{at} {path}"
            );
        }
        for (path, method, allowed) in [
            ("/stats", "POST", "GET, HEAD, OPTIONS"),
            ("/recall", "GET", "OPTIONS, POST"),
            ("/semantic-recall", "DELETE", "OPTIONS, POST"),
            ("/health", "PUT", "GET, HEAD, OPTIONS"),
            ("/mcp", "PATCH", "DELETE, GET, HEAD, OPTIONS, POST"),
        ] {
            let answer = wire::ask(at, &Ask::new(method, path));
            let wanted = (405, json!({"detail": "Method Not Allowed"}));
            assert_eq!((answer.status, answer.json()), wanted, "{at} {path}");
            assert_eq!(answer.header("allow"), Some(allowed), "{at} {path}");
        }
        let health = wire::ask(at, &Ask::get("/health"));
        assert_eq!(health.status, 200, "{at}");
        for secret in [&service.credentials().bearer, &service.credentials().gateway_secret] {
            assert!(!health.text().contains(secret.as_str()), "{at}");
        }
        assert_eq!(wire::ask(at, &Ask::new("OPTIONS", "/recall")).status, 204, "{at}");
    }
    // Operator routes do not exist on the hosted listener.
    for path in ["/operator/recall", "/operator/call", "/operator/admin", "/metrics"] {
        assert_eq!(wire::ask(service.hosted(), &Ask::get(path)).status, 404, "{path}");
    }
}

#[test]
fn limits_of_recalls_hold_for_tenants_on_both_listeners() {
    let house = House::new();
    let acme = house.tenant("acme", "team");
    let (service, _scratch) = house.serve(&[]);
    for n in 0..7 {
        let text = format!("Lamp number {n} of the harbour is green.");
        given(&service, &acme, "brain_remember", &json!({"text": text}));
    }
    for at in listeners(&service) {
        let post = |path: &str, body: Value| {
            wire::ask(at, &with_bearer(with_gateway(&service, Ask::post(path, &body)), &acme))
        };
        let faulty = |answer: &Answer, field: &str| {
            let detail = answer.json()["detail"][0].take();
            assert_eq!(
                (answer.status, &detail["loc"]),
                (422, &json!(["body", field])),
                "{at}: {detail}"
            );
        };
        for path in ["/recall", "/semantic-recall"] {
            faulty(&post(path, json!({})), "query");
            for limit in [json!(0), json!(51), json!("many"), json!(5.5)] {
                faulty(&post(path, json!({"query": "lamp", "limit": limit})), "limit");
            }
            assert_eq!(post(path, json!({"query": "lamp", "limit": 50})).status, 200, "{at}");
        }
        let count = |body: Value| post("/recall", body).json().as_array().map(Vec::len);
        assert_eq!(count(json!({"query": "harbour lamp"})), Some(5), "{at}: five by default");
        assert_eq!(count(json!({"query": "harbour lamp", "limit": 1})), Some(1), "{at}");
        for limit in [-1, 21] {
            let body = json!({"query": "lamp", "graph": true, "neighbor_limit": limit});
            faulty(&post("/recall", body), "neighbor_limit");
        }
        for limit in [0, 20] {
            let body = json!({"query": "lamp", "graph": true, "neighbor_limit": limit});
            assert_eq!(post("/recall", body).status, 200, "{at}");
        }
        let large = post("/recall", json!({"query": "x".repeat(2 << 20)}));
        assert_eq!(large.status, 413, "{at}: {}", large.text());
    }
    // The server sets the limits of the governed path and reports them.
    for bound in ["limit", "candidate_limit"] {
        let arguments = json!({"query": "lamp", "compact": true, bound: 100});
        let answer = call(&service, &acme, "retrieval_arbitrate_tool", &arguments).json();
        assert_eq!(answer["result"]["isError"], true, "{bound}: {answer}");
    }
    let asked = json!({"query": "Which lamp is green?", "compact": true});
    let found = given(&service, &acme, "retrieval_arbitrate_tool", &asked);
    assert!(found["routing"]["bounds"].is_object(), "{found}");
    assert!(!found["items"].as_array().unwrap().is_empty(), "{found}");
}
