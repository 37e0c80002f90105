//! What an MCP server offers, as the protocol library sees it.
//!
//! The library knows no tools, stores or tenants: whoever implements [`Host`] has them, and decides
//! for each caller what exists.

use std::time::Instant;

use serde_json::{Map, Value};

use super::client::Client;
use super::fault::Fault;
use super::rounds::Outcome;
use recalld_common::cancel::CancellationToken;

/// Which features there are. What is `None` or false has no methods.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities {
    /// Tools.
    pub tools: Option<Listing>,
    /// Resources and their templates.
    pub resources: Option<Listing>,
    /// Whether resources can be followed.
    pub subscribe: bool,
    /// Prompts.
    pub prompts: Option<Listing>,
    /// Completions of arguments.
    pub completions: bool,
    /// Log messages.
    pub logging: bool,
}

/// A list of a feature.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listing {
    /// Whether it may change while the server runs, which is then told.
    pub list_changed: bool,
}

/// The lists that may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Of tools.
    Tools,
    /// Of prompts.
    Prompts,
    /// Of resources.
    Resources,
}

/// One page of a list.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// As the protocol shows them.
    pub items: Vec<Value>,
    /// Where the next page begins; `None` on the last one.
    pub next_cursor: Option<String>,
}

impl Page {
    /// A list of one page: a cursor can only be wrong.
    ///
    /// # Errors
    /// There is a cursor.
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

/// A resource that a client follows.
#[derive(Debug, Clone)]
pub struct Followed<C> {
    /// Who follows it.
    pub caller: C,
    /// Which.
    pub uri: String,
    /// Its version at the last look; `None` where the caller had no such resource then.
    pub version: Option<u64>,
}

/// What completion is asked for.
#[derive(Debug, Clone, Copy)]
pub enum Completing<'a> {
    /// An argument of the prompt of this name.
    Prompt(&'a str),
    /// A variable of the resource template of this URI.
    Resource(&'a str),
}

/// Values for an argument.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// Best first; the library shows as many as the protocol allows. One more says that there are more.
    pub values: Vec<String>,
    /// How many there are, where that is known.
    pub total: Option<usize>,
}

/// A server's features. Methods are called from many threads at a time; those that may take long ask
/// [`Client::is_over`] now and then.
pub trait Host: Send + Sync + 'static {
    /// Who calls, as the transport found out.
    type Caller: Clone + Send + Sync + 'static;

    /// A tool that a caller has, resolved once for each call.
    type Tool: Send + 'static;

    /// The name that a session is bound to: only the same caller may use it.
    fn principal(&self, caller: &Self::Caller) -> String;

    /// The caller of one request, with what its parameters say of it.
    fn in_turn(&self, caller: &Self::Caller, params: &Value) -> Self::Caller {
        let _ = params;
        caller.clone()
    }

    /// Answers a call of a tool that the caller has not by the status of HTTP alone, before anything is done for it;
    /// `None` where the call goes on to [`Host::refuse_tool`].
    fn turn_away(&self, caller: &Self::Caller, tool: &str, params: &Value) -> Option<Fault> {
        let _ = (caller, tool, params);
        None
    }

    /// Whether a caller may still listen: what it showed when it began may have ended since.
    fn stands(&self, caller: &Self::Caller) -> bool {
        let _ = caller;
        true
    }

    /// Takes one more request of a caller out of its rate; the first of each POST was taken by the transport.
    ///
    /// # Errors
    /// There is none left now.
    fn take(&self, caller: &Self::Caller) -> Result<(), Fault> {
        let _ = caller;
        Ok(())
    }

    /// `{name, title, version}`.
    fn server_info(&self) -> Value;

    /// How a model should use this server.
    fn instructions(&self) -> Option<String>;

    /// What there is.
    fn capabilities(&self) -> Capabilities;

    /// The tools that this caller may use.
    fn tools(&self, caller: &Self::Caller, cursor: Option<&str>) -> Result<Page, Fault>;

    /// The tool of that name; `None` where the caller has none.
    fn resolve_tool(&self, caller: &Self::Caller, name: &str) -> Option<Self::Tool>;

    /// The fault of a call of a tool that the caller has not.
    fn refuse_tool(&self, caller: &Self::Caller, name: &str) -> Fault {
        let _ = caller;
        let name: String = name.chars().take(80).collect();
        Fault::invalid_params(format!("Unknown tool: {name}"))
    }

    /// The input schema of a tool with arguments that are to be mirrored in headers
    /// (`x-mcp-header`); null for all others.
    fn mirroring_schema(&self, tool: &Self::Tool) -> Value {
        let _ = tool;
        Value::Null
    }

    /// Whether a tool may wait, for its client or for a turn: it is then run on a thread of its own.
    fn may_wait(&self, tool: &Self::Tool) -> bool {
        let _ = tool;
        false
    }

    /// Calls a tool that the caller has.
    fn call_tool(
        &self,
        caller: &Self::Caller,
        tool: &Self::Tool,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault>;

    /// Resources.
    fn resources(&self, caller: &Self::Caller, cursor: Option<&str>) -> Result<Page, Fault> {
        let _ = caller;
        Page::only(Vec::new(), cursor)
    }

    /// Templates of resources.
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

    /// A number that changes whenever the resource does; `None` where this caller has no such
    /// resource, or has it no more.
    fn version(&self, caller: &Self::Caller, uri: &str) -> Option<u64> {
        let _ = (caller, uri);
        None
    }

    /// The versions of these resources, each as its caller sees it, in their order; of one moment. One that
    /// cannot have changed may be given as it was.
    fn versions(&self, followed: &[Followed<Self::Caller>]) -> Vec<Option<u64>> {
        followed.iter().map(|one| self.version(&one.caller, &one.uri)).collect()
    }

    /// The version of a resource that a client is about to follow, once policy has let it.
    ///
    /// # Errors
    /// There is none for this caller, or it cannot be told.
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

    /// Prompts.
    fn prompts(&self, caller: &Self::Caller, cursor: Option<&str>) -> Result<Page, Fault> {
        let _ = caller;
        Page::only(Vec::new(), cursor)
    }

    /// A prompt: `{description, messages}`.
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

    /// Completes an argument of a prompt or template. `given` are the arguments that stand already.
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
