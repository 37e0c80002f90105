//! Access to the tenants' workspaces for a job on a whole data directory, in a server or in a command.
//!
//! Must not know what the job does with a workspace.

use std::path::Path;
use std::sync::Arc;

use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use engine::{Env, Options, Store};

use crate::keep_error::KeepError;
use recalld_audit::Audit;
use recalld_auth::Signer;
use recalld_fs_util::data_dir::tenant_dir;
use recalld_metastore::{Control, LISTED_MAX};
use recalld_workspace::tenants;
use recalld_workspace::tenants::Tenants;

const AGAIN: &str = "mend that, and try again";

/// A workspace that is open for the duration of a job's step.
pub(super) struct Lent<'a> {
    pub(super) store: &'a Store,
    pub(super) audit: &'a Audit,
    pub(super) signer: &'a Signer,
}

/// Way to open a workspace.
#[derive(Clone, Copy)]
pub enum Opener<'a> {
    /// By the server that has the data directory.
    Server(&'a Tenants),
    /// By this process, which has the data directory exclusively.
    Alone,
}

/// The metastore of a data directory, and the workspaces recorded in it.
#[derive(Clone, Copy)]
pub struct Others<'a> {
    /// The data directory.
    pub data: &'a Path,
    /// Metastore of the data directory.
    pub control: &'a Arc<Control>,
    /// Way to open a workspace.
    pub opener: Opener<'a>,
}

impl Others<'_> {
    /// Returns the names of all recorded workspaces, including deleted ones, in order.
    pub(super) fn names(&self) -> Result<Vec<String>, KeepError> {
        let mut names: Vec<String> = Vec::new();
        loop {
            let page = self.control.tenants(names.last().map(String::as_str), LISTED_MAX);
            let page = page.map_err(|error| KeepError::failed(error, AGAIN))?;
            let is_last = page.len() < LISTED_MAX;
            names.extend(page.into_iter().map(|tenant| tenant.slug));
            if is_last {
                return Ok(names);
            }
        }
    }

    /// Calls `work` with an open workspace.
    pub(super) fn with<T>(
        &self,
        name: &str,
        work: impl FnOnce(&Lent<'_>) -> Result<T, KeepError>,
    ) -> Result<T, KeepError> {
        let failed = |why: &dyn std::fmt::Display| {
            KeepError::failed(format!("the workspace {name}: {why}"), AGAIN)
        };
        match self.opener {
            Opener::Server(tenants) => {
                let held = tenants.open(name).map_err(|closed| failed(&closed))?;
                work(&Lent { store: &held.store, audit: &held.audit, signer: &held.signer })
            }
            Opener::Alone => {
                let folder = tenant_dir(self.data, name);
                let ground = Env::on_disk(&folder.join("store")).map_err(|why| failed(&why))?;
                let store = Store::open(ground, Options::default()).map_err(|why| failed(&why))?;
                let mut random = |bytes: &mut [u8]| SystemRandom.fill(bytes);
                let signer = recalld_auth::open_or_create_signing_key(&folder, &mut random);
                let (signer, _) = signer.map_err(|why| failed(&why))?;
                let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) =
                    (Arc::new(SystemClock), Arc::new(SystemRandom));
                let ledger = folder.join("ledger");
                let anchoring = tenants::anchoring(self.control, name, &ledger);
                let anchoring = anchoring.map_err(|why| failed(&why))?;
                let with = (clock, random);
                let audit = Audit::open_anchored(&ledger, name, signer.clone(), with, anchoring);
                let audit = audit.map_err(|why| failed(&why))?;
                work(&Lent { store: &store, audit: &audit, signer: &signer })
            }
        }
    }
}
