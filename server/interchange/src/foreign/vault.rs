//! Folders of Markdown notes from Obsidian and basic-memory: front matter, observations, relations, wiki links.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::error::ForeignError;
use super::out::{Item, Out, rest, tags, text, word};
use super::times::time;
use recalld_common::regular_file;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    const VAULT_FILES_MAX: usize = 200_000;
    /// Bytes of a note, equal to the limit of an item's text.
    const NOTE_BYTES_MAX: u64 = 1 << 20;
    /// Bytes of front matter.
    const FRONT_BYTES_MAX: usize = 64 << 10;
    /// Depth of nested folders.
    const DEPTH_MAX: usize = 64;
    /// Observations and links of one note.
    const PARTS_MAX: usize = 10_000;
}

/// A note as read from its file.
struct Note {
    /// Path relative to the vault.
    path: String,
    front: Map<String, Value>,
    body: String,
}

/// `- [category] words #tag (context)`.
#[derive(Debug, PartialEq, Eq)]
struct Observation {
    category: String,
    said: String,
    tags: Vec<String>,
    context: String,
}

/// A link to another note, and its relation.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    relation: String,
    target: String,
}

pub(super) fn translate(path: &Path, out: &mut Out<'_>) -> Result<(), ForeignError> {
    let mut files = Vec::new();
    walk(path, path, 0, &mut files, out)?;
    if files.is_empty() {
        let why = "is a folder without Markdown notes; name a folder that has some, or a file";
        return Err(ForeignError::Wrong(format!("{} {why}", path.display())));
    }
    files.sort();
    let mut names = Names::default();
    let mut links = Vec::new();
    for file in files {
        let Some(note) = read(path, &file, out)? else { continue };
        names.add(&note);
        let (mut observations, found) = parts(&note.body);
        if observations.len() + found.len() > PARTS_MAX {
            out.skip(&note.path, format!("has more than {PARTS_MAX} observations and links"));
            observations.truncate(PARTS_MAX);
        }
        let at = at(&note);
        if out.item(note.item())?.is_none() {
            continue;
        }
        for (nth, observation) in observations.into_iter().enumerate() {
            let key = format!("{}#{}", note.path, nth + 1);
            out.item(observation.into_item(&key, &note, at))?;
            out.edge(&key, &note.path, "observation_of", "", at);
        }
        links.extend(found.into_iter().take(PARTS_MAX).map(|link| (note.path.clone(), link, at)));
    }
    for (from, link, at) in links {
        match names.find(&link.target) {
            Some(to) if *to == from => {}
            Some(to) => out.edge(&from, to, &link.relation, "", at),
            None => out
                .skip(&from, format!("links to `{}`, which is no note of the vault", link.target)),
        }
    }
    Ok(())
}

/// Collects the notes below `folder`. Names that begin with a dot belong to the program and are skipped; symbolic links
/// are not followed.
fn walk(
    root: &Path,
    folder: &Path,
    depth: usize,
    files: &mut Vec<PathBuf>,
    out: &mut Out<'_>,
) -> Result<(), ForeignError> {
    let place =
        |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    let failed = |error| ForeignError::Reading(folder.to_owned(), error);
    if depth > DEPTH_MAX {
        out.skip(&place(folder), format!("lies more than {DEPTH_MAX} folders deep"));
        return Ok(());
    }
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let is_note = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
        if kind.is_dir() {
            walk(root, &path, depth + 1, files, out)?;
        } else if !kind.is_file() || !is_note {
            out.skip(&place(&path), "is no Markdown note; recalld ingest reads other files");
        } else if files.len() == VAULT_FILES_MAX {
            out.skip(&place(&path), format!("there are more than {VAULT_FILES_MAX} notes"));
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads a note; `None` if the file cannot be a note, which is recorded as skipped.
fn read(root: &Path, file: &Path, out: &mut Out<'_>) -> Result<Option<Note>, ForeignError> {
    let path = file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
    let failed = |error| ForeignError::Reading(file.to_owned(), error);
    let Some(opened) = regular_file::open(file).map_err(failed)? else {
        out.skip(&path, "is not a file any more");
        return Ok(None);
    };
    let mut whole = Vec::new();
    opened.take(NOTE_BYTES_MAX + 1).read_to_end(&mut whole).map_err(failed)?;
    if whole.len() as u64 > NOTE_BYTES_MAX {
        out.skip(&path, format!("has more than {NOTE_BYTES_MAX} bytes"));
        return Ok(None);
    }
    let Ok(whole) = String::from_utf8(whole) else {
        out.skip(&path, "is not UTF-8");
        return Ok(None);
    };
    let whole = whole.strip_prefix('\u{feff}').unwrap_or(&whole).replace("\r\n", "\n");
    let (front, body) = split(&whole);
    let front = match front.map(serde_saphyr::from_str::<Value>) {
        None => Map::new(),
        Some(Ok(Value::Object(front))) => front,
        Some(Ok(Value::Null)) => Map::new(),
        Some(_) => {
            out.skip(&path, "its front matter is no YAML of keys and values, and is left out");
            Map::new()
        }
    };
    Ok(Some(Note { path, front, body: body.to_owned() }))
}

/// Splits the text into front matter, between two lines of three dashes at the start, and the rest.
fn split(whole: &str) -> (Option<&str>, &str) {
    let Some(rest) = whole.strip_prefix("---\n") else { return (None, whole) };
    let end = rest
        .find("\n---\n")
        .map(|at| (at, at + 5))
        .or_else(|| rest.strip_suffix("\n---").map(|front| (front.len(), rest.len())));
    match end {
        Some((end, body)) if end <= FRONT_BYTES_MAX => (Some(&rest[..end]), &rest[body..]),
        _ => (None, whole),
    }
}

fn at(note: &Note) -> Option<engine::Micros> {
    ["updated", "modified", "updated_at", "created", "created_at", "date"]
        .iter()
        .find_map(|name| note.front.get(*name).and_then(time))
}

/// Returns a file's name without folders and extension.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

impl Note {
    fn title(&self) -> String {
        let front = Value::Object(self.front.clone());
        match text(&front, &["title"]) {
            "" => stem(&self.path).to_owned(),
            title => title.to_owned(),
        }
    }

    fn item(&self) -> Item {
        let front = Value::Object(self.front.clone());
        let title = self.title();
        let body = self.body.trim();
        let mut tagged = tags(&front["tags"]);
        tagged.extend(hashtags(&self.body));
        Item {
            key: self.path.clone(),
            kind: text(&front, &["type", "kind"]).to_owned(),
            // The body of a note may be empty; its title is then its text.
            text: if body.is_empty() { title.clone() } else { body.to_owned() },
            title,
            tags: tagged,
            attributes: rest(&front, &["title", "type", "kind", "tags"]),
            at: at(self),
            part: self.path.clone(),
            ..Item::default()
        }
    }
}

impl Observation {
    fn into_item(self, key: &str, note: &Note, at: Option<engine::Micros>) -> Item {
        let mut attributes = Map::new();
        attributes.insert("category".to_owned(), self.category.clone().into());
        if !self.context.is_empty() {
            attributes.insert("context".to_owned(), self.context.into());
        }
        Item {
            key: key.to_owned(),
            kind: "observation".to_owned(),
            title: format!("{}: {}", note.title(), self.category),
            text: self.said,
            tags: self.tags,
            attributes,
            at,
            part: note.path.clone(),
            ..Item::default()
        }
    }
}

/// Returns the observations and links of a text, except those in fenced code.
fn parts(body: &str) -> (Vec<Observation>, Vec<Link>) {
    let (mut observations, mut links) = (Vec::new(), Vec::new());
    let mut fence = None;
    for line in body.lines() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        if fence.is_some() || mark.is_some() {
            continue;
        }
        if let Some(observation) = observation(line) {
            observations.push(observation);
        }
        links.extend(links_of(line));
    }
    (observations, links)
}

fn observation(line: &str) -> Option<Observation> {
    let rest = line.trim_start().strip_prefix("- [")?;
    let (category, said) = rest.split_once(']')?;
    let said = said.strip_prefix(' ')?.trim();
    // A one-character category is a task checkbox, and a leading bracket is a wiki link.
    if category.trim().chars().count() <= 1 || category.starts_with('[') || said.is_empty() {
        return None;
    }
    let (said, context) = match said.strip_suffix(')').and_then(|said| said.rsplit_once(" (")) {
        Some((said, context)) => (said, context),
        None => (said, ""),
    };
    Some(Observation {
        category: category.trim().to_owned(),
        tags: hashtags(said).collect(),
        said: said.to_owned(),
        context: context.to_owned(),
    })
}

/// Returns each `#tag` at the start of a word.
fn hashtags(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_whitespace().filter_map(|token| {
        let tag = token.strip_prefix('#')?.trim_end_matches(|c: char| !c.is_alphanumeric());
        let is_tag = tag.chars().next().is_some_and(char::is_alphabetic)
            && tag.chars().all(|c| c.is_alphanumeric() || "-_/".contains(c));
        is_tag.then(|| tag.to_owned())
    })
}

/// Returns the wiki links of a line. If a list item is some words and one link, the words are the link's relation.
fn links_of(line: &str) -> Vec<Link> {
    let mut links = Vec::new();
    let bullet = line.trim_start().strip_prefix("- ");
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("[[") {
        let Some((inner, behind)) = after.split_once("]]") else { break };
        let target = inner.split(['|', '#', '^']).next().unwrap_or_default().trim();
        let said = bullet
            .filter(|_| links.is_empty())
            .and_then(|bullet| bullet.split_once("[["))
            .map(|(said, _)| said.trim());
        let is_relation = said.is_some_and(|said| {
            !said.is_empty()
                && said.split_whitespace().count() <= 4
                && behind
                    .trim()
                    .chars()
                    .all(|c| c == '.' || c == '(' || c == ')' || c.is_alphanumeric() || c == ' ')
                && !said.starts_with('[')
                && !before.ends_with('!')
        });
        let relation = said
            .filter(|_| is_relation)
            .map_or_else(|| "links_to".to_owned(), |said| word(said, "links_to"));
        if !target.is_empty() {
            links.push(Link { relation, target: target.to_owned() });
        }
        rest = behind;
    }
    links
}
/// Names of notes in links: path, path without extension, file name, title, permalink, aliases; case-insensitive.
#[derive(Default)]
struct Names {
    paths: HashMap<String, String>,
}

impl Names {
    fn add(&mut self, note: &Note) {
        let front = Value::Object(note.front.clone());
        let bare = note.path.rsplit_once('.').map_or(note.path.as_str(), |(bare, _)| bare);
        let mut called =
            vec![note.path.clone(), bare.to_owned(), stem(&note.path).to_owned(), note.title()];
        called.push(text(&front, &["permalink"]).to_owned());
        called.extend(tags(&front["aliases"]));
        for name in called.into_iter().filter(|name| !name.is_empty()) {
            // If two notes have one name, the first note is linked, as in the source programs.
            self.paths.entry(name.to_lowercase()).or_insert_with(|| note.path.clone());
        }
    }

    fn find(&self, target: &str) -> Option<&String> {
        self.paths.get(&target.to_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_has_its_category_tags_and_context() {
        let found = observation("- [decision] We use epoll #net #linux (fleet kernels)").unwrap();
        assert_eq!(
            (&*found.category, &*found.said, &*found.context),
            ("decision", "We use epoll #net #linux", "fleet kernels")
        );
        assert_eq!(found.tags, ["net", "linux"]);
        for line in
            ["- [ ] a box", "- [x] a ticked one", "- [[a link]]", "- [a](b)", "text", "- [tip]"]
        {
            assert_eq!(observation(line), None, "{line}");
        }
    }

    #[test]
    fn a_link_is_called_what_stands_before_it_in_a_list() {
        let of = |line: &str| -> Vec<(String, String)> {
            links_of(line).into_iter().map(|link| (link.relation, link.target)).collect()
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(of("- depends on [[Lamp Room]]"), [pair("depends_on", "Lamp Room")]);
        assert_eq!(
            of("See [[A|the a]] and [[B#part]]."),
            [pair("links_to", "A"), pair("links_to", "B")]
        );
        assert_eq!(of("no [[end"), []);
        let (observations, links) = parts("```\n- [x y] z [[A]]\n```\n- [fact] said");
        assert_eq!((observations.len(), links.len()), (1, 0));
    }

    #[test]
    fn front_matter_ends_where_it_says() {
        assert_eq!(split("---\ntitle: a\n---\nbody"), (Some("title: a"), "body"));
        assert_eq!(split("---\ntitle: a\n---"), (Some("title: a"), ""));
        assert_eq!(split("---\nno end"), (None, "---\nno end"));
        assert_eq!(split("body"), (None, "body"));
    }
}
