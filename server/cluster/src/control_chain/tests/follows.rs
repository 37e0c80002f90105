//! Leader under load and over a slow remote, and its followers.

use std::sync::Arc;
use std::time::Duration;

use recalld_replication::{Key, Record};

use super::{Bench, Machine, make, until};
use crate::control_chain::leading;
use crate::control_chain::shared::LOOKS_WAITING_MAX;
use crate::control_chain::shared::Patience;
use crate::control_chain::shared::{CaughtUp, ControlStands};
use recalld_auth::Prefix;
use recalld_metastore::{Block, Kind, NewCredential, Operation, Settlement};

const MONTH: &str = "2026-11";

#[test]
fn a_change_waits_for_the_remote_for_a_while_and_reads_do_not() {
    let bench = Bench::new();
    let short = Patience { carry: Duration::from_millis(50), ..Patience::MOST };
    let mut a = bench.start_with("a", "a", short);
    a.turn().unwrap();
    make(&a.control, "acme").unwrap();
    let new = NewCredential { kind: Kind::Bearer, name: None, scopes: &[], expires_at: None };
    let key = a.control.issue_credential("acme", &new, &Prefix::default()).unwrap();
    // The node is the leader for longer than `stale_max`.
    a.hours.pass(Duration::from_secs(120));
    until("it goes on", || {
        a.turn().unwrap();
        a.stands() == ControlStands::Leads
    });
    let find = || a.control.find_credential(key.secret.expose().as_bytes(), &[Kind::Bearer]);
    a.wire.cut();
    let (control, wire) = (Arc::clone(&a.control), Arc::clone(&a.wire));
    let changing = std::thread::spawn(move || make(&control, "next"));
    until("it is on its way", || wire.waiting() > 0);
    assert_eq!(find().unwrap().1.slug, "acme", "while a change is on its way");
    let why = changing.join().unwrap().unwrap_err().to_string();
    assert!(why.contains("done or not"), "{why}");
    assert_ne!(a.stands(), ControlStands::Leads);
    assert_eq!(
        find().unwrap().1.slug,
        "acme",
        "all that was here a moment ago is no older than that"
    );
    assert!(make(&a.control, "third").is_err());
    a.wire.mend();
    until("what became of it is looked for", || {
        a.turn().unwrap();
        a.stands() == ControlStands::Leads
    });
    assert_eq!(a.slugs(), ["acme", "next"], "it stood, and comes back");
    make(&a.control, "third").unwrap();
    let mut b = bench.start("b", "b");
    b.turn().unwrap();
    assert_eq!(b.digest(), a.digest());
}

#[test]
fn a_full_record_comes_about_while_much_is_changed() {
    let bench = Bench::new();
    let mut a = bench.start("a", "a");
    a.turn().unwrap();
    make(&a.control, "acme").unwrap();
    let take = |id| a.control.take_block("acme", MONTH, id, 8, None).unwrap().unwrap();
    let blocks: Vec<_> = (0..100).map(take).collect();
    let control = Arc::clone(&a.control);
    let mut rounds = 0;
    a.wire.after_each_put(move |key| {
        // During the upload of tables: each round writes all blocks, more than fits into a record.
        if matches!(key, Key::Data(..)) && rounds < 4 {
            rounds += 1;
            let used = |block: &Block| Settlement {
                tenant: "acme",
                month: MONTH,
                block: block.id,
                used: rounds,
                keep: true,
            };
            control.settle(&blocks.iter().map(used).collect::<Vec<_>>()).unwrap();
            control.settle(&blocks.iter().map(used).collect::<Vec<_>>()).unwrap();
        }
        Ok(())
    });
    leading::make_full(&a.reader.shared, &a.control).unwrap();
    let newest = bench.kinds().len() as u64;
    let bytes = std::fs::read(bench.objects("chain").join(format!("{newest:020}"))).unwrap();
    let recalld_replication::Kind::Full(full) = Record::decode(&bytes).unwrap().0.kind else {
        panic!()
    };
    assert!(!full.logs[0].folds.is_empty());
    let mut b = bench.start("b", "b");
    b.turn().unwrap();
    assert_eq!(b.digest(), a.digest());
    make(&a.control, "last").unwrap();
    b.turn().unwrap();
    assert_eq!(b.digest(), a.digest());
}

#[test]
fn what_differs_is_told_and_fetched_anew() {
    let bench = Bench::new();
    let (a, b) = bench.two();
    drop(b);
    // Another program wrote to the file of `b`.
    make(&bench.control("b"), "stranger").unwrap();
    let mut b = bench.start("b", "b");
    make(&a.control, "next").unwrap();
    b.turn().unwrap();
    assert_eq!((b.slugs(), b.digest()), (a.slugs(), a.digest()), "at the start it is seen");
    // While the node runs, the difference shows once a change touches the row.
    write_past(&b, "acme");
    a.control.set_title("next", "Next").unwrap();
    b.turn().unwrap();
    a.control.set_title("acme", "Acme").unwrap();
    let why = b.turn().unwrap_err();
    assert!(why.contains("is not what its writer has"), "{why}");
    b.turn().unwrap();
    assert_eq!(b.digest(), a.digest());
}

/// Changes a tenant's row in a node's file behind the back of its replication.
fn write_past(node: &Machine, slug: &str) {
    let place = node.control.place().unwrap().unwrap();
    let mut changed = None;
    let rows = &mut |table: &'static str, key: &[u8], value: &[u8]| {
        if table == "tenants" && key == slug.as_bytes() {
            changed = Some(Operation { table, key: key.to_vec(), value: Some(value.to_vec()) });
        }
        Ok(())
    };
    node.control.copy_state(&mut || Ok(()), rows).unwrap();
    let Operation { table, key, .. } = changed.unwrap();
    node.control.apply(&[Operation { table, key, value: None }], |_| Ok(place)).unwrap();
}

#[test]
fn a_writer_whose_file_is_another_one_gives_the_chain_back_and_begins_anew() {
    let bench = Bench::new();
    let mut a = bench.start("a", "a");
    a.turn().unwrap();
    for slug in ["acme", "next"] {
        make(&a.control, slug).unwrap();
    }
    let (slugs, digest) = (a.slugs(), a.digest());
    write_past(&a, "acme");
    // An expired lease makes a full record due.
    a.hours.pass(Duration::from_secs(60));
    until("it is heard again", || a.node.is_held());
    let why = a.turn().unwrap_err();
    assert!(why.contains("not those that were carried"), "{why}");
    assert_eq!(bench.kinds().last(), Some(&"give"));
    a.turn().unwrap();
    assert_eq!((a.slugs(), a.digest()), (slugs, digest));
}

#[test]
fn old_records_of_the_chain_and_their_objects_go() {
    let bench = Bench::new();
    let mut a = bench.start("a", "a");
    a.turn().unwrap();
    let mut collector = leading::collector(&a.reader.shared).unwrap();
    for round in 0..3 {
        make(&a.control, &format!("tenant-{round}")).unwrap();
        leading::make_full(&a.reader.shared, &a.control).unwrap();
    }
    let count = |kind| std::fs::read_dir(bench.objects(kind)).unwrap().count();
    assert_eq!((count("chain"), count("data")), (8, 4));
    leading::collect(&a.reader.shared, &mut collector).unwrap();
    // A current reader has an hour, by the time in the records; records known for longer are then removed.
    a.hours.pass(Duration::from_secs(3601));
    until("it is heard again", || a.node.is_held());
    leading::collect(&a.reader.shared, &mut collector).unwrap();
    assert!(count("chain") < 8, "{}", count("chain"));
    let mut b = bench.start("b", "b");
    b.turn().unwrap();
    assert_eq!(b.digest(), a.digest());
}

#[test]
fn it_is_told_who_writes_and_since_when_there_is_no_word() {
    let bench = Bench::new();
    let mut a = bench.start("a", "a");
    a.turn().unwrap();
    let mut b = bench.start("b", "b");
    let told = |node: &Machine| node.reader.shared.told();
    assert!(told(&b).unwrap_err().contains("no word of it since the start"), "{:?}", told(&b));
    b.turn().unwrap();
    assert!(told(&a).unwrap().contains("this node writes it, record 2"), "{:?}", told(&a));
    assert!(told(&b).unwrap().contains("node a writes it; all of 0 s ago"), "{:?}", told(&b));
    b.hours.pass(Duration::from_secs(61));
    assert!(told(&b).unwrap_err().contains("no word of it for 61 s, record 2"), "{:?}", told(&b));
}

#[test]
fn more_than_a_few_do_not_wait_for_a_look() {
    let bench = Bench::new();
    let (_a, mut b) = bench.two();
    let shared = Arc::clone(&b.reader.shared);
    shared.known().waiting = LOOKS_WAITING_MAX;
    assert_eq!(shared.catch_up(), CaughtUp::Unknown);
    assert!(!shared.known().is_wanted, "nobody waits for what it asks");
    shared.known().waiting -= 1;
    let last = std::thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.catch_up()
    });
    until("the last that may wait does", || shared.known().waiting == LOOKS_WAITING_MAX);
    until("it waits no more", || {
        b.turn().unwrap();
        last.is_finished()
    });
    last.join().unwrap();
    assert_eq!(shared.known().waiting, LOOKS_WAITING_MAX - 1);
}
