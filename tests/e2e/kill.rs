//! SIGKILL during writes: acknowledged writes exist after the next start.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use serde_json::{Value, json};
use support_wire::mcp_client::{self, McpClient};
use support_wire::service::{Service, scratch, write};
use support_wire::wire::Client;

const ROUNDS: usize = 4;
const WRITERS: usize = 3;
/// Bound of the acknowledged writes before the kill, drawn at random so that the kill point varies.
const ACKNOWLEDGED_MAX: u64 = 24;

/// The id and text of an item that the service acknowledged.
type Acknowledged = (String, String);

/// A generator of random numbers from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

fn seed() -> u64 {
    if let Ok(given) = std::env::var("RECALLD_TEST_SEED") {
        return given.parse().unwrap();
    }
    let mut bytes = [0; 8];
    File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

/// Writes until the service is gone, and sends each acknowledged item at once.
fn write_until_killed(local: &str, name: &str, told: &Sender<Acknowledged>) {
    let mut client = Client::open(local).unwrap();
    for count in 0.. {
        let text = format!("{name} item {count}");
        let message = json!({"jsonrpc": "2.0", "id": count, "method": "tools/call", "params": {
            "name": "brain_remember", "arguments": {"text": text}}});
        let Ok(answer) = client.try_send(&mcp_client::ask(&message)) else { return };
        let item = &answer.json()["result"]["structuredContent"]["item"];
        let id = item["id"].as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned();
        if told.send((id, text)).is_err() {
            return;
        }
    }
}

/// Ingests one file after another until the service is gone, and returns the acknowledged files.
fn ingest_until_killed(
    local: &str,
    folder: &Path,
    round: usize,
    done: &AtomicUsize,
) -> Vec<String> {
    let mut client = Client::open(local).unwrap();
    let mut files = Vec::new();
    for count in 0.. {
        let name = format!("round{round}/note{count}.md");
        let path = write(folder, &name, format!("# Note {count}\n\nround {round} note {count}\n"));
        let path = path.to_str().unwrap().to_owned();
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {
            "name": "ingest_paths_tool", "arguments": {"paths": [path]}}});
        let Ok(answer) = client.try_send(&mcp_client::ask(&message)) else { return files };
        let report = &answer.json()["result"]["structuredContent"];
        assert_eq!(report["items"], json!(2), "{}", answer.text());
        files.push(path);
        done.fetch_add(1, Ordering::Relaxed);
    }
    files
}

fn take(acknowledged: &Receiver<Acknowledged>, count: u64) -> Vec<Acknowledged> {
    (0..count).map(|_| acknowledged.recv().unwrap()).collect()
}

/// Returns the current text of an item: its successor names the superseded item and is found by its id.
fn assert_all_there(service: &Service, items: &[Acknowledged], files: &[String]) {
    let mut client = service.connect();
    for (id, text) in items {
        let body = json!({"query": text, "limit": 50});
        let ask = service.signed(support_wire::wire::Ask::post("/recall", &body));
        let seeds = client.send(&ask).json();
        let found = seeds.as_array().unwrap().iter().find(|seed| seed["id"] == id.as_str());
        let found = found.unwrap_or_else(|| panic!("{id} ({text}) was acknowledged and is gone"));
        assert_eq!(found["text"], text.as_str());
    }
    let mut mcp = McpClient::open(service);
    for file in files {
        let document: Value = mcp.call("docstore_get_document_tool", &json!({"path": file}));
        assert_eq!(document["text"], std::fs::read_to_string(file).unwrap());
    }
}

#[test]
fn every_acknowledged_write_survives_being_killed() {
    let seed = seed();
    println!("seed {seed} (RECALLD_TEST_SEED)");
    let mut dice = Dice(seed);
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    write(&folder, "first.md", "# First\n\nThe folder is a root.\n");
    let (mut items, mut files) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let service = Service::start(&data, &["--ingest", folder.to_str().unwrap()]);
        assert_all_there(&service, &items, &files);
        let (tell, acknowledged) = mpsc::channel();
        let done = AtomicUsize::new(0);
        let local = service.local().to_owned();
        let count = 1 + dice.next() % ACKNOWLEDGED_MAX;
        let more = thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (tell, local) = (tell.clone(), &local);
                let name = format!("round{round} writer{writer}");
                scope.spawn(move || write_until_killed(local, &name, &tell));
            }
            let ingest = scope.spawn(|| ingest_until_killed(&local, &folder, round, &done));
            let mut told = take(&acknowledged, count);
            service.kill();
            drop(tell);
            told.extend(acknowledged.iter());
            files.extend(ingest.join().unwrap());
            told
        });
        println!("round {round}: {} items, {} files", more.len(), done.load(Ordering::Relaxed));
        items.extend(more);
    }
    let service = Service::start(&data, &[]);
    assert_all_there(&service, &items, &files);
    assert!(service.terminate().success());
}

#[test]
fn a_kill_in_the_middle_of_a_long_ingest_leaves_whole_documents() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    for count in 0..40 {
        write(&folder, &format!("note{count}.md"), format!("# Note {count}\n\nkelp {count}\n"));
    }
    let service = Service::start(&data, &["--ingest", folder.to_str().unwrap()]);
    for count in 0..40 {
        write(&folder, &format!("note{count}.md"), format!("# Note {count}\n\nnew kelp {count}\n"));
    }
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {
        "name": "ingest_paths_tool", "arguments": {"paths": [folder]},
        "_meta": {"progressToken": "t"}}});
    let mut client = service.connect();
    let request = message.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Accept: text/event-stream\r\nContent-Length: {}\r\n\r\n",
        service.local(),
        request.len(),
    );
    client.write(format!("{head}{request}").as_bytes()).unwrap();
    // The head of the stream has arrived, so the job is running.
    assert_eq!(client.read(true).unwrap().status, 200);
    service.kill();
    let service = Service::start(&data, &[]);
    let mut mcp = McpClient::open(&service);
    let mut read = |count: usize| {
        let path = folder.join(format!("note{count}.md"));
        let document = mcp.call("docstore_get_document_tool", &json!({"path": path}));
        document["text"].as_str().unwrap().to_owned()
    };
    let texts: Vec<String> = (0..40).map(&mut read).collect();
    for (count, text) in texts.iter().enumerate() {
        let (old, new) = (format!("kelp {count}\n"), format!("new kelp {count}\n"));
        let body = text.strip_prefix(&format!("# Note {count}\n\n"));
        assert!(body == Some(&old) || body == Some(&new), "{count}: {text:?}");
    }
    let report = mcp.call("ingest_paths_tool", &json!({"paths": [folder]}));
    let (unchanged, superseded) = (&report["unchanged"], &report["superseded"]);
    assert_eq!(unchanged.as_u64().unwrap() + superseded.as_u64().unwrap(), 40, "{report}");
    assert_eq!(report["errors"], json!([]));
}
