//! Heap dictionary: a sorted list of the terms of the tail.
//!
//! Owns its bytes, which never occur in a file (WRD-01 requires version 3). The rows of the tail are merged many times
//! before they are sealed. A list is written and read in a small fraction of the time that the automaton takes. Format:
//! 8 bytes [`HEAP_DICTIONARY_VERSION`], 4 bytes number of terms, 4 bytes per term for its end offset, then the terms.

use super::column_bytes::{ColumnBytes, read_all};
use super::fst_dictionary::{DICTIONARY_VERSION, FstDictionary, FstTerms};
use super::layout::{TERM_BYTES_MAX, read_u32};
use crate::error::CorruptionError;

/// First 8 bytes of a heap dictionary.
const HEAP_DICTIONARY_VERSION: u64 = u64::MAX;
const _: () = assert!(HEAP_DICTIONARY_VERSION != DICTIONARY_VERSION);
const HEAD_BYTES: usize = 12;
const END_BYTES: usize = 4;

#[derive(Default)]
pub(super) struct HeapDictionaryWriter {
    ends: Vec<u32>,
    terms: Vec<u8>,
}

impl HeapDictionaryWriter {
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
        out.extend_from_slice(&HEAP_DICTIONARY_VERSION.to_le_bytes());
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
pub(super) struct HeapDictionary<B> {
    bytes: B,
    terms: u32,
}

/// End offsets and terms of a heap dictionary.
struct HeapDictionaryParts<'b> {
    ends: &'b [[u8; END_BYTES]],
    terms: &'b [u8],
}

impl<'b> HeapDictionaryParts<'b> {
    fn term(&self, at: usize) -> Option<&'b [u8]> {
        let end = |at: usize| self.ends.get(at).map(|end| u32::from_le_bytes(*end) as usize);
        let from = at.checked_sub(1).map_or(Some(0), end)?;
        self.terms.get(from..end(at)?)
    }
}

fn broken() -> CorruptionError {
    CorruptionError::new("WRD-01", "a list of terms is not as it was written")
}

impl<B: ColumnBytes> HeapDictionary<B> {
    /// Opens a heap dictionary; `None` if the bytes are not a heap dictionary.
    fn open(bytes: B) -> Result<Option<Self>, CorruptionError> {
        let head = bytes.range(0, bytes.size().min(HEAD_BYTES))?;
        if !head.starts_with(&HEAP_DICTIONARY_VERSION.to_le_bytes()) {
            return Ok(None);
        }
        let terms = read_u32(head, HEAD_BYTES - END_BYTES).ok_or_else(broken)?;
        Ok(Some(Self { bytes, terms }))
    }

    fn parts(&self) -> Result<HeapDictionaryParts<'_>, CorruptionError> {
        let bytes = read_all(&self.bytes)?.get(HEAD_BYTES..).ok_or_else(broken)?;
        let ends = self.terms as usize * END_BYTES;
        let (ends, terms) = bytes.split_at_checked(ends).ok_or_else(broken)?;
        Ok(HeapDictionaryParts { ends: ends.as_chunks().0, terms })
    }

    fn ordinal(&self, term: &[u8]) -> Result<Option<u32>, CorruptionError> {
        let pieces = self.parts()?;
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
pub(super) enum TermDictionary<B> {
    /// Form in a file.
    Fst(FstDictionary<B>),
    /// Form on the heap.
    Heap(HeapDictionary<B>),
}

impl<B: ColumnBytes> TermDictionary<B> {
    /// Opens the dictionary of columns that were built in this process.
    pub(super) fn open_on_heap(bytes: B) -> Result<Self, CorruptionError> {
        match HeapDictionary::open(bytes)? {
            Some(listed) => Ok(Self::Heap(listed)),
            None => FstDictionary::open(bytes).map(Self::Fst),
        }
    }

    pub(super) fn terms(&self) -> u32 {
        match self {
            Self::Fst(dictionary) => dictionary.terms(),
            Self::Heap(listed) => listed.terms,
        }
    }

    /// Returns the ordinal of `term`; `None` if no row has the term.
    pub(super) fn ordinal(&self, term: &[u8]) -> Result<Option<u32>, CorruptionError> {
        match self {
            Self::Fst(dictionary) => dictionary.ordinal(term),
            Self::Heap(listed) => listed.ordinal(term),
        }
    }

    /// Iterates over all terms in order.
    pub(super) fn terms_in_order(&self) -> DictionaryTerms<'_, B> {
        match self {
            Self::Fst(dictionary) => DictionaryTerms::Fst(dictionary.terms_in_order()),
            Self::Heap(listed) => DictionaryTerms::Heap(listed, 0),
        }
    }
}

/// Iterator over all terms in order, in either form.
pub(super) enum DictionaryTerms<'d, B> {
    /// Form in a file.
    Fst(FstTerms<'d, B>),
    /// Form on the heap, and the ordinal of the next term.
    Heap(&'d HeapDictionary<B>, u32),
}

impl<B: ColumnBytes> DictionaryTerms<'_, B> {
    /// Returns the next term and its ordinal, which is the previous ordinal plus one; `None` after the last term.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], u32)>, CorruptionError> {
        match self {
            Self::Fst(walk) => walk.next(),
            Self::Heap(listed, next) if *next == listed.terms => Ok(None),
            Self::Heap(listed, next) => {
                let at = *next;
                *next += 1;
                let term = listed.parts()?.term(at as usize).ok_or_else(broken)?;
                Ok(Some((term, at)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fulltext::fst_writer::FstWriter;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heap_dictionary_equals_fst_dictionary(
            terms in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 1..6), 0..200),
            strange in prop::collection::vec(any::<u8>(), 0..6),
        ) {
            let mut writer = HeapDictionaryWriter::default();
            terms.iter().for_each(|term| writer.push(term));
            let bytes = writer.finish();
            let mut dictionary = FstWriter::new();
            terms.iter().for_each(|term| dictionary.push(term));
            let dictionary = dictionary.finish();
            let listed = TermDictionary::open_on_heap(&bytes[..]).unwrap();
            let sealed = TermDictionary::open_on_heap(&dictionary[..]).unwrap();
            prop_assert!(matches!((&listed, &sealed), (TermDictionary::Heap(_), TermDictionary::Fst(_))));
            prop_assert_eq!(listed.terms(), sealed.terms());
            prop_assert_eq!(listed.terms() as usize, terms.len());
            let (mut of_list, mut of_dictionary) = (listed.terms_in_order(), sealed.terms_in_order());
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
    fn heap_dictionary_in_a_file_is_rejected() {
        let mut writer = HeapDictionaryWriter::default();
        writer.push(b"term");
        let bytes = writer.finish();
        assert_eq!(FstDictionary::open(&bytes[..]).unwrap_err().rule, "WRD-01");
        assert_eq!(TermDictionary::open_on_heap(&bytes[..10]).unwrap_err().rule, "WRD-01");
        let cut = TermDictionary::open_on_heap(&bytes[..HEAD_BYTES]).unwrap();
        assert_eq!(cut.ordinal(b"term").unwrap_err().rule, "WRD-01");
    }
}
