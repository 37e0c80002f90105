//! What a service manager gives us and wants to know: sockets that it opened, and how we are.
//!
//! Knows the two protocols by their environment variables (sd_listen_fds(3), sd_notify(3)); without
//! them it does nothing. Taking over a descriptor by its number needs unsafe code, which is why a crate
//! does it; the rest is a datagram.

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

/// The sockets that were handed to this process, each by its name (`FileDescriptorName=` in a socket
/// unit): `local` or `hosted`. One socket alone may have any name, and is then the hosted listener.
///
/// Must run before any other thread is started: it takes the variables out of the environment, so that
/// no child takes them for its own.
///
/// # Errors
/// A name that is none of ours, too many sockets, or a descriptor that does not listen for TCP.
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

/// The way to the service manager, if there is one, and what it was told.
pub(super) struct Notifier {
    way: Option<(UnixDatagram, SocketAddr)>,
    told: Mutex<Told>,
}

/// What the manager believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Ready,
    Stopping,
}

impl Notifier {
    /// Looks for `NOTIFY_SOCKET`. One that cannot be used is said and then left alone: the service is
    /// no worse for it.
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

    /// Calls are answered from now on, unless the end has begun.
    pub(super) fn ready(&self) {
        let mut told = self.told();
        if *told == Told::Nothing {
            *told = Told::Ready;
            self.send(READY);
        }
    }

    /// Settings are being read again; `reloaded` says when that is over. Before the service is ready,
    /// and when it stops, that is nothing to tell.
    pub(super) fn reloading(&self) {
        if *self.told() != Told::Ready {
            return;
        }
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=Reading certificates"));
    }

    /// Settings were read again.
    pub(super) fn reloaded(&self) {
        if *self.told() == Told::Ready {
            self.send(READY);
        }
    }

    /// The end has begun.
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

/// A path, or a name in the abstract namespace, which `@` stands for.
fn way_to(name: &[u8]) -> io::Result<(UnixDatagram, SocketAddr)> {
    let manager = match name.split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        Some((b'/', _)) => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
        _ => return Err(io::Error::other("neither a path nor a name that begins with @")),
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not keep us from our work.
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
