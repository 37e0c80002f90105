//! Openers of tenant workspaces with a tiny model.

use std::path::Path;
use std::sync::{Arc, Mutex};

use engine::Options;
use engine::os::clock::{SystemClock, SystemRandom};
use recalld_audit::AuditSync;
use recalld_cluster::seats::Seats;
use recalld_embedding::embed::Embedder;
use recalld_embedding::encoding::Encoding;
use recalld_metastore::Control;
use recalld_policy::Rules;
use recalld_recall::Threads;
use recalld_workspace::tenants::Door;

/// The metastore of a data directory.
pub fn control(data: &Path) -> Arc<Control> {
    let file = data.join("control.redb");
    Arc::new(Control::at(&file, Arc::new(SystemClock), Arc::new(SystemRandom)))
}

/// Makes an opener for the workspaces of a data directory; with `seats`, they are replicated to a remote.
pub fn door(data: &Path, embedder: Arc<Embedder>, seats: Option<Arc<Seats>>) -> Door {
    Door {
        data: data.to_owned(),
        encoding: Encoding { threads: 1, ..Encoding::detect() },
        embedder,
        threads: Threads::new(1),
        options: Options::default(),
        rules: Arc::new(Rules::initial()),
        audit_sync: AuditSync::default(),
        control: control(data),
        secret: None,
        seats,
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        others: Mutex::default(),
    }
}
