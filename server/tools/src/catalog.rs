//! Catalog of all tool families.

use crate::{
    agent_state, artifacts, bench, continuity, docstore, graph, ingest, items, recall, status,
    tenant, verify, work,
};
use recalld_intent::COMMAND;
use recalld_tool_framework::{Catalog, Tool};

/// All families in catalog order.
pub static CATALOG: Catalog = Catalog::new(&[
    &recall::FAMILY,
    &docstore::FAMILY,
    &graph::FAMILY,
    &items::FAMILY,
    &status::FAMILY,
    &verify::FAMILY,
    &continuity::FAMILY,
    &work::FAMILY,
    &artifacts::FAMILY,
    &ingest::FAMILY,
    &agent_state::FAMILY,
    &bench::FAMILY,
    &tenant::FAMILY,
]);

/// Returns true if a call of the tool may wait for other calls of its kind, directly or through a nested call. Such a
/// call must not block the workers shared by all calls.
pub fn may_wait(tool: &Tool) -> bool {
    [ingest::INGEST_PATHS, bench::STORAGE_NAME, COMMAND].contains(&tool.name)
}

#[cfg(test)]
mod tests {
    use engine::Micros;
    use recalld_intent::{COMMAND, understand};

    use super::CATALOG;
    use recalld_policy::plans::{FAMILY_NAMES, FREE_TOOLS};

    #[test]
    fn every_family_and_tool_of_the_catalog_may_be_named() {
        let names = CATALOG.tool_names();
        for family in CATALOG.families() {
            assert!(FAMILY_NAMES.contains(&family.name), "{}", family.name);
            for tool in family.tools {
                assert_eq!(names.iter().filter(|name| **name == tool.name).count(), 1);
            }
        }
        assert!(FREE_TOOLS.iter().all(|tool| names.contains(tool)));
    }

    #[test]
    fn every_other_tool_is_understood_by_its_name() {
        for tool in CATALOG.tools() {
            let text = format!("call {}", tool.name);
            let chosen = understand(&text, Micros(0), &[], CATALOG).chosen;
            let wanted = Some(tool.name).filter(|name| *name != COMMAND);
            assert_eq!(chosen.map(|choice| choice.tool), wanted);
        }
    }
}
