//! Family `recall`: tools that query memory, all by the governed path.

pub mod arbitrate;
mod connectors;
mod older_names;
pub(crate) mod text;

use crate::command;
use recalld_tool_framework::Family;

limit_table::limits! {
    pub(crate) const LIMITS = [arbitrate, connectors, text];
}

pub(super) static FAMILY: Family = Family {
    name: "recall",
    about: "Ask what is remembered before answering.",
    tools: &[
        arbitrate::ARBITRATE,
        older_names::BRAIN_RECALL,
        older_names::SEMANTIC,
        older_names::KEYWORD,
        older_names::GRAPH,
        connectors::SEARCH,
        connectors::FETCH,
        command::ROW,
    ],
};
