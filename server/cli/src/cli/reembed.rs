//! `recalld reembed --model DIR`: migrates the store to another model, in-process or while a server runs.

use clap::Args;
use serde_json::{Map, Value, json};

use super::common::Common;
use super::failure::Failure;
use super::keep::job;
use super::tell::tell_line;
use recalld_common::counted::{agreed, counted};
use recalld_embedding::model::{Bar, Unit};
use recalld_store_admin::{Reembed, ReembedReport};

#[derive(Debug, Args)]
pub(super) struct ReembedArgs {
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &ReembedArgs) -> Result<(), Failure> {
    let raw = arguments(&args.common)?;
    let wanted = Reembed::parse(&raw).map_err(|error| Failure::Usage(error.to_string()))?;
    let (data, encoding) = (args.common.data()?, args.common.encoding()?);
    let bar = Bar::of_command(Unit::Items, args.common.json);
    let report = job(&data, bar, "/operator/reembed", &raw, |keeper| {
        recalld_store_admin::reembed(keeper, None, encoding, &Value::Object(raw.clone()), &wanted)
    })?;
    if args.common.json { tell_line(&json!(report)) } else { tell_line(&readable(&report)) }
}

fn arguments(common: &Common) -> Result<Map<String, Value>, Failure> {
    let model = common.model.as_ref().ok_or_else(|| {
        let why = "say which model the store is to move to: recalld reembed --model DIR";
        Failure::Usage(why.to_owned())
    })?;
    let at = |why: &dyn std::fmt::Display| Failure::Usage(format!("{}: {why}", model.display()));
    let path = std::path::absolute(model).map_err(|error| at(&error))?;
    let path = path.to_str().ok_or_else(|| at(&"is not UTF-8, which paths must be"))?;
    Ok(json!({"model": path}).as_object().cloned().unwrap_or_default())
}

fn readable(report: &ReembedReport) -> String {
    let model = &report.model;
    let directory = model.directory.as_deref().unwrap_or_default();
    let named = format!("{} ({} wide, in {directory})", model.name, model.dimensions);
    if !report.moved {
        return format!("0 items: the store has the model {named} already");
    }
    format!(
        "{} {} embedded anew; the store has the model {named}, also after the next start",
        counted(report.items, "item"),
        agreed(report.items, "was", "were")
    )
}
