//! Staleness of revocations: the time for which a key revoked on one node is accepted by a disconnected other node.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use support_server::house::mcp;
use support_wire::patience::wait_until;
use support_wire::service::{Service, run, run_json};
use support_wire::wire;

use crate::nodes::cluster::Cluster;
use crate::nodes::sign_in::token;
use crate::nodes::tenants::tenant;

/// Staleness bound of the nodes' metastore: long enough that a disconnected leader still answers when another node has
/// taken over.
const STALE_MAX: Duration = Duration::from_secs(5);
const STALE: &str = "remote.stale_seconds_max=5";

fn opens(node: &Service, key: &str) -> u16 {
    wire::ask(node.hosted(), &mcp(key, "tools/list", &json!({}))).status
}

/// Atomically replaces the symbolic link by one to `to`.
fn leads(way: &Path, to: &Path) {
    let fresh = way.with_extension("fresh");
    symlink(to, &fresh).unwrap();
    fs::rename(&fresh, way).unwrap();
}

/// Revokes the workspace's only key at that node.
fn revoke(node: &Service) -> Instant {
    let listed = run_json(node.data(), &["key", "list", "acme"]);
    let id = listed["keys"][0]["id"].as_str().unwrap();
    run_json(node.data(), &["key", "revoke", "acme", id]);
    Instant::now()
}

/// Polls a disconnected node until it answers 503. No request beyond the staleness bound may be answered otherwise.
fn goes_out(node: &Service, key: &str, revoked: Instant) {
    wait_until("it says that it does not know", || {
        let asked = Instant::now();
        let status = opens(node, key);
        assert!(status == 503 || asked - revoked <= STALE_MAX, "{status}");
        status == 503
    });
    assert_eq!(opens(node, key), 503, "and goes on saying so");
}

#[test]
fn a_node_that_hears_nothing_takes_a_key_that_was_taken_back_for_no_longer_than_it_may_be_behind() {
    let cluster = Cluster::new(true);
    let a = cluster.writer("a");
    let secret = tenant(a.data(), "acme");
    let way = cluster.way("b");
    let b = cluster.node_with("b", "--replica-of", &[STALE]);
    assert_eq!(opens(&b, &secret), 200);
    leads(&way, &way);
    let revoked = revoke(&a);
    assert_eq!(opens(&a, &secret), 401, "at once where it was done");
    goes_out(&b, &secret, revoked);
    leads(&way, &cluster.bucket());
    wait_until("it has heard", || opens(&b, &secret) == 401);
}

#[test]
fn nor_does_the_one_that_wrote_before() {
    let cluster = Cluster::new(true);
    let way = cluster.way("a");
    let lease = "remote.lease_seconds=5";
    let a = cluster.node_with("a", "--remote", &[STALE, lease]);
    let secret = tenant(a.data(), "acme");
    let b = cluster.node_with("b", "--remote", &[lease]);
    assert_eq!((opens(&a, &secret), opens(&b, &secret)), (200, 200));
    leads(&way, &way);
    wait_until("b takes them over", || {
        run(b.data(), &["tenant", "create", "later", "--plan", "team"]).status.success()
    });
    let revoked = revoke(&b);
    assert_ne!(opens(&a, &secret), 401, "it cannot know");
    goes_out(&a, &secret, revoked);
    leads(&way, &cluster.bucket());
    wait_until("it has heard", || opens(&a, &secret) == 401);
}

#[test]
fn a_key_that_a_node_cannot_look_for_is_not_refused() {
    let cluster = Cluster::new(true);
    let a = cluster.writer("a");
    let first = tenant(a.data(), "acme");
    let way = cluster.way("b");
    let b = cluster.replica("b");
    assert_eq!(opens(&b, &first), 200);
    leads(&way, &way);
    let issued = run_json(a.data(), &["key", "issue", "acme", "--kind", "bearer", "--name", "bob"]);
    let second = issued["secret"].as_str().unwrap();
    assert_eq!(opens(&b, &first), 200, "what it knows is not old yet");
    assert_eq!(opens(&b, second), 503, "nobody can tell");
    leads(&way, &cluster.bucket());
    wait_until("it has heard", || opens(&b, second) == 200);
}

#[test]
fn nor_is_a_token_of_somebody_who_signed_in_elsewhere() {
    let cluster = Cluster::new(true);
    let a = cluster.public("a", "--remote");
    tenant(a.data(), "acme");
    let first = token(&a, "acme");
    let way = cluster.way("b");
    let b = cluster.public("b", "--replica-of");
    assert_eq!(opens(&b, &first), 200);
    leads(&way, &way);
    let of_another_sign_in = token(&a, "acme");
    tenant(a.data(), "later");
    let of_another_workspace = token(&a, "later");
    assert_eq!(opens(&b, &first), 200, "what it knows is not old yet");
    for token in [&of_another_sign_in, &of_another_workspace] {
        assert_eq!(opens(&a, token), 200);
        assert_eq!(opens(&b, token), 503, "nobody can tell");
    }
    leads(&way, &cluster.bucket());
    for token in [&of_another_sign_in, &of_another_workspace] {
        wait_until("it has heard", || opens(&b, token) == 200);
    }
}
