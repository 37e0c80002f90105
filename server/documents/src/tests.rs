//! Every reader against arbitrary bytes: no panic, and sections that tile the text.

use proptest::prelude::*;

use super::detect::detect;
use super::document::{Document, FIELDS_MAX, HEADING_CHARS_MAX, LINKS_MAX, Source};
use super::read::{read_bytes, read_text};

mod chunks;

const NAMES: &[&str] = &[
    "a.md", "a.txt", "a.rst", "a.html", "a.rs", "a.py", "a.js", "a.go", "a.c", "a.java", "a.rb",
    "a.sh", "a.lua", "a.csv", "a.jsonl",
];

/// Checks the invariants on which the chunking of a document relies.
fn check(doc: &Document) {
    let mut at = 0;
    for section in &doc.sections {
        assert_eq!(section.span.start, at, "a gap or overlap");
        assert!(section.span.end > at && doc.text.is_char_boundary(section.span.end));
        assert!((section.span.start..=section.span.end).contains(&section.body_start));
        at = section.span.end;
    }
    assert_eq!(at, doc.text.len(), "sections end early");
    let mut at = 0;
    for kept in &doc.keep {
        assert!(
            kept.start >= at && kept.end > kept.start && kept.end <= doc.text.len(),
            "{kept:?} after {at}"
        );
        assert!(doc.text.is_char_boundary(kept.start) && doc.text.is_char_boundary(kept.end));
        at = kept.end;
    }
    assert!(doc.links.len() <= LINKS_MAX && doc.fields.len() <= FIELDS_MAX);
    assert!(doc.title.chars().count() <= HEADING_CHARS_MAX);
    if let Source::Extracted { runs, .. } = &doc.source {
        assert!(runs.is_sorted_by_key(|run| run.text_start));
    }
}

/// Fragments that are meaningful to some reader, in any order.
fn junk() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a,b\n1,2\n",
        "\",\"",
        ";;\t|",
        "{\"a\":[1,{}]}\n",
        "%PDF-1.4\n",
        "# ",
        "## h",
        "---",
        "+++",
        "===",
        "====",
        "```",
        "~~~",
        "`",
        "``",
        "`x`_",
        "<a href=",
        "<a href='#'>",
        "</a>",
        "<li>",
        "<br>",
        "\u{b6}",
        "#",
        "<pre>",
        "</pre>",
        "<h1>",
        "</h2>",
        "<svg>",
        "<title>",
        "&amp;",
        ".. ",
        ".. _a: b",
        "::",
        ":pep:`8`",
        "PEP 8",
        "http://",
        "[[",
        "]]",
        "[a](b)",
        "![",
        "> ",
        "- ",
        "    ",
        "\t",
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        "fn a() {",
        "class A:",
        "impl X for Y {",
        "def b(",
        "}",
        "\"\"\"",
        "'''",
        "/*",
        "*/",
        "r#\"",
        "#[",
        "@x(",
        "\0",
        "\u{e9}",
        "\u{1F600}",
        "\u{2028}",
        "Title: x",
        ":f: y",
        "| a | b |",
        "+--+",
        "== ==",
        "word ",
        "sentence. ",
        "func (a",
        "pub(",
        "template<",
        "title: x",
    ]);
    let pieces = prop_oneof![9 => pieces.prop_map(str::to_owned), 1 => ".{1,3}"];
    prop::collection::vec(pieces, 0..120).prop_map(|all| all.concat())
}

proptest! {
    #[test]
    fn structured_junk_is_read_by_every_reader(text in junk()) {
        for name in NAMES {
            let format = detect(name, b"").unwrap();
            let doc = read_text(name, format, text.clone());
            check(&doc);
            if doc.source == Source::Verbatim {
                prop_assert_eq!(&doc.text, &text);
            }
            chunks::check(&doc);
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600), wide in any::<bool>()) {
        let bytes = if wide { [b"\xFF\xFE".as_slice(), &bytes].concat() } else { bytes };
        for name in NAMES {
            if let Ok(doc) = read_bytes(name, &bytes) {
                check(&doc);
                chunks::check(&doc);
            }
            // `detect` refuses most random bytes, but the readers must survive such bytes as well.
            let format = detect(name, b"").unwrap();
            let doc = read_text(name, format, String::from_utf8_lossy(&bytes).into_owned());
            check(&doc);
            chunks::check(&doc);
        }
    }
}

#[test]
fn hostile_sizes_are_bounded() {
    let shapes = [
        "a".repeat(3 << 20),
        "> ".repeat(300_000),
        "[".repeat(200_000),
        "*a_ ".repeat(100_000),
        "# h\n".repeat(50_000),
        "h\n=\n\n".repeat(50_000),
        "<div>".repeat(100_000),
        "<a href=x ".repeat(50_000),
        "`a".repeat(200_000),
        "::\n\n  x\n".repeat(30_000),
        "- ".repeat(50_000),
        "\n".repeat(200_000),
        "class A:\n def b():\n".repeat(20_000),
        "http://a ".repeat(50_000),
        "\t".repeat(100_000),
        "&lt;".repeat(100_000),
        "|a".repeat(100_000),
        // Each of these inputs once took quadratic time.
        "== ==\nx\n\n".repeat(100_000),
        "http://a(".repeat(100_000),
    ];
    for shape in &shapes {
        for name in ["a.md", "a.txt", "a.rst", "a.html", "a.py", "a.rs"] {
            let doc = read_text(name, detect(name, b"").unwrap(), shape.clone());
            check(&doc);
            chunks::check(&doc);
        }
    }
}

#[test]
fn a_name_is_the_title_of_last_resort() {
    assert_eq!(read_bytes("x/y.rs", b"fn a() {}\n").unwrap().title, "y.rs");
    assert_eq!(read_bytes("x/empty.md", b"").unwrap().title, "empty.md");
}
