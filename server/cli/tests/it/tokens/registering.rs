//! Dynamic client registration (RFC 7591).

use recalld_metastore::Kind;
use serde_json::{Value, json};
use support_server::house::SCOPES;
use support_wire::wire::{self, Answer, Ask};

use crate::tokens::desk::{Desk, REDIRECT, Room};

fn register(desk: &Desk, body: &Value) -> Answer {
    wire::ask(desk.service.hosted(), &Ask::post("/register", body))
}

#[test]
fn a_client_is_told_what_it_was_taken_as() {
    let desk = Room::new().serve();
    let named = json!({
        "client_name": "Notebook", "redirect_uris": [REDIRECT, "http://127.0.0.1/callback"],
        "token_endpoint_auth_method": "none", "grant_types": ["authorization_code", "refresh_token", "implicit"],
        "response_types": ["code"], "logo_uri": "http://169.254.169.254/", "scope": "tenant:read",
        "application_type": "native", "contacts": null,
    });
    let answer = register(&desk, &named);
    let body = answer.json();
    assert_eq!((answer.status, answer.header("Cache-Control")), (201, Some("no-store")), "{body}");
    for name in ["client_name", "redirect_uris", "token_endpoint_auth_method", "response_types"] {
        assert_eq!(body[name], named[name], "{name}");
    }
    assert_eq!(body["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert!(body["client_id"].is_string() && body["client_id_issued_at"].is_u64(), "{body}");
    assert_eq!((&body["client_secret"], &body["logo_uri"]), (&Value::Null, &Value::Null));
    let bare = register(&desk, &json!({"redirect_uris": [REDIRECT]})).json();
    assert_eq!(bare["token_endpoint_auth_method"], "client_secret_basic");
    assert_eq!(
        (&bare["client_secret_expires_at"], &bare["client_name"]),
        (&json!(0), &Value::Null)
    );
    assert!(bare["client_secret"].as_str().unwrap().starts_with("recalld_client_"), "{bare}");
    assert_ne!(bare["client_id"], body["client_id"]);
    // The grant types are fixed, whatever the client requests.
    assert_eq!(bare["grant_types"], json!(["authorization_code", "refresh_token"]));
    let few = json!({"redirect_uris": [REDIRECT], "grant_types": ["authorization_code"]});
    let few = register(&desk, &few).json();
    assert_eq!(few["grant_types"], bare["grant_types"]);
    let listed = support_wire::service::run_json(desk.service.data(), &["client", "list"]);
    assert_eq!(listed["clients"].as_array().unwrap().len(), 3);
    let preflight = Ask::new("OPTIONS", "/register").headers(&[
        ("Origin", "https://app.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type, mcp-protocol-version"),
    ]);
    let allowed = wire::ask(desk.service.hosted(), &preflight);
    assert_eq!(allowed.header("Access-Control-Allow-Origin"), Some("*"));
}

#[test]
fn what_may_not_be_registered_is_told_by_its_code() {
    let desk = Room::new().serve();
    let with = |name: &str, value: Value| {
        let mut body = json!({"redirect_uris": [REDIRECT]});
        body[name] = value;
        body
    };
    for uri in [
        "http://notebook.example/callback",
        "https://notebook.example/callback#a",
        "https://user@notebook.example/",
        "https://notebook.example/../a",
        "javascript:alert(1)",
        "https://*.example/",
        "//evil.example/",
        "https://notebook.example/?code=1",
        "HTTPS://notebook.example/",
        "",
    ] {
        let answer = register(&desk, &with("redirect_uris", json!([uri])));
        let said = (answer.status, answer.json()["error"].clone());
        assert_eq!(said, (400, json!("invalid_redirect_uri")), "{uri}");
    }
    for (body, code) in [
        (json!({}), "invalid_redirect_uri"),
        (with("redirect_uris", json!([])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(vec![REDIRECT; 17])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(REDIRECT)), "invalid_redirect_uri"),
        (with("client_name", json!("a\u{202e}b")), "invalid_client_metadata"),
        (with("client_name", json!("a".repeat(101))), "invalid_client_metadata"),
        (with("client_name", json!(5)), "invalid_client_metadata"),
        (with("token_endpoint_auth_method", json!("private_key_jwt")), "invalid_client_metadata"),
        (with("grant_types", json!(["client_credentials"])), "invalid_client_metadata"),
        (with("response_types", json!(["token"])), "invalid_client_metadata"),
        (json!([]), "invalid_client_metadata"),
    ] {
        let answer = register(&desk, &body);
        assert_eq!((answer.status, &answer.json()["error"]), (400, &json!(code)), "{body}");
    }
    let form = Ask::post("/register", &json!({})).without("Content-Type");
    let plain = wire::ask(desk.service.hosted(), &form.header("Content-Type", "text/plain"));
    assert_eq!((plain.status, &plain.json()["error"]), (400, &json!("invalid_client_metadata")));
    let large = register(&desk, &with("note", json!("x".repeat(20_000))));
    assert!([400, 413].contains(&large.status), "{}", large.status);
    let listed = support_wire::service::run_json(desk.service.data(), &["client", "list"]);
    assert_eq!(listed["clients"], json!([]));
}

#[test]
fn who_registers_without_end_has_to_wait() {
    let desk = Room::new().serve();
    let statuses: Vec<u16> = (0..200)
        .map(|_| register(&desk, &json!({"redirect_uris": [REDIRECT]})).status)
        .take_while(|status| *status == 201)
        .collect();
    assert!((60..200).contains(&statuses.len()), "{}", statuses.len());
    let refused = register(&desk, &json!({"redirect_uris": [REDIRECT]}));
    assert_eq!(refused.status, 429);
    assert!(refused.header("Retry-After").is_some());
}

#[test]
fn a_client_is_no_workspace() {
    let room = Room::new();
    let (public, private) = (room.client("none"), room.client("client_secret_post"));
    let key = room.house.issue("acme", Kind::Workspace, None, &SCOPES);
    let desk = room.serve();
    let ask = |id: &str, secret: Option<&str>| {
        let mut fields = vec![("grant_type", "client_credentials"), ("client_id", id)];
        fields.extend(secret.map(|secret| ("client_secret", secret)));
        let answer = desk.token(&fields);
        (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
    };
    let unauthorized = (400, "unauthorized_client".to_owned());
    // A wrong client type is not counted as a guess, however often.
    for _ in 0..8 {
        assert_eq!(ask(&public.id, None), unauthorized);
        assert_eq!(ask(&private.id, private.secret.as_deref()), unauthorized);
        assert_eq!(ask("https://notebook.example/client.json", None), unauthorized);
    }
    assert_eq!(ask("acme", Some(&key)), (200, String::new()));
    let invalid = (401, "invalid_client".to_owned());
    assert_eq!(ask(&private.id, Some("recalld_client_wrong")), invalid);
    assert_eq!(ask(&private.id, None), invalid);
    assert_eq!(ask("c00000000000000000000000000000000", None), invalid);
}

#[test]
fn behind_a_gateway_each_client_has_its_own_share() {
    let room = Room::new();
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("recalld.toml");
    std::fs::write(&settings, "[hosted]\ntrusted_proxies = [\"127.0.0.0/8\"]\n").unwrap();
    let desk = room.serve_with(&["--config", settings.to_str().unwrap()]);
    let status = |fields: &[(&str, &str)]| {
        let ask = Ask::post("/register", &json!({"redirect_uris": [REDIRECT]})).headers(fields);
        wire::ask(desk.service.hosted(), &ask).status
    };
    let from = |address: &str| status(&[("X-Forwarded-For", address)]);
    let until_refused = (0..200).position(|_| from("198.51.100.1") == 429).unwrap();
    assert!((60..200).contains(&until_refused), "{until_refused}");
    // Addresses left of the gateway's own entry are written by the client and ignored.
    assert_eq!(from("203.0.113.9, 198.51.100.1"), 429);
    assert_eq!(from("127.0.0.1, 198.51.100.1"), 429);
    assert_eq!(from("198.51.100.1, 203.0.113.9"), 201);
    assert_eq!(status(&[("Forwarded", "for=198.51.100.1")]), 429);
    assert_eq!(status(&[]), 201);
}
