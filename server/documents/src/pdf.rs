//! PDF: its text by pages, each page below a heading of its own.
//!
//! Turns pages into a document. The PDF library runs in a child process (`child` starts it, `extract` runs in it and
//! calls `library`), because a file can make the library loop, panic or exhaust memory.

mod child;
mod extract;
#[cfg(feature = "pdf")]
mod library;
mod told;

use super::document::{Document, HEADING_CHARS_MAX, Heading, Source, add_field, tidy, tile};
use super::format::{Format, Unread};
use recalld_common::cancel::CallScope;
use recalld_common::counted::{agreed, counted};

use told::{PAGES_MAX, PDF_TEXT_BYTES_MAX, Told};

pub use child::PdfReader;
pub use child::SUBCOMMAND;
pub use extract::main;

limit_table::limits! {
    pub(crate) const LIMITS = [child, extract, told];

    /// Numbers of unreadable pages that are listed; further ones are only counted.
    const TOLD_MAX: usize = 20;
}

/// Reads a PDF in a child process of the program that `reader` names.
pub(super) fn read(
    reader: Option<&PdfReader>,
    bytes: &[u8],
    call: CallScope<'_>,
) -> Result<Document, Unread> {
    let Some(reader) = reader else {
        let why = "a PDF; the program that reads PDFs was not named";
        return Err(Unread::Broken(why.to_owned()));
    };
    let told = reader.run(bytes, call)?;
    if told.is_locked {
        return Err(Unread::Wordless("a PDF that is locked by a password".to_owned()));
    }
    if let Some(why) = told.broken {
        return Err(Unread::Broken(format!("a PDF that cannot be read: {why}")));
    }
    let has_words = told.pages.iter().any(|(_, text)| !text.trim().is_empty());
    if !has_words && !told.broken_pages.is_empty() {
        let why = "a PDF that cannot be read: none of its pages can";
        return Err(Unread::Broken(why.to_owned()));
    }
    if !has_words {
        let why = "a PDF without text, such as scanned pages; text is not read off pictures";
        return Err(Unread::Wordless(why.to_owned()));
    }
    Ok(document(told))
}

fn document(told: Told) -> Document {
    let mut text = String::new();
    let mut headings = Vec::new();
    for (number, page) in &told.pages {
        let page = plain(page);
        if page.is_empty() {
            continue;
        }
        let (at, title) = (text.len(), format!("Page {number}"));
        headings.push(Heading { at, body_start: at, level: 1, title, symbol: None });
        text.push_str(&page);
        text.push_str("\n\n");
    }
    let mut fields = Vec::new();
    told.fields.iter().for_each(|(name, value)| add_field(&mut fields, name, value));
    add_field(&mut fields, "Pages", &(told.pages.len() + told.broken_pages.len()).to_string());
    let title = told.fields.iter().find(|(name, _)| name == "Title");
    let title = title.map(|(_, title)| tidy(title, HEADING_CHARS_MAX));
    let title = title.filter(|title| !title.eq_ignore_ascii_case("untitled"));
    let mut lost = Vec::new();
    if !told.broken_pages.is_empty() {
        let first: Vec<String> =
            told.broken_pages.iter().take(TOLD_MAX).map(u32::to_string).collect();
        let count = told.broken_pages.len();
        lost.push(format!(
            "{} cannot be read and {} left out: {}",
            counted(count, "page"),
            agreed(count, "was", "were"),
            first.join(", ")
        ));
    }
    if told.is_cut {
        lost.push(format!(
            "no more than {} read: at most {PAGES_MAX} and {PDF_TEXT_BYTES_MAX} bytes are",
            counted(told.pages.len(), "page")
        ));
    }
    let mut notes = Vec::new();
    let sections = tile(text.len(), headings, &mut notes);
    Document {
        title: title.unwrap_or_default(),
        format: Format::Pdf,
        modality: Format::Pdf.modality(),
        sections,
        keep: Vec::new(),
        links: Vec::new(),
        fields,
        notes: notes.into_iter().chain(lost.iter().cloned()).collect(),
        lost: (!lost.is_empty()).then(|| lost.join("; ")),
        source: Source::Verbatim,
        text,
    }
}

/// Returns a page without control characters and with at most one consecutive blank line.
fn plain(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut blank = 0;
    for line in page.lines() {
        let line: String = line.chars().filter(|letter| !letter.is_control()).collect();
        let line = line.trim_end();
        blank = if line.trim().is_empty() { blank + 1 } else { 0 };
        if blank < 2 {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pages: &[&str]) -> Told {
        let pages = pages.iter().zip(1..).map(|(text, number)| (number, (*text).to_owned()));
        Told { pages: pages.collect(), ..Told::default() }
    }

    #[test]
    fn each_page_has_a_heading_and_empty_ones_none() {
        let mut told = told(&["one\n\n\n\n\nmore", " \n", "three\u{7}"]);
        told.fields = vec![("Title".to_owned(), "A  title".to_owned())];
        let document = document(told);
        assert_eq!(document.text, "one\n\nmore\n\nthree\n\n");
        let paths: Vec<_> = document.sections.iter().map(|s| s.heading_path.join("/")).collect();
        assert_eq!(paths, ["Page 1", "Page 3"]);
        assert_eq!((document.title.as_str(), document.modality), ("A title", "pdf"));
    }

    #[test]
    fn without_the_program_it_is_said() {
        let error = read(None, b"%PDF-1.4", CallScope::endless()).unwrap_err();
        assert!(matches!(error, Unread::Broken(why) if why.contains("was not named")));
    }
}
