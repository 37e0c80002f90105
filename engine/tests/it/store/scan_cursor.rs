//! A scan of all rows that stops anywhere resumes as if uninterrupted.

use engine::{NoThrottle, ScanCursor, Snapshot, Store};
use support_engine::{ground, random_store};

/// Returns every row as listed, and the scan cursor after the row.
fn scan_all(snapshot: &Snapshot) -> Vec<(String, ScanCursor)> {
    let mut records = snapshot.records();
    let mut rows = Vec::new();
    while let Some(record) = records.next() {
        rows.push((format!("{:?}", record.expect("the store is sound")), records.cursor()));
    }
    rows
}

fn scan_after(snapshot: &Snapshot, mark: &ScanCursor) -> Vec<String> {
    let records = snapshot.records_after(mark).expect("the store is sound");
    records.map(|record| format!("{:?}", record.expect("the store is sound"))).collect()
}

#[test]
fn scan_resumes_from_every_row() {
    for seed in 0..4 {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::open(ground::folder(scratch.path(), seed), ground::unmerged())
            .expect("the store is sound");
        random_store::fill(&store, seed, 30, true);
        if seed % 2 == 0 {
            assert!(
                store.erase_pending(&NoThrottle).expect("the store is sound") > 0,
                "seed {seed}"
            );
        }
        let snapshot = store.snapshot();
        let rows = scan_all(&snapshot);
        let texts: Vec<&String> = rows.iter().map(|(text, _)| text).collect();
        assert!(scan_after(&snapshot, &ScanCursor::default()).iter().eq(texts.iter().copied()));
        for (at, (_, mark)) in rows.iter().enumerate() {
            let rest = scan_after(&snapshot, mark);
            assert!(rest.iter().eq(texts[at + 1..].iter().copied()), "seed {seed}, row {at}");
            let again = snapshot.records_after(mark).unwrap();
            assert_eq!(again.cursor(), *mark, "seed {seed}, row {at}");
        }
    }
}

#[test]
fn invalid_scan_cursor_is_tolerated() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(ground::folder(scratch.path(), 1), ground::unmerged()).unwrap();
    random_store::fill(&store, 1, 10, false);
    let snapshot = store.snapshot();
    let all = scan_all(&snapshot).len();
    for mark in [
        ScanCursor {
            seq: u64::MAX,
            table: 3,
            rows_passed: u64::MAX,
            erased_tombstones_emitted: u64::MAX,
            ..ScanCursor::default()
        },
        ScanCursor { seq: 3, table: usize::MAX, rows_passed: 1, ..ScanCursor::default() },
        ScanCursor {
            seq: 4,
            table: 1,
            rows_passed: 2,
            id: 7,
            erased_tombstones_emitted: 9,
            erased_tombstones_total: 9,
        },
    ] {
        assert!(scan_after(&snapshot, &mark).len() <= all, "{mark:?}");
    }
    let (_, mark) = scan_all(&snapshot)[all / 2].clone();
    let lost = ScanCursor { id: 7, ..mark };
    let (rest, again) = (scan_after(&snapshot, &mark), scan_after(&snapshot, &lost));
    assert!(
        again.ends_with(&rest),
        "where its row is not there any more, some come again and none is lost"
    );
}
