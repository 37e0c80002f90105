//! Subscriptions: followed resources by URI, and `subscriptions/listen` streams with their filters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::{Value, json};

use super::era::META_SUBSCRIPTION;
use super::events::event;
use super::fault::Fault;
use super::host::{Capabilities, Followed, List};
use super::message::{notification, success};
use super::session::Session;
use crate::limits::{
    LISTENS_MAX, LISTENS_PER_PRINCIPAL_MAX, SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_PER_CLIENT_MAX,
    SUBSCRIPTIONS_PER_PRINCIPAL_MAX, URI_BYTES_MAX,
};
use recalld_http_server::StreamSender;

/// Filter of a `subscriptions/listen` stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    pub uris: Vec<String>,
}

impl Filter {
    /// Parses the requested filter, reduced to the features of the server.
    pub(super) fn of(asked: &Value, has: &Capabilities) -> Result<Self, Fault> {
        if !asked.is_object() {
            return Err(Fault::invalid_params("notifications: an object is wanted"));
        }
        let changes = |name: &str, list: Option<super::Listing>| match &asked[name] {
            Value::Null => Ok(false),
            Value::Bool(wanted) => Ok(*wanted && list.is_some_and(|list| list.list_changed)),
            _ => Err(Fault::invalid_params(format!("notifications.{name}: true or false"))),
        };
        let uris = match &asked["resourceSubscriptions"] {
            Value::Null => Vec::new(),
            Value::Array(uris) => uris.iter().map(checked_uri).collect::<Result<_, _>>()?,
            _ => {
                let why = "notifications.resourceSubscriptions: a list of URIs is wanted";
                return Err(Fault::invalid_params(why));
            }
        };
        if uris.len() > SUBSCRIPTIONS_PER_CLIENT_MAX {
            let most = SUBSCRIPTIONS_PER_CLIENT_MAX;
            let why = format!("notifications.resourceSubscriptions: at most {most} are possible");
            return Err(Fault::invalid_params(why));
        }
        // A resource named twice is followed once.
        let mut uris = uris;
        uris.sort_unstable();
        uris.dedup();
        Ok(Self {
            tools: changes("toolsListChanged", has.tools)?,
            prompts: changes("promptsListChanged", has.prompts)?,
            resources: changes("resourcesListChanged", has.resources)?,
            uris: if has.subscribe { uris } else { Vec::new() },
        })
    }

    fn has(&self, list: List) -> bool {
        match list {
            List::Tools => self.tools,
            List::Prompts => self.prompts,
            List::Resources => self.resources,
        }
    }

    /// Returns the filter for the acknowledgement: only the accepted parts.
    pub(super) fn to_json(&self) -> Value {
        let mut shown = json!({});
        for (name, list) in [
            ("toolsListChanged", List::Tools),
            ("promptsListChanged", List::Prompts),
            ("resourcesListChanged", List::Resources),
        ] {
            if self.has(list) {
                shown[name] = true.into();
            }
        }
        if !self.uris.is_empty() {
            shown["resourceSubscriptions"] = json!(self.uris);
        }
        shown
    }
}

/// Parses a client's URI and checks its length.
pub(super) fn checked_uri(uri: &Value) -> Result<String, Fault> {
    let uri =
        uri.as_str().ok_or_else(|| Fault::invalid_params("uri: a resource's URI is wanted"))?;
    if uri.len() > URI_BYTES_MAX {
        let why = format!("uri: {} bytes; at most {URI_BYTES_MAX} are possible", uri.len());
        return Err(Fault::invalid_params(why));
    }
    Ok(uri.to_owned())
}

/// Owner of a subscription.
#[derive(Clone)]
enum Owner {
    Session(Weak<Session>),
    Listen(u64),
}

impl Owner {
    fn is(&self, session: &Arc<Session>) -> bool {
        matches!(self, Self::Session(own) if std::ptr::eq(own.as_ptr(), Arc::as_ptr(session)))
    }
}

/// A followed resource.
struct Subscription<C> {
    owner: Owner,
    principal: Arc<str>,
    caller: C,
    uri: String,
    version: Option<u64>,
}

impl<C: Clone> Subscription<C> {
    fn followed(&self) -> Followed<C> {
        let Self { caller, uri, version, .. } = self;
        Followed { caller: caller.clone(), uri: uri.clone(), version: *version }
    }
}

/// An open `subscriptions/listen` stream.
struct Listen<C> {
    /// The caller that opened the stream.
    caller: C,
    /// Id of the request that opened the stream.
    id: Value,
    principal: String,
    filter: Filter,
    sender: StreamSender,
}

impl<C> Listen<C> {
    /// Sends the last event, which is the result of the request. A disconnected client needs none.
    fn end(&self, result: Value) {
        let last = success(&self.id, result);
        let _gone = self.sender.send(&event(None, &last.to_string()));
    }

    fn tell(&self, method: &str, mut params: Value) -> bool {
        params["_meta"][META_SUBSCRIPTION] = self.id.clone();
        self.sender.send(&event(None, &notification(method, params).to_string())).is_ok()
    }
}

/// All subscriptions and listen streams.
pub(super) struct Listens<C> {
    state: Mutex<State<C>>,
}

struct State<C> {
    subscriptions: BTreeMap<u64, Subscription<C>>,
    listens: BTreeMap<u64, Listen<C>>,
    next: u64,
    /// True once the server is draining.
    is_closed: bool,
}

impl<C> State<C> {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn drop_gone(&mut self) {
        self.listens.retain(|_, listen| !listen.sender.is_gone());
        let listens = &self.listens;
        self.subscriptions.retain(|_, one| match &one.owner {
            Owner::Session(session) => session.strong_count() > 0,
            Owner::Listen(number) => listens.contains_key(number),
        });
    }

    /// Returns true if the limits allow `more` subscriptions of this principal.
    fn has_room(&mut self, more: usize, principal: &str) -> bool {
        let fits = |state: &Self| {
            let own = state.subscriptions.values().filter(|one| &*one.principal == principal);
            own.count() + more <= SUBSCRIPTIONS_PER_PRINCIPAL_MAX
                && state.subscriptions.len() + more <= SUBSCRIPTIONS_MAX
        };
        if !fits(self) {
            self.drop_gone();
        }
        fits(self)
    }
}

fn too_many(what: &str) -> Fault {
    Fault::server("too_many_subscriptions", format!("too many {what}; end some first"))
        .with_status(503)
}

impl<C: Clone> Listens<C> {
    pub(super) fn new() -> Self {
        let (subscriptions, listens) = (BTreeMap::new(), BTreeMap::new());
        let state = State { subscriptions, listens, next: 0, is_closed: false };
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes a session to a resource. Idempotent.
    pub(super) fn subscribe(
        &self,
        session: &Arc<Session>,
        caller: C,
        uri: String,
        version: u64,
    ) -> Result<(), Fault> {
        let mut state = self.state();
        let own = state.subscriptions.values().filter(|one| one.owner.is(session));
        let (mut count, mut is_there) = (0, false);
        for one in own {
            count += 1;
            is_there |= one.uri == uri;
        }
        if is_there {
            return Ok(());
        }
        if count >= SUBSCRIPTIONS_PER_CLIENT_MAX || !state.has_room(1, &session.principal) {
            return Err(too_many("subscriptions"));
        }
        let number = state.number();
        let owner = Owner::Session(Arc::downgrade(session));
        let (principal, version) = (session.principal.as_str().into(), Some(version));
        state.subscriptions.insert(number, Subscription { owner, principal, caller, uri, version });
        Ok(())
    }

    /// Returns the number of open streams and of followed resources.
    pub(super) fn counts(&self) -> (usize, usize) {
        let mut state = self.state();
        state.drop_gone();
        (state.listens.len(), state.subscriptions.len())
    }

    /// Unsubscribes a session from a resource.
    pub(super) fn unsubscribe(&self, session: &Arc<Session>, uri: &str) {
        self.state().subscriptions.retain(|_, one| !(one.owner.is(session) && one.uri == uri));
    }

    /// Opens a stream by `sender`; its first event acknowledges the accepted filter. `versions` are the versions of the
    /// filter's resources.
    pub(super) fn listen(
        &self,
        id: Value,
        (caller, principal): (C, String),
        filter: Filter,
        versions: Vec<Option<u64>>,
        sender: impl FnOnce() -> StreamSender,
    ) -> Result<(), Fault> {
        let mut state = self.state();
        if state.is_closed {
            let fault =
                Fault::server("closing_down", "the server is closing down; ask it again later");
            return Err(fault.with_status(503));
        }
        let own = |state: &State<C>| {
            state.listens.values().filter(|one| one.principal == principal).count()
        };
        if state.listens.len() >= LISTENS_MAX || own(&state) >= LISTENS_PER_PRINCIPAL_MAX {
            state.drop_gone();
        }
        if state.listens.len() >= LISTENS_MAX || own(&state) >= LISTENS_PER_PRINCIPAL_MAX {
            return Err(too_many("open subscriptions/listen streams"));
        }
        if !state.has_room(filter.uris.len(), &principal) {
            return Err(too_many("subscriptions"));
        }
        let number = state.number();
        for (uri, version) in filter.uris.iter().cloned().zip(versions) {
            let (owner, caller) = (Owner::Listen(number), caller.clone());
            let (next, principal) = (state.number(), principal.as_str().into());
            state
                .subscriptions
                .insert(next, Subscription { owner, principal, caller, uri, version });
        }
        let listen = Listen { caller, id, principal, filter, sender: sender() };
        let agreed = json!({"notifications": listen.filter.to_json()});
        listen.tell("notifications/subscriptions/acknowledged", agreed);
        state.listens.insert(number, listen);
        Ok(())
    }

    /// Polls every followed resource and notifies the subscribers of changed ones. `versions` returns the versions as
    /// seen by the callers, in the same order.
    pub(super) fn look(&self, versions: impl FnOnce(&[Followed<C>]) -> Vec<Option<u64>>) {
        let (numbers, followed): (Vec<u64>, Vec<Followed<C>>) = {
            let state = self.state();
            let each = state.subscriptions.iter();
            each.map(|(number, one)| (*number, one.followed())).unzip()
        };
        if followed.is_empty() {
            return;
        }
        let versions = versions(&followed);
        for ((number, Followed { uri, .. }), now) in numbers.into_iter().zip(followed).zip(versions)
        {
            let mut state = self.state();
            let Some(one) = state.subscriptions.get_mut(&number) else { continue };
            if std::mem::replace(&mut one.version, now) == now {
                continue;
            }
            let owner = one.owner.clone();
            let params = json!({"uri": uri});
            const UPDATED: &str = "notifications/resources/updated";
            match owner {
                Owner::Session(session) => {
                    drop(state);
                    if let Some(session) = session.upgrade() {
                        session.tell(&notification(UPDATED, params));
                    }
                }
                Owner::Listen(listen) => {
                    if let Some(listen) = state.listens.get(&listen) {
                        listen.tell(UPDATED, params);
                    }
                }
            }
        }
    }

    /// Notifies the streams whose filter includes this list of a change.
    pub(super) fn list_changed(&self, list: List, method: &str) {
        for listen in self.state().listens.values().filter(|listen| listen.filter.has(list)) {
            listen.tell(method, json!({}));
        }
    }

    /// Sends a comment on every stream, and removes the streams of disconnected clients.
    pub(super) fn comment(&self, bytes: &[u8]) {
        let mut state = self.state();
        for listen in state.listens.values() {
            // Disconnected clients are removed below.
            let _gone = listen.sender.send(bytes);
        }
        state.drop_gone();
    }

    /// Ends the streams of the callers selected by `is_over`, in an orderly way. `result` creates the last event from a
    /// request id.
    pub(super) fn end_where(&self, is_over: impl Fn(&C) -> bool, result: impl Fn(&Value) -> Value) {
        let callers: Vec<(u64, C)> = {
            let state = self.state();
            state.listens.iter().map(|(number, one)| (*number, one.caller.clone())).collect()
        };
        // Called without the lock, because each call may need a look-up.
        for (number, _) in callers.into_iter().filter(|(_, caller)| is_over(caller)) {
            let mut state = self.state();
            if let Some(listen) = state.listens.remove(&number) {
                listen.end(result(&listen.id));
            }
            state.drop_gone();
        }
    }

    /// Ends every stream in an orderly way and rejects new ones. `result` creates the last event from a request id.
    pub(super) fn close(&self, result: impl Fn(&Value) -> Value) {
        let mut state = self.state();
        state.is_closed = true;
        for listen in std::mem::take(&mut state.listens).into_values() {
            listen.end(result(&listen.id));
        }
        state.subscriptions.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Listing;
    use recalld_http_server::loose::Loose;

    #[test]
    fn a_filter_is_what_is_asked_for_and_there() {
        let changing = Some(Listing { list_changed: true });
        let has = Capabilities {
            tools: changing,
            prompts: Some(Listing::default()),
            resources: changing,
            subscribe: true,
            ..Capabilities::default()
        };
        let asked = json!({
            "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": false,
            "resourceSubscriptions": ["a://c", "a://b", "a://c"],
        });
        let filter = Filter::of(&asked, &has).unwrap();
        let agreed = json!({"toolsListChanged": true, "resourceSubscriptions": ["a://b", "a://c"]});
        assert_eq!(filter.to_json(), agreed);
        let deaf = Capabilities { subscribe: false, ..has };
        assert_eq!(Filter::of(&asked, &deaf).unwrap().to_json(), json!({"toolsListChanged": true}));
        for wrong in [
            json!(null),
            json!([]),
            json!({"toolsListChanged": 1}),
            json!({"resourceSubscriptions": "a://b"}),
            json!({"resourceSubscriptions": [1]}),
            json!({"resourceSubscriptions": vec!["a://b"; SUBSCRIPTIONS_PER_CLIENT_MAX + 1]}),
        ] {
            assert!(Filter::of(&wrong, &has).is_err(), "{wrong}");
        }
    }
    #[test]
    fn nobody_follows_so_much_that_others_cannot() {
        let listens = Listens::<()>::new();
        let listen = |principal: &str, uris: usize| {
            let (sender, loose) = Loose::open();
            let uris = (0..uris).map(|n| format!("a://{n}")).collect();
            let filter = Filter { uris, ..Filter::default() };
            let versions = vec![Some(1); filter.uris.len()];
            let who = ((), principal.to_owned());
            listens.listen(json!(1), who, filter, versions, || sender).map(|()| loose)
        };
        let full = SUBSCRIPTIONS_PER_PRINCIPAL_MAX / SUBSCRIPTIONS_PER_CLIENT_MAX;
        let adas: Vec<_> =
            (0..full).map(|_| listen("ada", SUBSCRIPTIONS_PER_CLIENT_MAX).unwrap()).collect();
        assert_eq!(listen("ada", 1).err().unwrap().status(), 503);
        let bobs = listen("bob", SUBSCRIPTIONS_PER_CLIENT_MAX).unwrap();
        listens.look(|followed| vec![Some(2); followed.len()]);
        assert_eq!(bobs.sent().matches("resources/updated").count(), SUBSCRIPTIONS_PER_CLIENT_MAX);
        drop(adas);
        assert!(listen("ada", 1).is_ok(), "who left is not counted");
        listens.close(|_| json!({}));
        assert_eq!(listen("bob", 1).err().unwrap().status(), 503, "nothing begins after the end");
    }
}
