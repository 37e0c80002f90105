//! Heap dictionary: a sorted list of the terms of the tail.
//!
//! Owns its bytes, which never occur in a file (WRD-01 requires version 3). The rows of the tail are merged many times
//! before they are sealed. A list is written and read in a small fraction of the time that the automaton takes. Format:
//! 8 bytes [`LISTED_VERSION`], 4 bytes number of terms, 4 bytes per term for its end offset, then the terms.

use super::bytes::{Bytes, all};
use super::dictionary::{DICTIONARY_VERSION, Dictionary, Walk};
use super::layout::{TERM_BYTES_MAX, read_u32};
use crate::error::Damage;

/// First 8 bytes of a heap dictionary.
const LISTED_VERSION: u64 = u64::MAX;
const _: () = assert!(LISTED_VERSION != DICTIONARY_VERSION);
const HEAD_BYTES: usize = 12;
const END_BYTES: usize = 4;

#[derive(Default)]
pub(super) struct ListWriter {
    ends: Vec<u32>,
    terms: Vec<u8>,
}

impl ListWriter {
    /// Adds a term of 1 to [`TERM_BYTES_MAX`] bytes. Terms must ascend.
    pub(super) fn push(&mut self, term: &[u8]) {
        debug_assert!(term.len() <= TERM_BYTES_MAX && !term.is_empty());
        self.terms.extend_from_slice(term);
        self.ends.push(narrow(self.terms.len()));
    }

    /// Returns the finished bytes.
    pub(super) fn finish(self) -> Vec<u8> {
        let ends = self.ends.len() * END_BYTES;
        let mut out = Vec::with_capacity(HEAD_BYTES + ends + self.terms.len());
        out.extend_from_slice(&LISTED_VERSION.to_le_bytes());
        out.extend_from_slice(&narrow(self.ends.len()).to_le_bytes());
        self.ends.iter().for_each(|end| out.extend_from_slice(&end.to_le_bytes()));
        out.extend_from_slice(&self.terms);
        out
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("the tail is sealed long before its terms take 4 GiB")
}

/// View of a heap dictionary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listed<B> {
    bytes: B,
    terms: u32,
}

/// End offsets and terms of a heap dictionary.
struct Pieces<'b> {
    ends: &'b [[u8; END_BYTES]],
    terms: &'b [u8],
}

impl<'b> Pieces<'b> {
    fn term(&self, at: usize) -> Option<&'b [u8]> {
        let end = |at: usize| self.ends.get(at).map(|end| u32::from_le_bytes(*end) as usize);
        let from = at.checked_sub(1).map_or(Some(0), end)?;
        self.terms.get(from..end(at)?)
    }
}

fn broken() -> Damage {
    Damage::new("WRD-01", "a list of terms is not as it was written")
}

impl<B: Bytes> Listed<B> {
    /// Opens a heap dictionary; `None` if the bytes are not a heap dictionary.
    fn open(bytes: B) -> Result<Option<Self>, Damage> {
        let head = bytes.range(0, bytes.size().min(HEAD_BYTES))?;
        if !head.starts_with(&LISTED_VERSION.to_le_bytes()) {
            return Ok(None);
        }
        let terms = read_u32(head, HEAD_BYTES - END_BYTES).ok_or_else(broken)?;
        Ok(Some(Self { bytes, terms }))
    }

    fn pieces(&self) -> Result<Pieces<'_>, Damage> {
        let bytes = all(&self.bytes)?.get(HEAD_BYTES..).ok_or_else(broken)?;
        let ends = self.terms as usize * END_BYTES;
        let (ends, terms) = bytes.split_at_checked(ends).ok_or_else(broken)?;
        Ok(Pieces { ends: ends.as_chunks().0, terms })
    }

    fn ordinal(&self, term: &[u8]) -> Result<Option<u32>, Damage> {
        let pieces = self.pieces()?;
        let (mut low, mut high) = (0, self.terms);
        while low < high {
            let middle = low + (high - low) / 2;
            match pieces.term(middle as usize).ok_or_else(broken)?.cmp(term) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Some(middle)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }
}

/// Dictionary in either form.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lookup<B> {
    /// Form in a file.
    Sealed(Dictionary<B>),
    /// Form on the heap.
    Listed(Listed<B>),
}

impl<B: Bytes> Lookup<B> {
    /// Opens the dictionary of columns that were built in this process.
    pub(super) fn of_heap(bytes: B) -> Result<Self, Damage> {
        match Listed::open(bytes)? {
            Some(listed) => Ok(Self::Listed(listed)),
            None => Dictionary::open(bytes).map(Self::Sealed),
        }
    }

    pub(super) fn terms(&self) -> u32 {
        match self {
            Self::Sealed(dictionary) => dictionary.terms(),
            Self::Listed(listed) => listed.terms,
        }
    }

    /// Returns the ordinal of `term`; `None` if no row has the term.
    pub(super) fn ordinal(&self, term: &[u8]) -> Result<Option<u32>, Damage> {
        match self {
            Self::Sealed(dictionary) => dictionary.ordinal(term),
            Self::Listed(listed) => listed.ordinal(term),
        }
    }

    /// Iterates over all terms in order.
    pub(super) fn walk(&self) -> Steps<'_, B> {
        match self {
            Self::Sealed(dictionary) => Steps::Sealed(dictionary.walk()),
            Self::Listed(listed) => Steps::Listed(listed, 0),
        }
    }
}

/// Iterator over all terms in order, in either form.
pub(super) enum Steps<'d, B> {
    /// Form in a file.
    Sealed(Walk<'d, B>),
    /// Form on the heap, and the ordinal of the next term.
    Listed(&'d Listed<B>, u32),
}

impl<B: Bytes> Steps<'_, B> {
    /// Returns the next term and its ordinal, which is the previous ordinal plus one; `None` after the last term.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], u32)>, Damage> {
        match self {
            Self::Sealed(walk) => walk.next(),
            Self::Listed(listed, next) if *next == listed.terms => Ok(None),
            Self::Listed(listed, next) => {
                let at = *next;
                *next += 1;
                let term = listed.pieces()?.term(at as usize).ok_or_else(broken)?;
                Ok(Some((term, at)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::dictionary_writer::DictionaryWriter;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_answers_as_a_dictionary(
            terms in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 1..6), 0..200),
            strange in prop::collection::vec(any::<u8>(), 0..6),
        ) {
            let mut writer = ListWriter::default();
            terms.iter().for_each(|term| writer.push(term));
            let bytes = writer.finish();
            let mut dictionary = DictionaryWriter::new();
            terms.iter().for_each(|term| dictionary.push(term));
            let dictionary = dictionary.finish();
            let listed = Lookup::of_heap(&bytes[..]).unwrap();
            let sealed = Lookup::of_heap(&dictionary[..]).unwrap();
            prop_assert!(matches!((&listed, &sealed), (Lookup::Listed(_), Lookup::Sealed(_))));
            prop_assert_eq!(listed.terms(), sealed.terms());
            prop_assert_eq!(listed.terms() as usize, terms.len());
            let (mut of_list, mut of_dictionary) = (listed.walk(), sealed.walk());
            while let Some((term, ordinal)) = of_dictionary.next().unwrap() {
                prop_assert_eq!(of_list.next().unwrap(), Some((term, ordinal)));
            }
            prop_assert_eq!(of_list.next().unwrap(), None);
            for term in terms.iter().chain([&strange]) {
                prop_assert_eq!(listed.ordinal(term).unwrap(), sealed.ordinal(term).unwrap());
            }
        }
    }

    #[test]
    fn no_file_has_a_list() {
        let mut writer = ListWriter::default();
        writer.push(b"term");
        let bytes = writer.finish();
        assert_eq!(Dictionary::open(&bytes[..]).unwrap_err().rule, "WRD-01");
        assert_eq!(Lookup::of_heap(&bytes[..10]).unwrap_err().rule, "WRD-01");
        let cut = Lookup::of_heap(&bytes[..HEAD_BYTES]).unwrap();
        assert_eq!(cut.ordinal(b"term").unwrap_err().rule, "WRD-01");
    }
}
