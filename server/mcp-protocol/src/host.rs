//! The interface of an MCP server to the protocol library.
//!
//! The library knows no tools, stores or tenants. The implementation of [`Host`] provides them, and decides per caller
//! which of them exist.

use std::time::Instant;

use serde_json::{Map, Value};

use super::client::Client;
use super::fault::Fault;
use super::rounds::Outcome;
use recalld_common::cancel::CancellationToken;

/// Features of the server. A feature that is `None` or false has no methods.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities {
    /// Tools.
    pub tools: Option<Listing>,
    /// Resources and their templates.
    pub resources: Option<Listing>,
    /// True if clients can subscribe to resources.
    pub subscribe: bool,
    /// Prompts.
    pub prompts: Option<Listing>,
    /// Argument completion.
    pub completions: bool,
    /// Log messages.
    pub logging: bool,
}

/// Capability of a listed feature.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listing {
    /// True if the list may change while the server runs; clients are then notified.
    pub list_changed: bool,
}

/// Kind of a list that may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// List of tools.
    Tools,
    /// List of prompts.
    Prompts,
    /// List of resources.
    Resources,
}

/// One page of a list.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Items in the protocol's format.
    pub items: Vec<Value>,
    /// Cursor of the next page; `None` on the last page.
    pub next_cursor: Option<String>,
}

impl Page {
    /// Creates a list of one page, for which every cursor is invalid.
    ///
    /// # Errors
    /// A cursor is present.
    pub fn only(items: Vec<Value>, cursor: Option<&str>) -> Result<Self, Fault> {
        match cursor {
            None => Ok(Self { items, next_cursor: None }),
            Some(_) => {
                let why = "cursor: the list has one page, so no cursor is valid";
                Err(Fault::invalid_params(why))
            }
        }
    }
}

/// A resource to which a client subscribed.
#[derive(Debug, Clone)]
pub struct Followed<C> {
    /// The subscriber.
    pub caller: C,
    /// URI of the resource.
    pub uri: String,
    /// Version at the last poll; `None` if the resource did not exist for the caller.
    pub version: Option<u64>,
}

/// Target of a completion.
#[derive(Debug, Clone, Copy)]
pub enum Completing<'a> {
    /// An argument of the prompt with this name.
    Prompt(&'a str),
    /// A variable of the resource template with this URI.
    Resource(&'a str),
}

/// Completion values for an argument.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// Values, best first. The library sends as many as the protocol allows; one more value indicates that there are
    /// more.
    pub values: Vec<String>,
    /// Total number of values, if known.
    pub total: Option<usize>,
}

/// Features of a server. Methods are called from many threads concurrently. Long-running methods must poll
/// [`Client::is_over`].
pub trait Host: Send + Sync + 'static {
    /// The caller, as authenticated by the transport.
    type Caller: Clone + Send + Sync + 'static;

    /// A tool that is available to a caller, resolved once per call.
    type Tool: Send + 'static;

    /// The principal to which a session is bound: no other principal may use the session.
    fn principal(&self, caller: &Self::Caller) -> String;

    /// Returns the caller of one request, extended by the identity in the request's parameters.
    fn in_turn(&self, caller: &Self::Caller, params: &Value) -> Self::Caller {
        let _ = params;
        caller.clone()
    }

    /// Rejects a call of an unavailable tool by an HTTP status, before any work. `None` continues with
    /// [`Host::refuse_tool`].
    fn turn_away(&self, caller: &Self::Caller, tool: &str, params: &Value) -> Option<Fault> {
        let _ = (caller, tool, params);
        None
    }

    /// Returns true if a caller may still receive notifications: the credential may have ended since the stream began.
    fn stands(&self, caller: &Self::Caller) -> bool {
        let _ = caller;
        true
    }

    /// Charges one more request to a caller's rate limit; the transport charged the first request of each POST.
    ///
    /// # Errors
    /// The rate limit is exhausted.
    fn take(&self, caller: &Self::Caller) -> Result<(), Fault> {
        let _ = caller;
        Ok(())
    }

    /// `{name, title, version}`.
    fn server_info(&self) -> Value;

    /// Instructions to a model for using this server.
    fn instructions(&self) -> Option<String>;

    /// Features of this server.
    fn capabilities(&self) -> Capabilities;

    /// Lists the tools available to this caller.
    fn tools(&self, caller: &Self::Caller, cursor: Option<&str>) -> Result<Page, Fault>;

    /// Returns the tool with this name; `None` if unavailable to the caller.
    fn resolve_tool(&self, caller: &Self::Caller, name: &str) -> Option<Self::Tool>;

    /// Returns the error for a call of an unavailable tool.
    fn refuse_tool(&self, caller: &Self::Caller, name: &str) -> Fault {
        let _ = caller;
        let name: String = name.chars().take(80).collect();
        Fault::invalid_params(format!("Unknown tool: {name}"))
    }

    /// Input schema of a tool with arguments to mirror in headers (`x-mcp-header`); null for all other tools.
    fn mirroring_schema(&self, tool: &Self::Tool) -> Value {
        let _ = tool;
        Value::Null
    }

    /// Returns true if a tool may block, on its client or on a lock: the tool then runs on a thread of its own.
    fn may_wait(&self, tool: &Self::Tool) -> bool {
        let _ = tool;
        false
    }

    /// Calls an available tool.
    fn call_tool(
        &self,
        caller: &Self::Caller,
        tool: &Self::Tool,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault>;

    /// Lists the resources.
    fn resources(&self, caller: &Self::Caller, cursor: Option<&str>) -> Result<Page, Fault> {
        let _ = caller;
        Page::only(Vec::new(), cursor)
    }

    /// Lists the resource templates.
    fn templates(&self, caller: &Self::Caller, cursor: Option<&str>) -> Result<Page, Fault> {
        let _ = caller;
        Page::only(Vec::new(), cursor)
    }

    /// Reads a resource: `{contents}`.
    fn read(
        &self,
        caller: &Self::Caller,
        uri: &str,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        let _ = (caller, client);
        Err(Fault::resource_not_found(uri))
    }

    /// Version number of a resource, different after every change; `None` if the resource does not exist for the
    /// caller, or no longer does.
    fn version(&self, caller: &Self::Caller, uri: &str) -> Option<u64> {
        let _ = (caller, uri);
        None
    }

    /// Versions of these resources, in their order, each as seen by its caller, all from one snapshot. The old version
    /// may be returned for a resource that cannot have changed.
    fn versions(&self, followed: &[Followed<Self::Caller>]) -> Vec<Option<u64>> {
        followed.iter().map(|one| self.version(&one.caller, &one.uri)).collect()
    }

    /// Returns the version of a resource for a new subscription, once policy allows the subscription.
    ///
    /// # Errors
    /// The resource does not exist for this caller, or its version is unavailable.
    fn follow(
        &self,
        caller: &Self::Caller,
        uri: &str,
        cancel: &CancellationToken,
        deadline: Instant,
    ) -> Result<u64, Fault> {
        let _ = (cancel, deadline);
        self.version(caller, uri).ok_or_else(|| Fault::resource_not_found(uri))
    }

    /// Lists the prompts.
    fn prompts(&self, caller: &Self::Caller, cursor: Option<&str>) -> Result<Page, Fault> {
        let _ = caller;
        Page::only(Vec::new(), cursor)
    }

    /// Returns a prompt: `{description, messages}`.
    fn prompt(
        &self,
        caller: &Self::Caller,
        name: &str,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        let _ = (caller, arguments, client);
        Err(Fault::invalid_params(format!("Unknown prompt: {name}")))
    }

    /// Completes an argument of a prompt or template. `given` are the arguments already set.
    fn complete(
        &self,
        caller: &Self::Caller,
        of: Completing<'_>,
        argument: &str,
        value: &str,
        given: &Value,
        client: &Client<'_>,
    ) -> Result<Completion, Fault> {
        let _ = (caller, of, argument, value, given, client);
        Ok(Completion::default())
    }
}
