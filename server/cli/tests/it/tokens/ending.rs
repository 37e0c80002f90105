//! Revocation (RFC 7009): a client revokes its own tokens, and learns nothing about others'.

use recalld_metastore::Kind;
use serde_json::json;
use support_server::house::SCOPES;
use support_wire::service::{run, run_json};
use support_wire::wire::Answer;

use crate::tokens::desk::{
    Client, Desk, RESOURCE, Room, bad, basic, given, refusal, shown, tokens,
};

fn revoke(desk: &Desk, client: &Client, token: &str) -> Answer {
    let fields = [&[("token", token)], &*shown(client)].concat();
    desk.post("/revoke", &fields, &[])
}

#[test]
fn a_client_ends_its_own_tokens_and_nobody_elses() {
    let room = Room::new();
    let (client, other) = (room.client("client_secret_basic"), room.client("none"));
    let codes = [room.code(&client), room.code(&client)];
    let desk = room.serve();
    let (first, first_refresh) = tokens(&desk.redeem(&client, &codes[0]));
    let (second, _) = tokens(&desk.redeem(&client, &codes[1]));
    for (who, token) in [
        (&other, &*first),
        (&other, &*first_refresh),
        (&client, "recalld_refresh_none"),
        (&client, "a.b.c"),
        (&client, "no token at all"),
    ] {
        let answer = revoke(&desk, who, token);
        assert_eq!((answer.status, &*answer.text()), (200, ""), "{token}");
    }
    assert_eq!([desk.opens(&first), desk.opens(&second)], [200, 200]);
    // An access token is revoked alone, a refresh token with its whole grant. Revoking twice is no error.
    for _ in 0..2 {
        assert_eq!(revoke(&desk, &client, &second).status, 200);
        assert_eq!(desk.opens(&second), 401);
    }
    let hint =
        [&[("token", &*first_refresh), ("token_type_hint", "access_token")], &*shown(&client)];
    assert_eq!(desk.post("/revoke", &hint.concat(), &[]).status, 200);
    assert_eq!(desk.opens(&first), 401);
    assert_eq!(refusal(&desk.refresh(&client, &first_refresh, &[])), bad("invalid_grant"));
    assert_eq!(desk.outcomes("oauth/revoke"), ["done", "done"], "one for each that ended");
}

#[test]
fn the_operator_ends_what_was_granted_and_what_is_out() {
    let room = Room::new();
    let client = room.client("none");
    let codes = [room.code(&client), room.code(&client)];
    let desk = room.serve();
    let data = desk.service.data();
    let [(first, first_refresh), (second, second_refresh)] =
        codes.map(|code| tokens(&desk.redeem(&client, &code)));
    let listed = || run_json(data, &["grant", "list", "acme"])["grants"].clone();
    let grants = listed();
    assert_eq!(grants.as_array().unwrap().len(), 2, "{grants}");
    assert_eq!(
        (&grants[0]["principal"], &grants[0]["client"]),
        (&json!("user:ada"), &json!(client.id))
    );
    let id = grants[0]["id"].as_str().unwrap();
    let revoked = run_json(data, &["grant", "revoke", "acme", id]);
    assert!(revoked["revoked_at"].is_string(), "{revoked}");
    let open = [&first, &second].map(|token| desk.opens(token));
    assert!(open == [401, 200] || open == [200, 401], "one of the two: {open:?}");
    let (left, left_refresh, gone) = match open {
        [401, _] => (second, second_refresh, first_refresh),
        _ => (first, first_refresh, second_refresh),
    };
    assert_eq!(refusal(&desk.refresh(&client, &gone, &[])), bad("invalid_grant"));
    // All access tokens end; grants and refresh tokens remain.
    run_json(data, &["tenant", "end-tokens", "acme"]);
    assert_eq!(desk.opens(&left), 401);
    given(&desk.refresh(&client, &left_refresh, &[]));
    let none = run(data, &["grant", "revoke", "acme", "g0"]);
    assert_eq!(none.status.code(), Some(1), "{}", String::from_utf8_lossy(&none.stderr));
    let audited = run(data, &["ledger", "show", "--json", "--tool", "recalld grant revoke"]);
    assert_eq!(String::from_utf8(audited.stdout).unwrap().lines().count(), 2);
}

#[test]
fn whoever_is_nobody_ends_nothing() {
    let room = Room::new();
    let client = room.client("client_secret_basic");
    let code = room.code(&client);
    let desk = room.serve();
    let (access, _) = tokens(&desk.redeem(&client, &code));
    let wrong = basic(&client.id, "wrong");
    let unknown = (401, "invalid_client".to_owned());
    let token = ("token", &*access);
    for (fields, headers) in [
        (vec![token], vec![]),
        (vec![token, ("client_id", &*client.id)], vec![]),
        (vec![token], vec![("Authorization", &*wrong)]),
        (vec![token, ("client_id", "nobody")], vec![]),
    ] {
        assert_eq!(refusal(&desk.post("/revoke", &fields, &headers)), unknown, "{fields:?}");
    }
    assert_eq!(refusal(&desk.post("/revoke", &shown(&client), &[])), bad("invalid_request"));
    assert_eq!(desk.opens(&access), 200);
}

#[test]
fn a_workspace_ends_what_it_got_for_its_key_and_a_new_key_ends_the_rest() {
    let room = Room::new();
    let key = room.house.issue("acme", Kind::Workspace, None, &SCOPES);
    let desk = room.serve();
    let own = Client { id: "acme".to_owned(), secret: Some(key) };
    let ask = |own: &Client| {
        let fields = [("grant_type", "client_credentials"), ("resource", RESOURCE)];
        desk.token(&[&fields, &*shown(own)].concat())
    };
    let [(first, none), (second, _)] = [ask(&own), ask(&own)].map(|answer| tokens(&answer));
    assert_eq!(none, "", "there is no refresh token");
    assert_eq!(revoke(&desk, &own, &first).status, 200);
    assert_eq!([desk.opens(&first), desk.opens(&second)], [401, 200]);
    support_wire::service::run_json(desk.service.data(), &["key", "rotate", "acme"]);
    assert_eq!(desk.opens(&second), 401);
    assert_eq!(refusal(&ask(&own)), (401, "invalid_client".to_owned()));
}
