//! Chunks of a document: no text is lost, and breaks are where a person would choose them.

use crate::chunk::{Chunk, chunk};
use crate::detect::detect;
use crate::document::{Document, Source};
use crate::format::Format;
use crate::limits::{CHUNK_CHARS_MAX, CHUNK_CHARS_TINY};
use crate::read::read_text;

/// Checks the invariants of every chunking.
pub(crate) fn check(document: &Document) {
    let chunks = chunk(document);
    assert_eq!(
        chunks.iter().map(|c| c.text.as_str()).collect::<String>(),
        document.text,
        "text lost or made up"
    );
    for (i, c) in chunks.iter().enumerate() {
        assert_eq!(c.ordinal as usize, i);
        assert!(
            !c.text.is_empty() && c.text.chars().count() <= CHUNK_CHARS_MAX,
            "{} chars",
            c.text.chars().count()
        );
        assert!(c.byte_start <= c.byte_end && 1 <= c.line_start && c.line_start <= c.line_end);
        if document.source == Source::Verbatim {
            let bytes =
                usize::try_from(c.byte_start).unwrap()..usize::try_from(c.byte_end).unwrap();
            assert_eq!(&document.text[bytes], c.text);
            let newlines = c.text.trim_end_matches('\n').matches('\n').count();
            assert!((c.line_end - c.line_start) as usize >= newlines);
        }
    }
}

fn chunks_of(name: &str, text: &str) -> Vec<Chunk> {
    let doc = read_text(name, detect(name, b"").unwrap(), text.to_owned());
    check(&doc);
    chunk(&doc)
}

fn words(chars: usize) -> String {
    "Some words to read. ".repeat(chars / 20)
}

#[test]
fn each_section_of_some_length_is_a_chunk() {
    let text = format!("# T\n\n## A\n\n{}\n\n## B\n\n{}\n", words(500), words(600));
    let got = chunks_of("a.md", &text);
    let paths: Vec<_> = got.iter().map(|c| c.heading_path.join("/")).collect();
    assert_eq!(paths, ["T/A", "T/B"]);
    assert_eq!((got[0].line_start, got[0].line_end, got[1].line_start), (1, 6, 7));
}

#[test]
fn tiny_siblings_join_under_their_parents_name() {
    let (lead, a, b, c) = (words(400), words(140), words(260), words(900));
    let text =
        format!("# T\n\n{lead}\n\n## A\n\n{a}\n\n## B\n\n{b}\n\n## C\n\n{c}\n\n## D\n\nend\n");
    let paths: Vec<_> = chunks_of("a.md", &text).iter().map(|c| c.heading_path.join("/")).collect();
    assert_eq!(paths, ["T", "T", "T/C"], "D is too little to take the name from C");
}

#[test]
fn a_fence_that_fits_is_not_cut() {
    let fence = format!("```\n{}```\n", "let x = 1;\n\n".repeat(90));
    let text = format!("# T\n\n{}\n\n{fence}\n{}\n", words(500), words(500));
    let got = chunks_of("a.md", &text);
    assert!(got.iter().any(|c| c.text.contains(&fence)), "{got:?}");
}

#[test]
fn a_heading_is_never_left_alone() {
    let fence = format!("```\n{}```\n", "let x = 1;\n".repeat(125));
    let got = chunks_of(
        "a.md",
        &format!("# T\n\nThese are the lines of it:\n\n{fence}\n{}\n", words(900)),
    );
    assert!(got[0].text.chars().count() >= CHUNK_CHARS_TINY, "{:?}", got[0]);
}

#[test]
fn long_lines_are_cut_at_sentences_and_long_words_hard() {
    let got = chunks_of("a.txt", &words(5_000));
    assert!(got.len() >= 4 && got.iter().all(|c| c.text.ends_with(". ")));
    let got = chunks_of("a.txt", &"\u{e9}".repeat(5_000));
    assert!(got.len() >= 4);
}

#[test]
fn a_small_class_stays_whole_and_a_large_one_is_cut_at_methods() {
    let small =
        "class A:\n    def b(self):\n        return 1\n\n    def c(self):\n        return 2\n";
    let got = chunks_of("a.py", small);
    assert_eq!((got.len(), got[0].symbol.as_deref()), (1, Some("A")));
    let method =
        |name: &str| format!("    def {name}(self):\n{}\n", "        call(self)\n".repeat(40));
    let got = chunks_of(
        "a.py",
        &format!("class A:\n    \"\"\"Doc.\"\"\"\n\n{}{}", method("b"), method("c")),
    );
    assert_eq!(
        got.iter().map(|c| c.symbol.as_deref().unwrap()).collect::<Vec<_>>(),
        ["A.b", "A.c"]
    );
}

#[test]
fn html_chunks_point_at_source_lines() {
    let text = format!(
        "<html>\n<body>\n<h1>A</h1>\n<p>{}</p>\n<h2>B</h2>\n\n<p>{}</p></body></html>",
        words(800),
        words(800)
    );
    let got = chunks_of("a.html", &text);
    let lines: Vec<_> = got.iter().map(|c| (c.line_start, c.line_end)).collect();
    assert_eq!(lines, [(3, 4), (5, 7)]);
}

#[test]
fn nothing_gives_nothing() {
    assert_eq!(chunks_of("a.md", ""), []);
    assert_eq!(chunks_of("a.md", "\n\n").len(), 1);
}

#[test]
fn chunks_of_a_table_keep_the_lines_of_their_rows() {
    let source = "a,b\n\"x\ny\",1\n\n,2,more\n3,4\n5,6\n7,8\n";
    let got = chunk(&read_text("a.csv", Format::Csv, source.to_owned()));
    assert_eq!((got[0].line_start, got[0].line_end), (2, 8));
}
