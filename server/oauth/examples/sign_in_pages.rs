//! The sign-in and confirmation pages behind a minimal stub server, without the product: `cargo run -p recalld-oauth
//! --example sign_in_pages`. Prints one line, `ready http://ADDRESS`, and serves until killed. Loopback only. The only
//! valid sign-in is workspace `acme-notes` with the key `recalld_once_right`.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use engine::os::clock::{Clock, SystemClock, SystemRandom};
use recalld_common::scope::Scope;
use recalld_common::target::percent_decode;
use recalld_http_server::limits::WORKERS_MIN;
use recalld_http_server::{
    Call, Limits, Listen, ListenerId, Method, NetConfig, Reply, Request, Response, Server, Service,
};
use recalld_oauth::ErrorCode;
use recalld_oauth::pages::{
    AUTHORIZE_PATH, Browser, CONFIRM_PATH, Client, Confirm, Destination, Fault, NoBrowser,
    OpenError, Opened, Problem, Returning, Sealer, SignIn, confirm, confirmation_over, confirmed,
    fields, problem, returning, sign_in,
};

const PROBLEMS: [Problem; 11] = [
    Problem::UnknownClient,
    Problem::UnknownRedirect,
    Problem::BadRequest,
    Problem::ClientUnreadable,
    Problem::Forged,
    Problem::OtherBrowser,
    Problem::CookieTwice,
    Problem::Expired,
    Problem::AlreadyComplete,
    Problem::TooMany { wait_seconds: 42 },
    Problem::Unavailable { wait_seconds: 5 },
];

/// Maximum number of completed sign-ins remembered by this fixture.
const COMPLETE_MAX: usize = 10_000;

struct Pages {
    sealer: Sealer,
    complete: Mutex<HashSet<[u8; 16]>>,
}

/// The client's redirect URI and display name.
struct Asked {
    redirect: String,
    name: String,
}

impl Service for Pages {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        let request = &call.request;
        let is_post = request.method == Method::Post;
        reply.send(match request.path() {
            AUTHORIZE_PATH if is_post => self.decide(request),
            AUTHORIZE_PATH => self.begin(request),
            CONFIRM_PATH => confirmation(request, is_post),
            other => other_page(other),
        });
    }
}

impl Pages {
    fn begin(&self, request: &Request) -> Response {
        let query = request.query().unwrap_or_default();
        let redirect = field(query, "redirect").unwrap_or_default();
        let name = field(query, "name").unwrap_or_else(|| "Notebook".to_owned());
        match browser(request) {
            Ok(browser) => self.show(&browser, &Asked { redirect, name }, "", None),
            Err(NoBrowser::Twice) => problem(Problem::CookieTwice),
            Err(NoBrowser::Missing | NoBrowser::Malformed) => {
                let browser = Browser::new(&SystemRandom);
                let cookie = browser.set_cookie(false);
                self.show(&browser, &Asked { redirect, name }, "", None)
                    .header("set-cookie", cookie)
            }
        }
    }

    fn show(
        &self,
        browser: &Browser,
        asked: &Asked,
        workspace: &str,
        fault: Option<Fault>,
    ) -> Response {
        let Some(destination) = Destination::of(&asked.redirect) else {
            return problem(Problem::UnknownRedirect);
        };
        let parameters = format!("{}\n{}", asked.redirect, asked.name);
        let now = SystemClock.now();
        let Ok(sealed) = self.sealer.seal(browser, &parameters, now, &SystemRandom) else {
            return problem(Problem::BadRequest);
        };
        let is_web = asked.redirect.starts_with("https:");
        sign_in(&SignIn {
            client: Client {
                name: &asked.name,
                host: is_web.then_some("notebook.example"),
                is_local_only: destination.is_here(),
            },
            destination: &destination,
            scopes: &[Scope::TenantRead, Scope::BrainProxy, Scope::MemoryWrite],
            key_prefix: "recalld",
            request: &sealed.request,
            csrf: &sealed.csrf,
            workspace,
            fault,
        })
    }

    fn decide(&self, request: &Request) -> Response {
        let Ok(browser) = browser(request) else { return problem(Problem::OtherBrowser) };
        let form = String::from_utf8_lossy(&request.body);
        let value = |name| field(&form, name).unwrap_or_default();
        let (sealed, csrf) = (value(fields::REQUEST), value(fields::CSRF));
        let opened = match self.sealer.open(&browser, &sealed, &csrf, SystemClock.now()) {
            Ok(opened) => opened,
            Err(OpenError::Forged) => return problem(Problem::Forged),
            Err(OpenError::Expired) => return problem(Problem::Expired),
            Err(OpenError::OtherBrowser) => return problem(Problem::OtherBrowser),
        };
        let (redirect, name) = opened.parameters.split_once('\n').unwrap_or_default();
        let asked = Asked { redirect: redirect.to_owned(), name: name.to_owned() };
        if value(fields::DECISION) == fields::REFUSE {
            return self.answer(&opened, &asked, "error=access_denied");
        }
        let (workspace, key) = (value(fields::WORKSPACE), value(fields::KEY));
        let fault = match (workspace.as_str(), key.as_str()) {
            ("", "") => Fault::Neither,
            ("", _) => Fault::NoWorkspace,
            (_, "") => Fault::NoKey,
            ("acme-notes", "recalld_once_right") => {
                return self.answer(&opened, &asked, "code=good");
            }
            _ => Fault::Refused,
        };
        self.show(&browser, &asked, &workspace, Some(fault))
    }

    fn answer(&self, opened: &Opened, asked: &Asked, query: &str) -> Response {
        let mut complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        if complete.len() >= COMPLETE_MAX || !complete.insert(opened.id) {
            return problem(Problem::AlreadyComplete);
        }
        let to = format!("{}?{query}", asked.redirect);
        Response::empty(303).header("location", to).header("cache-control", "no-store")
    }
}

fn confirmation(request: &Request, is_post: bool) -> Response {
    if is_post {
        return if request.body == b"token=good" { confirmed() } else { confirmation_over() };
    }
    match field(request.query().unwrap_or_default(), "token") {
        Some(token) => {
            let (address, workspace) = ("ada.lovelace@mail.example", "acme-notes");
            confirm(&Confirm { address, workspace, token: &token })
        }
        None => confirmation_over(),
    }
}

/// Serves `/problem/0` and so on, one page per [`PROBLEMS`] entry, and `/returning`.
fn other_page(path: &str) -> Response {
    let number = path.strip_prefix("/problem/").and_then(|number| number.parse::<usize>().ok());
    match number.and_then(|number| PROBLEMS.get(number)) {
        Some(which) => problem(*which),
        None if path == "/returning" => way_back(),
        None => Response::empty(404),
    }
}

/// The interactive redirect page for an invalid client request.
fn way_back() -> Response {
    let address = "https://notebook.example/callback?error=invalid_scope&state=x";
    let error = ErrorCode::InvalidScope;
    match Destination::of(address) {
        Some(destination) => returning(&Returning { destination: &destination, address, error }),
        None => Response::empty(500),
    }
}

fn browser(request: &Request) -> Result<Browser, NoBrowser> {
    Browser::of(&request.headers, false)
}

/// The percent-decoded value of a form or query field.
fn field(form: &str, name: &str) -> Option<String> {
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(field, _)| *field == name)?;
    percent_decode(&value.replace('+', " ")).ok().map(String::from)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::bind(NetConfig {
        listeners: vec![Listen { id: ListenerId(0), address }],
        workers: WORKERS_MIN,
        limits: Limits::default(),
        wall_clock: SystemTime::now,
    })?;
    let local = server.addresses()?.first().map(|(_, address)| *address).ok_or("no address")?;
    println!("ready http://{local}");
    let mut key = [0; 32];
    engine::os::clock::Random::fill(&SystemRandom, &mut key);
    let complete = Mutex::new(HashSet::new());
    server.run(Arc::new(Pages { sealer: Sealer::new(key), complete }))?;
    Ok(())
}
