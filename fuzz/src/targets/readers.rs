//! Files of every format: sections tile the text, and chunks lie in it within their size limits.

use recalld_documents::chunk::chunk;
use recalld_documents::limits::CHUNK_CHARS_MAX;
use recalld_documents::read_bytes;
use recalld_ingest::links::candidates;

const NAMES: [&str; 12] = [
    "a.md", "a.html", "a.rst", "a.txt", "a.rs", "a.py", "a.ts", "a.go", "a.c", "README", "a.csv",
    "a.jsonl",
];

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&which, bytes)) = data.split_first() else { return };
    let name = NAMES[usize::from(which) % NAMES.len()];
    let Ok(document) = read_bytes(name, bytes) else { return };
    let mut end = 0;
    for section in &document.sections {
        assert_eq!(section.span.start, end, "{name}");
        assert!(
            section.span.contains(&section.body_start) || section.span.end == section.body_start
        );
        end = section.span.end;
    }
    assert_eq!(end, document.text.len(), "{name}");
    for one in chunk(&document) {
        assert!(one.text.chars().count() <= CHUNK_CHARS_MAX, "{name}");
    }
    for link in &document.links {
        let _ = candidates(link, name);
    }
}
