//! Jobs on the whole store: in-process, or through the running server that has the store.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::failure::Failure;
use super::remote::Remote;
use recalld_embedding::model::{Bar, Progress};
use recalld_fs_util::start_error::StartError;
use recalld_store_admin::{Alone, KeepError, Keeper};

impl From<KeepError> for Failure {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Wrong(why) => Self::Usage(why),
            KeepError::Failed(why) => Self::Could(why),
        }
    }
}

/// Runs `work` in-process, or posts `raw` to `route` of the server that has the store. Shows a progress bar and returns
/// the report.
pub(super) fn job<R: DeserializeOwned>(
    data: &Path,
    mut bar: Bar,
    route: &str,
    raw: &Map<String, Value>,
    work: impl FnOnce(&Keeper<'_>) -> Result<R, KeepError>,
) -> Result<R, Failure> {
    match Alone::open(data) {
        Ok(alone) => watched(bar, |tell| Ok(work(&alone.keeper(tell))?)),
        Err(StartError::Busy(_)) => {
            let body = Value::Object(raw.clone());
            let report = Remote::find(data)?.follow(route, &body, |step| {
                let what = step["what"].as_str().unwrap_or_default();
                let done = step["done"].as_u64().unwrap_or_default();
                bar.advance(what, done, step["total"].as_u64());
            })?;
            serde_json::from_value(report).map_err(Failure::could)
        }
        Err(error) => Err(Failure::could(error)),
    }
}

/// Runs `work` with a progress bar.
pub(super) fn watched<R>(
    bar: Bar,
    work: impl FnOnce(recalld_common::cancel::Progress<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let bar = Mutex::new(bar);
    work(&|done, total, what| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        bar.advance(what, done, Some(total));
    })
}
