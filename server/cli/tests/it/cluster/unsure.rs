//! Writes whose outcome is unknown because the remote does not respond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use engine::os::disk::{Disk, DiskRead};
use engine::replication_sink::{
    PublishedManifest, ReplicationError, ReplicationSink, SinkRejectedError, WalPosition,
};
use engine::{Env, Store};
use recalld_api::app_state::AppState;
use recalld_embedding::encoders::Encoders;
use recalld_recall::Meaning;
use serde_json::json;
use support_wire::wire::Ask;

use crate::cluster::node::{Node, Told, calling, follows};
use crate::cluster::{Proxy, REMEMBER, error, finds, recall, words};

/// A replication sink that does not respond for a while.
#[derive(Debug, Default)]
pub(crate) struct Silent {
    is_away: AtomicBool,
    is_busy: AtomicBool,
    shown: AtomicU64,
    sent: AtomicU64,
}

impl Silent {
    /// Reopens the workspace of a service that is not serving yet, with this sink.
    pub(crate) fn carry(self: &Arc<Self>, parts: &AppState) {
        let before = parts.local.get();
        parts.local.rest();
        before.store.release("it is opened anew");
        let folder = parts.data.join("tenants/local/store");
        let ground =
            Env { replication_sink: Some(Arc::clone(self) as _), ..Env::on_disk(&folder).unwrap() };
        let store = Arc::new(Store::open(ground, engine::Options::default()).unwrap());
        let embedder = before.encoders.view().embedder;
        let encoders = Encoders::bind(store, embedder).unwrap();
        let meaning = Meaning::new(parts.encoding.kernels, parts.threads.clone());
        parts.local.put(before.over(encoders, meaning)).unwrap();
    }
}

impl ReplicationSink for Silent {
    fn is_synchronous(&self) -> bool {
        true
    }

    fn admit(&self, _: usize) -> Result<(), SinkRejectedError> {
        match self.is_busy.load(Ordering::SeqCst) {
            true => Err(SinkRejectedError::Busy("it is slow".to_owned())),
            false => Ok(()),
        }
    }

    fn on_log_created(&self, _: WalPosition, _: Box<dyn DiskRead>) {}

    fn on_log_synced(&self, _: WalPosition) {}

    fn on_manifest_published(&self, _: &PublishedManifest<'_>) {}

    fn on_index_created(&self, _: &str, _: &dyn Disk) {}

    fn wait_replicated(&self, seq: u64) -> Result<(), ReplicationError> {
        self.sent.fetch_max(seq, Ordering::SeqCst);
        if self.is_away.load(Ordering::SeqCst) {
            return Err(ReplicationError::Indeterminate("it did not answer".to_owned()));
        }
        self.shown.fetch_max(seq, Ordering::SeqCst);
        Ok(())
    }

    fn replicated_seq(&self) -> u64 {
        self.shown.load(Ordering::SeqCst)
    }
}

#[test]
fn a_write_of_which_nobody_knows_is_told_as_neither_done_nor_refused() {
    let far = Arc::<Silent>::default();
    let writer = Node::carried(&far);
    let told = Told::new(follows(Duration::ZERO, Some(&writer.hosted)), Some(Proxy));
    let follower = Node::start(Some(&told), Some(&writer));
    assert_eq!(follower.call(REMEMBER, words("the harbour")).status, 200);
    far.is_away.store(true, Ordering::SeqCst);
    // Once at the leader, and once forwarded to it.
    for (node, text) in [(&writer, "the mill"), (&follower, "the tower")] {
        let call = || calling(REMEMBER, words(text));
        let answer = node.ask(call().without("Accept").header("Accept", "application/json"));
        let (reason, error) = error(&answer);
        assert_eq!((answer.status, answer.header("retry-after")), (502, None), "{error}");
        assert_eq!((&*reason, &answer.json()["id"]), ("write_unsure", &json!(7)), "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("it did not answer"), "{error}");
        // An event stream has already sent its status.
        let told = node.ask(call()).events().pop().unwrap();
        assert_eq!(told["error"]["data"]["reason"], "write_unsure", "{told}");
        assert!(!finds(&writer.ask(recall(text)), text), "shown once it is known to stand");
    }
    let asked = json!({"tool": REMEMBER, "arguments": words("the bridge")});
    let answer = writer.ask_near(Ask::post("/operator/call", &asked));
    assert_eq!((answer.status, answer.header("retry-after")), (502, None), "{}", answer.text());
    // A write that was rejected before it began has its own error.
    far.is_busy.store(true, Ordering::SeqCst);
    let busy = calling(REMEMBER, words("the quay")).without("Accept");
    let answer = follower.ask(busy.header("Accept", "application/json"));
    assert_eq!((answer.status, &*error(&answer).0), (503, "store_unwritable"), "{}", answer.text());
    assert!(answer.header("retry-after").is_some());
    // The unknown writes become visible when the remote confirms them; the rejected write does not.
    far.is_busy.store(false, Ordering::SeqCst);
    far.is_away.store(false, Ordering::SeqCst);
    far.shown.store(far.sent.load(Ordering::SeqCst), Ordering::SeqCst);
    assert_eq!(follower.call(REMEMBER, words("the end")).status, 200);
    for text in ["the mill", "the tower", "the bridge"] {
        assert!(finds(&writer.ask(recall(text)), text), "{text}");
    }
    assert!(!finds(&writer.ask(recall("the quay")), "the quay"));
}
