//! Tenants, their keys and quotas on several nodes: known on all nodes, changed by the leader, and by another node
//! after a failover.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::os::clock::{SystemClock, SystemRandom};
use recalld_metastore::Control;
use serde_json::{Value, json};
use support_server::house::{call, mcp};
use support_wire::patience::wait_until;
use support_wire::service::{Service, run, run_json};
use support_wire::wire::{self, Answer};

use crate::nodes::cluster::Cluster;

const RECALL: &str = "retrieval_arbitrate_tool";

/// Creates a workspace of the plan `team` and returns a key for it.
pub(crate) fn tenant(data: &Path, slug: &str) -> String {
    run_json(data, &["tenant", "create", slug, "--plan", "team"]);
    key(data, slug)["secret"].as_str().unwrap().to_owned()
}

fn key(data: &Path, slug: &str) -> Value {
    run_json(data, &["key", "issue", slug, "--kind", "bearer", "--name", "ada"])
}

/// The status of a request that opens no workspace.
fn opens(node: &Service, key: &str) -> u16 {
    wire::ask(node.hosted(), &mcp(key, "tools/list", &json!({}))).status
}

fn recall(node: &Service, key: &str) -> Answer {
    call(node, key, RECALL, &json!({"query": "harbour"}))
}

/// Returns true if the call was answered with a tool's result.
fn is_given(answer: &Answer) -> bool {
    answer.status == 200 && answer.json()["result"]["isError"] == false
}

/// Runs a command that must fail, and returns its error.
fn refused(data: &Path, arguments: &[&str]) -> String {
    let output = run(data, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_tenant_that_is_made_on_one_node_is_known_on_all_and_so_is_what_is_revoked() {
    let cluster = Cluster::new(true);
    let (a, b, c) = (cluster.writer("a"), cluster.writer("b"), cluster.replica("c"));
    let secret = tenant(a.data(), "acme");
    for node in [&a, &b, &c] {
        assert_eq!(opens(node, &secret), 200, "at once, since one that is not known is looked for");
    }
    let item = json!({"kind": "note", "title": "harbour", "text": "The harbour is in Oslo."});
    let written = call(&b, &secret, "brain_remember", &item);
    assert!(is_given(&written), "{}", written.text());
    for (name, node) in [("a", &a), ("b", &b), ("c", &c)] {
        wait_until(name, || recall(node, &secret).text().contains("Oslo"));
    }
    // Without the secret, the tenant's data on the remote is unreadable.
    let has_slug = fs::read_dir(cluster.bucket().join("t/control-/chain")).unwrap().any(|entry| {
        fs::read(entry.unwrap().path())
            .is_ok_and(|bytes| bytes.windows(4).any(|part| part == b"acme"))
    });
    assert!(!has_slug);
    let listed = run_json(b.data(), &["key", "list", "acme"]);
    let id = listed["keys"][0]["id"].as_str().unwrap().to_owned();
    run_json(a.data(), &["key", "revoke", "acme", &id]);
    assert_eq!(opens(&a, &secret), 401);
    for (name, node) in [("b", &b), ("c", &c)] {
        wait_until(name, || opens(node, &secret) == 401);
    }
}

#[test]
fn what_changes_tenants_is_done_where_they_are_written_and_the_others_say_where() {
    let cluster = Cluster::new(true);
    let (a, b) = (cluster.writer("a"), cluster.writer("b"));
    let said = refused(b.data(), &["tenant", "create", "acme"]);
    assert!(said.contains("node a") && said.contains(a.hosted()), "{said}");
    assert!(!b.data().join("tenants/acme").exists());
    tenant(a.data(), "acme");
    let listed = run_json(a.data(), &["tenant", "list"]);
    wait_until("b lists the same", || run_json(b.data(), &["tenant", "list"]) == listed);
    // A terminating server releases the lease. Without a server, no command changes the metastore that others follow.
    let data = a.data().to_owned();
    assert!(a.terminate().success());
    wait_until("b takes them over", || {
        run(b.data(), &["tenant", "create", "next"]).status.success()
    });
    let said = refused(&data, &["tenant", "create", "other"]);
    assert!(said.contains("shared with other nodes") && said.contains("control.json"), "{said}");
}

#[test]
fn when_the_writer_of_tenants_is_killed_another_node_takes_them_over() {
    let cluster = Cluster::new(true);
    let quick = |name: &str| cluster.node_with(name, "--remote", &["remote.lease_seconds=5"]);
    let (a, b) = (quick("a"), quick("b"));
    let secret = tenant(a.data(), "acme");
    assert!(is_given(&recall(&a, &secret)));
    let before = run_json(a.data(), &["tenant", "list"]);
    a.kill();
    assert_eq!(opens(&b, &secret), 200);
    wait_until("b takes them over", || {
        run(b.data(), &["tenant", "create", "later", "--plan", "team"]).status.success()
    });
    let after = run_json(b.data(), &["tenant", "list"]);
    assert_eq!(after["tenants"][0], before["tenants"][0]);
    assert_eq!(after["tenants"].as_array().unwrap().len(), 2);
    wait_until("tenants are answered", || is_given(&recall(&b, &secret)));
    // The killed node returns as a follower and knows the changes made meanwhile.
    let a = quick("a");
    assert_eq!(run_json(a.data(), &["tenant", "list"]), after);
    let later = key(b.data(), "later")["secret"].as_str().unwrap().to_owned();
    assert_eq!(opens(&a, &later), 200);
    assert!(refused(a.data(), &["tenant", "create", "third"]).contains("node b"));
}

#[test]
fn a_followed_workspace_whose_writer_is_gone_is_taken_by_a_call_that_changes_it() {
    let cluster = Cluster::new(true);
    let quick = |name: &str| cluster.node_with(name, "--remote", &["remote.lease_seconds=5"]);
    let (a, b) = (quick("a"), quick("b"));
    let secret = tenant(a.data(), "acme");
    let remember = |node: &Service, text: &str| {
        let item = json!({"kind": "note", "title": "harbour", "text": text});
        call(node, &secret, "brain_remember", &item)
    };
    assert!(is_given(&remember(&a, "The harbour is in Oslo.")));
    wait_until("b follows it", || recall(&b, &secret).text().contains("Oslo"));
    a.kill();
    // No reads in between. While b takes over the metastore, its event streams report that calls cannot be counted.
    let is_done = |answer: &Answer| answer.text().contains("\"isError\":false");
    wait_until("b takes it", || is_done(&remember(&b, "The harbour is in Bergen.")));
    // The calls are so frequent that b rejects some with 429.
    wait_until("what a had acknowledged is there as well", || {
        let answer = recall(&b, &secret);
        is_given(&answer) && ["Oslo", "Bergen"].iter().all(|port| answer.text().contains(port))
    });
}

#[test]
fn where_a_workspace_is_written_is_known_to_the_first_call_that_asks_for_it() {
    let cluster = Cluster::new(true);
    let [a, b, c] = ["a", "b", "c"].map(|name| cluster.writer(name));
    let secret = tenant(a.data(), "acme");
    let item = json!({"kind": "note", "title": "harbour", "text": "The harbour is in Oslo."});
    assert!(is_given(&call(&a, &secret, "brain_remember", &item)));
    wait_until("b knows the key", || opens(&b, &secret) == 200);
    let item = json!({"kind": "note", "title": "quay", "text": "The quay is in Bergen."});
    let answer = call(&b, &secret, "brain_remember", &item);
    assert!(answer.text().contains("\"isError\":false"), "passed on: {}", answer.text());
    let answer = recall(&c, &secret);
    assert!(answer.text().contains("recalld/stale-seconds"), "how old it is: {}", answer.text());
}

#[test]
fn what_does_not_open_here_is_answered_by_who_writes_it() {
    let cluster = Cluster::new(true);
    let (a, b) = (cluster.writer("a"), cluster.writer("b"));
    let secret = tenant(a.data(), "acme");
    let item = json!({"kind": "note", "title": "harbour", "text": "The harbour is in Oslo."});
    assert!(is_given(&call(&a, &secret, "brain_remember", &item)));
    wait_until("b follows it", || recall(&b, &secret).text().contains("Oslo"));
    assert!(b.terminate().success());
    let key = cluster.data("b").join("tenants/acme/keys/signing.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let b = cluster.writer("b");
    wait_until("b knows who asks", || opens(&b, &secret) == 200);
    // For longer than the retry delay of a failed open.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        let answer = recall(&b, &secret);
        assert!(answer.status == 429 || answer.text().contains("Oslo"), "{}", answer.text());
        assert!(!answer.text().contains("stale-seconds"), "{}", answer.text());
    }
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    wait_until("b follows it", || recall(&b, &secret).text().contains("stale-seconds"));
}

#[test]
fn a_quota_is_counted_across_nodes() {
    let cluster = Cluster::new(true);
    let (a, b) = (cluster.writer("a"), cluster.writer("b"));
    let secret = tenant(a.data(), "acme");
    run_json(a.data(), &["quota", "set", "acme", "20"]);
    wait_until("b knows the quota", || {
        let shown = run(b.data(), &["quota", "show", "acme", "--json"]).stdout;
        serde_json::from_slice(&shown).is_ok_and(|shown: Value| shown["quota"] == 20)
    });
    let mut given = 0;
    for turn in 0..60 {
        let node = if turn % 2 == 0 { &a } else { &b };
        given += usize::from(is_given(&recall(node, &secret)));
    }
    assert_eq!(given, 20);
    for node in [&a, &b] {
        assert!(recall(node, &secret).text().contains("quota"), "{}", recall(node, &secret).text());
    }
}

#[test]
fn what_is_known_of_tenants_is_not_answered_with_once_it_is_too_old() {
    let cluster = Cluster::new(true);
    let a = cluster.writer("a");
    let secret = tenant(a.data(), "acme");
    let b = cluster.node_with("b", "--replica-of", &["remote.stale_seconds_max=2"]);
    assert_eq!(opens(&b, &secret), 200);
    // An unreadable directory occupies the path of the next record.
    let chain = cluster.bucket().join("t/control-/chain");
    let names = fs::read_dir(&chain)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let newest = names.filter_map(|name| name.parse::<u64>().ok()).max().unwrap();
    let next = chain.join(format!("{:020}", newest + 1));
    fs::create_dir(&next).unwrap();
    wait_until("it is too old", || opens(&b, &secret) == 503);
    fs::remove_dir(&next).unwrap();
    wait_until("it is known again", || opens(&b, &secret) == 200);
}

#[test]
fn a_node_with_tenants_of_its_own_joins_no_others() {
    let cluster = Cluster::new(true);
    let alone = cluster.data("c");
    let own = tenant(&alone, "mine");
    assert!(!own.is_empty());
    let a = cluster.writer("a");
    tenant(a.data(), "acme");
    let refused = cluster.refused("c");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("1 tenants of its own"), "{said}");
    let still = run_json(&alone, &["tenant", "list"]);
    assert_eq!(still["tenants"][0]["slug"], "mine", "nothing was changed");
    assert_eq!(run_json(a.data(), &["tenant", "list"])["tenants"].as_array().unwrap().len(), 1);
}

#[test]
fn the_first_node_brings_the_tenants_that_it_has() {
    let cluster = Cluster::new(true);
    let secret = tenant(&cluster.data("a"), "acme");
    let (_a, b) = (cluster.writer("a"), cluster.replica("b"));
    assert_eq!(opens(&b, &secret), 200);
}

#[test]
fn without_a_secret_tenants_stay_on_their_node_and_the_start_says_so() {
    let cluster = Cluster::new(false);
    let a = cluster.writer("a");
    let secret = tenant(a.data(), "acme");
    let b = cluster.writer("b");
    assert_eq!((opens(&a, &secret), opens(&b, &secret)), (200, 401));
    let said = fs::read_to_string(a.data().with_extension("stderr")).unwrap();
    assert!(said.contains("tenants and their keys stay on this node"), "{said}");
}

#[test]
fn a_workspace_that_is_deleted_elsewhere_loses_its_store_here_and_keeps_its_ledger() {
    let cluster = Cluster::new(true);
    let (a, b) = (cluster.writer("a"), cluster.writer("b"));
    let secret = tenant(a.data(), "acme");
    wait_until("b answers", || is_given(&recall(&b, &secret)));
    let home = b.data().join("tenants/acme");
    assert!(home.join("store").is_dir());
    assert!(b.terminate().success());
    run_json(a.data(), &["tenant", "delete", "acme", "--confirm", "acme"]);
    // The sweep, due every minute, also runs at the start.
    let b = cluster.writer("b");
    wait_until("its store goes", || !home.join("store").exists());
    assert!(home.join("ledger").is_dir());
    assert_eq!(opens(&b, &secret), 401);
}

/// The row of one workspace in the output of `recalld remote gc`.
fn collected(data: &Path, slug: &str) -> Value {
    let said = run(data, &["remote", "gc", "--workspace", slug, "--json"]).stdout;
    let said: Value = serde_json::from_slice(&said).unwrap();
    said["workspaces"][0].clone()
}

#[test]
fn a_deleted_workspace_leaves_the_remote_once_it_can_be_restored_no_more() {
    let cluster = Cluster::new(true);
    let a = cluster.writer("a");
    let secret = tenant(a.data(), "acme");
    let item = json!({"kind": "note", "title": "harbour", "text": "The harbour is in Oslo."});
    assert!(is_given(&call(&a, &secret, "brain_remember", &item)));
    run_json(a.data(), &["tenant", "delete", "acme", "--confirm", "acme"]);
    let home = a.data().join("tenants/acme");
    assert!(home.join("ledger").is_dir() && !home.join("remote.json").exists());
    let kept = collected(a.data(), "acme");
    let why = kept["why"].as_str().unwrap();
    assert!(why.contains("can be restored until") && why.contains("keep_hours"), "{why}");
    let all = run_json(a.data(), &["remote", "gc"]);
    let rows = all["workspaces"].as_array().unwrap();
    let row = rows.iter().find(|row| row["workspace"] == "acme").unwrap();
    assert!(row["stays"].as_str().unwrap().contains("can be restored until"), "{row}");
    let address = format!("file://{}", cluster.bucket().display());
    let status = |data: &Path| {
        let said = run(data, &["remote", "status", &address]).stdout;
        let said = String::from_utf8(said).unwrap();
        said.lines().find(|line| line.starts_with("acme: ")).unwrap().to_owned()
    };
    assert!(status(a.data()).contains("given away by node a"), "{}", status(a.data()));
    assert!(a.terminate().success());

    let keeps_none = ["remote.keep_hours=0", "remote.keep_fine_hours=0"];
    let a = cluster.node_with("a", "--remote", &keeps_none);
    let b = cluster.node_with("b", "--remote", &keeps_none);
    let mut first = Value::Null;
    wait_until("a writes the tenants again", || {
        first = collected(a.data(), "acme");
        first["waiting"].is_u64()
    });
    assert_eq!(first["emptied"], false, "{first}");
    assert!(first["waiting"].as_u64() > Some(0), "records wait for five minutes: {first}");
    assert!(status(a.data()).contains("deleted, being emptied, epoch"), "{}", status(a.data()));
    // A repeat does nothing new, and the waiting records continue to wait.
    let second = collected(a.data(), "acme");
    assert_eq!((&second["records"], &second["objects"]), (&json!(0), &json!(0)), "{second}");
    let refused = refused(b.data(), &["remote", "gc", "--workspace", "acme"]);
    assert!(refused.contains("does not write acme now; node a does"), "{refused}");
    let verified = run(a.data(), &["remote", "verify", &address, "--bytes"]);
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn a_workspace_is_deleted_again_only_by_those_who_say_so() {
    let cluster = Cluster::new(true);
    let a = cluster.writer("a");
    tenant(a.data(), "acme");
    let once = ["tenant", "delete", "acme", "--confirm", "acme"];
    let again = ["tenant", "delete", "acme", "--confirm", "acme", "--again"];
    let said = refused(a.data(), &again);
    assert!(said.contains("again") && said.contains("was not deleted before"), "{said}");
    let deleted = run_json(a.data(), &once);
    assert_eq!(deleted["deleted_about"], Value::Null);
    let said = refused(a.data(), &once);
    assert!(said.contains("deleted already") && said.contains("--again"), "{said}");
    // With and without leftovers in its folder.
    for left in [false, true] {
        let store = a.data().join("tenants/acme/store");
        if left {
            fs::create_dir(&store).unwrap();
        }
        let row = run_json(a.data(), &again);
        let about = row["deleted_about"].as_str().unwrap();
        assert!(
            about.contains("begins anew") && about.contains("can be restored until"),
            "{about}"
        );
        assert!(!store.exists());
    }
    let output = run(a.data(), &again);
    assert!(String::from_utf8_lossy(&output.stderr).contains("begins anew"), "{output:?}");
    // Without `--again` the leftovers are removed, and the retention period does not restart.
    fs::create_dir(a.data().join("tenants/acme/store")).unwrap();
    let row = run_json(a.data(), &once);
    assert_eq!(row["deleted_about"], Value::Null);
    assert!(!a.data().join("tenants/acme/store").exists());
}

#[test]
fn each_node_has_the_last_checkpoints_of_its_own_ledgers_on_record() {
    let cluster = Cluster::new(true);
    let (a, b) = (cluster.writer("a"), cluster.writer("b"));
    let secret = tenant(a.data(), "acme");
    for node in [&a, &b] {
        wait_until("it answers", || is_given(&recall(node, &secret)));
    }
    let folders = [a.data().to_owned(), b.data().to_owned()];
    // As the metastore's leader, a records the last checkpoints of b's ledgers, and later those of its own.
    assert!(b.terminate().success() && a.terminate().success());
    let path = folders[0].join("control.redb");
    let control = Control::open(&path, Arc::new(SystemClock), Arc::new(SystemRandom)).unwrap();
    let [of_a, of_b] =
        [Some("a"), Some("b")].map(|node| control.anchors_of(node, None, 9).unwrap());
    drop(control);
    for anchors in [&of_a, &of_b] {
        assert!(anchors.iter().any(|(slug, last)| slug == "acme" && last.seq > 0), "{anchors:?}");
    }
    assert_ne!(of_a, of_b, "each has ledgers of its own");
    for data in &folders {
        let checked = run_json(data, &["ledger", "verify", "--all"]);
        assert_eq!(checked["ok"], true, "{checked}");
    }
    // A restarted node verifies its ledgers against their recorded checkpoints; a truncated tail would show.
    let a = cluster.writer("a");
    let checked = run_json(a.data(), &["ledger", "verify", "--all"]);
    assert_eq!(checked["ok"], true, "{checked}");
}

#[test]
fn a_node_that_lost_its_disk_comes_back_under_its_name_and_begins_other_ledgers() {
    let cluster = Cluster::new(true);
    let (a, b) = (cluster.writer("a"), cluster.writer("b"));
    let secret = tenant(a.data(), "acme");
    let other = tenant(a.data(), "other");
    for key in [&secret, &other] {
        wait_until("b answers", || is_given(&recall(&b, key)));
    }
    // Terminated regularly, so that its last checkpoints are recorded.
    assert!(b.terminate().success());
    std::fs::remove_dir_all(cluster.data("b")).unwrap();
    // No checkpoint of the new ledger is recorded yet, and one workspace has not been called since.
    let b = cluster.writer("b");
    wait_until("b answers again", || is_given(&recall(&b, &secret)));
    let checked = run_json(b.data(), &["ledger", "verify", "--all"]);
    assert_eq!(checked["ok"], true, "{checked}");
    for slug in ["acme", "other"] {
        let ledgers = checked["ledgers"].as_array().unwrap();
        let row = ledgers.iter().find(|row| row["workspace"] == slug).unwrap();
        assert!(row["others"][0]["seq"].as_u64() > Some(0), "{row}");
        assert_eq!(row["entries"].as_u64() > Some(0), slug == "acme", "{row}");
    }
    let told = run(b.data(), &["ledger", "verify", "--workspace", "acme"]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("this node kept one before") && told.contains("is whole"), "{told}");
    let scan = json!({"tool": "ledger_integrity_scan_tool", "arguments": {}, "workspace": "acme"});
    let scanned = b.post("/operator/call", &scan);
    assert_eq!(scanned["structured"]["ok"], true, "{scanned}");
    assert!(b.terminate().success());
    // Twice, because an empty disk receives the recorded checkpoints only after the first start.
    for _ in 0..2 {
        let b = cluster.writer("b");
        wait_until("b answers again", || is_given(&recall(&b, &secret)));
        assert!(b.terminate().success());
    }
    let checked = run_json(&cluster.data("b"), &["ledger", "verify", "--all"]);
    assert_eq!(checked["ok"], true, "{checked}");
    // A ledger that ends before its own last checkpoint is still rejected.
    let volume = cluster.data("b").join("tenants/acme/ledger").join(engine::ledger::volume_name(1));
    let whole = std::fs::read(&volume).unwrap();
    std::fs::write(&volume, &whole[..whole.len() * 2 / 3]).unwrap();
    let b = cluster.writer("b");
    assert!(!is_given(&recall(&b, &secret)));
    std::fs::write(&volume, &whole).unwrap();
    wait_until("b answers again", || is_given(&recall(&b, &secret)));
}

/// The finding of `recalld doctor` on the metastore.
fn doctor(data: &Path) -> String {
    let said: Value = serde_json::from_slice(&run(data, &["doctor", "--json"]).stdout).unwrap();
    let findings = said["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["name"] == "control store").unwrap();
    found["detail"].as_str().unwrap().to_owned()
}

#[test]
fn the_doctor_says_who_writes_tenants_and_how_far_this_node_is() {
    let cluster = Cluster::new(true);
    let (a, b) = (cluster.writer("a"), cluster.replica("b"));
    tenant(a.data(), "acme");
    let said = doctor(a.data());
    assert!(said.starts_with("shared with other nodes; this node writes it, record "), "{said}");
    let record = said.rsplit(' ').next().unwrap().to_owned();
    wait_until("b has it", || doctor(b.data()).ends_with(&format!("up to record {record}")));
    assert!(doctor(b.data()).contains("node a writes it; all of "), "{}", doctor(b.data()));
    let data = b.data().to_owned();
    assert!(b.terminate().success());
    assert!(doctor(&data).contains("nobody follows here now"), "{}", doctor(&data));
}

#[test]
fn a_node_that_lost_a_ledger_and_no_disk_misses_it() {
    let cluster = Cluster::new(true);
    let (a, b) = (cluster.writer("a"), cluster.writer("b"));
    let secret = tenant(a.data(), "acme");
    assert!(is_given(&recall(&a, &secret)));
    wait_until("b answers", || is_given(&recall(&b, &secret)));
    assert!(b.terminate().success());
    let home = cluster.data("b").join("tenants/acme");
    let (ledger, kept) = (home.join("ledger"), home.join("kept"));
    std::fs::rename(&ledger, &kept).unwrap();
    let b = cluster.writer("b");
    let verified = |arguments: &[&str]| {
        let said = run(b.data(), &[&["ledger", "verify"], arguments].concat());
        let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
        (said.status.code(), text.into_owned())
    };
    wait_until("b has what is on record", || verified(&["--all"]).0 == Some(1));
    let misses = |arguments: &[&str]| {
        let (code, said) = verified(arguments);
        assert!(code == Some(1) && said.contains("LED-19"), "{code:?} {said}");
    };
    for arguments in [&["--all"][..], &["--workspace", "acme"]] {
        misses(arguments);
    }
    let begins_none = || {
        // The leader answers the call; b begins no new ledger.
        let answer = recall(&b, &secret);
        assert!(is_given(&answer), "{}", answer.text());
        misses(&["--all"]);
    };
    begins_none();
    // An emptied ledger is a missing ledger, too.
    std::fs::remove_dir_all(&ledger).unwrap_or_default();
    std::fs::create_dir(&ledger).unwrap();
    misses(&["--all"]);
    begins_none();
    std::fs::remove_dir_all(&ledger).unwrap();
    std::fs::rename(&kept, &ledger).unwrap();
    wait_until("b answers itself", || recall(&b, &secret).text().contains("stale-seconds"));
    assert_eq!(verified(&["--all"]).0, Some(0));
}
