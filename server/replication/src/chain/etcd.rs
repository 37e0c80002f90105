//! Record logs in etcd, for object stores that do not honour `If-None-Match: *`.
//!
//! A creation compares the watermark and this node's lease in the same transaction, so the watermark need not be read
//! afterwards. A record that is too long for etcd is first stored as an object, which the etcd value names.

mod client;
mod small;

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use self::client::{Client, bytes_of, key_of, number_of, prefix_end, range_of};
use super::Chain;
use crate::address::Coordinator;
use crate::beat::Beat;
use crate::counts::{Counts, Op};
use crate::edge::Edge;
use crate::environment::{Environment, Unusable};
use crate::hex::Hash;
use crate::limits::{ETCD_INLINE_MAX, ETCD_REMOVED_AT_ONCE, NODES_MAX, RECORD_BYTES_MAX};
use crate::names::{self, Key, NodeId, Tenant};
use crate::objects::{Away, Objects, Tried};

pub use self::small::EtcdObjects;

/// Prefix of a value that names an object; a value that is a record begins with `{`.
const BODY: &str = "body ";

/// Record logs in etcd.
#[derive(Debug)]
pub struct Etcd {
    client: Arc<Client>,
    objects: Arc<dyn Objects>,
    /// Node that publishes heartbeats through this client, known from the first heartbeat on.
    node: OnceLock<NodeId>,
    /// Lease in etcd to which this node's heartbeat is attached; 0 while there is none.
    lease: AtomicI64,
    beating: Mutex<()>,
}

impl Etcd {
    /// Makes a client of the etcd at this address; long records go to `objects`. `ETCDCTL_USER` and `ETCDCTL_PASSWORD`
    /// are the user's name and password. No request is sent yet.
    ///
    /// # Errors
    /// A setting is wrong; the error names it.
    pub fn open(
        at: &Coordinator,
        ca_file: Option<&Path>,
        environment: Environment<'_>,
        objects: Arc<dyn Objects>,
        counts: Arc<Counts>,
    ) -> Result<Self, Unusable> {
        let client = Arc::new(Client::open(at, ca_file, environment, counts)?);
        let (node, lease, beating) = (OnceLock::new(), AtomicI64::new(0), Mutex::new(()));
        Ok(Self { client, objects, node, lease, beating })
    }

    /// View of this etcd as a store of small objects, for the race of the start-up probe.
    #[must_use]
    pub fn as_objects(&self) -> EtcdObjects {
        EtcdObjects::new(Arc::clone(&self.client))
    }

    fn boundary_name(tenant: &Tenant) -> String {
        format!("t/{tenant}/edge")
    }

    fn kept_name(tenant: &Tenant) -> String {
        format!("t/{tenant}/kept")
    }

    /// Comparison that holds if the watermark in etcd is below `place`, which is a record number or another watermark's
    /// version.
    fn is_above(&self, tenant: &Tenant, place: &str) -> Value {
        let value = client::base64(place.as_bytes());
        let key = self.client.key(&Self::boundary_name(tenant));
        json!({"key": key, "target": "VALUE", "value": value, "result": "LESS"})
    }

    /// Creates the watermark with boundary 0 if there is none: a comparison with a missing key never holds.
    fn begin_edge(&self, tenant: &Tenant) -> Result<(), Away> {
        let key = self.client.key(&Self::boundary_name(tenant));
        let zero = client::base64(format!("{:020}", 0).as_bytes());
        let txn = json!({
            "compare": [{"key": key, "target": "CREATE", "create_revision": "0", "result": "EQUAL"}],
            "success": [{"request_put": {"key": key, "value": zero}}],
        });
        self.client.again(Op::Put, "kv/txn", &txn).map(drop)
    }

    /// Value of a record: the record itself, or the name of the object that it is stored as.
    fn value(&self, tenant: &Tenant, number: u64, bytes: &[u8]) -> Result<Vec<u8>, Away> {
        if bytes.len() <= ETCD_INLINE_MAX {
            return Ok(bytes.to_vec());
        }
        let sha256 = Hash::of(bytes);
        self.objects.put(&body_key(tenant, number, sha256), bytes)?;
        Ok(format!("{BODY}{sha256} {}", bytes.len()).into_bytes())
    }

    fn find_body(
        &self,
        tenant: &Tenant,
        number: u64,
        value: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, Away> {
        let Some(rest) = value.strip_prefix(BODY.as_bytes()) else { return Ok(Some(value)) };
        let wrong = |why: String, may_pass| Away {
            why: format!("record {number} of {tenant}: {why}"),
            may_pass,
        };
        let text = std::str::from_utf8(rest).ok();
        let hash = text.and_then(|text| Hash::parse(text.split_once(' ')?.0));
        let Some(sha256) = hash else {
            return Err(wrong("its value in etcd is no record".into(), false));
        };
        let key = body_key(tenant, number, sha256);
        match self.objects.get(&key, None, RECORD_BYTES_MAX as u64)? {
            Some(bytes) if Hash::of(&bytes) == sha256 => Ok(Some(bytes)),
            Some(_) => Err(wrong(format!("{key} is not what etcd says"), false)),
            // The object was removed meanwhile, together with its record.
            None => Err(wrong(format!("{key} is not there"), true)),
        }
    }

    /// Parses the watermark from its boundary and the list of records retained below.
    fn read_edge(&self, tenant: &Tenant, answer: &Value) -> Result<Edge, Away> {
        let Some(text) = bytes_of(range_of(answer, 0)) else { return Ok(Edge::default()) };
        let place = parse_place(&text);
        let edge = match bytes_of(range_of(answer, 1)) {
            None => Ok(Edge { boundary: place.unwrap_or_default().0, ..Edge::default() }),
            Some(bytes) => Edge::decode(&bytes).map_err(|damage| damage.to_string()),
        };
        match (edge, place) {
            (Ok(edge), Some(place)) if edge.place() == place => Ok(edge),
            (edge, _) => {
                let why = edge.err().unwrap_or_else(|| "its two values do not fit".into());
                Err(Away { why: format!("the edge of {tenant} in etcd: {why}"), may_pass: false })
            }
        }
    }

    /// Derives why a creation was refused, from the ranges that the failed transaction returned.
    fn not_created(&self, number: u64, lease: i64, answer: &Value) -> Refusal {
        if !range_of(answer, 0).is_null() {
            return Refusal::Known(Tried::Unsure("there is one already".into()));
        }
        let Some(boundary) = bytes_of(range_of(answer, 1)) else { return Refusal::NoEdge };
        if parse_place(&boundary).is_none_or(|(boundary, _)| boundary >= number) {
            let why = format!("record {number} is at or below the edge");
            return Refusal::Known(Tried::Unsure(why));
        }
        let has = number_of(&range_of(answer, 2)["lease"]).and_then(|id| i64::try_from(id).ok());
        let why = if has == Some(lease) {
            "etcd refused it and does not say why"
        } else {
            "this node's lease in etcd is over"
        };
        Refusal::Known(Tried::Refused(why.into()))
    }

    /// Requests a lease in etcd for the heartbeat, 1.25 times as long as the node's own lease.
    fn begin_lease(&self, beat: &Beat) -> Result<i64, Away> {
        // Other nodes wait as long: a node whose clock is slower than etcd's may consider itself alive for that time.
        let ttl = beat.lease_s.saturating_add(beat.lease_s.div_ceil(4));
        let body = json!({"TTL": ttl.to_string()});
        let answer = self.client.again(Op::Beat, "lease/grant", &body)?;
        let id = number_of(&answer["ID"]).and_then(|id| i64::try_from(id).ok());
        id.filter(|&id| id > 0).ok_or_else(|| Away {
            why: format!("etcd granted no lease of {ttl} s"),
            may_pass: true,
        })
    }

    /// Renews the lease for its whole length from now. Returns false if the lease has expired.
    fn keep_lease(&self, lease: i64) -> Result<bool, Away> {
        let body = json!({"ID": lease.to_string()});
        let answer = self.client.again(Op::Beat, "lease/keepalive", &body)?;
        Ok(number_of(&answer["result"]["TTL"]).is_some_and(|left| left > 0))
    }

    /// Publishes the heartbeat under the lease, if the present heartbeat is attached to the same lease, or if
    /// `is_first`.
    fn put_beat(&self, beat: &Beat, lease: i64, is_first: bool) -> Result<bool, Away> {
        let key = self.client.key(&Key::Beat(beat.node.clone()).to_string());
        let id = lease.to_string();
        let same = json!({"key": key, "target": "LEASE", "lease": id, "result": "EQUAL"});
        let value = client::base64(&beat.encode());
        let compare = if is_first { vec![] } else { vec![same] };
        let put = json!({"request_put": {"key": key, "value": value, "lease": id}});
        let txn = json!({"compare": compare, "success": [put]});
        Ok(self.client.again(Op::Beat, "kv/txn", &txn)?["succeeded"] == true)
    }
}

/// Reason why the comparisons of a transaction did not hold.
enum Refusal {
    /// There is no watermark to compare with yet; the transaction changed nothing.
    NoEdge,
    Known(Tried),
}

impl Chain for Etcd {
    fn create(&self, tenant: &Tenant, number: u64, bytes: &[u8]) -> Tried {
        let lease = self.lease.load(SeqCst);
        let Some(node) = self.node.get().filter(|_| lease > 0) else {
            return Tried::Refused("this node has no lease in etcd yet".into());
        };
        let value = match self.value(tenant, number, bytes) {
            Ok(value) => client::base64(&value),
            // No creation was attempted at this number.
            Err(away) if away.may_pass => return Tried::Unsure(away.why),
            Err(away) => return Tried::Refused(away.why),
        };
        let key = self.client.key(&Key::Chain(tenant.clone(), number).to_string());
        let edge = self.client.key(&Self::boundary_name(tenant));
        let beat = self.client.key(&Key::Beat(node.clone()).to_string());
        let txn = json!({
            "compare": [
                {"key": key, "target": "CREATE", "create_revision": "0", "result": "EQUAL"},
                self.is_above(tenant, &names::place_text((number, 0))),
                {"key": beat, "target": "LEASE", "lease": lease.to_string(), "result": "EQUAL"},
            ],
            "success": [{"request_put": {"key": key, "value": value}}],
            "failure": [
                {"request_range": {"key": key, "keys_only": true}},
                {"request_range": {"key": edge}},
                {"request_range": {"key": beat, "keys_only": true}},
            ],
        });
        // The second attempt follows only a transaction that changed nothing by etcd's own response.
        for _ in 0..2 {
            let answer = match self.client.once(Op::Create, "kv/txn", &txn) {
                Ok(answer) if answer["succeeded"] == true => return Tried::Made,
                Ok(answer) => answer,
                Err(fault) => return fault.into(),
            };
            match self.not_created(number, lease, &answer) {
                Refusal::Known(tried) => return tried,
                Refusal::NoEdge => match self.begin_edge(tenant) {
                    Ok(()) => {}
                    Err(away) => return Tried::Unsure(away.why),
                },
            }
        }
        Tried::Unsure("the edge in etcd comes and goes".into())
    }

    fn read(&self, tenant: &Tenant, number: u64) -> Result<Option<Vec<u8>>, Away> {
        let body = json!({"key": self.client.key(&Key::Chain(tenant.clone(), number).to_string())});
        let answer = self.client.again(Op::Get, "kv/range", &body)?;
        match bytes_of(&answer["kvs"][0]) {
            None => Ok(None),
            Some(value) => self.find_body(tenant, number, value),
        }
    }

    /// Always `None`: etcd numbers its changes and records no time.
    fn age(&self, _: &Tenant, _: u64) -> Result<Option<Duration>, Away> {
        Ok(None)
    }

    fn numbers(&self, tenant: &Tenant, after: u64, most: usize) -> Result<Vec<u64>, Away> {
        let from = Key::Chain(tenant.clone(), after.saturating_add(1)).to_string();
        let end = self.client.key(&prefix_end(&format!("t/{tenant}/chain/")));
        let body = json!({
            "key": self.client.key(&from), "range_end": end, "limit": most.to_string(),
            "keys_only": true, "sort_order": "ASCEND", "sort_target": "KEY",
        });
        let answer = self.client.again(Op::List, "kv/range", &body)?;
        let pairs = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let number = |pair| match self.client.name_of(&key_of(pair)?).and_then(Key::parse)? {
            Key::Chain(_, number) => Some(number),
            _ => None,
        };
        Ok(pairs.iter().filter_map(number).collect())
    }

    fn edge(&self, tenant: &Tenant) -> Result<Edge, Away> {
        let range = |name: String| json!({"request_range": {"key": self.client.key(&name)}});
        let txn = json!({
            "success": [range(Self::boundary_name(tenant)), range(Self::kept_name(tenant))],
        });
        self.read_edge(tenant, &self.client.again(Op::Get, "kv/txn", &txn)?)
    }

    fn raise_edge(&self, tenant: &Tenant, edge: &Edge) -> Tried {
        let boundary = self.client.key(&Self::boundary_name(tenant));
        let kept = self.client.key(&Self::kept_name(tenant));
        let place = names::place_text(edge.place());
        let value = client::base64(place.as_bytes());
        let txn = json!({
            "compare": [self.is_above(tenant, &place)],
            "success": [
                {"request_put": {"key": boundary, "value": value}},
                {"request_put": {"key": kept, "value": client::base64(&edge.encode())}},
            ],
            "failure": [{"request_range": {"key": boundary}}],
        });
        for _ in 0..2 {
            let answer = match self.client.once(Op::Create, "kv/txn", &txn) {
                Ok(answer) if answer["succeeded"] == true => return Tried::Made,
                Ok(answer) => answer,
                Err(fault) => return fault.into(),
            };
            if !range_of(&answer, 0).is_null() {
                return Tried::Unsure("there is an edge at least as high".into());
            }
            if let Err(away) = self.begin_edge(tenant) {
                return Tried::Unsure(away.why);
            }
        }
        Tried::Unsure("the edge in etcd comes and goes".into())
    }

    fn remove(&self, tenant: &Tenant, numbers: &[u64]) -> Result<(), Away> {
        for some in numbers.chunks(ETCD_REMOVED_AT_ONCE) {
            let remove = |&number: &u64| {
                let name = Key::Chain(tenant.clone(), number).to_string();
                json!({"request_delete_range": {"key": self.client.key(&name)}})
            };
            let removes: Vec<Value> = some.iter().map(remove).collect();
            self.client.again(Op::Remove, "kv/txn", &json!({"success": removes}))?;
        }
        Ok(())
    }

    fn beat(&self, beat: &Beat) -> Result<(), Away> {
        let _one_at_a_time = self.beating.lock().unwrap_or_else(PoisonError::into_inner);
        let node = self.node.get_or_init(|| beat.node.clone());
        if *node != beat.node {
            let why = format!("{} cannot beat where {node} does", beat.node);
            return Err(Away { why, may_pass: false });
        }
        let lease = self.lease.load(SeqCst);
        if lease > 0 && self.keep_lease(lease)? {
            if self.put_beat(beat, lease, false)? {
                return Ok(());
            }
            let why = format!("another process beats as {node}: each node needs a name of its own");
            return Err(Away { why, may_pass: true });
        }
        let lease = self.begin_lease(beat)?;
        self.put_beat(beat, lease, true)?;
        // From now on, creations compare with this lease.
        self.lease.store(lease, SeqCst);
        Ok(())
    }

    fn beats(&self) -> Result<Vec<Beat>, Away> {
        let end = self.client.key(&prefix_end("node/"));
        let body = json!({
            "key": self.client.key("node/"), "range_end": end, "limit": NODES_MAX.to_string(),
        });
        let answer = self.client.again(Op::List, "kv/range", &body)?;
        let pairs = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(pairs.iter().filter_map(|pair| Beat::decode(&bytes_of(pair)?).ok()).collect())
    }

    fn guards_edge(&self) -> bool {
        true
    }
}

/// Key of the object of a long record. The key is derived from the content, so a repeated upload puts the same object.
fn body_key(tenant: &Tenant, number: u64, sha256: Hash) -> Key {
    Key::Body(tenant.clone(), number, sha256.half())
}

fn parse_place(text: &[u8]) -> Option<(u64, u64)> {
    names::parse_place(std::str::from_utf8(text).ok()?)
}
