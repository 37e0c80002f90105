//! What calls were used, and the blocks of the quota that are out (CTL-90 to CTL-93).

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

    /// Calls of one block.
    pub const BLOCK_CALLS_MAX: u32 = 64;
    /// Blocks of one workspace and month that are out.
    pub const BLOCKS_OUT_MAX: usize = 512;
    /// Blocks of one workspace and month that are over and are remembered. Whoever asked for one may be heard after it.
    pub const BLOCKS_OVER_MAX: usize = 256;
}

/// How long a block is out, in seconds: what a crash left of it is free again then.
pub(super) const BLOCK_SECONDS: u64 = 600;
/// One block is at most one of so many parts of what is left, so that none holds back what others could use.
const QUOTA_SHARES: u64 = 16;
/// How long the usage of a month stays on record after it was begun, in seconds: 400 days.
const KEPT_SECONDS: u64 = 400 * 24 * 3_600;

/// A block that is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Tells it from all others of the workspace and month.
    pub id: u64,
    /// How many calls it has, at least one.
    pub calls: u32,
    /// How many of them are on record as used.
    pub used: u32,
    /// When the rest is free again, in seconds since 1970.
    pub expires_at: u64,
}

/// What was used of a month, and what is out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// When the first block was taken, in seconds since 1970.
    pub begun_at: u64,
    /// Calls that were used, those of the blocks that are out among them.
    pub used: u64,
    /// What is out.
    #[serde(default)]
    pub blocks: Vec<Block>,
    /// What is over before its time, those that ended last at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<Over>,
}

/// A block that was given back or is used up: its id, and until when it is remembered, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over(pub u64, pub u64);

impl Record for Usage {
    const ENTRY: TableEntry = schema::USAGE;

    fn removed_at(&self) -> Option<u64> {
        Some(self.begun_at.saturating_add(KEPT_SECONDS))
    }
}

impl Usage {
    /// Calls that are out and not used.
    fn held(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.calls.saturating_sub(block.used))).sum()
    }

    /// A block that was taken by this id, for whoever did not hear of it.
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

    /// This block is out no more: whoever asks for it from now on was late.
    fn end(&mut self, at: usize) {
        let block = self.blocks.remove(at);
        if self.over.len() >= BLOCKS_OVER_MAX {
            self.over.remove(0);
        }
        self.over.push(Over(block.id, block.expires_at));
    }
}

/// What became of a block so far.
#[derive(Debug, Clone, Copy)]
pub struct Settlement<'a> {
    /// The workspace.
    pub tenant: &'a str,
    /// The month, `YYYY-MM`.
    pub month: &'a str,
    /// The block.
    pub block: u64,
    /// How many of its calls were used from its beginning: to say it again changes nothing.
    pub used: u32,
    /// Whether it goes on. If not, what was not used is free again.
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
    /// Takes up to `wanted` calls out of what is left of a month's quota; `None` where nothing is. Without a quota
    /// there is always something left. Whoever did not hear what became of a block asks for it again by its `id`, and
    /// is given the same one (CTL-93).
    ///
    /// # Errors
    /// `Refused` where the workspace is not active, `month` is none, too many blocks are out, or the block is in use or
    /// over; else a fault of the store.
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
        // Whoever asks again, or goes on asking for what is used up, costs no write.
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

    /// Writes what was used of blocks, all in one transaction. A block that is not out any more changes nothing.
    ///
    /// # Errors
    /// `Refused` where a month is none; else a fault of the store.
    pub fn settle(&self, settlements: &[Settlement<'_>]) -> Result<(), ControlError> {
        settlements.iter().try_for_each(|settlement| check_month(settlement.month))?;
        if settlements.is_empty() {
            return Ok(());
        }
        self.write(|change| settlements.iter().try_for_each(|one| settle_one(change, one)))
    }

    /// What was used of a month.
    ///
    /// # Errors
    /// `Refused` where `month` is none; else a fault of the store.
    pub fn usage(&self, slug: &str, month: &str) -> Result<Usage, ControlError> {
        check_month(month)?;
        let found: Option<Usage> = self.read(|view| view.find(&under(slug, month)))?;
        Ok(found.unwrap_or_default())
    }
}

/// What stands on record, without the blocks that are over.
fn usage_in(look: &impl Look, key: &[u8], now: u64) -> Result<Usage, ControlError> {
    let found: Option<Usage> = look.find(key)?;
    let mut usage = found.unwrap_or_else(|| Usage { begun_at: now, ..Usage::default() });
    usage.blocks.retain(|block| now < block.expires_at);
    usage.over.retain(|Over(_, until)| now < *until);
    Ok(usage)
}

/// How many calls a block may have.
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

/// Calls of `local` are counted without a record of it.
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
