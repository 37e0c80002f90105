//! A leader and two replicas over one folder, through the real program: erasure, the nodes that an erasure waits for,
//! and garbage collection. The proof that nothing is left once an erasure is complete everywhere is in
//! `server/replication/tests/it/stores`, where time is simulated.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use support_wire::kept::{assert_fails, assert_gone, holding, imported, item};
use support_wire::patience::wait_until;
use support_wire::service::{Service, binary, run, run_json, scratch};

const PHRASE: &str = "quincunx zephyrine";

/// Runs a command of the program that has no data directory.
fn remote(arguments: &[&str]) -> Output {
    Command::new(binary()).arg("remote").args(arguments).output().unwrap()
}

fn printed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Returns the progress of the last erasure of the only workspace.
fn erased(address: &str) -> Value {
    printed(&remote(&["status", address, "--json"]))["workspaces"][0]["erased"].clone()
}

fn replica(data: &Path, bucket: &Path, node: &str) -> Service {
    let address = &format!("file://{}", bucket.display());
    let service = Service::start(data, &["--replica-of", address, "--set", &named(node)]);
    wait_until("the replica has it", || !holding(data, PHRASE).is_empty());
    let holds = bucket.join("node").join(node).join("holds");
    wait_until("it says so", || std::fs::read(&holds).is_ok_and(|said| contains(&said, "local")));
    service
}

fn contains(bytes: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(text)
}

fn named(node: &str) -> String {
    format!("remote.node={node}")
}

#[test]
fn an_erasure_waits_by_name_for_each_node_that_has_it() {
    let scratch = scratch();
    let [one, two, three, bucket] =
        ["one", "two", "three", "bucket"].map(|name| scratch.path().join(name));
    std::fs::create_dir(&bucket).unwrap();
    let address = format!("file://{}", bucket.display());
    let lines = [item("secret", &format!("the {PHRASE} is here")), item("other", "it abides")];
    let id = imported(&one, &lines)("secret");
    let writer = Service::start(&one, &["--remote", &address, "--set", &named("box-1")]);
    let second = replica(&two, &bucket, "box-2");
    let third = replica(&three, &bucket, "box-3");
    for folder in [&one, &two, &three, &bucket] {
        assert!(!holding(folder, PHRASE).is_empty(), "{}", folder.display());
    }
    // The third node stops before the erasure.
    third.kill();

    let asked = ["erase", &id, "--reason", "asked for", "--yes", "--json"];
    let report = run(&one, &asked);
    assert_fails(&report, 1, &["not gone everywhere yet", "the remote", "forget-node"]);
    let report = printed(&report);
    assert_eq!((&report["pending"], &report["everywhere"]), (&json!(0), &json!(false)));
    assert_eq!(report["remote"]["state"], "collecting", "{report}");
    let record = report["remote"]["record"].as_u64().unwrap();
    wait_until("the second says that it has lost it", || {
        erased(&address)["behind"] == json!(["box-3"])
    });
    assert_eq!(erased(&address)["record"], record);
    for folder in [&one, &two] {
        assert_gone(folder, PHRASE);
    }
    assert!(!holding(&three, PHRASE).is_empty());
    let is_there = remote(&["verify", &address, "--erased", &id, "--phrase", PHRASE]);
    assert_fails(&is_there, 1, &["is still in"]);

    // The third node restarts, and erases before it serves.
    let third = replica_again(&three, &address);
    assert_gone(&three, PHRASE);
    wait_until("the third says so", || erased(&address)["behind"] == json!([]));
    let status = remote(&["status", &address]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("its history is still there"), "{status}");
    drop((second, third, writer));
}

#[test]
fn an_erasure_that_ended_before_is_proven_of_the_remote() {
    let scratch = scratch();
    let [one, bucket] = ["one", "bucket"].map(|name| scratch.path().join(name));
    std::fs::create_dir(&bucket).unwrap();
    let address = format!("file://{}", bucket.display());
    let lines = [item("secret", &format!("the {PHRASE} is here")), item("other", "it abides")];
    let ids = imported(&one, &lines);
    let erased = run(&one, &["erase", &ids("secret"), "--reason", "asked for", "--yes"]);
    assert_eq!(erased.status.code(), Some(0), "{erased:?}");
    let writer = Service::start(&one, &["--remote", &address, "--set", &named("box-1")]);
    let proof = |id: &str| remote(&["verify", &address, "--erased", id, "--phrase", PHRASE]);
    wait_until("it is carried", || !holding(&bucket, "it abides").is_empty());
    let proven = proof(&ids("secret"));
    assert_eq!(proven.status.code(), Some(0), "{proven:?}");
    // Its tombstone has been replicated: an object of this id can only be the item itself.
    assert_fails(&proof(&ids("other")), 1, &["is still in", "nothing says that it was erased"]);
    let unknown = remote(&["verify", &address, "--erased", "itm_01m8c35d29fja6jxnpxt5k4f28"]);
    assert_fails(&unknown, 1, &["says that itm_01m8c35d29fja6jxnpxt5k4f28 was ever erased"]);
    drop(writer);
}

fn replica_again(data: &Path, address: &str) -> Service {
    Service::start(data, &["--replica-of", address, "--set", &named("box-3")])
}

#[test]
fn what_no_longer_counts_is_collected_by_whoever_has_the_workspace() {
    let scratch = scratch();
    let [one, bucket] = ["one", "bucket"].map(|name| scratch.path().join(name));
    std::fs::create_dir(&bucket).unwrap();
    let address = format!("file://{}", bucket.display());
    let _ids = imported(&one, &[item("first", "it abides")]);
    let lease = "remote.lease_seconds=5";
    let writer =
        Service::start(&one, &["--remote", &address, "--set", &named("box-1"), "--set", lease]);
    // The workspace is replicated once the first record exists.
    wait_until("it is carried", || {
        remote(&["status", &address, "--json"]).stdout.starts_with(b"{")
            && printed(&remote(&["status", &address, "--json"]))["workspaces"] != json!([])
    });
    let report = run_json(&one, &["remote", "gc"]);
    assert_eq!(report["workspaces"][0]["workspace"], "local", "{report}");
    assert_eq!(report["workspaces"][0]["records"], 0);
    // The leader's heartbeat is fresh, so the collection is refused and names the leader.
    let held = remote(&["gc", &address]);
    assert_fails(&held, 1, &["1 workspace not collected"]);
    let said = String::from_utf8(held.stdout.clone()).unwrap();
    assert!(
        said.contains("node box-1 writes it: run `recalld remote gc --data DIR` there"),
        "{said}"
    );
    assert!(writer.terminate().success());

    // A released workspace has no leader, and gets none by the collection.
    let report = printed(&remote(&["gc", &address, "--json"]));
    assert_eq!(report["workspaces"][0]["why"], Value::Null, "{report}");
    let status = String::from_utf8(remote(&["status", &address]).stdout).unwrap();
    assert!(status.contains("given away by node gc-"), "{status}");
    let again = Service::start(&one, &["--remote", &address, "--set", &named("box-1")]);
    assert_eq!(run_json(&one, &["recall", "what abides?"])["items"][0]["title"], "About first");
    drop(again);

    let forgotten = remote(&["forget-node", &address, "box-1"]);
    assert_eq!(forgotten.status.code(), Some(0), "{forgotten:?}");
    let unknown = remote(&["forget-node", &address, "box-9"]);
    assert_fails(&unknown, 1, &["no node box-9"]);
}
