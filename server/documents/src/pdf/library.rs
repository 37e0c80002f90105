//! Extraction by the PDF library.
//!
//! Every call into the library may panic, so calls are wrapped in `catch_unwind`.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{
    Dictionary, Document, Error, Object, PlainTextOutput, decode_text_string, output_doc_page,
};

use super::told::{PAGES_MAX, PDF_TEXT_BYTES_MAX, Told};

const FIELDS: [&str; 4] = ["Title", "Author", "Subject", "Keywords"];

/// Returns the text and fields of a file.
pub(super) fn extract(bytes: &[u8]) -> Told {
    let mut document = match Document::load_mem(bytes) {
        Ok(document) => document,
        Err(error) if is_lock(&error) => return Told { is_locked: true, ..Told::default() },
        Err(error) => return Told::refuse(error),
    };
    // Files encrypted with an empty password may be read by everyone.
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Told { is_locked: true, ..Told::default() };
    }
    let mut told = Told { fields: fields(&document), ..Told::default() };
    let pages = document.get_pages();
    if pages.is_empty() {
        return Told::refuse("it has no pages");
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

/// Returns the text of a page, at most `room` bytes; `None` if the library fails or panics.
fn page(document: &Document, number: u32, room: usize) -> Option<Bounded> {
    let mut read = Bounded { text: Vec::new(), room, is_full: false };
    let done = catch_unwind(AssertUnwindSafe(|| {
        let writer: &mut dyn Write = &mut read;
        output_doc_page(document, &mut PlainTextOutput::new(writer), number)
    }));
    (matches!(done, Ok(Ok(()))) || read.is_full).then_some(read)
}

/// A writer that refuses text beyond its limit.
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

/// Fields of the file's information dictionary.
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
    // This library code may panic, too.
    catch_unwind(AssertUnwindSafe(said)).ok().flatten().unwrap_or_default()
}
