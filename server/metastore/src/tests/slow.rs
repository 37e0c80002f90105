//! A slow replication of a change: readers do not wait, even if a record is damaged.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::*;

/// Change sink that signals each change set and waits for the test.
struct Slow {
    begun: SyncSender<()>,
    goes_on: Mutex<Receiver<()>>,
}

impl Far for Slow {
    fn may_read(&self) -> Result<(), ControlError> {
        Ok(())
    }

    fn may_write(&self) -> Result<(), ControlError> {
        Ok(())
    }

    fn carry(&self, _: &Operations) -> Result<Vec<u8>, ControlError> {
        self.begun.send(()).unwrap();
        self.goes_on.lock().unwrap().recv().unwrap();
        Ok(Vec::new())
    }

    fn missed(&self) {}
}

#[test]
fn nobody_who_reads_waits_for_a_change_though_a_record_is_damaged() {
    let ground = Ground::new();
    let control = &ground.control;
    make_tenant(control, "acme");
    make_tenant(control, "other");
    let other = control.find_tenant("other").unwrap().unwrap();
    control.write(|change| change.insert("tenants", b"acme", b"no record")).unwrap();
    let (begun, is_begun) = sync_channel(0);
    let (go_on, goes_on) = sync_channel(0);
    control.carry_by(Arc::new(Slow { begun, goes_on: Mutex::new(goes_on) }));
    ground.clock.pass(60);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| control.set_title("other", "Other"));
        is_begun.recv().unwrap();
        for _ in 0..2 {
            // The damaged record would cause a reopening, while the change has the file in use.
            let found = control.find_tenant("acme");
            assert!(matches!(found, Err(ControlError::Damaged { .. })), "{found:?}");
            assert_eq!(control.find_tenant("other").unwrap().as_ref(), Some(&other));
        }
        assert!(!changing.is_finished());
        go_on.send(()).unwrap();
        assert_eq!(changing.join().unwrap().unwrap().title, "Other");
    });
    assert_eq!(control.find_tenant("other").unwrap().unwrap().title, "Other");
}
