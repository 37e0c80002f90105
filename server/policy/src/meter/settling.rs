//! What was used is written: of many workspaces together, and of those apart whose record cannot be written.
//!
//! Owns what is tried again, and where the next go begins: one record that is damaged holds nobody else's up, and
//! however many are, each has its turn.

use std::slice;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use engine::Micros;

use super::{Account, Meter, NO_MONTH, Settlement, Unavailable};
use recalld_common::Month;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Blocks that are written together.
    const SETTLED_TOGETHER_MAX: usize = 256;

    /// Writes in a go that are tried in halves, after what was to be written together was not: one record among
    /// [`SETTLED_TOGETHER_MAX`] is found in sixteen.
    const SETTLED_IN_HALVES_MAX: usize = 64;

    /// Accounts that are written one by one in a go, since they could not be before.
    const SETTLED_ALONE_MAX: usize = 64;
}

/// Where the next go begins among those that are written together, and among those that are written alone.
#[derive(Debug, Default)]
pub(super) struct Begin {
    together: usize,
    alone: usize,
}

type Known = (Arc<str>, Arc<Account>);

/// What became of a go.
#[derive(Default)]
struct Done {
    /// Transactions that were written.
    good: usize,
    /// Accounts whose settlements cannot be.
    bad: usize,
    why: Option<Unavailable>,
}

/// What is to be written of which account.
type Due = (usize, Settlement);

/// A go: all that is known for it.
struct Go<'a> {
    meter: &'a Meter,
    accounts: &'a [Known],
    halves_left: usize,
    done: Done,
}

impl Meter {
    /// Settles all accounts, as far as they can be.
    pub(super) fn settle_all(&self, now: Micros, is_close: bool) -> Result<(), Unavailable> {
        let month = Month::of(now).ok_or_else(|| Unavailable(NO_MONTH.to_owned()))?;
        let accounts: Vec<Known> = {
            let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
            let pair =
                |(slug, account): (&Arc<str>, &Arc<Account>)| (Arc::clone(slug), account.clone());
            accounts.iter().map(pair).collect()
        };
        let (alone, together): (Vec<_>, Vec<_>) =
            accounts.into_iter().partition(|(_, account)| account.locked().is_failing);
        let due = |(slug, account): &Known| account.locked().due(slug, month, now, is_close);
        let mut begin = self.begin();
        let settled = self.settle_together(&together, &mut begin.together, due);
        let singly = self.settle_alone(&alone, &mut begin.alone, due);
        // One whose record cannot be written stops itself. Where it is more than one, and nothing can be, it is no
        // matter of theirs.
        let is_failing = settled.good == 0 && settled.bad > 1;
        self.is_failing.store(is_failing, Ordering::SeqCst);
        settled.why.or(singly.why).map_or(Ok(()), Err)
    }

    /// The same for one workspace. Gives how many calls came back to its quota.
    pub(super) fn settle_one(
        &self,
        slug: &str,
        month: Month,
        now: Micros,
    ) -> Result<u64, Unavailable> {
        let known = {
            let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
            accounts.get_key_value(slug).map(|(slug, it)| (Arc::clone(slug), Arc::clone(it)))
        };
        let Some(known) = known else { return Ok(0) };
        let _turn = self.begin();
        let due = known.1.locked().due(&known.0, month, now, false);
        let due: Vec<Due> = due.into_iter().map(|settlement| (0, settlement)).collect();
        self.write(slice::from_ref(&known), &due)
    }

    fn begin(&self) -> MutexGuard<'_, Begin> {
        self.settling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Many in one transaction. `begin` is where the next go is to begin: at those that were left out of this one.
    fn settle_together(
        &self,
        accounts: &[Known],
        begin: &mut usize,
        due: impl Fn(&Known) -> Vec<Settlement>,
    ) -> Done {
        let halves_left = SETTLED_IN_HALVES_MAX;
        let mut go = Go { meter: self, accounts, halves_left, done: Done::default() };
        let (mut waiting, mut left_out) = (Vec::new(), None);
        let count = accounts.len();
        let first = if count == 0 { 0 } else { *begin % count };
        for at in (0..count).map(|step| (first + step) % count) {
            waiting.extend(due(&accounts[at]).into_iter().map(|settlement| (at, settlement)));
            if waiting.len() >= SETTLED_TOGETHER_MAX {
                left_out = left_out.or(go.write(&std::mem::take(&mut waiting)));
                if go.is_hopeless() {
                    break;
                }
            }
        }
        left_out = left_out.or(go.write(&waiting));
        *begin = left_out.unwrap_or(first);
        go.done
    }

    /// Each in a transaction of its own, as far as they have something to write.
    fn settle_alone(
        &self,
        accounts: &[Known],
        begin: &mut usize,
        due: impl Fn(&Known) -> Vec<Settlement>,
    ) -> Done {
        let mut done = Done::default();
        let count = accounts.len();
        for step in 0..count.min(SETTLED_ALONE_MAX) {
            let at = begin.wrapping_add(step) % count;
            let due: Vec<Due> = due(&accounts[at]).into_iter().map(|one| (at, one)).collect();
            let written = self.write(accounts, &due);
            accounts[at].1.locked().is_failing = written.is_err();
            done.why = written.err().or(done.why);
        }
        *begin = begin.wrapping_add(SETTLED_ALONE_MAX);
        done
    }

    /// One transaction. Gives how many calls came back to quotas.
    fn write(&self, accounts: &[Known], due: &[Due]) -> Result<u64, Unavailable> {
        if due.is_empty() {
            return Ok(0);
        }
        let settlements: Vec<Settlement> =
            due.iter().map(|(_, settlement)| settlement.clone()).collect();
        self.blocks.settle(&settlements)?;
        Ok(due.iter().map(|(at, settlement)| accounts[*at].1.locked().settled(settlement)).sum())
    }
}

impl Go<'_> {
    /// Writes these, and where that cannot be done, those of them that can, in halves. Gives the first account that
    /// was left out, because enough was tried.
    fn write(&mut self, due: &[Due]) -> Option<usize> {
        let (Some(&(first, _)), Some(&(last, _))) = (due.first(), due.last()) else { return None };
        match self.meter.write(self.accounts, due) {
            Ok(_) => {
                self.done.good += 1;
                None
            }
            Err(why) => {
                self.done.why = Some(why);
                if first == last {
                    self.done.bad += 1;
                    self.accounts[first].1.locked().is_failing = true;
                    return None;
                }
                if self.halves_left == 0 {
                    return Some(first);
                }
                self.halves_left -= 1;
                let (low, high) = due.split_at(middle(due));
                let left_out = self.write(low);
                left_out.or(self.write(high))
            }
        }
    }

    /// Whether all that was tried failed, and enough was.
    fn is_hopeless(&self) -> bool {
        self.done.good == 0 && self.halves_left == 0
    }
}

/// Where one of the accounts in the middle begins: what is of one account stays together.
fn middle(due: &[Due]) -> usize {
    let half = due.len() / 2;
    let begins = |at: &usize| due[*at - 1].0 != due[*at].0;
    let after = (half.max(1)..due.len()).find(begins);
    after.or_else(|| (1..half.max(1)).rev().find(begins)).unwrap_or(half)
}
