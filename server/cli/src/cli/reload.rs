//! Settings read again by a running server: which of them it takes, and what it says of the others.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::given::Flags;
use recalld_api::app_state::AppState;
use recalld_config::Config;
use recalld_config::layers::Loaded;
use recalld_config::settings::Setting;
use recalld_config::written::changed;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// What is read again, and what acts upon it.
pub(super) struct Reload {
    flags: Flags,
    /// What is in effect.
    now: Mutex<Config>,
    /// Not there yet while the server starts.
    parts: OnceLock<Arc<AppState>>,
}

impl Reload {
    /// Of a server that began with these settings.
    pub(super) fn new(flags: Flags, loaded: &Loaded) -> Self {
        Self { flags, now: Mutex::new(loaded.config.clone()), parts: OnceLock::new() }
    }

    /// The server stands: what is read again from now on reaches its parts.
    pub(super) fn reach(&self, parts: &Arc<AppState>) {
        // Held, so that what is read again meanwhile is set by whoever comes later.
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let _is_once = self.parts.set(Arc::clone(parts));
        parts.scheduled.set(now.backup.clone());
    }

    /// Whether there is a file to be read again.
    pub(super) fn has_file(&self) -> bool {
        self.flags.file().is_some()
    }

    /// Reads the file again, and takes what can be taken. Settings that are refused change nothing, and are said.
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
        // A server that is about to start takes it when it stands.
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
