//! Legacy hosts, before and after the end of their validity.

use recalld_metastore::Kind;
use serde_json::{Value, json};
use support_server::house::{House, SCOPES, api, mcp};
use support_wire::mcp_client::McpClient;
use support_wire::service::Service;
use support_wire::wire::{self, Answer, Ask};
use tempfile::TempDir;

const OLD: &str = "old.example";

/// A server with these settings of `[legacy]`, a bearer issued now, and a workspace key.
fn serve(legacy: &str) -> (Service, TempDir, String, String) {
    let house = House::new();
    let bearer = house.tenant("acme", "team");
    let key = house.bearer("acme", Kind::Workspace, &SCOPES);
    let settings = format!("[legacy]\nhosts = [\"old.example\", \"older.example\"]\n{legacy}");
    let (service, scratch) = house.serve_with(&settings);
    (service, scratch, bearer, key)
}

fn list(service: &Service, bearer: &str, host: &str) -> Answer {
    let ask = mcp(bearer, "tools/list", &json!({})).header("Host", host);
    wire::ask(service.hosted(), &ask)
}

fn stats(service: &Service, bearer: &str, host: &str) -> Answer {
    api(service, service.hosted(), bearer, Ask::get("/stats").header("Host", host))
}

/// Requests an access token with the workspace key from the canonical host.
fn token(service: &Service, key: &str) -> String {
    let body = format!("grant_type=client_credentials&client_id=acme&client_secret={key}");
    let ask = Ask::new("POST", "/token")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(body.into_bytes());
    let given: Value = wire::ask(service.hosted(), &ask).json();
    given["access_token"].as_str().unwrap_or_else(|| panic!("{given}")).to_owned()
}

#[test]
fn before_its_moment_a_host_takes_what_was_issued_before_the_migration() {
    let (service, _scratch, bearer, key) =
        serve("migrated_at = 2099-01-01T00:00:00Z\nuntil = 2099-02-01T00:00:00Z\n");
    let access = token(&service, &key);
    for host in [OLD, "OLD.example:443", "older.example.", service.hosted()] {
        assert_eq!(list(&service, &bearer, host).status, 200, "{host}");
        assert_eq!(list(&service, &access, host).status, 200, "{host}");
        assert_eq!(stats(&service, &bearer, host).status, 200, "{host}");
    }
    // The issue time of the operator's bearer is unknown, so legacy hosts reject it.
    let operators = service.credentials().bearer.clone();
    assert_eq!(list(&service, &operators, OLD).status, 401);
    assert_eq!(list(&service, &operators, "new.example").status, 200);
    // New credentials are issued at the canonical host only.
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/jwks.json"] {
        assert_eq!(
            wire::ask(service.hosted(), &Ask::get(path).header("Host", OLD)).status,
            410,
            "{path}"
        );
    }
    let asked = Ask::new("POST", "/token").header("Host", OLD);
    assert_eq!(wire::ask(service.hosted(), &asked).status, 410);
    assert_eq!(wire::ask(service.hosted(), &Ask::get("/health").header("Host", OLD)).status, 200);
}

#[test]
fn what_was_issued_since_the_migration_is_good_at_the_canonical_address_alone() {
    for migrated in ["migrated_at = 2020-01-01T00:00:00Z\n", ""] {
        let settings = format!("{migrated}until = 2099-02-01T00:00:00Z\n");
        let (service, _scratch, bearer, key) = serve(&settings);
        let access = token(&service, &key);
        for bearer in [&bearer, &access] {
            let refused = list(&service, bearer, "old.EXAMPLE.:8443");
            assert_eq!(refused.status, 401, "{}", refused.text());
            let challenge = refused.header("www-authenticate").unwrap_or_default();
            let canonical = format!("resource_metadata=\"http://{}/", service.hosted());
            assert!(
                challenge.contains("invalid_token") && challenge.contains(&canonical),
                "{challenge}"
            );
            assert_eq!(list(&service, bearer, service.hosted()).status, 200);
        }
        assert_eq!(stats(&service, &bearer, OLD).status, 401);
        assert_eq!(stats(&service, &bearer, "older.example.evil").status, 200);
    }
}

#[test]
fn from_its_moment_on_a_host_says_where_the_service_is_and_nothing_else() {
    let (service, _scratch, bearer, _) =
        serve("migrated_at = 2000-01-01T00:00:00Z\nuntil = 2001-01-01T00:00:00Z\n");
    let canonical = format!("http://{}", service.hosted());
    let large = json!({"query": "x".repeat(40_000)});
    for answer in [
        list(&service, &bearer, OLD),
        list(&service, "none", OLD),
        stats(&service, &bearer, "Older.Example:80"),
        wire::ask(service.hosted(), &Ask::get("/health").header("Host", OLD)),
        wire::ask(service.hosted(), &Ask::get("/no/such/path").header("Host", OLD)),
        wire::ask(service.hosted(), &Ask::new("OPTIONS", "/mcp").header("Host", OLD)),
        api(&service, service.hosted(), &bearer, Ask::post("/recall", &large).header("Host", OLD)),
    ] {
        assert_eq!(answer.status, 410, "{}", answer.text());
        let detail = answer.json()["detail"].clone();
        assert!(detail.as_str().is_some_and(|text| text.contains(&canonical)), "{detail}");
        let link = answer.header("link").unwrap_or_default();
        assert_eq!(link, format!("<{canonical}>; rel=\"canonical\""));
    }
    assert_eq!(list(&service, &bearer, service.hosted()).status, 200);
    assert_eq!(stats(&service, &bearer, "new.example").status, 200);
    // The local listener accepts only its own names.
    assert!(McpClient::open(&service).call("tenant_info", &json!({})).is_object());
    let local = service.ask(&Ask::get("/health").header("Host", OLD));
    assert_eq!(local.status, 403);
}
