//! Opening of a path beneath an open folder, and nowhere else.
//!
//! Wraps the system calls. Linux resolves in the kernel (openat2(2), RESOLVE_BENEATH). Elsewhere, or if that call is
//! missing, each component is opened from its parent with O_NOFOLLOW, which gives the same guarantee. Applies no policy
//! beyond the errors of `Refused`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::roots::Refused;

/// Returns whether the file is a folder, its size in bytes and its modification time. Rejects devices, FIFOs and
/// sockets.
pub(super) fn admit(fd: &OwnedFd) -> Result<(bool, u64, i64), Refused> {
    let stat = rustix::fs::fstat(fd).map_err(refusal)?;
    let bytes = u64::try_from(stat.st_size).unwrap_or(0);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((false, bytes, stat.st_mtime)),
        FileType::Directory => Ok((true, 0, stat.st_mtime)),
        FileType::Symlink => Err(Refused::SymbolicLink),
        _ => Err(Refused::Special),
    }
}

/// Maps the error of an open. With O_NOFOLLOW, a symbolic link causes ELOOP, or ENOTDIR if not the last component.
pub fn refusal(error: Errno) -> Refused {
    match error {
        Errno::LOOP | Errno::MLINK | Errno::XDEV => Refused::SymbolicLink,
        Errno::NOENT | Errno::NOTDIR => Refused::Missing,
        Errno::NXIO | Errno::NODEV => Refused::Special,
        other => Refused::Io(other.into()),
    }
}

/// Flags for inspection without any effect on the file.
#[cfg(target_os = "linux")]
pub(super) const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Without O_PATH, a non-blocking read-only open has the least effect.
#[cfg(not(target_os = "linux"))]
pub(super) const LOOK: OFlags = READ;
/// Flags for reading. A FIFO does not block, and a terminal does not become the controlling terminal.
pub(super) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

#[cfg(target_os = "linux")]
pub(super) fn descend(
    root: BorrowedFd<'_>,
    parts: &[&str],
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let path = if parts.is_empty() { ".".to_owned() } else { parts.join("/") };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), how) {
        // Old kernels lack the call; some sandboxes reject calls that they do not know.
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(root, parts, flags),
        // A concurrent rename in the tree; the fallback does not have this error.
        Err(Errno::AGAIN) => step_by_step(root, parts, flags),
        other => other,
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn descend(
    root: BorrowedFd<'_>,
    parts: &[&str],
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    step_by_step(root, parts, flags)
}

/// Opens one component at a time, each in the folder before it and never through a symbolic link.
fn step_by_step(
    root: BorrowedFd<'_>,
    parts: &[&str],
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let Some((last, folders)) = parts.split_last() else {
        return rustix::fs::openat(root, ".", flags, Mode::empty());
    };
    let mut held: Option<OwnedFd> = None;
    for folder in folders {
        let parent = held.as_ref().map_or(root, AsFd::as_fd);
        held = Some(open_folder(parent, folder)?);
    }
    rustix::fs::openat(held.as_ref().map_or(root, AsFd::as_fd), *last, flags, Mode::empty())
}

/// Opens the folder `name` of `parent`. Distinguishes a symbolic link from a missing folder.
fn open_folder(parent: BorrowedFd<'_>, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(|error| {
        let link = rustix::fs::statat(parent, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
        if error == Errno::NOTDIR && link { Errno::LOOP } else { error }
    })
}

/// Opens the entry `name` of an open folder for reading. A single component leaves no path to race.
pub fn open_entry(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Refused> {
    admit(&rustix::fs::openat(parent, name, LOOK, Mode::empty()).map_err(refusal)?)?;
    rustix::fs::openat(parent, name, READ, Mode::empty()).map_err(refusal)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_slow_way_refuses_the_same() {
        let folder = Scratch::new("slow");
        folder.write("in/a.md", "x");
        symlink("in", folder.path().join("away")).unwrap();
        symlink("in/a.md", folder.path().join("file")).unwrap();
        let root = std::fs::File::open(folder.path()).unwrap();
        let root = root.as_fd();
        assert!(step_by_step(root, &["in", "a.md"], READ).is_ok());
        assert!(step_by_step(root, &[], READ).is_ok());
        let error = |parts: &[&str]| refusal(step_by_step(root, parts, READ).unwrap_err());
        assert!(matches!(error(&["away", "a.md"]), Refused::SymbolicLink));
        assert!(matches!(error(&["file"]), Refused::SymbolicLink));
        assert!(matches!(error(&["in", "no"]), Refused::Missing));
    }
}
