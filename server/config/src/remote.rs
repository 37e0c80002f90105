//! `[remote]`: the object store to which workspaces are replicated, or from which they are followed.

use recalld_common::wrong_node::WrongNode;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recalld_replication::{NodeId, limits};

use recalld_common::keys::{KeyFault, Keys, TEXT_BYTES_MAX, quoted};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum upload delay of writes that are acknowledged locally, in milliseconds.
    pub const DELAY_MS_MAX: u64 = 60_000;
    /// Maximum staleness bound of answers, in seconds.
    pub const STALE_SECONDS_MAX: u64 = 3_600;
    /// Maximum retention of history in hours: 400 days.
    pub const KEEP_HOURS_MAX: u64 = 9_600;

    /// Maximum size of the cache of followed workspaces, in bytes.
    pub const CACHE_BYTES_MAX: u64 = 1 << 50;

    /// Default values.
    const LEASE_SECONDS: u64 = 15;
    const DELAY_MS: u64 = 1_000;
    const STALE_SECONDS: u64 = 30;
    const KEEP_HOURS: u64 = 168;
    const KEEP_FINE_HOURS: u64 = 24;
}

/// An object store and this server's relation to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// URL of the store: `s3://BUCKET/PREFIX` or `file:///FOLDER`.
    pub address: String,
    /// True if this server only follows other nodes' workspaces.
    pub is_replica: bool,
    /// Durability required before a write is acknowledged.
    pub durability: Safe,
    /// Store of the record logs if the object store does not honour `If-None-Match`:
    /// `etcd://HOST:PORT,HOST:PORT/PREFIX`.
    pub coordinator: Option<String>,
    /// Name of this node. `None` for a random name, stored in the data directory.
    pub node: Option<NodeId>,
    /// URL at which other nodes reach this node.
    pub node_url: Option<String>,
    /// Duration of the lease in seconds.
    pub lease_seconds: u32,
    /// With durability `local`, the maximum upload delay of a commit, so that several commits are uploaded together.
    pub delay: Duration,
    /// Staleness bound of answers.
    pub stale_max: Duration,
    /// Retention of full records, and of every record, for point-in-time restore.
    pub keep: (Duration, Duration),
    /// Maximum bytes of followed workspaces on this machine; `None` for half of the free space at the start.
    pub cache_bytes: Option<u64>,
    /// Endpoint of the bucket, if not in the environment.
    pub endpoint: Option<String>,
    /// Region of the bucket.
    pub region: Option<String>,
    /// True if the bucket is part of the path.
    pub path_style: Option<bool>,
    /// True if plain HTTP to other machines is allowed.
    pub allow_http: bool,
    /// Root certificates that replace the default ones.
    pub ca_file: Option<PathBuf>,
    /// Handling of a call that belongs to another node.
    pub wrong_node: WrongNode,
    /// File with the secret shared by all nodes; never stored on the remote.
    pub secret_file: Option<PathBuf>,
}

impl Remote {
    /// Creates settings for read-only access, otherwise with default values.
    pub fn at(address: String) -> Self {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        Self {
            address,
            is_replica: true,
            durability: Safe::Remote,
            coordinator: None,
            node: None,
            node_url: None,
            lease_seconds: u32::try_from(LEASE_SECONDS).unwrap_or(u32::MAX),
            delay: Duration::from_millis(DELAY_MS),
            stale_max: Duration::from_secs(STALE_SECONDS),
            keep: (hours(KEEP_HOURS), hours(KEEP_FINE_HOURS)),
            cache_bytes: None,
            endpoint: None,
            region: None,
            path_style: None,
            allow_http: false,
            ca_file: None,
            wrong_node: WrongNode::Proxy,
            secret_file: None,
        }
    }
}

/// Durability required before a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safe {
    /// The write is on this machine's disk.
    Local,
    /// The write survives the loss of this machine.
    Remote,
}

impl Safe {
    const ALL: &'static [Self] = &[Self::Local, Self::Remote];

    fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

/// Reads the table; `None` if the table is empty. Without an address, other keys are rejected: they would be ignored
/// silently.
pub(super) fn read(mut keys: Keys, folder: &Path) -> Result<Option<Remote>, KeyFault> {
    let to = keys.text("to", TEXT_BYTES_MAX)?;
    let replica_of = keys.text("replica_of", TEXT_BYTES_MAX)?;
    let (address, is_replica) = match (to, replica_of) {
        (Some(_), Some(of)) => {
            return Err(keys.fault(
                "replica_of",
                &of,
                "this or `to`, not both: a replica only reads",
            ));
        }
        (Some(to), None) => (to, false),
        (None, Some(of)) => (of, true),
        (None, None) if keys.has_more() => {
            return Err(keys.missing("to", "s3://BUCKET/PREFIX; or replica_of, to follow it alone"));
        }
        (None, None) => return keys.finish().map(|()| None),
    };
    let node = match keys.text("node", TEXT_BYTES_MAX)? {
        None => None,
        Some(text) => match NodeId::new(text.clone()) {
            // Other nodes would take a node of this name for a garbage collector and not for a server.
            Ok(node) if node.only_collects() => {
                let allowed = "another name: gc- and 16 digits are those of `recalld remote gc`";
                return Err(keys.fault("node", &text, allowed));
            }
            Ok(node) => Some(node),
            Err(_) => {
                return Err(keys.fault("node", &text, "a word of a-z, 0-9 and -, at most 63"));
            }
        },
    };
    let lease = keys.whole("lease_seconds", lease_seconds())?.unwrap_or(LEASE_SECONDS);
    let delay = keys.whole("delay_ms", 1..=DELAY_MS_MAX)?.unwrap_or(DELAY_MS);
    let stale = keys.whole("stale_seconds_max", 1..=STALE_SECONDS_MAX)?.unwrap_or(STALE_SECONDS);
    let keep = keys.whole("keep_hours", 0..=KEEP_HOURS_MAX)?.unwrap_or(KEEP_HOURS);
    let fine = keys.whole("keep_fine_hours", 0..=KEEP_HOURS_MAX)?.unwrap_or(KEEP_FINE_HOURS);
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let remote = Remote {
        address,
        is_replica,
        durability: keys.word("durability", Safe::ALL, Safe::word)?.unwrap_or(Safe::Remote),
        coordinator: keys.text("coordinator", TEXT_BYTES_MAX)?,
        node,
        node_url: keys.text("node_url", TEXT_BYTES_MAX)?,
        lease_seconds: u32::try_from(lease).unwrap_or(u32::MAX),
        delay: Duration::from_millis(delay),
        stale_max: Duration::from_secs(stale),
        keep: (hours(keep), hours(fine)),
        cache_bytes: keys.whole("cache_bytes", limits::CACHE_BYTES_MIN..=CACHE_BYTES_MAX)?,
        endpoint: keys.text("endpoint", TEXT_BYTES_MAX)?,
        region: keys.text("region", TEXT_BYTES_MAX)?,
        path_style: keys.flag("path_style")?,
        allow_http: keys.flag("allow_http")?.unwrap_or(false),
        ca_file: keys.text("ca_file", TEXT_BYTES_MAX)?.map(|file| folder.join(file)),
        wrong_node: keys
            .word("wrong_node", WrongNode::ALL, WrongNode::word)?
            .unwrap_or(WrongNode::Proxy),
        secret_file: keys.text("secret_file", TEXT_BYTES_MAX)?.map(|file| folder.join(file)),
    };
    keys.finish()?;
    Ok(Some(remote))
}

/// Returns the allowed range of the lease.
pub(super) fn lease_seconds() -> std::ops::RangeInclusive<u64> {
    let (least, most) = recalld_replication::limits::LEASE_SECONDS.into_inner();
    least.into()..=most.into()
}

/// Renders the table as TOML; empty if there is no remote.
pub(super) fn show(remote: Option<&Remote>) -> String {
    let Some(remote) = remote else { return String::new() };
    let key = if remote.is_replica { "replica_of" } else { "to" };
    let mut out = format!("\n[remote]\n{key} = {}\n", quoted(&remote.address));
    let mut text = |name: &str, value: Option<&str>| {
        out += &value.map_or_else(String::new, |value| format!("{name} = {}\n", quoted(value)));
    };
    text("durability", Some(remote.durability.word()));
    text("coordinator", remote.coordinator.as_deref());
    text("node", remote.node.as_ref().map(NodeId::as_str));
    text("node_url", remote.node_url.as_deref());
    text("endpoint", remote.endpoint.as_deref());
    text("region", remote.region.as_deref());
    text("wrong_node", Some(remote.wrong_node.word()));
    for (name, file) in [("secret_file", &remote.secret_file), ("ca_file", &remote.ca_file)] {
        text(name, file.as_ref().map(|file| file.to_string_lossy()).as_deref());
    }
    let hours = |length: Duration| length.as_secs() / 3600;
    let (keep, fine) = remote.keep;
    for (name, number) in [
        ("lease_seconds", remote.lease_seconds.into()),
        ("delay_ms", u64::try_from(remote.delay.as_millis()).unwrap_or(u64::MAX)),
        ("stale_seconds_max", remote.stale_max.as_secs()),
        ("keep_hours", hours(keep)),
        ("keep_fine_hours", hours(fine)),
    ] {
        out += &format!("{name} = {number}\n");
    }
    if let Some(bytes) = remote.cache_bytes {
        out += &format!("cache_bytes = {bytes}\n");
    }
    if let Some(path_style) = remote.path_style {
        out += &format!("path_style = {path_style}\n");
    }
    out + &format!("allow_http = {}\n", remote.allow_http)
}
