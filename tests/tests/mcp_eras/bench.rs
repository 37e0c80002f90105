//! A host whose tools wait until they are let go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use engine::os::clock::SystemRandom;
use serde_json::{Map, Value, json};
use server::mcp::{self, Capabilities, Endpoint, Fault, Host, Listing, Outcome, Page};
use server::net::{self, Call, Limits, Listen, NetConfig, Reply, Server, ShutdownHandle};
use server::pipeline::LOCAL;

/// A host of these tests: its tools wait until they are called off or let go, but for one that only
/// heeds the latter, and one that panics. Those of a worker wait on a worker, the others on threads of
/// their own.
pub(super) struct Waiting {
    /// Told of a tool that begins, and, when it ends, whether it was called off.
    pub(super) told: Mutex<Sender<(String, Option<bool>)>>,
    pub(super) let_go: Arc<AtomicBool>,
}

impl Host for Waiting {
    type Caller = ();

    fn principal(&self, (): &()) -> String {
        "anyone".to_owned()
    }

    fn server_info(&self) -> Value {
        json!({"name": "waiting", "version": "1"})
    }

    fn instructions(&self) -> Option<String> {
        None
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { tools: Some(Listing::default()), ..Capabilities::default() }
    }

    fn tools(&self, (): &(), cursor: Option<&str>) -> Result<Page, Fault> {
        Page::only(Vec::new(), cursor)
    }

    fn has_tool(&self, (): &(), _: &str) -> bool {
        true
    }

    fn waits(&self, tool: &str) -> bool {
        !tool.starts_with("worker")
    }

    fn call_tool(
        &self,
        (): &(),
        name: &str,
        _: &Map<String, Value>,
        client: &mcp::Client<'_>,
    ) -> Result<Outcome, Fault> {
        assert!(!name.ends_with("panic"), "this tool panics on purpose");
        let tell = |what| self.told.lock().unwrap().send((name.to_owned(), what)).unwrap();
        tell(None);
        let is_deaf = name == "deaf";
        while (is_deaf || !client.is_over()) && !self.let_go.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        tell(Some(client.cancel().is_raised()));
        Ok(Outcome::Done(json!({"content": []})))
    }
}

pub(super) struct Bare(Endpoint<Waiting>);

impl net::Service for Bare {
    fn serve(&self, call: Call, reply: Reply) {
        self.0.serve(&call, (), reply);
    }
}

/// A running server of that host, with workers for two calls.
pub(super) struct Bench {
    pub(super) at: String,
    pub(super) tells: Receiver<(String, Option<bool>)>,
    pub(super) let_go: Arc<AtomicBool>,
    pub(super) handle: ShutdownHandle,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl Bench {
    pub(super) fn start(call_time_max: Duration) -> Self {
        let (told, tells) = mpsc::channel();
        let let_go = Arc::new(AtomicBool::new(false));
        let host = Waiting { told: Mutex::new(told), let_go: Arc::clone(&let_go) };
        let settings = mcp::Settings { call_time_max, random: Arc::new(SystemRandom) };
        let endpoint = Endpoint::start(host, settings).unwrap();
        let server = Server::bind(NetConfig {
            listeners: vec![Listen { id: LOCAL, address: ([127, 0, 0, 1], 0).into() }],
            workers: 2,
            limits: Limits::default(),
            wall_clock: SystemTime::now,
        })
        .unwrap();
        let at = server.addresses().unwrap()[0].1.to_string();
        let handle = server.handle();
        let thread = Some(thread::spawn(move || {
            server.run(Arc::new(Bare(endpoint))).unwrap();
        }));
        Self { at, tells, let_go, handle, thread }
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
        self.let_go();
        self.handle.drain();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
