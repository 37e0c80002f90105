//! Objects of a replicated store over time: those that retention removes, and uploads that resume after a restart.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::carry::{Node, batch, some, tenant, texts};
use super::memory::Memory;
use crate::machine::{PATIENCE, until};
use engine::{Env, NoThrottle, Options, Store};
use recalld_replication::limits::PART_BYTES;
use recalld_replication::{CarryWhen, Look};

#[test]
fn what_is_kept_goes_when_its_time_is_over_though_nothing_happens() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let (carrier, store) = node.open(&folder.path().join("one"), CarryWhen::Acknowledging);
    const MINUTE: i64 = 60_000_000;
    for round in 0..4 {
        node.date.0.store(i64::try_from(round).unwrap() * 10 * MINUTE, Ordering::SeqCst);
        store.write(batch(&some(round * 4, 4))).unwrap();
        store.seal().unwrap();
        assert!(carrier.settle(PATIENCE));
    }
    let collect_at = |minute: i64| {
        node.date.0.store(minute * MINUTE, Ordering::SeqCst);
        for _ in 0..2 {
            carrier.collect().unwrap().unwrap();
            node.ticks.pass(Duration::from_secs(301));
        }
        node.driver.chain.edge(&tenant()).unwrap()
    };
    // With an hour of retention, all full records but the newest are below the watermark.
    let first = collect_at(31);
    assert!(first.turn == 0 && first.kept[0].at < 10 * MINUTE, "{first:?}");
    let before = memory.names("t/local/chain/").len();
    // Without a write since, the boundary stays.
    let second = collect_at(75);
    assert_eq!(second.place(), (first.boundary, 1));
    assert!(!second.kept.is_empty() && second.kept[0].at >= 15 * MINUTE, "{second:?}");
    assert_eq!(collect_at(76), second);
    let third = collect_at(500);
    assert_eq!((third.place(), third.kept), ((first.boundary, 2), Vec::new()));
    assert!(memory.names("t/local/chain/").len() < before);
    assert!(memory.names("t/local/edge/").len() <= 3);
    assert_eq!(texts(&node.copy(&folder.path().join("copy"))), some(0, 16));
}

/// Creates a store of one large segment in a folder. Returns the number of parts of the segment.
fn large_segment(home: &Path) -> usize {
    let store = Store::open(Env::on_disk(home).unwrap(), Options::default()).unwrap();
    for number in 0..70 {
        let texts = [0, 1].map(|half| format!("{number} {half} {}", "x".repeat(700 << 10)));
        let mut batch = batch(&texts);
        batch.items.iter_mut().for_each(|item| item.reference = None);
        store.write(batch).unwrap();
    }
    store.seal().unwrap();
    store.compact_fully(&NoThrottle).unwrap();
    let files = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap());
    let lengths = files.map(|entry| entry.metadata().unwrap().len());
    usize::try_from(lengths.max().unwrap().div_ceil(PART_BYTES)).unwrap()
}

/// Number of parts of the file with the most parts.
fn of_the_largest(put: &[String]) -> usize {
    let mut counts = std::collections::BTreeMap::new();
    for name in put {
        *counts.entry(name.split_once('.').unwrap().0).or_default() += 1;
    }
    counts.into_values().max().unwrap_or_default()
}

#[test]
fn a_large_file_goes_on_after_a_restart_unless_somebody_came_between() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let home = folder.path().join("one");
    let parts = large_segment(&home);
    assert!(parts > 5, "{parts}");
    let when = CarryWhen::Acknowledging;
    let cut_short = |room| {
        memory.takes(Some(room));
        let (carrier, store) = node.open(&home, when);
        until("it takes no more", || carrier.standing().trouble.is_some());
        drop((store, carrier));
        of_the_largest(&memory.put_since())
    };
    let first = cut_short(4);
    assert_eq!(first, 4);
    let second = cut_short(1);
    assert_eq!(second, 1);
    // Parts that another node may have removed are uploaded anew.
    Node::new("box-2", &memory).take();
    let third = cut_short(4);
    assert_eq!(third, 4, "what was there is nobody's");

    memory.takes(None);
    let (carrier, store) = node.open(&home, when);
    assert!(carrier.settle(PATIENCE));
    assert_eq!(of_the_largest(&memory.put_since()), parts - third);
    let is_sound = || {
        let checked = recalld_replication::verify(&node.driver, &tenant(), Look::Bytes).unwrap();
        assert!(checked.findings.is_empty(), "{:?}", checked.findings);
    };
    is_sound();
    node.ticks.pass(Duration::from_secs(301));
    let collected = carrier.collect().unwrap().unwrap();
    assert!(collected.objects >= first + second, "{collected:?}");
    is_sound();
    drop(store);
}
