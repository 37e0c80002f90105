//! An in-process service with a hosted listener, simulated metadata documents and an adjustable clock, and a browser
//! without scripts.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use engine::Micros;
use engine::ledger::{Entry, LedgerReader};
use engine::os::clock::{Clock, SystemClock};
use recalld_api::app_state::AppState;
use recalld_api::listeners::HOSTED;
use recalld_api::pipeline::{Origins, Pipeline};
use recalld_cli::app;
use recalld_common::scope::Scope;
use recalld_embedding::model::Silent;
use recalld_http_server::{Limits, Listen, NetConfig, Server, ShutdownHandle};
use recalld_metastore::{
    Kind, NewClient, NewCredential, NewTenant, RedeemError, Redeemed, Redemption,
};
use recalld_oauth::{ClientDocuments, Fetch, FetchFault, Fetched};
use recalld_policy::plans::Plan;
use recalld_policy::rate::Rate;
use support_server::settings::settings;
use support_wire::service::scratch;
use support_wire::tiny_model::Tiny;
use support_wire::wire::{self, Answer, Ask};
use tempfile::TempDir;

/// The example of RFC 7636, appendix B.
pub(super) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub(super) const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
/// Redirect URI of most tests' client.
pub(super) const REDIRECT: &str = "https://notebook.example/callback";
/// An origin allowed by CORS.
pub(super) const LISTED: &str = "https://listed.example";
pub(super) const SCOPES: [&str; 3] = ["tenant:read", "brain:proxy", "memory:write"];

/// Simulated web servers with client metadata documents.
#[derive(Default)]
pub(super) struct Web {
    documents: Mutex<HashMap<String, Result<Fetched, FetchFault>>>,
    pub(super) asked: AtomicUsize,
}

impl Web {
    /// Sets the response of a URL.
    pub(super) fn put(&self, url: &str, answer: Result<Fetched, FetchFault>) {
        self.documents.lock().unwrap().insert(url.to_owned(), answer);
    }
}

struct Browsed(Arc<Web>);

impl Fetch for Browsed {
    fn fetch(&self, url: &str) -> Result<Fetched, FetchFault> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        let documents = self.0.documents.lock().unwrap();
        documents.get(url).cloned().unwrap_or(Err(FetchFault::Status(404)))
    }
}

/// The system's clock plus an adjustable offset.
#[derive(Debug, Default)]
pub(super) struct Ahead(AtomicI64);

impl Ahead {
    pub(super) fn by(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for Ahead {
    fn now(&self) -> Micros {
        Micros(SystemClock.now().0 + self.0.load(Ordering::SeqCst))
    }
}

pub(super) struct House {
    pub(super) parts: Arc<AppState>,
    pub(super) web: Arc<Web>,
    pub(super) clock: Arc<Ahead>,
    pub(super) issuer: String,
    pub(super) at: String,
    /// A client with the redirect URI [`REDIRECT`].
    pub(super) client: String,
    handle: ShutdownHandle,
    thread: Option<JoinHandle<()>>,
    _scratch: TempDir,
}

impl House {
    /// A service with the workspace `acme` of the plan `team`, without a public URL. There is also a plan `slow` with
    /// two calls a day.
    pub(super) fn new() -> Self {
        Self::known_as(None)
    }

    /// As [`House::new`], behind a proxy that terminates TLS.
    pub(super) fn behind_tls() -> Self {
        Self::known_as(Some("https://recall.example"))
    }

    fn known_as(public_url: Option<&str>) -> Self {
        let scratch = scratch();
        let address: SocketAddr = ([127, 0, 0, 1], 0).into();
        let server = Server::bind(NetConfig {
            listeners: vec![Listen { id: HOSTED, address }],
            workers: 8,
            limits: Limits::default(),
            wall_clock: SystemTime::now,
        })
        .unwrap();
        let at = server.addresses().unwrap()[0].1.to_string();
        let issuer = public_url.map_or_else(|| format!("http://{at}"), str::to_owned);
        let model = Tiny::new(1, 16).write(scratch.path(), "model");
        let data = scratch.path().join("data");
        let mut settings = settings(&data, Some(model), Duration::from_secs(60));
        settings.public_url = Some(issuer.clone());
        let mut started = app::start(&settings, &mut Silent).unwrap();
        let (web, clock) = (Arc::new(Web::default()), Arc::new(Ahead::default()));
        let parts = Arc::get_mut(&mut started.parts).expect("nobody else has it yet");
        parts.clock = Arc::clone(&clock) as Arc<dyn Clock>;
        let slow = Rate::new(1, Duration::from_secs(24 * 3_600), 2);
        let scopes = vec![Scope::BrainProxy];
        parts.config.plans.put("slow", Plan { rate: slow, scopes, ..Plan::bare() }).unwrap();
        let fetch = Box::new(Browsed(Arc::clone(&web)));
        parts.authority.as_mut().unwrap().documents = ClientDocuments::new(fetch);
        let parts = started.parts;
        let listed = Origins::new(vec![LISTED.parse().unwrap()]);
        let pipeline = Pipeline::new(Arc::clone(&parts), &[]).unwrap().sharing_with(listed);
        let pipeline = Arc::new(pipeline);
        let handle = server.handle();
        let thread = Some(thread::spawn(move || {
            server.run(pipeline).unwrap();
        }));
        let client = String::new();
        let mut house =
            Self { parts, web, clock, issuer, at, client, handle, thread, _scratch: scratch };
        house.tenant("acme", "team");
        house.client = house.register("Notebook", &[REDIRECT]);
        house
    }

    pub(super) fn tenant(&self, slug: &str, plan: &str) {
        self.parts.control.create_tenant(&NewTenant { slug, title: slug, plan }).unwrap();
        self.parts.tenants.make(slug).unwrap();
    }

    pub(super) fn key(&self, slug: &str, kind: Kind, scopes: &[&str]) -> String {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let new = NewCredential { kind, name: Some("ada"), scopes: &scopes, expires_at: None };
        let prefix = &self.parts.config.oauth.key_prefix;
        let issued = self.parts.control.issue_credential(slug, &new, prefix).unwrap();
        issued.secret.expose().to_owned()
    }

    pub(super) fn once(&self) -> String {
        self.key("acme", Kind::Once, &SCOPES)
    }

    pub(super) fn register(&self, name: &str, redirects: &[&str]) -> String {
        let redirects: Vec<String> = redirects.iter().map(|one| (*one).to_owned()).collect();
        let new = NewClient { name, redirect_uris: &redirects, auth_method: "none" };
        let prefix = &self.parts.config.oauth.key_prefix;
        self.parts.control.register_client(&new, prefix).unwrap().0.id
    }

    /// The query of a valid request, with some parameters replaced or added; an empty value removes the parameter.
    pub(super) fn query(&self, changed: &[(&str, &str)]) -> String {
        let own = [
            ("response_type", "code"),
            ("client_id", &*self.client),
            ("redirect_uri", REDIRECT),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
            ("state", "of the client"),
        ];
        let is_own = |name: &str| own.iter().any(|(own, _)| *own == name);
        let of = |name: &str| changed.iter().find(|(other, _)| *other == name).map(|(_, it)| *it);
        let own = own.iter().map(|(name, value)| (*name, of(name).unwrap_or(value)));
        let more = changed.iter().copied().filter(|(name, _)| !is_own(name));
        let all: Vec<(&str, &str)> =
            own.chain(more).filter(|(_, value)| !value.is_empty()).collect();
        encoded(&all)
    }

    /// Sends a request on a new connection.
    pub(super) fn ask(&self, ask: &Ask) -> Answer {
        wire::ask(&self.at, ask)
    }

    /// Redeems a code with all parameters of the client.
    pub(super) fn redeem(&self, client: &str, code: &str) -> Result<Redeemed, RedeemError> {
        let shown = Redemption {
            code: code.as_bytes(),
            client,
            redirect_uri: REDIRECT,
            verifier: VERIFIER,
            resource: None,
        };
        self.parts.control.redeem_code(&shown, &self.parts.config.oauth.key_prefix)
    }

    /// The ledger entries of a workspace, including failed sign-ins.
    pub(super) fn entries(&self, slug: &str) -> Vec<Entry> {
        let AppState { authority, control, tenants, clock, .. } = &*self.parts;
        authority.as_ref().unwrap().attempts.write(control, tenants, clock.now());
        self.parts.tenants.open(slug).unwrap().audit.settled_files().unwrap();
        let folder = self.parts.data.join("tenants").join(slug).join("ledger");
        let entries = LedgerReader::open(&folder).unwrap().entries(1).unwrap();
        entries.map(Result::unwrap).collect()
    }

    pub(super) fn control_file(&self) -> PathBuf {
        self.parts.data.join("control.redb")
    }

    /// Replaces the metastore's file by a folder.
    pub(super) fn break_control(&self) {
        fs::rename(self.control_file(), self.control_file().with_extension("away")).unwrap();
        fs::create_dir(self.control_file()).unwrap();
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.handle.drain();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

pub(super) struct Person<'a> {
    pub(super) house: &'a House,
    /// Name and value of the only cookie.
    pub(super) cookie: Option<String>,
}

impl<'a> Person<'a> {
    pub(super) fn new(house: &'a House) -> Self {
        Self { house, cookie: None }
    }

    /// Follows a link to `/authorize`.
    pub(super) fn visit(&mut self, query: &str) -> Answer {
        let mut ask = Ask::get(&format!("/authorize?{query}"));
        if let Some(cookie) = &self.cookie {
            ask = ask.header("Cookie", cookie);
        }
        let answer = self.house.ask(&ask);
        if let Some(set) = answer.header("set-cookie") {
            self.cookie = set.split(';').next().map(str::to_owned);
        }
        answer
    }

    /// The form of the page for a valid request.
    pub(super) fn form(&mut self, changed: &[(&str, &str)]) -> Fields {
        let answer = self.visit(&self.house.query(changed));
        assert_eq!(answer.status, 200, "{}", answer.text());
        Fields::of(&answer)
    }

    /// The request that submits a form, without an origin header.
    pub(super) fn posting(&self, fields: &Fields) -> Ask {
        let mut ask = Ask::new("POST", "/authorize")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(fields.encoded().into_bytes());
        if let Some(cookie) = &self.cookie {
            ask = ask.header("Cookie", cookie);
        }
        ask
    }

    /// Submits a form as browsers do: with the origin `null`, because the page's policy is no referrer.
    pub(super) fn send(&self, fields: &Fields) -> Answer {
        let ask = self.posting(fields).header("Origin", "null");
        self.house.ask(&ask.header("Sec-Fetch-Site", "same-origin"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

impl Fields {
    /// The named inputs of a page's form, with their values.
    pub(super) fn of(page: &Answer) -> Self {
        let text = page.text();
        let form = text.split("<form ").nth(1).unwrap_or_else(|| panic!("no form: {text}"));
        let form = form.split("</form>").next().unwrap();
        assert!(form.starts_with("method=\"post\" action=\"/authorize\""), "{form}");
        let attribute = |tag: &str, name: &str| {
            let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
            Some(unescaped(rest.split('"').next()?))
        };
        let inputs = form.split("<input").skip(1).map(|rest| rest.split('>').next().unwrap());
        let named = inputs.filter_map(|tag| {
            Some((attribute(tag, "name")?, attribute(tag, "value").unwrap_or_default()))
        });
        Self(named.collect())
    }

    /// Replaces or adds a field.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        match self.0.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((name.to_owned(), value.to_owned())),
        }
        self
    }

    /// Fills the form in and allows the request.
    pub(super) fn allowing(self, workspace: &str, key: &str) -> Self {
        self.with("workspace", workspace).with("key", key).with("decision", "allow")
    }

    pub(super) fn value(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map_or_else(|| panic!("no {name}"), |(_, value)| value)
    }

    fn encoded(&self) -> String {
        let pairs: Vec<(&str, &str)> =
            self.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        encoded(&pairs)
    }
}

/// Encodes pairs as a form or query.
pub(super) fn encoded(pairs: &[(&str, &str)]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let part = |text: &str| -> String {
        let byte = |byte: u8| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        text.bytes().map(byte).collect()
    };
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", part(name), part(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Decodes a query value.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next().unwrap()).to_digit(16).unwrap();
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => u8::try_from(digit() * 16 + digit()).unwrap(),
            other => other,
        });
    }
    String::from_utf8(bytes).unwrap()
}

fn unescaped(text: &str) -> String {
    let references =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    references.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A redirect: its address without the query, and its parameters.
pub(super) struct Sent {
    pub(super) to: String,
    pub(super) parameters: HashMap<String, String>,
}

impl Sent {
    pub(super) fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 303, "{}", answer.text());
        for (name, value) in [
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(answer.header(name), Some(value));
        }
        assert!(!answer.head().to_ascii_lowercase().contains("access-control-"));
        let location = answer.header("location").unwrap();
        let (to, query) = location.split_once('?').unwrap();
        let mut parameters = HashMap::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap();
            let old = parameters.insert(name.to_owned(), decoded(value));
            assert!(old.is_none(), "{name} twice: {location}");
        }
        Self { to: to.to_owned(), parameters }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// The error code of a redirect to the client. Checks that the redirect has the state and issuer of every response.
    pub(super) fn error(answer: &Answer, house: &House) -> String {
        let sent = Self::of(answer);
        assert_eq!(sent.to, REDIRECT);
        assert_eq!(sent.get("state"), Some("of the client"));
        assert_eq!(sent.get("iss"), Some(&*house.issuer));
        assert!(sent.get("code").is_none());
        assert!(sent.get("error_description").is_some_and(|said| !said.is_empty()));
        sent.get("error").unwrap().to_owned()
    }
}

/// Status and heading of an error page, which must have neither a redirect nor a form or link.
pub(super) fn problem(answer: &Answer) -> (u16, String) {
    let text = answer.text();
    assert!(answer.header("location").is_none(), "{}", answer.head());
    assert!(!text.contains("<form") && !text.contains("<a "), "{text}");
    check_page(answer);
    let heading = text.split("<h1>").nth(1).unwrap().split("</h1>").next().unwrap();
    (answer.status, unescaped(heading))
}

/// Checks the properties of every page.
pub(super) fn check_page(answer: &Answer) {
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("x-frame-options", "DENY"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{}", answer.text());
    }
    let policy = answer.header("content-security-policy").unwrap();
    for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    let head = answer.head().to_ascii_lowercase();
    assert!(!head.contains("access-control-") && !head.contains("vary:"), "{head}");
}
