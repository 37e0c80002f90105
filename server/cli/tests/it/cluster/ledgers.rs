//! The first upload of a workspace's ledger to the remote.

use std::sync::Arc;

use engine::ledger::{Decision, Outcome};
use engine::os::clock::{SystemClock, SystemRandom};
use recalld_audit::{Audit, Trace};
use recalld_auth::Signer;
use recalld_config::remote::Remote;
use recalld_replication::{BootClock, was_brought};
use support_wire::kept::files;
use support_wire::service::scratch;

use crate::cluster::seats::seats_by;

#[test]
fn a_ledger_without_an_entry_is_not_brought_so_that_its_node_may_have_lost_its_disk() {
    let scratch = scratch();
    let (bucket, data) = (scratch.path().join("bucket"), scratch.path().join("data"));
    let home = data.join("tenants/acme");
    std::fs::create_dir_all(&home).unwrap();
    let address = format!("file://{}", bucket.display());
    let settings = Remote { is_replica: false, ..Remote::at(address) };
    let seats = seats_by(&settings, &data, Arc::new(BootClock));
    let opened = || {
        let with = (Arc::new(SystemClock), Arc::new(SystemRandom));
        let signer = Signer::from_seed(&[7; 32]);
        let audit = Audit::open(&home.join("ledger"), "acme", signer, with.0, with.1).unwrap();
        audit.brought(Some(seats.ledger("acme", &home).unwrap()))
    };
    let there = bucket.join("t/acme/ledger");
    // An empty ledger is uploaded neither while it is open nor when it closes.
    let audit = opened();
    seats.bring_ledgers(&|| true);
    drop(audit);
    assert!(!was_brought(&home) && !there.exists());
    let audit = opened();
    let trace = Trace {
        tool: "brain_recall",
        principal: "ada".to_owned(),
        arguments: [0; 32],
        decision: Decision::Allow,
        rule: "rule".to_owned(),
        touched: Vec::new(),
        outcome: Outcome::Done,
    };
    audit.record(&trace, true).unwrap();
    seats.bring_ledgers(&|| true);
    assert!(was_brought(&home) && !files(&there).is_empty());
}
