//! Refresh tokens: each is valid once, and its reuse revokes the grant.

use std::sync::Barrier;
use std::thread;

use support_wire::service::run_json;

use crate::tokens::desk::{RESOURCE, Room, bad, given, refusal, tokens};

#[test]
fn a_refresh_token_becomes_the_next_one_and_never_more_than_it_was() {
    let room = Room::new();
    let (client, other) = (room.client("none"), room.client("none"));
    let code = room.code(&client);
    let desk = room.serve();
    let (first, token) = tokens(&desk.redeem(&client, &code));
    for (more, code) in [
        (("scope", "tenant:read audit:read"), "invalid_scope"),
        (("scope", "agent:state"), "invalid_scope"),
        (("scope", "nothing:such"), "invalid_scope"),
        (("resource", "https://other.example/mcp"), "invalid_target"),
    ] {
        assert_eq!(refusal(&desk.refresh(&client, &token, &[more])), bad(code), "{more:?}");
    }
    assert_eq!(refusal(&desk.refresh(&other, &token, &[])), bad("invalid_grant"));
    assert_eq!(refusal(&desk.refresh(&client, &first, &[])), bad("invalid_grant"));
    // The token is still unused. Narrower scopes may be requested, without narrowing the grant.
    let less = desk.refresh(&client, &token, &[("scope", "tenant:read"), ("resource", RESOURCE)]);
    assert_eq!(given(&less)["scope"], "tenant:read");
    let whole = desk.refresh(&client, &tokens(&less).1, &[]);
    assert_eq!(given(&whole)["scope"], "tenant:read brain:proxy memory:write");
    assert_eq!([desk.opens(&first), desk.opens(&tokens(&whole).0)], [200, 200]);
}

#[test]
fn one_that_was_used_before_ends_the_family_with_the_tokens_that_are_out() {
    let room = Room::new();
    let client = room.client("none");
    let codes = [room.code(&client), room.code(&client)];
    let desk = room.serve();
    let (first, token) = tokens(&desk.redeem(&client, &codes[0]));
    let (second, next) = tokens(&desk.refresh(&client, &token, &[]));
    let (elsewhere, _) = tokens(&desk.redeem(&client, &codes[1]));
    assert_eq!(refusal(&desk.refresh(&client, &token, &[])), bad("invalid_grant"));
    assert_eq!(refusal(&desk.refresh(&client, &next, &[])), bad("invalid_grant"));
    assert_eq!([&first, &second, &elsewhere].map(|one| desk.opens(one)), [401, 401, 200]);
    let outcomes = desk.outcomes("oauth/token");
    assert_eq!(outcomes, ["done", "done", "done", "refused"]);
}

#[test]
fn of_fifty_who_refresh_at_once_one_wins_and_its_grant_ends_by_the_others() {
    let room = Room::new();
    let client = room.client("none");
    let code = room.code(&client);
    let desk = room.serve();
    let (_, token) = tokens(&desk.redeem(&client, &code));
    let start = Barrier::new(50);
    let answers: Vec<_> = thread::scope(|scope| {
        let one = || {
            start.wait();
            desk.refresh(&client, &token, &[])
        };
        let all: Vec<_> = (0..50).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|one| one.status == 200);
    assert_eq!(won.len(), 1);
    assert!(lost.iter().all(|answer| refusal(answer) == bad("invalid_grant")));
    let (access, next) = tokens(&won[0]);
    assert_eq!(desk.opens(&access), 401, "somebody else has the token too");
    assert_eq!(refusal(&desk.refresh(&client, &next, &[])), bad("invalid_grant"));
}

#[test]
fn what_is_revoked_or_suspended_gives_nothing_and_a_workspace_that_goes_on_does() {
    let room = Room::new();
    let client = room.client("none");
    let code = room.code(&client);
    let desk = room.serve();
    let (access, token) = tokens(&desk.redeem(&client, &code));
    let data = desk.service.data();
    run_json(data, &["tenant", "suspend", "acme"]);
    assert_eq!(desk.opens(&access), 403);
    assert_eq!(refusal(&desk.refresh(&client, &token, &[])), bad("invalid_grant"));
    run_json(data, &["tenant", "resume", "acme"]);
    let (access, token) = tokens(&desk.refresh(&client, &token, &[]));
    assert_eq!(desk.opens(&access), 200);
    // Revoking the key revokes all its grants.
    let keys = run_json(data, &["key", "list", "acme"]);
    let once = keys["keys"].as_array().unwrap().iter().find(|key| key["kind"] == "once").unwrap();
    run_json(data, &["key", "revoke", "acme", once["id"].as_str().unwrap()]);
    assert_eq!(desk.opens(&access), 401);
    assert_eq!(refusal(&desk.refresh(&client, &token, &[])), bad("invalid_grant"));
    run_json(data, &["client", "revoke", &client.id]);
    let refused = refusal(&desk.refresh(&client, &token, &[]));
    assert_eq!(refused, (401, "invalid_client".to_owned()));
}
