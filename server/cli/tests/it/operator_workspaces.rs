//! The operator acts in a tenant's store, through the server and in-process. The calls are recorded in the tenant's
//! ledger, under the operator's name.

use std::path::Path;

use serde_json::{Value, json};
use support_server::house::House;
use support_wire::kept::{assert_fails, item};
use support_wire::service::{run, run_json, write};

const ACME: [&str; 2] = ["--workspace", "acme"];

fn texts(data: &Path, whose: &[&str]) -> Vec<String> {
    let output = run(data, &[&["export"], whose].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter_map(|row| row["text"].as_str().map(str::to_owned)).collect()
}

/// Tools and principals of a ledger's entries.
fn entries(data: &Path, workspace: &str) -> Vec<(String, String)> {
    let arguments = ["ledger", "show", "--workspace", workspace, "--json", "--last", "1000"];
    let shown = String::from_utf8(run(data, &arguments).stdout).unwrap();
    let word = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let rows = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|entry| (word(&entry, "tool"), word(&entry, "principal"))).collect()
}

/// Runs every command in `acme` and checks that other workspaces are unaffected. `n` distinguishes rounds.
fn act(data: &Path, n: usize) {
    let text = format!("The quincunx of round {n} is planted.");
    let file = write(data.parent().unwrap(), "lines.jsonl", format!("{}\n", item(&text, &text)));
    let import = ["import", file.to_str().unwrap()];
    let report = run_json(data, &[&import[..], &ACME].concat());
    assert_eq!(report["bad_count"], 0, "{report}");
    let folder = data.with_file_name(format!("notes-{n}"));
    write(&folder, "notes.md", format!("# Almanac {n}\n\nThe almanac of round {n} is printed.\n"));
    run_json(data, &[&["ingest", folder.to_str().unwrap()], &ACME[..]].concat());
    let asked = run_json(data, &[&["recall", "which quincunx is planted?"], &ACME[..]].concat());
    assert!(asked.to_string().contains("quincunx"), "{asked}");
    let all = texts(data, &ACME).join("\n");
    assert!(all.contains(&text) && all.contains(&format!("almanac of round {n}")), "{all}");
    // The operator's own workspace is empty, and the folder does not become one of its roots.
    assert!(texts(data, &[]).is_empty());
    let own = run_json(data, &["recall", "which quincunx is planted?"]);
    assert_eq!(own["items"], json!([]), "{own}");
    assert!(!data.join("roots.json").exists(), "a tenant's files are no root");
    for command in
        [&import[..], &["ingest", folder.to_str().unwrap()], &["recall", "x"], &["export"]]
    {
        let arguments = [command, &["--workspace", "nobody"]].concat();
        let refused = run(data, &arguments);
        assert!(!refused.status.success(), "{arguments:?}");
        assert_fails(&refused, refused.status.code().unwrap(), &["no workspace of that name"]);
    }
}

#[test]
fn the_operator_acts_in_a_tenants_store_with_a_server_and_without() {
    let house = House::quick();
    let acme = house.tenant("acme", "team");
    let served = house.run(&[]);
    let data = served.service.data().to_owned();
    act(&data, 1);
    // The tenant sees the items at once.
    let found =
        served.given(&acme, "brain_recall", &json!({"query": "which quincunx is planted?"}));
    assert!(found.to_string().contains("round 1"), "{found}");
    assert!(served.service.terminate().success());
    act(&data, 2);
    let own = entries(&data, "acme");
    for tool in ["recalld import", "recalld ingest", "recalld recall", "recalld export"] {
        let by = own.iter().filter(|(name, _)| name == tool).map(|(_, principal)| principal);
        assert_eq!(by.collect::<Vec<_>>(), ["operator", "operator"], "{tool}");
    }
    let operators = entries(&data, "local");
    assert!(
        operators.iter().all(|(tool, _)| !["recalld import", "recalld ingest"].contains(&&**tool))
    );
}
