//! A test host whose tools block until they are released.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use recalld_mcp_protocol::{Client, Fault, Outcome};
use serde_json::{Map, Value, json};
use support_server::bare_mcp::{BareMcp, Tools};

/// A host whose tools block until they are cancelled or released. The tool `deaf` ignores cancellation, and tools
/// ending in `panic` panic. Tools beginning with `worker` block a worker, the others a thread of their own.
pub(super) struct Waiting {
    /// Reports the begin of each tool call, and at its end whether it was cancelled.
    pub(super) told: Mutex<Sender<(String, Option<bool>)>>,
    pub(super) let_go: Arc<AtomicBool>,
}

impl Tools for Waiting {
    fn waits(&self, tool: &str) -> bool {
        !tool.starts_with("worker")
    }

    fn call_tool(
        &self,
        name: &str,
        _: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        assert!(!name.ends_with("panic"), "this tool panics on purpose");
        let tell = |what| self.told.lock().unwrap().send((name.to_owned(), what)).unwrap();
        tell(None);
        let is_deaf = name == "deaf";
        while (is_deaf || !client.is_over()) && !self.let_go.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        tell(Some(client.cancel().is_cancelled()));
        Ok(Outcome::Done(json!({"content": []})))
    }
}

/// A running server of [`Waiting`], with two workers.
pub(super) struct Bench {
    pub(super) server: BareMcp,
    pub(super) tells: Receiver<(String, Option<bool>)>,
    pub(super) let_go: Arc<AtomicBool>,
}

impl Bench {
    pub(super) fn start(call_time_max: Duration) -> Self {
        let (told, tells) = mpsc::channel();
        let let_go = Arc::new(AtomicBool::new(false));
        let host = Waiting { told: Mutex::new(told), let_go: Arc::clone(&let_go) };
        let server = BareMcp::start(host, 2, call_time_max);
        Self { server, tells, let_go }
    }

    pub(super) fn told(&self) -> (String, Option<bool>) {
        self.tells.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    pub(super) fn let_go(&self) {
        self.let_go.store(true, Ordering::SeqCst);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.let_go(); // before the server, which is dropped next, waits for them
    }
}
