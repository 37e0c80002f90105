//! The MCP server of recalld: its tools, memories as resources, and prompts.
//!
//! Depends on the catalog and the store; `mcp` implements the protocol. Every read is processed like a tool call:
//! scope, policy, an entry in the ledger.

mod prompts;
mod resources;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use engine::Snapshot;
use serde_json::{Map, Value, json};

use crate::app_state::{AppState, Held};
use crate::service_error::{as_fault, over_mcp};
use recalld_common::age::STALE_SECONDS_META;
use recalld_common::cancel::CancellationToken;
use recalld_common::wants::Wants;
use recalld_mcp_protocol::{
    Capabilities, Client, Completing, Completion, Fault, Followed, Host, Level, Listing, Outcome,
    Page,
};
use recalld_oauth::{Scopes, challenge};
use recalld_policy::Caller;
use recalld_policy::identity::TURN_IDENTITY;
use recalld_tool_framework::{
    Answer, Profile, Refused, ServiceError, Tool, ToolContext, governed, record_refusal,
};
use recalld_tools::instructions::INSTRUCTIONS;
use recalld_tools::{CATALOG, brief};

/// A caller, and the part of the catalog that the caller's URL selects.
#[derive(Debug, Clone)]
pub struct Visitor {
    caller: Arc<Caller>,
    profile: Profile,
}

impl Visitor {
    /// Creates a visitor from a caller and the query of the URL.
    ///
    /// # Errors
    /// The query names an unknown profile.
    pub fn of(caller: Arc<Caller>, query: Option<&str>) -> Result<Self, Fault> {
        let profile = Profile::from_query(query)
            .map_err(|why| Fault::server("unknown_profile", why).with_status(400))?;
        Ok(Self { caller, profile })
    }
}

/// The MCP server handler of the product.
pub struct Product {
    parts: Arc<AppState>,
}

impl Product {
    /// Creates a handler for these components.
    pub fn new(parts: Arc<AppState>) -> Self {
        Self { parts }
    }

    /// Runs the read-only `work` as an audited call until the call is cancelled or its deadline has passed. Returns the
    /// staleness of the answer as well.
    fn governed(
        &self,
        caller: &Caller,
        (cancel, deadline): (&CancellationToken, Instant),
        (operation, arguments): (&'static str, &Value),
        work: impl FnOnce(&ToolContext<'_>) -> Result<Answer, ServiceError>,
    ) -> Result<(Answer, Option<u64>), Refused> {
        let (held, stale) = self.parts.enter(caller, Wants::Reads, cancel)?;
        let (parts, workspace) = (&*self.parts, &*held);
        let context = ToolContext {
            services: parts.tool_services(),
            workspace,
            caller,
            cancel,
            deadline,
            progress: None,
        };
        governed(&context, operation, arguments, false, work).map(|answer| (answer, stale))
    }

    /// Records the entry of a call that is rejected before any data is read. Returns a fault if recording fails.
    fn refused(
        &self,
        caller: &Caller,
        (operation, arguments): (&'static str, &Value),
    ) -> Option<Fault> {
        let held = self.parts.workspace_of(caller).map_err(ServiceError::from);
        let recorded = held.and_then(|held| record_refusal(&held, caller, operation, arguments));
        recorded.err().and_then(|error| over_mcp(&error))
    }
}

impl Host for Product {
    type Caller = Visitor;

    type Tool = &'static Tool;

    fn principal(&self, Visitor { caller, .. }: &Visitor) -> String {
        format!("{}/{}", caller.workspace, caller.principal)
    }

    fn in_turn(&self, visitor: &Visitor, params: &Value) -> Visitor {
        // Without an asserted identity, the call is the caller's own and reuses the caller's cached policy decisions.
        let Some(asserted) = params["_meta"].get(TURN_IDENTITY) else { return visitor.clone() };
        let turn = visitor.caller.turn.asserting(Some(asserted));
        let caller = Arc::new(visitor.caller.in_turn(turn));
        Visitor { caller, profile: visitor.profile }
    }

    fn turn_away(&self, visitor: &Visitor, name: &str, params: &Value) -> Option<Fault> {
        let authority = self.parts.authority.as_ref()?;
        let lacking = CATALOG.lacking(&visitor.caller, name)?;
        let Visitor { caller, .. } = &self.in_turn(visitor, params);
        if let Some(fault) = self.refused(caller, ("tools/call", &json!({"name": name}))) {
            return Some(fault.with_status(503));
        }
        // The challenge includes the granted scopes, so that a single sign-in suffices.
        let needed: Scopes = caller.scopes.iter().copied().chain([lacking]).collect();
        let at = authority.places.resource_metadata();
        let why = format!("{name} takes the scope {}", lacking.name());
        let fault = Fault::server("insufficient_scope", why).with_status(403);
        Some(fault.with_challenge(challenge::insufficient_scope(&at, &needed)))
    }

    fn stands(&self, Visitor { caller, .. }: &Visitor) -> bool {
        self.parts.control.caller_stands(caller)
    }

    fn take(&self, Visitor { caller, .. }: &Visitor) -> Result<(), Fault> {
        self.parts.limit(caller).map_err(|wait| {
            let why = format!("too many calls; there may be another in {} s", wait.seconds);
            Fault::server("too_many_requests", why).with_status(429)
        })
    }

    fn server_info(&self) -> Value {
        json!({
            "name": "recalld", "title": "recalld memory recall",
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    fn instructions(&self) -> Option<String> {
        Some(INSTRUCTIONS.to_owned())
    }

    fn capabilities(&self) -> Capabilities {
        // The lists of a caller do not change while the server runs.
        let fixed = Some(Listing { list_changed: false });
        Capabilities {
            tools: fixed,
            resources: fixed,
            subscribe: true,
            prompts: fixed,
            completions: true,
            logging: true,
        }
    }

    fn tools(
        &self,
        Visitor { caller, profile }: &Visitor,
        cursor: Option<&str>,
    ) -> Result<Page, Fault> {
        Page::only(CATALOG.visible_to(caller, *profile).map(Tool::describe).collect(), cursor)
    }

    fn resolve_tool(&self, Visitor { caller, .. }: &Visitor, name: &str) -> Option<&'static Tool> {
        CATALOG.named(caller, name)
    }

    fn refuse_tool(&self, Visitor { caller, .. }: &Visitor, name: &str) -> Fault {
        let why = CATALOG.unknown(caller, name);
        let refused = self.refused(caller, ("tools/call", &json!({"name": name})));
        refused.unwrap_or_else(|| Fault::invalid_params(why))
    }

    fn may_wait(&self, tool: &&'static Tool) -> bool {
        recalld_tools::may_wait(tool)
    }

    fn call_tool(
        &self,
        Visitor { caller, .. }: &Visitor,
        tool: &&'static Tool,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        let entered = self.parts.enter(caller, tool.wants(), client.cancel());
        let (workspace, stale) = entered.map_err(|error| as_fault(&error))?;
        let notify = |done: u64, total: u64, what: &str| client.progress(done, total, what);
        let context = ToolContext {
            services: self.parts.tool_services(),
            workspace: &workspace,
            caller,
            cancel: client.cancel(),
            deadline: client.deadline(),
            progress: if client.wants_progress() { Some(&notify) } else { None },
        };
        let result = match tool.call(&context, arguments) {
            Ok(mut answer) => json!({
                "content": [{"type": "text", "text": answer.text}],
                "structuredContent": answer.take_content(),
                "isError": false,
            }),
            Err(refused) => {
                let is_ours = refused.error.is_ours();
                if is_ours {
                    client.log(Level::Error, tool.name, json!(refused.to_string()));
                }
                match over_mcp(&refused.error) {
                    Some(fault) => return Err(fault),
                    None => json!({
                        "content": [{"type": "text", "text": refused.to_string()}],
                        "isError": true,
                        "_meta": {
                            "recalld/reason": refused.error.reason(),
                            "recalld/receipt": refused.receipt,
                        },
                    }),
                }
            }
        };
        Ok(Outcome::Done(aged(result, stale)))
    }

    fn resources(
        &self,
        Visitor { caller, .. }: &Visitor,
        cursor: Option<&str>,
    ) -> Result<Page, Fault> {
        Page::only(resources::listed(caller), cursor)
    }

    fn templates(
        &self,
        Visitor { caller, .. }: &Visitor,
        cursor: Option<&str>,
    ) -> Result<Page, Fault> {
        Page::only(resources::templates(caller), cursor)
    }

    fn read(
        &self,
        Visitor { caller, .. }: &Visitor,
        uri: &str,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        let not_found = || Fault::resource_not_found(uri);
        let operation = ("resources/read", &json!({"uri": uri}));
        let Some(named) = resources::Named::of(caller, uri) else {
            return Err(self.refused(caller, operation).unwrap_or_else(not_found));
        };
        let read =
            self.governed(caller, until(client), operation, |context| named.read(context, uri));
        read.map(|(answer, stale)| Outcome::Done(aged(with_receipt(answer), stale)))
            .map_err(|refused| read_fault(&refused.error, not_found))
    }

    fn version(&self, Visitor { caller, .. }: &Visitor, uri: &str) -> Option<u64> {
        let workspace = self.parts.workspace_of(caller).ok()?;
        let snapshot = workspace.store.snapshot();
        let look = resources::Look::at(&snapshot, &workspace, self.parts.clock.now());
        resources::Named::of(caller, uri)?.version(&look, caller)
    }

    fn versions(&self, followed: &[Followed<Visitor>]) -> Vec<Option<u64>> {
        let now = self.parts.clock.now();
        let mut open: BTreeMap<&str, Option<(Held, Snapshot)>> = BTreeMap::new();
        for Followed { caller: Visitor { caller, .. }, .. } in followed {
            open.entry(&caller.workspace).or_insert_with(|| {
                let workspace = self.parts.workspace_if_open(caller)?;
                let snapshot = workspace.store.snapshot();
                Some((workspace, snapshot))
            });
        }
        let looks: BTreeMap<&str, resources::Look<'_>> = open
            .iter()
            .filter_map(|(name, open)| {
                open.as_ref().map(|(held, snapshot)| (*name, held, snapshot))
            })
            .map(|(name, held, snapshot)| (name, resources::Look::at(snapshot, held, now)))
            .collect();
        let version = |Followed { caller: Visitor { caller, .. }, uri, version }: &Followed<_>| {
            // A closed workspace has received no writes.
            let Some(look) = looks.get(&*caller.workspace) else { return *version };
            resources::Named::of(caller, uri)?.version(look, caller)
        };
        followed.iter().map(version).collect()
    }

    fn follow(
        &self,
        Visitor { caller, .. }: &Visitor,
        uri: &str,
        cancel: &CancellationToken,
        deadline: Instant,
    ) -> Result<u64, Fault> {
        let not_found = || Fault::resource_not_found(uri);
        let operation = ("resources/subscribe", &json!({"uri": uri}));
        let Some(named) = resources::Named::of(caller, uri) else {
            return Err(self.refused(caller, operation).unwrap_or_else(not_found));
        };
        let mut version = None;
        let followed = self.governed(caller, (cancel, deadline), operation, |context| {
            let (found, answer) = named.follow(context, uri)?;
            version = Some(found);
            Ok(answer)
        });
        followed.map_err(|refused| read_fault(&refused.error, not_found))?;
        version.ok_or_else(not_found)
    }

    fn prompts(&self, _: &Visitor, cursor: Option<&str>) -> Result<Page, Fault> {
        Page::only(prompts::listed(), cursor)
    }

    fn prompt(
        &self,
        Visitor { caller, .. }: &Visitor,
        name: &str,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        let prompt = prompts::Prompt::find(name, arguments)?;
        if !prompt.wants_brief(caller) {
            return Ok(Outcome::Done(prompt.show(None)));
        }
        let operation = ("prompts/get", &json!({"name": name}));
        let read = self.governed(caller, until(client), operation, brief::today);
        match read {
            Ok((answer, _)) => Ok(Outcome::Done(prompt.show(Some(&answer.text)))),
            Err(refused) => Err(as_fault(&refused.error)),
        }
    }

    fn complete(
        &self,
        Visitor { caller, .. }: &Visitor,
        of: Completing<'_>,
        argument: &str,
        value: &str,
        _: &Value,
        client: &Client<'_>,
    ) -> Result<Completion, Fault> {
        let wanted = match of {
            Completing::Prompt(name) => prompts::completing(name, argument)?,
            Completing::Resource(template) => resources::completing(template, argument)?,
        };
        let mut values = Vec::new();
        if wanted != resources::Wanted::Nothing && resources::may_read(caller) {
            let operation = ("completion/complete", &json!({"name": argument, "value": value}));
            let found = self.governed(caller, until(client), operation, |context| {
                wanted.complete(context, value, &mut values)
            });
            found.map_err(|refused| as_fault(&refused.error))?;
        }
        Ok(Completion { values, total: None })
    }
}

fn until<'a>(client: &'a Client<'_>) -> (&'a CancellationToken, Instant) {
    (client.cancel(), client.deadline())
}

/// Returns the fault of a call that names a resource; the resource may be missing.
fn read_fault(error: &ServiceError, not_found: impl FnOnce() -> Fault) -> Fault {
    match error {
        ServiceError::Argument { .. }
        | ServiceError::Missing { .. }
        | ServiceError::Denied { .. } => not_found(),
        other => as_fault(other),
    }
}

/// Adds the staleness to a result if this node is a follower.
fn aged(mut result: Value, stale: Option<u64>) -> Value {
    if let Some(seconds) = stale {
        result["_meta"][STALE_SECONDS_META] = seconds.into();
    }
    result
}

/// Builds a result with the receipt in `_meta`.
fn with_receipt(Answer { structured: mut result, receipt, .. }: Answer) -> Value {
    result["_meta"]["recalld/receipt"] = json!(receipt);
    result
}
