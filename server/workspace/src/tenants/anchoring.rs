//! What is known elsewhere of a workspace's ledger when it is opened, and where its checkpoints are kept.
//!
//! Owns which checkpoint a ledger is held against: nodes that share a control store have each a ledger of their own of
//! a workspace, and one that lost its disk begins another (CTL-80). Must not know how a checkpoint is stored.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use engine::ledger::{Anchor, ReadError, Reader};

use recalld_audit::Anchoring;
use recalld_metastore::{Control, ControlError, LastCheckpoint};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// The last checkpoint of a workspace's ledger, and where the next ones are kept: nowhere for as long as there is no
/// control store, which those make who need it. `ledger` is its folder, or where it will be.
pub fn anchoring(
    control: &Arc<Control>,
    name: &str,
    ledger: &Path,
) -> Result<Anchoring, ControlError> {
    let last = if control.exists() { last_of(control, name, ledger)? } else { None };
    let last = last.map(|last| Anchor { seq: last.seq, head: last.head });
    let (control, name, ledger) = (Arc::clone(control), name.to_owned(), ledger.to_owned());
    let known = OnceLock::new();
    let keep = move |Anchor { seq, head }: Anchor| {
        if !control.exists() {
            return;
        }
        // It has an entry by now, the first of which stays.
        let first = known.get().copied().or_else(|| first_of(&ledger).ok()?);
        let first = first.map(|first| *known.get_or_init(|| first));
        let at = control.now();
        if let Err(why) = control.put_anchor(&name, &LastCheckpoint { seq, head, at, first }) {
            let fields = [("workspace", Value::Text(&name)), ("why", Value::Text(&why))];
            log::event(Level::Warn, "the ledger's last checkpoint was not kept", &fields);
        }
    };
    Ok(Anchoring { last, keep: Box::new(keep) })
}

/// What is on record of the ledger in that folder. One that cannot be read is held against whatever is on record,
/// and so is one that has no entry any more: where a ledger of this disk was brought, there was one (LED-19).
fn last_of(
    control: &Control,
    name: &str,
    ledger: &Path,
) -> Result<Option<LastCheckpoint>, ControlError> {
    let on_record = control.find_anchor(name)?;
    let Ok(first) = first_of(ledger) else { return Ok(on_record) };
    if first.is_none() && ledger.parent().is_some_and(recalld_replication::was_brought) {
        return Ok(on_record);
    }
    let last = control.find_anchor_of(name, first)?;
    if last.is_none()
        && let Some(other) = on_record
    {
        let fields = [("workspace", Value::Text(&name)), ("last_entry", Value::Count(other.seq))];
        let what = "the ledger that this node had of a workspace is not on this disk; it keeps another one";
        log::event(Level::Warn, what, &fields);
    }
    Ok(last)
}

fn first_of(ledger: &Path) -> Result<Option<[u8; 32]>, ReadError> {
    if ledger.is_dir() { Reader::open(ledger)?.first_hash() } else { Ok(None) }
}
