//! File format detection by the first bytes and the name.
//!
//! The content has precedence (a PDF named `notes.txt` is a PDF); the name chooses among text formats.

use super::format::{Format, Unreadable};
use super::language::Language;
use super::{decode, image, json_lines, table};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// First bytes that `detect` inspects; later bytes are ignored.
    pub const DETECT_BYTES: usize = 8_192;
    /// A PDF header begins within this many bytes (ISO 32000, implementation notes).
    const PDF_BEGINS_WITHIN: usize = 1_024;
}

/// Signature of a PDF.
const PDF: &[u8] = b"%PDF-";

/// Signatures of unsupported formats.
const SIGNATURES: &[(&[u8], Unreadable)] = &[
    (b"II*\0", Unreadable::Image),
    (b"MM\0*", Unreadable::Image),
    (b"\0\0\x01\0", Unreadable::Image),
    (b"PK\x03\x04", Unreadable::Archive),
    (b"\x1f\x8b", Unreadable::Archive),
    (b"BZh", Unreadable::Archive),
    (b"\xFD7zXZ\0", Unreadable::Archive),
    (b"\x28\xB5\x2F\xFD", Unreadable::Archive),
    (b"7z\xBC\xAF\x27\x1C", Unreadable::Archive),
    (b"\x7FELF", Unreadable::Binary),
    (b"SQLite format 3\0", Unreadable::Binary),
];

/// Returns the format of a file named `name` that begins with `head`.
///
/// # Errors
/// The reason for which the file cannot be read as text.
pub fn detect(name: &str, head: &[u8]) -> Result<Format, Unreadable> {
    let head = &head[..head.len().min(DETECT_BYTES)];
    for (signature, kind) in SIGNATURES {
        if head.starts_with(signature) {
            return Err(*kind);
        }
    }
    let wide = head.starts_with(b"\xFF\xFE") || head.starts_with(b"\xFE\xFF");
    let is_binary = !wide && looks_binary(head);
    if head.starts_with(PDF) || is_binary && has_pdf_behind(head) {
        return Ok(Format::Pdf);
    }
    if image::is_one(head) {
        return Ok(Format::Image);
    }
    if is_binary {
        return Err(Unreadable::Binary);
    }
    match by_name(name).unwrap_or_else(|| by_content(head)) {
        // PEPs had reStructuredText in `.txt` files before the extension `.rst` was used.
        Format::Text if head.starts_with(b"PEP: ") => Ok(Format::Rst),
        // HTML saved with a text file's name, or exported under a table's name.
        Format::Text if by_content(head) == Format::Html => Ok(Format::Html),
        Format::Text => Ok(records(name, head).unwrap_or(Format::Text)),
        format => Ok(format),
    }
}

/// Returns true if a PDF header follows foreign leading bytes, which PDF readers tolerate.
fn has_pdf_behind(head: &[u8]) -> bool {
    let head = &head[..head.len().min(PDF_BEGINS_WITHIN)];
    head.windows(PDF.len()).any(|bytes| bytes == PDF)
}

/// Returns true if `head` has a NUL byte, or other control bytes for more than a tenth: no text file does.
fn looks_binary(head: &[u8]) -> bool {
    let control = |byte: &&u8| matches!(**byte, 0x01..=0x08 | 0x0E..=0x1A | 0x1C..=0x1F | 0x7F);
    head.contains(&0) || head.iter().filter(control).count() * 10 > head.len()
}

fn by_name(name: &str) -> Option<Format> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let (stem, extension) = file.rsplit_once('.')?;
    if stem.is_empty() {
        return Some(Format::Text);
    }
    let extension = extension.to_ascii_lowercase();
    match extension.as_str() {
        "md" | "markdown" | "mdown" | "mkd" | "mdx" => Some(Format::Markdown),
        "rst" | "rest" => Some(Format::Rst),
        "html" | "htm" | "xhtml" => Some(Format::Html),
        "txt" | "text" | "log" | "csv" | "tsv" | "json" | "jsonl" | "ndjson" | "yaml" | "yml"
        | "toml" | "ini" | "cfg" | "conf" | "xml" | "tex" | "adoc" | "org" => Some(Format::Text),
        other => Language::of_extension(other).map(Format::Code),
    }
}

/// Detects lists of records (CSV, JSON Lines). The content decides even if the name claims a format; without such a
/// name, the content must be unambiguous.
fn records(name: &str, head: &[u8]) -> Option<Format> {
    let extension =
        name.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
    let is_markup =
        matches!(&*extension, "yaml" | "yml" | "toml" | "ini" | "cfg" | "conf" | "xml" | "tex");
    if is_markup || matches!(&*extension, "adoc" | "org") {
        return None;
    }
    let (mut start, _) = decode::decode_table(head);
    // The last line may be incomplete.
    if head.len() == DETECT_BYTES {
        start.truncate(start.rfind('\n').map_or(start.len(), |end| end + 1));
    }
    if json_lines::looks_so(&start, matches!(&*extension, "jsonl" | "ndjson")) {
        return Some(Format::JsonLines);
    }
    table::looks_so(&start, matches!(&*extension, "csv" | "tsv")).then_some(Format::Csv)
}

/// Detects a script by its first line and HTML by its opening tag, for names without a known extension.
fn by_content(head: &[u8]) -> Format {
    let start = String::from_utf8_lossy(&head[..head.len().min(256)]).to_ascii_lowercase();
    let start = start.trim_start_matches('\u{FEFF}').trim_start();
    if start.starts_with("<!doctype html") || start.starts_with("<html") {
        return Format::Html;
    }
    let script = start.strip_prefix("#!").and_then(|rest| rest.lines().next());
    script.and_then(Language::of_interpreter).map_or(Format::Text, Format::Code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_beats_the_name() {
        assert_eq!(detect("notes.txt", b"%PDF-1.7 ..."), Ok(Format::Pdf));
        assert_eq!(detect("a.md", b"\x89PNG\r\n\x1a\n...."), Ok(Format::Image));
        assert_eq!(detect("a.rs", b"fn a() {}\0"), Err(Unreadable::Binary));
        assert_eq!(detect("a.txt", b"RIFF1234WEBPVP8 "), Ok(Format::Image));
        assert_eq!(detect("a.tif", b"II*\0...."), Err(Unreadable::Image));
        assert_eq!(detect("mailed.pdf", b"\r\n\0%PDF-1.4 \0"), Ok(Format::Pdf));
        assert_eq!(detect("about.txt", b"It begins with %PDF-1.4"), Ok(Format::Text));
        for name in ["saved.txt", "report.csv", "page"] {
            assert_eq!(detect(name, b"\n<!DOCTYPE html><p>hi"), Ok(Format::Html), "{name}");
        }
        assert_eq!(detect("notes.md", b"<html>"), Ok(Format::Markdown), "which has HTML in it");
    }

    #[test]
    fn records_are_known_by_their_looks() {
        let (table, lines) = (b"a,b,c\n1,2,3\n4,5,6\n", b"{\"a\":1}\n{\"a\":2}\n");
        for name in ["a.csv", "a.txt", "a", "a.jsonl"] {
            assert_eq!(detect(name, table), Ok(Format::Csv), "{name}");
            assert_eq!(detect(name, lines), Ok(Format::JsonLines), "{name}");
        }
        assert_eq!(detect("a.md", table), Ok(Format::Markdown));
        assert_eq!(detect("a.csv", b"some words\nmore words\n"), Ok(Format::Text));
        assert_eq!(detect("a.json", b"{\"a\": 1}\n"), Ok(Format::Text));
        let wide: Vec<u8> =
            "\u{FEFF}a\tb\n1\t2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(detect("a.csv", &wide), Ok(Format::Csv));
    }

    #[test]
    fn names_decide_among_texts() {
        assert_eq!(detect("docs/Guide.MD", b"hi"), Ok(Format::Markdown));
        assert_eq!(detect("pep-0008.rst", b"hi"), Ok(Format::Rst));
        assert_eq!(detect("a.py", b"x"), Ok(Format::Code(Language::Python)));
        assert_eq!(detect("LICENSE", b"x"), Ok(Format::Text));
        assert_eq!(detect("pep-0001.txt", b"PEP: 1\nTitle: T\n"), Ok(Format::Rst));
        assert_eq!(detect("a.txt", b"\xFF\xFEh\0"), Ok(Format::Text));
    }

    #[test]
    fn nameless_scripts_and_pages_are_recognised() {
        assert_eq!(detect("run", b"#!/usr/bin/env python3\n"), Ok(Format::Code(Language::Python)));
        assert_eq!(detect("run", b"#!/bin/sh\n"), Ok(Format::Code(Language::Shell)));
        assert_eq!(detect("page", b"<!DOCTYPE html><p>"), Ok(Format::Html));
    }
}
