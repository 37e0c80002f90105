//! Clustering: builds the replica manager, the metastore's replication and the relay from the settings.

use std::sync::Arc;

use engine::os::clock::Random;

use super::{Settings, Times};
use recalld_auth::ClusterSecret;
use recalld_cluster::control_chain::{ControlChain, ThroughWriter};
use recalld_cluster::seats::Seats;
use recalld_cluster::{Cluster, Relay, Trust, Whereabouts};
use recalld_fs_util::start_error::{StartError, failed};
use recalld_metastore::Control;
use recalld_policy::meter::Blocks;
use recalld_telemetry::log;
use recalld_telemetry::log::Level;
use recalld_workspace::opening::keep_as_it_is;

/// Opens the replica manager; `None` if no remote is configured.
pub(super) fn seats(
    settings: &Settings,
    times: &Times,
    random: &Arc<dyn Random>,
) -> Result<Option<Arc<Seats>>, StartError> {
    let Some(remote) = &settings.config.remote else { return Ok(None) };
    let with = (&times.clock, random);
    let seats = Seats::open(remote, &settings.data, with, Arc::clone(&times.ticks));
    seats.map(|seats| Some(Arc::new(seats))).map_err(failed)
}

/// Replicates the metastore among the nodes that share a secret; `None` if there is no remote or no secret.
pub(super) fn share_control(
    settings: &Settings,
    seats: Option<&Seats>,
    secret: Option<&Arc<ClusterSecret>>,
    control: &Arc<Control>,
) -> Result<Option<Arc<ControlChain>>, StartError> {
    let (Some(seats), Some(secret)) = (seats, secret) else {
        keep_as_it_is(&settings.data, control);
        if seats.is_some() {
            let what = "tenants and their keys stay on this node: `remote.secret_file` is not set";
            log::event(Level::Warn, what, &[]);
        }
        return Ok(None);
    };
    let opened = seats.open_control(&settings.data, control, Arc::clone(secret));
    opened.map(Some).map_err(failed)
}

/// The source of quota blocks: the local metastore, or if nodes share the metastore, its leader.
pub(super) fn blocks(
    (seats, relay): (Option<&Arc<Seats>>, Option<&Arc<Relay>>),
    control: &Arc<Control>,
    chain: Option<&Arc<ControlChain>>,
) -> Arc<dyn Blocks> {
    let (Some(seats), Some(relay), Some(chain)) = (seats, relay, chain) else {
        return Arc::clone(control) as Arc<dyn Blocks>;
    };
    let (node, relay) = (seats.name().clone(), Arc::clone(relay));
    let through = Arc::new(ThroughWriter::new((control, chain), node, relay));
    control.ask_by(Arc::clone(&through) as _);
    through
}

/// The client for calls to other nodes; `None` without a remote.
pub(super) fn relay(seats: Option<&Arc<Seats>>) -> Result<Option<Arc<Relay>>, StartError> {
    let Some(seats) = seats else { return Ok(None) };
    Relay::new(&trust(seats)?).map(|relay| Some(Arc::new(relay))).map_err(failed)
}

/// The cluster view that forwards calls; `None` without a remote.
pub(super) fn cluster(seats: Option<&Arc<Seats>>, relay: Option<Arc<Relay>>) -> Option<Cluster> {
    let whereabouts = Arc::clone(seats?) as Arc<dyn Whereabouts>;
    Some(Cluster::new(whereabouts, relay?))
}

/// The trusted roots and the transport rule for connections to other nodes.
fn trust(seats: &Seats) -> Result<Trust, StartError> {
    let settings = seats.settings();
    let roots = settings.ca_file.as_ref().map(|file| {
        std::fs::read(file).map_err(|error| failed(format!("{}: {error}", file.display())))
    });
    Ok(Trust { roots: roots.transpose()?, allow_http: settings.allow_http })
}

/// Loads the cluster secret; `None` if the settings name no file.
pub(super) fn secret(settings: &Settings) -> Result<Option<Arc<ClusterSecret>>, StartError> {
    let file = settings.config.remote.as_ref().and_then(|remote| remote.secret_file.as_ref());
    let read = file.map(|file| ClusterSecret::read(file).map(Arc::new));
    read.transpose().map_err(|why| failed(format!("remote.secret_file: {why}")))
}
