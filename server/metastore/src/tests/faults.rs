//! Full disks, and damaged, moved or truncated files: no acknowledged change is lost, no content is invented, and the
//! store recovers once the fault is repaired.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

use redb::{Database, StorageBackend};

use super::file::{Mark, Place, open_database};
use super::sealed::Seal;
use super::table::Look;
use super::*;

/// In-memory storage with scripted failures and a history of states.
#[derive(Debug, Default)]
struct Disk {
    bytes: Mutex<Vec<u8>>,
    /// Number of changes until the failure, and the error of every later change.
    fault: Mutex<Option<(usize, io::ErrorKind)>>,
    /// State after each change, while recording.
    states: Mutex<Option<Vec<Vec<u8>>>>,
}

#[derive(Debug, Clone)]
struct Handle(Arc<Disk>);

impl Disk {
    fn change(&self, edit: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        if let Some((left, kind)) = self.fault.lock().unwrap().as_mut() {
            if *left == 0 {
                return Err(io::Error::from(*kind));
            }
            *left -= 1;
        }
        let mut bytes = self.bytes.lock().unwrap();
        edit(&mut bytes);
        if let Some(states) = self.states.lock().unwrap().as_mut() {
            states.push(bytes.clone());
        }
        Ok(())
    }

    fn fail_after(&self, changes: usize, kind: io::ErrorKind) {
        *self.fault.lock().unwrap() = Some((changes, kind));
    }

    fn mend(&self) {
        *self.fault.lock().unwrap() = None;
    }
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.bytes.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        let found = at.checked_add(out.len()).and_then(|end| bytes.get(at..end));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.change(|bytes| bytes.resize(usize::try_from(len).unwrap(), 0))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.change(|_| ())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        self.0.change(|bytes| bytes[at..at + data.len()].copy_from_slice(data))
    }
}

impl Place for Handle {
    fn open(&self, _: bool) -> Result<(Database, Seal), ControlError> {
        open_database(self.clone())
    }

    fn mark(&self) -> Result<Option<Mark>, ControlError> {
        Ok(None)
    }
}

struct Failing {
    disk: Arc<Disk>,
    clock: Arc<TestClock>,
    control: Control,
}

fn on(bytes: Vec<u8>) -> Failing {
    let disk = Arc::new(Disk { bytes: Mutex::new(bytes), ..Disk::default() });
    let clock = Arc::new(TestClock::default());
    let random = Arc::new(TestRandom::default());
    let control = Control::of(Box::new(Handle(disk.clone())), clock.clone(), random);
    Failing { disk, clock, control }
}

fn is_unavailable<T>(done: &Result<T, ControlError>) -> bool {
    matches!(done, Err(ControlError::Unavailable { .. }))
}

fn create(control: &Control, slug: &str) -> Result<(), ControlError> {
    control.create_tenant(&NewTenant { slug, title: "t", plan: "team" }).map(|_| ())
}

#[test]
fn a_disk_that_fails_loses_nothing_acknowledged_and_works_again_when_it_is_mended() {
    for kind in
        [io::ErrorKind::StorageFull, io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::Other]
    {
        let failing = on(Vec::new());
        let control = &failing.control;
        create(control, "first").unwrap();
        let mut acknowledged = vec!["first".to_owned()];
        let mut refused = 0;
        for changes in 0..40 {
            failing.disk.fail_after(changes, kind);
            let slug = format!("tenant{changes}");
            match create(control, &slug) {
                Ok(()) => acknowledged.push(slug),
                Err(error) => {
                    assert!(error.is_fault(), "{error}");
                    refused += 1;
                }
            }
            failing.disk.mend();
            failing.clock.pass(1);
            control.ready().unwrap();
            for slug in &acknowledged {
                assert!(control.find_tenant(slug).unwrap().is_some(), "{slug} after {changes}");
            }
        }
        assert!(refused > 3 && acknowledged.len() > 10, "{refused} {}", acknowledged.len());
    }
}

#[test]
fn while_a_fault_lasts_the_file_is_opened_once_a_second_and_every_act_says_why() {
    let failing = on(Vec::new());
    let control = &failing.control;
    create(control, "first").unwrap();
    failing.disk.fail_after(0, io::ErrorKind::StorageFull);
    let full = create(control, "second").unwrap_err();
    assert!(full.to_string().contains("make room"), "{full}");
    assert!(is_unavailable(&control.find_tenant("first")), "closed, and no second is over");
    failing.disk.mend();
    assert!(is_unavailable(&control.ready()), "not tried again within a second");
    assert!(is_unavailable(&create(control, "second")));
    failing.clock.pass(1);
    assert!(control.find_tenant("first").unwrap().is_some());
    create(control, "third").unwrap();
    // The store reopens even if the clock was set back.
    failing.disk.fail_after(0, io::ErrorKind::StorageFull);
    create(control, "fourth").unwrap_err();
    failing.disk.mend();
    failing.clock.pass(-60);
    control.ready().unwrap();
}

#[test]
fn whatever_a_crash_leaves_every_act_is_whole_or_not_there() {
    let failing = on(Vec::new());
    let control = &failing.control;
    make_tenant(control, "acme");
    let client = register(control);
    let key = issue(control, "acme", Kind::Once);
    *failing.disk.states.lock().unwrap() = Some(Vec::new());
    let code = code_for(control, "acme", &client, &key.secret).unwrap();
    let given = failing.disk.states.lock().unwrap().as_ref().unwrap().len();
    redeem(control, &code, &client).unwrap();
    let states = failing.disk.states.lock().unwrap().take().unwrap();
    assert!(given > 1 && states.len() > given + 1);
    let mut seen = [0; 3];
    for (number, bytes) in states.into_iter().enumerate() {
        let crashed = on(bytes);
        let control = &crashed.control;
        let count = |name| control.read(|view| view.count(name)).unwrap();
        let state = control.credentials("acme", None, 9).unwrap()[0].state;
        let spent = state == CredentialState::Spent;
        let (codes, grants, families) = (count("codes"), count("grants"), count("refresh"));
        assert_eq!((codes == 1, grants), (spent, families), "state {number}");
        assert!(number + 1 < given || spent, "state {number}: the code was acknowledged");
        seen[usize::try_from(codes + grants).unwrap()] += 1;
        if spent {
            // The code is redeemable exactly if the redemption is not in this state.
            assert_eq!(redeem(control, &code, &client).is_ok(), grants == 0);
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn damaged_bytes_are_told_or_do_not_matter() {
    let bytes = {
        let failing = on(Vec::new());
        for number in 0..30 {
            make_tenant(&failing.control, &format!("tenant{number}"));
            issue(&failing.control, &format!("tenant{number}"), Kind::Bearer);
        }
        let disk = failing.disk.clone();
        drop(failing);
        disk.bytes.lock().unwrap().clone()
    };
    let random = TestRandom::default();
    let draw = |below: usize| {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        usize::try_from(u64::from_le_bytes(bytes) % below as u64).unwrap()
    };
    let mut told = 0;
    for round in 0..300 {
        let mut damaged = bytes.clone();
        match round % 3 {
            0 => damaged[draw(bytes.len())] ^= 1 << draw(8),
            1 => damaged.truncate(draw(bytes.len())),
            _ => {
                let at = draw(bytes.len());
                let end = (at + 4_096).min(bytes.len());
                damaged[at..end].fill(0);
            }
        }
        let found = on(damaged);
        // An empty file is a new store.
        if found.disk.bytes.lock().unwrap().is_empty() {
            continue;
        }
        match found.control.tenants(None, 256) {
            Ok(tenants) => assert_eq!(tenants.len(), 30, "round {round}"),
            Err(error) => {
                assert!(error.is_fault(), "{error}");
                told += 1;
            }
        }
    }
    assert!(told > 20, "{told}");
}

#[test]
fn a_file_that_is_damaged_and_put_back_is_found_again() {
    let ground = Ground::new();
    make_tenant(&ground.control, "acme");
    let Ground { folder, clock, random, control } = ground;
    drop(control);
    let path = folder.path().join("control.redb");
    let good = fs::read(&path).unwrap();
    fs::write(&path, b"not a database at all").unwrap();
    let strict = Control::open(&path, clock.clone(), random.clone()).map(|_| ());
    assert!(matches!(strict, Err(ControlError::Damaged { table: "file", .. })), "{strict:?}");
    let control = Control::at(&path, clock.clone(), random);
    assert!(control.find_tenant("acme").is_err());
    fs::write(&path, good).unwrap();
    clock.pass(1);
    assert!(control.find_tenant("acme").unwrap().is_some());
}

#[test]
fn other_bytes_in_the_file_are_noticed_within_a_second_and_never_written_over() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let good = fs::read(ground.path()).unwrap();
    ground.clock.pass(60);
    control.ready().unwrap();
    for is_writer_first in [true, false] {
        let bad = vec![b'x'; good.len()];
        fs::write(ground.path(), &bad).unwrap();
        ground.clock.pass(1);
        let refused = match is_writer_first {
            true => create(control, "second"),
            false => control.find_tenant("acme").map(|_| ()),
        };
        assert!(matches!(refused, Err(ControlError::Damaged { table: "file", .. })), "{refused:?}");
        assert_eq!(
            fs::read(ground.path()).unwrap(),
            bad,
            "the damage is left for whoever mends it"
        );
        fs::write(ground.path(), &good).unwrap();
        ground.clock.pass(1);
        assert!(control.find_tenant("acme").unwrap().is_some());
        assert!(control.find_tenant("second").unwrap().is_none());
        ground.clock.pass(60);
        control.ready().unwrap();
    }
    create(control, "third").unwrap();
    let ground = ground.reopened();
    assert_eq!(ground.control.tenants(None, 9).unwrap().len(), 2);
}

#[test]
fn the_file_is_its_owners_alone_and_of_one_process() {
    let ground = Ground::new();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&ground.path()), 0o600);
    let open =
        || Control::open(&ground.path(), ground.clock.clone(), ground.random.clone()).map(|_| ());
    let second = open().unwrap_err();
    assert!(second.to_string().contains("another process has it open"), "{second}");
    fs::set_permissions(ground.path(), Permissions::from_mode(0o640)).unwrap();
    let open_to_others = open().unwrap_err();
    assert!(open_to_others.to_string().contains("chmod 600"), "{open_to_others}");
}

#[test]
fn a_file_that_was_moved_away_takes_no_changes() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let aside = ground.folder.path().join("aside");
    fs::rename(ground.path(), &aside).unwrap();
    assert!(is_unavailable(&create(control, "second")));
    ground.clock.pass(1);
    assert!(is_unavailable(&create(control, "second")), "no new one is made in its place");
    assert!(!ground.path().exists());
    fs::rename(&aside, ground.path()).unwrap();
    ground.clock.pass(1);
    assert!(control.find_tenant("acme").unwrap().is_some());
    // A file put in place of the open one is used from then on.
    let other = ground.folder.path().join("other");
    drop(Control::open(&other, ground.clock.clone(), ground.random.clone()).unwrap());
    fs::rename(&other, ground.path()).unwrap();
    ground.clock.pass(1);
    create(control, "second").unwrap();
    assert_eq!(control.tenants(None, 9).unwrap().len(), 1);
}

#[test]
fn a_store_of_a_newer_build_is_refused() {
    let ground = Ground::new();
    // The first write records the watermark in this record, which would overwrite the version.
    make_tenant(&ground.control, "acme");
    let newer = serde_json::from_str::<store::Meta>(r#"{"version":2}"#).unwrap();
    ground.control.write(|change| change.put(b"version", &newer)).unwrap();
    let Ground { folder, clock, random, control } = ground;
    drop(control);
    let opened = Control::open(&folder.path().join("control.redb"), clock, random).map(|_| ());
    assert_eq!(opened, Err(ControlError::TooNew { found: 2, known: VERSION }));
}

#[test]
fn a_damaged_record_is_told_with_its_table_and_spares_the_others() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    make_tenant(control, "other");
    let other = control.find_tenant("other").unwrap().unwrap();
    // A record under another key.
    control.write(|change| change.put(b"acme", &other)).unwrap();
    for _ in 0..3 {
        let found = control.find_tenant("acme");
        assert!(matches!(found, Err(ControlError::Damaged { table: "tenants", .. })), "{found:?}");
        assert!(control.suspend_tenant("acme").is_err());
        assert_eq!(control.find_tenant("other").unwrap().as_ref(), Some(&other));
        ground.clock.pass(60);
    }
}

#[test]
fn records_that_are_not_whole_are_damage() {
    let good = br#"{"tenant":"acme","grant":"g1","new_field":[1]}"#;
    let with_crc = |json: &[u8]| [&crc32c::crc32c(json).to_le_bytes()[..], json].concat();
    check_record("refresh", &with_crc(good)).unwrap();
    let mut flipped = with_crc(good);
    let at = flipped.windows(4).position(|piece| piece == b"acme").unwrap();
    flipped[at] ^= 1;
    let long = format!(r#"{{"tenant":"{}","grant":""}}"#, "a".repeat(RECORD_BYTES_MAX));
    for bad in [
        flipped,
        Vec::new(),
        vec![0; 3],
        with_crc(b"{}"),
        with_crc(b"[[["),
        with_crc(long.as_bytes()),
    ] {
        let found = check_record("refresh", &bad);
        assert!(matches!(found, Err(ControlError::Damaged { table: "refresh", .. })), "{found:?}");
    }
    assert!(check_record("nothing", &with_crc(good)).is_err());
}

/// A record of each table: required fields first, then optional ones.
const RECORDS: [(&str, &str, &str); 13] = [
    ("meta", r#"{"version":1}"#, "{}"),
    (
        "tenants",
        r#"{"slug":"acme","title":"t","plan":"team","state":"active","made_at":1}"#,
        r#"{"deleted_at":2,"tokens_not_before":3,"email":"a@b","email_verified_at":4,"calls_per_month":9,"mail":"HASH"}"#,
    ),
    (
        "credentials",
        r#"{"tenant":"acme","id":"k1","kind":"once","scopes":["tenant:read"],"made_at":1,"state":"spent"}"#,
        r#"{"name":"ann","expires_at":2,"ended_at":2}"#,
    ),
    ("credential_ids", r#"{"hash":"HASH"}"#, "{}"),
    (
        "clients",
        r#"{"id":"c1","name":"n","redirect_uris":["https://a/"],"auth_method":"none","made_at":1}"#,
        r#"{"secret":"HASH","used_at":2,"revoked_at":3}"#,
    ),
    (
        "grants",
        r#"{"tenant":"acme","id":"g1","principal":"user:ann","client":"c1","credential":"k1","scopes":[],
            "resource":"r","made_at":1,"expires_at":2,"number":0,"family":"HASH","refresh":"HASH"}"#,
        r#"{"revoked_at":2}"#,
    ),
    ("refresh", r#"{"tenant":"acme","grant":"g1"}"#, "{}"),
    (
        "codes",
        r#"{"tenant":"acme","principal":"p","client":"c1","credential":"k1","scopes":[],"resource":"r",
            "redirect_uri":"u","challenge":"c","expires_at":2}"#,
        r#"{"grant":"g1"}"#,
    ),
    ("revoked", r#"{"expires_at":18446744073709551615}"#, "{}"),
    ("mails", r#"{"tenant":"acme","address":"a@b","expires_at":2}"#, "{}"),
    ("anchors", r#"{"seq":1,"head":"HASH","at":1}"#, "{}"),
    (
        "token_keys",
        r#"{"seed":"HASH","made_at":1}"#,
        r#"{"signs_from":1,"retired_at":2,"published_until":3}"#,
    ),
    (
        "usage",
        r#"{"begun_at":1,"used":5}"#,
        r#"{"blocks":[{"id":7,"calls":64,"used":5,"expires_at":600}]}"#,
    ),
];

#[test]
fn fields_of_records_are_those_of_the_page() {
    type Object = serde_json::Map<String, serde_json::Value>;
    let object = |json: &str| -> Object {
        serde_json::from_str(&json.replace("HASH", &"0a".repeat(32))).unwrap()
    };
    let checked = |table: &str, fields: &Object| {
        let json = serde_json::to_vec(fields).unwrap();
        check_record(table, &[&crc32c::crc32c(&json).to_le_bytes()[..], &json].concat())
    };
    for (table, needed, others) in RECORDS {
        let (needed, mut all) = (object(needed), object(others));
        assert_eq!(checked(table, &needed), Ok(()), "{table}");
        all.extend(needed.clone());
        all.insert("a_field_of_a_later_build".into(), serde_json::json!({"deep": [null]}));
        assert_eq!(checked(table, &all), Ok(()), "{table}");
        for name in needed.keys() {
            let mut fewer = needed.clone();
            fewer.remove(name);
            let found = checked(table, &fewer);
            let is_told =
                matches!(&found, Err(ControlError::Damaged { table: of, .. }) if *of == table);
            assert!(is_told, "{table} without {name}: {found:?}");
        }
        for (name, value) in all.iter().filter(|(name, _)| *name != "a_field_of_a_later_build") {
            let mut wrong = all.clone();
            wrong.insert(name.clone(), serde_json::json!({"was": value}));
            assert!(checked(table, &wrong).is_err(), "{table}: {name}");
        }
    }
}

#[test]
fn an_act_that_fails_changes_nothing() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    let failed: Result<(), ControlError> = control.write(|change| {
        let mut tenant = crate::tenants::find_tenant(change, "acme")?.unwrap();
        tenant.plan = "free".to_owned();
        change.put(b"acme", &tenant)?;
        Err(ControlError::refused("plan", "no"))
    });
    assert!(failed.is_err());
    assert_eq!(control.find_tenant("acme").unwrap().unwrap().plan, "team");
}
