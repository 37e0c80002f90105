//! Tenants over HTTP: each bearer opens only its own workspace, within its plan and rate, and only while it is valid.

use std::fs;

use recalld_metastore::Kind;
use serde_json::json;
use support_server::house::{House, SCOPES, api, call, given, mcp, tools};
use support_wire::mcp_client;
use support_wire::service::Service;
use support_wire::wire::{self, Answer, Ask};

#[test]
fn each_bearer_opens_its_own_workspace_and_no_other() {
    let house = House::new();
    let (acme, globex) = (house.tenant("acme", "team"), house.tenant("globex", "team"));
    let (service, _scratch) = house.serve(&[]);
    let secret = "The vault of acme opens with four left turns.";
    let stored = given(&service, &acme, "brain_remember", &json!({"text": secret}));
    let id = stored["item"]["id"].as_str().unwrap();
    given(&service, &globex, "brain_remember", &json!({"text": "Globex sells umbrellas."}));
    let asked = json!({"query": "How does the vault open?", "compact": true});
    let found = given(&service, &acme, "retrieval_arbitrate_tool", &asked);
    assert!(found.to_string().contains("four left turns"), "{found}");
    for (whose, bearer, items) in [("acme", &acme, 1), ("globex", &globex, 1)] {
        for at in [service.hosted(), service.local()] {
            let stats = api(&service, at, bearer, Ask::get("/stats"));
            assert_eq!(stats.json()["memory_items"], items, "{whose}: {}", stats.text());
        }
    }
    // Queries for the other tenant's data by words, meaning, id and name.
    let ask = |path: &str| Ask::post(path, &json!({"query": "how the vault opens", "limit": 50}));
    for answer in [
        call(&service, &globex, "retrieval_arbitrate_tool", &asked),
        api(&service, service.hosted(), &globex, ask("/recall")),
        api(&service, service.local(), &globex, ask("/semantic-recall")),
        wire::ask(
            service.hosted(),
            &mcp(&globex, "resources/read", &json!({"uri": format!("memory://item/{id}")})),
        ),
        call(&service, &globex, "docstore_get_document_tool", &json!({"document_id": id})),
    ] {
        assert!(!answer.text().contains("left turns"), "{}", answer.text());
    }
    for (name, value) in [("X-Workspace", "acme"), ("X-Tenant", "acme"), ("Host", "acme.example")] {
        let answer = api(&service, service.hosted(), &globex, ask("/recall").header(name, value));
        assert!(!answer.text().contains("left turns"), "{name}: {}", answer.text());
    }
    // The operator's own workspace contains neither tenant's data.
    assert_eq!(service.post("/recall", &json!({"query": secret})), json!([]));
    // Each call is recorded only in its own ledger.
    let ledger = |slug: &str| {
        let arguments = ["ledger", "show", "--workspace", slug, "--json", "--last", "100"];
        let shown = support_wire::service::run(service.data(), &arguments);
        assert!(shown.status.success() && !shown.stdout.is_empty(), "{slug}: {shown:?}");
        String::from_utf8(shown.stdout).unwrap()
    };
    assert!(ledger("acme").contains("brain_remember"), "{}", ledger("acme"));
    assert!(ledger("globex").lines().all(|line| line.contains("user:ada")), "{}", ledger("globex"));
    assert!(!ledger("local").contains("user:ada"), "{}", ledger("local"));
}

#[test]
fn a_plan_says_which_tools_there_are_and_a_credential_which_of_them() {
    let house = House::new();
    let free = house.tenant("free-lane", "free");
    let team = house.tenant("acme", "team");
    let reader = house.bearer("acme", Kind::Bearer, &["brain:proxy"]);
    let greedy = house.bearer("free-lane", Kind::User, &["audit:read", "bench:run", "brain:proxy"]);
    let (service, _scratch) = house.serve(&[]);
    let known = ["tenant_info", "brain_recall", "brain_remember"];
    let listed = tools(&service, &free);
    assert!(listed.len() == 3 && listed.iter().all(|name| known.contains(&&**name)), "{listed:?}");
    assert!(tools(&service, &team).len() > 5);
    assert!(!tools(&service, &reader).contains(&"brain_remember".to_owned()));
    assert_eq!(
        tools(&service, &greedy),
        ["brain_recall", "tenant_info"],
        "a plan bounds what a key may have"
    );
    // A tool outside the plan is unknown, even by name. A tool outside the credential's scopes needs another scope.
    let answer = call(&service, &free, "recall_stats", &json!({})).json();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(call(&service, &reader, "brain_remember", &json!({"text": "x"})).status, 403);
    // The free plan can write after its address is confirmed.
    let refused = call(&service, &free, "brain_remember", &json!({"text": "x"})).json();
    assert_eq!(refused["result"]["_meta"]["recalld/reason"], "email_not_verified", "{refused}");
    let asked = call(&service, &free, "brain_recall", &json!({"query": "anything?"})).json();
    assert_eq!(asked["result"]["isError"], false, "{asked}");
}

#[test]
fn what_does_not_stand_opens_nothing() {
    let house = House::new();
    let ids = |house: &House| -> Vec<String> {
        let listed = house.control.credentials("acme", None, 100).unwrap();
        listed.into_iter().map(|one| one.id).collect()
    };
    let good = house.tenant("acme", "team");
    let before = ids(&house);
    let revoked = house.bearer("acme", Kind::Bearer, &SCOPES);
    let second = ids(&house).into_iter().find(|id| !before.contains(id)).unwrap();
    let stopped = house.tenant("stopped", "team");
    let gone = house.tenant("gone", "team");
    let (workspace, once) =
        (house.bearer("acme", Kind::Workspace, &SCOPES), house.bearer("acme", Kind::Once, &SCOPES));
    house.control.revoke_credential("acme", &second).unwrap();
    house.control.suspend_tenant("stopped").unwrap();
    house.control.delete_tenant("gone").unwrap();
    let (service, _scratch) = house.serve(&[]);
    let list = |bearer: &str| wire::ask(service.hosted(), &mcp(bearer, "tools/list", &json!({})));
    assert_eq!([list(&good).status, list(&revoked).status], [200, 401]);
    let answer = list(&stopped);
    assert_eq!((answer.status, answer.json()), (403, json!({"detail": "Workspace suspended"})));
    for (what, bearer) in
        [("deleted", &gone), ("workspace key", &workspace), ("one-time key", &once)]
    {
        let answer = list(bearer);
        assert_eq!(answer.status, 401, "{what}: {}", answer.text());
        let challenge = answer.header("www-authenticate").unwrap_or_default();
        assert!(challenge.contains("error=\"invalid_token\""), "{what}: {challenge}");
        assert!(challenge.contains("resource_metadata="), "{what}: {challenge}");
    }
    // A revoked credential is not counted as a guess, however often it is presented.
    for _ in 0..30 {
        assert_eq!(list(&revoked).status, 401);
    }
    // Without a credential, the challenge names no error (RFC 6750, section 3.1).
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let answer = wire::ask(service.hosted(), &mcp_client::ask(&message));
    let challenge = answer.header("www-authenticate").unwrap_or_default();
    assert_eq!(answer.status, 401);
    assert!(challenge.starts_with("Bearer ") && !challenge.contains("error="), "{challenge}");
    // A bearer in the query is ignored.
    let message = mcp_client::ask(&message);
    let target = format!("/mcp?access_token={good}");
    let answer = wire::ask(service.hosted(), &message.clone().to(&target));
    assert_eq!(answer.status, 401, "{}", answer.text());
    // Operator routes accept only the operator's bearer.
    for bearer in [&good, &revoked] {
        let ask = Ask::post("/operator/recall", &json!({"query": "x"}));
        let answer = service.ask(&ask.header("Authorization", &format!("Bearer {bearer}")));
        assert_eq!(answer.status, 401, "{}", answer.text());
    }
}

#[test]
fn a_quota_and_a_rate_end_calls_and_say_until_when() {
    let house = House::new();
    let small = house.tenant("small", "team");
    house.control.set_quota("small", Some(3)).unwrap();
    let quick = house.tenant("quick", "slow");
    let other = house.bearer("quick", Kind::Bearer, &SCOPES);
    let settings = house.scratch.path().join("settings.toml");
    fs::write(
        &settings,
        "[plans.slow]\nfamilies = [\"recall\", \"docstore\", \"status\"]\n\
         scopes = [\"tenant:read\", \"brain:proxy\"]\nrate_per_second = 1\nburst = 2\n",
    )
    .unwrap();
    let (service, _scratch) = house.serve(&["--config", settings.to_str().unwrap()]);
    // A failed call is not counted; a call over the quota is rejected.
    for n in 0..3 {
        let failed = call(&service, &small, "brain_recall", &json!({"limit": 3})).json();
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        given(&service, &small, "brain_recall", &json!({"query": format!("question {n}")}));
    }
    let refused = call(&service, &small, "brain_recall", &json!({"query": "one more"})).json();
    assert_eq!(refused["result"]["_meta"]["recalld/reason"], "quota_exceeded", "{refused}");
    let answer = api(&service, service.hosted(), &small, Ask::get("/stats"));
    assert_eq!(answer.status, 429, "{}", answer.text());
    assert!(answer.header("retry-after").is_some_and(|wait| wait.parse::<u64>().unwrap() > 0));
    // The rate applies per credential, not per workspace or address.
    let list = |bearer: &str| wire::ask(service.hosted(), &mcp(bearer, "tools/list", &json!({})));
    assert_eq!([list(&quick).status, list(&quick).status], [200, 200]);
    // On any machine, two of so many calls arrive within a second.
    let limited = (0..1_000).map(|_| list(&quick)).find(|answer| answer.status == 429).unwrap();
    assert_eq!(limited.json(), json!({"detail": "Too Many Requests"}));
    assert!(limited.header("retry-after").is_some());
    assert_eq!(list(&other).status, 200);
    assert_eq!(list(&small).status, 200);
}

#[test]
fn a_client_finds_out_where_tokens_come_from() {
    let (service, _scratch) = House::new().serve(&[]);
    let get = |path: &str| wire::ask(service.hosted(), &Ask::get(path));
    let base = format!("http://{}", service.hosted());
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let refused = wire::ask(service.hosted(), &mcp_client::ask(&message));
    let challenge = refused.header("www-authenticate").unwrap().to_owned();
    let named = challenge.split("resource_metadata=\"").nth(1).unwrap().split('"').next().unwrap();
    let resource = get(named.strip_prefix(&base).unwrap());
    assert_eq!(resource.status, 200, "{}", resource.text());
    assert_eq!(resource.header("access-control-allow-origin"), Some("*"));
    let resource = resource.json();
    assert_eq!(resource["resource"], format!("{base}/mcp"));
    assert_eq!(resource["authorization_servers"], json!([base]));
    assert_eq!(get("/.well-known/oauth-protected-resource").json(), resource);
    let server = get("/.well-known/oauth-authorization-server").json();
    assert_eq!(server["issuer"], base, "{server}");
    assert_eq!(server["code_challenge_methods_supported"], json!(["S256"]));
    let keys = get("/.well-known/jwks.json").json();
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1), "{keys}");
    assert!(keys["keys"][0].get("d").is_none(), "no private half: {keys}");
    // The local listener has none of these routes, because its /mcp requires no token.
    assert_eq!(service.ask(&Ask::get("/.well-known/jwks.json")).status, 404);
    let posted = wire::ask(service.hosted(), &Ask::post("/.well-known/jwks.json", &json!({})));
    assert_eq!(posted.status, 405);
}

fn token(service: &Service, parameters: &[(&str, &str)], authorization: Option<&str>) -> Answer {
    let escaped = |text: &str| text.replace(':', "%3A").replace('/', "%2F").replace(' ', "+");
    let pairs = parameters.iter().map(|(name, value)| format!("{name}={}", escaped(value)));
    let body = pairs.collect::<Vec<_>>().join("&").into_bytes();
    let mut ask = Ask::new("POST", "/token").body(body);
    ask = ask.header("Content-Type", "application/x-www-form-urlencoded");
    if let Some(value) = authorization {
        ask = ask.header("Authorization", value);
    }
    wire::ask(service.hosted(), &ask)
}

#[test]
fn a_workspace_key_becomes_a_token_for_mcp_and_nothing_else() {
    let house = House::new();
    let bearer = house.tenant("acme", "team");
    let key = house.bearer("acme", Kind::Workspace, &SCOPES);
    house.tenant("stopped", "team");
    let stopped = house.bearer("stopped", Kind::Workspace, &SCOPES);
    house.control.suspend_tenant("stopped").unwrap();
    let (service, _scratch) = house.serve(&[]);
    let resource = format!("http://{}/mcp", service.hosted());
    let grant = ("grant_type", "client_credentials");
    let (id, secret) = (("client_id", "acme"), ("client_secret", &*key));
    let wanted = ("scope", "brain:proxy audit:read");
    let answer = token(&service, &[grant, id, secret, wanted, ("resource", &resource)], None);
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{}", answer.text());
    let given = answer.json();
    let said = [&given["token_type"], &given["scope"], &given["expires_in"]];
    assert_eq!(said, [&json!("Bearer"), &json!("brain:proxy"), &json!(3600)], "{given}");
    assert!(given.get("refresh_token").is_none(), "{given}");
    let access = given["access_token"].as_str().unwrap();
    assert!(!tools(&service, access).contains(&"brain_remember".to_owned()));
    let asked = call(&service, access, "brain_recall", &json!({"query": "anything?"})).json();
    assert_eq!(asked["result"]["isError"], false, "{asked}");
    // The token is valid only for /mcp of the hosted listener.
    for at in [service.hosted(), service.local()] {
        let answer = api(&service, at, access, Ask::get("/stats"));
        assert_eq!(answer.status, 401, "{}", answer.text());
    }
    let (head, rest) = access.split_at(access.len() - 8);
    let forged = format!("{head}{}", if rest == "AAAAAAAA" { "BBBBBBBB" } else { "AAAAAAAA" });
    let list = |bearer: &str| wire::ask(service.hosted(), &mcp(bearer, "tools/list", &json!({})));
    assert_eq!(list(&forged).status, 401);

    let basic = format!("Basic {}", base64_of(&format!("acme:{key}")));
    assert_eq!(token(&service, &[grant], Some(&basic)).status, 200);
    let wrong = format!("Basic {}", base64_of("acme:recalld_ws_wrong"));
    let refused = token(&service, &[grant], Some(&wrong));
    assert_eq!((refused.status, refused.json()["error"].clone()), (401, json!("invalid_client")));
    assert!(refused.header("www-authenticate").is_some_and(|value| value.starts_with("Basic")));
    for (what, parameters, error) in [
        ("unknown scope", &[grant, id, secret, ("scope", "root")][..], "invalid_scope"),
        ("nothing left", &[grant, id, secret, ("scope", "audit:read")], "invalid_scope"),
        (
            "resource",
            &[grant, id, secret, ("resource", "https://else.example/mcp")],
            "invalid_target",
        ),
        ("another's id", &[grant, ("client_id", "stopped"), secret], "invalid_client"),
        ("no key", &[grant, id], "invalid_client"),
        ("a bearer", &[grant, id, ("client_secret", &*bearer)], "invalid_client"),
        (
            "suspended",
            &[grant, ("client_id", "stopped"), ("client_secret", &*stopped)],
            "invalid_client",
        ),
        ("no grant", &[id, secret], "invalid_request"),
        ("twice", &[grant, id, secret, secret], "invalid_request"),
        ("other grant", &[("grant_type", "password"), id, secret], "unsupported_grant_type"),
    ] {
        let answer = token(&service, parameters, None);
        assert_eq!(answer.json()["error"], error, "{what}: {}", answer.text());
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}");
    }
    let preflight = Ask::new("OPTIONS", "/token")
        .header("Origin", "https://app.example")
        .header("Access-Control-Request-Method", "POST");
    let preflight = wire::ask(service.hosted(), &preflight);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("*"));
    let ledger = ["ledger", "show", "--workspace", "acme", "--tool", "oauth/token"];
    let shown = support_wire::service::run(service.data(), &ledger);
    assert_eq!(String::from_utf8(shown.stdout).unwrap().lines().count(), 2);
}

/// Base64 of an ASCII text (RFC 4648, section 4), for one test's header.
fn base64_of(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| char::from(DIGITS[(bits & 63) as usize]);
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let byte = |at: usize| three.get(at).map_or(0, |byte| u32::from(*byte));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digits = [digit(bits >> 18), digit(bits >> 12), digit(bits >> 6), digit(bits)];
        out.extend(&digits[..=three.len()]);
        out.extend(std::iter::repeat_n('=', 3 - three.len()));
    }
    out
}
