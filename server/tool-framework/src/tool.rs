//! [`Tool`] and [`Family`]: the rows of the catalog.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::context::ToolContext;
use super::error::ServiceError;
use super::{args, results};
use recalld_common::scope::Scope;
use recalld_common::wants::Wants;

/// Side effect of a tool; source of the MCP hints in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Writes nothing.
    Nothing,
    /// Appends; a repeat may append again.
    Adds,
    /// Appends; a repeat appends nothing.
    AddsOnce,
    /// Hides or erases items.
    Removes,
}

/// Row of one tool in the catalog.
pub struct Tool {
    /// Name in `tools/list` and `tools/call`.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Description for models: purpose, when to use the tool, when not.
    pub about: &'static str,
    /// Argument fields.
    pub shape: args::Shape,
    /// Result fields, without the receipt.
    pub results: &'static [results::Output],
    /// Required scope; `None` if every caller may use the tool.
    pub scope: Option<Scope>,
    /// Side effect of a call.
    pub change: Change,
    /// True if the core profile lists the tool, because agents need it daily.
    pub core: bool,
    /// Implementation.
    pub run: fn(&ToolContext<'_>, &Map<String, Value>) -> Result<Answer, ServiceError>,
    /// Example arguments, valid for a store with the sample data of the tests
    /// (`tests/support-server/src/sample_catalog.rs`).
    pub example: &'static str,
}

/// A family of tools; plans list families.
pub struct Family {
    /// Name in plans and in the catalog.
    pub name: &'static str,
    /// Purpose of the family.
    pub about: &'static str,
    /// Tools of the family.
    pub tools: &'static [Tool],
}

impl Tool {
    /// Access mode that a call needs on its workspace.
    pub fn wants(&self) -> Wants {
        match self.change {
            Change::Nothing => Wants::Reads,
            Change::Adds | Change::AddsOnce | Change::Removes => Wants::Writes,
        }
    }

    /// The row as returned by `tools/list`.
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
