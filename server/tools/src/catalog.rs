//! The catalog: every family of tools, and which of them a caller has.

use crate::command;
use crate::{
    agent_state, artifacts, bench, continuity, docstore, graph, ingest, items, recall, status,
    tenant, verify, work,
};
use recalld_common::nearest;
use recalld_common::scope::Scope;
use recalld_policy::Caller;
use recalld_tool_framework::{Family, Profile, Tool};

/// Every family, in the order of the catalog.
pub static FAMILIES: &[&Family] = &[
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
];

/// Whether a tool waits for others that do the same, or may call one that does: it is not to wait where all calls are
/// worked on.
pub fn may_wait(tool: &Tool) -> bool {
    [ingest::INGEST_PATHS, bench::STORAGE_NAME, command::NAME].contains(&tool.name)
}

/// The tools that this caller may use, in the order of the catalog, as far as the profile shows them.
pub fn visible_to(caller: &Caller, profile: Profile) -> impl Iterator<Item = &'static Tool> {
    let families = FAMILIES.iter().flat_map(|family| {
        let name = family.name;
        family.tools.iter().map(move |tool| (name, tool))
    });
    let has = |(family, tool): &(&str, &Tool)| caller.entitled.has_tool(family, tool.name);
    let shown = families.filter(has).map(|(_, tool)| tool);
    let shown = shown.filter(move |tool| profile == Profile::Full || tool.core);
    shown.filter(|tool| tool.scope.is_none_or(|scope| caller.scopes.contains(&scope)))
}

/// The scope that keeps a caller from a tool of its plan, and that its plan would grant it: another credential of
/// the same workspace could use the tool.
pub fn lacking(caller: &Caller, name: &str) -> Option<Scope> {
    let mut families = FAMILIES.iter();
    let tool = families.find_map(|family| {
        let tool = family.tools.iter().find(|tool| tool.name == name)?;
        caller.entitled.has_tool(family.name, name).then_some(tool)
    })?;
    let may_have = |scope: &Scope| caller.entitled.may_grant(*scope);
    tool.scope.filter(|scope| !caller.scopes.contains(scope)).filter(may_have)
}

/// The tool of this name, if the caller may use it: to anyone else it does not exist.
///
/// # Errors
/// There is none: what to tell the caller, with the nearest name of a tool that it may use.
pub fn find(caller: &Caller, name: &str) -> Result<&'static Tool, String> {
    named(caller, name).ok_or_else(|| unknown(caller, name))
}

/// The same, without what to tell.
pub fn named(caller: &Caller, name: &str) -> Option<&'static Tool> {
    visible_to(caller, Profile::Full).find(|tool| tool.name == name)
}

/// Tells a caller that it has no tool of this name, with the nearest name of a tool that it may use.
pub fn unknown(caller: &Caller, name: &str) -> String {
    let names = visible_to(caller, Profile::Full).map(|tool| tool.name);
    let hint = match nearest::nearest(name, names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "tools/list names those there are".to_owned(),
    };
    format!("Unknown tool: {}; {hint}", nearest::cut(name))
}

/// The names of all tools, in the order of the catalog: those that a plan may list.
pub fn tool_names() -> Vec<&'static str> {
    FAMILIES.iter().flat_map(|family| family.tools).map(|tool| tool.name).collect()
}

#[cfg(test)]
mod tests {
    use super::{FAMILIES, tool_names};
    use recalld_policy::plans::{FAMILY_NAMES, FREE_TOOLS};

    #[test]
    fn every_family_and_tool_of_the_catalog_may_be_named() {
        for family in FAMILIES {
            assert!(FAMILY_NAMES.contains(&family.name), "{}", family.name);
            for tool in family.tools {
                assert_eq!(tool_names().iter().filter(|name| **name == tool.name).count(), 1);
            }
        }
        assert!(FREE_TOOLS.iter().all(|tool| tool_names().contains(tool)));
    }
}
