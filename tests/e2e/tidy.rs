//! Style checks that need no judgement: layout of the sources, and documents that name only existing things.

use std::fs;
use std::path::Path;

use support_wire::markdown::quoted;
use support_wire::tree::{ending, files, none, workspace};

/// Longest line of a source file. rustfmt limits code to 100; a string may be a little longer.
const LINE_CHARS_MAX: usize = 120;

/// The part of a file above its tests, whose tables may be wide.
fn above_tests(text: &str) -> &str {
    text.find("\nmod tests {").map_or(text, |at| &text[..at])
}

#[test]
fn sources_are_ascii_and_not_too_wide() {
    let mut faults = Vec::new();
    for (path, text) in ending("rs") {
        for (number, line) in (1..).zip(text.lines()) {
            if !line.is_ascii() {
                faults.push(format!("{}:{number}: not ASCII", path.display()));
            }
        }
        let of_tests = path.components().any(|part| part.as_os_str() == "tests")
            || path.file_name().is_some_and(|name| name == "tests.rs");
        for (number, line) in (1..).zip(above_tests(&text).lines()) {
            if !of_tests && line.chars().count() > LINE_CHARS_MAX {
                faults.push(format!("{}:{number}: too wide", path.display()));
            }
        }
    }
    none("write \\u{..} for other characters, and break long lines", &faults);
}

/// A folder of sources has docs in its `lib.rs`, `main.rs` or `mod.rs`; a single file needs none.
#[test]
fn every_folder_says_what_it_owns() {
    let is_door = |path: &Path| {
        path.file_name()
            .is_some_and(|name| name == "lib.rs" || name == "main.rs" || name == "mod.rs")
    };
    let doors = ending("rs").into_iter().filter(|(path, _)| is_door(path));
    let bare = doors.filter(|(_, text)| !text.starts_with("//!"));
    let faults: Vec<String> = bare.map(|(path, _)| path.display().to_string()).collect();
    none("begin these with a //! header", &faults);
}

/// Returns the texts in backticks.
fn spans(text: &str) -> Vec<String> {
    quoted(text).into_iter().map(|(_, span)| span.to_owned()).collect()
}

/// Returns true if a quoted text is a path of this repository.
fn is_path(text: &str) -> bool {
    const ROOMS: [&str; 10] = [
        "engine/",
        "encoder/",
        "server/",
        "tests/",
        "benches/",
        "fuzz/",
        "format-spec/",
        ".ci/",
        "docs/",
        "packaging/",
    ];
    ROOMS.iter().any(|room| text.starts_with(room))
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
}

#[test]
fn paths_in_the_architecture_exist() {
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let named: Vec<String> = spans(&text).into_iter().filter(|path| is_path(path)).collect();
    assert!(named.len() > 30, "ARCHITECTURE.md names {} paths only", named.len());
    let gone = named.into_iter().filter(|path| !workspace().join(path).exists());
    none("ARCHITECTURE.md names what is not there", &gone.collect::<Vec<_>>());
}

/// Each row of `docs/security-tests.md` names a test as `FILE::TEST`, or a file, that exists.
#[test]
fn what_is_said_to_be_shown_is_shown() {
    let page = fs::read_to_string(workspace().join("docs/security-tests.md")).unwrap();
    let is_row = |line: &&str| line.starts_with("| ") && !line.ends_with("| shown by |");
    let (mut tests, mut faults) = (0, Vec::new());
    for row in page.lines().filter(is_row) {
        let (_, by) = row.trim_end_matches(" |").rsplit_once(" | ").unwrap();
        let named = spans(by);
        if named.is_empty() {
            faults.push(format!("nothing shows: {row}"));
        }
        for name in named {
            let (path, test) = name.split_once("::").unwrap_or((&name, ""));
            let text = fs::read_to_string(workspace().join(path)).unwrap_or_default();
            let is_there = match test {
                "" => !text.is_empty(),
                _ => is_test(&text, test),
            };
            tests += usize::from(!test.is_empty());
            if !is_there {
                faults.push(name);
            }
        }
    }
    assert!(tests > 100, "docs/security-tests.md names {tests} tests only");
    none("docs/security-tests.md names what is not there", &faults);
}

/// Returns true if a source has a test of this name, in `proptest!` or not.
fn is_test(text: &str, name: &str) -> bool {
    let Some((before, _)) = text.split_once(&format!("fn {name}(")) else { return false };
    let lines = before.trim_end().lines().rev().map(str::trim_start);
    let mut above = lines.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    above.any(|line| line == "#[test]")
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    // Concatenated here, so that this file is not one of its own findings.
    let words = [["/ro", "ot/"], ["/wo", "rk/"], ["../sha", "red"]].map(|two| two.concat());
    let mut faults = Vec::new();
    for path in files() {
        // Files that are not UTF-8 are skipped.
        let Ok(text) = fs::read_to_string(workspace().join(&path)) else { continue };
        for (number, line) in (1..).zip(text.lines()) {
            for word in words.iter().filter(|word| line.contains(*word)) {
                faults.push(format!("{}:{number}: {word}", path.display()));
            }
        }
    }
    none("these names belong to a machine", &faults);
}

/// Layers of the engine, lowest first; modules outside of these folders are below all of them.
const LAYERS: [&str; 3] = ["query", "store", "maintenance"];

#[test]
fn engine_layers_depend_only_on_lower_ones() {
    let mut faults = Vec::new();
    for (path, text) in ending("rs") {
        let Ok(inside) = path.strip_prefix("engine/src") else { continue };
        // `lib.rs` names all layers.
        if inside == Path::new("lib.rs") {
            continue;
        }
        let room = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let layer = LAYERS.iter().position(|layer| *layer == room).map_or(0, |at| at + 1);
        for above in &LAYERS[layer..] {
            let door = format!("crate::{above}");
            let is_named = text.match_indices(&door).any(|(at, _)| {
                let next = text[at + door.len()..].chars().next();
                !next.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
            });
            // Tests of a low layer may build their input by a higher one.
            if (is_named || text.contains("use crate::{")) && !inside.ends_with("tests.rs") {
                faults.push(format!("{} names {above}", path.display()));
            }
        }
    }
    none("layers that know what is above them", &faults);
}
