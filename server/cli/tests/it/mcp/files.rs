//! Documents and files: reading them back, and forbidden paths.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support_wire::documents;
use support_wire::service::{scratch, write};

use super::{DOCUMENT, INGEST, client, hex, shared};

#[test]
fn a_document_comes_back_byte_for_byte() {
    let folder = &shared().folder;
    let mut mcp = client();
    for name in [
        "README.md",
        "decisions.md",
        "reference/signals.rst",
        "src/tides.rs",
        "src/lamp.py",
        "stores.txt",
    ] {
        let document = mcp.call(DOCUMENT, &json!({"path": name}));
        let file = fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(document["text"], file, "{name}");
        assert_eq!(document["path"], json!(folder.join(name)));
        assert_eq!(document["bytes"], file.len());
        assert_eq!(document["content_sha256"], hex(&Sha256::digest(&file)));
        assert_eq!((&document["offset"], &document["truncated"]), (&json!(0), &json!(false)));
        let by_id = mcp.call(DOCUMENT, &json!({"document_id": document["document_id"]}));
        assert_eq!(by_id["text"], document["text"]);
    }
    let visitors = mcp.call(DOCUMENT, &json!({"path": folder.join("visitors.html")}));
    assert_eq!(visitors["title"], "Visiting Skerry Point");
    assert!(visitors["text"].as_str().unwrap().contains("floods & must not"), "{visitors}");
}

#[test]
fn a_long_document_is_read_in_pieces() {
    let mut mcp = client();
    let (mut text, mut offset, mut pieces) = (String::new(), json!(0), 0);
    loop {
        let piece = mcp.call(DOCUMENT, &json!({"path": "codes.txt", "offset": offset}));
        assert_eq!(piece["offset"], offset);
        assert!(piece["text"].as_str().unwrap().len() <= 64 << 10);
        text.push_str(piece["text"].as_str().unwrap());
        pieces += 1;
        if piece["truncated"] == false {
            assert!(piece.get("next_offset").is_none());
            break;
        }
        offset = piece["next_offset"].clone();
    }
    assert!(pieces > 1);
    assert_eq!(text, documents::code_book());
    let beyond = mcp.refusal(DOCUMENT, &json!({"path": "codes.txt", "offset": text.len() + 1}));
    assert!(beyond.starts_with("offset"), "{beyond}");
}

#[test]
fn files_outside_the_roots_are_out_of_reach() {
    let folder = &shared().folder;
    let elsewhere = scratch();
    let secret =
        write(elsewhere.path(), "secret.md", "# Secret\n\nThe treasure lies under rock nine.\n");
    symlink(&secret, folder.join("innocent.md")).unwrap();
    symlink(elsewhere.path(), folder.join("innocent")).unwrap();
    let mut mcp = client();
    for path in [
        secret.to_str().unwrap().to_owned(),
        format!("{}/../{}", folder.display(), secret.display()),
        "../secret.md".to_owned(),
        "/etc/passwd".to_owned(),
        "/".to_owned(),
        "innocent.md".to_owned(),
        "innocent/secret.md".to_owned(),
        folder.join("innocent.md").display().to_string(),
    ] {
        let why = mcp.refusal(INGEST, &json!({"paths": [path]}));
        assert!(why.starts_with("paths"), "{path}: {why}");
    }
    let report = mcp.call(INGEST, &json!({"paths": [folder], "include": ["*innocent*"]}));
    assert_eq!(report["items"], 0, "{report}");
    let query = json!({"query": "treasure under rock nine", "limit": 50});
    let seeds = shared().service.post("/recall", &query).to_string();
    assert!(!seeds.contains("treasure"), "{seeds}");
}

#[test]
fn a_dry_run_writes_nothing() {
    let path =
        write(&shared().folder, "dry/dolphins.md", "# Dolphins\n\nA pod of nine dolphins.\n");
    let mut mcp = client();
    let report = mcp.call(INGEST, &json!({"paths": ["dry"], "dry_run": true}));
    assert_eq!((&report["files"], &report["items"]), (&json!(1), &json!(2)), "{report}");
    assert_eq!((&report["job_id"], &report["dry_run"]), (&Value::Null, &json!(true)));
    assert!(mcp.refusal(DOCUMENT, &json!({"path": path})).contains("no document"));
    let real = mcp.call(INGEST, &json!({"paths": ["dry"]}));
    assert_eq!(real["items"], 2);
    assert!(real["job_id"].as_str().unwrap().starts_with("job_"));
}
