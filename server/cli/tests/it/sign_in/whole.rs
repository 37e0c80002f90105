//! Complete sign-ins: link, page, form, redirect, code.

use std::sync::Barrier;
use std::thread;

use engine::ledger::{Decision, Outcome};
use recalld_metastore::{Hold, Kind, RedeemError};
use serde_json::json;
use support_wire::mcp_client;
use support_wire::wire::Ask;

use super::house::{
    Fields, House, LISTED, Person, REDIRECT, SCOPES, Sent, VERIFIER, check_page, encoded, problem,
};

#[test]
fn a_person_with_a_one_time_key_gives_a_client_its_code() {
    let house = House::new();
    let key = house.once();
    let mut person = Person::new(&house);
    let scope = "brain:proxy memory:write audit:read";
    let page = person.visit(&house.query(&[("scope", scope), ("resource", &resource(&house))]));
    assert_eq!(page.status, 200, "{}", page.text());
    check_page(&page);
    let policy = page.header("content-security-policy").unwrap();
    // Browsers apply `form-action` to the client's redirects as well, so the policy must not contain it.
    assert!(!policy.contains("form-action"), "{policy}");
    let text = page.text();
    for part in ["Let <bdi>Notebook</bdi> use", "<dd>notebook.example<", "a name it gave itself"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for (scope, is_there) in
        [("brain:proxy", true), ("memory:write", true), ("audit:read", true), ("bench:run", false)]
    {
        assert_eq!(text.contains(&format!(">{scope}<")), is_there, "{scope}");
    }
    let cookie = page.header("set-cookie").unwrap();
    assert!(cookie.starts_with("recalld-signin="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax"), "{cookie}");
    let fields = Fields::of(&page);
    let names: Vec<&str> = fields.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["request", "csrf", "workspace", "key"]);

    let answer = person.send(&fields.allowing("acme", &key));
    let sent = Sent::of(&answer);
    assert_eq!(sent.to, REDIRECT);
    assert_eq!(sent.get("state"), Some("of the client"));
    assert_eq!(sent.get("iss"), Some(&*house.issuer));
    assert!(sent.get("error").is_none());
    let code = sent.get("code").unwrap();
    assert!(matches!(house.redeem("c0123", code), Err(RedeemError::WrongClient)));
    let redeemed = house.redeem(&house.client, code).ok().unwrap();
    // Scopes outside the key or the plan are omitted.
    assert_eq!(redeemed.grant.scopes, ["brain:proxy", "memory:write"]);
    assert_eq!(redeemed.grant.resource, resource(&house));
    assert_eq!((&*redeemed.grant.principal, &*redeemed.tenant.slug), ("user:ada", "acme"));
    let standing = house.parts.control.standing("acme", &redeemed.grant.id, "t", u64::MAX);
    assert!(matches!(standing.unwrap().hold, Hold::Grant(_)));

    // The entry is on disk before the response, and contains no secret.
    let entries = house.entries("acme");
    let [entry] = &*entries else { panic!("{entries:?}") };
    assert_eq!((&*entry.tool, &*entry.principal), ("oauth/authorize", "user:ada"));
    assert_eq!((entry.decision, entry.outcome), (Decision::Allow, Outcome::Done));
    let folder = house.parts.data.join("tenants/acme/ledger");
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for secret in [&*key, code, "notebook.example"] {
            assert!(!text.contains(secret), "{secret}");
        }
    }
}

fn resource(house: &House) -> String {
    format!("{}/mcp", house.issuer)
}

#[test]
fn behind_tls_the_cookie_is_for_this_host_alone_and_forms_come_from_its_origin() {
    let house = House::behind_tls();
    let mut person = Person::new(&house);
    let page = person.visit(&house.query(&[]));
    let cookie = page.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-recalld-signin="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
    let fields = Fields::of(&page).allowing("acme", &house.once());
    // A cookie name without the `__Host-` prefix is ignored.
    let weak = Person { house: &house, cookie: Some(cookie.replace("__Host-", "")) };
    assert_eq!(problem(&weak.send(&fields)).0, 400);
    let ask = person.posting(&fields).header("Origin", "https://recall.example");
    let sent = Sent::of(&house.ask(&ask));
    assert_eq!(sent.get("iss"), Some("https://recall.example"));
}

#[test]
fn a_client_that_comes_with_nothing_registers_is_allowed_and_has_tokens() {
    let house = House::new();
    let new = json!({
        "client_name": "Newcomer", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let registered = house.ask(&Ask::post("/register", &new));
    assert_eq!(registered.status, 201, "{}", registered.text());
    let registered = registered.json();
    let client = registered["client_id"].as_str().unwrap();
    let mut person = Person::new(&house);
    let fields = person.form(&[("client_id", client), ("scope", "brain:proxy")]);
    let sent = Sent::of(&person.send(&fields.allowing("acme", &house.once())));
    let shown = [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", sent.get("code").unwrap()),
        ("redirect_uri", REDIRECT),
        ("code_verifier", VERIFIER),
        ("resource", &resource(&house)),
    ];
    let ask = Ask::new("POST", "/token")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(encoded(&shown).into_bytes());
    let answer = house.ask(&ask);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let given = answer.json();
    assert_eq!(given["scope"], "brain:proxy", "{given}");
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let bearer = format!("Bearer {}", given["access_token"].as_str().unwrap());
    let listed = house.ask(&mcp_client::ask(&message).header("Authorization", &bearer));
    assert_eq!(listed.status, 200, "{}", listed.text());
    // A code is valid once.
    let again = house.ask(&ask);
    assert_eq!(again.json()["error"], "invalid_grant", "{}", again.text());
}

#[test]
fn a_user_key_signs_in_again_and_again_a_one_time_key_once() {
    let house = House::new();
    let (user, once) = (house.key("acme", Kind::User, &SCOPES), house.once());
    let mut person = Person::new(&house);
    for _ in 0..3 {
        let fields = person.form(&[]).allowing("acme", &user);
        assert!(Sent::of(&person.send(&fields)).get("code").is_some());
    }
    let fields = person.form(&[]).allowing("acme", &once);
    assert!(Sent::of(&person.send(&fields)).get("code").is_some());
    let fields = person.form(&[]).allowing("acme", &once);
    let answer = person.send(&fields);
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("wrong, expired or already used"), "{}", answer.text());
}

#[test]
fn fifty_at_once_get_one_code_with_either_kind_of_key() {
    let house = House::new();
    for kind in [Kind::Once, Kind::User] {
        let key = house.key("acme", kind, &SCOPES);
        let mut person = Person::new(&house);
        let fields = person.form(&[]).allowing("acme", &key);
        let (person, fields, start) = (&person, &fields, &Barrier::new(50));
        let send = || {
            start.wait();
            person.send(fields)
        };
        let answers: Vec<_> = thread::scope(|scope| {
            let sending: Vec<_> = (0..50).map(|_| scope.spawn(send)).collect();
            sending.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let (good, others): (Vec<_>, Vec<_>) =
            answers.iter().partition(|answer| answer.status == 303);
        assert_eq!(good.len(), 1, "{kind:?}");
        for answer in others {
            assert_eq!(problem(answer), (409, "This sign-in is already complete".to_owned()));
        }
        // Later submissions fail, too: the back button, then the form again, allowed or refused.
        for decision in ["allow", "refuse"] {
            let answer = person.send(&fields.clone().with("decision", decision));
            assert_eq!(problem(&answer).0, 409, "{kind:?} {decision}");
        }
        assert_eq!(house.entries("acme").len(), if kind == Kind::Once { 1 } else { 2 });
    }
}

#[test]
fn who_refuses_needs_no_key_and_may_think_again() {
    let house = House::new();
    let mut person = Person::new(&house);
    let fields = person.form(&[]);
    let refuse = fields.clone().with("decision", "refuse");
    for _ in 0..2 {
        assert_eq!(Sent::error(&person.send(&refuse), &house), "access_denied");
    }
    assert_eq!(house.entries("acme").len(), 0);
    // A refusal is recorded if it names an existing workspace.
    for workspace in ["acme", "globex"] {
        let answer = person.send(&refuse.clone().with("workspace", workspace));
        assert_eq!(Sent::error(&answer, &house), "access_denied");
    }
    let entries = house.entries("acme");
    let [entry] = &*entries else { panic!("{entries:?}") };
    assert_eq!((&*entry.principal, &*entry.rule), ("nobody", "person"));
    assert_eq!((entry.decision, entry.outcome), (Decision::Deny, Outcome::Refused));
    let answer = person.send(&fields.allowing("acme", &house.once()));
    assert!(Sent::of(&answer).get("code").is_some());
}

#[test]
fn scopes_that_nobody_can_be_granted_are_told_to_the_client_and_spend_no_key() {
    let house = House::new();
    let key = house.key("acme", Kind::Once, &["audit:read", "brain:proxy"]);
    let mut person = Person::new(&house);
    // The first scope is in the key but not in the plan, the second in the plan but not in the key.
    for scope in ["audit:read", "memory:write"] {
        let fields = person.form(&[("scope", scope)]).allowing("acme", &key);
        assert_eq!(Sent::error(&person.send(&fields), &house), "invalid_scope", "{scope}");
    }
    let fields = person.form(&[]).allowing("acme", &key);
    let sent = Sent::of(&person.send(&fields));
    let redeemed = house.redeem(&house.client, sent.get("code").unwrap()).ok().unwrap();
    assert_eq!(redeemed.grant.scopes, ["brain:proxy"]);
}

#[test]
fn a_control_store_that_cannot_be_used_is_a_page_for_people() {
    let house = House::new();
    let key = house.once();
    let mut person = Person::new(&house);
    let fields = person.form(&[]).allowing("acme", &key);
    house.break_control();
    let answer = person.send(&fields);
    assert_eq!(problem(&answer), (503, "Not available now".to_owned()));
    assert!(answer.header("retry-after").is_some());
    let answer = person.visit(&house.query(&[]));
    assert_eq!(problem(&answer).0, 503);
    assert!(!answer.text().contains("control"), "{}", answer.text());
}

#[test]
fn other_methods_and_other_pages_get_nothing() {
    let house = House::new();
    let target = format!("/authorize?{}", house.query(&[]));
    let head = house.ask(&Ask::new("HEAD", &target));
    assert_eq!((head.status, head.body.len()), (200, 0));
    for method in ["PUT", "DELETE", "PATCH"] {
        let answer = house.ask(&Ask::new(method, &target));
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS, POST"), "{method}");
    }
    for origin in ["https://evil.example", LISTED] {
        let preflight = Ask::new("OPTIONS", "/authorize")
            .header("Origin", origin)
            .header("Access-Control-Request-Method", "POST");
        let answer = house.ask(&preflight);
        assert_eq!(answer.status, 204);
        let head = answer.head().to_ascii_lowercase();
        assert!(!head.contains("access-control-") && !head.contains("vary"), "{head}");
        check_page(&house.ask(&Ask::get(&target).header("Origin", origin)));
    }
    for path in ["/authorize/", "/Authorize", "/authorize/x"] {
        assert_eq!(house.ask(&Ask::get(path)).status, 404, "{path}");
    }
}
