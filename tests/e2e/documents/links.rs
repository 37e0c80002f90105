//! Links between documents, their anchors, and the table of contents of the book.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use support_wire::markdown::{anchors, links};
use support_wire::tree::{ending, none, workspace};

/// Normalizes `docs/../README.md` to `README.md`; `None` if the path leaves the repository.
fn resolved(folder: &Path, target: &str) -> Option<PathBuf> {
    let mut path = folder.to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Returns why a link is broken, if it is.
fn fault(
    page: &Path,
    target: &str,
    headings: &BTreeMap<PathBuf, Vec<String>>,
) -> Option<&'static str> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
    let there = match file {
        "" => page.to_owned(),
        file => match resolved(page.parent().unwrap(), file) {
            Some(there) => there,
            None => return Some("leads out of the repository"),
        },
    };
    if !workspace().join(&there).exists() {
        return Some("is not there");
    }
    match (anchor, headings.get(&there)) {
        (None, _) => None,
        (Some(_), None) => Some("has no headings"),
        (Some(anchor), Some(found)) if found.iter().any(|slug| slug == anchor) => None,
        (Some(_), Some(_)) => Some("has no such heading"),
    }
}

#[test]
fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let pages = ending("md");
    let headings: BTreeMap<PathBuf, Vec<String>> =
        pages.iter().map(|(path, text)| (path.clone(), anchors(text))).collect();
    let (mut faults, mut count) = (Vec::new(), 0);
    for (path, text) in &pages {
        for target in links(text) {
            count += 1;
            if let Some(why) = fault(path, &target, &headings) {
                faults.push(format!("{}: {target} {why}", path.display()));
            }
        }
    }
    assert!(count > 200, "{count} links only");
    none("links that lead nowhere", &faults);
}

/// Pages in a folder, without its subfolders.
fn pages_in(folder: &str) -> BTreeSet<PathBuf> {
    let pages = ending("md").into_iter().map(|(path, _)| path);
    pages.filter(|path| path.parent() == Some(Path::new(folder))).collect()
}

#[test]
fn every_page_is_in_the_contents_of_the_book() {
    let contents = PathBuf::from("docs/SUMMARY.md");
    let text = std::fs::read_to_string(workspace().join(&contents)).unwrap();
    let told: Vec<PathBuf> =
        links(&text).iter().map(|link| resolved(Path::new("docs"), link).unwrap()).collect();
    let once: BTreeSet<PathBuf> = told.iter().cloned().collect();
    assert_eq!(once.len(), told.len(), "a page stands twice in {}", contents.display());
    let mut wanted = &pages_in("docs") | &pages_in("format-spec");
    wanted.remove(&contents);
    let left_out: Vec<String> =
        wanted.difference(&once).map(|page| page.display().to_string()).collect();
    none("docs/SUMMARY.md leaves these out", &left_out);
}
