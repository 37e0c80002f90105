//! `recalld remote gc` and `forget-node`, and the progress of erasures for `recalld remote status`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::os::clock::{SystemClock, SystemRandom};
use recalld_replication::core::{Reached, Retention, Writer};
use recalld_replication::{
    Driver, Hex, Key, Node, NodeId, Nonce, Sweeper, Swept, Tenant, clear_probes,
};
use serde_json::{Value, json};

use super::Far;
use crate::cli::common::Common;
use crate::cli::failure::Failure;
use crate::cli::remote::Remote;
use crate::cli::tell::tell_line;
use recalld_common::counted::{agreed, counted};

/// Longest wait for this process's first heartbeat, in addition to the request timeout.
const HEARD_WAIT_MAX: Duration = Duration::from_secs(20);

/// Requests a garbage collection from the server that has this data directory.
pub(super) fn ask(common: &Common, data: &Path, only: Option<&Tenant>) -> Result<(), Failure> {
    let data = std::path::absolute(data).map_err(Failure::could)?;
    let mut body = json!({});
    if let Some(only) = only {
        body["workspace"] = only.as_str().into();
    }
    let report = Remote::find(&data)?.administer("/operator/collect", &body)?;
    let swept = report["workspaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let unread = report["deleted_unread"].as_str();
    let put_off = report["put_off"].as_u64().unwrap_or_default();
    if swept.is_empty() && put_off == 0 && unread.is_none() {
        let only = only.map_or("any workspace", Tenant::as_str);
        let by = match report["written_by"].as_str() {
            Some(node) => format!("; node {node} does: run it there"),
            None => String::new(),
        };
        return Err(Failure::No(format!("this node does not write {only} now{by}")));
    }
    if common.json {
        tell_line(&report)?;
    } else {
        swept.iter().try_for_each(|row| tell_line(&readable(row)))?;
        tell_probes(report["probes"].as_u64().unwrap_or_default())?;
        tell_put_off(put_off)?;
    }
    if let Some(why) = unread {
        return Err(Failure::Could(format!("deleted workspaces were not looked at: {why}")));
    }
    failed(swept)
}

/// Collects garbage in-process, for workspaces without a leader.
pub(super) fn run(
    common: &Common,
    far: &Far,
    only: Option<&Tenant>,
    wait: bool,
) -> Result<(), Failure> {
    let workspaces = far.workspaces(only)?;
    if workspaces.is_empty() {
        return Err(Failure::No(format!("{}: nothing was carried there yet", far.address)));
    }
    let probes = clear_probes(&*far.driver.objects).map_err(|away| far.could(away))?;
    let sweeper = sweeper(far)?;
    let mut rows = Vec::new();
    for tenant in &workspaces {
        let swept = sweeper.sweep(tenant, wait).map_err(|why| far.could(why))?;
        let row = row(tenant, swept, wait);
        if !common.json {
            tell_line(&readable(&row))?;
        }
        rows.push(row);
    }
    if common.json {
        tell_line(&json!({"workspaces": rows, "probes": probes}))?;
    } else {
        tell_probes(probes as u64)?;
    }
    failed(&rows)
}

fn row(tenant: &Tenant, swept: Swept, waited: bool) -> Value {
    let workspace = tenant.as_str();
    match swept {
        Swept::Nothing => {
            json!({"workspace": workspace, "records": 0, "objects": 0, "waiting": 0, "erased_waiting": 0})
        }
        Swept::Held(head) => {
            let (node, url) = (&head.node, &head.url);
            let at = if url.is_empty() { String::new() } else { format!(" at {url}") };
            let why = format!(
                "node {node}{at} writes it: run `recalld remote gc --data DIR` there; it collects by itself every hour"
            );
            json!({"workspace": workspace, "why": why})
        }
        Swept::Done(done) => json!({
            "workspace": workspace, "records": done.records, "objects": done.objects,
            "waiting": done.waiting, "erased_waiting": done.erased_waiting,
            "can_wait": !waited,
        }),
    }
}

/// Formats a result for people.
fn readable(row: &Value) -> String {
    let workspace = row["workspace"].as_str().unwrap_or_default();
    if let Some(why) = row["why"].as_str() {
        return format!("{workspace}: nothing was removed: {why}");
    }
    if let Some(why) = row["stays"].as_str() {
        return format!("{workspace}: it stays for now: {why}");
    }
    let number = |key: &str| row[key].as_u64().unwrap_or_default();
    let (records, objects) =
        (counted(number("records"), "record"), counted(number("objects"), "object"));
    let mut text = format!("{workspace}: {records} and {objects} were removed");
    match row["emptied"].as_bool() {
        None => {}
        Some(true) => return text + "; it was deleted, and nothing of it is left",
        Some(false) => text.push_str(" of what was deleted"),
    }
    match number("waiting") {
        0 => {}
        waiting => {
            let (waiting, wait) = (counted(waiting, "record"), agreed(waiting, "waits", "wait"));
            text.push_str(&format!(
                "; {waiting} {wait}: not known here for five minutes yet, or read by a restore"
            ));
            if row["can_wait"] == true {
                text.push_str(" (--wait)");
            }
        }
    }
    match number("erased_waiting") {
        0 => text,
        // If the workspace was deleted, all waiting records precede the deletion.
        _ if row["emptied"].is_boolean() => text,
        erased => format!("{text}; of these {erased} from before an erasure"),
    }
}

fn tell_probes(probes: u64) -> Result<(), Failure> {
    match probes {
        0 => Ok(()),
        probes => {
            let probes = counted(probes, "object");
            tell_line(&format_args!("{probes} of starts that were cut short were removed"))
        }
    }
}

fn tell_put_off(put_off: u64) -> Result<(), Failure> {
    match put_off {
        0 => Ok(()),
        more => {
            let (more, goes) = (counted(more, "deleted workspace"), agreed(more, "goes", "go"));
            tell_line(&format_args!("{more} {goes} later, after others"))
        }
    }
}

fn failed(rows: &[Value]) -> Result<(), Failure> {
    let failed = rows.iter().filter(|row| row["why"].is_string()).count();
    if failed == 0 {
        return Ok(());
    }
    Err(Failure::No(format!("{} not collected", counted(failed, "workspace"))))
}

/// Joins the remote as a node of its own name, visible to the other nodes while it works.
fn sweeper(far: &Far) -> Result<Sweeper, Failure> {
    let node = NodeId::of_collecting(&Hex::drawn(&SystemRandom));
    let writer = Writer { node, run: Nonce::drawn(&SystemRandom), url: String::new() };
    let driver: &Driver = &far.driver;
    let node = Node::start(driver.clone(), writer, far.settings.lease_seconds);
    let node = node.map_err(Failure::could)?;
    let began = Instant::now();
    while !node.is_held() {
        if began.elapsed() > HEARD_WAIT_MAX {
            let why = node.trouble().unwrap_or_else(|| "it does not answer".to_owned());
            return Err(far.could(why));
        }
        driver.halt.wait(Duration::from_millis(20));
    }
    let (full, fine) = far.settings.keep;
    Ok(Sweeper {
        driver: driver.clone(),
        node: Arc::new(node),
        retention: Retention { full, fine },
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
    })
}

/// Removes the inventory that a node published.
pub(super) fn forget_node(common: &Common, far: &Far, node: &NodeId) -> Result<(), Failure> {
    let key = Key::Holds(node.clone());
    let address = &far.address;
    let found = far.driver.objects.head(&key).map_err(|away| far.could(away))?;
    if found.is_none() {
        return Err(Failure::No(format!("{address}: no node {node} says that it has anything")));
    }
    let removed = far.driver.objects.remove(&[key]);
    removed.map_err(|away| far.could(away))?;
    if common.json {
        return tell_line(&json!({"address": address, "forgot": node.as_str()}));
    }
    tell_line(&format_args!(
        "{address}: no erasure waits for node {node} any more; what was erased since it was heard last may be on \
         its disk still, and it says anew what it has if it comes back"
    ))
}

/// Progress of a workspace's last erasure, for programs.
pub(super) fn erased(far: &Reached) -> Value {
    let behind: Vec<&str> = far.behind(far.record).map(NodeId::as_str).collect();
    let nodes: Vec<&str> = far.nodes.iter().map(|(node, _)| node.as_str()).collect();
    json!({
        "record": far.record, "gone": far.is_gone(far.record), "nodes": nodes, "behind": behind,
        "everywhere": far.is_everywhere(far.record),
    })
}

/// Progress of an erasure for people; empty if the erasure is complete everywhere.
pub(super) fn erased_readable(erased: &Value) -> String {
    if erased.is_null() || erased["everywhere"] == true {
        return String::new();
    }
    let record = erased["record"].as_u64().unwrap_or_default();
    let behind = erased["behind"].as_array().map(Vec::as_slice).unwrap_or_default();
    let behind: Vec<&str> = behind.iter().filter_map(Value::as_str).collect();
    let mut waits = Vec::new();
    if erased["gone"] != true {
        waits.push("its history is still there".to_owned());
    }
    if !behind.is_empty() {
        waits.push(format!("not told yet by node {}", behind.join(", ")));
    }
    format!("; an erasure that ended with record {record} is not everywhere: {}", waits.join(", "))
}
