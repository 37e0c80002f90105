//! `recalld serve` under a service manager: socket activation, readiness notification, signals, certificate reload, log
//! lines, metrics.

mod launched;
mod metrics;
mod reloaded;
mod secured;

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;
use serde_json::{Value, json};
use support_wire::service::{run, scratch};
use support_wire::wire::{self, Ask, Client};

use launched::{Launched, TIME_MAX};

/// Makes a socket on which a service manager receives notifications.
fn manager(folder: &std::path::Path) -> (UnixDatagram, String) {
    let path = folder.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(TIME_MAX)).unwrap();
    (socket, path.display().to_string())
}

fn told(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 1024];
    let count = manager.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..count].to_vec()).unwrap()
}

#[test]
fn sockets_are_taken_over_and_the_manager_is_told() {
    let folder = scratch();
    let (manager, path) = manager(folder.path());
    let local = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosted = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [&local, &hosted].map(|socket| socket.local_addr().unwrap().to_string());
    // A client that connects before the program runs waits, and is answered.
    let mut early = Client::open(&addresses[0]).unwrap();
    early
        .write(format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", addresses[0]).as_bytes())
        .unwrap();
    let service = Launched::with_sockets(
        &folder.path().join("data"),
        &[],
        [("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "local:hosted"), ("NOTIFY_SOCKET", &path)],
        (local, hosted),
    );
    assert_eq!(service.ready["local"], format!("http://{}", addresses[0]));
    assert_eq!(service.ready["hosted"], format!("http://{}", addresses[1]));
    assert_eq!(told(&manager), "READY=1\nSTATUS=Answering calls");
    assert_eq!(early.read(false).unwrap().status, 200);
    let health = wire::ask(&addresses[1], &Ask::get("/health"));
    assert_eq!(health.status, 200);
    service.signal(Signal::TERM);
    assert!(told(&manager).starts_with("STOPPING=1\n"));
    assert_eq!(service.wait().code(), Some(0));
}

#[test]
fn each_of_two_local_sockets_is_reached_by_its_own_port() {
    let folder = scratch();
    let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = sockets.each_ref().map(|socket| socket.local_addr().unwrap().to_string());
    let [first, second] = sockets;
    let service = Launched::with_sockets(
        &folder.path().join("data"),
        &["--hosted", "off"],
        [("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "local:local")],
        (first, second),
    );
    for address in &addresses {
        assert_eq!(wire::ask(address, &Ask::get("/health")).status, 200, "{address}");
    }
    let mut client = Client::open(&addresses[1]).unwrap();
    client.write(b"GET /health HTTP/1.1\r\nHost: localhost:1\r\n\r\n").unwrap();
    let refused = client.read(false).unwrap();
    assert!(refused.status == 403 && refused.text().contains(" or "), "{}", refused.text());
    assert_eq!(service.terminate().code(), Some(0));
}

#[test]
fn sockets_of_other_names_and_of_other_machines_are_refused() {
    let folder = scratch();
    for (names, wanted) in [("local:other", "`other`"), ("hosted:local", "loopback")] {
        let pair = ("127.0.0.1:0", "0.0.0.0:0");
        let sockets = (TcpListener::bind(pair.0).unwrap(), TcpListener::bind(pair.1).unwrap());
        let variables = [("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", names)];
        let (code, said) = Launched::refused(&folder.path().join("data"), &[], variables, sockets);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_drain_answers_what_was_begun_and_takes_nothing_new() {
    let folder = scratch();
    let (manager, path) = manager(folder.path());
    let service =
        Launched::start(&folder.path().join("data"), &[], [("NOTIFY_SOCKET", path.as_str())]);
    told(&manager);
    let mut begun = Client::open(service.local()).unwrap();
    let body = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        service.local(),
        body.len()
    );
    // After the first response the server has the connection; then half of the next request is sent.
    begun.write(&[head.as_bytes(), body].concat()).unwrap();
    assert_eq!(begun.read(false).unwrap().status, 200);
    begun.write(&[head.as_bytes(), &body[..10]].concat()).unwrap();
    service.until(|page| page.contains("recalld_connections 2\n"));
    service.signal(Signal::TERM);
    assert!(told(&manager).starts_with("STOPPING=1\n"));
    while Client::open(service.local()).is_ok_and(|mut new| new.read(false).is_ok()) {}
    begun.write(&body[10..]).unwrap();
    let answer = begun.read(false).unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert_eq!(answer.json()["id"], 1);
    assert_eq!(service.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = scratch();
    let (manager, path) = manager(folder.path());
    let service =
        Launched::start(&folder.path().join("data"), &[], [("NOTIFY_SOCKET", path.as_str())]);
    told(&manager);
    let mut begun = Client::open(service.local()).unwrap();
    begun.write(b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{").unwrap();
    service.until(|page| page.contains("recalld_connections 2\n"));
    service.signal(Signal::INT);
    assert!(told(&manager).starts_with("STOPPING=1\n"));
    service.signal(Signal::TERM);
    let said = service.said();
    assert_eq!(service.wait().code(), Some(128 + 15));
    assert!(said.read().contains("recalld: warning: a second signal: ending at once"));
}

#[test]
fn log_lines_name_requests_and_nothing_secret() {
    let folder = scratch();
    let data = folder.path().join("data");
    let service = Launched::start(&data, &["--log-format", "json", "--access-log"], []);
    let credentials = support_wire::service::run_json(&data, &["credentials", "show"]);
    let word = |name: &str| credentials[name].as_str().unwrap().to_owned();
    let (bearer, secret) = (word("bearer"), word("gateway_client_secret"));
    let question = "xylophone";
    let asked = Ask::post("/recall?q=glockenspiel", &json!({"query": question}))
        .header("X-Request-Id", "mine-1.a_B")
        .header("x-gateway-client-id", &word("gateway_client_id"))
        .header("x-gateway-client-secret", &secret)
        .header("Authorization", &format!("Bearer {bearer}"));
    let answer = wire::ask(service.local(), &asked);
    assert_eq!((answer.status, answer.header("x-request-id")), (200, Some("mine-1.a_B")));
    let absent = Ask::get("/celesta").header("X-Request-Id", "not \"good\" \u{7f}");
    let mut ours = Vec::new();
    for _ in 0..2 {
        let answer = wire::ask(service.local(), &absent);
        let id = answer.header("x-request-id").unwrap().to_owned();
        assert!(answer.status == 400 || answer.status == 404);
        assert!(id.len() <= 64 && !id.contains("good") && !ours.contains(&id), "{id}");
        ours.push(id);
    }
    let unknown = wire::ask(service.local(), &Ask::get("/celesta"));
    assert_eq!(unknown.status, 404);
    let id = unknown.header("x-request-id").unwrap().to_owned();
    let said = service.said();
    assert_eq!(service.terminate().code(), Some(0));
    let text = said.read();
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let of = |id: &str| lines.iter().find(|line| line["request_id"] == id).expect(id);
    let line = of("mine-1.a_B");
    assert_eq!(
        (&line["route"], &line["method"], &line["status"], &line["listener"], &line["message"]),
        (&json!("/recall"), &json!("POST"), &json!("200"), &json!("local"), &json!("request"))
    );
    assert!(line["took"].as_f64().unwrap() > 0.0 && line["bytes"].is_u64(), "{line}");
    assert_eq!((&of(&id)["route"], &of(&id)["status"]), (&json!("other"), &json!("404")));
    for secret in [&*bearer, &secret, question, "glockenspiel", "celesta", "good"] {
        assert!(!text.contains(secret), "{secret} is in the log:\n{text}");
    }
}

#[test]
fn a_log_for_people_has_no_requests_unless_asked() {
    let folder = scratch();
    let service = Launched::start(&folder.path().join("data"), &[], []);
    assert_eq!(wire::ask(service.local(), &Ask::get("/health")).status, 200);
    let said = service.said();
    assert_eq!(service.terminate().code(), Some(0));
    let text = said.read();
    assert!(text.lines().all(|line| line.starts_with("recalld: ")), "{text}");
    assert!(text.contains("recalld: made credentials in ") && !text.contains("request"), "{text}");
}

#[test]
fn wrong_use_of_certificates_is_said_by_name() {
    let folder = scratch();
    let data = folder.path().join("data");
    let said = |arguments: &[&str]| {
        let output = run(&data, &[&["serve", "--local", "127.0.0.1:0"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let mut text = String::new();
        (&output.stderr[..]).read_to_string(&mut text).unwrap();
        text
    };
    assert!(said(&["--tls-cert", "a.pem"]).contains("--tls-key"));
    let both = ["--tls-cert", "/absent/a.pem", "--tls-key", "/absent/b.pem"];
    assert!(said(&both).contains("/absent/a.pem: No such file"));
    assert!(!data.exists());
}
