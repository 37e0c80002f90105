//! Usage of calls, and leased blocks of the monthly quota (CTL-90 to CTL-93).

use serde::{Deserialize, Serialize};

use super::credentials::{CredentialFault, active_tenant};
use super::error::ControlError;
use super::record::Record;
use super::schema::{self, TableEntry};
use super::store::Control;
use super::table::{Change, Look};
use super::text::under;
use recalld_common::slug::LOCAL_WORKSPACE;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of calls of one quota block.
    pub const BLOCK_CALLS_MAX: u32 = 64;
    /// Maximum number of leased quota blocks of one workspace and month.
    pub const BLOCKS_OUT_MAX: usize = 512;
    /// Maximum number of remembered closed quota blocks of one workspace and month. A delayed request for such a block
    /// may still arrive.
    pub const BLOCKS_OVER_MAX: usize = 256;
}

/// Lease time of a quota block in seconds. After a crash, the rest of a block is free again then.
pub(super) const BLOCK_SECONDS: u64 = 600;
/// A quota block has at most this fraction (1/16) of the remaining quota, so that no process withholds too much from
/// others.
const QUOTA_SHARES: u64 = 16;
/// Retention of a month's usage from the first block on, in seconds: 400 days.
const KEPT_SECONDS: u64 = 400 * 24 * 3_600;

/// A leased quota block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Id, unique within workspace and month.
    pub id: u64,
    /// Number of calls, at least one.
    pub calls: u32,
    /// Number of calls recorded as used.
    pub used: u32,
    /// Expiry of the lease, when unused calls are free again; in seconds since 1970.
    pub expires_at: u64,
}

/// Usage of a month, and its leased quota blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Time of the first block, in seconds since 1970.
    pub begun_at: u64,
    /// Number of used calls, including those of leased blocks.
    pub used: u64,
    /// Leased quota blocks.
    #[serde(default)]
    pub blocks: Vec<Block>,
    /// Quota blocks closed before their expiry, last closed at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<Over>,
}

/// A closed quota block, returned or used up: its id, and the time until which it is remembered, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over(pub u64, pub u64);

impl Record for Usage {
    const ENTRY: TableEntry = schema::USAGE;

    fn removed_at(&self) -> Option<u64> {
        Some(self.begun_at.saturating_add(KEPT_SECONDS))
    }
}

impl Usage {
    /// Number of leased and unused calls.
    fn held(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.calls.saturating_sub(block.used))).sum()
    }

    /// The leased block with this id, for a retry after a lost response.
    fn out(&self, id: u64) -> Result<Option<Block>, ControlError> {
        if self.over.iter().any(|Over(over, _)| *over == id) {
            return Err(ControlError::refused("block", "it is over already"));
        }
        let out = self.blocks.iter().find(|block| block.id == id).copied();
        match out {
            Some(Block { used: 1.., .. }) => {
                Err(ControlError::refused("block", "it is in use already"))
            }
            out => Ok(out),
        }
    }

    /// Closes a block: later requests for the block are rejected.
    fn end(&mut self, at: usize) {
        let block = self.blocks.remove(at);
        if self.over.len() >= BLOCKS_OVER_MAX {
            self.over.remove(0);
        }
        self.over.push(Over(block.id, block.expires_at));
    }
}

/// Usage of a quota block so far.
#[derive(Debug, Clone, Copy)]
pub struct Settlement<'a> {
    /// The workspace.
    pub tenant: &'a str,
    /// The month, `YYYY-MM`.
    pub month: &'a str,
    /// The id of the block.
    pub block: u64,
    /// Total number of used calls of the block; repeated settlements are idempotent.
    pub used: u32,
    /// True if the lease continues. Otherwise unused calls are free again.
    pub keep: bool,
}

fn check_month(month: &str) -> Result<(), ControlError> {
    let is_month = |bytes: &[u8]| {
        bytes.len() == 7
            && bytes[4] == b'-'
            && bytes.iter().enumerate().all(|(at, byte)| at == 4 || byte.is_ascii_digit())
            && (1..=12).contains(&(u32::from(bytes[5] - b'0') * 10 + u32::from(bytes[6] - b'0')))
    };
    if is_month(month.as_bytes()) {
        return Ok(());
    }
    Err(ControlError::refused("month", "it must be YYYY-MM"))
}

impl Control {
    /// Leases a quota block of up to `wanted` calls of the remaining monthly quota; `None` if the quota is used up.
    /// Without a quota, calls are always available. A retry with the same `id` after a lost response returns the same
    /// block (CTL-93).
    ///
    /// # Errors
    /// `Refused` if the workspace is not active, `month` is invalid, too many blocks are leased, or the block is in use
    /// or closed; otherwise a store error.
    pub fn take_block(
        &self,
        slug: &str,
        month: &str,
        id: u64,
        wanted: u32,
        quota: Option<u64>,
    ) -> Result<Option<Block>, ControlError> {
        check_month(month)?;
        let now = self.now();
        let key = under(slug, month);
        // Retries, and requests against a used-up quota, need no write transaction.
        let known = self.read(|view| -> Result<Option<Option<Block>>, ControlError> {
            check_active(view, slug)?;
            let usage = usage_in(view, &key, now)?;
            let out = usage.out(id)?;
            let is_used_up = || calls_of_block(&usage, wanted, quota) == 0;
            Ok(if out.is_none() && !is_used_up() { None } else { Some(out) })
        })?;
        if let Some(known) = known {
            return Ok(known);
        }
        self.write(|change| {
            check_active(change, slug)?;
            let mut usage = usage_in(change, &key, now)?;
            let out = usage.out(id)?;
            let calls = calls_of_block(&usage, wanted, quota);
            if out.is_some() || calls == 0 {
                return Ok(out);
            }
            if usage.blocks.len() >= BLOCKS_OUT_MAX {
                let why = format!("{BLOCKS_OUT_MAX} are out; wait until some are back");
                return Err(ControlError::refused("blocks", why));
            }
            let expires_at = now.saturating_add(BLOCK_SECONDS);
            let block = Block { id, calls, used: 0, expires_at };
            usage.blocks.push(block);
            change.put(&key, &usage)?;
            Ok(Some(block))
        })
    }

    /// Records the usage of blocks in one transaction. Blocks that are no longer leased are ignored.
    ///
    /// # Errors
    /// `Refused` if a month is invalid; otherwise a store error.
    pub fn settle(&self, settlements: &[Settlement<'_>]) -> Result<(), ControlError> {
        settlements.iter().try_for_each(|settlement| check_month(settlement.month))?;
        if settlements.is_empty() {
            return Ok(());
        }
        self.write(|change| settlements.iter().try_for_each(|one| settle_one(change, one)))
    }

    /// Usage of a month.
    ///
    /// # Errors
    /// `Refused` if `month` is invalid; otherwise a store error.
    pub fn usage(&self, slug: &str, month: &str) -> Result<Usage, ControlError> {
        check_month(month)?;
        let found: Option<Usage> = self.read(|view| view.find(&under(slug, month)))?;
        Ok(found.unwrap_or_default())
    }
}

/// The recorded usage, without expired blocks.
fn usage_in(look: &impl Look, key: &[u8], now: u64) -> Result<Usage, ControlError> {
    let found: Option<Usage> = look.find(key)?;
    let mut usage = found.unwrap_or_else(|| Usage { begun_at: now, ..Usage::default() });
    usage.blocks.retain(|block| now < block.expires_at);
    usage.over.retain(|Over(_, until)| now < *until);
    Ok(usage)
}

/// Number of calls of the next block.
fn calls_of_block(usage: &Usage, wanted: u32, quota: Option<u64>) -> u32 {
    let wanted = wanted.clamp(1, BLOCK_CALLS_MAX);
    let Some(quota) = quota else { return wanted };
    let left = quota.saturating_sub(usage.used).saturating_sub(usage.held());
    let share = (left / QUOTA_SHARES).max(1).min(left);
    wanted.min(u32::try_from(share).unwrap_or(BLOCK_CALLS_MAX))
}

fn settle_one(change: &Change<'_>, settlement: &Settlement<'_>) -> Result<(), ControlError> {
    let key = under(settlement.tenant, settlement.month);
    let Some(mut usage) = change.find::<Usage>(&key)? else { return Ok(()) };
    let is_it = |block: &Block| block.id == settlement.block;
    let Some(at) = usage.blocks.iter().position(is_it) else { return Ok(()) };
    let block = &mut usage.blocks[at];
    let used = settlement.used.clamp(block.used, block.calls.max(block.used));
    usage.used = usage.used.saturating_add(u64::from(used - block.used));
    block.used = used;
    if !settlement.keep {
        usage.end(at);
    }
    change.put(&key, &usage)
}

/// Calls of `local` are counted although that workspace has no record.
fn check_active(look: &impl Look, slug: &str) -> Result<(), ControlError> {
    if slug == LOCAL_WORKSPACE {
        return Ok(());
    }
    match active_tenant(look, slug) {
        Ok(_) => Ok(()),
        Err(CredentialFault::Control(error)) => Err(error),
        Err(fault) => Err(ControlError::refused("tenant", fault.to_string())),
    }
}
