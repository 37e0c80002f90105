//! Internals of a service: event loops never access the metastore, and the outcome of a call whose tool panics.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use engine::Micros;
use engine::ledger::{Entry, LedgerReader, Outcome};
use engine::os::clock::{Clock, SystemClock, SystemRandom};
use recalld_api::app_state::AppState;
use recalld_api::listeners::{HOSTED, LOCAL};
use recalld_api::pipeline::{Pipeline, RouteMatch};
use recalld_auth::Prefix;
use recalld_cli::app;
use recalld_embedding::model::Silent;
use recalld_http_server::limits::BODY_BYTES_SMALL;
use recalld_http_server::{
    Admission, Answered, Call, Limits, Listen, NetConfig, Reply, Response, Server, Service,
    ShutdownHandle,
};
use recalld_metastore::{Control, Kind, NewCredential, NewTenant};
use recalld_policy::meter::Meter;
use serde_json::json;
use support_server::house::{SCOPES, mcp};
use support_server::settings::settings;
use support_wire::service::scratch;
use support_wire::tiny_model::Tiny;
use support_wire::wire::{self, Answer, Ask, Client};
use tempfile::TempDir;

thread_local! {
    /// True while this thread, an event loop, calls the service.
    static IS_LOOP: Cell<bool> = const { Cell::new(false) };
}

/// A pipeline that marks calls from event loops.
struct Watched(Pipeline);

fn on_loop<T>(act: impl FnOnce() -> T) -> T {
    IS_LOOP.set(true);
    let done = act();
    IS_LOOP.set(false);
    done
}

impl Service for Watched {
    type RouteMatch = RouteMatch;

    fn resolve(&self, call: &Call) -> RouteMatch {
        on_loop(|| self.0.resolve(call))
    }

    fn serve(&self, call: Call, matched: RouteMatch, reply: Reply) {
        assert!(!IS_LOOP.get(), "calls are served by workers");
        self.0.serve(call, matched, reply);
    }

    fn quick(&self, call: &Call, matched: &RouteMatch) -> Option<Response> {
        on_loop(|| self.0.quick(call, matched))
    }

    fn admit(&self, call: &Call, matched: &mut RouteMatch, body_bytes: usize) -> Admission {
        on_loop(|| self.0.admit(call, matched, body_bytes))
    }

    fn takes_long(&self, call: &Call, matched: &mut RouteMatch) -> bool {
        on_loop(|| self.0.takes_long(call, matched))
    }

    fn route(&self, matched: &RouteMatch) -> u16 {
        on_loop(|| self.0.route(matched))
    }

    fn answered(&self, answered: &Answered) {
        on_loop(|| self.0.answered(answered));
    }

    fn drain(&self) {
        self.0.drain();
    }
}

/// An in-process service with both listeners and the workspace `acme`.
struct Inside {
    parts: Arc<AppState>,
    local: String,
    hosted: String,
    bearer: String,
    handle: ShutdownHandle,
    thread: Option<JoinHandle<()>>,
    scratch: TempDir,
}

impl Inside {
    /// Starts the service; `prepare` may replace parts of its state.
    fn start(prepare: impl FnOnce(&mut AppState)) -> Self {
        let scratch = scratch();
        let address: SocketAddr = ([127, 0, 0, 1], 0).into();
        let server = Server::bind(NetConfig {
            listeners: [LOCAL, HOSTED].map(|id| Listen { id, address }).to_vec(),
            workers: 4,
            limits: Limits::default(),
            wall_clock: SystemTime::now,
        })
        .unwrap();
        let addresses = server.addresses().unwrap();
        let at = |id| addresses.iter().find(|(of, _)| *of == id).unwrap().1;
        let (local, hosted) = (at(LOCAL), at(HOSTED));
        let model = Tiny::new(1, 16).write(scratch.path(), "model");
        let data = scratch.path().join("data");
        let mut settings = settings(&data, Some(model), Duration::from_secs(60));
        settings.public_url = Some(format!("http://{hosted}"));
        let mut parts = app::start(&settings, &mut Silent).unwrap().parts;
        prepare(Arc::get_mut(&mut parts).expect("nobody else has it yet"));
        let bearer = acme(&parts);
        let pipeline = Pipeline::new(Arc::clone(&parts), &[local.port()]).unwrap();
        let handle = server.handle();
        let thread = Some(thread::spawn(move || {
            server.run(Arc::new(Watched(pipeline))).unwrap();
        }));
        let (local, hosted) = (local.to_string(), hosted.to_string());
        Self { parts, local, hosted, bearer, handle, thread, scratch }
    }

    fn entries(&self, workspace: &str) -> Vec<Entry> {
        match workspace {
            "local" => drop(self.parts.local.get().audit.settled_files().unwrap()),
            name => drop(self.parts.tenants.open(name).unwrap().audit.settled_files().unwrap()),
        }
        let folder = self.scratch.path().join("data/tenants").join(workspace).join("ledger");
        LedgerReader::open(&folder).unwrap().entries(1).unwrap().map(Result::unwrap).collect()
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

/// Creates the workspace `acme` and returns a bearer for it.
fn acme(parts: &AppState) -> String {
    let new = NewTenant { slug: "acme", title: "acme", plan: "team" };
    parts.control.create_tenant(&new).unwrap();
    parts.tenants.make("acme").unwrap();
    let scopes = SCOPES.map(str::to_owned);
    let new =
        NewCredential { kind: Kind::Bearer, name: Some("ada"), scopes: &scopes, expires_at: None };
    let issued = parts.control.issue_credential("acme", &new, &Prefix::default()).unwrap();
    issued.secret.expose().to_owned()
}

/// A clock that counts its reads, on event loops and elsewhere.
#[derive(Debug, Default)]
struct Asked {
    by_loops: AtomicUsize,
    by_others: AtomicUsize,
}

impl Clock for Asked {
    fn now(&self) -> Micros {
        let of = if IS_LOOP.get() { &self.by_loops } else { &self.by_others };
        of.fetch_add(1, Ordering::SeqCst);
        SystemClock.now()
    }
}

/// Sends a request and returns the final response, after any `100 Continue`.
fn sent(at: &str, ask: &Ask) -> Answer {
    let mut client = Client::open(at).unwrap();
    client.write(&ask.bytes(at)).unwrap();
    loop {
        let answer = client.read(false).unwrap();
        if answer.status >= 200 {
            return answer;
        }
    }
}

#[test]
fn an_event_loop_never_asks_the_control_store() {
    let clock = Arc::new(Asked::default());
    let folder = scratch();
    let service = Inside::start(|parts| {
        // Every metastore operation reads the clock, so clock reads reveal metastore accesses.
        let file = folder.path().join("control.redb");
        let control = Control::open(&file, Arc::clone(&clock) as _, Arc::new(SystemRandom));
        parts.control = Arc::new(control.unwrap());
    });
    let before = clock.by_others.load(Ordering::SeqCst);
    assert!(before > 0, "the clock is watched");
    let mut small = mcp(&service.bearer, "tools/list", &json!({}));
    let message = small.clone();
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {},
        "padding": "x".repeat(2 * BODY_BYTES_SMALL)});
    let body = large.to_string().into_bytes();
    let chunks = format!("{:x}\r\n{large}\r\n0\r\n\r\n", body.len()).into_bytes();
    small = small.without("Authorization");
    let wrong = small.clone().header("Authorization", "Bearer recalld_pat_wrong");
    let mut asked = 0;
    for (who, ask, status) in [("good", message, 200), ("wrong", wrong, 401), ("none", small, 401)]
    {
        for (what, ask) in [
            ("small", ask.clone()),
            ("large", ask.clone().body(body.clone())),
            ("chunked", ask.clone().header("Transfer-Encoding", "chunked").body(chunks.clone())),
            ("expected", ask.clone().header("Expect", "100-continue")),
            ("large and expected", ask.clone().header("Expect", "100-continue").body(body.clone())),
        ] {
            let answer = sent(&service.hosted, &ask);
            assert_eq!(answer.status, status, "{who} {what}: {}", answer.text());
            asked += 1;
        }
    }
    // The token endpoint accesses the metastore, and accepts large bodies, too.
    let form = Ask::new("POST", "/token")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Expect", "100-continue")
        .body(b"grant_type=client_credentials&client_id=acme&client_secret=x".to_vec());
    assert_eq!(sent(&service.hosted, &form).status, 401);
    for path in ["/stats", "/health", "/authorize?client_id=nobody", "/.well-known/jwks.json"] {
        let ask = Ask::get(path).header("Authorization", &format!("Bearer {}", service.bearer));
        sent(&service.hosted, &ask);
    }
    assert!(clock.by_others.load(Ordering::SeqCst) >= before + asked / 3, "workers ask it");
    assert_eq!(clock.by_loops.load(Ordering::SeqCst), 0);
}

/// The system's clock with an offset, or a fixed time at the end of its range.
#[derive(Debug, Default)]
struct Moved {
    by_micros: AtomicI64,
    is_at_its_end: AtomicBool,
}

impl Clock for Moved {
    fn now(&self) -> Micros {
        match self.is_at_its_end.load(Ordering::SeqCst) {
            true => Micros(i64::MAX),
            false => Micros(SystemClock.now().0 + self.by_micros.load(Ordering::SeqCst)),
        }
    }
}

#[test]
fn a_clock_that_is_set_back_gives_nothing_away_and_what_was_good_is_good_again() {
    const HOUR_MICROS: i64 = 3_600 * 1_000_000;
    let clock = Arc::new(Moved::default());
    let folder = scratch();
    let service = Inside::start(|parts| {
        let file = folder.path().join("control.redb");
        let control = Control::open(&file, Arc::clone(&clock) as _, Arc::new(SystemRandom));
        parts.control = Arc::new(control.unwrap());
        parts.meter = Meter::new(Arc::clone(&parts.control) as _, Arc::new(SystemRandom));
        parts.clock = Arc::clone(&clock) as _;
    });
    let control = &service.parts.control;
    let scopes = SCOPES.map(str::to_owned);
    let new =
        NewCredential { kind: Kind::Workspace, name: None, scopes: &scopes, expires_at: None };
    let key = control.issue_credential("acme", &new, &Prefix::default()).unwrap().secret;
    let form =
        format!("grant_type=client_credentials&client_id=acme&client_secret={}", key.expose());
    let asked = Ask::new("POST", "/token")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(form.into_bytes());
    let token = || {
        let answer = wire::ask(&service.hosted, &asked);
        answer.json()["access_token"].as_str().unwrap().to_owned()
    };
    let recall = |bearer: &str| {
        let call = json!({"name": "brain_recall", "arguments": {"query": "x"}});
        wire::ask(&service.hosted, &mcp(bearer, "tools/call", &call))
    };
    let is_good = |answer: &Answer| {
        answer.status == 200 && answer.json()["result"]["isError"] == json!(false)
    };
    let month = || recalld_common::names::time(SystemClock.now())[..7].to_owned();
    let used = || {
        service.parts.meter.flush(clock.now()).unwrap();
        control.usage("acme", &month()).unwrap().used
    };
    let access = token();
    assert!(is_good(&recall(&access)) && is_good(&recall(&service.bearer)));
    let begun = (month(), used());
    assert_eq!(begun.1, 2);
    // Set back: every endpoint closes, and no credential is accepted or issued.
    clock.by_micros.store(-HOUR_MICROS, Ordering::SeqCst);
    let page = Ask::get("/authorize?client_id=x&redirect_uri=https://x.example/");
    for ask in [mcp(&service.bearer, "tools/list", &json!({})), asked.clone(), page] {
        let closed = wire::ask(&service.hosted, &ask);
        assert_eq!(closed.status, 503, "{}", closed.text());
        assert!(closed.header("retry-after").is_some(), "{}", closed.head());
    }
    clock.by_micros.store(-60_000_000, Ordering::SeqCst);
    assert!(is_good(&recall(&service.bearer)), "as far as a clock is put right");
    // A time without a month: no call can be reserved, so none runs.
    clock.is_at_its_end.store(true, Ordering::SeqCst);
    let (known, _) = recalld_workspace::opening::credentials(&service.parts.data).unwrap();
    let shown = known.show();
    let asked = Ask::post("/recall", &json!({"query": "x"}))
        .header("x-gateway-client-id", shown.gateway_client_id.expose())
        .header("x-gateway-client-secret", shown.gateway_client_secret.expose())
        .header("Authorization", &format!("Bearer {}", service.bearer));
    for _ in 0..3 {
        let told = recall(&service.bearer).events().pop().unwrap();
        assert_eq!(told["error"]["data"]["reason"], "metering_unavailable", "{told}");
        for at in [&service.hosted, &service.local] {
            let closed = wire::ask(at, &asked);
            assert_eq!(closed.status, 503, "{}", closed.text());
            assert!(closed.header("retry-after").is_some(), "{}", closed.head());
        }
    }
    // Correct again: nothing is lost, and calls that did not run are not charged.
    clock.is_at_its_end.store(false, Ordering::SeqCst);
    clock.by_micros.store(0, Ordering::SeqCst);
    assert!(is_good(&recall(&access)) && is_good(&recall(&service.bearer)));
    // Lenient, because the hour set back may fall into the previous month.
    assert!(month() == begun.0 && (4..=6).contains(&used()), "{} calls of {begun:?}", used());
}

/// A clock that panics once, after a given number of reads.
#[derive(Debug)]
struct Mine {
    left: AtomicI64,
}

impl Mine {
    /// Panics at the read after the next `more` reads.
    fn lay(&self, more: i64) {
        self.left.store(more, Ordering::SeqCst);
    }

    fn is_gone(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }
}

impl Clock for Mine {
    fn now(&self) -> Micros {
        let left = self.left.load(Ordering::SeqCst);
        if left >= 0 {
            self.left.store(left - 1, Ordering::SeqCst);
            assert!(left > 0, "on purpose: a tool asked for the time");
        }
        SystemClock.now()
    }
}

#[test]
fn a_tool_that_panics_leaves_its_entry_costs_nothing_and_stops_nobody() {
    let mine = Arc::new(Mine { left: AtomicI64::new(-1) });
    let service = Inside::start(|parts| parts.clock = Arc::clone(&mine) as _);
    let call = json!({"name": "retrieval_arbitrate_tool", "arguments": {"query": "x"}});
    let ask = mcp(&service.bearer, "tools/call", &call);
    let used = || {
        service.parts.meter.flush(SystemClock.now()).unwrap();
        let month = &recalld_common::names::time(SystemClock.now())[..7];
        service.parts.control.usage("acme", month).unwrap().used
    };
    // A local call reserves no quota; a tenant's call reads the clock once before its tool.
    for (workspace, at, asked_before) in
        [("local", &service.local, 0), ("acme", &service.hosted, 1)]
    {
        assert_eq!(wire::ask(at, &ask).json()["result"]["isError"], false);
        let before = used();
        for _ in 0..3 {
            mine.lay(asked_before);
            let answer = wire::ask(at, &ask);
            assert!(mine.is_gone(), "{workspace}: the tool did not ask for the time");
            let wanted = json!({"code": -32603, "message": "Internal error"});
            // The error is the last event of a stream that began earlier.
            let told = answer.events().pop().unwrap();
            assert_eq!((answer.status, &told["error"]), (200, &wanted), "{workspace}");
        }
        assert_eq!(used(), before, "{workspace}: what was not answered is not charged");
        let outcomes: Vec<Outcome> =
            service.entries(workspace).iter().map(|entry| entry.outcome).collect();
        let failed = Outcome::Failed;
        assert_eq!(outcomes, [Outcome::Done, failed, failed, failed], "{workspace}");
        assert_eq!(wire::ask(at, &ask).json()["result"]["isError"], false, "it goes on");
    }
    assert_eq!(used(), 2);
}
