//! A scan of all rows that stops anywhere resumes as if uninterrupted.

use engine::{FullSpeed, Mark, Snapshot, Store};
use support_engine::{ground, random_store};

/// Returns every row as listed, and the scan cursor after the row.
fn walked(snapshot: &Snapshot) -> Vec<(String, Mark)> {
    let mut records = snapshot.records();
    let mut rows = Vec::new();
    while let Some(record) = records.next() {
        rows.push((format!("{:?}", record.expect("the store is sound")), records.mark()));
    }
    rows
}

fn after(snapshot: &Snapshot, mark: &Mark) -> Vec<String> {
    let records = snapshot.records_after(mark).expect("the store is sound");
    records.map(|record| format!("{:?}", record.expect("the store is sound"))).collect()
}

#[test]
fn a_walk_goes_on_from_each_of_its_rows() {
    for seed in 0..4 {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::open(ground::folder(scratch.path(), seed), ground::unmerged())
            .expect("the store is sound");
        random_store::fill(&store, seed, 30, true);
        if seed % 2 == 0 {
            assert!(
                store.erase_pending(&FullSpeed).expect("the store is sound") > 0,
                "seed {seed}"
            );
        }
        let snapshot = store.snapshot();
        let rows = walked(&snapshot);
        let texts: Vec<&String> = rows.iter().map(|(text, _)| text).collect();
        assert!(after(&snapshot, &Mark::default()).iter().eq(texts.iter().copied()));
        for (at, (_, mark)) in rows.iter().enumerate() {
            let rest = after(&snapshot, mark);
            assert!(rest.iter().eq(texts[at + 1..].iter().copied()), "seed {seed}, row {at}");
            let again = snapshot.records_after(mark).unwrap();
            assert_eq!(again.mark(), *mark, "seed {seed}, row {at}");
        }
    }
}

#[test]
fn a_mark_that_says_nothing_sensible_ends_nobody() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(ground::folder(scratch.path(), 1), ground::unmerged()).unwrap();
    random_store::fill(&store, 1, 10, false);
    let snapshot = store.snapshot();
    let all = walked(&snapshot).len();
    for mark in [
        Mark { seq: u64::MAX, table: 3, rows: u64::MAX, stones: u64::MAX, ..Mark::default() },
        Mark { seq: 3, table: usize::MAX, rows: 1, ..Mark::default() },
        Mark { seq: 4, table: 1, rows: 2, id: 7, stones: 9, gone: 9 },
    ] {
        assert!(after(&snapshot, &mark).len() <= all, "{mark:?}");
    }
    let (_, mark) = walked(&snapshot)[all / 2].clone();
    let lost = Mark { id: 7, ..mark };
    let (rest, again) = (after(&snapshot, &mark), after(&snapshot, &lost));
    assert!(
        again.ends_with(&rest),
        "where its row is not there any more, some come again and none is lost"
    );
}
