//! `recalld verify` and `recalld salvage` as a program.

use std::fs;
use std::path::{Path, PathBuf};

use engine::{ItemId, NoThrottle, Store};
use serde_json::{Value, json};
use support_engine::sample::{items, note};
use support_engine::{ground, random_store};
use support_wire::service::{run, run_json, scratch};

const SEED: u64 = 5;

/// A data directory with a store of random rows in several segments.
pub(crate) fn data_in(folder: &Path) -> PathBuf {
    let data = folder.join("data");
    let store = data.join("tenants/local/store");
    fs::create_dir_all(&store).expect("the sample is as it was made");
    let store = Store::open(ground::folder(&store, SEED), ground::unmerged())
        .expect("the sample is as it was made");
    random_store::fill(&store, SEED, 30, false);
    data
}

pub(crate) fn store_in(data: &Path) -> PathBuf {
    data.join("tenants/local/store")
}

pub(crate) fn export(data: &Path) -> Vec<Value> {
    let output = run(data, &["export"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("the sample is as it was made");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("the sample is as it was made"))
        .collect()
}

fn segments(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(store_in(data))
        .expect("the sample is as it was made")
        .map(|entry| entry.expect("the sample is as it was made").path());
    let is_segment = |path: &PathBuf| {
        path.file_name()
            .expect("the sample is as it was made")
            .to_str()
            .expect("the sample is as it was made")
            .starts_with("segment-")
    };
    let mut found: Vec<PathBuf> = entries.filter(is_segment).collect();
    found.sort();
    found
}

#[test]
fn a_store_is_clean_alone_and_beside_a_writer_and_damage_is_told() {
    let scratch = scratch();
    let data = data_in(scratch.path());
    export(&data); // makes the ledger
    let alone = run_json(&data, &["verify"]);
    assert_eq!(
        (&alone["clean"], &alone["ledger"]["clean"]),
        (&json!(true), &json!(true)),
        "{alone}"
    );
    let writer = Store::open(ground::folder(&store_in(&data), 9), ground::unmerged()).unwrap();
    writer.write(items([note("not closed yet")])).unwrap();
    assert_eq!(run_json(&data, &["verify"])["clean"], true);
    drop(writer);

    let segment = segments(&data).remove(0);
    let mut bytes = fs::read(&segment).unwrap();
    bytes[200] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let output = run(&data, &["verify", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["store"]["findings"][0]["rule"], "SEG-06", "{told}");
    let plain = run(&data, &["verify"]);
    let words = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(words.contains("SEG-06") && words.contains("broken rules"), "{words}");
    assert!(String::from_utf8_lossy(&plain.stderr).contains("recalld salvage"));

    let refused = run(&data, &["export"]);
    assert_eq!(refused.status.code(), Some(3));
    let advice = String::from_utf8_lossy(&refused.stderr).into_owned();
    for step in ["cp -a ", "recalld verify ", "recalld restore ", "recalld salvage ", "import "] {
        assert!(advice.contains(step), "{step}: {advice}");
    }

    let nowhere = run(&scratch.path().join("none"), &["verify"]);
    assert_eq!(nowhere.status.code(), Some(3));
    assert!(!scratch.path().join("none").exists(), "nothing is made");
}

#[test]
fn an_erasure_is_proven_by_the_program() {
    let scratch = scratch();
    let data = data_in(scratch.path());
    let store = Store::open(ground::folder(&store_in(&data), 9), ground::unmerged()).unwrap();
    let secret = store.write(items([note("zanzibarsecret")])).unwrap().items[0];
    let id = |id: ItemId| format!("itm_{id}");
    let asked = [id(secret)];
    let asked = ["verify", "--erased", &asked[0], "--text", "zanzibarsecret"];
    assert_eq!(run(&data, &asked).status.code(), Some(1), "it stands");
    store.erase(&[secret.0], "officer", "asked", &NoThrottle).unwrap();
    drop(store);
    let proof = run_json(&data, &asked);
    assert_eq!((&proof["proven"], &proof["tombstone"]), (&json!(true), &json!(true)), "{proof}");
    assert!(!proof["cannot_tell"].as_array().unwrap().is_empty());
    let folder = store_in(&data);
    let of_folder = ["verify", folder.to_str().unwrap(), "--erased", asked[2]];
    assert_eq!(run(&data, &of_folder).status.code(), Some(0));
    assert_eq!(run(&data, &["verify", "--erased", "nonsense"]).status.code(), Some(2));
    assert_eq!(run(&data, &["verify", "--erased", asked[2], "--text", ""]).status.code(), Some(2));
    let never = format!("itm_{}", ItemId(77));
    let refused = run(&data, &["verify", "--erased", &never]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{why}");
    assert!(why.contains("never erased here: no tombstone"), "{why}");
}

/// A store that lost its newest segment, salvaged and imported, equals the original without the lost rows.
#[test]
fn what_is_salvaged_and_imported_is_the_store_without_what_was_lost() {
    let scratch = scratch();
    let data = data_in(scratch.path());
    let before = export(&data);
    let whole = scratch.path().join("whole.jsonl");
    let told = run_json(&data, &["salvage", "--to", whole.to_str().unwrap()]);
    assert_eq!(told["whole"], true, "{told:#}");
    let text = fs::read_to_string(&whole).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, before, "of a whole store it is its export");

    let lost = segments(&data).pop().unwrap();
    fs::remove_file(&lost).unwrap();
    let file = scratch.path().join("rest.jsonl");
    let told = run_json(&data, &["salvage", "--to", file.to_str().unwrap()]);
    assert_eq!(told["whole"], false, "{told:#}");
    let again = run(&data, &["salvage", "--to", file.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(3), "it is there");
    let new = scratch.path().join("new");
    let imported = run_json(&new, &["import", file.to_str().unwrap(), "--strict"]);
    assert_eq!(imported["bad"], json!([]), "{imported:#}");
    let after = export(&new);
    let key = |line: &Value| (line["type"].clone(), line["id"].clone(), line["target"].clone());
    let bare = |line: &Value| {
        let mut line = line.as_object().unwrap().clone();
        // The superseded items, the source and the tombstone may be among the lost rows.
        ["supersedes", "source", "tombstoned"].iter().for_each(|key| drop(line.remove(*key)));
        Value::Object(line)
    };
    let mut kept = 0;
    for line in after.iter().filter(|line| line["type"] != "tombstone") {
        let old = before.iter().find(|old| key(old) == key(line)).expect("it was there");
        assert_eq!(bare(old), bare(line));
        kept += 1;
    }
    let rows = before.iter().filter(|line| line["type"] != "tombstone").count();
    assert!(kept > 0 && kept < rows, "{kept} of {rows}");
    let given = &told["given"];
    let count = |name: &str| given[name].as_u64().unwrap();
    assert_eq!(kept as u64, count("items") + count("edges") + count("sources"));
    assert_eq!(run_json(&new, &["verify"])["clean"], true);
}
