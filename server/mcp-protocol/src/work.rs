//! Execution of a request: the methods of both protocol styles, and the rounds of input requests that some of them
//! need.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::abilities::{Abilities, capability_of};
use super::client::Client;
use super::era::META_SERVER;
use super::fault::Fault;
use super::flight::{Flight, Settling};
use super::host::{Completing, Completion, Host, Listing, Page};
use super::log_level::Level;
use super::rounds::{Input, NeedsInput, Outcome};
use super::seal::Bound;
use super::session::Session;
use super::shared::Shared;
use super::{handshake, message, per_request};
use crate::limits::{
    COMPLETION_VALUES_MAX, INPUT_REQUESTS_MAX, INPUT_ROUNDS_MAX, LIST_CACHE_TIME, LONG_CALLS_MAX,
};

/// Protocol style of a request, with the client's properties.
pub(super) enum Manner {
    /// A request of a handshake revision.
    Handshake {
        /// The client's capabilities; none without a session.
        abilities: Abilities,
        session: Option<Arc<Session>>,
    },
    /// A request of revision 2026-07-28.
    PerRequest { abilities: Abilities, level: Option<Level> },
}

/// A request to execute and answer.
pub(super) struct Work<H: Host> {
    pub shared: Arc<Shared<H>>,
    pub caller: H::Caller,
    pub manner: Manner,
    pub flight: Arc<Flight>,
    /// The tool of `tools/call`, if available to the caller.
    pub tool: Option<H::Tool>,
    pub method: String,
    pub params: Value,
}

/// Rejects a call of an unavailable tool by an HTTP status; `None` for every other request.
pub(super) fn turned_away<H: Host>(
    host: &H,
    caller: &H::Caller,
    method: &str,
    params: &Value,
) -> Option<Fault> {
    let name = params["name"].as_str().filter(|_| method == "tools/call")?;
    host.turn_away(caller, name, params)
}

impl<H: Host> Work<H> {
    /// Executes the request, here or on a thread of its own.
    pub(super) fn start(mut self) {
        self.caller = self.shared.host.in_turn(&self.caller, &self.params);
        let waits = self.tool.as_ref().is_some_and(|tool| self.shared.host.may_wait(tool));
        if !waits {
            return self.run();
        }
        let (shared, flight) = (Arc::clone(&self.shared), Arc::clone(&self.flight));
        if !shared.threads.run(move || self.run()) {
            let why =
                format!("{LONG_CALLS_MAX} calls that may wait are under way; try again later");
            flight.answer(Err(Fault::server("too_many_requests", why).with_status(503)));
        }
    }

    fn run(self) {
        let _settled_whatever_happens = Settling(&self.flight);
        // Caught here, because a response sent while a panic unwinds would abort its stream.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.outcome()));
        let outcome = outcome.unwrap_or_else(|_| Err(Fault::internal()));
        self.flight.answer(match self.manner {
            Manner::Handshake { .. } => outcome.map_err(Fault::handshake),
            Manner::PerRequest { .. } => {
                outcome.map(|result| self.dressed(result)).map_err(Fault::modern)
            }
        });
    }

    fn outcome(&self) -> Result<Value, Fault> {
        let (host, caller) = (&self.shared.host, &self.caller);
        let has = host.capabilities();
        let cursor = self.cursor()?;
        match self.method.as_str() {
            "tools/list" if has.tools.is_some() => listed("tools", host.tools(caller, cursor)),
            "tools/call" if has.tools.is_some() => self.call_tool(),
            "resources/list" if has.resources.is_some() => {
                listed("resources", host.resources(caller, cursor))
            }
            "resources/templates/list" if has.resources.is_some() => {
                listed("resourceTemplates", host.templates(caller, cursor))
            }
            "resources/read" if has.resources.is_some() => {
                let uri = super::listens::checked_uri(&self.params["uri"])?;
                self.in_rounds(|client| host.read(caller, &uri, client))
            }
            "prompts/list" if has.prompts.is_some() => {
                listed("prompts", host.prompts(caller, cursor))
            }
            "prompts/get" if has.prompts.is_some() => self.get_prompt(),
            "completion/complete" if has.completions => self.complete(),
            _ => match &self.manner {
                Manner::Handshake { session, .. } => handshake::method(self, session.as_ref()),
                Manner::PerRequest { .. } => per_request::method(self),
            },
        }
    }

    fn cursor(&self) -> Result<Option<&str>, Fault> {
        match &self.params["cursor"] {
            Value::Null => Ok(None),
            Value::String(cursor) => Ok(Some(cursor)),
            _ => Err(Fault::invalid_params("cursor: a string is wanted")),
        }
    }

    fn call_tool(&self) -> Result<Value, Fault> {
        let (host, caller) = (&self.shared.host, &self.caller);
        let name = self.name("a tool's name")?;
        let Some(tool) = &self.tool else { return Err(host.refuse_tool(caller, name)) };
        let arguments = self.arguments()?;
        self.in_rounds(|client| host.call_tool(caller, tool, &arguments, client))
    }

    fn get_prompt(&self) -> Result<Value, Fault> {
        let name = self.name("a prompt's name")?;
        let arguments = self.arguments()?;
        let (host, caller) = (&self.shared.host, &self.caller);
        self.in_rounds(|client| host.prompt(caller, name, &arguments, client))
    }

    fn name(&self, what: &str) -> Result<&str, Fault> {
        let name = self.params["name"].as_str();
        name.ok_or_else(|| Fault::invalid_params(format!("name is missing: {what}")))
    }

    fn arguments(&self) -> Result<Cow<'_, Map<String, Value>>, Fault> {
        message::arguments(&self.params["arguments"]).map_err(Fault::invalid_params)
    }

    fn complete(&self) -> Result<Value, Fault> {
        let text = |value: &Value, what: &str| {
            let text = value.as_str().map(str::to_owned);
            text.ok_or_else(|| Fault::invalid_params(format!("{what}: a string is wanted")))
        };
        let reference = &self.params["ref"];
        let (name, uri);
        let of = match reference["type"].as_str() {
            Some("ref/prompt") => {
                name = text(&reference["name"], "ref.name")?;
                Completing::Prompt(&name)
            }
            Some("ref/resource") => {
                uri = text(&reference["uri"], "ref.uri")?;
                Completing::Resource(&uri)
            }
            _ => {
                let why = "ref.type: ref/prompt or ref/resource";
                return Err(Fault::invalid_params(why));
            }
        };
        let argument = text(&self.params["argument"]["name"], "argument.name")?;
        let value = text(&self.params["argument"]["value"], "argument.value")?;
        let given = &self.params["context"]["arguments"];
        let host = &self.shared.host;
        self.in_rounds(|client| {
            let found = host.complete(&self.caller, of, &argument, &value, given, client)?;
            Ok(Outcome::Done(completed(found)))
        })
    }

    /// Runs a method that may need input from the client, until it returns a result.
    fn in_rounds(
        &self,
        run: impl Fn(&Client<'_>) -> Result<Outcome, Fault>,
    ) -> Result<Value, Fault> {
        match &self.manner {
            Manner::PerRequest { abilities, level } => {
                let input = self.input()?;
                let client = Client::new(&self.flight, *abilities, &self.params, *level, input);
                match run(&client)? {
                    Outcome::Done(result) => Ok(result),
                    Outcome::NeedsInput(needed) => self.input_required(&client, needed),
                }
            }
            Manner::Handshake { abilities, session } => {
                let level = session.as_ref().map_or(Level::Info, |session| session.level());
                let (input, level) = (Input::default(), Some(level));
                let mut client = Client::new(&self.flight, *abilities, &self.params, level, input);
                for _ in 0..INPUT_ROUNDS_MAX {
                    match run(&client)? {
                        Outcome::Done(result) => return Ok(result),
                        Outcome::NeedsInput(needed) => {
                            let input = asked(&client, needed)?;
                            client.set_input(input);
                        }
                    }
                }
                let why =
                    format!("the client was asked {INPUT_ROUNDS_MAX} times, which is too often");
                Err(Fault::server("too_many_rounds", why))
            }
        }
    }

    /// Parses the client's responses to the input requests of an earlier round.
    fn input(&self) -> Result<Input, Fault> {
        let responses = match self.params.get("inputResponses") {
            None => Map::new(),
            Some(Value::Object(responses)) => responses.clone(),
            Some(_) => return Err(Fault::invalid_params("inputResponses: an object is wanted")),
        };
        if let Some((key, _)) = responses.iter().find(|(_, response)| !response.is_object()) {
            let key: String = key.chars().take(80).collect();
            let why = format!("inputResponses.{key}: an object is wanted");
            return Err(Fault::invalid_params(why));
        }
        let state = match self.params.get("requestState") {
            None => None,
            Some(Value::String(sealed)) => {
                let principal = self.shared.host.principal(&self.caller);
                Some(self.shared.seal.open(self.bound(&principal), sealed)?)
            }
            Some(_) => return Err(Fault::invalid_params("requestState: a string is wanted")),
        };
        Ok(Input { responses, state })
    }

    fn bound<'a>(&'a self, principal: &'a str) -> Bound<'a> {
        Bound { principal, method: &self.method, params: &self.params }
    }

    fn input_required(&self, client: &Client<'_>, needed: NeedsInput) -> Result<Value, Fault> {
        check_capable(client, &needed)?;
        let mut result = json!({
            "resultType": "input_required", "inputRequests": needed.requests,
        });
        if let Some(state) = &needed.state {
            let principal = self.shared.host.principal(&self.caller);
            result["requestState"] = self.shared.seal.seal(self.bound(&principal), state)?.into();
        }
        Ok(result)
    }

    /// Adds the metadata that every result of revision 2026-07-28 contains.
    fn dressed(&self, mut result: Value) -> Value {
        if result.get("resultType").is_none() {
            result["resultType"] = "complete".into();
        }
        result["_meta"][META_SERVER] = self.shared.host.server_info();
        let ttl = match self.method.as_str() {
            "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list" => Some(LIST_CACHE_TIME.as_millis()),
            // Resource contents may change with the next call.
            "resources/read" => Some(0),
            _ => None,
        };
        if let Some(ttl) = ttl.filter(|_| result["resultType"] == "complete") {
            result["ttlMs"] = u64::try_from(ttl).unwrap_or(u64::MAX).into();
            // Another caller may see other contents.
            result["cacheScope"] = "private".into();
        }
        result
    }
}

/// Encodes a completion. `total` is omitted if unknown.
fn completed(mut found: Completion) -> Value {
    let count = found.values.len();
    found.values.truncate(COMPLETION_VALUES_MAX);
    let has_more = found.total.unwrap_or(count) > found.values.len();
    let mut shown = json!({"values": found.values, "hasMore": has_more});
    // Without a total from the server handler, the number of values is the total if there are no more.
    if let Some(total) = found.total.or_else(|| (!has_more).then_some(count)) {
        shown["total"] = total.into();
    }
    json!({"completion": shown})
}

/// Encodes a page of a list.
fn listed(field: &str, page: Result<Page, Fault>) -> Result<Value, Fault> {
    let page = page?;
    let mut result = json!({field: page.items});
    if let Some(next) = page.next_cursor {
        result["nextCursor"] = next.into();
    }
    Ok(result)
}

/// Checks that the client declared the capabilities for all input requests: requests without a declared capability must
/// not be sent.
fn check_capable(client: &Client<'_>, needed: &NeedsInput) -> Result<(), Fault> {
    if needed.requests.len() > INPUT_REQUESTS_MAX {
        return Err(Fault::internal());
    }
    for request in needed.requests.values() {
        let capability = request["method"].as_str().and_then(capability_of);
        let capability = capability.ok_or_else(Fault::internal)?;
        if !client.has(capability) {
            return Err(Fault::missing_capability(capability));
        }
    }
    Ok(())
}

/// Sends the input requests to a handshake client, one after another.
fn asked(client: &Client<'_>, needed: NeedsInput) -> Result<Input, Fault> {
    check_capable(client, &needed)?;
    let mut responses = Map::new();
    for (key, request) in needed.requests {
        let method = request["method"].as_str().unwrap_or_default();
        let response = client.ask(method, &request["params"])?;
        responses.insert(key, response);
    }
    Ok(Input { responses, state: needed.state })
}

/// Encodes the server's capabilities for a revision.
pub(super) fn declared(has: &super::Capabilities, with_logging: bool) -> Value {
    let list = |list: Listing| json!({"listChanged": list.list_changed});
    let mut shown = json!({});
    if let Some(tools) = has.tools {
        shown["tools"] = list(tools);
    }
    if let Some(resources) = has.resources {
        shown["resources"] = list(resources);
        shown["resources"]["subscribe"] = has.subscribe.into();
    }
    if let Some(prompts) = has.prompts {
        shown["prompts"] = list(prompts);
    }
    if has.completions {
        shown["completions"] = json!({});
    }
    if has.logging && with_logging {
        shown["logging"] = json!({});
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_says_that_there_is_more_and_no_wrong_total() {
        let of = |count: usize, total| {
            let values = (0..count).map(|n| n.to_string()).collect();
            let shown = completed(Completion { values, total })["completion"].take();
            let length = shown["values"].as_array().unwrap().len();
            (length, shown["total"].as_u64(), shown["hasMore"].as_bool().unwrap())
        };
        let most = COMPLETION_VALUES_MAX;
        assert_eq!(of(3, None), (3, Some(3), false));
        assert_eq!(of(most, None), (most, Some(most as u64), false));
        assert_eq!(of(most + 1, None), (most, None, true));
        assert_eq!(of(most, Some(10_000)), (most, Some(10_000), true));
    }
}
