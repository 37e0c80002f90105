//! Reload of the settings by a running server: live settings are applied, the others are logged.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::given::Flags;
use recalld_api::app_state::AppState;
use recalld_config::Config;
use recalld_config::layers::Loaded;
use recalld_config::settings::Setting;
use recalld_config::written::changed;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// The flags to reload with, and the targets of live settings.
pub(super) struct Reload {
    flags: Flags,
    /// The settings in effect.
    now: Mutex<Config>,
    /// Unset until the server has started.
    parts: OnceLock<Arc<AppState>>,
}

impl Reload {
    /// A reloader for a server that was started with `loaded`.
    pub(super) fn new(flags: Flags, loaded: &Loaded) -> Self {
        Self { flags, now: Mutex::new(loaded.config.clone()), parts: OnceLock::new() }
    }

    /// Attaches the started server: from now on, reloads apply to its state.
    pub(super) fn reach(&self, parts: &Arc<AppState>) {
        // The lock is held: a concurrent reload must apply its settings after these.
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let _is_once = self.parts.set(Arc::clone(parts));
        parts.scheduled.set(now.backup.clone());
    }

    /// Returns true if there is a settings file to reload.
    pub(super) fn has_file(&self) -> bool {
        self.flags.file().is_some()
    }

    /// Reloads the file and applies the live settings. Invalid settings change nothing and are logged.
    pub(super) fn run(&self) {
        let loaded = match self.flags.load() {
            Ok(loaded) => loaded,
            Err(fault) => {
                let why = self.flags.named(&fault);
                let what = "the new settings cannot be used; the old ones stay";
                return log::event(Level::Error, what, &[("why", Value::Text(&why))]);
            }
        };
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = changed(&now, &loaded.config);
        let is_live = |key: &&String| Setting::named(key).is_some_and(|setting| setting.is_live);
        let (live, later): (Vec<&String>, Vec<&String>) = keys.iter().partition(is_live);
        now.log = loaded.config.log;
        log::change(now.log.level, now.log.format, now.log.access);
        // A server that is still starting applies this when it attaches.
        now.backup.clone_from(&loaded.config.backup);
        if let Some(parts) = self.parts.get() {
            parts.scheduled.set(now.backup.clone());
        }
        drop(now);
        let named = |keys: &[&String]| match keys {
            [] => "nothing".to_owned(),
            keys => keys.iter().map(|key| key.as_str()).collect::<Vec<_>>().join(", "),
        };
        let taken = named(&live);
        let fields = [("changed", Value::Text(&taken))];
        log::event(Level::Info, "the settings were read again", &fields);
        if !later.is_empty() {
            let later = named(&later);
            let what = "settings that changed count from the next start";
            log::event(Level::Warn, what, &[("settings", Value::Text(&later))]);
        }
    }
}
