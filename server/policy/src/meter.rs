//! Quota metering: each call needs a reservation from a quota block that is recorded before the first of its calls
//! runs.
//!
//! Storage of blocks is behind [`Blocks`], and callers pass the time.
//!
//! Invariants (GOV-10 to GOV-16, GOV-25): a running call has its place in a recorded block; a block reserves no more
//! calls than it has; a block closes long before its record expires. Hence the calls never exceed the quota, whichever
//! process crashes when. In doubt, a call is rejected.

mod account;
mod settling;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::Micros;
use engine::os::clock::Random;

use crate::limits::CALL_TIME_MAX;
use account::{Account, Held, State};
use recalld_common::month::Month;
use settling::Begin;

limit_table::limits! {
    pub(crate) const LIMITS = [settling];

    /// Calls requested per block. The store leases fewer if the quota is nearly used up.
    pub const BLOCK_CALLS_MAX: u32 = 64;

    /// Lifetime of a block's record without further writes.
    pub const BLOCK_TIME: Duration = Duration::from_secs(600);

    /// Interval of [`Meter::flush`]. A crash loses at most the usage of this interval and of a single write, within the
    /// promised second.
    pub const METER_FLUSH_EVERY: Duration = Duration::from_millis(500);

    /// Flush interval if several nodes share the record: each write is a request to their remote. A failed write is
    /// retried at the interval of a single node.
    pub const METER_FLUSH_SHARED_EVERY: Duration = Duration::from_secs(3);

    /// Before its record expires, a block stops reserving calls by this margin: a call runs for at most
    /// [`CALL_TIME_MAX`], and its usage is recorded afterwards.
    const GIVE_MARGIN: Duration = Duration::from_secs(180);

    /// If the outcome of a lease is unknown, the block is requested again under the same id for this long. Later, the
    /// block's remaining time is not worth a request, and the block expires.
    const ASKED_AGAIN_MAX: Duration = Duration::from_secs(240);

    /// Before its record expires, a block closes by this margin, and its outstanding calls count as used.
    const END_MARGIN: Duration = Duration::from_secs(30);

    /// Maximum number of recorded blocks per workspace. Reached only if many calls at the end of a quota got a block
    /// each and no usage could be recorded.
    const BLOCKS_EACH_MAX: usize = 512;

    /// Maximum number of workspaces with recorded blocks.
    const ACCOUNTS_MAX: usize = 65_536;

    /// Longest wait of a call while another call of its workspace leases a block: a few writes of a slow disk.
    const TAKE_WAIT_MAX: Duration = Duration::from_secs(5);

    /// Maximum number of calls of one workspace with this wait. Further calls wait only for [`CROWD_WAIT_MAX`]: each
    /// occupies a worker needed by other workspaces.
    const TAKE_WAITERS_MAX: usize = 4;

    /// Wait of a call beyond [`TAKE_WAITERS_MAX`]: a write of a disk that is not slow.
    const CROWD_WAIT_MAX: Duration = Duration::from_millis(250);

    /// If the last flush is older, no calls are reserved: the periodic task, with the interval [`METER_FLUSH_EVERY`],
    /// has stopped or has been waiting for the store.
    const FLUSH_OVERDUE: Duration = Duration::from_secs(10);

    /// Lifetime of the cached result that a quota is used up, so that repeated requests cost no transactions. Calls
    /// returned by this process and a changed quota take effect at once.
    const USED_UP_FOR: Duration = Duration::from_secs(1);
}

const _: () = assert!(GIVE_MARGIN.as_secs() > CALL_TIME_MAX.as_secs() + END_MARGIN.as_secs());
const _: () =
    assert!(BLOCK_TIME.as_secs() >= 2 * GIVE_MARGIN.as_secs() + ASKED_AGAIN_MAX.as_secs());

const NOT_WRITTEN: &str = "calls that were used cannot be written; none is given until they can";

const NO_MONTH: &str = "the clock tells no month that quotas are kept for; set it right";

/// A quota block: a part of a workspace's monthly quota, recorded as leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Unique id within the workspace and month.
    pub id: u64,
    /// Number of calls, at least one.
    pub calls: u32,
    /// Expiry of the record; the unused rest then returns to the quota.
    pub expires_at: Micros,
}

/// The usage of a block to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The workspace's slug.
    pub slug: Arc<str>,
    /// The block's month.
    pub month: Month,
    /// The block's id.
    pub block: u64,
    /// Total of used calls since the block began, so recording is idempotent.
    pub used: u32,
    /// True if the block stays open. Otherwise the unused calls return to the quota.
    pub keep: bool,
}

/// The record could not be written, or the outcome of the write is unknown. The message names a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// Durable store of quota blocks.
pub trait Blocks: Send + Sync {
    /// Leases up to `wanted` calls of the remaining quota, durably; `None` if nothing remains. Without a quota, calls
    /// always remain, and usage is counted as well. A block already leased under `id` and still unused is returned
    /// again.
    ///
    /// # Errors
    /// The record cannot be written, or the outcome is unknown.
    fn take_block(
        &self,
        slug: &str,
        month: Month,
        id: u64,
        wanted: u32,
        quota: Option<u64>,
    ) -> Result<Option<Block>, Unavailable>;

    /// Records usage of blocks, all or none. A block without a record is ignored without an error.
    ///
    /// # Errors
    /// The record cannot be written.
    fn settle(&self, settlements: &[Settlement]) -> Result<(), Unavailable>;
}

/// Reason for rejecting a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The monthly quota is used up.
    QuotaExceeded {
        /// Start of the next month.
        resets_at: Micros,
    },
    /// No reservation is possible now: 503.
    Unavailable(Unavailable),
}

impl From<Unavailable> for Refusal {
    fn from(why: Unavailable) -> Self {
        Self::Unavailable(why)
    }
}

fn unavailable<T>(why: &str) -> Result<T, Refusal> {
    Err(Unavailable(why.to_owned()).into())
}

/// The reserved part of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserved {
    /// Running calls.
    pub running: u64,
    /// Leased calls available for reservation.
    pub held: u64,
    /// Number of open blocks.
    pub blocks: u64,
}

/// The permission of one call to run. Released on drop.
#[must_use = "a reservation that is dropped is released"]
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    month: Month,
    block: u64,
    is_committed: bool,
}

impl Reservation {
    /// Counts the call as used, once answered.
    pub fn commit(mut self) {
        self.is_committed = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.account.locked();
        // A closed block has already counted the call.
        if let Some(held) = state.find(self.month, self.block).filter(|held| !held.is_ending) {
            held.out -= 1;
            held.used += u32::from(self.is_committed);
        }
    }
}

/// Marks one lease attempt in progress; wakes the waiting calls on drop, whatever the outcome.
struct TakeTurn<'a>(&'a Account);

impl Drop for TakeTurn<'_> {
    fn drop(&mut self) {
        self.0.locked().is_taking = false;
        self.0.taken.notify_all();
    }
}

/// Reserves calls of all workspaces and records usage. [`Meter::flush`] must be called every [`METER_FLUSH_EVERY`], and
/// [`Meter::close`] at the end.
pub struct Meter {
    blocks: Arc<dyn Blocks>,
    random: Arc<dyn Random>,
    accounts: RwLock<HashMap<Arc<str>, Arc<Account>>>,
    /// Locked while usage is recorded, so that no older count overwrites a newer one.
    settling: Mutex<Begin>,
    /// True after a failed flush: no calls are reserved until a flush succeeds.
    is_failing: AtomicBool,
    is_closed: AtomicBool,
    /// Time of the last successful flush; `None` before the first.
    flushed: Mutex<Option<Instant>>,
    /// Maximum age of the last flush.
    overdue: Duration,
    /// Longest wait for a block beyond [`TAKE_WAITERS_MAX`].
    crowd_wait: Duration,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("is_failing", &self.is_failing).finish_non_exhaustive()
    }
}

impl Meter {
    /// A meter without reservations.
    pub fn new(blocks: Arc<dyn Blocks>, random: Arc<dyn Random>) -> Self {
        Self {
            blocks,
            random,
            accounts: RwLock::default(),
            settling: Mutex::default(),
            is_failing: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            flushed: Mutex::default(),
            overdue: FLUSH_OVERDUE,
            crowd_wait: CROWD_WAIT_MAX,
        }
    }

    /// Reserves a call of a workspace. `quota` is the limit per calendar month, if any. Writes to the store only if no
    /// leased block has a call left.
    ///
    /// # Errors
    /// The quota is used up, or its state is unknown.
    pub fn reserve(
        &self,
        slug: &str,
        quota: Option<u64>,
        now: Micros,
    ) -> Result<Reservation, Refusal> {
        self.check_open()?;
        let Some(month) = Month::of(now) else {
            return unavailable(NO_MONTH);
        };
        let account = self.account(slug)?;
        let mut deadline = None;
        loop {
            let mut state = account.locked();
            if state.is_failing {
                return unavailable(NOT_WRITTEN);
            }
            if let Some(block) = state.give(month, now) {
                drop(state);
                return Ok(Reservation { account, month, block, is_committed: false });
            }
            if state.is_taking {
                let is_crowd = state.waiting >= TAKE_WAITERS_MAX;
                let longest = if is_crowd { self.crowd_wait } else { TAKE_WAIT_MAX };
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + longest);
                wait(&account, state, month, deadline)?;
                continue;
            }
            if state.is_used_up(month, quota, now) {
                return Err(Refusal::QuotaExceeded { resets_at: month.ends_at() });
            }
            if state.blocks.len() >= BLOCKS_EACH_MAX {
                return unavailable("too many blocks of calls wait to be written; try again");
            }
            state.is_taking = true;
            state.attempt += 1;
            state.refused = None;
            drop(state);
            let turn = TakeTurn(&account);
            let block = self.take(&account, slug, month, quota, now)?;
            drop(turn);
            return Ok(Reservation { account, month, block, is_committed: false });
        }
    }

    /// Calls of a month that were answered but are not recorded as used yet.
    pub fn used_since_written(&self, slug: &str, month: Month) -> u64 {
        let account = {
            let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
            accounts.get(slug).map(Arc::clone)
        };
        let Some(account) = account else { return 0 };
        let state = account.locked();
        let blocks = state.blocks.iter().filter(|held| held.month == month);
        blocks.map(|held| u64::from(held.used.saturating_sub(held.written))).sum()
    }

    /// The reserved part of a workspace's quota in a month.
    pub fn reserved(&self, slug: &str, month: Month) -> Reserved {
        let account = {
            let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
            accounts.get(slug).map(Arc::clone)
        };
        let mut reserved = Reserved::default();
        let Some(account) = account else { return reserved };
        let state = account.locked();
        for held in state.blocks.iter().filter(|held| held.month == month && !held.is_ending) {
            reserved.running += u64::from(held.out);
            reserved.held += u64::from(held.free());
            reserved.blocks += 1;
        }
        reserved
    }

    /// Leases a block and reserves its first call; stores a failure for the waiting calls.
    fn take(
        &self,
        account: &Account,
        slug: &str,
        month: Month,
        quota: Option<u64>,
        now: Micros,
    ) -> Result<u64, Refusal> {
        let taken = self.take_out(account, slug, month, quota, now);
        let mut state = account.locked();
        let given = taken.and_then(|block| {
            let held = Held { block, month, used: 0, out: 0, written: 0, is_ending: false };
            state.blocks.push(held);
            let given = state.give(month, now);
            let why =
                "a block of calls was empty, or over before it began; see that the clock is right";
            given.map_or_else(|| unavailable(why), Ok)
        });
        if let Err(refusal) = &given {
            let is_used_up = matches!(refusal, Refusal::QuotaExceeded { .. });
            state.used_up = quota.filter(|_| is_used_up).map(|quota| (month, quota, now));
            state.refused = Some((month, refusal.clone()));
        }
        drop(state);
        if self.is_closed.load(Ordering::SeqCst) {
            // `close` may have run before this block was added.
            self.settle_all(now, true)?;
        }
        given
    }

    /// Leases a block of the remaining quota, if necessary after returning the unused calls of this process's earlier
    /// blocks.
    fn take_out(
        &self,
        account: &Account,
        slug: &str,
        month: Month,
        quota: Option<u64>,
        now: Micros,
    ) -> Result<Block, Refusal> {
        let once = || {
            let id = account.locked().ask(month, now, &*self.random);
            let taken = self.blocks.take_block(slug, month, id, BLOCK_CALLS_MAX, quota)?;
            account.locked().asked = None;
            Ok::<_, Unavailable>(taken)
        };
        if let Some(block) = once()? {
            return Ok(block);
        }
        let came_back = self.settle_one(slug, month, now)?;
        let block = if came_back > 0 { once()? } else { None };
        block.ok_or(Refusal::QuotaExceeded { resets_at: month.ends_at() })
    }

    /// Records usage since the last flush and returns the unused calls of expiring blocks. Must be called every
    /// [`METER_FLUSH_EVERY`].
    ///
    /// # Errors
    /// Some usage could not be recorded: no more calls are reserved until a flush succeeds.
    pub fn flush(&self, now: Micros) -> Result<(), Unavailable> {
        let settled = self.settle_all(now, false);
        if !self.is_failing.load(Ordering::SeqCst) {
            *self.flushed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        // Another owner of the account may be about to lease a block.
        accounts
            .retain(|_, account| Arc::strong_count(account) > 1 || account.locked().is_needed(now));
        settled
    }

    /// Returns all unused calls; outstanding calls count as used. Every later reservation is rejected.
    ///
    /// # Errors
    /// Some usage could not be recorded: the unused calls return when their block expires.
    pub fn close(&self, now: Micros) -> Result<(), Unavailable> {
        self.is_closed.store(true, Ordering::SeqCst);
        self.settle_all(now, true)
    }

    fn check_open(&self) -> Result<(), Refusal> {
        if self.is_closed.load(Ordering::SeqCst) {
            return unavailable("the server is ending");
        }
        if self.is_failing.load(Ordering::SeqCst) {
            return unavailable(NOT_WRITTEN);
        }
        let flushed = *self.flushed.lock().unwrap_or_else(PoisonError::into_inner);
        if flushed.is_some_and(|flushed| flushed.elapsed() > self.overdue) {
            return unavailable(
                "calls that were used are not written any more; restart the server",
            );
        }
        Ok(())
    }

    fn account(&self, slug: &str) -> Result<Arc<Account>, Refusal> {
        let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.get(slug) {
            return Ok(Arc::clone(account));
        }
        drop(accounts);
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.get(slug) {
            return Ok(Arc::clone(account));
        }
        if accounts.len() >= ACCOUNTS_MAX {
            return unavailable("too many workspaces ask at once; try again");
        }
        let account = Arc::<Account>::default();
        accounts.insert(Arc::from(slug), Arc::clone(&account));
        Ok(account)
    }
}

/// Waits for the lease attempt in progress. If the attempt fails, all waiting calls get the same error: otherwise each
/// would query an unresponsive store in turn.
fn wait(
    account: &Account,
    mut state: MutexGuard<'_, State>,
    month: Month,
    deadline: Instant,
) -> Result<(), Refusal> {
    let attempt = state.attempt;
    let left = deadline.saturating_duration_since(Instant::now());
    let is_under_way = |state: &mut State| state.is_taking && state.attempt == attempt;
    state.waiting += 1;
    let waited = account.taken.wait_timeout_while(state, left, is_under_way);
    let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
    state.waiting -= 1;
    if timeout.timed_out() {
        return unavailable("another call of the workspace waits for a block of calls; try again");
    }
    match &state.refused {
        Some((of, refusal)) if state.attempt == attempt && *of == month => Err(refusal.clone()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
