//! Link candidates: the paths that a link as written may mean.
//!
//! Opens no file. Paths are relative to the root, with `/` between parts. The caller compares the candidates, most
//! likely first, with the existing paths.

use recalld_documents::{Link, LinkKind};

/// Maximum number of candidates for one link.
pub(crate) const CANDIDATES_MAX: usize = 16;
/// Maximum number of parts of a path.
const PARTS_MAX: usize = 64;
/// Extensions to try for a document named without one.
const EXTENSIONS: &[&str] = &["md", "rst", "txt", "html"];

/// Candidate paths of `link` in the document at `from`. None for a link to the web, to a place in the same document,
/// above the root, or to a label.
pub fn candidates(link: &Link, from: &str) -> Vec<String> {
    let mut found = match link.kind {
        LinkKind::Path => paths(&link.target, from),
        LinkKind::Wiki => wiki(&link.target, from),
        LinkKind::Pep => pep(&link.target, from),
        LinkKind::Doc => {
            resolve(&link.target, from).map(|path| with_extensions(&path)).unwrap_or_default()
        }
        LinkKind::Label => Vec::new(),
    };
    found.truncate(CANDIDATES_MAX);
    found
}

/// Resolves a relative link to a path below the root: drops fragment and query, decodes percent signs, and follows `.`
/// and `..`. A leading `/` means the root. Returns `None` if the link leaves the root or has no path.
pub(crate) fn resolve(target: &str, from: &str) -> Option<String> {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    let path = percent_decode(path)?;
    if path.is_empty()
        || has_scheme(&path)
        || path.starts_with("//")
        || path.contains(['\0', '\\', '\n'])
    {
        return None;
    }
    let folder = if path.starts_with('/') {
        ""
    } else {
        from.rsplit_once('/').map_or("", |(folder, _)| folder)
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part if parts.len() < PARTS_MAX => parts.push(part),
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Returns true if the path starts with `name:`, as a URL does, before any `/`.
fn has_scheme(path: &str) -> bool {
    let scheme = path.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|s| {
        s.starts_with(|c: char| c.is_ascii_alphabetic())
            && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    })
}

/// Returns `None` if the decoded bytes are not UTF-8. A `%` without two hex digits is literal.
fn percent_decode(text: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| byte.and_then(|b| char::from(*b).to_digit(16));
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push(
                    u8::try_from(high * 16 + low).expect("two hexadecimal digits make a byte"),
                );
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

fn paths(target: &str, from: &str) -> Vec<String> {
    if let Some(number) = pep_of_url(target) {
        return pep(number, from);
    }
    let Some(path) = resolve(target, from) else { return Vec::new() };
    let (stem, extension) = split_extension(&path);
    let folder = target.split(['#', '?']).next().is_some_and(|t| t.ends_with('/'));
    match extension {
        _ if folder => indexes(&path),
        None => with_extensions(&path),
        // Sites link to the generated page; its source has another extension.
        Some("html" | "htm") => {
            let mut found = vec![path.clone()];
            found.extend(["md", "rst"].map(|e| format!("{stem}.{e}")));
            found
        }
        Some(_) => vec![path.clone()],
    }
}

fn split_extension(path: &str) -> (&str, Option<&str>) {
    let name_at = path.rfind('/').map_or(0, |n| n + 1);
    match path[name_at..].rfind('.') {
        Some(dot) if dot > 0 => (&path[..name_at + dot], Some(&path[name_at + dot + 1..])),
        _ => (path, None),
    }
}

fn with_extensions(path: &str) -> Vec<String> {
    let mut found = vec![path.to_owned()];
    found.extend(EXTENSIONS.iter().map(|extension| format!("{path}.{extension}")));
    found.extend(indexes(path));
    found
}

fn indexes(path: &str) -> Vec<String> {
    ["README.md", "index.md", "index.rst", "index.html"]
        .iter()
        .map(|name| format!("{path}/{name}"))
        .collect()
}

/// Candidates of a note name without folder or extension: beside the document first, then at the root.
fn wiki(target: &str, from: &str) -> Vec<String> {
    let name = target.split(['#', '|', '^']).next().unwrap_or_default().trim();
    let mut found: Vec<String> = Vec::new();
    for base in [resolve(name, from), resolve(name, "")].into_iter().flatten() {
        let named =
            if split_extension(&base).1 == Some("md") { base } else { format!("{base}.md") };
        if !found.contains(&named) {
            let dashed = named.replace(' ', "-");
            found.push(named);
            if !found.contains(&dashed) {
                found.push(dashed);
            }
        }
    }
    found
}

/// Candidates such as `pep-0008.rst`, beside the document.
fn pep(number: &str, from: &str) -> Vec<String> {
    let Ok(number) = number.parse::<u16>() else { return Vec::new() };
    let sibling = |extension| resolve(&format!("pep-{number:04}.{extension}"), from);
    ["rst", "txt", "md"].into_iter().filter_map(sibling).collect()
}

/// The number in `https://peps.python.org/pep-0008/` and its older URLs.
fn pep_of_url(target: &str) -> Option<&str> {
    let rest = target.strip_prefix("https://").or_else(|| target.strip_prefix("http://"))?;
    let (host, path) = rest.split_once('/')?;
    let known =
        matches!(host, "peps.python.org" | "www.python.org" | "python.org" | "legacy.python.org");
    let digits =
        path.split('#').next()?.trim_end_matches('/').rsplit('/').next()?.strip_prefix("pep-")?;
    let digits = digits.trim_end_matches(".html");
    (known && digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_digit())).then_some(digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(kind: LinkKind, target: &str, from: &str) -> Vec<String> {
        candidates(&Link { kind, target: target.into(), line: 1, label: String::new() }, from)
    }

    #[test]
    fn relative_paths_are_followed_beneath_the_root() {
        assert_eq!(of(LinkKind::Path, "../b%20c.md?x#y", "docs/a/x.md"), ["docs/b c.md"]);
        assert_eq!(of(LinkKind::Path, "/top.rs", "docs/x.md"), ["top.rs"]);
        assert_eq!(of(LinkKind::Path, "../../x.md", "docs/x.md"), Vec::<String>::new());
        assert_eq!(of(LinkKind::Path, "guide", "docs/x.md")[..2], ["docs/guide", "docs/guide.md"]);
        assert_eq!(of(LinkKind::Path, "guide/", "x.md")[0], "guide/README.md");
        assert_eq!(of(LinkKind::Path, "a.html", "x.md"), ["a.html", "a.md", "a.rst"]);
    }

    #[test]
    fn what_leads_elsewhere_has_no_candidates() {
        for target in
            ["https://a.b/c.md", "mailto:a@b", "#here", "", "//host/x", "%2e%2e/x", "a\\b", "%ff"]
        {
            assert_eq!(of(LinkKind::Path, target, "x.md"), Vec::<String>::new(), "{target}");
        }
        assert_eq!(of(LinkKind::Label, "x", "x.rst"), Vec::<String>::new());
    }

    #[test]
    fn notes_and_peps_are_found_by_name() {
        assert_eq!(
            of(LinkKind::Wiki, "My Note#part", "n/x.md"),
            ["n/My Note.md", "n/My-Note.md", "My Note.md", "My-Note.md"]
        );
        assert_eq!(of(LinkKind::Pep, "8", "peps/pep-0001.rst")[0], "peps/pep-0008.rst");
        assert_eq!(
            of(LinkKind::Path, "https://www.python.org/dev/peps/pep-0020/#x", "pep-0001.rst")[0],
            "pep-0020.rst"
        );
        assert_eq!(of(LinkKind::Doc, "/a/b", "c/d.rst")[2], "a/b.rst");
    }

    proptest! {
        #[test]
        fn no_target_leads_out(target in "[a-z./%2e#\\\\:\u{e9}]{0,40}", from in "[a-z/.]{0,20}") {
            for kind in [LinkKind::Path, LinkKind::Wiki, LinkKind::Pep, LinkKind::Doc] {
                for path in of(kind, &target, &from) {
                    prop_assert!(!path.starts_with('/') && path.split('/').all(|part| part != ".." && part != "."), "{path}");
                }
            }
        }
    }
}
