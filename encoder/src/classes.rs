//! Character classes in two table loads: pages of 256 characters, with equal pages stored once.

use std::sync::LazyLock;

use crate::unicode::{ACCENTS, DROPPED, IDEOGRAPHS, NORMALISED, PUNCTUATION};

/// Classes of a character, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class(u8);

impl Class {
    /// Removed by text cleaning.
    pub(crate) const DROPPED: Class = Class(1);
    /// Separates words.
    pub(crate) const SPACE: Class = Class(2);
    /// A word of its own, before normalization.
    pub(crate) const IDEOGRAPH: Class = Class(4);
    /// A word of its own, after normalization.
    pub(crate) const PUNCTUATION: Class = Class(8);
    /// Removed when accents are stripped.
    pub(crate) const ACCENT: Class = Class(16);
    /// Decomposed or reordered by canonical decomposition.
    pub(crate) const NORMALISED: Class = Class(32);
    /// May change when lowercased.
    pub(crate) const CASED: Class = Class(64);

    pub(crate) fn has(self, class: Class) -> bool {
        self.0 & class.0 != 0
    }
}

const PAGE: usize = 256;
const PAGES: usize = 0x11_0000 / PAGE;
/// First character that is always classed as cased; planes 2 and up have no cased characters today.
const CASES_END: u32 = 0x2_0000;

pub(crate) struct Classes {
    /// Index into `pages` for each block of `PAGE` code points.
    index: Vec<u16>,
    pages: Vec<[u8; PAGE]>,
}

impl Classes {
    /// Returns the shared table, built on first use.
    pub(crate) fn all() -> &'static Classes {
        static ALL: LazyLock<Classes> = LazyLock::new(Classes::new);
        &ALL
    }

    /// Returns the classes of `c`.
    #[inline]
    pub(crate) fn of(&self, c: char) -> Class {
        let point = c as usize;
        Class(self.pages[usize::from(self.index[point / PAGE])][point % PAGE])
    }

    fn new() -> Classes {
        let mut flat = vec![0; PAGES * PAGE];
        let lists = [
            (DROPPED, Class::DROPPED),
            (IDEOGRAPHS, Class::IDEOGRAPH),
            (PUNCTUATION, Class::PUNCTUATION),
            (ACCENTS, Class::ACCENT),
            (NORMALISED, Class::NORMALISED),
        ];
        for (list, class) in lists {
            for &(first, last) in list {
                flat[first as usize..=last as usize].iter_mut().for_each(|bits| *bits |= class.0);
            }
        }
        // The lists of `unicode.rs` begin past ASCII.
        for c in '\0'..='\u{7f}' {
            let is_kept = matches!(c, '\t' | '\n' | '\r') || !c.is_ascii_control();
            let dropped = if is_kept { 0 } else { Class::DROPPED.0 };
            let punctuation = if c.is_ascii_punctuation() { Class::PUNCTUATION.0 } else { 0 };
            flat[c as usize] |= dropped | punctuation;
        }
        for c in '\0'..=char::MAX {
            let bits = &mut flat[c as usize];
            let is_cased = u32::from(c) >= CASES_END || !c.to_lowercase().eq([c]);
            *bits |= if is_cased { Class::CASED.0 } else { 0 };
            *bits |= if c.is_whitespace() { Class::SPACE.0 } else { 0 };
        }
        let (flat, _) = flat.as_chunks::<PAGE>();
        let mut pages: Vec<[u8; PAGE]> = Vec::new();
        let index = flat.iter().map(|page| {
            let known = pages.iter().position(|known| known == page);
            let at = known.unwrap_or_else(|| {
                pages.push(*page);
                pages.len() - 1
            });
            u16::try_from(at).expect("there are fewer pages than that")
        });
        Classes { index: index.collect(), pages }
    }
}

#[cfg(test)]
mod tests {
    use unicode_normalization::char::{canonical_combining_class, decompose_canonical};

    use super::*;

    #[test]
    fn lists_rise_and_do_not_overlap() {
        for list in [ACCENTS, DROPPED, IDEOGRAPHS, NORMALISED, PUNCTUATION] {
            assert!(list.iter().all(|(first, last)| first <= last));
            assert!(list.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }

    #[test]
    fn characters_have_the_classes_of_their_lists() {
        let classes = Classes::all();
        let cases = [
            ('a', Class(0)),
            ('A', Class::CASED),
            ('!', Class::PUNCTUATION),
            (' ', Class::SPACE),
            ('\n', Class::SPACE),
            ('\u{b}', Class(Class::SPACE.0 | Class::DROPPED.0)),
            ('\u{7f}', Class::DROPPED),
            ('\u{a1}', Class::PUNCTUATION),
            ('\u{a2}', Class(0)),
            ('\u{e9}', Class::NORMALISED),
            ('\u{301}', Class(Class::ACCENT.0 | Class::NORMALISED.0)),
            ('\u{4e00}', Class::IDEOGRAPH),
            ('\u{9fff}', Class::IDEOGRAPH),
            ('\u{a000}', Class(0)),
            ('\u{10fffd}', Class(Class::DROPPED.0 | Class::CASED.0)),
        ];
        for (c, class) in cases {
            assert_eq!(classes.of(c), class, "{c:?}");
        }
        assert!(classes.pages.len() < 256, "{} pages", classes.pages.len());
    }

    /// The tokenizer relies on two facts when it reorders marks: marks are in no other class that ends a word, and the
    /// reference knows every character that results from a decomposition.
    #[test]
    fn marks_end_no_word_and_parts_are_whole() {
        let classes = Classes::all();
        for c in ('\0'..=char::MAX).filter(|c| classes.of(*c).has(Class::NORMALISED)) {
            decompose_canonical(c, |part| {
                let class = classes.of(part);
                let is_mark = canonical_combining_class(part) != 0;
                assert_eq!(class.has(Class::NORMALISED), is_mark, "{c:?} has {part:?}");
                let ends = Class(Class::SPACE.0 | Class::PUNCTUATION.0 | Class::IDEOGRAPH.0);
                assert!(!is_mark || !class.has(ends), "{c:?} has {part:?}");
            });
        }
    }
}
