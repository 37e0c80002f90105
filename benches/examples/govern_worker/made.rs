//! A data directory with a given number of workspaces and credentials.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::os::clock::{SystemClock, SystemRandom};
use recalld_auth::Prefix;
use recalld_metastore::{Control, Kind, NewCredential, NewTenant};
use tempfile::TempDir;

use crate::Failure;

/// Most workspaces whose credentials make calls: fewer than the limit of open workspaces.
const CALLERS_MAX: u32 = 32;
pub(crate) const SCOPES: [&str; 2] = ["tenant:read", "brain:proxy"];
/// A plan whose rate limit is checked on each call and never reached.
const SETTINGS: &str = "[plans.measured]\nfamilies = [\"recall\", \"docstore\", \"items\", \"status\"]\n\
    scopes = [\"tenant:read\", \"brain:proxy\"]\nrate_per_second = 10000\nburst = 1000000\n";

/// A calling workspace with its bearer token and its workspace key.
pub(crate) struct Caller {
    pub(crate) slug: String,
    pub(crate) id: String,
    pub(crate) bearer: String,
    pub(crate) key: String,
}

pub(crate) struct Made {
    pub(crate) control: Arc<Control>,
    pub(crate) callers: Vec<Caller>,
    /// Label of the size, such as `1 workspaces of 1 credentials`.
    pub(crate) size: String,
    pub(crate) place: Place,
}

/// Temporary directory, removed after the measurement.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn data(&self) -> PathBuf {
        self.beside("data")
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Made {
    pub(crate) fn new(tenants: u32, each: u32) -> Result<Self, Failure> {
        let scratch = tempfile::tempdir()?;
        let data = scratch.path().join("data");
        private(&data)?;
        let file = data.join("control.redb");
        let control = Control::open(&file, Arc::new(SystemClock), Arc::new(SystemRandom))?;
        let mut callers = Vec::new();
        let scopes = SCOPES.map(str::to_owned);
        for number in 0..tenants {
            let slug = format!("tenant-{number}");
            control.create_tenant(&NewTenant {
                slug: &slug,
                title: "A workspace",
                plan: "measured",
            })?;
            let issue = |kind| {
                let new = NewCredential { kind, name: None, scopes: &scopes, expires_at: None };
                control.issue_credential(&slug, &new, &Prefix::default())
            };
            for _ in 1..each {
                issue(Kind::Bearer)?;
            }
            let issued = issue(Kind::Bearer)?;
            // Callers are spread evenly over all workspaces.
            if number % tenants.div_ceil(CALLERS_MAX) == 0 {
                private(&data.join("tenants").join(&slug).join("store"))?;
                let key = issue(Kind::Workspace)?.secret.expose().to_owned();
                let (id, bearer) = (issued.credential.id, issued.secret.expose().to_owned());
                callers.push(Caller { slug, id, bearer, key });
            }
        }
        std::fs::write(scratch.path().join("settings.toml"), SETTINGS)?;
        let size = format!("{tenants} workspaces of {each} credentials");
        Ok(Self { control: Arc::new(control), callers, size, place: Place(scratch) })
    }
}

fn private(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
