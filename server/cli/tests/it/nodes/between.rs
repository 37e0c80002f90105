//! Messages between nodes, where somebody stands between: what was heard is of no use a second time or elsewhere, and
//! what the one between answers is not believed.

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

/// Part of a message that asks for a block.
const TAKE_BLOCK: &[u8] = b"\"take_block\"";

/// What the one between does with a message.
#[derive(Clone)]
enum Does {
    /// Hands it on to that address.
    HandsOn(String),
    /// Hands a question for a block on to that address, and loses the answer.
    LosesBlocks(String),
    /// Answers this in its place.
    Answers(u16, String, Option<String>),
}

#[derive(Default)]
struct Heard {
    does: Option<Does>,
    /// Messages as they came, and what was answered to them.
    messages: Vec<(Vec<u8>, Answer)>,
}

/// One who stands between a node and those who ask it.
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

    /// Messages that asked for a block, and what was answered to them.
    fn blocks(&self) -> Vec<(Vec<u8>, Answer)> {
        let heard = self.heard.lock().unwrap();
        let asks = |(message, _): &&(Vec<u8>, Answer)| has(message, TAKE_BLOCK);
        heard.messages.iter().filter(asks).cloned().collect()
    }

    /// The last of them.
    fn block(&self) -> (Vec<u8>, Answer) {
        self.blocks().pop().expect("a block was asked for")
    }
}

fn has(message: &[u8], part: &[u8]) -> bool {
    message.windows(part.len()).any(|found| found == part)
}

/// One request of a connection, which it ends with.
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
    // Whoever asked may have gone.
    let _gone = stream.write_all(&[head.as_bytes(), &said].concat());
}

/// Says to a node what was heard.
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

/// Node `a`, which writes the control store and is asked by way of whoever is between; `b`; and a key.
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
    // What was said to one process is not taken by the next one of that node, which remembers nothing.
    assert!(a.terminate().success());
    let a = cluster.writer("a");
    refused(&a, &message, "before it was started");
}

#[test]
fn what_one_between_answers_is_not_believed() {
    let cluster = Cluster::new(true);
    let (between, a, b, secret) = nodes(&cluster);
    let hands_on = Does::HandsOn(a.hosted().to_owned());
    // The same block as that of an earlier question, with the signature that was right for that.
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
