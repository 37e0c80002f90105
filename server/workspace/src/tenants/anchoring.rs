//! Checkpoint anchors of ledgers: the externally stored last checkpoint that a ledger is verified against.
//!
//! Selects the checkpoint for a ledger. Nodes that share a metastore each have a ledger of their own per workspace, and
//! a node that lost its disk begins a new ledger (CTL-80). The metastore stores the checkpoints.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use engine::ledger::{Anchor, LedgerReader, ReadError};

use recalld_audit::Anchoring;
use recalld_metastore::{Control, ControlError, LastCheckpoint};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// The last checkpoint of a workspace's ledger, and the callback that stores later checkpoints. The callback stores
/// nothing while no metastore exists; other code creates the metastore on demand. `ledger` is the folder of the ledger,
/// which may not exist yet.
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
        // The ledger has an entry by now, and its first entry never changes.
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

/// The recorded checkpoint of the ledger in `ledger`. If the ledger is unreadable, the newest recorded checkpoint of
/// the workspace applies. An empty ledger in a folder whose ledger was uploaded is treated alike, because that ledger
/// had entries (LED-19).
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
    if ledger.is_dir() { LedgerReader::open(ledger)?.first_hash() } else { Ok(None) }
}
