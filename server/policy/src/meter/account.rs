//! Leased blocks of one workspace: reserved, used and available calls, and the next block to request.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::Micros;
use engine::os::clock::Random;

use super::{ASKED_AGAIN_MAX, Block, END_MARGIN, GIVE_MARGIN, Refusal, Settlement, USED_UP_FOR};
use recalld_common::month::Month;

/// A leased block and its usage.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) block: Block,
    pub(super) month: Month,
    pub(super) used: u32,
    /// Calls reserved, and neither committed nor released.
    pub(super) out: u32,
    /// Calls recorded as used.
    pub(super) written: u32,
    /// The block is closed: no reservations or releases, and `used` is final.
    pub(super) is_ending: bool,
}

impl Held {
    pub(super) fn free(&self) -> u32 {
        self.block.calls.saturating_sub(self.used).saturating_sub(self.out)
    }

    fn is_within(&self, now: Micros, margin: Duration) -> bool {
        let margin = i64::try_from(margin.as_micros()).unwrap_or(i64::MAX);
        now < Micros(self.block.expires_at.0.saturating_sub(margin))
    }

    fn may_give(&self, month: Month, now: Micros) -> bool {
        !self.is_ending && self.month == month && self.is_within(now, GIVE_MARGIN)
    }

    /// Closes the block if no call can be reserved and none is outstanding, at shutdown, or shortly before its record
    /// expires.
    fn end_if_over(&mut self, month: Month, now: Micros, is_close: bool) {
        let is_spent = self.out == 0 && (self.free() == 0 || !self.may_give(month, now));
        if is_spent || is_close || !self.is_within(now, END_MARGIN) {
            self.used += self.out;
            self.out = 0;
            self.is_ending = true;
        }
    }
}

/// The leased blocks of one workspace.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) state: Mutex<State>,
    /// Signaled at the end of each lease attempt.
    pub(super) taken: Condvar,
}

/// A requested block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    id: u64,
    month: Month,
    at: Micros,
}

impl Asked {
    /// Returns true if a retry under the same id is worthwhile.
    fn is_open(&self, now: Micros) -> bool {
        passed(self.at, now).is_some_and(|passed| passed < ASKED_AGAIN_MAX)
    }
}

/// Elapsed time; `None` if the clock went back.
fn passed(since: Micros, now: Micros) -> Option<Duration> {
    let passed = now.0.checked_sub(since.0).and_then(|passed| u64::try_from(passed).ok());
    passed.map(Duration::from_micros)
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) blocks: Vec<Held>,
    pub(super) is_taking: bool,
    /// The last requested block, while its outcome is unknown.
    pub(super) asked: Option<Asked>,
    /// Number of calls waiting for a lease.
    pub(super) waiting: usize,
    /// True if this workspace's usage could not be recorded while that of others could.
    pub(super) is_failing: bool,
    /// Number of lease attempts.
    pub(super) attempt: u64,
    /// Error and month of the last lease attempt, if it failed.
    pub(super) refused: Option<(Month, Refusal)>,
    /// Month and quota last found used up, and the time of that result.
    pub(super) used_up: Option<(Month, u64, Micros)>,
}

impl Account {
    pub(super) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Reserves a call in the first block with one available. Returns the block's id.
    pub(super) fn give(&mut self, month: Month, now: Micros) -> Option<u64> {
        let mut blocks = self.blocks.iter_mut();
        let from = blocks.find(|held| held.free() > 0 && held.may_give(month, now))?;
        from.out += 1;
        Some(from.block.id)
    }

    /// Returns true if this quota was found used up within [`USED_UP_FOR`].
    pub(super) fn is_used_up(&self, month: Month, quota: Option<u64>, now: Micros) -> bool {
        self.used_up.is_some_and(|(of, left, at)| {
            let is_fresh = passed(at, now).is_some_and(|passed| passed < USED_UP_FOR);
            (of, Some(left)) == (month, quota) && is_fresh
        })
    }

    /// Returns true if the account has state to retain.
    pub(super) fn is_needed(&self, now: Micros) -> bool {
        let is_fresh =
            |(month, quota, _): &(Month, u64, Micros)| self.is_used_up(*month, Some(*quota), now);
        !self.blocks.is_empty()
            || self.used_up.as_ref().is_some_and(is_fresh)
            || self.asked.is_some_and(|asked| asked.is_open(now))
    }

    /// The id of the next block to request: that of a lease with unknown outcome, else a new one.
    pub(super) fn ask(&mut self, month: Month, now: Micros, random: &dyn Random) -> u64 {
        let again = self.asked.filter(|asked| asked.month == month && asked.is_open(now));
        let new = || {
            let mut id = [0; 8];
            random.fill(&mut id);
            Asked { id: u64::from_le_bytes(id), month, at: now }
        };
        self.asked.insert(again.unwrap_or_else(new)).id
    }

    pub(super) fn find(&mut self, month: Month, block: u64) -> Option<&mut Held> {
        self.blocks.iter_mut().find(|held| held.block.id == block && held.month == month)
    }

    /// Closes finished blocks and returns the usage to record.
    pub(super) fn due(
        &mut self,
        slug: &Arc<str>,
        month: Month,
        now: Micros,
        close: bool,
    ) -> Vec<Settlement> {
        self.blocks.iter_mut().for_each(|held| held.end_if_over(month, now, close));
        let due = self.blocks.iter().filter(|held| held.is_ending || held.used != held.written);
        let settlement = |held: &Held| Settlement {
            slug: Arc::clone(slug),
            month: held.month,
            block: held.block.id,
            used: held.used,
            keep: !held.is_ending,
        };
        due.map(settlement).collect()
    }

    /// Applies a recorded settlement. Returns the number of calls returned to the quota.
    pub(super) fn settled(&mut self, settlement: &Settlement) -> u64 {
        let is_it =
            |held: &Held| held.block.id == settlement.block && held.month == settlement.month;
        let Some(at) = self.blocks.iter().position(is_it) else { return 0 };
        if settlement.keep {
            self.blocks[at].written = settlement.used;
            return 0;
        }
        let came_back = self.blocks.remove(at).free();
        if came_back > 0 {
            self.used_up = None;
        }
        u64::from(came_back)
    }
}
