//! What runs in the child: standard input is a PDF, standard output its text as JSON.
//!
//! Owns the bounds that a process can only set on itself, and what of the library's faults is caught.

use std::fmt;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use pdf_extract::{
    Dictionary, Document, Error, Object, PlainTextOutput, decode_text_string, output_doc_page,
};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::{PAGES_MAX, PDF_TEXT_BYTES_MAX, Told};
use recalld_fs_util::roots::FILE_BYTES_MAX;

/// Memory that the child may take, everything counted: sixty times the largest file.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// Seconds of a processor: a parent that is gone kills nobody.
const PROCESSOR_SECONDS_MAX: u64 = 60;
/// Letters of the library's own words.
const WHY_CHARS_MAX: usize = 200;

const FIELDS: [&str; 4] = ["Title", "Author", "Subject", "Keywords"];

/// Reads standard input, writes standard output.
pub fn main() -> ExitCode {
    bound();
    // What the library says when it panics is for nobody.
    std::panic::set_hook(Box::new(|_| {}));
    let mut bytes = Vec::new();
    let told = match io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes) {
        Err(error) => refuse(error),
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => refuse("it is too long"),
        Ok(_) => catch_unwind(|| extract(&bytes)).unwrap_or_else(|_| refuse("its reader panicked")),
    };
    let said = serde_json::to_vec(&told).unwrap_or_default();
    let mut out = io::stdout().lock();
    match out.write_all(&said).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(3),
    }
}

/// Bounds from now on: memory, time, no core file; and the end of the parent is this one's end.
fn bound() {
    let at_most = |most| Rlimit { current: Some(most), maximum: Some(most) };
    let bounds = [
        (Resource::As, MEMORY_BYTES_MAX),
        (Resource::Cpu, PROCESSOR_SECONDS_MAX),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ];
    for (resource, most) in bounds {
        // One that the system does not know is left to the parent's bound on time.
        let _ = setrlimit(resource, at_most(most));
    }
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

fn refuse(why: impl fmt::Display) -> Told {
    let why = why.to_string().chars().take(WHY_CHARS_MAX).collect();
    Told { broken: Some(why), ..Told::default() }
}

fn extract(bytes: &[u8]) -> Told {
    let mut document = match Document::load_mem(bytes) {
        Ok(document) => document,
        Err(error) if is_lock(&error) => return Told { is_locked: true, ..Told::default() },
        Err(error) => return refuse(error),
    };
    // Many files are encrypted with an empty password, which is to say that all may read them.
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Told { is_locked: true, ..Told::default() };
    }
    let mut told = Told { fields: fields(&document), ..Told::default() };
    let pages = document.get_pages();
    if pages.is_empty() {
        return refuse("it has no pages");
    }
    let mut room = PDF_TEXT_BYTES_MAX;
    for (at, &number) in pages.keys().enumerate() {
        if at >= PAGES_MAX || room == 0 {
            told.is_cut = true;
            break;
        }
        match page(&document, number, room) {
            Some(read) => {
                room = if read.is_full { 0 } else { room - read.text.len() };
                told.is_cut |= read.is_full;
                told.pages.push((number, String::from_utf8_lossy(&read.text).into_owned()));
            }
            None => told.broken_pages.push(number),
        }
    }
    told
}

fn is_lock(error: &Error) -> bool {
    matches!(error, Error::Decryption(_) | Error::InvalidPassword)
}

/// The text of a page, at most `room` bytes of it; nothing where the library fails or panics.
fn page(document: &Document, number: u32, room: usize) -> Option<Bounded> {
    let mut read = Bounded { text: Vec::new(), room, is_full: false };
    let done = catch_unwind(AssertUnwindSafe(|| {
        let writer: &mut dyn Write = &mut read;
        output_doc_page(document, &mut PlainTextOutput::new(writer), number)
    }));
    (matches!(done, Ok(Ok(()))) || read.is_full).then_some(read)
}

/// A text that refuses what is too much.
struct Bounded {
    text: Vec<u8>,
    room: usize,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.text.len() + more.len() > self.room {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.text.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the file says of itself.
fn fields(document: &Document) -> Vec<(String, String)> {
    let said = || {
        let info: &Dictionary = match document.trailer.get(b"Info").ok()? {
            Object::Reference(id) => document.get_dictionary(*id).ok()?,
            other => other.as_dict().ok()?,
        };
        let value = |name: &&str| {
            let value = info.get(name.as_bytes()).ok()?;
            let value = match value {
                Object::Reference(id) => document.get_object(*id).ok()?,
                other => other,
            };
            let value = decode_text_string(value).ok()?;
            (!value.trim().is_empty()).then(|| ((*name).to_owned(), value))
        };
        Some(FIELDS.iter().filter_map(value).collect())
    };
    // It may panic as any of the library may.
    catch_unwind(AssertUnwindSafe(said)).ok().flatten().unwrap_or_default()
}
