//! Requests of a node to the leader of the metastore: quota blocks, and the last checkpoints of the node's ledgers.
//!
//! Has both the client and the server side. If the leader cannot be reached, no block is leased, and calls are answered
//! 503 (NOD-33).

use std::sync::{Arc, Weak};

use engine::hex;
use recalld_replication::{NodeId, Nonce};
use serde::Serialize;
use serde_json::json;

use super::between::{Asked, Given, GivenBlock, MESSAGE_BYTES_MAX, PATH, SETTLEMENTS_MAX, Settled};
use super::chain::ControlChain;
use super::shared::{ControlStands, With};
use super::signed::{Envelope, SIGNED};
use crate::fields::HOP;
use crate::relay::Relay;
use crate::whereabouts::Peer;
use recalld_auth::bytes_of_hex;
use recalld_common::Month;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Response};
use recalld_metastore::{Control, ControlError, Elsewhere, LastCheckpoint};
use recalld_policy::meter::{Block, Blocks, Settlement, Unavailable};

/// Quota blocks and checkpoint anchors by way of the metastore's leader.
pub struct ThroughWriter {
    /// Weak, as the metastore owns this value.
    control: Weak<Control>,
    chain: Arc<ControlChain>,
    /// Name of this node.
    node: NodeId,
    relay: Arc<Relay>,
}

/// Leader of the metastore, and its process.
struct Writer {
    peer: Peer,
    run: Nonce,
}

impl ThroughWriter {
    /// Creates the client of the node with this name.
    pub fn new(
        (control, chain): (&Arc<Control>, &Arc<ControlChain>),
        node: NodeId,
        relay: Arc<Relay>,
    ) -> Self {
        Self { control: Arc::downgrade(control), chain: Arc::clone(chain), node, relay }
    }

    /// Leader of the metastore; `None` if this node is the leader.
    fn writer(&self) -> Result<Option<Writer>, String> {
        match self.chain.stands() {
            ControlStands::Leads => Ok(None),
            ControlStands::Follows { writer: Some(peer), run: Some(run), .. } => {
                Ok(Some(Writer { peer, run }))
            }
            ControlStands::Follows { .. } => {
                Err("no node gives out quotas now; one is about to: try again".to_owned())
            }
        }
    }

    fn control(&self) -> Result<Arc<Control>, String> {
        self.control.upgrade().ok_or_else(|| "the control store is closed".to_owned())
    }

    /// Sends a request and returns the body of its response. The response must be signed by the leader, for this
    /// request.
    fn ask(&self, writer: &Writer, asked: &Asked) -> Result<Vec<u8>, String> {
        let node = &writer.peer.node;
        let failed = |why: String| format!("node {node} gives out quotas, and {why}");
        let body = serde_json::to_vec(asked).map_err(|error| error.to_string())?;
        let With { secret, random, .. } = &self.chain.shared.with;
        let envelope = Envelope {
            from: self.node.clone(),
            to: NodeId::new(&**node).map_err(|why| why.to_string())?,
            run: writer.run,
            at: self.control()?.now(),
            nonce: Nonce::drawn(&**random),
        };
        let (field, asked) = envelope.sign(secret, &body);
        let fields = [(SIGNED, &*field), (HOP, "1"), ("content-type", "application/json")];
        let answer = self.relay.ask(&writer.peer, PATH, &fields, &body, MESSAGE_BYTES_MAX as u64);
        let answer = answer.map_err(failed)?;
        let (status, said) = (answer.status().as_u16(), answer.body());
        let field = answer.headers().get(SIGNED).and_then(|field| field.to_str().ok());
        if !asked.is_answered_by(secret, field.unwrap_or_default(), (status, said)) {
            // Anyone may have sent this response, so no part of it is used or shown.
            return Err(failed(format!(
                "an answer came ({status}) that is not signed by it: is `remote.secret_file` the same there, and does \
                 nobody stand between?"
            )));
        }
        match status {
            200 => Ok(answer.into_body()),
            _ => {
                let said: serde_json::Value = serde_json::from_slice(said).unwrap_or_default();
                let detail = said["detail"].as_str().unwrap_or_default();
                Err(failed(format!("answered {status}: {detail}")))
            }
        }
    }
}

impl Blocks for ThroughWriter {
    fn take_block(
        &self,
        slug: &str,
        month: Month,
        id: u64,
        wanted: u32,
        quota: Option<u64>,
    ) -> Result<Option<Block>, Unavailable> {
        let Some(writer) = self.writer().map_err(Unavailable)? else {
            let control = self.control().map_err(Unavailable)?;
            return Blocks::take_block(&*control, slug, month, id, wanted, quota);
        };
        let (slug, month) = (slug.to_owned(), month.to_string());
        let asked = Asked::TakeBlock { slug, month, block: id, wanted, quota };
        let answer = self.ask(&writer, &asked).map_err(Unavailable)?;
        let given: Given = serde_json::from_slice(&answer).map_err(|error| {
            Unavailable(format!("node {} said no block: {error}", writer.peer.node))
        })?;
        Ok(given.block.map(|GivenBlock { calls, expires_at }| {
            recalld_metastore::Block { id, calls, used: 0, expires_at }.into()
        }))
    }

    fn settle(&self, settlements: &[Settlement]) -> Result<(), Unavailable> {
        let Some(writer) = self.writer().map_err(Unavailable)? else {
            return Blocks::settle(&*self.control().map_err(Unavailable)?, settlements);
        };
        // Settlements are idempotent: after a lost message all are sent again.
        settlements.chunks(SETTLEMENTS_MAX).try_for_each(|some| {
            let settlements = some.iter().map(|one| Settled {
                slug: one.slug.to_string(),
                month: one.month.to_string(),
                block: one.block,
                used: one.used,
                keep: one.keep,
            });
            let asked = Asked::Settle { settlements: settlements.collect() };
            self.ask(&writer, &asked).map(drop).map_err(Unavailable)
        })
    }
}

impl Elsewhere for ThroughWriter {
    fn node(&self) -> &str {
        self.node.as_str()
    }

    fn put_anchor(&self, slug: &str, last: &LastCheckpoint) -> Result<(), ControlError> {
        let Some(writer) = self.writer().map_err(ControlError::far)? else {
            let control = self.control().map_err(ControlError::far)?;
            return control.put_anchor_of(slug, self.node(), last);
        };
        let LastCheckpoint { seq, head, at, first } = *last;
        let (head, first) = (hex(&head), first.map(|first| hex(&first)));
        let asked = Asked::Anchor { slug: slug.to_owned(), seq, head, at, first };
        self.ask(&writer, &asked).map(drop).map_err(ControlError::far)
    }
}

/// `POST /nodes/control`: answers a request of another node to the metastore's leader.
pub fn serve(chain: Option<&ControlChain>, control: &Control, call: &Call) -> Response {
    answer(chain, control, call).unwrap_or_else(Response::from)
}

fn answer(
    chain: Option<&ControlChain>,
    control: &Control,
    call: &Call,
) -> Result<Response, Refusal> {
    let Some(chain) = chain else {
        return Err(Refusal::new(404, "This node shares no secret with others"));
    };
    let body = &call.request.body;
    if body.len() > MESSAGE_BYTES_MAX {
        return Err(Refusal::new(413, "A message between nodes has at most 1 MiB"));
    }
    let With { secret, node, .. } = &chain.shared.with;
    let field = call.request.headers.get(SIGNED).unwrap_or_default();
    let Some((envelope, asked)) = Envelope::of(secret, field, body) else {
        let why = "The message is not signed by a node that shares the secret of this one";
        return Err(Refusal::new(401, why));
    };
    let own = node.as_ref().map(|node| node.writer());
    let done = match own {
        Some(own) if own.node == envelope.to && own.run == envelope.run => {
            let taken = chain.seen.take((envelope.at, envelope.nonce), control.now());
            taken
                .map_err(|not| Refusal::new(401, not.why()))
                .and_then(|()| act((chain, control), &envelope, body))
        }
        _ => {
            let why = "The message is for another node, or for this one before it was started";
            Err(Refusal::new(401, why))
        }
    };
    let answer = done.unwrap_or_else(Response::from);
    let field = asked.sign_answer(secret, answer.head.status, &answer.body);
    Ok(answer.header(SIGNED, field))
}

/// Executes a verified request.
fn act(
    (chain, control): (&ControlChain, &Control),
    envelope: &Envelope,
    body: &[u8],
) -> Result<Response, Refusal> {
    let asked: Asked = serde_json::from_slice(body)
        .map_err(|error| Refusal::new(422, &format!("The message does not read: {error}")))?;
    if chain.stands() != ControlStands::Leads {
        return Err(Refusal::unavailable("This node does not write the control store (any more)"));
    }
    let failed = |error: ControlError| Refusal::unavailable(&error.to_string());
    match asked {
        Asked::TakeBlock { slug, month, block, wanted, quota } => {
            let taken = control.take_block(&slug, &month, block, wanted, quota);
            let block = taken.map_err(failed)?.map(
                |recalld_metastore::Block { calls, expires_at, .. }| GivenBlock {
                    calls,
                    expires_at,
                },
            );
            Ok(told(&Given { block }))
        }
        Asked::Settle { settlements } => {
            let settlements: Vec<recalld_metastore::Settlement<'_>> = settlements
                .iter()
                .take(SETTLEMENTS_MAX)
                .map(|Settled { slug, month, block, used, keep }| recalld_metastore::Settlement {
                    tenant: slug,
                    month,
                    block: *block,
                    used: *used,
                    keep: *keep,
                })
                .collect();
            control.settle(&settlements).map_err(failed)?;
            Ok(told(&json!({})))
        }
        Asked::Anchor { slug, seq, head, at, first } => {
            let hash = |hex: String| bytes_of_hex(&hex);
            let no_hash = || Refusal::new(422, "`head` or `first` is no hash");
            let head = hash(head).ok_or_else(no_hash)?;
            let first = first.map(|first| hash(first).ok_or_else(no_hash)).transpose()?;
            let last = LastCheckpoint { seq, head, at, first };
            let node = envelope.from.as_str();
            control.put_anchor_of(&slug, node, &last).map_err(failed)?;
            Ok(told(&json!({})))
        }
    }
}

fn told(said: &impl Serialize) -> Response {
    Response::json(200, serde_json::to_vec(said).unwrap_or_default())
}
