//! Group commit: one thread syncs the log for all writers that wait for it.
//!
//! After DeWitt et al., "Implementation techniques for main memory database systems" (SIGMOD 1984), section 5.2. While
//! one thread (the group's leader) syncs, others append, and the next sync covers all of them. A writer waits for at
//! most one group commit with an unknown outcome.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::WriteError;
use crate::ids::Seq;

/// Newest durable commit, and the election of the syncing thread.
#[derive(Debug)]
pub(crate) struct GroupCommit {
    state: Mutex<CommitState>,
    changed: Condvar,
}

#[derive(Debug)]
struct CommitState {
    /// Commits up to this one have reached their configured durability.
    durable_seq: Seq,
    has_leader: bool,
    /// Number of group commits with an unknown outcome; `why` is the last error.
    indeterminate: u64,
    last_failure: String,
}

impl GroupCommit {
    /// Starts with all commits up to `settled` on disk.
    pub(crate) fn new(settled: Seq) -> Self {
        let state = CommitState {
            durable_seq: settled,
            has_leader: false,
            indeterminate: 0,
            last_failure: String::new(),
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Records that commits up to `seq` are on disk, synced by any thread.
    pub(crate) fn mark_durable(&self, seq: Seq) {
        let mut state = self.state();
        state.durable_seq = state.durable_seq.max(seq);
        drop(state);
        self.changed.notify_all();
    }

    /// Blocks until commit `seq` is on disk. `lead` syncs all bytes written before its call and returns the newest
    /// commit among them; one thread at a time executes it. `stopped` returns the error if no further commit will
    /// become durable.
    pub(crate) fn wait_durable(
        &self,
        seq: Seq,
        lead: impl FnOnce() -> Result<Seq, WriteError>,
        stopped: impl Fn() -> Option<WriteError>,
    ) -> Result<(), WriteError> {
        let mut state = self.state();
        let unsure = state.indeterminate;
        while state.durable_seq < seq && state.has_leader {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.durable_seq >= seq {
            return Ok(());
        }
        if let Some(error) = stopped() {
            return Err(error);
        }
        if state.indeterminate != unsure {
            return Err(WriteError::Indeterminate(state.last_failure.clone()));
        }
        state.has_leader = true;
        drop(state);
        let led = LeaderGuard { group_commit: self };
        let settled = lead().inspect_err(|error| {
            if let WriteError::Indeterminate(why) = error {
                let mut state = self.state();
                state.indeterminate += 1;
                state.last_failure.clone_from(why);
            }
        })?;
        assert!(settled >= seq, "the leader's own commit was written before it led");
        let mut state = self.state();
        state.durable_seq = state.durable_seq.max(settled);
        drop(state);
        drop(led);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, CommitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases the group's leadership on any end, a panic too; otherwise the waiting threads would block forever.
struct LeaderGuard<'a> {
    group_commit: &'a GroupCommit,
}

impl Drop for LeaderGuard<'_> {
    fn drop(&mut self) {
        self.group_commit.state().has_leader = false;
        self.group_commit.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn concurrent_commits_share_one_sync_and_wait_for_it() {
        const WRITERS: usize = 8;
        const ROUNDS: usize = 200;
        let settling = GroupCommit::new(0);
        let (written, synced, leads) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(0));
        let all_have_written = Barrier::new(WRITERS);
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let seq = written.fetch_add(1, Ordering::SeqCst) + 1;
                        all_have_written.wait();
                        let lead = || {
                            let all = written.load(Ordering::SeqCst);
                            assert!(synced.fetch_max(all, Ordering::SeqCst) <= all);
                            leads.fetch_add(1, Ordering::SeqCst);
                            Ok(all)
                        };
                        settling.wait_durable(seq, lead, || None).unwrap();
                        assert!(synced.load(Ordering::SeqCst) >= seq);
                    }
                });
            }
        });
        assert_eq!(leads.load(Ordering::SeqCst), ROUNDS, "the first of a round leads for all");
    }

    #[test]
    fn waiter_of_an_indeterminate_sync_does_not_lead_the_next() {
        const ROUNDS: usize = 100_000;
        let unsure = || WriteError::Indeterminate("no answer".to_owned());
        let has_waited = (0..ROUNDS).any(|_| {
            let settling = GroupCommit::new(0);
            let (is_led, asks) = (Barrier::new(2), Barrier::new(2));
            std::thread::scope(|scope| {
                let second = scope.spawn(|| {
                    is_led.wait();
                    asks.wait();
                    settling.wait_durable(2, || Ok(2), || None)
                });
                let lead = || {
                    is_led.wait();
                    asks.wait();
                    std::thread::yield_now();
                    Err(unsure())
                };
                assert!(matches!(
                    settling.wait_durable(1, lead, || None),
                    Err(WriteError::Indeterminate(_))
                ));
                // The second thread may have arrived too late, and have led itself.
                second.join().unwrap().is_err_and(|error| error.to_string() == unsure().to_string())
            })
        });
        assert!(has_waited);
    }

    #[test]
    fn failed_or_panicked_leader_wakes_all_waiters() {
        let settling = GroupCommit::new(0);
        let failed = || Err(WriteError::Stopped("the disk failed".to_owned()));
        assert!(settling.wait_durable(1, failed, || None).is_err());
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            settling.wait_durable(1, || panic!("in the lead"), || None)
        }));
        assert!(panics.is_err());
        let why = || Some(WriteError::Stopped("earlier".to_owned()));
        let error = settling.wait_durable(1, || Ok(1), why).unwrap_err();
        assert!(error.to_string().contains("earlier"), "{error}");
        settling.mark_durable(1);
        settling.wait_durable(1, || unreachable!("settled"), || None).unwrap();
    }
}
