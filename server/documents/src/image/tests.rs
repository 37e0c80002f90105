//! Tests on images that are built byte by byte.

use std::io::Write as _;

use super::facts::INFLATED_BYTES_MAX;
use super::*;

fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    let number: Vec<u8> = length.to_le_bytes().into_iter().rev().collect();
    [&number, &kind[..], data, &[0; 4]].concat()
}

fn png(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut size = vec![0, 0, 2, 128, 0, 0, 1, 224];
    size.extend([8, 2, 0, 0, 0]);
    let head = [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &size)].concat();
    [head, parts.concat(), chunk(b"IEND", b"")].concat()
}

fn deflated(text: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

/// EXIF data with one entry of each supported kind, and a GPS directory.
fn exif(high: bool) -> Vec<u8> {
    let number = |value: u32, width: usize| -> Vec<u8> {
        let low: Vec<u8> = value.to_le_bytes().into_iter().take(width).collect();
        if high { low.into_iter().rev().collect() } else { low }
    };
    let mut out = if high { b"MM\0*".to_vec() } else { b"II*\0".to_vec() };
    out.extend(number(8, 4));
    let entry = |tag: u32, kind: u32, length: u32, value: Vec<u8>| {
        [number(tag, 2), number(kind, 2), number(length, 4), value].concat()
    };
    let (first, second) = (8 + 2 + 4 * 12 + 4, 8 + 2 + 4 * 12 + 4 + 2 + 12 + 4);
    out.extend(number(4, 2));
    out.extend(entry(0x010E, 2, 12, number(second, 4)));
    out.extend(entry(0x0112, 3, 1, [number(6, 2), vec![0, 0]].concat()));
    out.extend(entry(0x8769, 4, 1, number(first, 4)));
    out.extend(entry(0x8825, 4, 1, number(first, 4)));
    out.extend(number(0, 4));
    out.extend(number(1, 2));
    out.extend(entry(0x9003, 2, 20, number(second + 12, 4)));
    out.extend(number(0, 4));
    out.extend(b"A red boat.\0");
    out.extend(b"2024:05:01 12:30:00\0");
    out
}

fn jpeg(parts: &[Vec<u8>]) -> Vec<u8> {
    let frame = segment(0xC0, &[8, 1, 224, 2, 128, 3]);
    [b"\xFF\xD8".to_vec(), parts.concat(), frame, b"\xFF\xDA\0\x02pixels\xFF\xD9".to_vec()].concat()
}

fn segment(marker: u8, data: &[u8]) -> Vec<u8> {
    let [low, high] = u16::try_from(data.len() + 2).unwrap().to_le_bytes();
    [&[0xFF, marker, high, low], data].concat()
}

fn webp(parts: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut body = b"WEBP".to_vec();
    for (kind, data) in parts {
        body.extend(*kind);
        body.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        body.extend(data);
        body.extend(vec![0; data.len() % 2]);
    }
    [&b"RIFF"[..], &u32::try_from(body.len()).unwrap().to_le_bytes(), &body].concat()
}

fn gif() -> Vec<u8> {
    let mut out = b"GIF89a\x80\x02\xE0\x01\x80\0\0".to_vec();
    out.extend([0; 6]); // two colours
    out.extend(b"\x21\xFE\x0bA red boat.\0\x2C\0\0\0\0\x01\0\x01\0\0\x02\x01\x44\0\x3B");
    out
}

const XMP: &str = "<x><dc:description><rdf:Alt><rdf:li xml:lang=\"x-default\">Tom &amp; a \
                   &#x72;ed boat &bad</rdf:li></rdf:Alt></dc:description></x>";

fn every() -> Vec<(&'static str, Vec<u8>)> {
    let wide = deflated("Ebbe \u{e9}".as_bytes());
    let international = [b"Title\0\x01\0de\0Titel\0".to_vec(), wide].concat();
    vec![
        (
            "PNG",
            png(&[
                chunk(b"tEXt", b"Author\0Ad\xE9"),
                chunk(b"zTXt", &[b"Comment\0\0".to_vec(), deflated(b"squeezed")].concat()),
                chunk(b"iTXt", &international),
                chunk(b"eXIf", &exif(true)),
            ]),
        ),
        (
            "JPEG",
            jpeg(&[
                segment(0xE1, &[b"Exif\0\0".to_vec(), exif(false)].concat()),
                segment(0xE1, &[b"http://ns.adobe.com/xap/1.0/\0", XMP.as_bytes()].concat()),
                segment(0xFE, b"said aside"),
            ]),
        ),
        ("GIF", gif()),
        (
            "WebP",
            webp(&[
                (b"VP8X", vec![12, 0, 0, 0, 127, 2, 0, 223, 1, 0]),
                (b"EXIF", exif(false)),
                (b"XMP ", XMP.as_bytes().to_vec()),
            ]),
        ),
    ]
}

#[test]
fn each_kind_says_its_size_and_its_words() {
    for (kind, bytes) in every() {
        assert!(is_one(&bytes), "{kind}");
        let text = read("sea/boat.x", &bytes, &[]).unwrap().text;
        let first = format!("boat.x: {kind} image, 640 x 480 pixels\n");
        assert!(text.starts_with(&first), "{text}");
        assert!(text.contains("A red boat."), "{text}");
    }
    let text = |at: usize| read("boat", &every()[at].1, &[]).unwrap().text;
    assert!(text(0).contains("Author: Ad\u{e9}\nComment: squeezed\nTitle: Ebbe \u{e9}\n"));
    for at in [0, 1, 3] {
        assert!(text(at).contains("Orientation: turned to the left"), "{}", text(at));
        assert!(text(at).contains("Taken: 2024:05:01 12:30:00"), "{}", text(at));
    }
    assert!(text(1).contains("Description: Tom & a red boat &bad\nComment: said aside"));
}

#[test]
fn frames_of_webp_say_their_size() {
    let lossy = vec![0, 0, 0, 0x9D, 1, 0x2A, 0x80, 2, 0xE0, 1];
    let lossless = vec![0x2F, 0x7F, 0xC2, 0x77, 0];
    for (kind, data) in [(b"VP8 ", lossy), (b"VP8L", lossless)] {
        let text = read("a", &webp(&[(kind, data)]), &[]).unwrap().text;
        assert!(text.contains("640 x 480"), "{text}");
    }
}

#[test]
fn words_beside_are_read_with_it() {
    let beside = Beside { name: "a.png.txt".to_owned(), text: "\nThe harbour.\n".to_owned() };
    let document = read("a.png", &png(&[]), &[beside]).unwrap();
    assert!(document.text.ends_with("\n\nThe harbour.\n"));
    assert_eq!(document.sections[1].heading_path, ["a.png.txt"]);
}

#[test]
fn a_file_cut_anywhere_or_spoilt_is_a_picture_or_an_error() {
    for (kind, bytes) in every() {
        for end in 0..bytes.len() {
            if let Ok(document) = read("a", &bytes[..end], &[]) {
                assert!(document.text.contains("640 x 480"), "{kind} at {end}");
            }
        }
        assert!(read("a", &bytes[..8], &[]).is_err(), "{kind}");
        for at in 0..bytes.len() {
            for bit in [1, 128, 255] {
                let mut bytes = bytes.clone();
                bytes[at] ^= bit;
                drop(read("a", &bytes, &[]));
            }
        }
    }
}

#[test]
fn a_bomb_is_inflated_within_bounds() {
    let bomb = [b"Comment\0\0".to_vec(), deflated(&vec![b'a'; 2 << 20])].concat();
    let bombs = vec![chunk(b"zTXt", &bomb); 50];
    let document = read("a", &png(&bombs), &[]).unwrap();
    assert!(document.text.len() < INFLATED_BYTES_MAX);
    assert!(document.notes[0].contains("left out"), "{:?}", document.notes);
}
