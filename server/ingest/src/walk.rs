//! Listing of readable files below an allowed root.
//!
//! Owns the order (sorted by name, so two walks agree), the bounds, and the reasons for skipped entries. Reads folders
//! only; files are opened and checked again when they are read.

use std::fmt;
use std::os::fd::OwnedFd;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use rustix::fs::Dir;

use recalld_fs_util::beneath::{open_entry, refusal};
use recalld_fs_util::roots::{Allowed, FILE_BYTES_MAX, Refused, allowed, join};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of files listed by one walk.
    pub const FILES_MAX: usize = 50_000;
    /// Maximum depth of folders, counted from the start of the walk.
    pub const DEPTH_MAX: usize = 32;
    /// Maximum number of entries of one folder.
    pub const FOLDER_ENTRIES_MAX: usize = 100_000;
    /// Maximum number of entries visited by one walk, listed or skipped.
    pub const ENTRIES_MAX: usize = 1_000_000;
    /// Maximum number of skipped entries reported; the rest is counted.
    pub const SKIPPED_MAX: usize = 1_000;
    /// Maximum number of patterns to include, and of patterns to exclude.
    pub const PATTERNS_MAX: usize = 64;
    /// Maximum length of a pattern in bytes.
    pub const PATTERN_BYTES_MAX: usize = 512;
}

/// Folders of generated files.
const IGNORED_FOLDERS: &[&str] = &["target", "node_modules", "__pycache__", "venv"];

/// Selection rules of a walk.
#[derive(Debug)]
pub struct Rules {
    recursive: bool,
    include: Option<GlobSet>,
    exclude: GlobSet,
    files_max: usize,
    entries_max: usize,
}

/// An invalid pattern.
#[derive(Debug)]
pub struct BadPattern {
    pattern: String,
    why: String,
}

impl fmt::Display for BadPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the pattern `{}` {}; globs such as `*.md` or `docs/**` are allowed",
            self.pattern, self.why
        )
    }
}

impl std::error::Error for BadPattern {}

impl Rules {
    /// Rules with globs over paths relative to the start of the walk. A pattern without `/` matches names at any depth;
    /// `*` does not cross `/`. An empty `include` means everything.
    ///
    /// # Errors
    /// If a pattern is malformed or too long, or there are too many patterns.
    pub fn new(
        recursive: bool,
        include: &[String],
        exclude: &[String],
    ) -> Result<Self, BadPattern> {
        let chosen = if include.is_empty() { None } else { Some(patterns(include)?) };
        Ok(Self {
            recursive,
            include: chosen,
            exclude: patterns(exclude)?,
            files_max: FILES_MAX,
            entries_max: ENTRIES_MAX,
        })
    }

    /// Lowers the bound on files to `files_max`.
    #[must_use]
    pub fn at_most(mut self, files_max: usize) -> Self {
        self.files_max = files_max.min(FILES_MAX);
        self
    }
}

fn patterns(written: &[String]) -> Result<GlobSet, BadPattern> {
    let bad = |pattern: &str, why: String| BadPattern {
        pattern: pattern.chars().take(80).collect(),
        why,
    };
    if written.len() > PATTERNS_MAX {
        return Err(bad(
            &written[PATTERNS_MAX],
            format!("is one too many of {}; at most {PATTERNS_MAX}", written.len()),
        ));
    }
    let mut set = GlobSetBuilder::new();
    for pattern in written {
        if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
            return Err(bad(
                pattern,
                format!("has {} bytes of 1 to {PATTERN_BYTES_MAX}", pattern.len()),
            ));
        }
        set.add(
            glob(pattern)
                .map_err(|error| bad(pattern, format!("is malformed: {}", error.kind())))?,
        );
    }
    set.build().map_err(|error| bad(&written.join(" "), format!("is malformed: {}", error.kind())))
}

fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    let anywhere = if pattern.trim_end_matches('/').contains('/') { "" } else { "**/" };
    let plain = pattern.trim_start_matches("./").trim_start_matches('/').trim_end_matches('/');
    GlobBuilder::new(&format!("{anywhere}{plain}")).literal_separator(true).build()
}

/// A listed file, to be opened by `Roots::resolve(&path)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Canonical absolute path.
    pub path: String,
    /// Path below the root, `/` between parts.
    pub relative: String,
    /// Size in bytes at the time of the listing.
    pub bytes: u64,
    /// Modification time at the time of the listing, in seconds since 1970.
    pub modified: i64,
}

/// A skipped entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Absolute path, with U+FFFD for bytes that are not UTF-8.
    pub path: String,
    /// Reason, for people.
    pub reason: String,
}

/// Reason for which a walk ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The bound on files was reached.
    Files,
    /// The bound on entries was reached.
    Entries,
    /// The walk was cancelled.
    CalledOff,
}

/// Result of a walk.
#[derive(Debug, Default)]
pub struct Listing {
    /// Listed files in order of path, with names compared byte by byte.
    pub files: Vec<Listed>,
    /// Skipped entries in the order of the walk, at most `SKIPPED_MAX`.
    pub skipped: Vec<Skipped>,
    /// Number of all skipped entries.
    pub skipped_count: u64,
    /// Reason for which the walk ended early; `None` if complete.
    pub cut_short: Option<Cut>,
}

impl Listing {
    fn skip(&mut self, path: String, reason: impl Into<String>) {
        self.skipped_count += 1;
        if self.skipped.len() < SKIPPED_MAX {
            self.skipped.push(Skipped { path, reason: reason.into() });
        }
    }
}

/// An open folder and its remaining names, last name first.
struct Frame {
    fd: OwnedFd,
    /// Path below the root.
    relative: String,
    left: Vec<String>,
}

/// Lists the file at `start`, or the files below the folder at `start`, until `is_over` returns true.
///
/// # Errors
/// If the folder itself cannot be read. Errors below it are reported as skipped entries.
pub fn walk(
    start: &Allowed,
    rules: &Rules,
    is_over: &dyn Fn() -> bool,
) -> Result<Listing, Refused> {
    let mut listing = Listing::default();
    if !start.is_folder() {
        add_file(&mut listing, start);
        return Ok(listing);
    }
    let fd = start.fd().try_clone_to_owned().map_err(Refused::Io)?;
    let mut frames = vec![open_frame(fd, start.relative().to_owned(), start.root(), &mut listing)?];
    let mut entries = 0;
    while let Some(frame) = frames.last_mut() {
        let Some(name) = frame.left.pop() else {
            frames.pop();
            continue;
        };
        listing.cut_short = match () {
            () if listing.files.len() >= rules.files_max => Some(Cut::Files),
            () if entries >= rules.entries_max => Some(Cut::Entries),
            () if is_over() => Some(Cut::CalledOff),
            () => None,
        };
        if listing.cut_short.is_some() {
            break;
        }
        entries += 1;
        let relative = if frame.relative.is_empty() {
            name.clone()
        } else {
            format!("{}/{name}", frame.relative)
        };
        let path = join(start.root(), &relative);
        let entry = open_entry(std::os::fd::AsFd::as_fd(&frame.fd), &name);
        let found =
            match entry.and_then(|fd| allowed(start.root().to_owned(), relative.clone(), fd)) {
                Ok(found) => found,
                Err(why) => {
                    listing.skip(path, why.to_string());
                    continue;
                }
            };
        let below =
            relative.strip_prefix(start.relative()).unwrap_or(&relative).trim_start_matches('/');
        if let Some(reason) = passed_over(&found, below, rules, frames.len()) {
            listing.skip(path, reason);
        } else if found.is_folder() {
            match found
                .fd()
                .try_clone_to_owned()
                .map_err(Refused::Io)
                .and_then(|fd| open_frame(fd, relative, start.root(), &mut listing))
            {
                Ok(frame) => frames.push(frame),
                Err(why) => listing.skip(path, why.to_string()),
            }
        } else {
            add_file(&mut listing, &found);
        }
    }
    Ok(listing)
}

/// The reason for which an entry is skipped, if any. `below` is the entry's path from the start of the walk.
fn passed_over(found: &Allowed, below: &str, rules: &Rules, depth: usize) -> Option<String> {
    let name = found.name();
    if name.starts_with('.') {
        return Some("hidden: its name starts with a dot".to_owned());
    }
    if rules.exclude.is_match(below) {
        return Some("excluded by a pattern".to_owned());
    }
    if !found.is_folder() {
        return rules
            .include
            .as_ref()
            .filter(|set| !set.is_match(below))
            .map(|_| "matches no pattern to include".to_owned());
    }
    if IGNORED_FOLDERS.contains(&name) {
        return Some(format!(
            "`{name}` folders hold what tools made; name the folder itself to read it"
        ));
    }
    if !rules.recursive {
        return Some("a folder, and the walk is not recursive".to_owned());
    }
    (depth > DEPTH_MAX).then(|| format!("deeper than {DEPTH_MAX} folders"))
}

fn add_file(listing: &mut Listing, file: &Allowed) {
    if file.bytes() > FILE_BYTES_MAX {
        listing.skip(
            file.path(),
            format!("{} bytes long; at most {FILE_BYTES_MAX} are read", file.bytes()),
        );
        return;
    }
    listing.files.push(Listed {
        path: file.path(),
        relative: file.relative().to_owned(),
        bytes: file.bytes(),
        modified: file.modified(),
    });
}

/// Reads the names of a folder, sorted. Names that are not UTF-8 or have control characters are reported as skipped.
fn open_frame(
    fd: OwnedFd,
    relative: String,
    root: &str,
    listing: &mut Listing,
) -> Result<Frame, Refused> {
    let here = join(root, &relative);
    let mut left = Vec::new();
    for entry in Dir::read_from(&fd).map_err(refusal)? {
        let entry = entry.map_err(refusal)?;
        let name = entry.file_name();
        match name.to_str() {
            Ok("." | "..") => {}
            Ok(_) if left.len() >= FOLDER_ENTRIES_MAX => {
                listing.skip(
                    here,
                    format!("holds more than {FOLDER_ENTRIES_MAX} entries; the rest are left out"),
                );
                break;
            }
            Ok(name) if name.contains(char::is_control) => {
                let plain = name.replace(char::is_control, "\u{FFFD}");
                listing.skip(join(&here, &plain), "its name has control characters");
            }
            Ok(name) => left.push(name.to_owned()),
            Err(_) => listing.skip(join(&here, &name.to_string_lossy()), "its name is not UTF-8"),
        }
    }
    left.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Frame { fd, relative, left })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;
    use recalld_fs_util::scratch::Scratch;

    fn strings(all: &[&str]) -> Vec<String> {
        all.iter().map(|s| (*s).to_owned()).collect()
    }

    fn listed(
        folder: &Scratch,
        start: &str,
        rules: &Rules,
    ) -> (Vec<String>, Vec<(String, String)>) {
        let found = walk(&folder.roots().resolve(start).unwrap(), rules, &|| false).unwrap();
        let short =
            |path: String| path.strip_prefix(folder.path().to_str().unwrap()).unwrap().to_owned();
        let skipped = found.skipped.into_iter().map(|s| (short(s.path), s.reason)).collect();
        (found.files.into_iter().map(|f| f.relative).collect(), skipped)
    }

    fn sample() -> Scratch {
        let folder = Scratch::new("walk");
        for path in
            ["b.md", "a/z.md", "a/y.txt", "a/b/c.md", ".git/config", "target/x.md", "c.rs", ".env"]
        {
            folder.write(path, "x");
        }
        folder
    }

    #[test]
    fn files_come_sorted_and_the_rest_with_a_reason() {
        let folder = sample();
        symlink("b.md", folder.path().join("link")).unwrap();
        let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"odd\xFF.md"));
        std::fs::write(odd, "x").unwrap();
        folder.write("a/b/two\nlines.md", "x");
        let (files, skipped) = listed(&folder, ".", &Rules::new(true, &[], &[]).unwrap());
        assert_eq!(files, ["a/b/c.md", "a/y.txt", "a/z.md", "b.md", "c.rs"]);
        let reason = |path: &str| {
            skipped.iter().find(|(p, _)| p == path).map(|(_, why)| why.as_str()).unwrap()
        };
        assert!(reason("/.git").contains("hidden") && reason("/.env").contains("hidden"));
        assert!(reason("/target").contains("tools made"));
        assert!(reason("/link").contains("symbolic"));
        assert!(reason("/odd\u{FFFD}.md").contains("UTF-8"));
        assert!(reason("/a/b/two\u{FFFD}lines.md").contains("control characters"));
        assert_eq!(skipped.len(), 6);
    }

    #[test]
    fn globs_choose_by_name_or_by_path() {
        let folder = sample();
        let files = |include: &[&str], exclude: &[&str]| {
            listed(&folder, ".", &Rules::new(true, &strings(include), &strings(exclude)).unwrap()).0
        };
        assert_eq!(files(&["*.md"], &[]), ["a/b/c.md", "a/z.md", "b.md"]);
        assert_eq!(files(&["a/*.md"], &[]), ["a/z.md"]);
        assert_eq!(files(&["*.{md,rs}"], &["a/b"]), ["a/z.md", "b.md", "c.rs"]);
        assert!(Rules::new(true, &strings(&["a[", ""]), &[]).is_err());
    }

    #[test]
    fn bounds_and_single_files_hold() {
        let folder = sample();
        let rules = || Rules::new(true, &[], &[]).unwrap();
        assert_eq!(listed(&folder, "a/y.txt", &rules()).0, ["a/y.txt"]);
        assert_eq!(listed(&folder, "target", &rules()).0, ["target/x.md"]);
        assert_eq!(listed(&folder, ".", &Rules::new(false, &[], &[]).unwrap()).0, ["b.md", "c.rs"]);
        let cut = |rules: Rules, is_over: bool| {
            let start = folder.roots().resolve(".").unwrap();
            let cut = walk(&start, &rules, &|| is_over).unwrap();
            (cut.cut_short, cut.files.len())
        };
        assert_eq!(cut(rules().at_most(2), false), (Some(Cut::Files), 2));
        let few = Rules { entries_max: 5, ..rules() };
        assert_eq!(cut(few, false), (Some(Cut::Entries), 1), "what is passed over counts as well");
        assert_eq!(cut(rules(), true), (Some(Cut::CalledOff), 0));
        let deep = vec!["d"; DEPTH_MAX + 3].join("/");
        folder.write(&format!("{deep}/x.md"), "x");
        assert!(listed(&folder, "d", &rules()).1.iter().any(|(_, why)| why.contains("deeper")));
    }
}
