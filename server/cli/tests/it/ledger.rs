//! `recalld ledger verify` and `show`, and the reference reader in `format-spec/reader.py`, which must agree on every
//! ledger, valid or damaged.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support_wire::tree::workspace;

use engine::ledger::{
    Decision, Effect, EntryDraft, Ledger, LedgerOptions, Outcome, TouchedItem, VerifyOptions,
    verify,
};
use proptest::test_runner::{Config, TestRunner};
use recalld_auth::Signer;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support_wire::mcp_client;
use support_wire::service::{Service, run, scratch};

const SEED: [u8; 32] = [7; 32];
/// Number of ledgers with one random fault each.
const BREAKS: u32 = 60;

fn ledger_of(data: &Path) -> PathBuf {
    data.join("tenants/local/ledger")
}

fn script() -> PathBuf {
    workspace().join("format-spec/reader.py")
}

/// Runs the reference reader on a ledger.
fn checked(folder: &Path, arguments: &[&str]) -> Output {
    // -B: do not write bytecode files beside the script.
    let mut command = Command::new("python3");
    command.arg("-B").arg(script()).arg("--ledger").args(arguments).arg(folder);
    command.output().expect("python3 is there")
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a ledger of `entries` entries, with a checkpoint in the middle and one at the end.
fn made(folder: &Path, entries: u64) -> Signer {
    let signer = Signer::from_seed(&SEED);
    let tenant = Sha256::digest(b"acme").into();
    let with = LedgerOptions { tenant, signer: Box::new(signer.clone()), anchor: None };
    let mut ledger = Ledger::open(folder, with).unwrap();
    for seq in 1..=entries {
        let number = u8::try_from(seq % 250).unwrap();
        let touched = [TouchedItem { effect: Effect::Read, item: [number; 16] }; 3];
        ledger
            .append(&EntryDraft {
                at_micros: seq,
                receipt: [number; 16],
                tool: "brain_recall",
                principal: "user:ada",
                decision: Decision::Allow,
                rule: "default/read",
                arguments: [3; 32],
                touched: &touched[..usize::from(number % 4)],
                outcome: Outcome::Done,
            })
            .unwrap();
        if seq == entries / 2 {
            ledger.sign_and_sync(seq).unwrap();
        }
    }
    ledger.close(entries + 1).unwrap();
    signer
}

/// Verdicts of this build and of the reference reader: validity, last sequence number, and the broken rule.
fn both(folder: &Path, signer: &Signer) -> [(bool, u64, Option<String>); 2] {
    let seals = signer.verifier();
    let ours = verify(folder, &VerifyOptions::all(&seals)).unwrap();
    let rule = ours.fault.as_ref().map(|fault| fault.rule.to_owned());
    let key = hex(&signer.public());
    let output = checked(folder, &["--key", &key, "--workspace", "acme"]);
    let theirs = report(&output);
    assert_eq!(output.status.code(), Some(i32::from(!theirs["ok"].as_bool().unwrap())));
    let fault = theirs["fault"].as_str().map(str::to_owned);
    [
        (ours.ok, ours.head_seq, rule),
        (theirs["ok"].as_bool().unwrap(), theirs["head_seq"].as_u64().unwrap(), fault),
    ]
}

#[test]
fn the_independent_check_agrees_on_whole_ledgers() {
    let scratch = scratch();
    for entries in [1, 2, 9, 2_500] {
        let folder = scratch.path().join(format!("ledger-of-{entries}"));
        let signer = made(&folder, entries);
        let [ours, theirs] = both(&folder, &signer);
        assert_eq!(ours, (true, entries, None));
        assert_eq!(theirs, ours);
    }
    let folder = scratch.path().join("ledger-of-9");
    let other = hex(&Signer::from_seed(&[8; 32]).public());
    let found = report(&checked(&folder, &["--key", &other]));
    assert_eq!((&found["ok"], &found["fault"]), (&false.into(), &"LED-16".into()));
    assert_eq!(report(&checked(&folder, &["--workspace", "globex"]))["fault"], "LED-06");
    assert_eq!(report(&checked(&folder, &[]))["checkpoints"]["ok"], Value::Null, "nobody asked");
    let whole = report(&checked(&folder, &[]));
    let anchor = format!("9:{}", whole["head_hash"].as_str().unwrap());
    assert_eq!(report(&checked(&folder, &["--anchor", &anchor]))["ok"], true);
    let anchor = format!("10:{}", whole["head_hash"].as_str().unwrap());
    assert_eq!(report(&checked(&folder, &["--anchor", &anchor]))["fault"], "LED-19");
    assert_eq!(checked(&folder, &["--key", "xyz"]).status.code(), Some(2));
}

#[test]
fn the_independent_check_agrees_on_broken_ledgers() {
    let scratch = scratch();
    let folder = scratch.path().join("ledger");
    let signer = made(&folder, 12);
    let file = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let file =
        file.into_iter().find(|path| path.extension().is_some_and(|it| it == "log")).unwrap();
    let whole = fs::read(&file).unwrap();
    let config = Config { cases: BREAKS, failure_persistence: None, ..Config::default() };
    let strategy = (0..whole.len(), 0u8..8, proptest::bool::ANY);
    let broken = |(at, bit, is_cut)| {
        let mut bytes = whole.clone();
        match is_cut {
            true => bytes.truncate(at),
            false => bytes[at] ^= 1u8 << bit,
        }
        fs::write(&file, &bytes).unwrap();
        let [ours, theirs] = both(&folder, &signer);
        assert_eq!(ours, theirs, "byte {at}, bit {bit}, cut: {is_cut}");
        assert!(!ours.0 || is_cut, "a bit was turned at {at} and nobody noticed");
        Ok(())
    };
    TestRunner::new(config).run(&strategy, broken).unwrap();
}

#[test]
fn entries_are_shown_and_the_chain_is_checked_beside_a_server() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let service = Service::start(&data, &[]);
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    for question in ["first question", "second question", "third question"] {
        assert!(run(&data, &["recall", question]).status.success());
    }
    let shown =
        run(&data, &["ledger", "show", "--json", "--tool", "recalld recall", "--last", "2"]);
    let lines: Vec<Value> =
        text(&shown).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{}", text(&shown));
    assert_eq!(lines[1]["seq"].as_u64(), lines[0]["seq"].as_u64().map(|seq| seq + 1));
    assert_eq!(
        (&lines[0]["principal"], &lines[0]["outcome"]),
        (&"operator".into(), &"done".into())
    );
    let receipt = lines[0]["receipt_id"].as_str().unwrap();
    let one = run(&data, &["ledger", "show", "--receipt", receipt]);
    assert!(text(&one).contains(receipt) && text(&one).lines().count() == 1, "{}", text(&one));
    // A call of an unavailable tool is recorded, too.
    let call = json!({"name": "no_such_tool", "arguments": {}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let refused = service.ask(&mcp_client::ask(&message)).json();
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let shown = run(&data, &["ledger", "show", "--json", "--tool", "tools/call"]);
    let entry: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let said = ["outcome", "decision", "rule"].map(|field| entry[field].as_str().unwrap());
    assert_eq!(said, ["refused", "deny", "fixed/not-entitled"]);
    let none = run(&data, &["ledger", "show", "--principal", "nobody-of-this-name"]);
    assert_eq!(none.status.code(), Some(1));
    drop(service);

    // A killed server's leftover advertisement names a port that anyone may use by now: no request is sent there.
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let said = json!({"local": format!("http://{}", stranger.local_addr().unwrap())});
    fs::write(data.join("serving.json"), said.to_string()).unwrap();
    let verified = run(&data, &["ledger", "verify", "--json"]);
    assert_eq!(stranger.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody called");
    let ours: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!((&ours["ok"], verified.status.code()), (&true.into(), Some(0)), "{ours}");
    let theirs = report(&checked(&ledger_of(&data), &["--workspace", "local"]));
    assert_eq!(theirs["head_hash"], ours["head_hash"]);
    assert_eq!(report(&checked(&data, &[])), theirs, "the ledger of a data directory");
    assert_eq!(checked(&data, &["--workspace", "not-there"]).status.code(), Some(1));
    let anchor = format!("{}:{}", ours["head_seq"], ours["head_hash"].as_str().unwrap());
    assert!(run(&data, &["ledger", "verify", "--anchor", &anchor]).status.success());
    let past = format!("999:{}", ours["head_hash"].as_str().unwrap());
    let cut = run(&data, &["ledger", "verify", "--anchor", &past]);
    assert_eq!(cut.status.code(), Some(1));
    assert!(text(&cut).contains("LED-19"), "{}", text(&cut));
    for (arguments, code) in [
        (&["ledger", "verify", "--anchor", "x"][..], 2),
        (&["ledger", "verify", "--workspace", "../local"], 2),
        (&["ledger", "verify", "--workspace", "not-there"], 3),
        (&["ledger", "show", "--item", "x"], 2),
    ] {
        assert_eq!(run(&data, arguments).status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn the_operators_ledger_is_kept_from_being_cut_as_soon_as_there_is_a_control_store() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let hosted = ["--hosted", "127.0.0.1:0", "--public-url", "https://recalld.example"];
    let service = Service::start(&data, &hosted);
    assert!(!data.join("control.redb").exists(), "nobody needed it yet");
    assert!(run(&data, &["tenant", "create", "acme"]).status.success());
    assert!(service.terminate().success());
    assert!(run(&data, &["ledger", "verify"]).status.success());
    // The truncated ledger is valid by itself.
    let log = ledger_of(&data).join("ledger-00000000000000000001.log");
    fs::remove_file(&log).unwrap();
    assert_eq!(run(&data, &["ledger", "verify"]).status.code(), Some(1));
}
