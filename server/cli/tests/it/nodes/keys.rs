//! The cluster secret: with it, grounding tokens of one node are valid on all nodes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use support_wire::mcp_client::McpClient;
use support_wire::patience::wait_until;
use support_wire::service::Service;

use crate::nodes::cluster::Cluster;

const TEXT: &str = "The gateway listens on port 8080.";

/// This node's verdict on a claim with this grounding token.
fn claim(node: &Service, token: &str) -> Value {
    let claims = json!({"claims": [{"claim": TEXT, "grounding_tokens": [token]}]});
    let mut given = McpClient::open(node).call("brain_verify_claims_tool", &claims);
    given["claims"][0].take()
}

/// A grounding token issued by this node for the text.
fn token(node: &Service) -> String {
    let found =
        McpClient::open(node).call("retrieval_arbitrate_tool", &json!({"query": "gateway port"}));
    let items = found["items"].as_array().unwrap();
    items
        .first()
        .map(|item| item["grounding_token"].as_str().unwrap().to_owned())
        .unwrap_or_default()
}

/// A leader that stored the text, and a replica that has replayed it.
fn pair(cluster: &Cluster) -> (Service, Service) {
    let writer = cluster.writer("a");
    let item = json!({"kind": "note", "title": "gateway", "text": TEXT});
    McpClient::open(&writer).call("brain_remember", &item);
    let replica = cluster.replica("b");
    wait_until("the replica has the text", || !token(&replica).is_empty());
    (writer, replica)
}

#[test]
fn a_grounding_token_is_good_on_every_node_that_has_the_secret() {
    let cluster = Cluster::new(true);
    let (writer, replica) = pair(&cluster);
    for (giver, checker) in [(&writer, &replica), (&replica, &writer)] {
        let row = claim(checker, &token(giver));
        assert_eq!(row["verdict"], "supported", "{row}");
        assert!(!row["why"].as_str().unwrap().contains("not trusted"), "{row}");
    }
}

#[test]
fn without_the_secret_a_nodes_token_is_its_own_and_the_refusal_says_why() {
    let cluster = Cluster::new(false);
    let (writer, replica) = pair(&cluster);
    let row = claim(&replica, &token(&writer));
    let why = row["why"].as_str().unwrap();
    assert!(why.contains("not trusted here") && why.contains("remote.secret_file"), "{row}");
    assert_eq!(claim(&writer, &token(&writer))["verdict"], "supported");
}

#[test]
fn the_key_that_was_there_before_goes_on_vouching_for_the_ledger() {
    let mut cluster = Cluster::new(false);
    let writer = cluster.writer("a");
    McpClient::open(&writer)
        .call("brain_remember", &json!({"kind": "note", "title": "a", "text": TEXT}));
    assert!(writer.terminate().success());
    let data = cluster.data("a");
    let key = || fs::read_to_string(data.join("keys/signing.key")).unwrap();
    let before = key();
    cluster.share_a_secret();
    let writer = cluster.writer("a");
    assert_ne!(key(), before);
    let former: Value =
        serde_json::from_slice(&fs::read(data.join("keys/former.json")).unwrap()).unwrap();
    assert_eq!(former["public_keys"].as_array().unwrap().len(), 1, "{former}");
    McpClient::open(&writer)
        .call("brain_remember", &json!({"kind": "note", "title": "b", "text": TEXT}));
    assert!(writer.terminate().success());
    let verified = support_wire::service::run(&data, &["ledger", "verify"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    // A restart with the same secret changes nothing.
    let shared = key();
    assert!(cluster.writer("a").terminate().success());
    assert_eq!(key(), shared);
}

#[test]
fn a_secret_that_others_can_read_or_that_is_not_there_ends_the_start() {
    let cluster = Cluster::new(true);
    let said = |what: &str| {
        let refused = cluster.refused("a");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(what), "{said}");
        assert!(said.contains("remote.secret_file"), "{said}");
    };
    fs::set_permissions(cluster.secret(), Permissions::from_mode(0o640)).unwrap();
    said("chmod 600");
    fs::remove_file(cluster.secret()).unwrap();
    said("recalld remote secret");
}
