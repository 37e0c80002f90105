//! Allowed roots, and opening of paths beneath them.
//!
//! Defines the path policy: no `..`, no symbolic links below a root, regular files and folders only. The checked
//! descriptor is the one that is read, so a path swapped in between has no effect. `beneath` opens the path.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

use crate::beneath::{LOOK, READ, admit, descend, refusal};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum size of a file in bytes.
    pub const FILE_BYTES_MAX: u64 = 16 << 20;
    /// Maximum number of configured folders.
    pub const ROOTS_MAX: usize = 64;
    /// Maximum length of a path in bytes (Linux PATH_MAX).
    pub const PATH_BYTES_MAX: usize = 4_096;
    /// Maximum number of components below a root.
    pub const PATH_PARTS_MAX: usize = 128;
}

/// Bytes hashed between two checks for cancellation.
const PIECE_BYTES: usize = 64 << 10;

/// The configured folders, opened once.
#[derive(Debug)]
pub struct Roots {
    roots: Vec<Root>,
}

#[derive(Debug)]
struct Root {
    /// Canonical, UTF-8.
    path: String,
    /// The path as configured, if different: callers may use either spelling.
    written: String,
    folder: OwnedFd,
}

/// An open file or folder under a root. Changes of the path no longer affect reads.
#[derive(Debug)]
pub struct Allowed {
    root: String,
    relative: String,
    fd: OwnedFd,
    folder: bool,
    bytes: u64,
    modified: i64,
}

/// Error of the configured roots.
#[derive(Debug)]
#[non_exhaustive]
pub enum RootsError {
    /// More than `ROOTS_MAX`.
    TooMany(usize),
    /// Not a folder, missing, or not readable.
    Unusable(PathBuf, io::Error),
    /// The canonical path is not UTF-8.
    NotUtf8(PathBuf),
}

impl fmt::Display for RootsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(count) => {
                write!(out, "{count} folders to read from; at most {ROOTS_MAX} are allowed")
            }
            Self::Unusable(path, error) => {
                write!(out, "cannot read from {}: {error}; name a folder", path.display())
            }
            Self::NotUtf8(path) => {
                write!(out, "{} is not UTF-8; rename the folder", path.display())
            }
        }
    }
}

impl std::error::Error for RootsError {}

/// Reason for rejecting a path.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refused {
    /// Empty, too long, too deep, or with a control character, which could forge a line of a report.
    Malformed(&'static str),
    /// No folder is configured.
    NoRoots,
    /// Not beneath a configured folder; lists the configured folders.
    Outside(Vec<String>),
    /// The path contains `..`.
    Parent,
    /// The path contains a symbolic link.
    SymbolicLink,
    /// A device, fifo or socket.
    Special,
    /// The file does not exist.
    Missing,
    /// The error of the system.
    Io(io::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(out, "the path {what}"),
            Self::NoRoots => {
                write!(out, "no folder is open for ingest; the operator sets one with --ingest")
            }
            Self::Outside(roots) => {
                write!(out, "outside the folders open for ingest: {}", roots.join(", "))
            }
            Self::Parent => write!(out, "`..` is not followed; name the path without it"),
            Self::SymbolicLink => {
                write!(out, "symbolic links are not followed; name the file itself")
            }
            Self::Special => write!(out, "neither a regular file nor a folder"),
            Self::Missing => write!(out, "no such file or folder"),
            Self::Io(error) => write!(out, "cannot be opened: {error}"),
        }
    }
}

impl std::error::Error for Refused {}

impl Roots {
    /// Opens the configured folders.
    ///
    /// # Errors
    /// There are too many folders, or one of them is not a readable folder with a UTF-8 path.
    pub fn open(folders: &[PathBuf]) -> Result<Self, RootsError> {
        if folders.len() > ROOTS_MAX {
            return Err(RootsError::TooMany(folders.len()));
        }
        let mut roots: Vec<Root> = Vec::new();
        for folder in folders {
            let unusable = |error: io::Error| RootsError::Unusable(folder.clone(), error);
            let canonical = folder.canonicalize().map_err(unusable)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let fd = rustix::fs::open(&canonical, flags, Mode::empty())
                .map_err(|e| unusable(e.into()))?;
            let path = canonical
                .to_str()
                .ok_or_else(|| RootsError::NotUtf8(canonical.clone()))?
                .to_owned();
            if roots.iter().all(|known| known.path != path) {
                roots.push(Root {
                    path,
                    written: folder.to_string_lossy().into_owned(),
                    folder: fd,
                });
            }
        }
        Ok(Self { roots })
    }

    /// The canonical folders, in the order configured.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.roots.iter().map(|root| root.path.as_str())
    }

    /// Opens `path`: absolute and beneath a root, or relative to the first root that contains the path.
    ///
    /// # Errors
    /// The policy or the system rejects the path; `Refused` is the reason.
    pub fn resolve(&self, path: &str) -> Result<Allowed, Refused> {
        check_shape(path)?;
        if self.roots.is_empty() {
            return Err(Refused::NoRoots);
        }
        if !path.starts_with('/') {
            let relative = parts(Path::new(path))?;
            for root in &self.roots {
                match open_beneath(root, &relative) {
                    Err(Refused::Missing) => {}
                    other => return other,
                }
            }
            return Err(Refused::Missing);
        }
        let beneath = |root: &str| Path::new(path).strip_prefix(root).ok().map(Path::to_path_buf);
        // The longest root takes precedence, so that a file below nested roots has one name.
        let found = self.roots.iter().filter_map(|root| {
            let rest = beneath(&root.path).or_else(|| beneath(&root.written))?;
            Some((root.path.len(), root, rest))
        });
        match found.max_by_key(|(length, ..)| *length) {
            Some((_, root, rest)) => open_beneath(root, &parts(&rest)?),
            None => {
                parts(Path::new(path))?;
                Err(Refused::Outside(self.paths().map(str::to_owned).collect()))
            }
        }
    }
}

impl Allowed {
    /// Canonical absolute path.
    pub fn path(&self) -> String {
        join(&self.root, &self.relative)
    }

    /// The root that contains the file.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Path below the root with `/` between components; empty for the root itself.
    pub fn relative(&self) -> &str {
        &self.relative
    }

    /// Last component of the path.
    pub fn name(&self) -> &str {
        let path = if self.relative.is_empty() { &self.root } else { &self.relative };
        path.rsplit('/').next().unwrap_or(path)
    }

    /// Returns true for a folder.
    pub fn is_folder(&self) -> bool {
        self.folder
    }

    /// Size in bytes when opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Modification time when opened, in seconds since 1970.
    pub fn modified(&self) -> i64 {
        self.modified
    }

    /// Returns the SHA-256 of the whole content; `None` if `is_over` returned true between two chunks.
    ///
    /// # Errors
    /// The error of the system.
    pub fn sha256(&self, is_over: &dyn Fn() -> bool) -> io::Result<Option<[u8; 32]>> {
        let mut file = File::from(self.fd.try_clone()?);
        file.rewind()?;
        let mut hash = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            if is_over() {
                return Ok(None);
            }
            match file.read(&mut piece)? {
                0 => return Ok(Some(hash.finalize().into())),
                read => hash.update(&piece[..read]),
            }
        }
    }

    /// The open descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reads the whole content. Returns `None` if the content is longer than `FILE_BYTES_MAX`, whatever size was
    /// reported before.
    ///
    /// # Errors
    /// The error of the system.
    pub fn read_bytes(&self) -> io::Result<Option<Vec<u8>>> {
        let mut file = File::from(self.fd.try_clone()?);
        file.rewind()?;
        let mut bytes =
            Vec::with_capacity(usize::try_from(self.bytes.min(FILE_BYTES_MAX)).unwrap_or(0));
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= FILE_BYTES_MAX).then_some(bytes))
    }
}

/// Joins `root` and `relative`.
pub fn join(root: &str, relative: &str) -> String {
    match (root, relative) {
        (root, "") => root.to_owned(),
        ("/", relative) => format!("/{relative}"),
        (root, relative) => format!("{root}/{relative}"),
    }
}

fn check_shape(path: &str) -> Result<(), Refused> {
    if path.is_empty() {
        return Err(Refused::Malformed("is empty"));
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(Refused::Malformed("is longer than 4096 bytes"));
    }
    if path.contains(char::is_control) {
        return Err(Refused::Malformed("holds a control character"));
    }
    Ok(())
}

/// Returns the normal components of a path. Drops `.` and rejects `..`.
fn parts(path: &Path) -> Result<Vec<&str>, Refused> {
    let mut found = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => {
                found.push(name.to_str().ok_or(Refused::Malformed("is not UTF-8"))?)
            }
            Component::ParentDir => return Err(Refused::Parent),
            _ => {}
        }
    }
    if found.len() > PATH_PARTS_MAX {
        return Err(Refused::Malformed("has more than 128 parts"));
    }
    Ok(found)
}

fn open_beneath(root: &Root, parts: &[&str]) -> Result<Allowed, Refused> {
    // Inspected first: opening a device for reading may already have an effect.
    admit(&descend(root.folder.as_fd(), parts, LOOK).map_err(refusal)?)?;
    let fd = descend(root.folder.as_fd(), parts, READ).map_err(refusal)?;
    allowed(root.path.clone(), parts.join("/"), fd)
}

/// Wraps an open descriptor after checking its file type.
pub fn allowed(root: String, relative: String, fd: OwnedFd) -> Result<Allowed, Refused> {
    let (folder, bytes, modified) = admit(&fd)?;
    Ok(Allowed { root, relative, fd, folder, bytes, modified })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn files_are_opened_by_either_spelling() {
        let folder = Scratch::new("spelling");
        folder.write("a/b.md", "hi");
        let roots = folder.roots();
        for path in ["a/b.md", "./a//b.md", folder.path().join("a/b.md").to_str().unwrap()] {
            let found = roots.resolve(path).unwrap();
            assert_eq!(
                (found.relative(), found.name(), found.bytes(), found.is_folder()),
                ("a/b.md", "b.md", 2, false)
            );
            assert_eq!(found.read_bytes().unwrap().unwrap(), b"hi");
            assert_eq!(found.read_bytes().unwrap().unwrap(), b"hi", "reads again from the start");
        }
        assert!(roots.resolve(folder.path().to_str().unwrap()).unwrap().is_folder());
    }

    #[test]
    fn ways_out_are_refused() {
        let folder = Scratch::new("out");
        let other = Scratch::new("elsewhere");
        other.write("secret.md", "x");
        folder.write("in/a.md", "x");
        symlink(other.path(), folder.path().join("away")).unwrap();
        symlink(other.path().join("secret.md"), folder.path().join("file")).unwrap();
        symlink("in/a.md", folder.path().join("inner")).unwrap();
        symlink("in", folder.path().join("aside")).unwrap();
        let roots = folder.roots();
        let refused = |path: &str| roots.resolve(path).unwrap_err();
        assert!(matches!(refused("../x"), Refused::Parent));
        assert!(matches!(refused("in/../in/a.md"), Refused::Parent));
        assert!(matches!(
            refused(other.path().join("secret.md").to_str().unwrap()),
            Refused::Outside(_)
        ));
        assert!(matches!(refused("away/secret.md"), Refused::SymbolicLink));
        assert!(matches!(refused("file"), Refused::SymbolicLink));
        assert!(matches!(refused("inner"), Refused::SymbolicLink));
        assert!(
            matches!(refused("aside/a.md"), Refused::SymbolicLink),
            "even one that stays inside"
        );
        assert!(matches!(refused("nothing"), Refused::Missing));
        assert!(matches!(refused("a\0b"), Refused::Malformed(_)));
        assert!(matches!(refused("a\nerror: b"), Refused::Malformed(_)));
        assert!(matches!(refused(""), Refused::Malformed(_)));
        let sibling = format!("{}-more/x", folder.path().to_str().unwrap());
        assert!(matches!(refused(&sibling), Refused::Outside(_)), "a root is no string prefix");
    }

    #[test]
    fn fifos_and_sockets_are_refused_without_blocking() {
        let folder = Scratch::new("special");
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("fifo"), Mode::RUSR | Mode::WUSR)
            .unwrap();
        let roots = folder.roots();
        assert!(matches!(roots.resolve("fifo"), Err(Refused::Special)));
        assert!(matches!(roots.resolve("socket"), Err(Refused::Special)));
    }

    #[test]
    fn roots_must_be_folders() {
        let folder = Scratch::new("roots");
        folder.write("a.md", "x");
        assert!(matches!(
            Roots::open(&[folder.path().join("a.md")]),
            Err(RootsError::Unusable(..))
        ));
        assert!(matches!(Roots::open(&[folder.path().join("no")]), Err(RootsError::Unusable(..))));
        assert!(matches!(Roots::open(&[]).unwrap().resolve("x"), Err(Refused::NoRoots)));
    }
}
