//! Stores a text sent by a client as a document, like a file with the same content.
//!
//! Owns the rules for its URI and the comparison with the existing version. Must not know the permissions of the
//! client.

use engine::{Batch, ItemDraft, ItemId, Sensitivity, WriteError};
use sha2::{Digest, Sha256};

use super::held::{Held, raised};
use super::job::JobError;
use super::outline::{FROM_CLIENT, Marks, Prepared, named};
use super::stored::stored;
use recalld_documents::chunk::chunk;
use recalld_documents::{Format, read_text};
use recalld_embedding::encoders::Encoders;

/// Schemes whose documents are created by other means; texts with these schemes are rejected.
const TAKEN_SCHEMES: [&str; 3] = ["file", "memory", "recalld"];
/// The scheme of a text that was sent without a URI.
const OWN_SCHEME: &str = "given";
/// Hex digits of the text's hash in a URI of [`OWN_SCHEME`].
const HASH_DIGITS: usize = 32;

/// A text sent by a client.
pub struct Given<'a> {
    /// The title of the document.
    pub title: &'a str,
    /// The content.
    pub text: &'a str,
    /// The document's URI; a later version has the same URI.
    pub uri: &'a str,
    /// The format by which the text is parsed.
    pub format: Format,
    /// Requested sensitivity; `None` for that of the existing version.
    pub sensitivity: Option<Sensitivity>,
    /// Checks that the caller may write and replace documents of this sensitivity; otherwise returns the reason.
    pub allows: &'a dyn Fn(Sensitivity) -> Result<(), String>,
    /// Principal that sent the text.
    pub by: &'a str,
    /// Name of the tool that received the text.
    pub via: &'a str,
}

/// Result of storing a text.
pub struct Taken {
    /// The new document, or the existing one with the same content.
    pub document: ItemId,
    /// Number of items written: the document and its chunks.
    pub items: usize,
    /// True if the existing version has the same content and metadata.
    pub is_unchanged: bool,
    /// True if the document replaces an older version.
    pub is_newer: bool,
    /// True if the document is less sensitive than the older version.
    pub is_lowered: bool,
    /// Secret findings in the text.
    pub held: Held,
    /// Items with a higher sensitivity than requested.
    pub raised: Vec<ItemId>,
}

/// Reason for which a text was not stored.
pub enum NotTaken {
    /// The embedding was cancelled.
    Cancelled,
    /// The caller lacks the permission.
    Refused(String),
    /// An error as of an ingest job.
    Failed(JobError),
}

impl<E: Into<JobError>> From<E> for NotTaken {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The URI of a text without one. Equal titles and texts have equal URIs.
pub fn uri_of(title: &str, text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update((title.len() as u64).to_le_bytes());
    hash.update(title.as_bytes());
    hash.update(text.as_bytes());
    let digits = engine::hex(&<[u8; 32]>::from(hash.finalize()));
    format!("{OWN_SCHEME}:{}", &digits[..HASH_DIGITS])
}

/// Checks that a client may store a text under this URI.
///
/// # Errors
/// The fault of the URI, and the permitted form.
pub fn check_uri(uri: &str) -> Result<(), String> {
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_scheme = |scheme: &String| {
        let mut chars = scheme.chars();
        chars.next().is_some_and(|first| first.is_ascii_alphabetic())
            && chars.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let Some(scheme) = scheme.filter(is_scheme) else {
        return Err("has no scheme; a URI such as https://example.org/page is wanted".to_owned());
    };
    if TAKEN_SCHEMES.contains(&scheme.as_str()) {
        return Err(format!(
            "is of the scheme {scheme}, which comes by other ways; choose another"
        ));
    }
    if uri.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("holds spaces or control characters; percent-encode them".to_owned());
    }
    Ok(())
}

/// Stores a text, with the item of `beside` in the same batch. If the text is unchanged, only that item is stored.
///
/// # Errors
/// The text cannot be stored, or `goes_on` returned false.
pub fn take(
    encoders: &Encoders,
    given: &Given<'_>,
    beside: impl FnOnce(&Taken) -> Option<ItemDraft>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Taken, NotTaken> {
    let snapshot = encoders.store().snapshot();
    let sha256 = recalld_fs_util::uri::sha256(given.text.as_bytes());
    let older = stored(&snapshot, given.uri).map_err(JobError::from)?;
    let was = older.as_ref().map(|older| older.asked);
    let sensitivity = given.sensitivity.or(was).unwrap_or_default();
    for wanted in [Some(sensitivity), was].into_iter().flatten() {
        (given.allows)(wanted).map_err(NotTaken::Refused)?;
    }
    let is_lowered = was.is_some_and(|was| was > sensitivity);
    let mut batch = Batch::default();
    let mut taken = Taken {
        document: ItemId(0),
        items: 0,
        is_unchanged: false,
        is_newer: older.is_some(),
        is_lowered,
        held: Held::default(),
        raised: Vec::new(),
    };
    let same = older.as_ref().filter(|older| {
        older.sha256 == sha256 && given.sensitivity.is_none_or(|wanted| wanted == older.asked)
    });
    let is_called_so = |id: ItemId| -> Result<bool, JobError> {
        let place = snapshot.find(id)?;
        Ok(place
            .map(|place| snapshot.item(place))
            .transpose()?
            .is_some_and(|it| it.title == given.title))
    };
    match same {
        Some(same) if is_called_so(same.document)? => {
            (taken.document, taken.is_unchanged, taken.is_newer) = (same.document, true, false);
        }
        _ => {
            let mut document = read_text(given.title, given.format, given.text.to_owned());
            given.title.clone_into(&mut document.title);
            let older =
                older.map(|older| older.older(&snapshot)).transpose().map_err(JobError::from)?;
            let chunks = chunk(&document);
            let prepared = Prepared {
                held: Held::of(&document.text, &chunks, given.uri),
                relative: given.uri.to_owned(),
                root: String::new(),
                from: FROM_CLIENT,
                uri: given.uri.to_owned(),
                bytes: given.text.len() as u64,
                sha256,
                beside: None,
                named: named(&document, &chunks),
                chunks,
                document,
                older,
                sensitivity,
                is_lowered,
            };
            let model = encoders.view().embedder.model();
            let marks = Marks { by: given.by, via: given.via };
            (batch, taken.document) =
                prepared.batch(&mut || encoders.store().new_item_id(), model, marks);
            batch.embedded_by = Some(model);
            taken.items = batch.items.len();
            taken.raised = raised(&batch, prepared.sensitivity);
            taken.held = prepared.held;
        }
    }
    batch.items.extend(beside(&taken));
    if batch.items.is_empty() {
        return Ok(taken);
    }
    encoders.embed_while(&mut batch, goes_on).ok_or(NotTaken::Cancelled)?;
    encoders.write(batch).map_err(|error: WriteError| JobError::from(error))?;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_of_a_file_or_of_the_service_itself_cannot_be_given() {
        for uri in ["https://example.org/a", "doi:10.1000/182", "urn:isbn:1", "chat:42"] {
            assert_eq!(check_uri(uri), Ok(()), "{uri}");
        }
        for uri in [
            "file:///a.md",
            "FILE:///a.md",
            "memory://item/x",
            "recalld:x",
            "no scheme",
            "1a:b",
            "/a/b",
            "a:b c",
        ] {
            assert!(check_uri(uri).is_err(), "{uri}");
        }
        assert_ne!(uri_of("a", "bc"), uri_of("ab", "c"));
        assert_eq!(check_uri(&uri_of("a", "b")), Ok(()));
    }
}
