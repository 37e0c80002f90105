//! Leader forwarding: a call that belongs to another node is proxied or redirected before this node acts on it.
//!
//! Decides which calls can be forwarded, after authentication and rate limiting. Calls of the local listener never
//! leave this machine, so their handlers check the leader themselves (`AppState::reach`). Independent of how leaders
//! are found.

use serde_json::{Value as Json, json};

use super::route::Target;
use crate::app_state::AppState;
use crate::forwarded::asks_from;
use crate::listeners::LOCAL;
use crate::service_error::answer;
use recalld_cluster::{CONTROL, Cluster, HOP, Keeps, NotHere, Passed, Peer, Place, Where};
use recalld_common::age::STALE_SECONDS;
use recalld_common::cancel::CancellationToken;
use recalld_common::wants::Wants;
use recalld_common::wrong_node::WrongNode;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Method, Reply, Response};
use recalld_mcp_protocol::Body;
use recalld_policy::Caller;
use recalld_tool_framework::Tool;
use recalld_workspace::tenants::Closed;

/// Maximum attempts to open a workspace in order to find the leader.
const LOCATE_TRIES_MAX: usize = 2;

/// Properties of a call that decide how to forward it.
pub(super) struct ForwardPlan<'a> {
    /// True if the call targets the metastore and not its caller's workspace.
    is_for_control: bool,
    wants: Wants,
    /// True if the call accesses its workspace, which is then opened.
    opens: bool,
    /// Id of an MCP message, or null; `None` for other calls.
    mcp: Option<Json>,
    /// Returns true if the session that an MCP call names exists on this node and belongs to the caller.
    knows_session: &'a dyn Fn(&Call) -> bool,
    /// True if the response is a stream that ends only when one side leaves.
    listens: bool,
}

impl<'a> ForwardPlan<'a> {
    /// An operation of the HTTP API; all of them are reads.
    const READS: Self = Self {
        is_for_control: false,
        wants: Wants::Reads,
        opens: true,
        mcp: None,
        knows_session: &|_| false,
        listens: false,
    };

    /// All steps of a sign-in. State of one step is in the memory of a node, so the next step must reach that node.
    const SIGNS_IN: Self =
        Self { is_for_control: true, wants: Wants::Writes, opens: false, ..Self::READS };

    /// Returns `None` for a call that needs no workspace, or whose handler checks the leader itself.
    pub(super) fn of(target: &Target) -> Option<Self> {
        match target {
            Target::Api(_) if !target.is_health() => Some(Self::READS),
            Target::OAuthForm(_) | Target::Registration(_) | Target::SignIn(_) => {
                Some(Self::SIGNS_IN)
            }
            _ => None,
        }
    }

    /// Properties of an MCP call with this body.
    pub(super) fn of_mcp(
        call: &Call,
        body: &Body<&'static Tool>,
        knows_session: &'a dyn Fn(&Call) -> bool,
    ) -> Self {
        let writes = body.tools().any(|tool| tool.wants() == Wants::Writes);
        Self {
            wants: if writes { Wants::Writes } else { Wants::Reads },
            opens: body.uses_data(),
            mcp: Some(body.id()),
            knows_session,
            listens: call.request.method != Method::Post || body.listens(),
            ..Self::READS
        }
    }
}

/// Returns a call that this node answers, with the staleness added to its response. Otherwise forwards or answers the
/// call and returns `None`. Without a cluster, the node answers every call, and `plan` is not called.
pub(super) fn steer<'a>(
    parts: &AppState,
    plan: impl FnOnce(&Call) -> Option<ForwardPlan<'a>>,
    caller: &Caller,
    call: Call,
    reply: Reply,
) -> Option<(Call, Reply)> {
    let Some(cluster) = &parts.cluster else { return Some((call, reply)) };
    let Some(plan) = plan(&call) else { return Some((call, reply)) };
    let refuse = |reply: Reply, why: NotHere| {
        reply.send(answer(plan.mcp.as_ref(), why));
        None
    };
    // The handler of a read reports itself that it cannot answer, or the staleness of its answer.
    let finds_out = plan.wants == Wants::Reads;
    let workspace = if plan.is_for_control { CONTROL } else { &caller.workspace };
    let place = match plan.opens {
        true => located((parts, cluster), workspace, plan.wants, &call.cancel),
        false => Ok(cluster.place(workspace, plan.wants, &call.cancel)),
    };
    let (peer, is_followed) = match place {
        Ok(Place::At { peer, is_followed }) => (peer, is_followed),
        Ok(Place::Here) => return Some((call, reply)),
        Ok(Place::Follows(age)) => {
            // HTTP API responses state the staleness themselves, and calls that access no workspace have none.
            let says_it = plan.opens && plan.mcp.is_some();
            let seconds = cluster.fresh(age).ok().filter(|_| says_it);
            let field = seconds.map(|seconds| (STALE_SECONDS, seconds.to_string()));
            return Some((call, reply.with_fields(field.into_iter().collect())));
        }
        // `located` has already waited for a workspace that is being opened.
        Ok(Place::Nowhere(_)) | Err(Closed::Missing | Closed::Failed(_)) if finds_out => {
            return Some((call, reply));
        }
        Ok(Place::Nowhere(why)) => return refuse(reply, NotHere::Nowhere(why)),
        Err(closed) => {
            reply.send(answer(plan.mcp.as_ref(), closed));
            return None;
        }
    };
    let is_of_session =
        is_followed && plan.mcp.is_some() && recalld_mcp_protocol::names_session(&call);
    if is_of_session && !(plan.knows_session)(&call) {
        // A client whose session has ended must learn so on every call.
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
            pass((cluster, parts), plan, (peer, is_followed), call, reply);
            None
        }
        None | Some(WrongNode::Redirect) => refuse(reply, NotHere::WrittenBy(peer)),
    }
}

/// Opens the workspace, so that its leader is known, and returns where the call belongs.
fn located(
    (parts, cluster): (&AppState, &Cluster),
    workspace: &str,
    wants: Wants,
    cancel: &CancellationToken,
) -> Result<Place, Closed> {
    for _ in 0..LOCATE_TRIES_MAX {
        if let Err(closed) = parts.locate(workspace) {
            // The open has already waited; there is no second wait.
            return match cluster.of(workspace) {
                Where::Elsewhere { writer: Some(peer) } => {
                    Ok(Place::At { peer, is_followed: false })
                }
                _ => Err(closed),
            };
        }
        match cluster.place(workspace, wants, cancel) {
            // The workspace was closed meanwhile, because its lease is available to this node or to a faster one.
            Place::Here if !parts.is_located(workspace) => {}
            place => return Ok(place),
        }
    }
    // The handler opens the workspace again.
    Ok(Place::Here)
}

/// Redirects a client to the leader; `None` if the leader's URL is unknown.
fn redirected(peer: &Peer, call: &Call) -> Option<Response> {
    let url = peer.url.as_deref()?.trim_end_matches('/');
    let location = format!("{url}{}", call.request.target);
    let why = NotHere::WrittenBy(peer.clone()).to_string();
    let refusal = Refusal::of(307, &json!({"detail": why, "writer": url}));
    Some(refusal.with("Location", location).into())
}

/// Proxies a call to the leader. If this node follows the workspace, a named session is this node's and unknown to the
/// leader, so the session fields are removed.
fn pass(
    (cluster, parts): (&Cluster, &AppState),
    plan: ForwardPlan<'_>,
    (peer, is_followed): (Peer, bool),
    call: Call,
    reply: Reply,
) {
    let from = asks_from(parts, &call);
    let (id, listens) = (plan.mcp, plan.listens);
    let refused = Box::new(move |why| answer(id.as_ref(), why));
    let keeps = Keeps { session: !is_followed, origin: plan.is_for_control };
    cluster.relay().pass(Passed { peer, call, reply, from, keeps, listens, refused });
}
