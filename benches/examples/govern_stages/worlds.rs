//! Control stores with so many workspaces, and what stands around one in a server.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use engine::os::clock::{Clock, SystemClock, SystemRandom};
use engine::{ItemId, Micros};
use server::auth::token::Claims;
use server::auth::{Prefix, Signer};
use server::authority::{Authority, seconds};
use server::control::{Control, Kind, NewCredential, NewTenant};
use server::govern::meter::Meter;
use server::govern::rate::Buckets;
use server::govern::{Audit, Rules};
use server::oauth::Places;

use crate::{Failure, SCOPES};

/// Credentials of each workspace.
const EACH: usize = 10;
const ISSUER: &str = "http://127.0.0.1:1";
const RESOURCE: &str = "http://127.0.0.1:1/mcp";

/// Somebody with a bearer.
#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) workspace: String,
    pub(crate) id: String,
    pub(crate) secret: String,
}

/// A control store, and what a call goes through beside it.
pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) control: Arc<Control>,
    pub(crate) authority: Authority,
    pub(crate) rates: Buckets,
    pub(crate) meter: Meter,
    pub(crate) rules: Rules,
    pub(crate) audit: Audit,
    pub(crate) item: ItemId,
    holders: Vec<Holder>,
}

impl World {
    pub(crate) fn made(
        folder: &Path,
        name: &'static str,
        workspaces: usize,
    ) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)?;
        let (control, holders) = fill(&folder.join("control.redb"), workspaces)?;
        control.rotate_token_key(0)?;
        let signer = Signer::from_seed(&[7; 32]);
        let audit = Audit::open(
            &folder.join("ledger"),
            "bench",
            signer,
            Arc::new(SystemClock),
            Arc::new(SystemRandom),
        )?;
        Ok(Self {
            name,
            authority: Authority::new(Places::new(ISSUER, RESOURCE)?, &SystemRandom),
            rates: Buckets::new(Instant::now()),
            meter: Meter::new(Arc::clone(&control) as Arc<_>),
            rules: Rules::initial(),
            audit,
            item: ItemId(9),
            control,
            holders,
        })
    }

    pub(crate) fn now(&self) -> Micros {
        SystemClock.now()
    }

    /// Another one for each call, from all over the control store.
    pub(crate) fn holder(&self, call: usize) -> &Holder {
        &self.holders[call.wrapping_mul(7919) % self.holders.len()]
    }

    /// A token that nobody has seen.
    pub(crate) fn token(&self, holder: &Holder, call: usize) -> Result<String, Failure> {
        let now = seconds(self.now());
        Ok(self.authority.mint(
            &self.control,
            &Claims {
                audience: RESOURCE.to_owned(),
                client: holder.workspace.clone(),
                expires_at: now + 3_600,
                issued_at: now,
                issuer: ISSUER.to_owned(),
                id: format!("{call:032x}"),
                scope: SCOPES.join(" "),
                hangs_on: holder.id.clone(),
                subject: format!("key:{}", holder.id),
                workspace: holder.workspace.clone(),
            },
        )?)
    }
}

/// Makes a control store with so many workspaces.
pub(crate) fn fill(path: &Path, workspaces: usize) -> Result<(Arc<Control>, Vec<Holder>), Failure> {
    let control = Control::open(path, Arc::new(SystemClock), Arc::new(SystemRandom))?;
    let prefix = Prefix::new("recalld").ok_or("a prefix")?;
    let scopes = SCOPES.map(str::to_owned);
    let mut holders = Vec::new();
    for number in 0..workspaces {
        let slug = format!("bench-{number:04}");
        control.create_tenant(&NewTenant { slug: &slug, title: "A bench", plan: "team" })?;
        for _ in 0..EACH {
            let new =
                NewCredential { kind: Kind::Bearer, name: None, scopes: &scopes, expires_at: None };
            let issued = control.issue_credential(&slug, &new, &prefix)?;
            holders.push(Holder {
                workspace: slug.clone(),
                id: issued.credential.id,
                secret: issued.secret.expose().to_owned(),
            });
        }
    }
    Ok((Arc::new(control), holders))
}
