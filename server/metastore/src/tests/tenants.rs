//! Workspaces, their credentials, confirmation links and usage.

use super::*;

#[test]
fn slugs_are_as_they_must_be_and_never_used_again() {
    let ground = Ground::new();
    let control = &ground.control;
    for bad in
        ["", "ab", "Abc", "1bc", "-bc", "ab-", "a_b", "a b", "\u{e4}bc", "local", &"a".repeat(41)]
    {
        let new = NewTenant { slug: bad, title: "t", plan: "free" };
        let refused = control.create_tenant(&new);
        assert!(matches!(refused, Err(ControlError::Refused { field: "slug", .. })), "{bad}");
    }
    for good in ["abc", "a-1", &"a".repeat(40)] {
        make_tenant(control, good);
    }
    control.delete_tenant("abc").unwrap();
    let again = control.create_tenant(&NewTenant { slug: "abc", title: "t", plan: "free" });
    assert!(matches!(again, Err(ControlError::Refused { field: "slug", .. })));
    let found = control.find_tenant("abc").unwrap().unwrap();
    assert_eq!((found.state, found.deleted_at), (TenantState::Deleted, Some(START)));
    assert!(control.resume_tenant("abc").is_err(), "what is deleted stays so");
    assert_eq!(control.find_tenant("nobody").unwrap(), None);
}

#[test]
fn what_is_deleted_waits_to_be_emptied_until_that_is_on_record() {
    let ground = Ground::new();
    let control = &ground.control;
    let slugs: Vec<String> = (0..LISTED_MAX + 2).map(|number| format!("t{number:04}")).collect();
    slugs.iter().for_each(|slug| make_tenant(control, slug));
    let left = |ground: &Ground| {
        let found = ground.control.to_empty().unwrap();
        found.into_iter().map(|tenant| tenant.slug).collect::<Vec<_>>()
    };
    assert_eq!(left(&ground), [""; 0]);
    let (first, last) = (&*slugs[0], &**slugs.last().unwrap());
    control.delete_tenant(first).unwrap();
    control.delete_tenant(last).unwrap();
    assert_eq!(left(&ground), [first, last]);
    for lives in [&*slugs[1], "nobody"] {
        assert!(control.note_emptied(lives, false).is_err());
        assert!(control.delete_again(lives).is_err());
    }
    let found = |ground: &Ground| ground.control.find_tenant(first).unwrap().unwrap();
    // The workspace stays on the list until the second check.
    control.note_emptied(first, true).unwrap();
    let at = |tenant: &Tenant| (tenant.emptied_at, tenant.looked_again_at);
    assert_eq!(at(&found(&ground)), (Some(START), None));
    assert_eq!(left(&ground), [first, last]);
    ground.clock.pass(7);
    control.note_emptied(first, false).unwrap();
    assert_eq!(at(&found(&ground)), (Some(START), None));
    control.note_emptied(first, true).unwrap();
    let ground = ground.reopened();
    assert_eq!(at(&found(&ground)), (Some(START), Some(START + 7)));
    assert_eq!(left(&ground), [last]);
    // Data written since must be purged, too.
    let again = ground.control.delete_again(first).unwrap();
    assert_eq!((again.deleted_at, at(&again)), (Some(START + 7), (None, None)));
    assert_eq!(left(&ground), [first, last]);
}

#[test]
fn lists_come_in_pages() {
    let ground = Ground::new();
    let control = &ground.control;
    let slugs: Vec<String> = (0..5).map(|number| format!("tenant{number}")).collect();
    slugs.iter().for_each(|slug| make_tenant(control, slug));
    let names = |after: Option<&str>, limit| {
        let page = control.tenants(after, limit).unwrap();
        page.into_iter().map(|tenant| tenant.slug).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 3), slugs[..3]);
    assert_eq!(names(Some("tenant2"), usize::MAX), slugs[3..]);
    assert_eq!(names(Some("tenant4"), 1), [""; 0]);
}

#[test]
fn settings_of_a_workspace_stay() {
    let ground = Ground::new();
    make_tenant(&ground.control, "acme");
    ground.control.set_plan("acme", "free").unwrap();
    ground.control.set_quota("acme", Some(77)).unwrap();
    ground.control.set_title("acme", "Acme, Inc.").unwrap();
    let ground = ground.reopened();
    let found = ground.control.find_tenant("acme").unwrap().unwrap();
    assert_eq!((found.plan.as_str(), found.calls_per_month), ("free", Some(77)));
    assert_eq!(found.title, "Acme, Inc.");
    assert!(ground.control.set_title("acme", "two\nlines").is_err());
    assert!(ground.control.set_plan("nobody", "free").is_err());
}

#[test]
fn a_credential_is_found_by_its_secret_alone() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    for (kind, start) in [
        (Kind::Workspace, "recalld_ws_"),
        (Kind::User, "recalld_user_"),
        (Kind::Bearer, "recalld_pat_"),
        (Kind::Once, "recalld_once_"),
    ] {
        let issued = issue(control, "acme", kind);
        let secret = issued.secret.expose();
        assert!(secret.starts_with(start) && secret.len() == start.len() + 43, "{start}");
        let (found, tenant) = control.find_credential(secret.as_bytes(), &[kind]).unwrap();
        assert_eq!((found, tenant.slug.as_str()), (issued.credential, "acme"));
        let others = [Kind::Workspace, Kind::User, Kind::Bearer, Kind::Once];
        let others: Vec<Kind> = others.into_iter().filter(|other| *other != kind).collect();
        let elsewhere = control.find_credential(secret.as_bytes(), &others);
        assert_eq!(elsewhere.unwrap_err(), CredentialFault::Unknown);
        let cut = control.find_credential(&secret.as_bytes()[1..], &[kind]);
        assert_eq!(cut.unwrap_err(), CredentialFault::Unknown);
        let file = std::fs::read(ground.path()).unwrap();
        let secret = &secret.as_bytes()[start.len()..];
        assert!(!file.windows(secret.len()).any(|piece| piece == secret), "on disk in the clear");
    }
}

#[test]
fn credentials_end_by_time_revocation_and_the_state_of_their_workspace() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let once = issue(control, "acme", Kind::Once);
    let bearer = issue(control, "acme", Kind::Bearer);
    let ask = |issued: &Issued| {
        let secret = issued.secret.expose().as_bytes();
        control.find_credential(secret, &[Kind::Once, Kind::Bearer]).map(|_| ())
    };
    ground.clock.pass(24 * 3_600 - 1);
    assert_eq!(ask(&once), Ok(()));
    ground.clock.pass(1);
    assert_eq!(ask(&once), Err(CredentialFault::Expired));
    control.suspend_tenant("acme").unwrap();
    assert_eq!(ask(&bearer), Err(CredentialFault::Suspended));
    control.resume_tenant("acme").unwrap();
    assert_eq!(ask(&bearer), Ok(()));
    control.revoke_credential("acme", &bearer.credential.id).unwrap();
    assert_eq!(ask(&bearer), Err(CredentialFault::Revoked));
    let late =
        NewCredential { kind: Kind::Bearer, name: None, scopes: &[], expires_at: Some(START) };
    let late = control.issue_credential("acme", &late, &Prefix::default());
    assert!(matches!(late, Err(ControlError::Refused { field: "expires_at", .. })));
}

#[test]
fn a_deleted_workspace_takes_all_with_it() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let client = register(control);
    let bearer = issue(control, "acme", Kind::Bearer);
    let redeemed = sign_in(control, "acme", &client);
    let link = control.set_email("acme", "a@example.org", &Prefix::default()).unwrap();
    control.delete_tenant("acme").unwrap();
    let states = control.credentials("acme", None, 10).unwrap();
    assert!(states.iter().all(|one| one.state != CredentialState::Active), "{states:?}");
    assert!(control.grants("acme", None, 10).unwrap().iter().all(|one| one.revoked_at.is_some()));
    assert_eq!(control.verify_email(link.expose().as_bytes()).unwrap_err(), MailError::Unknown);
    let found = control.find_credential(bearer.secret.expose().as_bytes(), &[Kind::Bearer]);
    assert_eq!(found.unwrap_err(), CredentialFault::Revoked);
    let token = control.standing("acme", &redeemed.grant.id, "jti", START + 5);
    assert_eq!(token.unwrap_err(), StandingFault::Deleted);
    assert!(control.find_tenant("acme").unwrap().unwrap().email.is_none());
}

#[test]
fn there_is_one_workspace_key_and_rotation_ends_the_old_one_at_once() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let old = issue(control, "acme", Kind::Workspace);
    let new = NewCredential { kind: Kind::Workspace, name: None, scopes: &[], expires_at: None };
    let second = control.issue_credential("acme", &new, &Prefix::default());
    assert!(matches!(second, Err(ControlError::Refused { field: "kind", .. })));
    let prefix = Prefix::new("other").unwrap();
    let new = control.rotate_workspace_key("acme", None, &prefix).unwrap();
    assert!(new.secret.expose().starts_with("other_ws_"));
    assert_eq!(new.credential.scopes, old.credential.scopes);
    let ask = |issued: &Issued| {
        let secret = issued.secret.expose().as_bytes();
        control.find_credential(secret, &[Kind::Workspace]).map(|_| ())
    };
    assert_eq!((ask(&old), ask(&new)), (Err(CredentialFault::Revoked), Ok(())));
    let token = control.standing("acme", &old.credential.id, "jti", START);
    assert_eq!(token.unwrap_err(), StandingFault::NoHold);
    assert!(control.standing("acme", &new.credential.id, "jti", START).is_ok());
}

#[test]
fn room_for_credentials_is_made_of_what_is_over() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    for _ in 0..CREDENTIALS_EACH_MAX {
        issue(control, "acme", Kind::Once);
    }
    let new = NewCredential { kind: Kind::Bearer, name: None, scopes: &[], expires_at: None };
    let one_more = || control.issue_credential("acme", &new, &Prefix::default()).map(|_| ());
    assert!(matches!(one_more(), Err(ControlError::Refused { field: "credentials", .. })));
    ground.clock.pass(24 * 3_600);
    one_more().unwrap();
    assert_eq!(control.credentials("acme", None, 10).unwrap().len(), 1);
}

#[test]
fn a_link_verifies_its_address_once_and_only_the_last_one_counts() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let prefix = Prefix::default();
    let first = control.set_email("acme", "a@example.org", &prefix).unwrap();
    let second = control.set_email("acme", "b@example.org", &prefix).unwrap();
    let verify = |link: &Secret| control.verify_email(link.expose().as_bytes());
    assert_eq!(verify(&first).unwrap_err(), MailError::Unknown);
    let mail = control.find_mail(second.expose().as_bytes()).unwrap();
    assert_eq!((mail.tenant.as_str(), mail.address.as_str()), ("acme", "b@example.org"));
    assert_eq!(verify(&second).unwrap().email_verified_at, Some(START));
    assert_eq!(verify(&second).unwrap_err(), MailError::Unknown);
    let third = control.set_email("acme", "c@example.org", &prefix).unwrap();
    assert_eq!(control.find_tenant("acme").unwrap().unwrap().email_verified_at, None);
    ground.clock.pass(24 * 3_600);
    assert_eq!(verify(&third).unwrap_err(), MailError::Expired);
    assert_eq!(control.sweep().unwrap(), 1);
    assert_eq!(verify(&third).unwrap_err(), MailError::Unknown);
    assert!(control.set_email("acme", "nobody", &prefix).is_err());
}

#[test]
fn blocks_never_exceed_the_quota() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let mut ids = 0..;
    let mut take = |month, quota| {
        let id = ids.next().unwrap();
        control.take_block("acme", month, id, 64, quota).unwrap()
    };
    let first = take("2026-11", Some(100)).unwrap();
    assert_eq!((first.calls, first.expires_at), (6, START + 600), "a sixteenth of 100");
    let mut out = u64::from(first.calls);
    while let Some(block) = take("2026-11", Some(100)) {
        out += u64::from(block.calls);
    }
    assert_eq!(out, 100);
    assert_eq!(take("2026-12", Some(100)).unwrap().calls, 6);
    assert_eq!(take("2026-11", None).unwrap().calls, 64);
    assert!(control.take_block("acme", "2026-13", 1, 1, None).is_err());
    assert!(control.take_block("nobody", "2026-11", 1, 1, None).is_err());
    assert!(control.take_block("local", "2026-11", 1, 1, None).unwrap().is_some());
}

#[test]
fn what_was_used_is_written_once_however_often_it_is_said() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let month = "2026-11";
    let block = control.take_block("acme", month, 1, 10, None).unwrap().unwrap();
    let settle = |used, keep| {
        let one = Settlement { tenant: "acme", month, block: block.id, used, keep };
        control.settle(&[one]).unwrap();
        let usage = control.usage("acme", month).unwrap();
        (usage.used, usage.blocks.len())
    };
    assert_eq!(settle(4, true), (4, 1));
    assert_eq!(settle(4, true), (4, 1));
    assert_eq!(settle(3, true), (4, 1), "less than was said before");
    assert_eq!(settle(7, false), (7, 0));
    assert_eq!(settle(7, false), (7, 0));
    assert_eq!(settle(10, true), (7, 0), "it is not out any more");
}

#[test]
fn a_block_that_is_asked_for_again_is_the_same_until_it_is_in_use() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let month = "2026-11";
    let take = |id| control.take_block("acme", month, id, 64, Some(2));
    let first = take(7).unwrap();
    assert_eq!(first.map(|block| (block.id, block.calls)), Some((7, 1)));
    ground.clock.pass(100);
    assert_eq!(take(7).unwrap(), first, "as it was, with the time that it has left");
    assert!(take(8).unwrap().is_some());
    assert_eq!(take(9).unwrap(), None);
    assert_eq!(take(7).unwrap(), first, "also where nothing else is left");
    let used = Settlement { tenant: "acme", month, block: 7, used: 1, keep: true };
    control.settle(&[used]).unwrap();
    assert!(take(7).is_err_and(|error| error.to_string().contains("in use")));
    assert_eq!(control.usage("acme", month).unwrap().blocks.len(), 2);
}

#[test]
fn a_block_that_is_asked_for_once_it_is_over_is_not_made_anew() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let month = "2026-11";
    let take = |id| control.take_block("acme", month, id, 64, None);
    let end = |id, used| {
        let one = Settlement { tenant: "acme", month, block: id, used, keep: false };
        control.settle(&[one]).unwrap();
    };
    for (id, used) in [(7, 64), (8, 3), (9, 0)] {
        take(id).unwrap();
        end(id, used);
        // A delayed first request, or a retry after a lost response.
        assert!(take(id).is_err_and(|error| error.to_string().contains("over")), "{id}");
        end(id, used);
    }
    let usage = control.usage("acme", month).unwrap();
    assert_eq!((usage.used, usage.blocks.len()), (67, 0));
    ground.clock.pass(600);
    assert!(take(10).unwrap().is_some());
    assert!(control.usage("acme", month).unwrap().over.is_empty());
}

#[test]
fn a_month_with_all_blocks_that_may_be_known_is_written() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let month = "2026-11";
    let mut ids = (0..u64::MAX).rev();
    let mut take = || control.take_block("acme", month, ids.next().unwrap(), 64, None);
    let settle = |all: &[(u64, bool)]| {
        let one = |(block, keep): &(u64, bool)| Settlement {
            tenant: "acme",
            month,
            block: *block,
            used: 64,
            keep: *keep,
        };
        control.settle(&all.iter().map(one).collect::<Vec<_>>()).unwrap();
    };
    let over: Vec<(u64, bool)> =
        (0..=BLOCKS_OVER_MAX).map(|_| (take().unwrap().unwrap().id, false)).collect();
    settle(&over);
    let out: Vec<(u64, bool)> =
        (0..BLOCKS_OUT_MAX).map(|_| (take().unwrap().unwrap().id, true)).collect();
    settle(&out);
    assert!(take().is_err_and(|error| error.to_string().contains("are out")));
    let usage = control.usage("acme", month).unwrap();
    assert_eq!((usage.blocks.len(), usage.over.len()), (BLOCKS_OUT_MAX, BLOCKS_OVER_MAX));
    assert_eq!(usage.over[0].0, over[1].0, "the one that ended first is forgotten");
}

#[test]
fn what_a_crash_left_of_a_block_is_free_after_ten_minutes() {
    let ground = Ground::new();
    make_tenant(&ground.control, "acme");
    let month = "2026-11";
    let mut ids = 0..;
    let mut take = |control: &Control| {
        control.take_block("acme", month, ids.next().unwrap(), 64, Some(2)).unwrap()
    };
    let block = take(&ground.control).unwrap();
    assert!(take(&ground.control).is_some() && take(&ground.control).is_none());
    let one = Settlement { tenant: "acme", month, block: block.id, used: 1, keep: true };
    ground.control.settle(&[one]).unwrap();
    let ground = ground.reopened();
    ground.clock.pass(599);
    assert!(take(&ground.control).is_none());
    ground.clock.pass(1);
    let left = take(&ground.control).unwrap();
    assert_eq!((left.calls, take(&ground.control)), (1, None), "one was used, one is free");
}
