//! What this node has copies of, as it is said to the others: whoever erases waits for those who have some.
//!
//! Owns what was said last. Must not know what an erasure is.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, UNIX_EPOCH};

use recalld_replication::limits::HOLDS_BYTES_MAX;
use recalld_replication::{
    Away, Holding, Holds, Key, NotSeated, Role, Tenant, held_in, may_have_bytes,
};

use super::table::{Seats, tenant_of};
use recalld_fs_util::data_dir::{TENANTS, tenant_dir};

impl Seats {
    /// Says that this node is about to have a workspace, where nothing of it was here yet.
    ///
    /// # Errors
    /// Nobody heard it.
    pub(super) fn announce(&self, name: &str, home: &Path) -> Result<(), NotSeated> {
        if held_in(home).map_err(NotSeated::Here)?.is_some() {
            return Ok(());
        }
        let tenant = tenant_of(name)?;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut holds = self.said(told.take())?;
        holds.workspaces.entry(tenant).or_default();
        self.say(&holds)?;
        *told = Some(holds);
        Ok(())
    }

    /// Says what this node has, if that is not what it said last. `looks` asks whether that is there still: what it
    /// said before that may have come late and be in its place, and somebody may have taken this node for gone.
    ///
    /// # Errors
    /// Nobody heard it; or what is here cannot be read.
    pub fn tell_holds(&self, data: &Path, looks: bool) -> Result<(), String> {
        let found = self.found(data)?;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let last = told.take();
        let is_known = last.is_some();
        let kept = last.clone().filter(|_| !looks);
        let there = self.said(kept).map_err(|why| why.to_string())?;
        let before = last.iter().chain([&there]).flat_map(|said| said.workspaces.keys());
        let holds = self.holds(data, found, before);
        if holds != there || !is_known {
            self.say(&holds).map_err(|why| why.to_string())?;
        }
        *told = Some(holds);
        Ok(())
    }

    /// Whether a workspace that is not open has something still that was erased elsewhere.
    pub fn is_behind(&self, data: &Path, name: &str) -> bool {
        let (Ok(tenant), None) = (Tenant::new(name), self.at(name)) else { return false };
        let held = match held_in(&tenant_dir(data, name)) {
            Ok(Some(held)) => held,
            // Begun, and never opened.
            Ok(None) if self.is_said(&tenant) => Holding::default(),
            _ => return false,
        };
        self.driver.chain.edge(&tenant).is_ok_and(|edge| edge.erased >= held.record.max(1))
    }

    fn is_said(&self, tenant: &Tenant) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.as_ref().is_some_and(|said| said.workspaces.contains_key(tenant))
    }

    /// What was said last: by this run, or by the one before, whose bytes are here still. Asked anew after a failure,
    /// since what came of it nobody knows.
    fn said(&self, told: Option<Holds>) -> Result<Holds, NotSeated> {
        if let Some(told) = told {
            return Ok(told);
        }
        let key = Key::Holds(self.name.clone());
        let bytes = self.driver.objects.get(&key, None, HOLDS_BYTES_MAX as u64);
        match bytes.map_err(|Away { why, .. }| NotSeated::Away(why))? {
            Some(bytes) => Holds::decode(&bytes).map_err(NotSeated::Damage),
            None => Ok(Holds { node: self.name.clone(), workspaces: BTreeMap::new() }),
        }
    }

    fn say(&self, holds: &Holds) -> Result<(), NotSeated> {
        let put = self.driver.objects.put(&Key::Holds(self.name.clone()), &holds.encode());
        put.map_err(|Away { why, .. }| NotSeated::Away(why))
    }

    /// What the folders of a data directory say that they have.
    fn found(&self, data: &Path) -> Result<BTreeMap<Tenant, Holding>, String> {
        let since = u64::try_from(self.clock.now().0).unwrap_or(0);
        self.holdings.look(&data.join(TENANTS), UNIX_EPOCH + Duration::from_micros(since))
    }

    /// What is to be said, where the folders had this a moment ago and these were said before.
    fn holds<'a>(
        &self,
        data: &Path,
        found: BTreeMap<Tenant, Holding>,
        said: impl Iterator<Item = &'a Tenant>,
    ) -> Holds {
        let mut workspaces = found;
        // What was said before its first byte came stays until it is sure that none did.
        for tenant in said {
            let may_be_here = || {
                let name = tenant.as_str();
                self.at(name).is_some() || may_have_bytes(&tenant_dir(data, name))
            };
            if !workspaces.contains_key(tenant) && may_be_here() {
                workspaces.insert(tenant.clone(), Holding::default());
            }
        }
        for name in self.open_names() {
            let (Some(at), Ok(tenant)) = (self.at(&name), Tenant::new(&*name)) else { continue };
            let holding = workspaces.entry(tenant).or_default();
            // One that is open is further than its folder remembers; one that changes is not waited for.
            let open = at.try_read().ok().and_then(|at| match &at.role {
                Some(Role::Leads(carrier)) => Some(carrier.standing().record),
                Some(Role::Follows(following)) => Some(following.age().at.number),
                None => None,
            });
            holding.record = open.unwrap_or_default().max(holding.record);
        }
        Holds { node: self.name.clone(), workspaces }
    }
}
