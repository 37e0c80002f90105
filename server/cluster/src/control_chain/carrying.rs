//! Bounded wait for a change to reach the record log.
//!
//! If the wait ends and the outcome of the change is unknown, the epoch is over (REM-91).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::shared::Shared;
use recalld_metastore::{ControlError, Far, Operations};

/// Commits changes of the metastore to the record log, each on a thread that may outlive the waiting caller.
pub(super) struct Carrying(pub(super) Arc<Shared>);

/// State of a change, shared by the caller and the thread.
#[derive(Default)]
struct Way {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Default)]
enum Stage {
    /// Not started.
    #[default]
    Waits,
    /// Possibly in the record log.
    Sent,
    Done(Result<Vec<u8>, ControlError>),
    /// The caller no longer waits.
    Left,
}

impl Way {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances to `next` if the current stage is as expected. Returns true if the stage was as expected.
    fn go_on(&self, is_expected: fn(&Stage) -> bool, next: Stage) -> bool {
        let mut stage = self.stage();
        let is_expected = is_expected(&stage);
        if is_expected {
            *stage = next;
            self.changed.notify_all();
        }
        is_expected
    }

    /// Waits for an end, at most for `patience`, and returns the stage. The change is abandoned from then on.
    fn leave(&self, patience: Duration) -> Stage {
        let is_under_way = |stage: &mut Stage| matches!(stage, Stage::Waits | Stage::Sent);
        let waited = self.changed.wait_timeout_while(self.stage(), patience, is_under_way);
        let mut stage = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::replace(&mut *stage, Stage::Left)
    }
}

impl Far for Carrying {
    fn may_read(&self) -> Result<(), ControlError> {
        self.0.may_read()
    }

    fn may_write(&self) -> Result<(), ControlError> {
        self.0.may_write()
    }

    fn carry(&self, operations: &Operations) -> Result<Vec<u8>, ControlError> {
        let way = Arc::new(Way::default());
        let (shared, theirs, operations) =
            (Arc::clone(&self.0), Arc::clone(&way), operations.clone());
        let spawned = thread::Builder::new().name("carry".to_owned()).spawn(move || {
            carry(&shared, &theirs, &operations);
        });
        spawned.map_err(|error| ControlError::far(error.to_string()))?;
        let seconds = self.0.patience.carry.as_secs();
        match way.leave(self.0.patience.carry) {
            Stage::Done(done) => done,
            Stage::Waits | Stage::Left => Err(ControlError::far(format!(
                "the control store was not changed: it was being copied to the remote for {seconds} s; try again"
            ))),
            Stage::Sent => {
                self.0.missed();
                Err(ControlError::far(format!(
                    "the remote did not say within {seconds} s whether it has a change of the control store, so it may \
                     be done or not; look first"
                )))
            }
        }
    }

    fn missed(&self) {
        self.0.missed();
    }
}

fn carry(shared: &Shared, way: &Way, operations: &Operations) {
    let mut lead = shared.lead();
    if !way.go_on(|stage| matches!(stage, Stage::Waits), Stage::Sent) {
        return;
    }
    let Some(leads) = lead.as_mut() else {
        drop(lead);
        way.go_on(|stage| matches!(stage, Stage::Sent), Stage::Done(Err(shared.elsewhere())));
        return;
    };
    let done = leads.carry(shared, operations);
    shared.drop_if_over(lead);
    way.go_on(|stage| matches!(stage, Stage::Sent), Stage::Done(done));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_leaves_a_change_gets_nothing_of_it_later() {
        let way = Way::default();
        let is = |wanted: fn(&Stage) -> bool| wanted;
        assert!(matches!(way.leave(Duration::ZERO), Stage::Waits));
        assert!(!way.go_on(is(|stage| matches!(stage, Stage::Waits)), Stage::Sent));
        let way = Way::default();
        assert!(way.go_on(is(|stage| matches!(stage, Stage::Waits)), Stage::Sent));
        assert!(matches!(way.leave(Duration::ZERO), Stage::Sent));
        let done = Stage::Done(Ok(Vec::new()));
        assert!(!way.go_on(is(|stage| matches!(stage, Stage::Sent)), done));
    }
}
