//! A temporary folder for tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::roots::Roots;

/// A temporary folder of one test, removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder in the system's temporary folder.
    ///
    /// # Panics
    /// The folder cannot be created.
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!(
            "recalld-{name}-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).expect("a temporary folder can be used");
        Self(path.canonicalize().expect("a temporary folder can be used"))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the folder as an allowed root.
    ///
    /// # Panics
    /// The folder no longer exists.
    pub fn roots(&self) -> Roots {
        Roots::open(std::slice::from_ref(&self.0)).expect("a temporary folder can be used")
    }

    /// Writes a file beneath the folder and creates missing parents.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().expect("a temporary folder can be used"))
            .expect("a temporary folder can be used");
        std::fs::write(path, text).expect("a temporary folder can be used");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the temporary folder is no reason to fail a test.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
