//! Rotation of the access tokens' signing keys below a running server.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;
use support_server::house::SCOPES;
use support_wire::service::run_json;
use support_wire::wire::{self, Ask};

use crate::tokens::desk::{Client, Desk, Room, shown, tokens};

/// The published keys; the signing key is the first or the last.
fn published(desk: &Desk) -> Vec<Value> {
    let answer = wire::ask(desk.service.hosted(), &Ask::get("/.well-known/jwks.json"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    // A cache with this lifetime has each key before the first token that needs it.
    assert_eq!(answer.header("Cache-Control"), Some("public, max-age=300"));
    assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"));
    let keys = answer.json()["keys"].as_array().unwrap().clone();
    for key in &keys {
        let members: Vec<&str> = key.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["alg", "crv", "kid", "kty", "use", "x"], "{key}");
    }
    keys
}

fn kids(keys: &[Value]) -> Vec<String> {
    keys.iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

/// The key id in a token's header.
fn kid(token: &str) -> String {
    let header = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    header["kid"].as_str().unwrap().to_owned()
}

#[test]
fn a_new_key_is_published_beside_the_old_one_whose_tokens_go_on() {
    let room = Room::new();
    let key = room.house.issue("acme", recalld_metastore::Kind::Workspace, None, &SCOPES);
    let client = room.client("none");
    let code = room.code(&client);
    let desk = room.serve();
    let own = Client { id: "acme".to_owned(), secret: Some(key) };
    let ask = || {
        let fields = [&[("grant_type", "client_credentials")], &*shown(&own)].concat();
        tokens(&desk.token(&fields)).0
    };
    let before = published(&desk);
    let [first] = <[String; 1]>::try_from(kids(&before)).unwrap();
    let ([old, _], (access, refresh)) = ([ask(), ask()], tokens(&desk.redeem(&client, &code)));
    assert_eq!((kid(&old), kid(&access)), (first.clone(), first.clone()));
    // Each round adds a key, and none is removed while one of its tokens may be valid.
    let mut known = vec![first];
    let mut given = vec![old, access];
    for round in 0..3 {
        let told = run_json(desk.service.data(), &["key", "rotate-signing"]);
        let now = kids(&published(&desk));
        assert_eq!(told["published"], now.len(), "{told}");
        assert_eq!(now.len(), known.len() + 1, "{round}");
        assert!(known.iter().all(|old| now.contains(old)), "{round}: {now:?} without {known:?}");
        known = now;
        let token = ask();
        assert!(known.contains(&kid(&token)), "a token names a key that is published");
        given.push(token);
        for token in &given {
            assert_eq!(desk.opens(token), 200, "{round}");
        }
    }
    // The keys themselves are unchanged.
    let still = published(&desk);
    assert!(before.iter().all(|key| still.contains(key)));
    // Refresh tokens do not depend on a signing key.
    let (fresh, _) = tokens(&desk.refresh(&client, &refresh, &[]));
    assert!(known.contains(&kid(&fresh)));
    assert_eq!(desk.opens(&fresh), 200);
}

#[test]
fn a_server_that_is_started_anew_knows_the_keys_and_tokens_of_before() {
    let room = Room::new();
    let key = room.house.issue("acme", recalld_metastore::Kind::Workspace, None, &SCOPES);
    let own = Client { id: "acme".to_owned(), secret: Some(key) };
    let desk = room.serve();
    let fields = [&[("grant_type", "client_credentials")], &*shown(&own)].concat();
    let (old, _) = tokens(&desk.token(&fields));
    run_json(desk.service.data(), &["key", "rotate-signing"]);
    let before = kids(&published(&desk));
    let desk = desk.again();
    assert_eq!(kids(&published(&desk)), before);
    assert_eq!(desk.opens(&old), 200);
    let (new, _) = tokens(&desk.token(&fields));
    assert!(before.contains(&kid(&new)));
}
