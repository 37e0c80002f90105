//! Settings of an in-process service.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::Durability;
use recalld_cli::app::Settings;
use recalld_embedding::encoding::Encoding;

/// Durable settings with one embedding thread. `None` for `model` is the default model.
pub fn settings(data: &Path, model: Option<PathBuf>, call_time_max: Duration) -> Settings {
    Settings {
        data: data.to_owned(),
        model,
        encoding: Encoding { threads: 1, ..Encoding::detect() },
        call_time_max,
        durability: Durability::Sync,
        search_mode: engine::SearchMode::default(),
        config: recalld_config::Config::default(),
        public_url: None,
        pdf: None,
    }
}
