//! The blocks of one workspace: which of their calls are given, used and free again, and which block is asked for next.
//!
//! Owns what is remembered of a workspace. Must not know who waits for a block, nor where blocks are on record.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::Micros;
use engine::os::clock::Random;

use super::{ASKED_AGAIN_MAX, Block, END_MARGIN, GIVE_MARGIN, Refusal, Settlement, USED_UP_FOR};
use recalld_common::month::Month;

/// A block, as far as it is given away.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) block: Block,
    pub(super) month: Month,
    pub(super) used: u32,
    /// Reserved, and neither committed nor released.
    pub(super) out: u32,
    /// What is on record as used.
    pub(super) written: u32,
    /// It gives nothing any more and takes nothing back: `used` is final.
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

    /// Ends it if it can give nothing any more, and what is out of it came back or must not be waited for.
    fn end_if_over(&mut self, month: Month, now: Micros, is_close: bool) {
        let is_spent = self.out == 0 && (self.free() == 0 || !self.may_give(month, now));
        if is_spent || is_close || !self.is_within(now, END_MARGIN) {
            self.used += self.out;
            self.out = 0;
            self.is_ending = true;
        }
    }
}

/// The blocks of one workspace.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) state: Mutex<State>,
    /// Somebody has taken a block, or did not get one.
    pub(super) taken: Condvar,
}

/// A block that was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    id: u64,
    month: Month,
    at: Micros,
}

impl Asked {
    /// Whether it is worth to be asked for again.
    fn is_open(&self, now: Micros) -> bool {
        passed(self.at, now).is_some_and(|passed| passed < ASKED_AGAIN_MAX)
    }
}

/// How much time passed; `None` where the clock went back.
fn passed(since: Micros, now: Micros) -> Option<Duration> {
    let passed = now.0.checked_sub(since.0).and_then(|passed| u64::try_from(passed).ok());
    passed.map(Duration::from_micros)
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) blocks: Vec<Held>,
    pub(super) is_taking: bool,
    /// What was asked for last, as long as nobody knows what became of it.
    pub(super) asked: Option<Asked>,
    /// How many wait for that.
    pub(super) waiting: usize,
    /// What was used could not be written, while that of others could.
    pub(super) is_failing: bool,
    /// Counts those who took a block or tried to.
    pub(super) attempt: u64,
    /// Why the last one got none, and for which month, where that is so.
    pub(super) refused: Option<(Month, Refusal)>,
    /// That nothing is left of this quota of a month, and when that was found.
    pub(super) used_up: Option<(Month, u64, Micros)>,
}

impl Account {
    pub(super) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A call of the first block that has one; gives the block's id.
    pub(super) fn give(&mut self, month: Month, now: Micros) -> Option<u64> {
        let mut blocks = self.blocks.iter_mut();
        let from = blocks.find(|held| held.free() > 0 && held.may_give(month, now))?;
        from.out += 1;
        Some(from.block.id)
    }

    /// Whether it was found a moment ago that nothing is left of this quota.
    pub(super) fn is_used_up(&self, month: Month, quota: Option<u64>, now: Micros) -> bool {
        self.used_up.is_some_and(|(of, left, at)| {
            let is_fresh = passed(at, now).is_some_and(|passed| passed < USED_UP_FOR);
            (of, Some(left)) == (month, quota) && is_fresh
        })
    }

    /// Whether there is something to remember of it.
    pub(super) fn is_needed(&self, now: Micros) -> bool {
        let is_fresh =
            |(month, quota, _): &(Month, u64, Micros)| self.is_used_up(*month, Some(*quota), now);
        !self.blocks.is_empty()
            || self.used_up.as_ref().is_some_and(is_fresh)
            || self.asked.is_some_and(|asked| asked.is_open(now))
    }

    /// The id of the block to ask for: of one that may have been taken without our hearing of it, else a new one.
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

    /// What is to be written; ends what is over.
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

    /// It is written. Gives how many calls came back to the quota by it.
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
