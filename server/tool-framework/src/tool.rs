//! One tool: its row, and how it is called.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::context::Context;
use super::error::ServiceError;
use super::{args, results};
use recalld_common::scope::Scope;
use recalld_common::wants::Wants;

/// What a tool may change; the hints of the catalog come from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// It adds; doing it again may add again.
    Adds,
    /// It adds; doing it again adds nothing.
    AddsOnce,
    /// It hides or erases what is there.
    Removes,
}

/// One tool.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it does, when to use it, when not.
    pub about: &'static str,
    /// What it takes.
    pub shape: args::Shape,
    /// What it gives, beside the receipt.
    pub results: &'static [results::Output],
    /// What the caller must hold; `None` where whoever may call at all may call it.
    pub scope: Option<Scope>,
    /// What it may change.
    pub change: Change,
    /// Whether an agent needs it daily: the core profile has it.
    pub core: bool,
    /// Does it.
    pub run: fn(&Context<'_>, &Map<String, Value>) -> Result<Answer, ServiceError>,
    /// Arguments that work on a store with the sample of the tests in it
    /// (`tests/support-server/src/sample_catalog.rs`).
    pub example: &'static str,
}

/// Tools that belong together; plans name families.
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its tools.
    pub tools: &'static [Tool],
}

impl Tool {
    /// What a call of it wants of its workspace.
    pub fn wants(&self) -> Wants {
        match self.change {
            Change::Nothing => Wants::Reads,
            Change::Adds | Change::AddsOnce | Change::Removes => Wants::Writes,
        }
    }

    /// The row as `tools/list` gives it.
    pub fn describe(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": args::input_schema(&(self.shape)()),
            "outputSchema": results::output_schema(self.results),
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.change == Change::Nothing,
                "destructiveHint": self.change == Change::Removes,
                "idempotentHint": !matches!(self.change, Change::Adds | Change::Removes),
                "openWorldHint": false,
            },
        })
    }
}
