//! How many files and sockets this process may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::limits::DESCRIPTORS_BESIDE;
use recalld_http_server::limits::CONNECTIONS_MAX;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Asks for as many descriptors as the most connections need, as far as the system allows it. Usual
/// settings allow 1,024 at first and many more on demand, for the sake of programs that use select(2).
pub(super) fn raise() {
    let wanted = (CONNECTIONS_MAX + DESCRIPTORS_BESIDE) as u64;
    let mut limit = getrlimit(Resource::Nofile);
    // Without a number there is no limit.
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

/// The most that this process may be allowed; `None` where there is no limit.
pub(super) fn most() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}
