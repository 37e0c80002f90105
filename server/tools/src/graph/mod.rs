//! Family `graph`: edges between items, and queries along them.
//!
//! The engine stores and walks the graph.

mod drawing;
mod edges;
mod figures;
mod linking;
mod walking;

use recalld_tool_framework::Family;

limit_table::limits! {
    pub(crate) const LIMITS = [drawing, edges];
}

pub(super) static FAMILY: Family = Family {
    name: "graph",
    about: "What is linked with what, and how.",
    tools: &[
        figures::STATUS,
        drawing::GRAPH,
        walking::NEIGHBORS,
        walking::PATH,
        linking::LINK,
        linking::UNLINK,
    ],
};
