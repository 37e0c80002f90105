//! Tests of the clients against a real store: `clients suite|probe|hang STORE [COORDINATOR]`, for
//! `tests/campaigns/remote/clients.sh`. Endpoint and credentials come from the environment.
//!
//! `suite` is the suite of the tests. `probe` is the probe of a start; its exit code is 3 if the storage must not be
//! written to. `hang` needs a storage that accepts connections and does not respond, and measures the timeouts.
#![expect(clippy::unwrap_used, reason = "a campaign fails by panicking")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use engine::os::clock::SystemRandom;
use recalld_replication::limits::{ANSWER_WAIT, CONNECT_WAIT, TRIES_MAX};
use recalld_replication::{
    Address, Beat, Coordinator, Counts, Key, NodeId, Nonce, Op, Place, Reached, Tenant, Tried,
    reach,
};

#[path = "../tests/it/clients/suite.rs"]
mod suite;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, place) = match arguments.as_slice() {
        [what, store] => (what, place(store, None)),
        [what, store, coordinator] => (what, place(store, Some(coordinator))),
        _ => {
            eprintln!("usage: clients suite|probe|hang STORE [COORDINATOR]");
            return ExitCode::from(2);
        }
    };
    let environment = |name: &str| std::env::var(name).ok();
    let open = || reach(&place, &environment).unwrap();
    match what.as_str() {
        "suite" => pass_the_suite(&open),
        "probe" => return probe(&open()),
        "hang" => hang(&open()),
        other => panic!("{other:?} is neither suite, probe nor hang"),
    }
    ExitCode::SUCCESS
}

fn place(store: &str, coordinator: Option<&String>) -> Place {
    Place {
        objects: Address::parse(store).unwrap(),
        coordinator: coordinator.map(|text| Coordinator::parse(text).unwrap()),
        s3: recalld_replication::S3Settings::default(),
        coordinator_ca_file: None,
    }
}

fn pass_the_suite(opened: &dyn Fn() -> Reached) {
    let (one, other) = (opened(), opened());
    let began = Instant::now();
    suite::chain(one.chain.as_ref(), other.chain.as_ref());
    println!("chains pass, in {:?}", began.elapsed());
    if one.chain.guards_edge() {
        let listed = one.objects.list("t/", None, 100_000).unwrap();
        let bodies = listed.iter().filter(|about| matches!(about.key, Key::Body(..)));
        assert_eq!(bodies.count(), 0, "long records are removed with what names them");
        guard(opened);
    } else {
        suite::objects(&one.objects);
        println!("objects pass, in {:?}", began.elapsed());
    }
    create_alone(&one);
    tell("objects", &one.counts);
    tell("coordinator", &one.coordinator_counts);
}

/// Checks that a coordinator rejects commits of a node that has no lease, or whose lease another process of its name
/// has.
fn guard(opened: &dyn Fn() -> Reached) {
    let (one, other) = (opened(), opened());
    let tenant = Tenant::new(format!("suite-{}", Nonce::drawn(&SystemRandom))).unwrap();
    let node = NodeId::new(format!("n{}", Nonce::drawn(&SystemRandom))).unwrap();
    let beat = |count| Beat {
        node: node.clone(),
        run: Nonce::drawn(&SystemRandom),
        count,
        url: String::new(),
        lease_s: 5,
    };
    let create = |reached: &Reached, number| reached.chain.create(&tenant, number, b"{");
    assert!(matches!(create(&one, 1), Tried::Refused(_)));
    one.chain.beat(&beat(1)).unwrap();
    assert_eq!(create(&one, 1), Tried::Made);
    other.chain.beat(&beat(2)).unwrap();
    assert!(matches!(create(&one, 2), Tried::Refused(_)));
    assert_eq!(one.chain.read(&tenant, 2).unwrap(), None);
    assert!(one.chain.beat(&beat(3)).is_err());
    assert_eq!(create(&other, 2), Tried::Made);
    println!("a node without a lease of its own commits nothing");
    other.chain.remove(&tenant, &[1, 2]).unwrap();
}

/// Measures a conditional create without contention.
fn create_alone(reached: &Reached) {
    let tenant = Tenant::new(format!("alone-{}", Nonce::drawn(&SystemRandom))).unwrap();
    let bytes = vec![b'{'; 2000];
    let mut took: Vec<Duration> = (1..=100)
        .map(|number| {
            let began = Instant::now();
            assert_eq!(reached.chain.create(&tenant, number, &bytes), Tried::Made);
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    println!("100 records of 2 kB, one by one: p50 {:?}, p99 {:?}", took[49], took[98]);
    let numbers: Vec<u64> = (1..=100).collect();
    reached.chain.remove(&tenant, &numbers).unwrap();
}

fn tell(what: &str, counts: &Counts) {
    let told: Vec<String> = counts
        .requests()
        .into_iter()
        .filter(|(_, _, count)| *count > 0)
        .map(|(op, outcome, count)| format!("{op} {outcome} {count}"))
        .collect();
    if !told.is_empty() {
        println!("requests to {what}: {}", told.join(", "));
    }
}

fn probe(reached: &Reached) -> ExitCode {
    let began = Instant::now();
    let tried = reached.probe();
    println!("tried for {:?}", began.elapsed());
    tell("objects", &reached.counts);
    tell("coordinator", &reached.coordinator_counts);
    match tried {
        Ok(()) => {
            println!("it keeps its word");
            ExitCode::SUCCESS
        }
        Err(unfit) => {
            println!("{unfit}");
            ExitCode::from(3)
        }
    }
}

fn hang(reached: &Reached) {
    let key = Key::Probe(Nonce::drawn(&SystemRandom), 0);
    let began = Instant::now();
    let tried = reached.objects.put_new(&key, b"x");
    let took = began.elapsed();
    assert!(matches!(tried, Tried::Unsure(_)), "{tried:?}");
    assert_eq!(reached.counts.of(Op::Create), 1);
    assert!(took <= CONNECT_WAIT + ANSWER_WAIT + Duration::from_secs(5), "{took:?}");
    println!("a creation that is not answered: {took:?}, {tried:?}");
    let began = Instant::now();
    let away = reached.objects.get(&key, None, 1).unwrap_err();
    let (took, tries) = (began.elapsed(), reached.counts.of(Op::Get));
    assert!(away.may_pass && tries <= u64::from(TRIES_MAX), "{away:?}");
    println!("a read that is not answered: {took:?} for {tries} requests, {away}");
}
