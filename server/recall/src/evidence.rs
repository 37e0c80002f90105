//! Evidence: where in the files a recalled item is, checked against the file as it is now.

use engine::{Damage, ItemView, Snapshot, Span};

use recalld_fs_util::roots::Roots;
use recalld_fs_util::uri;

/// Where an item is, for `map_evidence`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapEvidence {
    /// The file.
    pub path: String,
    /// First line, from 1.
    pub line_start: u32,
    /// Last line.
    pub line_end: u32,
    /// SHA-256 of the file as it is now; as it was read, where it cannot be read now.
    pub file_sha256: [u8; 32],
    /// What was found when the file was looked at.
    pub witness: Witness,
}

/// How the file compares with what was read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// The file is as it was: the lines hold.
    Unchanged,
    /// The file changed, and the item's text is in it at the lines given here.
    Moved,
    /// The file changed, and the item's text is not in it as it was.
    Changed,
    /// The file is not there, or cannot be read under the roots.
    Missing,
}

impl Witness {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Moved => "moved",
            Self::Changed => "changed",
            Self::Missing => "missing",
        }
    }
}

/// The evidence for an item that came from a file; `None` for any other.
///
/// # Errors
/// Damage.
pub fn map_evidence(
    snapshot: &Snapshot,
    roots: &Roots,
    item: &ItemView<'_>,
) -> Result<Option<MapEvidence>, Damage> {
    let (Some(id), Some(span)) = (item.source, item.span) else { return Ok(None) };
    let Some(source) = snapshot.source(id)? else { return Ok(None) };
    let Some(path) = uri::to_path(source.uri) else { return Ok(None) };
    let evidence = |span: Span, file_sha256, witness| {
        let (line_start, line_end) = (span.line_start, span.line_end);
        let path = path.clone();
        Some(MapEvidence { path, line_start, line_end, file_sha256, witness })
    };
    let Some(now) = uri::contents(roots, &path) else {
        return Ok(evidence(span, source.content_sha256, Witness::Missing));
    };
    let sha256 = uri::sha256(&now);
    if sha256 == source.content_sha256 {
        return Ok(evidence(span, sha256, Witness::Unchanged));
    }
    Ok(match find_lines(&String::from_utf8_lossy(&now), item.text) {
        Some((line_start, line_end)) => {
            let span = Span { line_start, line_end, ..span };
            evidence(span, sha256, Witness::Moved)
        }
        None => evidence(span, sha256, Witness::Changed),
    })
}

/// First and last line of `part` within `whole`, if it is there exactly once.
fn find_lines(whole: &str, part: &str) -> Option<(u32, u32)> {
    let part = part.trim_matches('\n');
    let at = whole.find(part).filter(|_| !part.is_empty())?;
    if whole[at..].match_indices(part).nth(1).is_some() {
        return None;
    }
    let lines = |text: &str| u32::try_from(text.matches('\n').count()).ok();
    let first = lines(&whole[..at])? + 1;
    Some((first, first + lines(part)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_text_are_found_where_it_stands_once() {
        assert_eq!(find_lines("a\nb\nc\nd\n", "b\nc\n"), Some((2, 3)));
        assert_eq!(find_lines("a\nb\n", "a"), Some((1, 1)));
        assert_eq!(find_lines("a\na\n", "a"), None);
        assert_eq!(find_lines("a\n", "x"), None);
        assert_eq!(find_lines("a\n", "\n"), None);
    }
}
