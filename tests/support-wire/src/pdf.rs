//! Handmade PDFs, valid and hostile.

/// Makes a PDF of objects, numbered from 1, with a cross-reference table. The catalog is the first object.
pub fn of_objects(objects: &[Vec<u8>], trailer: &str) -> Vec<u8> {
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (object, number) in objects.iter().zip(1..) {
        places.push(out.len());
        out.extend(format!("{number} 0 obj\n").bytes());
        out.extend(object);
        out.extend(b"\nendobj\n");
    }
    let table = out.len();
    let count = objects.len() + 1;
    out.extend(format!("xref\n0 {count}\n0000000000 65535 f \n").bytes());
    for place in places {
        out.extend(format!("{place:010} 00000 n \n").bytes());
    }
    let end =
        format!("trailer\n<< /Size {count} /Root 1 0 R {trailer} >>\nstartxref\n{table}\n%%EOF\n");
    out.extend(end.bytes());
    out
}

/// Makes a stream object.
pub fn stream(entries: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!("<< /Length {} {entries} >>\nstream\n", bytes.len());
    [head.as_bytes(), bytes, b"\nendstream"].concat()
}

/// Returns the content stream of a page: one line of text for each line.
fn drawing(text: &str) -> Vec<u8> {
    let mut out = "BT /F1 12 Tf 72 720 Td\n".to_owned();
    for line in text.lines() {
        out.push_str(&format!("({line}) Tj 0 -14 Td\n"));
    }
    out.push_str("ET");
    out.into_bytes()
}

/// The objects of a document with a page for each text; the third is the font, the fourth the title.
pub fn objects(title: &str, pages: &[&str]) -> Vec<Vec<u8>> {
    let first = 5;
    let kids: Vec<String> = (0..pages.len()).map(|at| format!("{} 0 R", first + 2 * at)).collect();
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len())
            .into_bytes(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_vec(),
        format!("<< /Title ({title}) /Author (Ebba) >>").into_bytes(),
    ];
    for (text, at) in pages.iter().zip(0..) {
        objects.push(page(first + 2 * at + 1, ""));
        objects.push(stream("", &drawing(text)));
    }
    objects
}

/// Makes a page that draws the stream of this number.
pub fn page(drawing: usize, resources: &str) -> Vec<u8> {
    format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {drawing} 0 R /Resources \
         << /Font << /F1 3 0 R >> {resources} >> >>"
    )
    .into_bytes()
}

/// Makes a document with a page for each text.
pub fn of_pages(title: &str, pages: &[&str]) -> Vec<u8> {
    of_objects(&objects(title, pages), "/Info 4 0 R")
}

/// Makes a document whose text needs a password.
pub fn locked() -> Vec<u8> {
    let mut all = objects("Secret", &["secret words"]);
    let lock = format!(
        "<< /Filter /Standard /V 1 /R 2 /Length 40 /P -4 /O <{}> /U <{}> >>",
        "5a".repeat(32),
        "a5".repeat(32)
    );
    all.push(lock.into_bytes());
    let number = all.len();
    let id = "0123456789abcdef0123456789abcdef";
    of_objects(&all, &format!("/Info 4 0 R /Encrypt {number} 0 R /ID [<{id}> <{id}>]"))
}

/// Makes a document whose page is an image.
pub fn scanned() -> Vec<u8> {
    let mut all = objects("", &[]);
    all[1] = b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>".to_vec();
    all.push(page(6, "/XObject << /Im1 7 0 R >>"));
    all.push(stream("", b"q 612 0 0 792 0 0 cm /Im1 Do Q"));
    let picture = "/Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8 /ColorSpace /DeviceGray";
    all.push(stream(picture, b"\x80"));
    of_objects(&all, "")
}

/// Makes documents that lead a reader into cycles or out of bounds, each with a description.
pub fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let changed = |at: usize, object: &[u8]| {
        let mut all = objects("T", &["words"]);
        all[at] = object.to_vec();
        of_objects(&all, "/Info 4 0 R")
    };
    let mut forms = objects("T", &["words"]);
    forms[4] = page(6, "/XObject << /X 7 0 R >>");
    forms[5] = stream("", b"/X Do");
    let form =
        "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 7 0 R >> >>";
    forms.push(stream(form, b"/X Do"));
    vec![
        (
            "pages that hold themselves",
            changed(1, b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"),
        ),
        ("a parent of itself", changed(4, b"<< /Type /Page /Parent 5 0 R /Contents 6 0 R >>")),
        ("contents of itself", changed(5, b"6 0 R")),
        ("a form that draws itself", of_objects(&forms, "")),
        (
            "a box of nothing",
            changed(4, b"<< /Type /Page /Parent 2 0 R /MediaBox [] /Contents 6 0 R >>"),
        ),
        (
            "a count that is not so",
            changed(1, b"<< /Type /Pages /Kids [5 0 R] /Count 2147483647 >>"),
        ),
        ("a deep array", changed(3, &[b"[".repeat(100_000), b"]".repeat(100_000)].concat())),
    ]
}

/// Makes a document whose page inflates beyond the memory limit of a process.
pub fn bomb() -> Vec<u8> {
    // A final block of fixed codes: `a`, and then copies of 258 bytes, of 13 bits each; eight of them are 13 bytes.
    let code = |value: u32, bits: u32| (0..bits).rev().map(move |at| value >> at & 1 == 1);
    let head = [true, true, false].into_iter().chain(code(0x30 + 0x61, 8));
    let copy = || code(0xC5, 8).chain(code(0, 5));
    let copies = std::iter::repeat_with(copy).take(8).flatten();
    let bytes = |bits: Vec<bool>| -> Vec<u8> {
        let byte =
            |eight: &[bool]| eight.iter().rev().fold(0, |sum, bit| sum << 1 | u8::from(*bit));
        bits.chunks(8).map(byte).collect()
    };
    // The copies begin with the bit after the head, at any position in a byte.
    let head: Vec<bool> = head.collect();
    let one: Vec<bool> = copies.collect();
    let start = bytes([&head[..], &one].concat()[..104].to_vec());
    let turned: Vec<bool> = (0..104).map(|at| one[(at + 104 - head.len()) % 104]).collect();
    let packed = [b"\x78\x9c".to_vec(), start, bytes(turned).repeat(1_000_000)].concat();
    let mut all = objects("Bomb", &["words"]);
    all[5] = stream("/Filter /FlateDecode", &packed);
    of_objects(&all, "")
}
