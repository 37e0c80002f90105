//! Replication of a metastore: another store becomes equal by applying the changes, and a change that is not replicated
//! is not committed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use engine::os::clock::{SystemClock, SystemRandom};
use recalld_auth::Prefix;
use recalld_metastore::{
    Control, ControlError, Far, Kind, NewCredential, NewTenant, Operation, Operations,
    TablesDigest, parse,
};
use support_wire::service::scratch;

/// A change sink that retains every change while it is available.
#[derive(Default)]
struct Kept {
    commits: Mutex<Vec<(Vec<Operation>, TablesDigest)>>,
    is_away: AtomicBool,
    missed: AtomicBool,
}

impl Kept {
    fn check(&self) -> Result<(), ControlError> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(ControlError::Far { why: "it is away".to_owned() }),
            false => Ok(()),
        }
    }
}

impl Far for Kept {
    fn may_read(&self) -> Result<(), ControlError> {
        Ok(())
    }

    fn may_write(&self) -> Result<(), ControlError> {
        Ok(())
    }

    fn carry(&self, operations: &Operations) -> Result<Vec<u8>, ControlError> {
        self.check()?;
        let parsed = parse(operations.bytes())?;
        self.commits.lock().unwrap().push((parsed, operations.turned()));
        Ok(b"carried".to_vec())
    }

    fn missed(&self) {
        self.missed.store(true, Ordering::SeqCst);
    }
}

fn store(folder: &Path, name: &str) -> (Control, Arc<Kept>) {
    let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let control = Control::open(&folder.join(name), clock, random).unwrap();
    let kept = Arc::new(Kept::default());
    control.carry_by(Arc::clone(&kept) as Arc<dyn Far>);
    (control, kept)
}

fn digest(control: &Control) -> TablesDigest {
    control.copy_state(&mut || Ok(()), &mut |_, _, _| Ok(())).unwrap()
}

/// Makes some typical changes and returns a valid key.
fn change(control: &Control) -> String {
    for slug in ["acme", "other"] {
        control.create_tenant(&NewTenant { slug, title: slug, plan: "team" }).unwrap();
    }
    let scopes = ["tenant:read".to_owned()];
    let new =
        NewCredential { kind: Kind::Bearer, name: Some("ada"), scopes: &scopes, expires_at: None };
    let issue = |slug| control.issue_credential(slug, &new, &Prefix::default()).unwrap();
    let (good, over) = (issue("acme"), issue("acme"));
    control.revoke_credential("acme", &over.credential.id).unwrap();
    control.token_keys().unwrap();
    control.take_block("acme", "2026-11", 1, 8, Some(100)).unwrap();
    control.delete_tenant("other").unwrap();
    good.secret.expose().to_owned()
}

#[test]
fn another_store_becomes_the_same_by_what_was_carried() {
    let scratch = scratch();
    let (one, carried) = store(scratch.path(), "one.redb");
    let (two, _) = store(scratch.path(), "two.redb");
    let mut wanted = digest(&one);
    // Both contain only a version.
    assert_eq!(wanted, digest(&two));
    let key = change(&one);
    let commits = carried.commits.lock().unwrap();
    assert!(commits.len() > 5);
    for (operations, turned) in commits.iter() {
        wanted.add(turned);
        two.apply(operations, |found| {
            assert_eq!(found, *turned, "it does here what it did there");
            Ok(b"applied".to_vec())
        })
        .unwrap();
    }
    assert_eq!((digest(&one), digest(&two)), (wanted, wanted));
    assert!(two.find_credential(key.as_bytes(), &[Kind::Bearer]).is_ok());
    assert_eq!(one.tenants(None, 9).unwrap(), two.tenants(None, 9).unwrap());
    assert_eq!(two.place().unwrap().as_deref(), Some(&b"applied"[..]));
}

#[test]
fn a_copy_of_all_rows_is_the_same_store_whatever_was_there() {
    let scratch = scratch();
    let (one, _) = store(scratch.path(), "one.redb");
    let (two, _) = store(scratch.path(), "two.redb");
    let key = change(&one);
    two.create_tenant(&NewTenant { slug: "gone", title: "gone", plan: "team" }).unwrap();
    let mut rows = Operations::default();
    let copied = one.copy_state(&mut || Ok(()), &mut |table, key, value| {
        rows.push(table, key, Some(value));
        Ok(())
    });
    let wanted = copied.unwrap();
    let mut parts = vec![parse(rows.bytes()).unwrap()].into_iter();
    two.become_other(&mut || Ok(parts.next()), |found| {
        assert_eq!(found, wanted);
        Ok(b"loaded".to_vec())
    })
    .unwrap();
    assert_eq!(digest(&two), wanted);
    assert!(two.find_credential(key.as_bytes(), &[Kind::Bearer]).is_ok());
    assert!(two.find_tenant("gone").unwrap().is_none());
    // A copy with a wrong digest changes nothing.
    let refused = two.become_other(&mut || Ok(None), |_| {
        Err(ControlError::Far { why: "it is another one".to_owned() })
    });
    assert!(refused.is_err());
    assert_eq!(digest(&two), wanted);
}

#[test]
fn what_is_not_carried_is_not_changed() {
    let scratch = scratch();
    let (one, carried) = store(scratch.path(), "one.redb");
    let before = digest(&one);
    carried.is_away.store(true, Ordering::SeqCst);
    let new = NewTenant { slug: "acme", title: "acme", plan: "team" };
    let refused = one.create_tenant(&new).unwrap_err();
    assert!(refused.is_fault() && refused.to_string().contains("it is away"), "{refused}");
    assert_eq!((digest(&one), one.find_tenant("acme").unwrap()), (before, None));
    assert!(!carried.missed.load(Ordering::SeqCst));
    // The store works again at once.
    carried.is_away.store(false, Ordering::SeqCst);
    one.create_tenant(&new).unwrap();
    assert_ne!(digest(&one), before);
    assert_eq!(one.place().unwrap().as_deref(), Some(&b"carried"[..]));
}
