//! The store on a simulated disk: power cuts, faults and corrupt bytes that a seed decides.
//!
//! `cargo run -p support-engine --example simulate` runs the same simulation for any length of time, and
//! `tests/mutations.sh` shows that the simulation detects faults of an engine.

use std::collections::BTreeSet;

use engine::os::disk::Disk;
use support_engine::ground::{self, Dice};
use support_engine::sim::disk::{Fault, SimDisk};
use support_engine::sim::state::{Cut, DiskState, FileSystem, SECTOR_BYTES};
use support_engine::sim::workload::Workload;
use support_engine::sim::{Scenario, Tally};

/// Seeds of every run.
const FIXED_SEEDS: [u64; 3] = [2, 7, 40];
/// New random seeds of each run.
const FRESH_SEEDS: usize = 2;
/// States drawn from one disk, enough to meet each kind.
const FAULT_DRAWS: usize = 2_000;

fn seeds() -> Vec<u64> {
    if std::env::var_os("RECALLD_TEST_SEED").is_some() {
        return vec![ground::fresh_seed()];
    }
    let fresh = (0..FRESH_SEEDS).map(|_| ground::fresh_seed());
    FIXED_SEEDS.into_iter().chain(fresh).collect()
}

fn run(scenario: Scenario) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds() {
        println!("RECALLD_TEST_SEED={seed}");
        if let Err(failure) = scenario.run(seed, &mut tally) {
            panic!("{failure}");
        }
    }
    println!("{tally}");
    tally
}

#[test]
fn power_cut_at_any_operation_loses_no_acknowledged_commit() {
    let tally = run(Scenario::PowerCuts);
    assert!(tally.crash_states > tally.crash_points, "{tally}");
    assert!(tally.crash_points > tally.operations / 2, "{tally}");
}

#[test]
fn failing_disk_operation_loses_no_acknowledged_commit() {
    let tally = run(Scenario::Faults);
    assert!(tally.crash_points > 0, "{tally}");
}

#[test]
fn corrupted_bytes_are_never_returned() {
    let tally = run(Scenario::Spoilt);
    assert!(tally.spoilt > 0, "{tally}");
}

#[test]
fn simulated_workloads_cover_every_operation() {
    let mut sums = [0; 6];
    let (mut refs, mut hidden_edges, mut stones) = (0, 0, 0);
    let mut tally = Tally::default();
    for seed in 1..=32 {
        let run = Workload::run(Scenario::PowerCuts, seed, &mut tally);
        let newest = run.expect("the disk works").newest();
        for (sum, count) in sums.iter_mut().zip(newest.shown.counts) {
            *sum += count;
        }
        refs += newest.shown.refs.len();
        let edges = newest.oracle.edges();
        hidden_edges +=
            edges.filter(|it| !newest.shown.edges.contains_key(&it.id.unwrap())).count();
        stones += newest.shown.tombstones.len();
    }
    assert!(sums.iter().all(|&sum| sum > 8), "{sums:?}");
    let Tally { compactions, erasures, moves, interleaved, copies, .. } = tally;
    let done = [compactions, erasures, moves, interleaved, copies];
    assert!(done.iter().all(|&count| count > 1), "{tally}");
    assert!(refs > 8 && hidden_edges > 2 && stones > 8, "{refs}, {hidden_edges}, {stones}");
}

/// Writes a file twice, with the first write synced, and returns all states that power cuts leave.
fn power_cuts_after_two_writes(
    file_system: FileSystem,
    garbage: bool,
) -> BTreeSet<Option<Vec<u8>>> {
    let disk = SimDisk::on(DiskState::default());
    let file = disk.create("log").expect("the disk works");
    file.append(&[1; 100]).expect("the disk works");
    file.sync().expect("the disk works");
    disk.sync_names().expect("the disk works");
    file.append(&[2; 2 * SECTOR_BYTES]).expect("the disk works");
    let mut dice = Dice::new(5);
    let cut = Cut { file_system, garbage };
    let mut cut = || disk.state().after_cut(cut, &mut dice).bytes("log").map(<[u8]>::to_vec);
    (0..FAULT_DRAWS).map(|_| cut()).collect()
}

#[test]
fn simulated_disk_keeps_synced_bytes_and_may_tear_others() {
    for file_system in FileSystem::ALL {
        for garbage in [false, true] {
            let cuts = power_cuts_after_two_writes(file_system, garbage);
            for left in &cuts {
                let left = left.as_ref().expect("its name was synced");
                assert_eq!(left[..100], [1; 100], "{file_system:?}");
            }
            // All of the second write, none of it, and each of its three sectors alone.
            let whole = [vec![1; 100], vec![2; 2 * SECTOR_BYTES]].concat();
            assert!(cuts.contains(&Some(whole)), "{file_system:?}");
            assert!(cuts.contains(&Some(vec![1; 100])), "{file_system:?}");
            let is_last = |left: &&Option<Vec<u8>>| {
                left.as_ref().is_some_and(|left| left.len() > 2 * SECTOR_BYTES && left[100] != 2)
            };
            let has_hole = cuts.iter().any(|left| is_last(&left));
            assert_eq!(has_hole, file_system != FileSystem::Ext4Ordered, "{file_system:?}");
        }
    }
}

#[test]
fn simulated_journal_preserves_rename_order() {
    for file_system in FileSystem::ALL {
        let disk = SimDisk::on(DiskState::default());
        for name in ["a", "b.new"] {
            disk.create(name).expect("the disk works").sync().expect("the disk works");
        }
        disk.sync_names().expect("the disk works");
        disk.rename("b.new", "b").expect("the disk works");
        disk.remove("a").expect("the disk works");
        let mut dice = Dice::new(6);
        let cut = Cut { file_system, garbage: false };
        let cuts = (0..FAULT_DRAWS).map(|_| {
            let left = disk.state().after_cut(cut, &mut dice);
            left.names().collect::<Vec<_>>().join(" ")
        });
        let found: BTreeSet<String> = cuts.collect();
        let mut wanted = vec!["a b", "a b.new", "b"];
        if file_system == FileSystem::Posix {
            wanted.push("b.new");
        }
        assert_eq!(found, wanted.into_iter().map(str::to_owned).collect(), "{file_system:?}");
    }
}

#[test]
fn simulated_lying_sync_loses_readable_bytes() {
    let mut lost = 0;
    for seed in 0..32 {
        let fault = Some((0, Fault::SyncForgets));
        let disk = SimDisk::failing(DiskState::default(), fault, seed);
        let file = disk.create("log").expect("it is no sync");
        file.append(b"gone").expect("it is no sync");
        file.sync().expect_err("the first sync fails");
        file.sync().expect("the second one says that all is well");
        disk.sync_names().expect("the disk works");
        assert_eq!(disk.state().bytes("log"), Some(&b"gone"[..]));
        let cut = Cut { file_system: FileSystem::Ext4Ordered, garbage: false };
        let left = disk.state().after_cut(cut, &mut Dice::new(seed));
        lost += usize::from(left.bytes("log") == Some(&b""[..]));
    }
    assert!((8..32).contains(&lost), "lost {lost} times of 32");
}
