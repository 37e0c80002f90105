//! Records usage: accounts in batches, and failing accounts individually.
//!
//! A failing record must not block other accounts, and each of many failing accounts gets its retry. Hence each flush
//! resumes at the position where the last flush stopped.

use std::slice;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use engine::Micros;

use super::{Account, Meter, NO_MONTH, Settlement, Unavailable};
use recalld_common::Month;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of blocks per batch.
    const SETTLED_TOGETHER_MAX: usize = 256;

    /// Maximum number of splits in halves per flush after a failed batch. A single bad record among
    /// [`SETTLED_TOGETHER_MAX`] is found in sixteen writes.
    const SETTLED_IN_HALVES_MAX: usize = 64;

    /// Maximum number of previously failing accounts recorded individually per flush.
    const SETTLED_ALONE_MAX: usize = 64;
}

/// Start positions of the next flush among batched and individual accounts.
#[derive(Debug, Default)]
pub(super) struct Begin {
    together: usize,
    alone: usize,
}

type Known = (Arc<str>, Arc<Account>);

/// Outcome of a flush.
#[derive(Default)]
struct Done {
    /// Committed transactions.
    good: usize,
    /// Accounts whose usage could not be recorded.
    bad: usize,
    why: Option<Unavailable>,
}

/// Usage to record, with the index of its account.
type Due = (usize, Settlement);

/// State of one batched flush.
struct Go<'a> {
    meter: &'a Meter,
    accounts: &'a [Known],
    halves_left: usize,
    done: Done,
}

impl Meter {
    /// Records the usage of all accounts as far as possible.
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
        // A single failing account rejects only its own calls. If several fail and none succeeds, the store itself
        // fails: reject all.
        let is_failing = settled.good == 0 && settled.bad > 1;
        self.is_failing.store(is_failing, Ordering::SeqCst);
        settled.why.or(singly.why).map_or(Ok(()), Err)
    }

    /// Records the usage of one workspace. Returns the number of calls returned to its quota.
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

    /// Records accounts in batches of one transaction. `begin` becomes the start of the next flush: the first account
    /// left out.
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

    /// Records each account in a transaction of its own, if there is usage to record.
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

    /// Records usage in one transaction. Returns the number of calls returned to quotas.
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
    /// Records `due`; on failure, splits `due` in halves to record the valid part. Returns the first account left out
    /// after too many attempts.
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

    /// Returns true if no write succeeded and the attempts are exhausted.
    fn is_hopeless(&self) -> bool {
        self.done.good == 0 && self.halves_left == 0
    }
}

/// The split position nearest the middle that keeps each account's usage together.
fn middle(due: &[Due]) -> usize {
    let half = due.len() / 2;
    let begins = |at: &usize| due[*at - 1].0 != due[*at].0;
    let after = (half.max(1)..due.len()).find(begins);
    after.or_else(|| (1..half.max(1)).rev().find(begins)).unwrap_or(half)
}
