//! Isolation: operations of one workspace never change a response about another.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// All query results about a workspace.
#[derive(Debug, PartialEq)]
struct Answers {
    tenant: Option<Tenant>,
    credentials: Vec<Credential>,
    grants: Vec<Grant>,
    usage: Usage,
    anchor: Option<LastCheckpoint>,
    presented: Result<(Credential, Tenant), CredentialFault>,
    standings: [Result<Standing, StandingFault>; 2],
    mail: Result<Mail, MailError>,
}

struct Other {
    bearer: Issued,
    redeemed: Redeemed,
    link: Secret,
}

const MONTH: &str = "2026-11";

fn prepare(control: &Control, client: &str) -> Other {
    make_tenant(control, "other");
    let redeemed = sign_in(control, "other", client);
    control.take_block("other", MONTH, 1, 5, Some(80)).unwrap();
    control
        .put_anchor("other", &LastCheckpoint { seq: 1, head: [1; 32], at: START, first: None })
        .unwrap();
    let link = control.set_email("other", "o@example.org", &Prefix::default()).unwrap();
    Other { bearer: issue(control, "other", Kind::Bearer), redeemed, link }
}

fn ask(control: &Control, other: &Other) -> Answers {
    let secret = other.bearer.secret.expose().as_bytes();
    let holds = [&other.redeemed.grant.id, &other.bearer.credential.id];
    Answers {
        tenant: control.find_tenant("other").unwrap(),
        credentials: control.credentials("other", None, 256).unwrap(),
        grants: control.grants("other", None, 256).unwrap(),
        usage: control.usage("other", MONTH).unwrap(),
        anchor: control.find_anchor("other").unwrap(),
        presented: control.find_credential(secret, &[Kind::Bearer]),
        standings: holds.map(|sid| control.standing("other", sid, "jti of other", START)),
        mail: control.find_mail(other.link.expose().as_bytes()),
    }
}

/// Runs one operation of the workspace `slug`, which knows the ids but no secrets of the other workspace.
fn act(
    control: &Control,
    slug: &str,
    client: &str,
    other: &Other,
    number: u8,
    mine: &mut Vec<Secret>,
) {
    let prefix = Prefix::default();
    let last = mine.last().cloned().unwrap_or_else(|| Secret::new("nothing".into()));
    let secret = last.expose().as_bytes();
    let kinds = [Kind::Workspace, Kind::User, Kind::Bearer, Kind::Once];
    let kind = kinds[usize::from(number / 64)];
    let scopes = scopes(&["tenant:read"]);
    let new = NewCredential { kind, name: None, scopes: &scopes, expires_at: None };
    let foreign_block = || control.usage("other", MONTH).unwrap().blocks[0].id;
    // Rejected operations are as useful as successful ones.
    match number % 24 {
        0 => drop(control.suspend_tenant(slug)),
        1 => drop(control.resume_tenant(slug)),
        2 => drop(control.delete_tenant(slug)),
        3 => drop(control.set_plan(slug, "free")),
        4 => drop(control.set_quota(slug, Some(number.into()))),
        5 => drop(control.end_tokens(slug)),
        6 | 7 => {
            let issued = control.issue_credential(slug, &new, &prefix);
            mine.extend(issued.ok().map(|issued| issued.secret));
        }
        8 => mine
            .extend(control.rotate_workspace_key(slug, None, &prefix).ok().map(|key| key.secret)),
        9 => drop(control.revoke_credential(slug, &other.bearer.credential.id)),
        10 => drop(control.revoke_grant(slug, &other.redeemed.grant.id)),
        11 | 12 => mine.extend(code_for(control, slug, client, &last).ok()),
        13 | 14 => {
            mine.extend(redeem(control, &last, client).ok().map(|redeemed| redeemed.refresh))
        }
        15 | 16 => {
            let refreshed = control.refresh(secret, client, None, None);
            mine.extend(refreshed.ok().map(|refreshed| refreshed.refresh));
        }
        17 => drop(control.revoke_refresh(secret, client)),
        18 => {
            drop(control.take_block(slug, MONTH, 1 + u64::from(number), number.into(), Some(100)))
        }
        19 => {
            let one = Settlement {
                tenant: slug,
                month: MONTH,
                block: foreign_block(),
                used: 3,
                keep: false,
            };
            drop(control.settle(&[one]));
        }
        20 => drop(
            control.put_anchor(slug, &LastCheckpoint { seq: 5, head: [9; 32], at: 1, first: None }),
        ),
        21 => mine.extend(control.set_email(slug, "o@example.org", &prefix).ok()),
        22 => drop(control.verify_email(secret)),
        _ => drop(control.sweep()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_acts_of_one_workspace_change_an_answer_about_another(numbers in prop::collection::vec(any::<u8>(), 1..60)) {
        let ground = Ground::new();
        let control = &ground.control;
        let client = register(control);
        // Names with a common prefix detect a list with too broad a range.
        make_tenant(control, "oth");
        make_tenant(control, "other-1");
        let other = prepare(control, &client);
        let before = ask(control, &other);
        prop_assert!(before.presented.is_ok() && before.mail.is_ok());
        prop_assert!(before.standings.iter().all(Result::is_ok));
        for slug in ["oth", "other-1"] {
            let mut mine = Vec::new();
            for number in &numbers {
                act(control, slug, &client, &other, *number, &mut mine);
                prop_assert_eq!(&ask(control, &other), &before, "after {} of {}", number, slug);
            }
        }
    }
}
