//! Every byte of a small store flipped, every file missing: each fault is found, by a rule id.

use support_engine::sample;
use support_engine::small_store::SmallStore;

use super::valid_stores::verified;

/// Damage of the last frame of the newest log cannot be distinguished from a crash.
#[test]
fn store_byte_flips_are_reported() {
    let store = SmallStore::new();
    let last = store.frames().pop().expect("the log has frames");
    for (name, bytes) in &store.files {
        for at in 0..bytes.len() {
            let mut files = store.files.clone();
            files.get_mut(name).unwrap()[at] ^= 1 << (at % 8);
            let found = verified(&files);
            if name == store.log_name() && last.contains(&at) {
                assert!(found.is_clean() && found.notes.len() == 1, "{name}, byte {at}");
                assert_eq!(found.seq, sample::STEPS as u64 - 1);
                continue;
            }
            assert!(!found.is_clean(), "{name}, byte {at}");
            assert!(found.findings.iter().all(|it| it.rule.contains('-')), "{:?}", found.findings);
        }
    }
}

#[test]
fn closed_wal_flips_are_reported_except_in_its_close_mark() {
    let store = SmallStore::new();
    let mark = store.frames().last().expect("the log has frames").end;
    let name = store.log_name();
    for at in 0..store.closed[name].len() {
        let mut files = store.closed.clone();
        files.get_mut(name).unwrap()[at] ^= 0x10;
        assert_eq!(verified(&files).is_clean(), at >= mark, "byte {at}");
    }
}

#[test]
fn missing_file_is_reported_and_the_rest_is_verified() {
    let store = SmallStore::new();
    for name in store.files.keys() {
        let mut files = store.files.clone();
        files.remove(name);
        let found = verified(&files);
        assert_eq!(found.findings[0].rule, "MAN-03", "{name}: {:?}", found.findings);
        assert!(found.totals.segments > 0, "{name}");
    }
}

/// Two faults in two files are both reported.
#[test]
fn verification_continues_after_a_finding() {
    let store = SmallStore::new();
    let mut files = store.files.clone();
    let segments = files.iter_mut().filter(|(name, _)| name.starts_with("segment-"));
    let mut names = Vec::new();
    for (name, bytes) in segments {
        bytes[100] ^= 1;
        names.push(name.clone());
    }
    let found = verified(&files);
    for name in names {
        assert!(found.findings.iter().any(|it| it.detail.contains(&name)), "{:?}", found.findings);
    }
}
