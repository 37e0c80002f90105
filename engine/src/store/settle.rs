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
pub(crate) struct Settling {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Commits up to this one have reached their configured durability.
    settled: Seq,
    is_led: bool,
    /// Number of group commits with an unknown outcome; `why` is the last error.
    unsure: u64,
    why: String,
}

impl Settling {
    /// Starts with all commits up to `settled` on disk.
    pub(crate) fn new(settled: Seq) -> Self {
        let state = State { settled, is_led: false, unsure: 0, why: String::new() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Records that commits up to `seq` are on disk, synced by any thread.
    pub(crate) fn note(&self, seq: Seq) {
        let mut state = self.state();
        state.settled = state.settled.max(seq);
        drop(state);
        self.changed.notify_all();
    }

    /// Blocks until commit `seq` is on disk. `lead` syncs all bytes written before its call and returns the newest
    /// commit among them; one thread at a time executes it. `stopped` returns the error if no further commit will
    /// become durable.
    pub(crate) fn settle(
        &self,
        seq: Seq,
        lead: impl FnOnce() -> Result<Seq, WriteError>,
        stopped: impl Fn() -> Option<WriteError>,
    ) -> Result<(), WriteError> {
        let mut state = self.state();
        let unsure = state.unsure;
        while state.settled < seq && state.is_led {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.settled >= seq {
            return Ok(());
        }
        if let Some(error) = stopped() {
            return Err(error);
        }
        if state.unsure != unsure {
            return Err(WriteError::Unsure(state.why.clone()));
        }
        state.is_led = true;
        drop(state);
        let led = Led { settling: self };
        let settled = lead().inspect_err(|error| {
            if let WriteError::Unsure(why) = error {
                let mut state = self.state();
                state.unsure += 1;
                state.why.clone_from(why);
            }
        })?;
        assert!(settled >= seq, "the leader's own commit was written before it led");
        let mut state = self.state();
        state.settled = state.settled.max(settled);
        drop(state);
        drop(led);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases the group's leadership on any end, a panic too; otherwise the waiting threads would block forever.
struct Led<'a> {
    settling: &'a Settling,
}

impl Drop for Led<'_> {
    fn drop(&mut self) {
        self.settling.state().is_led = false;
        self.settling.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn writers_that_come_together_share_one_sync_and_none_returns_early() {
        const WRITERS: usize = 8;
        const ROUNDS: usize = 200;
        let settling = Settling::new(0);
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
                        settling.settle(seq, lead, || None).unwrap();
                        assert!(synced.load(Ordering::SeqCst) >= seq);
                    }
                });
            }
        });
        assert_eq!(leads.load(Ordering::SeqCst), ROUNDS, "the first of a round leads for all");
    }

    #[test]
    fn who_waits_for_one_that_ends_unsure_does_not_lead_another() {
        const ROUNDS: usize = 100_000;
        let unsure = || WriteError::Unsure("no answer".to_owned());
        let has_waited = (0..ROUNDS).any(|_| {
            let settling = Settling::new(0);
            let (is_led, asks) = (Barrier::new(2), Barrier::new(2));
            std::thread::scope(|scope| {
                let second = scope.spawn(|| {
                    is_led.wait();
                    asks.wait();
                    settling.settle(2, || Ok(2), || None)
                });
                let lead = || {
                    is_led.wait();
                    asks.wait();
                    std::thread::yield_now();
                    Err(unsure())
                };
                assert!(matches!(settling.settle(1, lead, || None), Err(WriteError::Unsure(_))));
                // The second thread may have arrived too late, and have led itself.
                second.join().unwrap().is_err_and(|error| error.to_string() == unsure().to_string())
            })
        });
        assert!(has_waited);
    }

    #[test]
    fn a_leader_that_fails_or_panics_leaves_nobody_waiting() {
        let settling = Settling::new(0);
        let failed = || Err(WriteError::Stopped("the disk failed".to_owned()));
        assert!(settling.settle(1, failed, || None).is_err());
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            settling.settle(1, || panic!("in the lead"), || None)
        }));
        assert!(panics.is_err());
        let why = || Some(WriteError::Stopped("earlier".to_owned()));
        let error = settling.settle(1, || Ok(1), why).unwrap_err();
        assert!(error.to_string().contains("earlier"), "{error}");
        settling.note(1);
        settling.settle(1, || unreachable!("settled"), || None).unwrap();
    }
}
