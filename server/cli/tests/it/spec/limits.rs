//! Limits of all crates compared with the tables of limits.md, in both directions.

use std::fs;

use limit_table::Limits;
use support_engine::pages::{page, root, table, value};

/// Crates with limits, by folder.
const CRATES: &[(&str, Limits)] = &[
    ("encoder", encoder::LIMITS),
    ("encoder/kernels", kernels::LIMITS),
    ("engine", engine::LIMITS),
    ("server/api", recalld_api::LIMITS),
    ("server/auth", recalld_auth::LIMITS),
    ("server/claim-check", recalld_claim_check::LIMITS),
    ("server/cli", recalld_cli::LIMITS),
    ("server/cluster", recalld_cluster::LIMITS),
    ("server/common", recalld_common::LIMITS),
    ("server/config", recalld_config::LIMITS),
    ("server/documents", recalld_documents::LIMITS),
    ("server/embedding", recalld_embedding::LIMITS),
    ("server/fs-util", recalld_fs_util::LIMITS),
    ("server/http-server", recalld_http_server::LIMITS),
    ("server/ingest", recalld_ingest::LIMITS),
    ("server/intent", recalld_intent::LIMITS),
    ("server/interchange", recalld_interchange::LIMITS),
    ("server/mcp-protocol", recalld_mcp_protocol::LIMITS),
    ("server/metastore", recalld_metastore::LIMITS),
    ("server/policy", recalld_policy::LIMITS),
    ("server/recall", recalld_recall::LIMITS),
    ("server/replication", recalld_replication::LIMITS),
    ("server/secret-scan", recalld_secret_scan::LIMITS),
    ("server/status-answers", recalld_status_answers::LIMITS),
    ("server/store-admin", recalld_store_admin::LIMITS),
    ("server/telemetry", recalld_telemetry::LIMITS),
    ("server/tool-framework", recalld_tool_framework::LIMITS),
    ("server/tools", recalld_tools::LIMITS),
    ("server/workspace", recalld_workspace::LIMITS),
];

/// Tables with limits that are not declared by `limits!`.
const UNCHECKED: [&str; 2] = ["| of a shared control store |", "| of a sign-in |"];

/// Tables without a column `in`, whose limits belong to one crate.
const OF_ONE_CRATE: [(&str, &str); 4] = [
    ("| name |", "engine"),
    ("| of the control store |", "server/metastore"),
    ("| of an import |", "server/interchange"),
    ("| of an inflow |", "server/embedding"),
];

/// Folder of the crate, name and value. The folder is empty if the row does not name the crate.
type Limit = (String, String, u64);

/// All limits stated by a page. A table of limits has a column `value`.
fn stated(page: &str) -> Vec<Limit> {
    let is_of_limits = |line: &&str| {
        let is_head = line.starts_with("| ") && line.contains(" | value | ");
        is_head && !UNCHECKED.iter().any(|head| line.starts_with(head))
    };
    let plain = |cell: &str| cell.trim_matches('`').to_owned();
    let heads = page.lines().filter(is_of_limits);
    let rows = heads.flat_map(|head| {
        let one = OF_ONE_CRATE.iter().find(|(start, _)| head.starts_with(start));
        let one = one.map_or("", |(_, folder)| folder);
        let read = |row: Vec<String>| match head.contains(" | in | ") {
            true => (plain(&row[1]), plain(&row[0]), value(&row[2])),
            false => (one.to_owned(), plain(&row[0]), value(&row[1])),
        };
        table(page, head).into_iter().map(read).collect::<Vec<_>>()
    });
    rows.collect()
}

fn declared() -> Vec<Limit> {
    let of_crate = |(folder, limits): &(&str, Limits)| {
        let own = limits.all().into_iter();
        own.map(|(name, value)| ((*folder).to_owned(), name.to_owned(), value)).collect::<Vec<_>>()
    };
    CRATES.iter().flat_map(of_crate).collect()
}

/// Returns the stated limits that no crate declares, and the declared limits without a row.
fn differences(page: &str, mut declared: Vec<Limit>) -> (Vec<Limit>, Vec<Limit>) {
    // Rows that name their crate are matched first, because the others match any crate.
    let (of_any, mut rows): (Vec<_>, Vec<_>) =
        stated(page).into_iter().partition(|(folder, ..)| folder.is_empty());
    rows.extend(of_any);
    rows.retain(|(folder, name, value)| {
        let found = declared.iter().position(|of| {
            (folder.is_empty() || of.0 == *folder) && of.1 == *name && of.2 == *value
        });
        found.map(|at| declared.swap_remove(at)).is_none()
    });
    (rows, declared)
}

#[test]
fn limits_of_the_crates_are_those_of_the_page() {
    let declared = declared();
    assert!(declared.len() > 600, "only {} limits were found", declared.len());
    let (not_declared, not_stated) = differences(&page("limits.md"), declared);
    assert_eq!(not_declared, [], "of limits.md, and of no crate");
    assert_eq!(not_stated, [], "of a crate, and not in limits.md");
}

#[test]
fn every_crate_with_limits_is_compared() {
    let members = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace has one");
    let with_limits = members.lines().filter_map(|line| {
        let folder = line.strip_prefix("    \"")?.strip_suffix("\",")?;
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).ok()?;
        let dependencies = manifest.split_once("\n[dependencies]\n")?.1.split("\n[").next()?;
        dependencies.contains("limit-table.workspace").then(|| folder.to_owned())
    });
    let mut with_limits: Vec<_> = with_limits.collect();
    with_limits.sort();
    let mut compared: Vec<_> = CRATES.iter().map(|(folder, _)| (*folder).to_owned()).collect();
    compared.sort();
    assert_eq!(compared, with_limits);
}

#[test]
fn a_difference_of_either_side_is_found() {
    const PAGE: &str = "Of a:\n\n| of a | in | value | why |\n|---|---|---|---|\n\
                        | `X` | `a` | 1 KiB | |\n| `X` | `a` | 2 | |\n\nOf any:\n\n\
                        | of any | value | why |\n|---|---|---|\n| `X` | 2 | |\n| `WAIT` | 3 s | |\n\n\
                        | of a sign-in | value | why |\n|---|---|---|\n| `Y` | 24 h | |\n";
    let limit =
        |(folder, name, value): (&str, &str, u64)| (folder.to_owned(), name.to_owned(), value);
    let all = [("b", "X", 2), ("b", "WAIT", 3000), ("a", "X", 2), ("a", "X", 1024)];
    let differ = |page: &str, code: &[(&str, &str, u64)]| {
        differences(page, code.iter().copied().map(limit).collect())
    };
    assert_eq!(differ(PAGE, &all), (vec![], vec![]));
    let other_value = PAGE.replace("3 s", "4 s");
    let stated = limit(("", "WAIT", 4000));
    assert_eq!(differ(&other_value, &all), (vec![stated], vec![limit(all[1])]));
    let other_crate = PAGE.replace("`a` | 1 KiB", "`b` | 1 KiB");
    assert_eq!(differ(&other_crate, &all), (vec![limit(("b", "X", 1024))], vec![limit(all[3])]));
    assert_eq!(differ(&PAGE.replace("| `X` | 2 | |\n", ""), &all), (vec![], vec![limit(all[0])]));
    assert_eq!(differ(PAGE, &all[..3]), (vec![limit(all[3])], vec![]));
    let twice = [&all[..], &all[2..3]].concat();
    assert_eq!(differ(PAGE, &twice), (vec![], vec![limit(all[2])]));
}
