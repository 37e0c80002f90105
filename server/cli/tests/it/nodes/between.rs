//! Messages between nodes with an active attacker in between: recorded messages cannot be replayed or redirected, and
//! forged responses are rejected.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;
use support_server::house::call;
use support_wire::patience::wait_until;
use support_wire::service::Service;
use support_wire::wire::{Answer, Client};

use crate::nodes::cluster::Cluster;
use crate::nodes::tenants::tenant;

/// Part of a message that requests a quota block.
const TAKE_BLOCK: &[u8] = b"\"take_block\"";

/// The attacker's action on a message.
#[derive(Clone)]
enum Does {
    /// Forwards the message to that address.
    HandsOn(String),
    /// Forwards the message to that address, and drops the response if the message requests a quota block.
    LosesBlocks(String),
    /// Answers with this status, body and signature.
    Answers(u16, String, Option<String>),
}

#[derive(Default)]
struct Heard {
    does: Option<Does>,
    /// Forwarded messages and their responses.
    messages: Vec<(Vec<u8>, Answer)>,
}

/// An attacker between a node and its peers.
struct Between {
    address: String,
    heard: Arc<Mutex<Heard>>,
}

impl Between {
    fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heard = Arc::<Mutex<Heard>>::default();
        let shared = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || pass(&mut stream.unwrap(), &shared));
            }
        });
        Self { address, heard }
    }

    fn does(&self, does: Does) {
        self.heard.lock().unwrap().does = Some(does);
    }

    /// Messages that requested a quota block, and their responses.
    fn blocks(&self) -> Vec<(Vec<u8>, Answer)> {
        let heard = self.heard.lock().unwrap();
        let asks = |(message, _): &&(Vec<u8>, Answer)| has(message, TAKE_BLOCK);
        heard.messages.iter().filter(asks).cloned().collect()
    }

    /// The last of these messages.
    fn block(&self) -> (Vec<u8>, Answer) {
        self.blocks().pop().expect("a block was asked for")
    }
}

fn has(message: &[u8], part: &[u8]) -> bool {
    message.windows(part.len()).any(|found| found == part)
}

/// Handles one request and closes the connection.
fn pass(stream: &mut TcpStream, heard: &Mutex<Heard>) {
    let mut message = Vec::new();
    let mut byte = [0];
    while !message.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => message.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8(message.clone()).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    message.extend(body);
    let does = heard.lock().unwrap().does.clone().unwrap();
    let is_lost = matches!(does, Does::LosesBlocks(_)) && has(&message, TAKE_BLOCK);
    let (status, signed, said) = match does {
        Does::Answers(status, said, signed) => (status, signed, said.into_bytes()),
        Does::HandsOn(to) | Does::LosesBlocks(to) => {
            let answer = play(&message, &to);
            let signed = answer.header("recalld-signed").map(str::to_owned);
            heard.lock().unwrap().messages.push((message, answer.clone()));
            if is_lost {
                return;
            }
            (answer.status, signed, answer.body)
        }
    };
    let signed = signed.map_or(String::new(), |signed| format!("recalld-signed: {signed}\r\n"));
    let length = said.len();
    let head = format!(
        "HTTP/1.1 {status} so\r\ncontent-length: {length}\r\n{signed}connection: close\r\n\r\n"
    );
    // The client may have disconnected.
    let _gone = stream.write_all(&[head.as_bytes(), &said].concat());
}

/// Replays a recorded message to a node.
fn play(message: &[u8], to: &str) -> Answer {
    let mut client = Client::open(to).unwrap();
    client.write(message).unwrap();
    client.read(false).unwrap()
}

fn recall(node: &Service, key: &str) -> Answer {
    call(node, key, "retrieval_arbitrate_tool", &json!({"query": "harbour"}))
}

fn is_given(answer: &Answer) -> bool {
    answer.status == 200 && answer.text().contains("\"isError\":false")
}

/// Node `a`, which leads the metastore and is reached through the attacker, node `b`, and a tenant's key.
fn nodes(cluster: &Cluster) -> (Between, Service, Service, String) {
    let between = Between::listen();
    let url = format!("remote.node_url=http://{}", between.address);
    let a = cluster.node_with("a", "--remote", &[&url]);
    between.does(Does::HandsOn(a.hosted().to_owned()));
    let b = cluster.writer("b");
    let secret = tenant(a.data(), "acme");
    (between, a, b, secret)
}

#[test]
fn what_was_heard_between_nodes_is_of_no_use_again_or_elsewhere() {
    let cluster = Cluster::new(true);
    let (between, a, b, secret) = nodes(&cluster);
    wait_until("b gives a call", || is_given(&recall(&b, &secret)));
    let (message, answer) = between.block();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let refused = |to: &Service, message: &[u8], why: &str| {
        let answer = play(message, to.hosted());
        assert_eq!(answer.status, 401, "{}", answer.text());
        assert!(answer.text().contains(why), "{}", answer.text());
    };
    refused(&a, &message, "came before");
    refused(&b, &message, "for another node");
    let text = String::from_utf8(message.clone()).unwrap();
    for (one, other) in [("\"acme\"", "\"acne\""), ("recalld-signed: b.a.", "recalld-signed: b.b.")]
    {
        let changed = text.replacen(one, other, 1);
        assert_ne!(changed, text);
        refused(if other.contains("b.b") { &b } else { &a }, changed.as_bytes(), "not signed");
    }
    // A message to one process is rejected by the node's next process, whose replay guard is empty.
    assert!(a.terminate().success());
    let a = cluster.writer("a");
    refused(&a, &message, "before it was started");
}

#[test]
fn what_one_between_answers_is_not_believed() {
    let cluster = Cluster::new(true);
    let (between, a, b, secret) = nodes(&cluster);
    let hands_on = Does::HandsOn(a.hosted().to_owned());
    // The block of an earlier request, with the signature that was valid for it.
    let other = tenant(a.data(), "other");
    wait_until("b gives a call", || is_given(&recall(&b, &other)));
    let (_, earlier) = between.block();
    let signed = earlier.header("recalld-signed").map(str::to_owned);
    assert!(signed.is_some());
    let block = json!({"block": {"id": 1, "calls": 64, "expires_at": 4_000_000_000_u64}});
    for (said, signed) in [
        (block.to_string(), None),
        (block.to_string(), Some("0".repeat(64))),
        (earlier.text(), signed),
    ] {
        between.does(Does::Answers(200, said, signed));
        let answer = recall(&b, &secret);
        assert!(!is_given(&answer), "{}", answer.text());
        assert!(answer.text().contains("calls cannot be counted now"), "{}", answer.text());
    }
    between.does(hands_on);
    wait_until("b gives calls again", || is_given(&recall(&b, &secret)));
}

#[test]
fn a_block_whose_answer_was_lost_is_not_taken_twice() {
    let cluster = Cluster::new(true);
    let (between, a, b, secret) = nodes(&cluster);
    between.does(Does::LosesBlocks(a.hosted().to_owned()));
    wait_until("some answers were lost", || {
        assert!(!is_given(&recall(&b, &secret)));
        between.blocks().len() >= 3
    });
    between.does(Does::HandsOn(a.hosted().to_owned()));
    wait_until("b gives a call", || is_given(&recall(&b, &secret)));
    let asked = |(message, answer): (Vec<u8>, Answer)| {
        let body = message.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let asked: serde_json::Value = serde_json::from_slice(&message[body..]).unwrap();
        (asked["block"].as_u64().unwrap(), answer.text())
    };
    let mut asked: Vec<_> = between.blocks().into_iter().map(asked).collect();
    asked.dedup();
    assert_eq!(asked.len(), 1, "one block, and each answer says the same of it: {asked:?}");
}
