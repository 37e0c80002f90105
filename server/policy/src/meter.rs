//! What calls cost: a reservation before each one, out of blocks of the quota that are on record before the first
//! of their calls runs.
//!
//! Owns which calls of which block are given, used and free again. Must not know how a block is kept (that is
//! behind [`Blocks`]), nor the time: each call says when it is.
//!
//! What holds at every moment (GOV-10 to GOV-16, GOV-25): a call that runs has a place in a block that is on record; a
//! block gives no more than it has; a block ends long before its record does. So the calls that run
//! are never more than the quota, whoever dies when. In doubt the answer is no.

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

    /// Calls that are asked for at once. The store gives fewer where the quota is nearly used up.
    pub const BLOCK_CALLS_MAX: u32 = 64;

    /// How long a block stays on record if nothing more is heard of it.
    pub const BLOCK_TIME: Duration = Duration::from_secs(600);

    /// How often what was used is to be written ([`Meter::flush`]): a crash forgives at most that much and the time of
    /// one write, within the second that is promised.
    pub const METER_FLUSH_EVERY: Duration = Duration::from_millis(500);

    /// The same where blocks are on record for several nodes: each write is a request to their remote. What could not
    /// be written is tried as often as alone.
    pub const METER_FLUSH_SHARED_EVERY: Duration = Duration::from_secs(3);

    /// A block gives nothing so shortly before its record expires: a call has at most [`CALL_TIME_MAX`], and what it
    /// used is written after it.
    const GIVE_MARGIN: Duration = Duration::from_secs(180);

    /// So long a block of which nobody knows whether it was taken is asked for by the same id. After that, what it
    /// could still give is not worth it, and it expires.
    const ASKED_AGAIN_MAX: Duration = Duration::from_secs(240);

    /// So shortly before, what is out of it counts as used, and it ends.
    const END_MARGIN: Duration = Duration::from_secs(30);

    /// Blocks of one workspace that are on record at a time. More are there only where many calls at the end of a
    /// quota got a block each, and none of these could be written as used.
    const BLOCKS_EACH_MAX: usize = 512;

    /// Workspaces of which blocks are on record at a time.
    const ACCOUNTS_MAX: usize = 65_536;

    /// How long a call waits for another one of its workspace that takes a block: a few writes of a slow disk.
    const TAKE_WAIT_MAX: Duration = Duration::from_secs(5);

    /// Calls of one workspace that wait so long for a block. Whoever comes when so many wait already waits only for
    /// [`CROWD_WAIT_MAX`]: each holds a worker, and the others are for other workspaces.
    const TAKE_WAITERS_MAX: usize = 4;

    /// How long these wait: a write of a disk that is not slow.
    const CROWD_WAIT_MAX: Duration = Duration::from_millis(250);

    /// Nothing is given once so long nobody has written what was used: whoever has to do that every
    /// [`METER_FLUSH_EVERY`] does it no more, or has waited for the record all that time.
    const FLUSH_OVERDUE: Duration = Duration::from_secs(10);

    /// How long it is remembered that a quota is used up, so that whoever goes on asking costs no transactions. What
    /// comes back from blocks of this process counts at once, and so does another quota.
    const USED_UP_FOR: Duration = Duration::from_secs(1);
}

const _: () = assert!(GIVE_MARGIN.as_secs() > CALL_TIME_MAX.as_secs() + END_MARGIN.as_secs());
const _: () =
    assert!(BLOCK_TIME.as_secs() >= 2 * GIVE_MARGIN.as_secs() + ASKED_AGAIN_MAX.as_secs());

const NOT_WRITTEN: &str = "calls that were used cannot be written; none is given until they can";

const NO_MONTH: &str = "the clock tells no month that quotas are kept for; set it right";

/// Part of a workspace's quota of one month, on record as taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Tells it from all others of the workspace and month.
    pub id: u64,
    /// How many calls, at least one.
    pub calls: u32,
    /// When the record gives the rest to others.
    pub expires_at: Micros,
}

/// What became of a block so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The workspace.
    pub slug: Arc<str>,
    /// The month that it is of.
    pub month: Month,
    /// The block.
    pub block: u64,
    /// How many of its calls were used, from its beginning: to say it again changes nothing.
    pub used: u32,
    /// Whether it goes on. If not, what was not used is free again.
    pub keep: bool,
}

/// What was to be written is not written: it is not known whether it will be there. What to do stands with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// Where blocks are on record.
pub trait Blocks: Send + Sync {
    /// Takes up to `wanted` calls out of what is left of the quota, durably; `None` where nothing is. Without a
    /// quota there is always something left, and what is used is counted as well. A block that was taken by this `id`
    /// and gave nothing yet is given again.
    ///
    /// # Errors
    /// The record cannot be written, or nobody knows whether it is.
    fn take_block(
        &self,
        slug: &str,
        month: Month,
        id: u64,
        wanted: u32,
        quota: Option<u64>,
    ) -> Result<Option<Block>, Unavailable>;

    /// Writes what was used of blocks, all of them or none. One that is not on record any more changes nothing, and
    /// is no error.
    ///
    /// # Errors
    /// The record cannot be written.
    fn settle(&self, settlements: &[Settlement]) -> Result<(), Unavailable>;
}

/// Why a call may not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The quota of the month is used up.
    QuotaExceeded {
        /// When the next month begins.
        resets_at: Micros,
    },
    /// Nothing can be reserved now: 503.
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

/// What of a quota is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reserved {
    /// Calls that run.
    pub running: u64,
    /// Calls that were taken out of the quota and are free for whoever comes.
    pub held: u64,
    /// Blocks that these are of.
    pub blocks: u64,
}

/// That one call may run. Released when it is dropped.
#[must_use = "a reservation that is dropped is released"]
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    month: Month,
    block: u64,
    is_committed: bool,
}

impl Reservation {
    /// The call was answered: it counts.
    pub fn commit(mut self) {
        self.is_committed = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.account.locked();
        // A block that ended meanwhile counted it already.
        if let Some(held) = state.find(self.month, self.block).filter(|held| !held.is_ending) {
            held.out -= 1;
            held.used += u32::from(self.is_committed);
        }
    }
}

/// Whose turn it is to take a block. However that ends, the others go on.
struct TakeTurn<'a>(&'a Account);

impl Drop for TakeTurn<'_> {
    fn drop(&mut self) {
        self.0.locked().is_taking = false;
        self.0.taken.notify_all();
    }
}

/// Gives calls of all workspaces, and writes what was used. [`Meter::flush`] has to be called every
/// [`METER_FLUSH_EVERY`], and [`Meter::close`] at the end.
pub struct Meter {
    blocks: Arc<dyn Blocks>,
    random: Arc<dyn Random>,
    accounts: RwLock<HashMap<Arc<str>, Arc<Account>>>,
    /// Held by who settles, so that nobody writes an older number over a newer one.
    settling: Mutex<Begin>,
    /// What was used could not be written: nothing more is given until it is.
    is_failing: AtomicBool,
    is_closed: AtomicBool,
    /// When what was used was written last, if it ever was.
    flushed: Mutex<Option<Instant>>,
    /// How long that may be ago.
    overdue: Duration,
    /// How long a call waits for a block that others wait for already.
    crowd_wait: Duration,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("is_failing", &self.is_failing).finish_non_exhaustive()
    }
}

impl Meter {
    /// Nothing is reserved yet.
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

    /// A call of a workspace. `quota` is how many there may be in this calendar month, if that is bounded.
    /// Writes to the record only where no block has a call left.
    ///
    /// # Errors
    /// There is none, or it cannot be known.
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

    /// Calls of a month that were answered and are not on record as used yet; what is on record is another's to say.
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

    /// What of a month's quota is reserved for a workspace now.
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

    /// Takes a block and gives its first call; notes the outcome for those who wait.
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
            // Whoever closed may have looked before this block was there.
            self.settle_all(now, true)?;
        }
        given
    }

    /// A block out of the quota; if need be out of what earlier ones of ours give back.
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

    /// Writes what was used since the last time, and gives back what blocks hold that are over. To be called every
    /// [`METER_FLUSH_EVERY`].
    ///
    /// # Errors
    /// Something could not be written: until it is, no more calls are given.
    pub fn flush(&self, now: Micros) -> Result<(), Unavailable> {
        let settled = self.settle_all(now, false);
        if !self.is_failing.load(Ordering::SeqCst) {
            *self.flushed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        // Who holds one may be about to take a block.
        accounts
            .retain(|_, account| Arc::strong_count(account) > 1 || account.locked().is_needed(now));
        settled
    }

    /// Gives back all that is not used; what is still out counts as used. From here on every call is refused.
    ///
    /// # Errors
    /// Something could not be written: it is given back when its block expires.
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

/// Waits until whoever takes a block has one or not. Who waited for the one that got none gets the same answer:
/// otherwise each would ask a record that does not answer, one after the other.
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
