//! The families of tools that a service has, and which of their tools a caller may use.

use recalld_common::nearest;
use recalld_common::scope::Scope;
use recalld_policy::Caller;

use super::profile::Profile;
use super::tool::{Family, Tool};

/// The tools of a service, by family.
#[derive(Clone, Copy)]
pub struct Catalog {
    families: &'static [&'static Family],
}

impl Catalog {
    /// A catalog of these families, in this order.
    pub const fn new(families: &'static [&'static Family]) -> Self {
        Self { families }
    }

    /// Every family, in the order of the catalog.
    pub fn families(self) -> impl Iterator<Item = &'static Family> {
        self.families.iter().copied()
    }

    /// Every tool, in the order of the catalog.
    pub fn tools(self) -> impl Iterator<Item = &'static Tool> {
        self.families().flat_map(|family| family.tools)
    }

    /// The names of all tools, in the order of the catalog: those that a plan may list.
    pub fn tool_names(self) -> Vec<&'static str> {
        self.tools().map(|tool| tool.name).collect()
    }

    /// The tools that this caller may use, in the order of the catalog, as far as the profile shows them.
    pub fn visible_to(
        self,
        caller: &Caller,
        profile: Profile,
    ) -> impl Iterator<Item = &'static Tool> {
        let tools = self.families().flat_map(move |family| {
            let has = move |tool: &&Tool| caller.entitled.has_tool(family.name, tool.name);
            family.tools.iter().filter(has)
        });
        let shown = tools.filter(move |tool| profile == Profile::Full || tool.core);
        shown.filter(|tool| tool.scope.is_none_or(|scope| caller.scopes.contains(&scope)))
    }

    /// The scope that keeps a caller from a tool of its plan, and that its plan would grant it: another credential of
    /// the same workspace could use the tool.
    pub fn lacking(self, caller: &Caller, name: &str) -> Option<Scope> {
        let tool = self.families().find_map(|family| {
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
    pub fn find(self, caller: &Caller, name: &str) -> Result<&'static Tool, String> {
        self.named(caller, name).ok_or_else(|| self.unknown(caller, name))
    }

    /// The same, without what to tell.
    pub fn named(self, caller: &Caller, name: &str) -> Option<&'static Tool> {
        self.visible_to(caller, Profile::Full).find(|tool| tool.name == name)
    }

    /// Tells a caller that it has no tool of this name, with the nearest name of a tool that it may use.
    pub fn unknown(self, caller: &Caller, name: &str) -> String {
        let names = self.visible_to(caller, Profile::Full).map(|tool| tool.name);
        let hint = match nearest::nearest(name, names) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "tools/list names those there are".to_owned(),
        };
        format!("Unknown tool: {}; {hint}", nearest::cut(name))
    }
}
