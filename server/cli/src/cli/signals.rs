//! What the system's signals ask of a running server.
//!
//! SIGTERM and SIGINT: drain, and on the second one end at once. SIGHUP: read the settings and the certificates
//! again; it also comes when a terminal closes, and a server that was started by hand and has neither
//! ends then, as every program does.

use std::io::{self, IsTerminal};
use std::process;
use std::sync::Arc;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::reload::Reload;
use super::systemd::Notifier;
use recalld_common::cancel::CancellationToken;
use recalld_http_server::{Identity, ShutdownHandle};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// What the exit code of a process that a signal ended begins at, as shells tell it.
const SIGNAL_EXIT: i32 = 128;

/// What signals act upon.
pub(super) struct Reach {
    /// Ends the front end.
    pub(super) handle: ShutdownHandle,
    /// Ends what is done before the front end can be ended: ingest.
    pub(super) stopping: CancellationToken,
    /// The certificates, where there are any.
    pub(super) identity: Option<Arc<Identity>>,
    /// The settings.
    pub(super) settings: Arc<Reload>,
    /// Who else wants to know.
    pub(super) notifier: Arc<Notifier>,
}

/// Listens for signals from now on, on a thread that ends with the process.
///
/// # Errors
/// Those of the system.
pub(super) fn listen(reach: Reach) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            reach.take(signal);
        }
    })?;
    Ok(())
}

impl Reach {
    fn take(&self, signal: i32) {
        let has_files = self.identity.is_some() || self.settings.has_file();
        match signal {
            SIGHUP if has_files || !io::stderr().is_terminal() => self.reload(),
            _ => self.stop(signal),
        }
    }

    fn reload(&self) {
        self.notifier.reloading();
        self.settings.run();
        if let Some(identity) = &self.identity {
            reload_certificate(identity);
        }
        self.notifier.reloaded();
    }

    fn stop(&self, signal: i32) {
        if self.stopping.is_cancelled() {
            log::event(Level::Warn, "a second signal: ending at once", &[]);
            log::flush();
            // The log of the store is made for this: what was acknowledged is there.
            process::exit(SIGNAL_EXIT + signal);
        }
        self.stopping.cancel();
        self.notifier.stopping();
        self.handle.drain();
    }
}

/// A bad certificate changes nothing, and is said.
fn reload_certificate(identity: &Identity) {
    match identity.reload() {
        Ok(()) => log::event(Level::Info, "the certificate was read again", &[]),
        Err(error) => {
            let fields = [("error", Value::Text(&error))];
            let what = "the new certificate cannot be used; the old one stays";
            log::event(Level::Error, what, &fields);
        }
    }
}
