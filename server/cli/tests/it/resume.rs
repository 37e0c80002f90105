//! Repeated SIGKILL during an import or ingest by the program: the next run resumes, and each kill repeats the
//! embedding of at most two batches (`TEXTS_LOST_MAX`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{PipeReader, Read, Write, pipe};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use engine::StoreReader;
use engine::os::disk::FsDisk;
use recalld_embedding::inflow::{PARCEL_TEXTS_MAX, TEXTS_LOST_MAX};
use rustix::io::ioctl_fionread;
use rustix::process::Signal;
use serde_json::{Value, json};
use support_wire::service::{command, run, run_json, scratch, write};
use support_wire::tiny_model::Tiny;

/// Variable that makes the program log each step before embedding (docs/campaigns.md).
const TELL: &str = "RECALLD_TELL_EMBEDDING";
/// Logged steps before each kill; every job has more texts than these steps.
const STEPS: [usize; 4] = [1, 4, 2, 3];
const DOCUMENTS: usize = 2_000;
/// Default capacity of a pipe (pipe(7)).
const PIPE_BYTES: usize = 65_536;

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The log line of a step with this number of texts.
fn told(texts: usize) -> String {
    format!("recalld: embedding {texts} texts\n")
}

/// Number of texts that a program began to embed, from its log.
fn begun(said: &str) -> u64 {
    let number = |line: &str| {
        line.strip_prefix("recalld: embedding ")?.strip_suffix(" texts")?.parse::<u64>().ok()
    };
    said.lines().filter_map(number).sum()
}

/// Number of embeddings in the store, also after a kill.
fn stored(data: &Path) -> u64 {
    let disk = FsDisk::open(&data.join("tenants/local/store")).unwrap();
    let snapshot = StoreReader::open(Arc::new(disk)).unwrap().snapshot();
    let places = snapshot.item_addresses().unwrap();
    places.filter(|&place| snapshot.embedding(place).unwrap().is_some()).count() as u64
}

/// A pipe with room for this number of full-batch log lines; the next line blocks its writer. Also returns the filled
/// bytes.
fn narrow(steps: usize) -> (PipeReader, std::io::PipeWriter, u64) {
    let (reader, mut writer) = pipe().unwrap();
    let room = steps * told(PARCEL_TEXTS_MAX).len();
    writer.write_all(&vec![b'\n'; PIPE_BYTES - room]).unwrap();
    (reader, writer, (PIPE_BYTES - room) as u64)
}

/// Runs a command and kills it after `steps` logged steps; the full pipe allows at most one more. Returns the number of
/// texts that the command began to embed.
fn killed(data: &Path, arguments: &[&str], steps: usize) -> u64 {
    let (mut reader, writer, filled) = narrow(steps);
    let mut child = command(data, arguments)
        .env(TELL, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    let wanted = filled + (steps * told(PARCEL_TEXTS_MAX).len()) as u64;
    while ioctl_fionread(&reader).unwrap() < wanted {
        assert!(child.try_wait().unwrap().is_none(), "it ended before {steps} steps");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    begun(&said)
}

/// Kills a job repeatedly, then runs it to completion and returns its last report. `documents` is the total number of
/// texts to embed.
fn resumed(data: &Path, arguments: &[&str], documents: u64) -> Value {
    let (mut in_all, mut lost_max) = (0, 0);
    for steps in STEPS {
        let before = stored(data);
        let begun = killed(data, arguments, steps);
        let now = stored(data);
        let lost = begun - (now - before);
        assert!(lost <= TEXTS_LOST_MAX as u64, "{lost} texts were embedded for nothing");
        in_all += begun;
        lost_max += TEXTS_LOST_MAX as u64;
    }
    let before = stored(data);
    let output = command(data, arguments).env(TELL, "1").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let last = begun(&said);
    let is_step = |line: &str| line.starts_with("recalld: embedding ");
    assert!(said.lines().all(is_step), "no progress is told with --json: {said}");
    assert_eq!(report["embedded"], last, "{report}");
    assert_eq!(last, documents - before, "what is stored is not embedded again");
    assert_eq!(stored(data), documents);
    in_all += last;
    assert!(in_all <= documents + lost_max, "{in_all} texts were embedded, of {documents}");
    println!("{in_all} of {documents} texts, {} kills", STEPS.len());
    report
}

fn slow(at: &Path) -> PathBuf {
    Tiny { layers: 2, ..Tiny::new(1, 64) }.write(at, "model")
}

/// A new data directory with an empty store.
fn furnished(at: &Path, name: &str, model: &Path) -> PathBuf {
    let data = at.join(name);
    let nothing = write(at, "nothing.jsonl", "");
    run_json(&data, &["import", path(&nothing), "--model", path(model)]);
    data
}

fn exported(data: &Path) -> String {
    String::from_utf8(run(data, &["export"]).stdout).unwrap()
}

#[test]
fn a_killed_import_goes_on_where_it_was() {
    let scratch = scratch();
    let at = scratch.path();
    let model = slow(at);
    let line = |n: usize| {
        let text = format!("kelp {n} grows on rock {}", n * 7919 % 101);
        format!("{}\n", json!({"type": "item", "ref": format!("doc {n}"), "text": text}))
    };
    let whole = furnished(at, "whole", &model);
    let lines = write(at, "lines.jsonl", (0..DOCUMENTS).map(line).collect::<String>());
    let report = run_json(&whole, &["import", path(&lines)]);
    assert_eq!((&report["items"], &report["embedded"]), (&json!(DOCUMENTS), &json!(DOCUMENTS)));
    // With ids and times, so that the exports can be compared byte by byte.
    let export = exported(&whole);
    let file = write(at, "export.jsonl", &export);

    let data = furnished(at, "killed", &model);
    let report = resumed(&data, &["import", path(&file), "--json"], DOCUMENTS as u64);
    let settled = report["unchanged"].as_u64().unwrap() + report["items"].as_u64().unwrap();
    assert_eq!((settled, &report["bad_count"]), (DOCUMENTS as u64, &json!(0)), "{report}");
    assert_eq!(exported(&data), export);
    for file in [&file, &lines] {
        let again = run_json(&data, &["import", path(file)]);
        let said = [&again["unchanged"], &again["embedded"], &again["superseded"]];
        assert_eq!(said, [&json!(DOCUMENTS), &json!(0), &json!(0)], "{again}");
    }
    assert!(run(&data, &["verify"]).status.success());
}

/// Normalizes an export: the number of occurrences of each line, without ids, times and job records. The result does
/// not depend on the time of the import or on the number of attempts.
fn timeless(export: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for line in export.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["kind"] == "job" {
            continue;
        }
        let object = line.as_object_mut().unwrap();
        object.retain(|name, _| !["id", "recorded_at", "from", "to"].contains(&name.as_str()));
        for inner in ["source", "attributes"] {
            if let Some(inner) = object.get_mut(inner).and_then(Value::as_object_mut) {
                inner.retain(|name, _| !["id", "document"].contains(&name.as_str()));
            }
        }
        *lines.entry(line.to_string()).or_default() += 1;
    }
    lines
}

#[test]
fn a_killed_ingest_goes_on_where_it_was() {
    let scratch = scratch();
    let at = scratch.path();
    let model = slow(at);
    let notes = at.join("notes");
    fs::create_dir(&notes).unwrap();
    for n in 0..DOCUMENTS / 2 {
        // Some documents link to the next one, others to one stored long before.
        let link = if n % 10 == 0 { format!("See [next]({}.md).\n", n + 1) } else { String::new() };
        let back = if n % 25 == 7 { "See [first](0.md).\n" } else { "" };
        write(&notes, &format!("{n}.md"), format!("# Note {n}\n\nkelp {n}\n{link}{back}"));
    }
    let whole = furnished(at, "whole", &model);
    let report = run_json(&whole, &["ingest", path(&notes)]);
    let texts = report["embedded"].as_u64().unwrap();
    assert_eq!((&report["items"], &report["errors"]), (&json!(texts), &json!([])), "{report}");
    assert!(report["links"].as_u64().unwrap() > 100, "{report}");

    let data = furnished(at, "killed", &model);
    let report = resumed(&data, &["ingest", path(&notes), "--json"], texts);
    assert_eq!((&report["superseded"], &report["errors"]), (&json!(0), &json!([])), "{report}");
    assert_eq!(timeless(&exported(&data)), timeless(&exported(&whole)));
    let again = run_json(&data, &["ingest", path(&notes)]);
    let said = [&again["unchanged"], &again["embedded"], &again["items"], &again["links"]];
    assert_eq!(said, [&json!(DOCUMENTS / 2), &json!(0), &json!(0), &json!(0)], "{again}");
    assert!(run(&data, &["verify"]).status.success());
}
