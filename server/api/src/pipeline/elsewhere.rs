//! A call that belongs to another node: passed on, or told where it belongs, before anything is done for it here.
//!
//! Owns which calls can be passed on, after their caller is known and was counted. What works on the local listener
//! finds out for itself (`AppState::reach`), since nothing that comes in there leaves this machine. Must not know who
//! writes what.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::route::Target;
use crate::app_state::AppState;
use crate::forwarded::asks_from;
use crate::listeners::LOCAL;
use crate::mcp_host::{Product, Visitor, asks_workspace, changes};
use crate::service_error::answer;
use recalld_cluster::{CONTROL, Cluster, HOP, Keeps, NotHere, Passed, Peer, Place, Where};
use recalld_common::age::STALE_SECONDS;
use recalld_common::wants::Wants;
use recalld_common::wrong_node::WrongNode;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Method, Reply, Response};
use recalld_mcp_protocol::Endpoint;
use recalld_policy::Caller;
use recalld_workspace::tenants::Closed;

/// How often a workspace is opened to find out where a call belongs.
const LOCATE_TRIES_MAX: usize = 2;

/// What a call is, for whoever passes it on.
struct Asked {
    /// Whether it is for the control store, not for its caller's workspace.
    is_for_control: bool,
    wants: Wants,
    /// Whether it asks its workspace, which is opened then.
    opens: bool,
    /// Of a message of MCP: its id, or null.
    mcp: Option<Json>,
    /// Whether its answer goes on until somebody leaves.
    listens: bool,
}

impl Asked {
    /// An operation of the HTTP API: they all read.
    const READS: Self =
        Self { is_for_control: false, wants: Wants::Reads, opens: true, mcp: None, listens: false };

    /// Signing in, and all that comes of it: what is remembered of one step is where the next one goes.
    const SIGNS_IN: Self =
        Self { is_for_control: true, wants: Wants::Writes, opens: false, ..Self::READS };

    /// `None` where it is no call for a workspace, or one that finds out for itself.
    fn of(target: &Target, caller: &Caller, call: &Call, body: &Json) -> Option<Self> {
        match target {
            Target::Api(_) if !target.is_health() => Some(Self::READS),
            Target::Mcp => Some(Self::of_mcp(caller, call, body)),
            Target::OAuthForm(_) | Target::Registration(_) | Target::SignIn(_) => {
                Some(Self::SIGNS_IN)
            }
            _ => None,
        }
    }

    fn of_mcp(caller: &Caller, call: &Call, body: &Json) -> Self {
        let reads = Self { mcp: Some(Json::Null), opens: false, ..Self::READS };
        if call.request.method != Method::Post {
            return Self { listens: true, ..reads };
        }
        let wants = if changes(caller, body) { Wants::Writes } else { Wants::Reads };
        let listens = body["method"] == "subscriptions/listen";
        let id = Some(&body["id"]).filter(|id| id.is_string() || id.is_i64() || id.is_u64());
        let mcp = Some(id.cloned().unwrap_or_default());
        Self { wants, opens: asks_workspace(body), mcp, listens, ..Self::READS }
    }
}

/// Gives a call back that is answered here, with what its answer says of its age; another one is on its way then.
/// `body` is the parsed one of a call of MCP, or null.
pub(super) fn steer(
    (parts, endpoint): (&AppState, &Endpoint<Product>),
    (target, body): (&Target, &Json),
    caller: &Arc<Caller>,
    call: Call,
    reply: Reply,
) -> Option<(Call, Reply)> {
    let Some(cluster) = &parts.cluster else { return Some((call, reply)) };
    let Some(asked) = Asked::of(target, caller, &call, body) else { return Some((call, reply)) };
    let refuse = |reply: Reply, why: NotHere| {
        reply.send(answer(asked.mcp.as_ref(), why));
        None
    };
    // What only reads is told by itself that it cannot be answered, and how old its answer is.
    let finds_out = asked.wants == Wants::Reads;
    let workspace = if asked.is_for_control { CONTROL } else { &caller.workspace };
    let place = match asked.opens {
        true => located(parts, cluster, workspace, asked.wants),
        false => Ok(cluster.place(workspace, asked.wants)),
    };
    let (peer, is_followed) = match place {
        Ok(Place::At { peer, is_followed }) => (peer, is_followed),
        Ok(Place::Here) => return Some((call, reply)),
        Ok(Place::Follows(age)) => {
            // Of the HTTP API each answer says it by itself, and what asks no workspace has no age.
            let says_it = asked.opens && asked.mcp.is_some();
            let seconds = cluster.fresh(age).ok().filter(|_| says_it);
            let field = seconds.map(|seconds| (STALE_SECONDS, seconds.to_string()));
            return Some((call, reply.with_fields(field.into_iter().collect())));
        }
        // One that is being opened was waited for.
        Ok(Place::Nowhere(_)) | Err(Closed::Missing | Closed::Failed(_)) if finds_out => {
            return Some((call, reply));
        }
        Ok(Place::Nowhere(why)) => return refuse(reply, NotHere::Nowhere(why)),
        Err(closed) => {
            reply.send(answer(asked.mcp.as_ref(), closed));
            return None;
        }
    };
    let is_of_session =
        is_followed && asked.mcp.is_some() && recalld_mcp_protocol::names_session(&call);
    if is_of_session && !knows(endpoint, caller, &call) {
        // A client whose session is over has to learn it, whatever it calls.
        return Some((call, reply));
    }
    match cluster.wrong_node().filter(|_| call.listener != LOCAL) {
        None if finds_out => Some((call, reply)),
        Some(_) if call.request.headers.get(HOP).is_some() => {
            let why = "Another node passed this on, and it is not written here either";
            refuse(reply, NotHere::Nowhere(why.to_owned()))
        }
        Some(WrongNode::Redirect)
            if !is_of_session && let Some(answer) = redirected(&peer, &call) =>
        {
            reply.send(answer);
            None
        }
        Some(WrongNode::Proxy) => {
            pass((cluster, parts), asked, (peer, is_followed), call, reply);
            None
        }
        None | Some(WrongNode::Redirect) => refuse(reply, NotHere::WrittenBy(peer)),
    }
}

/// Where a call belongs, whose workspace is opened first, so that it is known.
fn located(
    parts: &AppState,
    cluster: &Cluster,
    workspace: &str,
    wants: Wants,
) -> Result<Place, Closed> {
    for _ in 0..LOCATE_TRIES_MAX {
        if let Err(closed) = parts.locate(workspace) {
            // Nobody waits for it a second time.
            return match cluster.of(workspace) {
                Where::Elsewhere { writer: Some(peer) } => {
                    Ok(Place::At { peer, is_followed: false })
                }
                _ => Err(closed),
            };
        }
        match cluster.place(workspace, wants) {
            // It was closed meanwhile, since it can be had for writing: by this node, or by one that is faster.
            Place::Here if !parts.is_located(workspace) => {}
            place => return Ok(place),
        }
    }
    // Whoever works with it opens it once more.
    Ok(Place::Here)
}

/// Whether the session that a call names is this node's, and its caller's.
fn knows(endpoint: &Endpoint<Product>, caller: &Arc<Caller>, call: &Call) -> bool {
    let visitor = Visitor::of(Arc::clone(caller), None);
    visitor.is_ok_and(|visitor| endpoint.has_session(call, &visitor))
}

/// Tells a client where to ask the same; `None` where nobody knows.
fn redirected(peer: &Peer, call: &Call) -> Option<Response> {
    let url = peer.url.as_deref()?.trim_end_matches('/');
    let location = format!("{url}{}", call.request.target);
    let why = NotHere::WrittenBy(peer.clone()).to_string();
    let refusal = Refusal::of(307, &json!({"detail": why, "writer": url}));
    Some(refusal.with("Location", location).into())
}

/// Passes a call on. A session of this node means nothing to another one: what changes something there stands alone.
fn pass(
    (cluster, parts): (&Cluster, &AppState),
    asked: Asked,
    (peer, is_followed): (Peer, bool),
    call: Call,
    reply: Reply,
) {
    let from = asks_from(parts, &call);
    let (id, listens) = (asked.mcp, asked.listens);
    let refused = Box::new(move |why| answer(id.as_ref(), why));
    let keeps = Keeps { session: !is_followed, origin: asked.is_for_control };
    cluster.relay().pass(Passed { peer, call, reply, from, keeps, listens, refused });
}
