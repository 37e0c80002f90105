//! Family `agent_state`: values that agents store between runs; all versions are retained.
//!
//! Policy decides who may read a value: each value has a gate that the scope `agent:state` opens.

mod admit;
mod lineage;
mod value;
mod write;

use recalld_tool_framework::Family;

limit_table::limits! {
    pub(crate) const LIMITS = [value, write];
}

pub(super) static FAMILY: Family = Family {
    name: "agent_state",
    about: "What agents keep between their runs.",
    tools: &[write::WRITE, admit::ADMIT, admit::SIMULATE, lineage::LINEAGE],
};
