//! The service manager's protocols: inherited sockets and state notification.
//!
//! Both work by environment variables (sd_listen_fds(3), sd_notify(3)); without these the module does nothing. Adopting
//! a descriptor by its number needs unsafe code, so a crate does that. A notification is one datagram.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, MutexGuard, PoisonError};

use listenfd::ListenFd;
use rustix::time::{ClockId, clock_gettime};

use super::failure::Failure;
use recalld_api::listeners::{HOSTED, LOCAL};
use recalld_http_server::limits::LISTENERS_MAX;
use recalld_http_server::{Inherited, ListenerId};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// The sockets passed to this process, by name (`FileDescriptorName=` in a socket unit): `local` or `hosted`. A single
/// socket with any other name is the hosted listener.
///
/// Must run before any thread starts: it removes the variables from the environment, so that no child process adopts
/// the sockets.
///
/// # Errors
/// An unknown name, too many sockets, or a descriptor that is no listening TCP socket.
pub(super) fn sockets() -> Result<Vec<Inherited>, Failure> {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut given = ListenFd::from_env();
    if given.len() > LISTENERS_MAX {
        let why = format!("{} sockets were handed over; at most {LISTENERS_MAX}", given.len());
        return Err(Failure::Usage(why));
    }
    let names: Vec<&str> = names.split(':').collect();
    let mut sockets = Vec::with_capacity(given.len());
    for at in 0..given.len() {
        let name = names.get(at).copied().unwrap_or_default();
        let id = listener(name, given.len() == 1)?;
        let taken = given.take_tcp_listener(at).map_err(|error| {
            Failure::Usage(format!("socket {at} (`{name}`) that was handed over: {error}"))
        })?;
        sockets.extend(taken.map(|socket| Inherited { id, socket }));
    }
    Ok(sockets)
}

fn listener(name: &str, is_alone: bool) -> Result<ListenerId, Failure> {
    match name {
        "local" => Ok(LOCAL),
        "hosted" => Ok(HOSTED),
        _ if is_alone => Ok(HOSTED),
        other => Err(Failure::Usage(format!(
            "a socket named `{other}` was handed over; name it `local` or `hosted` \
             (FileDescriptorName= in its unit)"
        ))),
    }
}

const READY: &str = "READY=1\nSTATUS=Answering calls";

/// The socket to the service manager, if any, and the last state reported.
pub(super) struct Notifier {
    way: Option<(UnixDatagram, SocketAddr)>,
    told: Mutex<Told>,
}

/// The last state reported to the service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Ready,
    Stopping,
}

impl Notifier {
    /// Connects to `NOTIFY_SOCKET`. An unusable socket is logged and then ignored, because the service works without
    /// it.
    pub(super) fn from_env() -> Notifier {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Notifier::over(None);
        };
        match way_to(name.as_bytes()) {
            Ok(way) => Notifier::over(Some(way)),
            Err(error) => {
                let fields = [("error", Value::Text(&error))];
                log::event(Level::Warn, "NOTIFY_SOCKET cannot be used", &fields);
                Notifier::over(None)
            }
        }
    }

    fn over(way: Option<(UnixDatagram, SocketAddr)>) -> Notifier {
        Notifier { way, told: Mutex::new(Told::Nothing) }
    }

    /// Reports readiness, unless the server is stopping.
    pub(super) fn ready(&self) {
        let mut told = self.told();
        if *told == Told::Nothing {
            *told = Told::Ready;
            self.send(READY);
        }
    }

    /// Reports the start of a reload; `reloaded` reports its end. Does nothing before the service is ready, or while it
    /// stops.
    pub(super) fn reloading(&self) {
        if *self.told() != Told::Ready {
            return;
        }
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=Reading certificates"));
    }

    /// Reports the end of a reload.
    pub(super) fn reloaded(&self) {
        if *self.told() == Told::Ready {
            self.send(READY);
        }
    }

    /// Reports that the server is stopping.
    pub(super) fn stopping(&self) {
        *self.told() = Told::Stopping;
        self.send("STOPPING=1\nSTATUS=Answering the last calls");
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, state: &str) {
        if let Some((socket, manager)) = &self.way
            && let Err(error) = socket.send_to_addr(state.as_bytes(), manager)
        {
            let fields = [("error", Value::Text(&error))];
            log::event(Level::Warn, "the service manager could not be told", &fields);
        }
    }
}

/// Connects to a path, or with a leading `@`, to a name in the abstract namespace.
fn way_to(name: &[u8]) -> io::Result<(UnixDatagram, SocketAddr)> {
    let manager = match name.split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        Some((b'/', _)) => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
        _ => return Err(io::Error::other("neither a path nor a name that begins with @")),
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not block the server.
    socket.set_nonblocking(true)?;
    Ok((socket, manager))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_go_by_their_names() {
        assert!(matches!(listener("local", false), Ok(LOCAL)));
        assert!(matches!(listener("hosted", false), Ok(HOSTED)));
        assert!(matches!(listener("unknown", true), Ok(HOSTED)));
        let Err(Failure::Usage(why)) = listener("unknown", false) else { panic!("it is refused") };
        assert!(why.contains("`unknown`") && why.contains("`hosted`"), "{why}");
    }
}
