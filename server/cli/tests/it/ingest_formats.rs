//! Ingest of files other than plain text: PDF, images, tables, JSON Lines; valid, damaged and hostile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use recalld_common::cancel::{CallScope, CancellationToken};
use recalld_documents::PdfReader;
use recalld_embedding::encoders::Encoders;
use recalld_fs_util::roots::Roots;
use recalld_ingest::{Job, Report, Request};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use support_server::tiny_model;
use support_wire::mcp_client::McpClient;
use support_wire::pdf;
use support_wire::service::{Service, binary, run_json, scratch, write};
use support_wire::tiny_model::Tiny;

const TABLE: &str = "Keeper;Shift;Oil\nAda;\"dusk\nto dawn\";3,5\nBob;day;0,5\nEbba;;7\n";
const LINES: &str = "{\"storm\": {\"name\": \"Xaver\", \"gusts\": [31, 44]}}\nbroken\n{\"storm\": null, \"calm\": true}\n";

/// A PNG of two by three pixels, with a description.
fn png(description: &str) -> Vec<u8> {
    let chunk = |kind: &[u8; 4], data: &[u8]| {
        let length = u32::try_from(data.len()).unwrap();
        let length: Vec<u8> = length.to_le_bytes().into_iter().rev().collect();
        [&length, &kind[..], data, &[0; 4]].concat()
    };
    let size = [0, 0, 0, 2, 0, 0, 0, 3, 8, 0, 0, 0, 0];
    let said = format!("Description\0{description}");
    let parts = [chunk(b"IHDR", &size), chunk(b"tEXt", said.as_bytes()), chunk(b"IEND", b"")];
    [b"\x89PNG\r\n\x1a\n".to_vec(), parts.concat()].concat()
}

/// Writes a file of each format, most with a misleading name, and damaged files.
fn mixed(folder: &Path) {
    let pages = ["The wreck lies\nbeyond the reef.", "", "Divers found amphorae there."];
    write(folder, "wreck.dat", pdf::of_pages("Survey of the wreck", &pages));
    write(folder, "lamp.img", png("A Fresnel lens in brass"));
    write(folder, "keepers.txt", TABLE);
    write(folder, "storms.log", LINES.replace("broken\n", ""));
    write(folder, "notes.md", "# Notes\n\nSee ![the brass lamp](lamp.img) and kelp.\n");
    write(folder, "broken.pdf", &pdf::of_pages("T", &["words"])[..300]);
    write(folder, "broken.png", &png("x")[..20]);
    write(folder, "broken.csv", "a,b\n1,2\n3,\"4\n5,6\n7,8\n");
    write(folder, "broken.jsonl", LINES);
    write(folder, "locked.pdf", pdf::locked());
    write(folder, "scanned.pdf", pdf::scanned());
}

fn reasons(report: &Value, list: &str) -> Vec<(String, String)> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let name = |row: &Value| text(row, "path").rsplit('/').next().unwrap().to_owned();
    let mut rows: Vec<_> =
        report[list].as_array().unwrap().iter().map(|row| (name(row), text(row, "why"))).collect();
    rows.sort();
    rows
}

fn has(rows: &[(String, String)], wanted: &[(&str, &str)]) {
    assert_eq!(rows.len(), wanted.len(), "{rows:?}");
    for ((name, why), (wanted, part)) in rows.iter().zip(wanted) {
        assert!(name == wanted && why.contains(part), "{name}: {why}");
    }
}

#[test]
fn a_mixed_folder_is_read_and_each_broken_file_is_one_error() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("files"));
    mixed(&folder);
    let report = run_json(&data, &["ingest", folder.to_str().unwrap()]);
    has(
        &reasons(&report, "errors"),
        &[
            ("broken.csv", "was read, but line 3 opens a quote"),
            ("broken.jsonl", "was read, but 1 line left out, which is no JSON: 2"),
            ("broken.pdf", "a PDF that cannot be read"),
            ("broken.png", "header is damaged or cut off"),
        ],
    );
    has(
        &reasons(&report, "skipped"),
        &[("locked.pdf", "locked by a password"), ("scanned.pdf", "without text")],
    );
    assert_eq!((&report["files"], &report["links"]), (&json!(11), &json!(1)), "{report}");
    let service = Service::start(&data, &["--ingest", folder.to_str().unwrap()]);
    let mut client = McpClient::open(&service);
    let again = client.call("ingest_paths_tool", &json!({"paths": [folder]}));
    assert_eq!((&again["items"], &again["unchanged"]), (&json!(0), &json!(7)), "{again}");

    let manifest = client.call("docstore_manifest_tool", &json!({}));
    let modality = |name: &str| {
        let mut all = manifest["documents"].as_array().unwrap().iter();
        let is_it = |row: &&Value| row["path"].as_str().unwrap().ends_with(name);
        all.find(is_it).map(|row| (row["title"].clone(), row["modality"].clone())).unwrap()
    };
    assert_eq!(modality("wreck.dat"), (json!("Survey of the wreck"), json!("pdf")));
    assert_eq!(modality("lamp.img"), (json!("lamp.img"), json!("image")));
    assert_eq!(modality("keepers.txt"), (json!("keepers.txt"), json!("text")));

    let outline = |client: &mut McpClient, path: &str| {
        let answer = client.call("docstore_get_outline_tool", &json!({"path": path}));
        let row = |row: &Value| {
            (
                row["title"].as_str().unwrap().to_owned(),
                row["line_start"].clone(),
                row["line_end"].clone(),
            )
        };
        answer["headings"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(
        outline(&mut client, "wreck.dat"),
        [("Page 1".to_owned(), json!(1), json!(3)), ("Page 3".to_owned(), json!(4), json!(5))]
    );
    assert_eq!(
        outline(&mut client, "keepers.txt"),
        [("Rows 1 to 3".to_owned(), json!(2), json!(5))]
    );
    assert_eq!(
        outline(&mut client, "storms.log"),
        [("Lines 1 to 2".to_owned(), json!(1), json!(2))]
    );

    let lines = |client: &mut McpClient, path: &str, last: u64| {
        let asked = json!({"path": path, "line_start": 1, "line_end": last});
        let answer = client.call("docstore_get_lines_tool", &asked);
        assert_eq!(answer["lines_of"], "text", "{answer}");
        answer["lines"].clone()
    };
    let wreck = json!(["The wreck lies", "beyond the reef.", "", "Divers found amphorae there."]);
    assert_eq!(lines(&mut client, "wreck.dat", 4), wreck);
    let keepers = json!(["Keeper: Ada", "Shift: dusk to dawn", "Oil: 3,5", "", "Keeper: Bob"]);
    assert_eq!(lines(&mut client, "keepers.txt", 5), keepers);
    let storms = json!(["storm.gusts: 31, 44", "storm.name: Xaver", "", "calm: true"]);
    assert_eq!(lines(&mut client, "storms.log", 4), storms);
    let lamp = json!(["lamp.img: PNG image, 2 x 3 pixels", "Description: A Fresnel lens in brass"]);
    assert_eq!(lines(&mut client, "lamp.img", 9), lamp);

    let asked = json!({"query": "amphorae", "modality": "pdf"});
    let hits = client.call("docstore_search_tool", &asked);
    assert!(hits["hits"][0]["heading"].as_str().unwrap().contains("Page 3"), "{hits}");
    let hits = client.call("docstore_search_tool", &json!({"query": "keeper Ebba"}));
    let hit = &hits["hits"][0];
    assert_eq!(
        (&hit["line_start"], &hit["line_end"]),
        (&json!(2), &json!(5)),
        "of the file: {hit}"
    );
}

/// A store beside the ingested folder, without a service.
struct Alone {
    encoders: Encoders,
    roots: Roots,
    folder: PathBuf,
}

impl Alone {
    fn new(at: &Path) -> Self {
        let model = Tiny::new(1, 16).write(at, "model");
        let encoders = tiny_model::encoders(at, Arc::new(tiny_model::embedder(&model)));
        let folder = at.join("files");
        fs::create_dir(&folder).unwrap();
        let roots = Roots::open(std::slice::from_ref(&folder)).unwrap();
        Self { encoders, roots, folder }
    }

    fn job(&self, pdf: Option<&PdfReader>, call: CallScope<'_>) -> Report {
        let request = Request {
            paths: vec![self.folder.to_str().unwrap().to_owned()],
            recursive: true,
            include: Vec::new(),
            exclude: Vec::new(),
            sensitivity: None,
            dry_run: false,
            by: "ada".to_owned(),
            via: "test",
        };
        let (encoders, roots) = (&self.encoders, &self.roots);
        let id = encoders.store().new_item_id();
        let (allows, progress) = (&|_| Ok(()), &|_: u64, _: u64, _: &str| {});
        Job { id, encoders, roots, pdf, allows, call, progress }.run(&request).unwrap()
    }
}

#[test]
fn words_beside_a_picture_are_its_words_and_make_it_new() {
    let scratch = scratch();
    let alone = Alone::new(scratch.path());
    let words = |report: &Report| {
        let snapshot = alone.encoders.store().snapshot();
        let id = *report.documents.first().unwrap();
        let place = snapshot.find(id).unwrap().unwrap();
        let source = snapshot.item(place).unwrap().source.unwrap();
        let items = snapshot.items_by_source(source).unwrap();
        let text = |place: &engine::RowAddress| snapshot.item(*place).unwrap().text.to_owned();
        items.iter().map(text).collect::<String>()
    };
    write(&alone.folder, "a.png", png("A boat"));
    write(&alone.folder, "a.txt", "No words of the picture.\n");
    let report = alone.job(None, CallScope::endless());
    assert_eq!((report.documents.len(), report.skipped_count), (2, 0), "{report:?}");
    write(&alone.folder, "a.png.txt", "The harbour at low tide.\n");
    let report = alone.job(None, CallScope::endless());
    assert_eq!((report.superseded, report.unchanged), (1, 1), "{report:?}");
    assert!(report.skipped[0].1.contains("words of a.png"), "{report:?}");
    assert!(words(&report).contains("The harbour at low tide."));
    let report = alone.job(None, CallScope::endless());
    assert_eq!((report.items, report.unchanged, report.skipped_count), (0, 2, 1), "{report:?}");
    write(&alone.folder, "a.png.txt", "The harbour at high tide.\n");
    let report = alone.job(None, CallScope::endless());
    assert_eq!(report.superseded, 1, "{report:?}");
    assert!(words(&report).contains("high tide"));
    fs::remove_file(alone.folder.join("a.png.txt")).unwrap();
    let report = alone.job(None, CallScope::endless());
    assert_eq!(report.superseded, 1, "{report:?}");
    assert!(!words(&report).contains("tide"));
    // If the image is invalid, its sidecar text is ingested as a document of its own.
    write(&alone.folder, "b.png", "no picture");
    write(&alone.folder, "b.png.txt", "Gulls.\n");
    let report = alone.job(None, CallScope::endless());
    assert_eq!((report.documents.len(), report.skipped_count), (2, 0), "{report:?}");
}

#[test]
fn hostile_pdfs_are_errors_of_their_own() {
    let scratch = scratch();
    let alone = Alone::new(scratch.path());
    let reader = PdfReader::new(binary().to_owned());
    for (at, (_, bytes)) in pdf::hostile().into_iter().enumerate() {
        write(&alone.folder, &format!("{at}.pdf"), bytes);
    }
    write(&alone.folder, "bomb.pdf", pdf::bomb());
    let whole = pdf::of_pages("T", &["words"]);
    for end in (10..whole.len()).step_by(23) {
        write(&alone.folder, &format!("cut{end}.pdf"), &whole[..end]);
    }
    write(&alone.folder, "z.pdf", pdf::of_pages("Last", &["the last words"]));
    let report = alone.job(Some(&reader), CallScope::endless());
    let told = |name: &str| report.errors.iter().any(|(path, _)| path.ends_with(name));
    assert!(!report.cancelled && told("/bomb.pdf") && !told("/z.pdf"), "{report:?}");
    // The other files are read as far as possible.
    for (at, (what, _)) in pdf::hostile().iter().enumerate() {
        let leads_round = what.contains("itself") || what.contains("themselves");
        assert!(
            !leads_round || what.starts_with("contents") || told(&format!("/{at}.pdf")),
            "{what}"
        );
    }
    let is_bomb =
        |(path, why): &&(String, String)| path.ends_with("bomb.pdf") && why.contains("broke off");
    assert!(report.errors.iter().any(|error| is_bomb(&error)), "{report:?}");
    assert!(report.errors.iter().filter(|(path, _)| path.contains("/cut")).count() > 10);
    let other = report.errors.iter().find(|(_, why)| !why.contains("PDF"));
    assert_eq!(other, None);
}

/// Creates an executable in place of the PDF reader. This process writes the script under another name and a child
/// process copies it. Otherwise a concurrent test's child could inherit the open file, and executing it would fail.
fn program(folder: &Path, name: &str, script: &str) -> PdfReader {
    let text = write(folder, &format!("{name}.sh"), format!("#!/bin/sh\n{script}\n"));
    let path = folder.join(name);
    let copied = Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
    assert!(copied.unwrap().success());
    PdfReader::new(path)
}

#[test]
fn a_reader_that_is_missing_loud_slow_or_not_wanted_is_told_and_ended() {
    let scratch = scratch();
    let alone = Alone::new(scratch.path());
    write(&alone.folder, "a.pdf", pdf::of_pages("T", &["words"]));
    write(&alone.folder, "b.md", "# B\n\nkelp\n");
    let why = |report: &Report| report.errors.first().map(|(_, why)| why.clone()).unwrap();
    let missing = PdfReader::new(scratch.path().join("nowhere"));
    let reasons = [
        (None, "the program that reads PDFs was not named"),
        (Some(missing), "nowhere, which reads PDFs, does not start"),
        (Some(program(scratch.path(), "mute", "exit 0")), "broke off (exit status: 0)"),
        (Some(program(scratch.path(), "dead", "kill -9 $$")), "broke off (signal: 9"),
        (Some(program(scratch.path(), "loud", "exec yes 0123456789")), "too much text"),
    ];
    for (reader, reason) in reasons {
        let report = alone.job(reader.as_ref(), CallScope::endless());
        assert!(why(&report).contains(reason), "{report:?}");
    }
    let pid_file = scratch.path().join("pid");
    let script = format!("echo $$ > {}\nwhile :; do :; done", pid_file.display());
    let slow = program(scratch.path(), "slow", &script);
    let is_gone = || {
        let pid = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
        test_kill_process(Pid::from_raw(pid).unwrap()).is_err()
    };
    let report =
        alone.job(Some(&slow.clone().within(Duration::from_secs(5))), CallScope::endless());
    assert!(why(&report).contains("longer than 5s") && is_gone(), "{report:?}");
    // Cancelled after the child has started.
    fs::remove_file(&pid_file).unwrap();
    let token = CancellationToken::new();
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            while !fs::read_to_string(&pid_file).is_ok_and(|pid| pid.ends_with('\n')) {
                thread::yield_now();
            }
            token.cancel();
        });
        alone.job(Some(&slow), CallScope { token: &token, deadline: None })
    });
    assert!(report.cancelled && is_gone(), "{report:?}");
    assert_eq!(report.errors, []);
}

#[test]
fn rows_and_records_without_end_are_read_within_bounds() {
    let scratch = scratch();
    let alone = Alone::new(scratch.path());
    let wide = format!("{}\n", vec!["7"; 100_000].join(","));
    write(&alone.folder, "wide.csv", wide.repeat(3));
    let long = format!("a,b\n1,\"{}\"\n2,3\n", "word \n".repeat(50_000));
    write(&alone.folder, "long.csv", long);
    let deep = format!("{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000));
    write(&alone.folder, "deep.jsonl", format!("{{\"b\":1}}\n{deep}\n{{\"c\":2}}\n"));
    let broad: Vec<String> = (0..50_000).map(|at| format!("\"k{at}\":{at}")).collect();
    write(&alone.folder, "broad.jsonl", format!("{{{}}}\n", broad.join(",")));
    write(&alone.folder, "latin.csv", b"name,place\nJos\xE9,K\xF8benhavn\n");
    let report = alone.job(None, CallScope::endless());
    assert_eq!((report.documents.len(), report.errors.len()), (5, 2), "{report:?}");
    assert!(report.errors.iter().any(|(path, why)| {
        path.ends_with("wide.csv") && why.contains("99744 of 100000 columns are left out")
    }));
    assert!(report.items < 200, "{}", report.items);
    let snapshot = alone.encoders.store().snapshot();
    let all = report.documents.iter().map(|id| snapshot.find(*id).unwrap().unwrap());
    let sources = all.map(|place| snapshot.item(place).unwrap().source.unwrap());
    let texts = sources.flat_map(|source| snapshot.items_by_source(source).unwrap());
    let said: Vec<String> =
        texts.map(|place| snapshot.item(place).unwrap().text.to_owned()).collect();
    assert!(said.iter().any(|text| text.contains("Jos\u{e9}\nplace: K\u{f8}benhavn")));
}
