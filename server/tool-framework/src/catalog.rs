//! The tool families of a service, filtered by a caller's plan and scopes.

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
    /// Builds a catalog; the order of `families` is the order of all lists.
    pub const fn new(families: &'static [&'static Family]) -> Self {
        Self { families }
    }

    /// All families in catalog order.
    pub fn families(self) -> impl Iterator<Item = &'static Family> {
        self.families.iter().copied()
    }

    /// All tools in catalog order.
    pub fn tools(self) -> impl Iterator<Item = &'static Tool> {
        self.families().flat_map(|family| family.tools)
    }

    /// Names of all tools in catalog order; a plan may list these names.
    pub fn tool_names(self) -> Vec<&'static str> {
        self.tools().map(|tool| tool.name).collect()
    }

    /// Tools that this caller may use and `profile` shows, in catalog order.
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

    /// Returns the scope that the caller lacks for a tool of its plan, if the plan can grant the scope. Another
    /// credential of the workspace could then use the tool.
    pub fn lacking(self, caller: &Caller, name: &str) -> Option<Scope> {
        let tool = self.families().find_map(|family| {
            let tool = family.tools.iter().find(|tool| tool.name == name)?;
            caller.entitled.has_tool(family.name, name).then_some(tool)
        })?;
        let may_have = |scope: &Scope| caller.entitled.may_grant(*scope);
        tool.scope.filter(|scope| !caller.scopes.contains(scope)).filter(may_have)
    }

    /// Finds a tool by name. For a caller that may not use the tool, the tool does not exist.
    ///
    /// # Errors
    /// If there is no such tool, returns the message for the caller, which suggests the nearest usable tool name.
    pub fn find(self, caller: &Caller, name: &str) -> Result<&'static Tool, String> {
        self.named(caller, name).ok_or_else(|| self.unknown(caller, name))
    }

    /// Finds a tool by name, as [`Self::find`], without an error message.
    pub fn named(self, caller: &Caller, name: &str) -> Option<&'static Tool> {
        self.visible_to(caller, Profile::Full).find(|tool| tool.name == name)
    }

    /// Message for an unknown tool name; suggests the nearest tool that the caller may use.
    pub fn unknown(self, caller: &Caller, name: &str) -> String {
        let names = self.visible_to(caller, Profile::Full).map(|tool| tool.name);
        let hint = match nearest::nearest(name, names) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "tools/list names those there are".to_owned(),
        };
        format!("Unknown tool: {}; {hint}", nearest::cut(name))
    }
}
