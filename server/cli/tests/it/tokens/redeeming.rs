//! Authorization codes: each becomes one grant, for a client that presents everything the code is bound to.

use std::sync::Barrier;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use recalld_auth::Prefix;
use recalld_metastore::{Kind, NewCredential};
use serde_json::json;
use support_server::house::SCOPES;

use crate::tokens::desk::{
    Client, Room, VERIFIER, bad, basic, given, redemption, refusal, shown, tokens, with,
};

#[test]
fn a_code_becomes_tokens_that_open_its_workspace() {
    let room = Room::new();
    let (public, secret) = (room.client("none"), room.client("client_secret_basic"));
    let codes = [room.code(&public), room.code(&secret), room.code(&secret)];
    let desk = room.serve();
    let body = given(&desk.redeem(&public, &codes[0]));
    assert_eq!((&body["token_type"], &body["expires_in"]), (&json!("Bearer"), &json!(3600)));
    assert_eq!(body["scope"], "tenant:read brain:proxy memory:write");
    assert_eq!(desk.opens(body["access_token"].as_str().unwrap()), 200);
    // Credentials in the body or by Basic, as registered.
    given(&desk.redeem(&secret, &codes[1]));
    let fields = with(&redemption(&public, &codes[2]), "client_id", &secret.id);
    let header = basic(&secret.id, secret.secret.as_deref().unwrap());
    given(&desk.post("/token", &fields, &[("Authorization", &header)]));
    assert_eq!(desk.outcomes("oauth/token"), ["done", "done", "done"]);
}

#[test]
fn a_code_is_good_for_nobody_who_does_not_show_all_that_it_is_bound_to() {
    let room = Room::new();
    let (client, other) = (room.client("none"), room.client("none"));
    let code = room.code(&client);
    let desk = room.serve();
    let good = redemption(&client, &code);
    let long = "a".repeat(129);
    let wrong = "b".repeat(43);
    for (name, value, code) in [
        ("client_id", &*other.id, "invalid_grant"),
        ("redirect_uri", "https://notebook.example/callback/", "invalid_grant"),
        ("redirect_uri", "", "invalid_request"),
        ("code_verifier", &wrong, "invalid_grant"),
        ("code_verifier", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "invalid_grant"),
        ("code_verifier", &VERIFIER[1..], "invalid_request"),
        ("code_verifier", &long, "invalid_request"),
        ("code_verifier", "", "invalid_request"),
        ("code", "recalld_code_none", "invalid_grant"),
        ("code", "", "invalid_request"),
        ("resource", "https://other.example/mcp", "invalid_target"),
        ("resource", "https://recall.example", "invalid_target"),
        ("grant_type", "password", "unsupported_grant_type"),
        ("grant_type", "", "invalid_request"),
    ] {
        let answer = desk.token(&with(&good, name, value));
        assert_eq!(refusal(&answer), bad(code), "{name}={value}: {}", answer.text());
    }
    for name in ["code", "client_id", "code_verifier", "grant_type", "anything"] {
        let twice = [&*good, &[(name, "x"), (name, "x")]].concat();
        assert_eq!(refusal(&desk.token(&twice)), bad("invalid_request"), "{name}");
    }
    let twice = [&*good, &[("resource", "https://recall.example/mcp"); 2]].concat();
    assert_eq!(refusal(&desk.token(&twice)), bad("invalid_target"));
    // The code is still unused.
    given(&desk.redeem(&client, &code));
}

#[test]
fn a_client_with_a_secret_shows_it_and_shows_it_once() {
    let room = Room::new();
    let (public, client) = (room.client("none"), room.client("client_secret_post"));
    let code = room.code(&client);
    let desk = room.serve();
    let secret = client.secret.as_deref().unwrap();
    let good = redemption(&client, &code);
    let bare = redemption(&public, &code);
    let refused = |fields: &[(&str, &str)], headers: &[(&str, &str)]| {
        let answer = desk.post("/token", fields, headers);
        let challenged = answer.header("WWW-Authenticate").is_some();
        (refusal(&answer), challenged)
    };
    let unknown = (401, "invalid_client".to_owned());
    let header = basic(&client.id, secret);
    let wrong = basic(&client.id, "recalld_client_wrong");
    let nobody = with(&bare, "client_id", "nobody");
    for (fields, headers, wanted) in [
        (with(&bare, "client_id", &client.id), vec![], (unknown.clone(), false)),
        (with(&good, "client_secret", "wrong"), vec![], (unknown.clone(), false)),
        (nobody, vec![], (unknown.clone(), false)),
        (with(&bare, "client_secret", "any"), vec![], (unknown.clone(), false)),
        (with(&bare, "client_id", ""), vec![("Authorization", &*wrong)], (unknown.clone(), true)),
        (with(&bare, "client_id", ""), vec![], (unknown, false)),
        (good.clone(), vec![("Authorization", &*header)], (bad("invalid_request"), false)),
        (
            with(&bare, "client_id", ""),
            vec![("Authorization", &*header), ("Authorization", &*header)],
            (bad("invalid_request"), false),
        ),
        (bare.clone(), vec![("Authorization", &*header)], (bad("invalid_request"), false)),
    ] {
        assert_eq!(refused(&fields, &headers), wanted, "{fields:?} {headers:?}");
    }
    given(&desk.token(&good));
}

#[test]
fn of_fifty_who_redeem_a_code_at_once_one_wins_and_its_grant_ends_by_the_others() {
    let room = Room::new();
    let client = room.client("none");
    let code = room.code(&client);
    let desk = room.serve();
    let start = Barrier::new(50);
    let answers = thread::scope(|scope| {
        let one = || {
            start.wait();
            desk.redeem(&client, &code)
        };
        let all: Vec<_> = (0..50).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|one| one.status == 200);
    assert_eq!(won.len(), 1);
    for answer in &lost {
        // A code that was valid once is not counted as a guess, however often it is presented.
        assert_eq!(refusal(answer), bad("invalid_grant"), "{}", answer.text());
    }
    let (access, refresh) = tokens(&won[0]);
    // The replays prove that another party has the code, so the grant is revoked.
    assert_eq!(desk.opens(&access), 401);
    assert_eq!(refusal(&desk.refresh(&client, &refresh, &[])), bad("invalid_grant"));
}

#[test]
fn a_replay_that_is_otherwise_wrong_ends_nothing() {
    let room = Room::new();
    let (client, other) = (room.client("none"), room.client("none"));
    let code = room.code(&client);
    let desk = room.serve();
    let (access, _) = tokens(&desk.redeem(&client, &code));
    for (name, value) in [("client_id", &*other.id), ("code_verifier", &"b".repeat(43))] {
        let again = with(&redemption(&client, &code), name, value);
        assert_eq!(refusal(&desk.token(&again)), bad("invalid_grant"), "{name}");
    }
    assert_eq!(desk.opens(&access), 200);
    assert_eq!(refusal(&desk.redeem(&client, &code)), bad("invalid_grant"));
    assert_eq!(desk.opens(&access), 401);
    assert_eq!(desk.outcomes("oauth/token"), ["done", "refused"]);
    // Further replays change nothing.
    for _ in 0..30 {
        assert_eq!(refusal(&desk.redeem(&client, &code)), bad("invalid_grant"));
    }
    assert_eq!(desk.outcomes("oauth/token"), ["done", "refused"]);
}

#[test]
fn a_token_lives_no_longer_than_the_key_that_it_came_of() {
    let room = Room::new();
    let client = room.client("none");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let key = |kind, left: u64| {
        let scopes = SCOPES.map(str::to_owned);
        let expires_at = Some(now + left);
        let new = NewCredential { kind, name: Some("ada"), scopes: &scopes, expires_at };
        let issued = room.house.control.issue_credential("acme", &new, &Prefix::default());
        issued.unwrap().secret.expose().to_owned()
    };
    let code = room.code_by("acme", &key(Kind::User, 900), &client);
    let own = Client { id: "acme".to_owned(), secret: Some(key(Kind::Workspace, 600)) };
    let desk = room.serve();
    let by_code = desk.redeem(&client, &code);
    let again = desk.refresh(&client, &tokens(&by_code).1, &[]);
    let by_key = desk.token(&[&[("grant_type", "client_credentials")], &*shown(&own)].concat());
    for (answer, left) in [(&by_code, 900), (&again, 900), (&by_key, 600)] {
        let lives = given(answer)["expires_in"].as_u64().unwrap();
        assert!((1..=left).contains(&lives), "{lives} of {left}");
        assert_eq!(desk.opens(&tokens(answer).0), 200);
    }
}

#[test]
fn a_workspace_that_is_not_at_its_place_costs_nobody_a_token() {
    let room = Room::new();
    let client = room.client("none");
    let code = room.code(&client);
    let [place, elsewhere] =
        ["acme", "elsewhere"].map(|it| room.house.data().join("tenants").join(it));
    std::fs::rename(&place, &elsewhere).unwrap();
    let desk = room.serve();
    let unavailable = (503, "temporarily_unavailable".to_owned());
    assert_eq!(refusal(&desk.redeem(&client, &code)), unavailable);
    std::fs::rename(&elsewhere, &place).unwrap();
    let (_, refresh) = tokens(&desk.redeem(&client, &code));
    given(&desk.refresh(&client, &refresh, &[]));
}

#[test]
fn a_plan_that_leaves_nothing_spends_no_code() {
    let room = Room::new();
    let client = room.client("none");
    let codes = [room.code(&client), room.code(&client)];
    let settings = "[plans.measuring]\nfamilies = [\"bench\"]\nscopes = [\"bench:run\"]\n\
        [plans.reading]\nfamilies = [\"recall\"]\nscopes = [\"brain:proxy\"]\n";
    let file = room.house.beside("plans.toml");
    std::fs::write(&file, settings).unwrap();
    let desk = room.serve_with(&["--config", file.to_str().unwrap()]);
    let data = desk.service.data();
    let (_, refresh) = tokens(&desk.redeem(&client, &codes[0]));
    support_wire::service::run_json(data, &["plan", "set", "acme", "reading"]);
    // Fewer scopes than granted, and none of them in the new plan.
    let less = desk.refresh(&client, &refresh, &[("scope", "memory:write")]);
    assert_eq!(refusal(&less), bad("invalid_scope"));
    support_wire::service::run_json(data, &["plan", "set", "acme", "measuring"]);
    assert_eq!(refusal(&desk.redeem(&client, &codes[1])), bad("invalid_scope"));
    assert_eq!(refusal(&desk.refresh(&client, &refresh, &[])), bad("invalid_scope"));
    support_wire::service::run_json(data, &["plan", "set", "acme", "team"]);
    given(&desk.redeem(&client, &codes[1]));
    given(&desk.refresh(&client, &refresh, &[]));
}

#[test]
fn a_body_is_a_form_of_some_size() {
    let room = Room::new();
    let client = room.client("none");
    let code = room.code(&client);
    let desk = room.serve();
    let good = redemption(&client, &code);
    for kind in ["application/json", "text/plain", "application/x-www-form-urlencodedx"] {
        let ask = support_wire::wire::Ask::new("POST", "/token").header("Content-Type", kind);
        let ask = ask.body(b"grant_type=client_credentials".to_vec());
        let answer = support_wire::wire::ask(desk.service.hosted(), &ask);
        assert_eq!(refusal(&answer), bad("invalid_request"), "{kind}");
    }
    let many: Vec<(&str, &str)> = vec![("a", "b"); 65];
    assert_eq!(refusal(&desk.token(&many)), bad("invalid_request"));
    let large = "x".repeat(9_000);
    let answer = desk.token(&with(&good, "state", &large));
    assert!([400, 413].contains(&answer.status), "{}", answer.status);
    for method in ["GET", "PUT", "DELETE"] {
        let answer = support_wire::wire::ask(
            desk.service.hosted(),
            &support_wire::wire::Ask::new(method, "/token"),
        );
        assert_eq!(
            (answer.status, answer.header("Allow")),
            (405, Some("OPTIONS, POST")),
            "{method}"
        );
    }
    // The local listener has none of these routes.
    let local = support_wire::wire::ask(
        desk.service.local(),
        &support_wire::wire::Ask::new("POST", "/token"),
    );
    assert_eq!(local.status, 404);
}
