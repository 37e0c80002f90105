//! Title matches: an item whose title equals the question is the item that the caller means.

use engine::CorruptionError;

use super::fuse::Fused;
use crate::means::Means;
use crate::route::Plan;

/// Ranks items whose title equals the question above all others. Scores are unchanged.
pub(super) fn bring_titled(
    means: &Means<'_>,
    plan: &Plan,
    ranked: &mut [Fused],
) -> Result<(), CorruptionError> {
    for found in ranked.iter_mut() {
        let title = means.snapshot.title(found.place)?;
        if is_title(title, &plan.text) && means.reads(found.place) {
            found.is_titled = true;
        }
    }
    ranked.sort_by_key(|found| !found.is_titled);
    Ok(())
}

/// Compares words, without case, spaces and punctuation; a title without a letter or digit never matches.
fn is_title(title: &str, question: &str) -> bool {
    let words =
        |text| str::split(text, |c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut titled = words(title).map(str::to_lowercase).peekable();
    titled.peek().is_some() && titled.eq(words(question).map(str::to_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_question_to_the_letter() {
        assert!(is_title("Namespace Packages", " namespace packages? "));
        assert!(is_title("\u{c9}t\u{e9}", "\u{e9}T\u{c9}"));
        assert!(!is_title("Implicit Namespace Packages", "namespace packages"));
        assert!(!is_title("Namespace Packages", "namespace"));
        assert!(!is_title("", "") && !is_title("?!", "?!"));
    }
}
