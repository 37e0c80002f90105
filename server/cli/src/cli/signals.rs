//! Signal handling of a running server.
//!
//! SIGTERM and SIGINT drain the server; a second signal ends the process at once. SIGHUP reloads the settings and the
//! certificates. A closing terminal sends SIGHUP, too: a server on a terminal that has neither a settings file nor
//! certificates then drains.

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

/// Base of the exit code of a process ended by a signal, as in shells.
const SIGNAL_EXIT: i32 = 128;

/// The targets of signals.
pub(super) struct Reach {
    /// Drains the HTTP server.
    pub(super) handle: ShutdownHandle,
    /// Cancels the work before the HTTP server can be drained: the startup ingest.
    pub(super) stopping: CancellationToken,
    /// The certificates, if TLS is configured.
    pub(super) identity: Option<Arc<Identity>>,
    /// The settings to reload.
    pub(super) settings: Arc<Reload>,
    /// Reports state changes to the service manager.
    pub(super) notifier: Arc<Notifier>,
}

/// Starts a thread that handles signals until the process ends.
///
/// # Errors
/// If the signals cannot be registered, or the thread cannot be spawned.
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
            // Safe at any time: acknowledged writes are in the store's WAL.
            process::exit(SIGNAL_EXIT + signal);
        }
        self.stopping.cancel();
        self.notifier.stopping();
        self.handle.drain();
    }
}

/// Reloads the certificate. An invalid certificate changes nothing and is logged.
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
