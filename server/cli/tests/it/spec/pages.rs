//! The pages themselves: unique rule ids and valid links.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use support_engine::pages::{page, root};

/// Prefixes of rule ids; each has a page.
const ROOMS: [&str; 24] = [
    "SEG", "EMB", "IDX", "LOG", "MAN", "STA", "STO", "WRD", "LED", "EXP", "BAK", "WGT", "MOD",
    "API", "RCL", "TOK", "GOV", "OAU", "ATT", "PAG", "CTL", "CSL", "REM", "NOD",
];
/// Bytes of a rule id: three letters, a dash, two digits.
const RULE_BYTES: usize = 6;

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

fn texts(folder: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root().join(folder), ending, &mut found);
    found.sort();
    assert!(!found.is_empty(), "{folder} has no {ending}");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("it was listed");
        (path, text)
    };
    found.into_iter().map(read).collect()
}

/// All rule ids in a text.
fn rules(text: &str) -> Vec<&str> {
    let starts = text.match_indices('-').filter_map(|(dash, _)| dash.checked_sub(3));
    let ids = starts.filter_map(|at| Some((at, text.get(at..at + RULE_BYTES)?)));
    let alone = |at: usize| {
        let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        edge(text[..at].chars().next_back()) && edge(text[at + RULE_BYTES..].chars().next())
    };
    let is_rule = |id: &str| {
        let (room, number) = id.split_at(3);
        ROOMS.contains(&room) && number[1..].bytes().all(|digit| digit.is_ascii_digit())
    };
    ids.filter(|&(at, id)| is_rule(id) && alone(at)).map(|(_, id)| id).collect()
}

/// Number of statements per rule: as the first cell of a table row, or at the start of a list item.
fn stated() -> BTreeMap<String, usize> {
    let mut stated = BTreeMap::new();
    for (_, text) in texts("format-spec", ".md") {
        for line in text.lines() {
            let starts = ["| ", "- **", "- "];
            let start = starts.iter().find_map(|start| line.strip_prefix(start));
            let Some(id) = start.and_then(|rest| rest.get(..RULE_BYTES)) else { continue };
            let rest = &start.unwrap_or_default()[RULE_BYTES..];
            if rules(id) == [id] && [" |", "** ", ":"].iter().any(|end| rest.starts_with(end)) {
                *stated.entry(id.to_owned()).or_default() += 1;
            }
        }
    }
    stated
}

#[test]
fn rule_ids_are_found_where_they_are() {
    assert_eq!(
        rules("see SEG-06, `LOG-01`: not PEP-12, XSEG-01, SEG-123 or SEG-1x"),
        ["SEG-06", "LOG-01"]
    );
}

#[test]
fn every_rule_is_stated_once() {
    let stated = stated();
    for room in ROOMS {
        assert!(stated.keys().any(|id| id.starts_with(room)), "{room} has no rules");
    }
    for (id, times) in stated {
        assert_eq!(times, 1, "{id}");
    }
}

#[test]
fn every_rule_that_is_named_is_stated() {
    let stated = stated();
    let mut named = 0;
    let code = ["engine/src", "server/replication/src", "encoder/src", "server/common/src"]
        .map(|room| texts(room, ".rs"));
    for (path, text) in code.into_iter().flatten().chain(texts("format-spec", ".md")) {
        for id in rules(&text) {
            named += 1;
            assert!(stated.contains_key(id), "{} names {id}", path.display());
        }
    }
    assert!(named > 150, "only {named} rules were found");
}

#[test]
fn every_link_leads_to_a_file() {
    let mut links = 0;
    for (path, text) in texts("format-spec", ".md") {
        let folder = path.parent().expect("a file has a folder");
        for (_, rest) in text.match_indices("](").map(|(at, mark)| text.split_at(at + mark.len())) {
            let target = rest.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            links += 1;
            assert!(folder.join(target).exists(), "{} links to {target}", path.display());
        }
    }
    assert!(links > 10, "only {links} links were found");
}

#[test]
fn the_front_page_lists_every_page() {
    let front = page("README.md");
    for (path, _) in texts("format-spec", ".md") {
        let name = path.strip_prefix(root().join("format-spec")).expect("it was found there");
        let name = name.to_string_lossy();
        if name != "README.md" {
            assert!(front.contains(&format!("]({name})")), "README.md does not list {name}");
        }
    }
}
