//! The machine of a run: processor, memory, kernel, file system and peer versions. The report MUST NOT contain host
//! names or paths.

use std::fs;
use std::path::Path;

/// Lock file of this workspace, which has the versions that were linked.
const LOCK: &str = include_str!("../Cargo.lock");

/// Packages whose versions are reported.
const PACKAGES: [&str; 6] = ["engine", "rusqlite", "libsqlite3-sys", "redb", "tantivy", "petgraph"];

/// The machine, and the file system of the folder.
#[derive(Debug, Clone)]
pub struct Machine {
    processor: String,
    cores: usize,
    memory_gib: u64,
    kernel: String,
    file_system: String,
}

impl Machine {
    /// Names of the columns that [`Machine::csv`] fills.
    pub const CSV_HEAD: &str = "cpu,cores,memory_gib,kernel,filesystem";

    /// Queries the system; the stores are made in `folder`.
    pub fn look(folder: &Path) -> Self {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let processor =
            field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
        let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
        let kibibytes: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
        Self {
            processor: processor.replace(',', " "),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: kibibytes.div_ceil(1 << 20),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            file_system: file_system(folder),
        }
    }

    /// Returns true if the folder is on a memory file system, where durable writes cost nothing.
    pub fn is_memory_only(&self) -> bool {
        self.file_system == "tmpfs" || self.file_system == "ramfs"
    }

    /// Formats the machine for people.
    pub fn lines(&self) -> String {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
        let versions = PACKAGES.map(|name| format!("{name} {}", version(name))).join(", ");
        format!(
            "Machine: {}, {} cores, {} GiB, Linux {}, {}. Load average at the end: {load} (1, 5, 15 \
             minutes). Versions: {versions}, SQLite {}.\n",
            self.processor,
            self.cores,
            self.memory_gib,
            self.kernel,
            self.file_system,
            rusqlite::version(),
        )
    }

    /// Formats the machine as CSV columns.
    pub fn csv(&self) -> String {
        format!(
            "{},{},{},{},{}",
            self.processor, self.cores, self.memory_gib, self.kernel, self.file_system
        )
    }
}

/// Name of the file system under `folder`, by its magic number (linux/magic.h).
fn file_system(folder: &Path) -> String {
    let Ok(found) = rustix::fs::statfs(folder) else { return "unknown".to_owned() };
    match found.f_type {
        0xEF53 => "ext4".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0x9123_683E => "btrfs".to_owned(),
        0x0102_1994 => "tmpfs".to_owned(),
        0x8584_58F6 => "ramfs".to_owned(),
        0x794C_7630 => "overlayfs".to_owned(),
        0x2FC1_2FC1 => "zfs".to_owned(),
        other => format!("type {other:#x}"),
    }
}

fn version(package: &str) -> &'static str {
    let head = format!("name = \"{package}\"\nversion = \"");
    let rest = LOCK.split_once(&head).map_or("", |(_, rest)| rest);
    rest.split_once('"').map_or("unknown", |(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_a_version() {
        for package in PACKAGES {
            assert!(
                version(package).starts_with(|first: char| first.is_ascii_digit()),
                "{package}"
            );
        }
    }
}
