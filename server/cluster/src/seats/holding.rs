//! Publishes this node's inventory: an erasure waits for all nodes that have bytes of its workspace.

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
    /// Publishes that this node is about to have bytes of a workspace, if it has none yet.
    ///
    /// # Errors
    /// The inventory could not be published.
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

    /// Publishes the inventory if it differs from the last one. With `looks`, the published object is read again: an
    /// older put may have arrived late and replaced it, or an operator may have run `forget-node` for this node.
    ///
    /// # Errors
    /// The inventory could not be published, or the local directories cannot be read.
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

    /// Returns true if a closed workspace still has bytes that were erased elsewhere.
    pub fn is_behind(&self, data: &Path, name: &str) -> bool {
        let (Ok(tenant), None) = (Tenant::new(name), self.at(name)) else { return false };
        let held = match held_in(&tenant_dir(data, name)) {
            Ok(Some(held)) => held,
            // Begun and never opened.
            Ok(None) if self.is_said(&tenant) => Holding::default(),
            _ => return false,
        };
        self.driver.chain.edge(&tenant).is_ok_and(|edge| edge.erased >= held.record.max(1))
    }

    fn is_said(&self, tenant: &Tenant) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.as_ref().is_some_and(|said| said.workspaces.contains_key(tenant))
    }

    /// Last published inventory, of this process or of the previous one, whose bytes are still here. After a failed put
    /// the object is read again, as the outcome of the put is unknown.
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

    /// Inventory of the workspace directories of a data directory.
    fn found(&self, data: &Path) -> Result<BTreeMap<Tenant, Holding>, String> {
        let since = u64::try_from(self.clock.now().0).unwrap_or(0);
        self.holdings.look(&data.join(TENANTS), UNIX_EPOCH + Duration::from_micros(since))
    }

    /// Inventory to publish, from the directories as of a moment ago and the workspaces published before.
    fn holds<'a>(
        &self,
        data: &Path,
        found: BTreeMap<Tenant, Holding>,
        said: impl Iterator<Item = &'a Tenant>,
    ) -> Holds {
        let mut workspaces = found;
        // A workspace published before its first byte arrived stays in the inventory until its directory surely has no
        // byte.
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
            // An open workspace is ahead of its directory's state. A workspace in a role change is locked and skipped.
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
