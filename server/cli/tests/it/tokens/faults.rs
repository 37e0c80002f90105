//! The authorization server while the metastore is missing or the disk is full: every endpoint names a retry time, and
//! nothing presented is used up. After the fault, the same code, refresh token, form and key are still valid.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use engine::ledger::{Decision, Effect, EntryDraft, Ledger, LedgerOptions, Outcome, TouchedItem};
use engine::os::clock::{Random, SystemRandom};
use recalld_auth::open_or_create_signing_key;
use recalld_metastore::Kind;
use sha2::{Digest, Sha256};
use support_server::house::{SCOPES, call};
use support_wire::service::run_json;
use support_wire::wire::{self, Answer, Ask};

use serde_json::{Value, json};

use crate::tokens::desk::{
    CHALLENGE, Client, Desk, REDIRECT, RESOURCE, Room, form, given, redemption, refusal, shown,
    tokens,
};

/// Timeout for noticing that a fault is over, which normally takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Inputs for the requests during the fault.
struct Asked {
    client: Client,
    own: Client,
    /// A bearer that probes for the workspace's recovery.
    probe: String,
    /// A form shown before the fault, to be submitted with this key.
    page: Page,
    key: String,
    code: String,
    refresh: String,
    /// A token to revoke.
    doomed: String,
    clients: Value,
}

/// The sign-in form in a browser.
struct Page {
    cookie: String,
    request: String,
    csrf: String,
}

impl Page {
    fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = answer.text();
        let field = |name: &str| {
            let (_, rest) = text.split_once(&format!("name=\"{name}\"")).expect("a hidden field");
            let (_, rest) = rest.split_once("value=\"").expect("with a value");
            rest.split('"').next().unwrap_or_default().to_owned()
        };
        let cookie = answer.header("set-cookie").expect("the form is of one browser");
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Self { cookie, request: field("request"), csrf: field("csrf") }
    }
}

fn visit(desk: &Desk, client: &Client) -> Answer {
    let query = form(&[
        ("response_type", "code"),
        ("client_id", &client.id),
        ("redirect_uri", REDIRECT),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("resource", RESOURCE),
    ]);
    wire::ask(desk.service.hosted(), &Ask::get(&format!("/authorize?{query}")))
}

fn send(desk: &Desk, page: &Page, key: &str) -> Answer {
    let fields = [
        ("request", &*page.request),
        ("csrf", &page.csrf),
        ("workspace", "acme"),
        ("key", key),
        ("decision", "allow"),
    ];
    desk.post("/authorize", &fields, &[("Cookie", &page.cookie)])
}

/// The code in the redirect that answers a form.
fn code_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    let location = answer.header("location").expect("somewhere to go");
    let (_, code) = location.split_once("code=").unwrap_or_else(|| panic!("{location}"));
    code.split('&').next().unwrap_or_default().to_owned()
}

fn clients(desk: &Desk) -> Value {
    run_json(desk.service.data(), &["client", "list"])["clients"].clone()
}

/// Prepares all inputs while there is no fault.
fn prepared(room: Room, serve: impl FnOnce(Room) -> Desk) -> (Desk, Asked) {
    let client = room.client("none");
    let keys = [(); 3].map(|()| room.house.issue("acme", Kind::Once, Some("ada"), &SCOPES));
    let probe = room.house.bearer("acme", Kind::Bearer, &SCOPES);
    let workspace_key = room.house.issue("acme", Kind::Workspace, None, &SCOPES);
    let desk = serve(room);
    let own = Client { id: "acme".to_owned(), secret: Some(workspace_key) };
    let [first, second, key] = keys;
    let signed_in = |key: &str| code_of(&send(&desk, &Page::of(&visit(&desk, &client)), key));
    let (doomed, refresh) = tokens(&desk.redeem(&client, &signed_in(&first)));
    let code = signed_in(&second);
    let page = Page::of(&visit(&desk, &client));
    let clients = clients(&desk);
    (desk, Asked { client, own, probe, page, key, code, refresh, doomed, clients })
}

fn until(what: &str, mut is_so: impl FnMut() -> Result<(), String>) {
    let give_up = Instant::now() + PATIENCE;
    while let Err(why) = is_so() {
        assert!(Instant::now() < give_up, "{what}: {why}");
    }
}

/// Checks for 503 in the format of the authorization server, with a retry time and without a file's name.
fn assert_unavailable(what: &str, answer: &Answer) {
    assert_eq!(refusal(answer), (503, "temporarily_unavailable".to_owned()), "{what}");
    assert_says_when(what, answer);
}

fn assert_says_when(what: &str, answer: &Answer) {
    let wait = answer.header("Retry-After").and_then(|wait| wait.parse::<u32>().ok());
    assert!(wait.is_some_and(|wait| wait >= 1), "{what}: {}", answer.head());
    for word in ["redb", "/data/", "os error"] {
        assert!(!answer.text().contains(word), "{what}: {}", answer.text());
    }
}

fn for_key(desk: &Desk, own: &Client) -> Answer {
    let fields = [&[("grant_type", "client_credentials")], &*shown(own)].concat();
    desk.token(&fields)
}

fn revoke(desk: &Desk, asked: &Asked) -> Answer {
    let fields = [&[("token", &*asked.doomed)], &*shown(&asked.client)].concat();
    desk.post("/revoke", &fields, &[])
}

/// Checks that every request that would be recorded in the ledger of `acme` fails with 503, however often it is
/// repeated.
fn assert_closed(desk: &Desk, asked: &Asked) {
    let Asked { client, own, page, key, code, refresh, .. } = asked;
    for _ in 0..3 {
        for (what, answer) in [
            ("a code", desk.token(&redemption(client, code))),
            ("a refresh token", desk.refresh(client, refresh, &[])),
            ("a key", for_key(desk, own)),
            ("a revocation", revoke(desk, asked)),
        ] {
            assert_unavailable(what, &answer);
        }
        let sent = send(desk, page, key);
        assert_eq!(sent.status, 503, "{}", sent.text());
        assert_eq!(sent.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(sent.header("location").is_none() && sent.header("set-cookie").is_none());
        assert_says_when("a form", &sent);
    }
    // Responses that need no data are still served.
    for path in ["/.well-known/jwks.json", "/.well-known/oauth-authorization-server", "/health"] {
        assert_eq!(wire::ask(desk.service.hosted(), &Ask::get(path)).status, 200, "{path}");
    }
}

/// Checks that registration fails.
fn assert_registers_nobody(desk: &Desk) {
    let new = json!({"redirect_uris": [REDIRECT]});
    let registered = wire::ask(desk.service.hosted(), &Ask::post("/register", &new));
    assert_eq!(registered.status, 503, "{}", registered.text());
    assert_says_when("a registration", &registered);
}

/// Waits until calls of the workspace are recorded again, by a credential used for nothing else.
fn until_it_goes_on(desk: &Desk, asked: &Asked) {
    until("it goes on by itself", || {
        let answer = call(&desk.service, &asked.probe, "brain_recall", &json!({"query": "x"}));
        let is_good = answer.status == 200 && answer.text().contains("\"isError\":false");
        if is_good { Ok(()) } else { Err(answer.text()) }
    });
}

/// After the fault: checks that every input is still valid, once.
fn assert_whole(desk: &Desk, asked: &Asked) {
    let Asked { client, own, page, key, code, refresh, doomed, .. } = asked;
    until_it_goes_on(desk, asked);
    given(&for_key(desk, own));
    assert_eq!(clients(desk), asked.clients, "no half-made client is left");
    assert_eq!(desk.opens(doomed), 200, "it was not revoked, and nobody was told so");
    let (_, next) = tokens(&desk.refresh(client, refresh, &[]));
    let (access, _) = tokens(&desk.redeem(client, code));
    let later = code_of(&send(desk, page, key));
    let (last, _) = tokens(&desk.redeem(client, &later));
    for token in [&access, &last] {
        assert_eq!(desk.opens(token), 200);
    }
    assert_eq!(revoke(desk, asked).status, 200);
    assert_eq!(desk.opens(doomed), 401);
    // Each is valid only once.
    assert_eq!(refusal(&desk.redeem(client, &later)).1, "invalid_grant");
    assert_eq!(refusal(&desk.refresh(client, refresh, &[])).1, "invalid_grant");
    assert_eq!(refusal(&desk.refresh(client, &next, &[])).1, "invalid_grant");
    assert_eq!(send(desk, page, key).status, 409);
    let outcomes = desk.outcomes("oauth/token");
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.iter().partition(|one| *one == "done");
    // Two replays at the end, and none during the fault.
    assert_eq!((done.len(), refused.len()), (5, 2), "{outcomes:?}");
    let data = desk.service.data();
    assert_eq!(run_json(data, &["ledger", "verify", "--all"])["ok"], true);
}

#[test]
fn while_the_control_store_is_gone_nothing_is_used_up() {
    let (desk, asked) = prepared(Room::new(), Room::serve);
    let file = desk.service.data().join("control.redb");
    let away = file.with_extension("away");
    fs::rename(&file, &away).unwrap();
    // A reader checks once a second that its open file is still the current one.
    until("the control store is gone", || match visit(&desk, &asked.client).status {
        503 => Ok(()),
        status => Err(status.to_string()),
    });
    assert_closed(&desk, &asked);
    assert_registers_nobody(&desk);
    assert_eq!(visit(&desk, &asked.client).status, 503);
    assert_eq!(desk.opens(&asked.doomed), 503, "who may ask cannot be told");
    fs::rename(&away, &file).unwrap();
    assert_whole(&desk, &asked);
}

#[test]
fn while_the_disk_is_full_nothing_is_used_up() {
    let (desk, asked) = prepared(Room::new(), Room::serve_on_a_small_disk);
    desk.service.let_files_grow(false);
    assert_closed(&desk, &asked);
    assert_registers_nobody(&desk);
    desk.service.let_files_grow(true);
    assert_whole(&desk, &asked);
}

/// Enough entries to make a ledger longer than any other file.
const LONG_LEDGER_ENTRIES: u64 = 6_000;

/// Fills the ledger of an unopened workspace and returns the length of its longest file.
fn fill_ledger(workspace: &Path, slug: &str) -> u64 {
    let mut random = |bytes: &mut [u8]| SystemRandom.fill(bytes);
    let (signer, _) = open_or_create_signing_key(workspace, &mut random).unwrap();
    let folder = workspace.join("ledger");
    let tenant = Sha256::digest(slug).into();
    let mut ledger =
        Ledger::open(&folder, LedgerOptions { tenant, signer: Box::new(signer), anchor: None })
            .unwrap();
    let touched = [TouchedItem { effect: Effect::Read, item: [7; 16] }; 64];
    for seq in 1..=LONG_LEDGER_ENTRIES {
        let entry = EntryDraft {
            at_micros: seq,
            receipt: [7; 16],
            tool: "brain_recall",
            principal: "user:ada",
            decision: Decision::Allow,
            rule: "default/read",
            arguments: [3; 32],
            touched: &touched,
            outcome: Outcome::Done,
        };
        ledger.append(&entry).unwrap();
    }
    ledger.close(LONG_LEDGER_ENTRIES + 1).unwrap();
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    files.max().unwrap()
}

#[test]
fn while_one_ledger_cannot_be_written_nothing_of_its_workspace_is_used_up_and_others_go_on() {
    let room = Room::new();
    let globex = room.house.tenant("globex", "team");
    let data = room.house.data();
    let ledger_bytes = fill_ledger(&data.join("tenants/acme"), "acme");
    let (desk, asked) = prepared(room, Room::serve_on_a_small_disk);
    // The metastore and all other ledgers can still grow; only this ledger exceeds the file size limit.
    let control_bytes = fs::metadata(data.join("control.redb")).unwrap().len();
    let room_left = ledger_bytes.checked_sub(2 * control_bytes);
    assert!(room_left.is_some(), "{ledger_bytes} of the ledger, {control_bytes} beside it");
    // The first request discovers the fault, and loses nothing either.
    let Asked { client, page, key, code, refresh, .. } = &asked;
    let firsts: [(&str, &dyn Fn() -> Answer); 4] = [
        ("a code", &|| desk.token(&redemption(client, code))),
        ("a refresh token", &|| desk.refresh(client, refresh, &[])),
        ("a form", &|| send(&desk, page, key)),
        ("a revocation", &|| revoke(&desk, &asked)),
    ];
    for (what, first) in firsts {
        desk.service.let_files_grow_to(Some(ledger_bytes));
        assert_eq!(first().status, 503, "{what}");
        desk.service.let_files_grow(true);
        until_it_goes_on(&desk, &asked);
    }
    desk.service.let_files_grow_to(Some(ledger_bytes));
    assert_closed(&desk, &asked);
    for _ in 0..3 {
        let others = call(&desk.service, &globex, "brain_remember", &json!({"text": "A note."}));
        assert_eq!(others.json()["result"]["isError"], false, "{}", others.text());
        assert_eq!(visit(&desk, &asked.client).status, 200);
    }
    desk.service.let_files_grow(true);
    assert_whole(&desk, &asked);
}
