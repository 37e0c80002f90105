//! From addresses and settings to what answers: the door of the clients.

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

/// Where a remote is, and how it is reached.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where its objects are.
    pub objects: Address,
    /// Where its chains are, if not beside the objects.
    pub coordinator: Option<Coordinator>,
    /// How a bucket is reached.
    pub s3: S3Settings,
    /// The certificates to believe of a coordinator, in place of the usual ones.
    pub coordinator_ca_file: Option<PathBuf>,
}

/// How a bucket is reached, where the usual environment does not say it.
#[derive(Debug, Clone, Default)]
pub struct S3Settings {
    /// `http://HOST:PORT` or `https://HOST:PORT`; AWS's own where neither this nor the environment has one.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Whether the bucket is a part of the path, not of the host's name. It is with any other endpoint than
    /// AWS's own, unless this says otherwise.
    pub path_style: Option<bool>,
    /// Whether plain HTTP is allowed to others than this machine.
    pub allow_http: bool,
    /// The certificates to believe, in place of the usual ones.
    pub ca_file: Option<PathBuf>,
}

/// A remote that can be asked. Nothing was asked of it yet.
#[derive(Debug, Clone)]
pub struct Reached {
    /// Its objects.
    pub objects: Arc<dyn Objects>,
    /// Its chains.
    pub chain: Arc<dyn Chain>,
    /// What keeps the chains, as objects: what is raced by the probe of a start.
    pub raced: Arc<dyn Objects>,
    /// What is asked of objects.
    pub counts: Arc<Counts>,
    /// What is asked of a coordinator.
    pub coordinator_counts: Arc<Counts>,
}

/// Makes the clients of a place.
///
/// # Errors
/// Which setting is wrong.
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
