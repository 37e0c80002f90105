//! `POST /operator/collect`: collects garbage on the remote for workspaces led by this node, and purges deleted
//! workspaces.

use engine::ledger::Outcome;
use serde_json::{Value, json};

use super::arguments;
use crate::app_state::AppState;
use crate::rest::Ask;
use crate::service_error::over_http;
use recalld_cluster::seats::{Seats, Swept};
use recalld_http_server::Response;
use recalld_http_server::refusal::Refusal;
use recalld_store_admin::KeepError;
use recalld_store_admin::empty_deleted::{Emptying, Pass, Which, emptied_by, empty_deleted};
use recalld_store_admin::keeping::{Keeper, Note};
use recalld_tool_framework::args::{Text, args};

args! {
    /// Body of `POST /operator/collect`.
    pub struct Collect {
        workspace: Option<Text<1, 63>> => "Whose; all that are written here without it.",
    }
}

/// `POST /operator/collect`.
pub fn serve_collect(ask: &Ask<'_>) -> Result<Response, Refusal> {
    let raw = arguments(ask.call)?;
    let wanted = Collect::parse(&raw).map_err(over_http)?;
    let Some(seats) = &ask.parts.seats else {
        return Err(Refusal::new(422, "this server has no remote"));
    };
    let local = ask.parts.local.get();
    let cancel = &ask.call.cancel;
    let keeper = Keeper::of(&ask.parts.admin, &local, ask.caller, cancel, &|_, _, _| {});
    let only = wanted.workspace.as_ref().map(|name| &*name.0);
    let with = (ask.parts, &**seats);
    let report = collect(&keeper, with, &Value::Object(raw.clone()), only);
    let report = report.map_err(|error| Refusal::unavailable(&error.to_string()))?;
    Ok(Response::json(200, report.to_string().into_bytes()))
}

fn collect(
    keeper: &Keeper<'_>,
    (parts, seats): (&AppState, &Seats),
    raw: &Value,
    only: Option<&str>,
) -> Result<Value, KeepError> {
    let swept = seats.collect(only);
    let probes = seats.clear_probes();
    let goes_on = || !keeper.cancel.is_cancelled();
    let which = only.map_or(Which::Told, Which::One);
    // A large workspace requires many requests; none are sent after the client has left.
    let cancel = keeper.cancel.clone();
    let halt = seats.halt_of(move || cancel.is_cancelled());
    let (Pass { all: emptied, put_off }, unread) =
        match empty_deleted(&parts.admin, which, &halt, &goes_on) {
            Ok(pass) => (pass, None),
            Err(why) => (Pass::default(), Some(why)),
        };
    let is_done = swept.iter().all(|swept| swept.done.is_ok());
    let is_done = is_done && emptied.iter().all(Emptying::is_right) && unread.is_none();
    let outcome = if is_done { Outcome::Done } else { Outcome::Failed };
    keeper.record(Note { outcome, ..Note::of("recalld remote gc", raw) })?;
    let unknown = only.filter(|_| swept.is_empty() && emptied.is_empty());
    let written_by =
        unknown.and_then(|name| seats.written_by(name).or_else(|| emptied_by(&parts.admin, name)));
    let rows = swept.iter().map(Swept::to_json).chain(emptied.iter().map(Emptying::to_json));
    Ok(json!({
        "workspaces": rows.collect::<Vec<_>>(),
        "written_by": written_by, "probes": probes.as_ref().ok(),
        "put_off": put_off, "deleted_unread": unread,
    }))
}
