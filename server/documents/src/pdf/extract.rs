//! The code of the child: reads a PDF from standard input, and writes its text as JSON to standard output.
//!
//! Sets the limits that a process can only set on itself.

use std::io::{self, Read, Write};
use std::panic::catch_unwind;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, setrlimit};

#[cfg(feature = "pdf")]
use super::library::extract;
use super::told::Told;
use recalld_fs_util::roots::FILE_BYTES_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Address space of the child: sixty times the largest file.
    const MEMORY_BYTES_MAX: u64 = 1 << 30;
    /// CPU seconds of the child: a parent that has exited cannot kill the child.
    const PROCESSOR_SECONDS_MAX: u64 = 60;
}

/// Reads standard input, writes standard output.
pub fn main() -> ExitCode {
    bound();
    // The library's panic messages are discarded.
    std::panic::set_hook(Box::new(|_| {}));
    let mut bytes = Vec::new();
    let told = match io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes) {
        Err(error) => Told::refuse(error),
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => Told::refuse("it is too long"),
        Ok(_) => {
            catch_unwind(|| extract(&bytes)).unwrap_or_else(|_| Told::refuse("its reader panicked"))
        }
    };
    let said = serde_json::to_vec(&told).unwrap_or_default();
    let mut out = io::stdout().lock();
    match out.write_all(&said).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(3),
    }
}

/// Limits memory, CPU time and file size, disables core files, and ties the process to the life of its parent.
fn bound() {
    let at_most = |most| Rlimit { current: Some(most), maximum: Some(most) };
    let bounds = [
        (Resource::As, MEMORY_BYTES_MAX),
        (Resource::Cpu, PROCESSOR_SECONDS_MAX),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ];
    for (resource, most) in bounds {
        // If the system lacks a limit, the parent's time limit still holds.
        let _ = setrlimit(resource, at_most(most));
    }
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

#[cfg(not(feature = "pdf"))]
fn extract(_: &[u8]) -> Told {
    Told::refuse("this program was built without the feature `pdf`")
}

#[cfg(all(test, not(feature = "pdf")))]
mod tests {
    use super::extract;

    #[test]
    fn without_the_feature_a_pdf_is_refused_with_the_reason() {
        let told = extract(b"%PDF-1.4");
        assert!(told.broken.is_some_and(|why| why.contains("feature `pdf`")));
    }
}
