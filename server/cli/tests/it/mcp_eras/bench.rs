//! A host whose tools wait until they are let go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use recalld_mcp_protocol::{Client, Fault, Outcome};
use serde_json::{Map, Value, json};
use support_server::bare_mcp::{BareMcp, Tools};

/// A host of these tests: its tools wait until they are called off or let go, but for one that only
/// heeds the latter, and one that panics. Those of a worker wait on a worker, the others on threads of
/// their own.
pub(super) struct Waiting {
    /// Told of a tool that begins, and, when it ends, whether it was called off.
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

/// A running server of that host, with workers for two calls.
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
