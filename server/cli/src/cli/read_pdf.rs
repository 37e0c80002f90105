//! The PDF reader: this program in a child process (`recalld read-pdf`).

use std::path::{Path, PathBuf};

use recalld_documents::PdfReader;

/// The running program, even if its file was replaced since the start.
const THIS: &str = "/proc/self/exe";

/// This program as PDF reader; `None` if the system does not report its path.
pub(super) fn this_program() -> Option<PdfReader> {
    let this = Some(PathBuf::from(THIS)).filter(|this| Path::exists(this));
    this.or_else(|| std::env::current_exe().ok()).map(PdfReader::new)
}
