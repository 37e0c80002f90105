//! `format-spec/reader.py`, written from the specification alone: its tables match the pages, and it reports damage as
//! an error with a rule id. Beside it, `format-spec/examples.py` checks the examples of the pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use engine::Store;
use support_engine::ground;
use support_engine::pages::{page, root};
use support_engine::sample::{self, Seals};

/// Corruptions, one file at a time.
const BREAKS: u32 = 300;

fn spec() -> PathBuf {
    root().join("format-spec")
}

fn python(arguments: &[&Path]) -> Output {
    // -B: Python writes no cache files beside the script.
    Command::new("python3").arg("-B").args(arguments).output().expect("python3 is there")
}

#[test]
fn python_reader_reports_the_rule_of_corrupt_stores() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(ground::folder(scratch.path(), 3), ground::unmerged()).unwrap();
    sample::furnish(&store, Seals(&[1, 2]), |_, _| {}).unwrap();
    drop(store);
    let script = root().join("tests/golden/break_files.py");
    let output = python(&[&script, &spec(), scratch.path(), Path::new(&BREAKS.to_string())]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let refused: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    assert!(refused > BREAKS / 2, "only {refused} of {BREAKS} were noticed");
}

/// Rows of the specification's column table: number, name, cell, cells.
fn columns_of_the_page() -> Vec<String> {
    let page = page("segment.md");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, number, name, cell, count, _, _] = cells[..] else { return None };
        number.parse::<u16>().ok()?;
        // Header fields have lower-case names too, but sizes after their offsets.
        cell.parse::<u16>().ok()?;
        Some(format!("{number} {name} {cell} {count}"))
    });
    rows.collect()
}

#[test]
fn python_reader_columns_match_the_specification() {
    let code = "import sys; sys.path.insert(0, sys.argv[1]); import reader\n\
                for number, (name, cell, count) in sorted(reader.columns_of(2).items()):\n\
                \u{20}   print(number, name, cell, count)";
    let output = python(&[Path::new("-c"), Path::new(code), &spec()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().collect::<Vec<_>>(), columns_of_the_page());
}

#[test]
fn python_reader_finds_the_store_of_a_data_directory() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("tenants/local/store");
    let store = Store::open(ground::folder(&folder, 3), ground::unmerged()).unwrap();
    sample::furnish(&store, Seals(&[1]), |_, _| {}).unwrap();
    drop(store);
    let script = spec().join("reader.py");
    let of_store = python(&[&script, &folder]);
    assert!(of_store.status.success(), "{}", String::from_utf8_lossy(&of_store.stderr));
    assert!(!of_store.stdout.is_empty());
    assert_eq!(python(&[&script, data.path()]).stdout, of_store.stdout);
    let [option, name] = [Path::new("--workspace"), Path::new("acme")];
    let absent = python(&[&script, option, name, data.path()]);
    assert_eq!(absent.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(errors.contains("may name: local") && !errors.contains("Traceback"), "{errors}");
    assert_eq!(python(&[&script, option, name, &folder]).status.code(), Some(1));
}

#[test]
fn examples_of_the_pages_are_right() {
    let output = python(&[&spec().join("examples.py")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn python_reader_distinguishes_usage_errors_from_corruption() {
    let script = spec().join("reader.py");
    assert_eq!(python(&[&script]).status.code(), Some(2));
    let scratch = tempfile::tempdir().unwrap();
    let empty = python(&[&script, scratch.path()]);
    assert_eq!(empty.status.code(), Some(1));
    let said = String::from_utf8_lossy(&empty.stderr).into_owned();
    assert!(said.contains("MAN-03") && !said.contains("Traceback"), "{said}");
    let nowhere = python(&[&script, &scratch.path().join("nowhere")]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(!String::from_utf8_lossy(&nowhere.stderr).contains("Traceback"));
}
