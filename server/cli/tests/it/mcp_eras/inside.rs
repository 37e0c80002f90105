//! An in-process service whose state is accessible to tests.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use recalld_api::app_state::AppState;
use recalld_api::listeners::LOCAL;
use recalld_api::mcp_host::{Product, Visitor};
use recalld_api::pipeline::Pipeline;
use recalld_cli::app;
use recalld_embedding::model::Silent;
use recalld_http_server::{Call, Limits, Listen, NetConfig, Reply, Server, ShutdownHandle};
use recalld_mcp_protocol::Endpoint;
use recalld_policy::Caller;
use recalld_policy::limits::CALL_TIME_MAX;

use support_server::settings::settings;

/// An in-process service whose locks a test can hold.
pub(super) struct Inside {
    pub(super) parts: Arc<AppState>,
    pub(super) at: String,
    pub(super) handle: ShutdownHandle,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl Inside {
    pub(super) fn start(data: &Path, call_time_max: Duration) -> Self {
        let settings = settings(data, None, call_time_max);
        let parts = app::start(&settings, &mut Silent).unwrap().parts;
        Self::serve(parts, |parts, port| {
            Arc::new(Pipeline::new(Arc::clone(parts), &[port]).unwrap())
        })
    }

    /// Another service on the same state, in which every call has this caller.
    pub(super) fn beside_for(&self, caller: Caller) -> Self {
        Self::serve(Arc::clone(&self.parts), |parts, _| {
            let random = Arc::clone(&parts.random);
            let settings = recalld_mcp_protocol::Settings { call_time_max: CALL_TIME_MAX, random };
            let endpoint = Endpoint::start(Product::new(Arc::clone(parts)), settings).unwrap();
            Arc::new(For { endpoint, caller })
        })
    }

    pub(super) fn serve<S: recalld_http_server::Service>(
        parts: Arc<AppState>,
        service: impl FnOnce(&Arc<AppState>, u16) -> Arc<S>,
    ) -> Self {
        let address: SocketAddr = ([127, 0, 0, 1], 0).into();
        let server = Server::bind(NetConfig {
            listeners: vec![Listen { id: LOCAL, address }],
            workers: 2,
            limits: Limits::default(),
            wall_clock: SystemTime::now,
        })
        .unwrap();
        let at = server.addresses().unwrap()[0].1;
        let handle = server.handle();
        let service = service(&parts, at.port());
        let thread = Some(thread::spawn(move || {
            server.run(service).unwrap();
        }));
        Self { parts, at: at.to_string(), handle, thread }
    }
}

pub(super) struct For {
    pub(super) endpoint: Endpoint<Product>,
    pub(super) caller: Caller,
}

impl recalld_http_server::Service for For {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        let visitor = Visitor::of(
            Arc::new(self.caller.in_turn(self.caller.turn.clone())),
            call.request.query(),
        )
        .unwrap();
        self.endpoint.serve(&call, visitor, reply);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.handle.drain();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
