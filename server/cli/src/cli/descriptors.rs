//! The process's limit of open files and sockets.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::limits::DESCRIPTORS_BESIDE;
use recalld_http_server::limits::CONNECTIONS_MAX;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Raises the soft limit to the descriptors that the maximum number of connections needs, up to the hard limit. Common
/// defaults are a soft limit of 1,024, for programs that use select(2), and a far higher hard limit.
pub(super) fn raise() {
    let wanted = (CONNECTIONS_MAX + DESCRIPTORS_BESIDE) as u64;
    let mut limit = getrlimit(Resource::Nofile);
    // No number means no limit.
    let Some(now) = limit.current.filter(|now| *now < wanted) else { return };
    let possible = limit.maximum.map_or(wanted, |most| most.min(wanted));
    limit.current = Some(possible.max(now));
    let raised = setrlimit(Resource::Nofile, limit).is_ok();
    let have = if raised { possible.max(now) } else { now };
    if have < wanted {
        let fields = [("have", Value::Count(have)), ("wanted", Value::Count(wanted))];
        log::event(Level::Warn, "few descriptors: raise the limit of open files", &fields);
    }
}

/// The hard limit; `None` if unlimited.
pub(super) fn most() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}
