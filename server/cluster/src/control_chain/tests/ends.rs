//! Crashes and failures at each point of an epoch: the next start recovers, and no other node waits.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use recalld_replication::Key;

use super::{Bench, Machine, make, until};
use crate::control_chain::chain::ControlChain;
use crate::control_chain::shared::ControlStands;
use crate::control_chain::shared::Patience;

/// Crashes a node right after its record `number` is stored, before the node receives the response.
fn stop_after(node: &mut Machine, number: u64) {
    node.wire.after_each_put(move |key| {
        assert!(!matches!(key, Key::Chain(_, at) if *at == number), "it stops here");
        Ok(())
    });
    let stopped = catch_unwind(AssertUnwindSafe(|| node.turn()));
    assert!(stopped.is_err(), "{stopped:?}");
}

#[test]
fn a_founder_that_stops_before_anything_is_there_begins_the_chain_when_it_is_back() {
    // Crash after the acquisition record, and after the first full record.
    for (number, kinds) in [(1, vec!["take"]), (2, vec!["take", "full"])] {
        let bench = Bench::new();
        make(&bench.control("a"), "acme").unwrap();
        let mut first = bench.start("a", "a");
        stop_after(&mut first, number);
        assert_eq!(bench.kinds(), kinds);
        drop(first);
        // A machine with the first one's node name, so that no lease has to expire first.
        let mut other = bench.start("a", "other");
        other.turn().unwrap();
        if number == 1 {
            assert_ne!(other.stands(), ControlStands::Leads, "it would begin without its tenants");
            let said = other.reader.awaited().unwrap();
            assert!(said.contains("node a began the control store"), "{said}");
        } else {
            assert_eq!(other.slugs(), ["acme"]);
            let shared = Arc::clone(&other.reader.shared);
            crate::control_chain::taking::give_away(&shared);
        }
        let mut again = bench.start("a", "a");
        again.turn().unwrap();
        assert_eq!(again.stands(), ControlStands::Leads);
        assert_eq!(again.slugs(), ["acme"]);
        make(&again.control, "next").unwrap();
        other.turn().unwrap();
        assert_eq!((other.slugs(), other.reader.awaited()), (again.slugs(), None));
        assert_eq!(other.digest(), again.digest());
    }
}

#[test]
fn a_chain_that_is_removed_is_begun_anew_by_a_node_that_notes_none() {
    let bench = Bench::new();
    let remove = || fs::remove_dir_all(bench.objects("chain").parent().unwrap()).unwrap();
    let mut founder = bench.start("a", "lost");
    stop_after(&mut founder, 1);
    drop(founder);
    let mut waits = bench.start("a", "a");
    waits.turn().unwrap();
    assert_ne!(waits.stands(), ControlStands::Leads);
    drop(waits);
    // The founder is lost for good.
    remove();
    let mut anew = bench.start("a", "a");
    anew.turn().unwrap();
    assert_eq!(anew.stands(), ControlStands::Leads);
    make(&anew.control, "acme").unwrap();
    drop(anew);
    // The cluster secret is lost for good. A node with a marker starts no new record log.
    remove();
    let mut noted = bench.start("a", "a");
    let turned = noted.turn();
    assert!(turned.is_err() && noted.stands() != ControlStands::Leads, "{turned:?}");
    drop(noted);
    fs::remove_file(bench.data("a").join("control.json")).unwrap();
    let mut anew = bench.start("a", "a");
    anew.turn().unwrap();
    assert_eq!((anew.stands(), anew.slugs()), (ControlStands::Leads, vec!["acme".to_owned()]));
    let mut other = bench.start("b", "b");
    other.turn().unwrap();
    assert_eq!(other.digest(), anew.digest());
}

#[test]
fn whoever_was_to_begin_a_chain_and_came_late_has_its_tenants_for_its_own() {
    let bench = Bench::new();
    make(&bench.control("late"), "mine").unwrap();
    let mut late = bench.start("late", "late");
    let mut first = bench.start("first", "first");
    // The other node writes its record between the late node's marker and the late node's record.
    late.reader.note(recalld_replication::Hex([3; 16])).unwrap();
    first.turn().unwrap();
    let why = late.turn().unwrap_err();
    assert!(why.contains("1 tenants of its own"), "{why}");
    assert!(late.reader.is_final() && !bench.data("late").join("control.json").exists());
}

#[test]
fn an_epoch_that_cannot_be_used_is_given_back_and_another_node_has_it_at_once() {
    let bench = Bench::new();
    let (mut a, mut b) = bench.two();
    crate::control_chain::taking::give_away(&a.reader.shared);
    assert_eq!(bench.kinds().last(), Some(&"give"));
    // The file of `b` vanishes at the moment at which `b` acquires the record log.
    let (file, away) = (bench.data("b").join("control.redb"), bench.data("b").join("away"));
    let (from, to) = (file.clone(), away.clone());
    let takes = u64::try_from(bench.kinds().len()).unwrap() + 1;
    b.wire.after_each_put(move |key| {
        if matches!(key, Key::Chain(_, at) if *at == takes) {
            fs::rename(&from, &to).unwrap();
        }
        Ok(())
    });
    let why = b.turn().unwrap_err();
    assert!(why.contains("control.redb"), "{why}");
    assert_eq!(bench.kinds().split_off(bench.kinds().len() - 3), ["give", "take", "give"]);
    assert!(b.reader.shared.lead().is_none() && b.stands() != ControlStands::Leads);
    fs::rename(&away, &file).unwrap();
    a.turn().unwrap();
    assert_eq!(a.stands(), ControlStands::Leads, "nobody waits for a lease");
    make(&a.control, "next").unwrap();
    until("b reads its file again", || b.turn().is_ok());
    assert_eq!(b.digest(), a.digest());
}

#[test]
fn a_founder_that_cannot_bring_its_tables_begins_once_it_can() {
    let bench = Bench::new();
    make(&bench.control("a"), "acme").unwrap();
    let mut a = bench.start("a", "a");
    // A file occupies the path of the directory for tables.
    fs::write(bench.data("a").join("control.far"), "").unwrap();
    assert!(a.turn().is_err());
    assert_eq!(bench.kinds(), ["take", "give"]);
    fs::remove_file(bench.data("a").join("control.far")).unwrap();
    drop(a);
    let mut a = bench.start("a", "a");
    a.turn().unwrap();
    assert_eq!((a.stands(), a.slugs()), (ControlStands::Leads, vec!["acme".to_owned()]));
}

#[test]
fn an_end_does_not_wait_for_a_remote_that_does_not_answer() {
    let bench = Bench::new();
    let short = Patience { end: Duration::from_millis(50), ..Patience::MOST };
    let a = bench.start_with("a", "a", short);
    let (wire, control, node) = (Arc::clone(&a.wire), a.control, a.node);
    let chain = ControlChain::begin(a.reader).unwrap();
    until("it leads", || chain.stands() == ControlStands::Leads);
    make(&control, "acme").unwrap();
    wire.cut();
    let changing = std::thread::spawn(move || make(&control, "next"));
    until("a change is on its way", || wire.waiting() > 0);
    chain.end();
    assert!(!changing.is_finished() && wire.waiting() > 0, "it is still");
    assert_ne!(chain.stands(), ControlStands::Leads);
    wire.mend();
    assert!(changing.join().unwrap().is_err());
    drop((chain, node));
}
