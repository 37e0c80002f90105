//! Bounds of the rooms that answer questions: each constant there against its row in limits.md.
//!
//! Most of them are private to their file, so they are read from its text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use support_engine::pages::{page, root, table, value};

/// Folders and files whose bounds the page has.
const ROOMS: &[&str] = &[
    "encoder/kernels/src/questions.rs",
    "encoder/kernels/src/team.rs",
    "engine/src/index",
    "engine/src/reading",
    "engine/src/words/analyze.rs",
    "engine/src/words/phrase.rs",
    "engine/src/words/query.rs",
    "engine/src/words/without.rs",
    "server/replication/src",
    "server/common/src/keys.rs",
    "server/cli/src/cli/tried.rs",
    "server/embedding/src/company.rs",
    "server/config/src/lib.rs",
    "server/config/src",
    "server/api/src/console",
    "server/embedding/src/embed.rs",
    "server/cli/src/eval",
    "server/interchange/src/foreign",
    "server/policy/src/identity.rs",
    "server/policy/src/judged.rs",
    "server/policy/src/meter.rs",
    "server/policy/src/meter/settling.rs",
    "server/policy/src/plans.rs",
    "server/policy/src/rate.rs",
    "server/policy/src/rules.rs",
    "server/policy/src/rules_file.rs",
    "server/recall/src/graph_shape.rs",
    "server/ingest/src/held.rs",
    "server/ingest/src/job.rs",
    "server/ingest/src/parcel.rs",
    "server/documents/src/detect.rs",
    "server/ingest/src/report.rs",
    "server/fs-util/src/roots.rs",
    "server/ingest/src/walk.rs",
    "server/intent/src",
    "server/claim-check/src",
    "server/documents/src/image.rs",
    "server/documents/src/image",
    "server/documents/src/json_lines.rs",
    "server/documents/src/pdf.rs",
    "server/documents/src/pdf",
    "server/documents/src/records.rs",
    "server/documents/src/table.rs",
    "server/api/src/forwarded.rs",
    "server/recall/src",
    "server/cluster/src/seats/emptying.rs",
    "server/cluster/src/seats/failing.rs",
    "server/secret-scan/src",
    "server/status-answers/src",
    "server/tools/src/agent_state",
    "server/tools/src/artifacts",
    "server/tools/src/bench",
    "server/tools/src/command",
    "server/tools/src/continuity.rs",
    "server/tools/src/docstore",
    "server/tools/src/graph",
    "server/tools/src/ingest",
    "server/tools/src/items",
    "server/tool-framework/src/paging.rs",
    "server/tools/src/recall",
    "server/tools/src/verify",
    "server/tools/src/work.rs",
    "server/tool-framework/src/writing.rs",
    "server/interchange/src/vault.rs",
];

/// Tables of the page: name, file, value, why, what happens at it.
const HEADS: &[&str] = &[
    "| of a question | in | value | why |",
    "| of a search | in | value | why |",
    "| of work together | in | value | why |",
    "| of an evaluation | in | value | why |",
    "| of what other programs export | in | value | why |",
    "| of the console | in | value | why |",
    "| of who may ask | in | value | why |",
    "| of a tool | in | value | why |",
    "| of a scan for secrets | in | value | why |",
    "| of a file that is read | in | value | why |",
    "| of the remote | in | value | why |",
];

/// Ends of the names of steps: how much is done between two looks at whether the answer is still wanted.
const STEPS: &str = "_TOGETHER";

/// Numbers of these rooms that bound nothing: parts of a format or of arithmetic, sizes, units, and how alike is
/// alike.
const NO_BOUNDS: &[&str] = &[
    "ADDED_CHARS_MIN",
    "ALPHABETS",
    "BEARER_CHARS_MIN",
    "BEST",
    "BITS",
    "BY_NAME",
    "BODY_CHARS_MIN",
    "COLUMNS",
    "COLUMNS_MIN",
    "COUNTS_BYTES",
    "CRC_BYTES",
    "CRC_CHARS",
    "DAY",
    "DAY_BEGINS",
    "DAY_MICROS",
    "DISTINCT_MIN",
    "EDGES",
    "ENVIRONMENTS",
    "FACTOR",
    "FILE_MODE",
    "FOLDER_MODE",
    "FILLER_WEIGHT",
    "FORM",
    "HASH_BYTES",
    "HASH_DIGITS",
    "HEADER_BYTES",
    "HEX_CHARS_MIN",
    "HOUR",
    "ITEMS",
    "JWT_SIGNATURE_CHARS_MIN",
    "KEY_CHARS_MIN",
    "MICROS",
    "NAMED_MIN",
    "MISSPELT_FIFTHS",
    "NAME_BYTES_MIN",
    "NEAR",
    "NEAR_COSTS",
    "NETWORK_BYTES",
    "OF_MEMORY",
    "OF_NUMBERS",
    "OF_SERVICE",
    "OF_SERVICE_UNASKED",
    "OF_TEXT",
    "OF_TITLE",
    "OTHER_CHARS_MIN",
    "ONE_WRONG_CHARS",
    "OWN_CHARS",
    "PART_DIGITS",
    "PASSWORD_CHARS_MIN",
    "NO_YEAR",
    "NUMBER_DIGITS",
    "NUMBER_MAX",
    "ORIENTATION",
    "PIECE_BYTES",
    "PLACES_EACH",
    "POINTED_BYTES_MIN",
    "QUERY_ALIGN",
    "QUERY_CODE_MAX",
    "QUESTION_WORDS_MIN",
    "ROUNDS",
    "ROWS_APART",
    "ROWS_MIN",
    "ROW_CODE_SIZE_MAX",
    "SECRET_CHARS_MIN",
    "SEQUENCE_MIN",
    "SAMPLE_ROWS",
    "SEEN_MIN",
    "SHARED_MIN",
    "SHINGLE_WORDS",
    "SHORT_CHARS",
    "SOURCES",
    "STRANGE",
    "SURE_MAX",
    "SURE_MIN",
    "SWAPPED_CHARS_MIN",
    "TAKING",
    "TEXT_CHARS",
    "TOKENS_AROUND",
    "TWO_WRONG_CHARS",
    "USER_COMMENT",
    "VERSION",
    "WEIGHT",
    "WORDS_ENOUGH",
    "WORDS_MIN",
    "WORDS_TO_MOVE",
    "WORD_CHARS_MIN",
];

/// Types of constants that may be bounds.
const KINDS: [&str; 10] =
    ["usize", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "Duration"];

/// Constants of a file by name, as they are written, without those of its tests.
type Written = BTreeMap<String, String>;

fn written(text: &str) -> Written {
    let text = text.split_once("\n#[cfg(test)]\nmod ").map_or(text, |(code, _)| code);
    let constant = |line: &str| {
        let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
            Some(within) => within.split_once(')').map_or("", |(_, rest)| rest.trim_start()),
            None => rest.trim_start(),
        });
        let (name, rest) = line.strip_prefix("const ")?.split_once(": ")?;
        let (kind, number) = rest.split_once(" = ")?;
        let number = number.strip_suffix(';')?;
        KINDS.contains(&kind).then(|| (name.to_owned(), number.to_owned()))
    };
    text.lines().filter_map(constant).collect()
}

/// The number that a constant stands for, durations in milliseconds.
fn number(expression: &str, around: &[&Written]) -> u64 {
    let of = |part: &str| number(part, around);
    for (start, millis) in [("Duration::from_millis(", 1), ("Duration::from_secs(", 1000)] {
        if let Some(inner) = expression.strip_prefix(start) {
            return of(inner.trim_end_matches(')')) * millis;
        }
    }
    if let Some((left, right)) = expression.split_once(" + ") {
        return of(left) + of(right);
    }
    if let Some((left, right)) = expression.split_once(" << ") {
        return of(left) << of(right);
    }
    if let Some((left, right)) = expression.split_once(" * ") {
        return of(left) * of(right);
    }
    if let Some((left, right)) = expression.split_once(" / ") {
        return of(left) / of(right);
    }
    match around.iter().find_map(|file| file.get(expression)) {
        Some(other) => of(other),
        None => expression.replace('_', "").parse().expect(expression),
    }
}

fn files(place: &Path, found: &mut Vec<PathBuf>) {
    if !place.is_dir() {
        assert!(place.exists(), "{} is not there", place.display());
        return found.push(place.to_owned());
    }
    for entry in fs::read_dir(place).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let is_code = path.extension().is_some_and(|ending| ending == "rs")
            && !path.ends_with("tests.rs")
            && !is_of_server(&path);
        if path.is_dir() || is_code {
            files(&path, found);
        }
    }
}

/// Returns true for the limits of a server crate, but for those of the remote, which have their own table on the page.
fn is_of_server(path: &Path) -> bool {
    let server = root().join("server");
    path.ends_with("src/limits.rs")
        && path.starts_with(&server)
        && !path.starts_with(server.join("replication"))
}

/// The tables of limits of all server crates.
fn limits() -> BTreeMap<String, String> {
    let crates = fs::read_dir(root().join("server")).expect("the folder is there");
    let tables = crates.map(|entry| entry.expect("it can be read").path().join("src/limits.rs"));
    tables
        .filter(|table| is_of_server(table))
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|text| written(&text))
        .collect()
}

/// Every bound of the rooms, by file and name.
fn coded() -> BTreeMap<(String, String), u64> {
    let mut paths = Vec::new();
    ROOMS.iter().for_each(|room| files(&root().join(room), &mut paths));
    let read = |path: &Path| written(&fs::read_to_string(path).expect("it was listed"));
    let front = limits();
    let mut coded = BTreeMap::new();
    for path in paths {
        let own = read(&path);
        let name = path.strip_prefix(root()).expect("it was found there").to_string_lossy();
        for (constant, expression) in &own {
            if !constant.ends_with(STEPS) && !NO_BOUNDS.contains(&constant.as_str()) {
                let key = (name.clone().into_owned(), constant.clone());
                coded.insert(key, number(expression, &[&own, &front]));
            }
        }
    }
    coded
}

#[test]
fn bounds_of_recall_are_those_of_the_page() {
    let page = page("limits.md");
    let rows = HEADS.iter().flat_map(|head| table(&page, head));
    let plain = |cell: &str| cell.trim_matches('`').to_owned();
    let mut stated = BTreeMap::new();
    for row in rows {
        let key = (plain(&row[1]), plain(&row[0]));
        assert_eq!(stated.insert(key, value(&row[2])), None, "{row:?} is there twice");
    }
    let coded = coded();
    for (key, number) in &coded {
        assert_eq!(stated.get(key), Some(number), "{key:?} of the code, in limits.md");
    }
    for key in stated.keys() {
        assert!(coded.contains_key(key), "{key:?} of limits.md is no constant of these rooms");
    }
    assert!(coded.len() > 50, "only {} bounds were found", coded.len());
}

/// Numbers of the server's limits that stand elsewhere on the page, follow from a protocol, or bound
/// nothing.
const NOT_OF_THE_SERVER: [&str; 9] = [
    "CHUNK_CHARS_MAX",
    "CHUNK_CHARS_TARGET",
    "CHUNK_CHARS_TINY",
    "ERASE_ITEMS_MAX",
    "JSON_ESCAPE_GROWTH_MAX",
    "RETRY_AFTER_SECONDS",
    "TEXT_BYTES_MAX",
    "TLS_RECORD_BYTES_MAX",
    "TLS_RECORD_OVERHEAD_MAX",
];

#[test]
fn limits_of_the_server_are_those_of_the_page() {
    let own = limits();
    let named = own.iter().filter(|(name, _)| !NOT_OF_THE_SERVER.contains(&name.as_str()));
    let coded: BTreeMap<String, u64> =
        named.map(|(name, expression)| (name.clone(), number(expression, &[&own]))).collect();
    let page = page("limits.md");
    let heads = ["| of a connection |", "| of the server |", "| of MCP |", "| of tenants |"];
    let rows = heads.into_iter().flat_map(|head| table(&page, &format!("{head} value | why |")));
    let mut stated = BTreeMap::new();
    for row in rows {
        let name = row[0].trim_matches('`').to_owned();
        assert_eq!(stated.insert(name, value(&row[1])), None, "{row:?} is there twice");
    }
    assert_eq!(stated, coded);
    assert!(coded.len() > 80, "only {} limits were found", coded.len());
}

#[test]
fn constants_are_read_as_they_are_written() {
    let text = "const A: usize = 4 << 10;\npub(super) const B_MAX: Duration = Duration::from_secs(2);\n\
                pub const C: u64 = A / 64;\npub(in crate::spec::x) const D: u32 = 1_000 * 3;\n\
                const D2: usize = 2 * 8 + 5 + A;\nconst E: &str = \"5\";\n    const F: usize = 6;\n#[cfg(test)]\nmod tests {\n\
                const G: usize = 7;\n";
    let own = written(text);
    assert_eq!(own.keys().collect::<Vec<_>>(), ["A", "B_MAX", "C", "D", "D2"]);
    let numbers: Vec<u64> = own.values().map(|it| number(it, &[&own])).collect();
    assert_eq!(numbers, [4096, 2000, 64, 3000, 4117]);
}
