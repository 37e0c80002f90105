//! Start of a node on its remote: clients, node name, heartbeats and cache.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::OpenError;
use engine::os::clock::Random;
use engine::os::disk::{Disk, FsDisk};
use recalld_replication::core::Writer;
use recalld_replication::{
    Address, Cache, Coordinator, Driver, Node, NodeId, Nonce, NotOurs, NotSeated, Place, Reached,
    S3Settings, introduce, put_small_file, reach,
};

use super::same;
use recalld_config::remote::Remote;
use recalld_fs_util::data_dir;

/// File with the generated name of a node.
const NODE_FILE: &str = "node";

/// Maximum wait of a start for the first confirmed heartbeat, beside the timeout of a request.
const HEARD_WAIT_MAX: Duration = Duration::from_secs(20);

/// Cache of files of followed workspaces, with the files that an earlier process left.
pub(super) fn cache(settings: &Remote, data: &Path) -> Result<Arc<Cache>, String> {
    let homes = data_dir::tenant_dirs(data)
        .map_err(|error| format!("{}: {error}", data.join("tenants").display()))?;
    let followed =
        homes.into_iter().filter(|home| recalld_replication::is_followed(home).is_ok_and(|it| it));
    let followed: Vec<_> = followed.collect();
    let free = FsDisk::open(data).and_then(|disk| disk.free_bytes());
    let free = free.map_err(|error| error.to_string())?;
    Ok(Cache::over(&followed, settings.cache_bytes, free))
}

/// Creates the clients of a remote.
pub fn reached(settings: &Remote) -> Result<Reached, String> {
    let objects = Address::parse(&settings.address).map_err(|why| why.to_string())?;
    let coordinator = settings.coordinator.as_deref().map(Coordinator::parse).transpose();
    let place = Place {
        objects,
        coordinator: coordinator.map_err(|why| why.to_string())?,
        s3: S3Settings {
            endpoint: settings.endpoint.clone(),
            region: settings.region.clone(),
            path_style: settings.path_style,
            allow_http: settings.allow_http,
            ca_file: settings.ca_file.clone(),
        },
        coordinator_ca_file: settings.ca_file.clone(),
    };
    reach(&place, &|name| std::env::var(name).ok()).map_err(|why| why.to_string())
}

/// Probes the remote for correct conditional writes, checks its identity, and starts the heartbeats.
pub(super) fn begin_to_live(
    settings: &Remote,
    (data, node): (&Path, NodeId),
    (reached, driver, random): (&Reached, &Driver, &dyn Random),
) -> Result<Node, String> {
    let address = &settings.address;
    reached.probe().map_err(|unfit| format!("{address}: {unfit}"))?;
    same::recognise(data, address, &*reached.objects, Nonce::drawn(random))
        .map_err(|why| format!("{address}: {why}"))?;
    let writer = Writer {
        node,
        run: Nonce::drawn(random),
        url: settings.node_url.clone().unwrap_or_default(),
    };
    let node = Node::start(driver.clone(), writer, settings.lease_seconds);
    let node = node.map_err(|error| error.to_string())?;
    let began = Instant::now();
    while !node.is_held() {
        if began.elapsed() > HEARD_WAIT_MAX {
            let why = node.trouble().unwrap_or_else(|| "it does not answer".to_owned());
            return Err(format!("{address}: {why}"));
        }
        driver.halt.wait(Duration::from_millis(20));
    }
    Ok(node)
}

/// Name of this node: from the settings, or generated.
pub(super) fn name_of(
    settings: &Remote,
    data: &Path,
    random: &dyn Random,
) -> Result<NodeId, String> {
    match &settings.node {
        Some(node) => Ok(node.clone()),
        None => kept_name(data, &Nonce::drawn(random).to_string()[..12]),
    }
}

/// Name stored in the data directory; a new one is stored if there is none.
fn kept_name(data: &Path, fresh: &str) -> Result<NodeId, String> {
    let path = data.join(NODE_FILE);
    let failed = |why: String| format!("{}: {why}", path.display());
    match fs::read_to_string(&path) {
        Ok(text) => NodeId::new(text.trim()).map_err(|why| failed(why.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let name = format!("node-{fresh}");
            let put = put_small_file(data, NODE_FILE, format!("{name}\n").as_bytes());
            put.map_err(|error| failed(error.to_string()))?;
            NodeId::new(name).map_err(|why| failed(why.to_string()))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Checks that a remote is empty or has this program's layout. For processes that only read.
///
/// # Errors
/// The remote did not respond, or has other content.
pub fn check_ours(reached: &Reached) -> Result<(), String> {
    match introduce(&*reached.objects, None) {
        Ok(_) | Err(NotOurs::Empty) => Ok(()),
        Err(why) => Err(why.to_string()),
    }
}

/// Returns true if another process has locked the directory.
pub fn is_locked(error: &NotSeated) -> bool {
    matches!(error, NotSeated::Store(OpenError::Locked))
}
