//! Clients, codes, grants, refresh tokens, token introspection, and expiry.

use super::clients::touch;
use super::*;

#[test]
fn a_code_becomes_a_grant_and_spends_its_key() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    make_tenant(control, "other");
    let client = register(control);
    let key = issue(control, "acme", Kind::Once);
    let elsewhere = code_for(control, "other", &client, &key.secret).map(|_| ());
    assert_eq!(elsewhere, Err(SignInError::Key(CredentialFault::Unknown)));
    let code = code_for(control, "acme", &client, &key.secret).unwrap();
    let again = code_for(control, "acme", &client, &key.secret).map(|_| ());
    assert_eq!(again, Err(SignInError::Key(CredentialFault::Spent)));
    let redeemed = redeem(control, &code, &client).unwrap();
    let grant = &redeemed.grant;
    assert_eq!(grant.principal, format!("key:{}", key.credential.id));
    assert_eq!(
        (grant.scopes.as_slice(), grant.resource.as_str()),
        (&scopes(&["tenant:read"])[..], RESOURCE)
    );
    let standing = control.standing("acme", &grant.id, "jti", START).unwrap();
    assert_eq!(standing.hold, Hold::Grant(grant.clone()));
    assert_eq!(
        control.standing("other", &grant.id, "jti", START).unwrap_err(),
        StandingFault::NotHere
    );
    assert_eq!(control.find_client(&client).unwrap().used_at, Some(START));
}

#[test]
fn a_key_of_the_free_lane_signs_in_again_and_scopes_stay_within_it() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let key = issue(control, "acme", Kind::User);
    for _ in 0..2 {
        let code = code_for(control, "acme", &client, &key.secret).unwrap();
        redeem(control, &code, &client).unwrap();
    }
    let few = scopes(&["brain:proxy"]);
    let new = NewCredential { kind: Kind::User, name: Some("ann"), scopes: &few, expires_at: None };
    let key = control.issue_credential("acme", &new, &Prefix::default()).unwrap();
    let wider = code_for(control, "acme", &client, &key.secret).map(|_| ());
    assert_eq!(wider, Err(SignInError::WiderScope));
    assert_eq!(key.credential.principal(), "user:ann");
    let bearer = issue(control, "acme", Kind::Bearer);
    let wrong_kind = code_for(control, "acme", &client, &bearer.secret).map(|_| ());
    assert_eq!(wrong_kind, Err(SignInError::Key(CredentialFault::Unknown)));
}

#[test]
fn whoever_redeems_a_code_shows_all_that_was_asked_and_else_changes_nothing() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let code = code(control, "acme", &client);
    let good = shown(&code, &client);
    for _ in 0..2 {
        for (wrong, fault) in [
            (Redemption { code: b"recalld_code_", ..good }, RedeemError::Unknown),
            (Redemption { client: "c0", ..good }, RedeemError::WrongClient),
            (
                Redemption { redirect_uri: "https://evil.example/", ..good },
                RedeemError::WrongRedirect,
            ),
            (
                Redemption { resource: Some("https://memory.example"), ..good },
                RedeemError::WrongResource,
            ),
            (Redemption { verifier: CHALLENGE, ..good }, RedeemError::WrongVerifier),
        ] {
            let found = control.redeem_code(&wrong, &Prefix::default()).map(|_| ());
            assert_eq!(found, Err(fault));
        }
        // The first iteration runs before the redemption, the second one after.
        let redeemed = control.redeem_code(&good, &Prefix::default());
        if let Ok(redeemed) = redeemed {
            assert!(control.standing("acme", &redeemed.grant.id, "j", START).is_ok());
        }
    }
}

#[test]
fn a_replay_revokes_the_grant_only_if_it_shows_all_that_was_asked() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let code = code(control, "acme", &client);
    let redeemed = redeem(control, &code, &client).unwrap();
    let stands = || control.standing("acme", &redeemed.grant.id, "j", START).is_ok();
    let wrong = Redemption { verifier: "guessed", ..shown(&code, &client) };
    let refused = control.redeem_code(&wrong, &Prefix::default()).map(|_| ());
    assert_eq!((refused, stands()), (Err(RedeemError::WrongVerifier), true));
    ground.clock.pass(3_600);
    let replayed = redeem(control, &code, &client).map(|_| ());
    assert_eq!((replayed, stands()), (Err(RedeemError::Replayed), false));
    let used = control.refresh(redeemed.refresh.expose().as_bytes(), &client, None, None);
    assert_eq!(used.map(|_| ()), Err(RefreshError::Revoked));
}

#[test]
fn a_code_ends_after_a_minute_and_with_its_key_client_and_workspace() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let redeem = |code: &Secret| redeem(control, code, &client).map(|_| ());
    let late = code(control, "acme", &client);
    ground.clock.pass(59);
    let second = code(control, "acme", &client);
    ground.clock.pass(1);
    assert_eq!((redeem(&late), redeem(&second)), (Err(RedeemError::Expired), Ok(())));

    let key = issue(control, "acme", Kind::User);
    let code_of_key = code_for(control, "acme", &client, &key.secret).unwrap();
    control.revoke_credential("acme", &key.credential.id).unwrap();
    assert_eq!(redeem(&code_of_key), Err(RedeemError::Revoked));

    let stopped = code(control, "acme", &client);
    control.suspend_tenant("acme").unwrap();
    assert_eq!(redeem(&stopped), Err(RedeemError::Suspended));
    control.resume_tenant("acme").unwrap();
    control.revoke_client(&client).unwrap();
    assert_eq!(redeem(&stopped), Err(RedeemError::WrongClient));
}

#[test]
fn of_fifty_who_redeem_a_code_at_once_one_wins() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let code = code(control, "acme", &client);
    let barrier = std::sync::Barrier::new(50);
    let outcomes: Vec<Result<(), RedeemError>> = std::thread::scope(|scope| {
        let one = || {
            barrier.wait();
            redeem(control, &code, &client).map(|_| ())
        };
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let replayed =
        outcomes.iter().filter(|outcome| **outcome == Err(RedeemError::Replayed)).count();
    // After the revocation, further replays have nothing to revoke.
    assert_eq!((won, replayed), (1, 1), "{outcomes:?}");
    let grants = control.grants("acme", None, 10).unwrap();
    assert_eq!(grants.len(), 1);
    assert!(grants[0].revoked_at.is_some(), "the replays revoked it");
}

#[test]
fn of_fifty_who_sign_in_with_a_one_time_key_at_once_one_wins() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let key = issue(control, "acme", Kind::Once);
    let won = std::thread::scope(|scope| {
        let one = || code_for(control, "acme", &client, &key.secret).is_ok();
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(one)).collect();
        threads
            .into_iter()
            .filter(|_| true)
            .map(|thread| thread.join().unwrap())
            .filter(|won| *won)
            .count()
    });
    assert_eq!(won, 1);
}

#[test]
fn a_refresh_token_is_good_once_and_its_reuse_ends_the_family() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let redeemed = sign_in(control, "acme", &client);
    let refresh = |token: &Secret| control.refresh(token.expose().as_bytes(), &client, None, None);
    ground.clock.pass(29 * 24 * 3_600);
    let second = refresh(&redeemed.refresh).unwrap();
    assert_eq!((second.grant.number, second.scopes.as_slice()), (1, &redeemed.grant.scopes[..]));
    ground.clock.pass(29 * 24 * 3_600);
    let third = refresh(&second.refresh).unwrap();
    assert_eq!(third.grant.id, redeemed.grant.id);
    assert_eq!(refresh(&redeemed.refresh).map(|_| ()), Err(RefreshError::Reused));
    assert_eq!(refresh(&third.refresh).map(|_| ()), Err(RefreshError::Revoked));
    let now = START + 58 * 24 * 3_600;
    let standing = control.standing("acme", &redeemed.grant.id, "j", now);
    assert_eq!(standing.unwrap_err(), StandingFault::NoHold);

    let other = sign_in(control, "acme", &client);
    ground.clock.pass(30 * 24 * 3_600);
    assert_eq!(refresh(&other.refresh).map(|_| ()), Err(RefreshError::Expired));
}

#[test]
fn what_is_granted_for_a_key_that_ends_is_over_with_it() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let day = 24 * 3_600;
    let scopes = crate::tests::scopes(&["tenant:read", "brain:proxy"]);
    let ends_at = START + 10 * day;
    let new =
        NewCredential { kind: Kind::User, name: None, scopes: &scopes, expires_at: Some(ends_at) };
    let key = control.issue_credential("acme", &new, &Prefix::default()).unwrap().secret;
    let code = code_for(control, "acme", &client, &key).unwrap();
    let redeemed = redeem(control, &code, &client).unwrap();
    assert_eq!(redeemed.grant.expires_at, ends_at);
    let refresh = |token: &Secret| control.refresh(token.expose().as_bytes(), &client, None, None);
    ground.clock.pass(9 * 24 * 3_600);
    let second = refresh(&redeemed.refresh).unwrap();
    assert_eq!(second.grant.expires_at, ends_at);
    ground.clock.pass(24 * 3_600);
    assert_eq!(refresh(&second.refresh).map(|_| ()), Err(RefreshError::Expired));
    let standing = control.standing("acme", &redeemed.grant.id, "j", ends_at);
    assert_eq!(standing.unwrap_err(), StandingFault::NoHold);
}

#[test]
fn a_refresh_token_is_bound_to_client_resource_and_scopes() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let (client, other) = (register(control), register(control));
    let redeemed = sign_in(control, "acme", &client);
    let token = redeemed.refresh.expose().as_bytes();
    let wide = scopes(&["tenant:read", "brain:proxy"]);
    let ask = |client: &str, resource, scopes| {
        control.refresh(token, client, resource, scopes).map(|_| ())
    };
    assert_eq!(ask(&other, None, None), Err(RefreshError::WrongClient));
    assert_eq!(ask(&client, Some("https://other.example"), None), Err(RefreshError::WrongResource));
    assert_eq!(ask(&client, None, Some(&wide)), Err(RefreshError::WiderScope));
    let nonsense = control.refresh(b"short", &client, None, None).map(|_| ());
    assert_eq!(nonsense, Err(RefreshError::Unknown));
    control.suspend_tenant("acme").unwrap();
    assert_eq!(ask(&client, None, None), Err(RefreshError::Suspended));
    control.resume_tenant("acme").unwrap();
    // Reduced scopes apply to one access token; the grant is unchanged.
    let next = control.refresh(token, &client, Some(RESOURCE), Some(&[])).unwrap();
    assert!(next.scopes.is_empty() && next.grant.scopes == scopes(&["tenant:read"]));
    control
        .refresh(next.refresh.expose().as_bytes(), &client, None, Some(&next.grant.scopes))
        .unwrap();
}

#[test]
fn of_fifty_who_refresh_at_once_at_most_one_wins() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let token = sign_in(control, "acme", &client).refresh;
    let won = std::thread::scope(|scope| {
        let one = || control.refresh(token.expose().as_bytes(), &client, None, None).is_ok();
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(one)).collect();
        let joined: Vec<bool> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        joined.into_iter().filter(|won| *won).count()
    });
    assert_eq!(won, 1);
    assert!(control.grants("acme", None, 1).unwrap()[0].revoked_at.is_some());
}

#[test]
fn a_token_stands_until_any_of_its_reasons_falls() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let grant = sign_in(control, "acme", &client).grant.id;
    let key = issue(control, "acme", Kind::Workspace).credential.id;
    let ask = |sid: &str, jti: &str, at| control.standing("acme", sid, jti, at).map(|_| ());
    assert_eq!((ask(&grant, "a", START), ask(&key, "b", START)), (Ok(()), Ok(())));
    assert_eq!(control.standing("nobody", &key, "b", START).unwrap_err(), StandingFault::Unknown);
    for not_here in ["k00", "g00"] {
        assert_eq!(ask(not_here, "b", START), Err(StandingFault::NotHere));
    }
    control.revoke_token("acme", "a", START + 3_600).unwrap();
    assert_eq!(
        (ask(&grant, "a", START), ask(&grant, "b", START)),
        (Err(StandingFault::Revoked), Ok(()))
    );
    control.end_tokens("acme").unwrap();
    assert_eq!(ask(&key, "b", START), Err(StandingFault::TooOld));
    assert_eq!(ask(&key, "b", START + 1), Ok(()));
    control.suspend_tenant("acme").unwrap();
    assert_eq!(ask(&key, "b", START + 1), Err(StandingFault::Suspended));
    control.resume_tenant("acme").unwrap();
    control.revoke_client(&client).unwrap();
    assert_eq!(ask(&grant, "b", START + 1), Err(StandingFault::NoHold));
    control.revoke_credential("acme", &key).unwrap();
    assert_eq!(ask(&key, "b", START + 1), Err(StandingFault::NoHold));
}

#[test]
fn grants_fall_with_their_credential_and_by_revocation() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let key = issue(control, "acme", Kind::User);
    let of_key = code_for(control, "acme", &client, &key.secret).unwrap();
    let of_key = redeem(control, &of_key, &client).unwrap();
    let other = sign_in(control, "acme", &client);
    let stands =
        |redeemed: &Redeemed| control.standing("acme", &redeemed.grant.id, "j", START).is_ok();
    control.revoke_credential("acme", &key.credential.id).unwrap();
    assert_eq!((stands(&of_key), stands(&other)), (false, true));
    let token = other.refresh.expose().as_bytes();
    assert_eq!(control.revoke_refresh(token, "c1"), Ok(false), "another client's");
    assert_eq!(control.revoke_refresh(b"nonsense", &client), Ok(false));
    assert!(stands(&other));
    assert_eq!(control.revoke_refresh(token, &client), Ok(true));
    assert!(!stands(&other));
}

#[test]
fn clients_that_nobody_uses_go_after_a_day_and_an_address_stays_out_for_good() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let (used, unused) = (register(control), register(control));
    sign_in(control, "acme", &used);
    let address = "https://client.example/metadata.json";
    assert_eq!(control.find_client(address).unwrap_err(), ClientFault::Unknown);
    control.revoke_client(address).unwrap();
    ground.clock.pass(24 * 3_600);
    while control.sweep().unwrap() > 0 {}
    assert_eq!(control.find_client(&unused).unwrap_err(), ClientFault::Unknown);
    assert!(control.find_client(&used).is_ok());
    ground.clock.pass(3);
    let now = control.now();
    control.write(|change| touch(change, &used, now)).unwrap();
    assert_eq!(control.find_client(&used).unwrap().used_at, Some(START + 24 * 3_600 + 3));
    ground.clock.pass(401 * 24 * 3_600);
    while control.sweep().unwrap() > 0 {}
    assert_eq!(control.find_client(&used).unwrap_err(), ClientFault::Unknown);
    assert_eq!(control.find_client(address).unwrap_err(), ClientFault::Revoked);
    assert_eq!(control.clients(None, 10).unwrap().len(), 1);
    assert!(control.revoke_client("c00").is_err());
}

#[test]
fn a_new_client_drives_out_the_oldest_that_nobody_signed_in_by() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let uris = vec![REDIRECT.to_owned()];
    let new = NewClient { name: "", redirect_uris: &uris, auth_method: "none" };
    let registered = || control.register_within(&new, &Prefix::default(), 6).map(|made| made.0.id);
    let is_known = |id: &str| control.find_client(id).is_ok();
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(registered().unwrap());
        ground.clock.pass(1);
    }
    let [signed_in, redeemed, revoked, unused @ ..] = &clients[..] else { panic!() };
    // A client with an unredeemed code counts as used.
    let given = code(control, "acme", signed_in);
    sign_in(control, "acme", redeemed);
    control.revoke_client(revoked).unwrap();
    // Expiries of other tables in between are skipped.
    (0..20).for_each(|number| {
        control.revoke_token("acme", &format!("jti{number}"), START + 40_000 + number).unwrap();
    });
    let mut latest = Vec::new();
    for old in unused {
        assert!(is_known(old));
        latest.push(registered().unwrap());
        assert!(!is_known(old), "the oldest goes");
        ground.clock.pass(1);
    }
    assert!(latest.iter().all(|id| is_known(id)));
    assert!(redeem(control, &given, signed_in).is_ok());
    assert!(is_known(redeemed));
    assert_eq!(control.find_client(revoked).unwrap_err(), ClientFault::Revoked);
    // Also after the clock was set back.
    ground.clock.pass(-50);
    let early = registered().unwrap();
    let next = registered().unwrap();
    assert!(!is_known(&early) && is_known(&next), "it ends first");
    for id in [&latest[1], &latest[2], &next] {
        sign_in(control, "acme", id);
    }
    let Err(ControlError::Refused { field, .. }) = registered() else { panic!("all are used") };
    assert_eq!(field, "clients");
    // A used client is not removed shortly before its expiry, either.
    ground.clock.pass(399 * 24 * 3_600);
    assert!(registered().is_err());
}

#[test]
fn a_client_with_a_secret_is_known_by_it() {
    let ground = Ground::new();
    let uris = vec![REDIRECT.to_owned()];
    let new = NewClient { name: "n", redirect_uris: &uris, auth_method: "client_secret_post" };
    let (client, secret) = ground.control.register_client(&new, &Prefix::default()).unwrap();
    let found = ground.control.find_client(&client.id).unwrap();
    assert!(found.is_secret(secret.unwrap().expose().as_bytes()) && !found.is_secret(b""));
    for bad in [
        NewClient { auth_method: "private_key_jwt", ..new },
        NewClient { redirect_uris: &[], ..new },
        NewClient { name: "a\nb", ..new },
    ] {
        assert!(ground.control.register_client(&bad, &Prefix::default()).is_err(), "{bad:?}");
    }
    // The name is optional.
    let nameless = NewClient { name: "", ..new };
    assert!(ground.control.register_client(&nameless, &Prefix::default()).is_ok());
}

#[test]
fn a_new_key_signs_and_the_old_one_stays_until_its_tokens_are_over() {
    let ground = Ground::new();
    let control = &ground.control;
    let seeds = || -> Vec<[u8; 32]> {
        control.token_keys().unwrap().iter().map(|key| *key.seed.expose()).collect()
    };
    let first = seeds();
    assert_eq!((first.len(), seeds()), (1, first.clone()));
    ground.clock.pass(1);
    let rotated = control.rotate_token_key(3_600).unwrap();
    assert_eq!((rotated.len(), *rotated[0].seed.expose()), (2, first[0]), "the old one signs");
    let new = *rotated[1].seed.expose();
    assert_ne!(new, first[0]);
    // A client that caches the key set for five minutes has the new key before the first signature.
    ground.clock.pass(359);
    assert_eq!(seeds(), [first[0], new]);
    ground.clock.pass(1);
    assert_eq!(seeds(), [new, first[0]]);
    ground.clock.pass(3_600 + 119);
    assert_eq!(seeds().len(), 2);
    ground.clock.pass(1);
    assert_eq!(seeds(), [new]);
    assert_eq!(control.sweep().unwrap(), 1);
    assert_eq!(seeds(), [new]);
    // After two rotations in a row, each key is published before its first signature.
    control.rotate_token_key(3_600).unwrap();
    ground.clock.pass(100);
    let twice = control.rotate_token_key(3_600).unwrap();
    assert_eq!((twice.len(), *twice[0].seed.expose()), (3, new));
    ground.clock.pass(260);
    let (second, third) = (*twice[2].seed.expose(), *twice[1].seed.expose());
    assert_eq!(seeds(), [second, third, new]);
    ground.clock.pass(100);
    assert_eq!(seeds(), [third, second, new]);
    ground.clock.pass(2 * 3_600);
    control.sweep().unwrap();
    for _ in 1..KEYS_PUBLISHED_MAX {
        control.rotate_token_key(3_600).unwrap();
    }
    assert!(matches!(control.rotate_token_key(1), Err(ControlError::Refused { .. })));
    assert!(!format!("{:?}", control.token_keys().unwrap()[0]).contains(&hash::hex(&seeds()[0])));
}

#[test]
fn an_anchor_never_goes_back() {
    let ground = Ground::new();
    let control = &ground.control;
    let at = |seq, byte| LastCheckpoint { seq, head: [byte; 32], at: START, first: None };
    assert_eq!(control.find_anchor("local").unwrap(), None);
    control.put_anchor("local", &at(9, 1)).unwrap();
    control.put_anchor("local", &at(8, 2)).unwrap();
    assert_eq!(control.find_anchor("local").unwrap(), Some(at(9, 1)));
    assert!(control.put_anchor("local", &at(9, 2)).is_err());
    control.put_anchor("local", &at(10, 3)).unwrap();
    let ground = ground.reopened();
    assert_eq!(ground.control.find_anchor("local").unwrap(), Some(at(10, 3)));
}

struct NodeA;

impl Elsewhere for NodeA {
    fn node(&self) -> &str {
        "a"
    }

    fn put_anchor(&self, _: &str, _: &LastCheckpoint) -> Result<(), ControlError> {
        Err(ControlError::refused("slug", "nothing is put through it here"))
    }
}

#[test]
fn a_node_that_lost_its_disk_has_another_ledger_and_each_is_held_against_its_own() {
    let ground = Ground::new();
    let control = &ground.control;
    let at = |seq, first| LastCheckpoint {
        seq,
        head: [u8::try_from(seq).unwrap(); 32],
        at: START,
        first,
    };
    let (old, new) = (Some([1; 32]), Some([2; 32]));
    control.put_anchor_of("local", "b", &at(50, None)).unwrap();
    control.put_anchor_of("local", "a", &at(9, old)).unwrap();
    let alone = control.find_anchor_of("local", new).unwrap();
    assert_eq!(alone, None, "this is of nodes");
    control.ask_by(Arc::new(NodeA));
    let held = |first| control.find_anchor_of("local", first).unwrap();
    assert_eq!([held(old), held(new), held(None)], [Some(at(9, old)), None, None]);
    control.put_anchor_of("local", "a", &at(3, new)).unwrap();
    assert_eq!(control.find_anchor("local").unwrap(), Some(at(3, new)), "the one that it has");
    assert_eq!([held(old), held(new), held(None)], [Some(at(9, old)), Some(at(3, new)), None]);
    let listed = control.anchors(None, 9).unwrap();
    let all = [at(3, new), at(9, old)].map(|last| ("local".to_owned(), last));
    assert_eq!(listed, all, "what it had before comes behind");
    assert_eq!(control.anchors(Some("local"), 9).unwrap(), []);
    // All anchors of a workspace are returned together.
    control.put_anchor_of("acme", "a", &at(1, old)).unwrap();
    control.put_anchor_of("acme", "a", &at(1, new)).unwrap();
    assert_eq!(control.anchors(None, 1).unwrap().len(), 2);
    assert_eq!(control.anchors(Some("acme"), 1).unwrap(), all);
    // The old disk is back, with less than the retained anchor covers.
    control.put_anchor_of("local", "a", &at(8, old)).unwrap();
    assert_eq!([held(old), held(new)], [Some(at(9, old)), Some(at(3, new))]);
    assert_eq!(control.find_anchor("local").unwrap(), Some(at(9, old)));
    // An anchor without a first entry may belong to any ledger.
    let of_b = control.anchors_of(Some("b"), None, 9).unwrap();
    assert_eq!(of_b, [("local".to_owned(), at(50, None))]);
    control.put_anchor_of("local", "b", &at(7, new)).unwrap();
    assert_eq!(control.anchors_of(Some("b"), None, 9).unwrap(), of_b);
}

#[test]
fn of_the_ledgers_that_a_node_had_the_newest_are_remembered() {
    let ground = Ground::new();
    let control = &ground.control;
    control.ask_by(Arc::new(NodeA));
    let first = |disk: u8| [disk; 32];
    let last = |disk: u8| LastCheckpoint {
        seq: 5,
        head: [disk; 32],
        at: START + u64::from(disk),
        first: Some(first(disk)),
    };
    // An order different from that of the hashes.
    let disks = [7, 3, 9, 1, 8, 2, 6];
    for (nth, disk) in (0..).zip(disks) {
        control
            .put_anchor_of("local", "a", &LastCheckpoint { at: START + nth, ..last(disk) })
            .unwrap();
    }
    control.put_anchor_of("local", "a-b", &last(4)).unwrap();
    let is_known =
        |disk: &u8| control.find_anchor_of("local", Some(first(*disk))).unwrap().is_some();
    let known: Vec<u8> = disks.into_iter().filter(is_known).collect();
    assert_eq!(known, [9, 1, 8, 2, 6], "four, and the one that it has");
    assert_eq!(control.anchors(None, 99).unwrap().len(), 5);
}

#[test]
fn what_is_over_is_removed_in_steps_and_nothing_else() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let kept = issue(control, "acme", Kind::User);
    for number in 0..SWEPT_TOGETHER_MAX {
        control.revoke_token("acme", &format!("jti{number}"), START + 60).unwrap();
    }
    let grant = sign_in(control, "acme", &client).grant;
    assert_eq!(control.sweep().unwrap(), 0);
    ground.clock.pass(60);
    assert_eq!(control.sweep().unwrap(), 0, "a clock may go back a little");
    ground.clock.pass(300);
    assert_eq!(control.sweep().unwrap(), SWEPT_TOGETHER_MAX);
    assert_eq!(control.sweep().unwrap(), 0);
    assert!(control.standing("acme", &grant.id, "jti0", START).is_ok());
    ground.clock.pass(40 * 24 * 3_600);
    while control.sweep().unwrap() > 0 {}
    let rows = |name| control.read(|view| table::Look::count(view, name)).unwrap();
    let left =
        ["grants", "refresh", "codes", "revoked", "credentials", "credential_ids", "tenants"];
    assert_eq!(left.map(rows), [0, 0, 0, 0, 1, 1, 1]);
    assert!(control.find_credential(kept.secret.expose().as_bytes(), &[Kind::User]).is_ok());
    assert_eq!(rows("expiries"), 1, "the client, which was used");
}

#[test]
fn after_a_restore_whoever_had_signed_in_signs_in_again() {
    let ground = Ground::new();
    let control = &ground.control;
    let client = register(control);
    for slug in ["acme", "globex", "gone"] {
        make_tenant(control, slug);
    }
    let (one, two) = (sign_in(control, "acme", &client), sign_in(control, "globex", &client));
    let (waiting, kept) =
        (issue(control, "acme", Kind::Once), issue(control, "acme", Kind::Bearer));
    control.delete_tenant("gone").unwrap();
    ground.clock.pass(5);
    assert_eq!(control.end_sign_ins(), Ok(2));
    for (slug, signed) in [("acme", one), ("globex", two)] {
        let refreshed = control.refresh(signed.refresh.expose().as_bytes(), &client, None, None);
        assert_eq!(refreshed.map(|_| ()), Err(RefreshError::Revoked), "{slug}");
        let stands = control.standing(slug, &signed.grant.id, "jti", START + 5);
        assert_eq!(stands.unwrap_err(), StandingFault::TooOld, "{slug}");
    }
    let find = |key: &Issued| {
        control.find_credential(key.secret.expose().as_bytes(), &[Kind::Once, Kind::Bearer])
    };
    assert_eq!(find(&waiting).unwrap_err(), CredentialFault::Revoked);
    assert!(find(&kept).is_ok());
    assert!(sign_in(control, "acme", &client).grant.is_good(START + 6));
}

#[test]
fn what_was_granted_for_a_key_that_is_forgotten_can_be_ended() {
    let ground = Ground::new();
    let control = &ground.control;
    const DAY: i64 = 24 * 3_600;
    make_tenant(control, "acme");
    let client = register(control);
    let signed = sign_in(control, "acme", &client);
    let key = signed.grant.credential.clone();
    ground.clock.pass(29 * DAY);
    let next = control.refresh(signed.refresh.expose().as_bytes(), &client, None, None).unwrap();
    ground.clock.pass(2 * DAY);
    while control.sweep().unwrap() > 0 {}
    assert!(control.revoke_credential("acme", &key).is_err(), "its record is gone");
    assert_eq!(control.end_grants_of("acme", "k00"), Ok(0));
    assert_eq!(control.end_grants_of("acme", &key), Ok(1));
    let refused = control.refresh(next.refresh.expose().as_bytes(), &client, None, None);
    assert_eq!(refused.map(|_| ()), Err(RefreshError::Revoked));
}

#[test]
fn a_key_that_is_the_first_of_all_signs_at_once() {
    let ground = Ground::new();
    let made = ground.control.rotate_token_key(3_600).unwrap();
    assert_eq!((made.len(), made[0].signs_from), (1, START));
    let known = ground.control.token_keys().unwrap();
    assert_eq!((known.len(), known[0].seed.expose()), (1, made[0].seed.expose()));
}

#[test]
fn an_act_of_many_records_leaves_the_file_as_the_next_one_finds_it() {
    let ground = Ground::new();
    let revoke = |change: &table::Change<'_>, number: u64| {
        let revoked = serde_json::json!({"expires_at": START + 60 + number}).to_string();
        let revoked: standing::Revoked = serde_json::from_str(&revoked).unwrap();
        change.put(format!("jti{number}").as_bytes(), &revoked)
    };
    let many = ground.control.write(|change| (0..10_000).try_for_each(|at| revoke(change, at)));
    assert_eq!(many, Ok(()));
    for act in 0..50 {
        assert_eq!(ground.control.ready(), Ok(()), "{act}");
        assert_eq!(ground.control.write(|change| revoke(change, 20_000 + act)), Ok(()), "{act}");
    }
}
