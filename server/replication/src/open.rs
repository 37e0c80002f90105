use std::path::PathBuf;
use std::sync::Arc;

use crate::address::{Address, Coordinator};
use crate::chain::Chain;
#[cfg(feature = "etcd")]
use crate::chain::etcd::Etcd;
use crate::chain::objects::ObjectChain;
use crate::counts::Counts;
use crate::environment::{Environment, Unusable};
use crate::objects::Objects;
use crate::objects::folder::Folder;
#[cfg(feature = "remote")]
use crate::objects::s3::S3;

/// Addresses of a remote, with connection settings.
#[derive(Debug, Clone)]
pub struct Place {
    /// Address of the objects.
    pub objects: Address,
    /// Address of the record logs, if they are not beside the objects.
    pub coordinator: Option<Coordinator>,
    /// Settings of a bucket.
    pub s3: S3Settings,
    /// Root certificates for the coordinator, which replace the default ones.
    pub coordinator_ca_file: Option<PathBuf>,
}

/// Settings of a bucket, which override the usual environment.
#[derive(Debug, Clone, Default)]
pub struct S3Settings {
    /// `http://HOST:PORT` or `https://HOST:PORT`. If neither this setting nor the environment nor the AWS profile has
    /// an endpoint: AWS's own.
    pub endpoint: Option<String>,
    /// Region of the bucket.
    pub region: Option<String>,
    /// True if the bucket is in the path, not in the host name. Default: true if an endpoint is given, even AWS's own,
    /// and for a bucket name with a dot.
    pub path_style: Option<bool>,
    /// True if plain HTTP may leave this machine.
    pub allow_http: bool,
    /// Root certificates, which replace the default ones.
    pub ca_file: Option<PathBuf>,
}

/// Clients of a remote.
#[derive(Debug, Clone)]
pub struct Reached {
    /// Object store.
    pub objects: Arc<dyn Objects>,
    /// Storage of the record logs.
    pub chain: Arc<dyn Chain>,
    /// Storage of the record logs as an object store, to which the probe sends its racing puts.
    pub raced: Arc<dyn Objects>,
    /// Request metrics of the object store.
    pub counts: Arc<Counts>,
    /// Request metrics of the coordinator.
    pub coordinator_counts: Arc<Counts>,
}

/// Creates the clients of a remote. Sends no request yet.
///
/// # Errors
/// A setting is wrong.
#[cfg_attr(
    not(feature = "remote"),
    expect(unused_variables, reason = "a folder has no credentials")
)]
pub fn reach(place: &Place, environment: Environment<'_>) -> Result<Reached, Unusable> {
    let (counts, coordinator_counts) = (Arc::<Counts>::default(), Arc::<Counts>::default());
    let objects: Arc<dyn Objects> = match &place.objects {
        #[cfg(not(feature = "remote"))]
        Address::S3 { .. } => {
            return Err(Unusable::new("this program was built without the feature `remote`"));
        }
        #[cfg(feature = "remote")]
        Address::S3 { bucket, prefix } => {
            Arc::new(S3::open(bucket, prefix, &place.s3, environment, Arc::clone(&counts))?)
        }
        Address::Folder(folder) => Arc::new(Folder::open(folder, Arc::clone(&counts))?),
    };
    let (chain, raced): (Arc<dyn Chain>, Arc<dyn Objects>) = match &place.coordinator {
        None => (Arc::new(ObjectChain::new(Arc::clone(&objects))), Arc::clone(&objects)),
        #[cfg(not(feature = "etcd"))]
        Some(_) => {
            return Err(Unusable::new("this program was built without the feature `etcd`"));
        }
        #[cfg(feature = "etcd")]
        Some(coordinator) => {
            let ca_file = place.coordinator_ca_file.as_deref();
            let kept = Arc::clone(&coordinator_counts);
            let etcd = Etcd::open(coordinator, ca_file, environment, Arc::clone(&objects), kept)?;
            let raced = Arc::new(etcd.as_objects());
            (Arc::new(etcd), raced)
        }
    };
    Ok(Reached { objects, chain, raced, counts, coordinator_counts })
}
