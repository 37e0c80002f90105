//! tantivy: a full-text index of one segment, read by one thread.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tantivy::collector::TopDocs;
use tantivy::columnar::Column;
use tantivy::directory::MmapDirectory;
use tantivy::indexer::SingleSegmentIndexWriter;
use tantivy::query::{BooleanQuery, Query, TermQuery};
use tantivy::schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{
    AsciiFoldingFilter, LowerCaser, RemoveLongFilter, SimpleTokenizer, Stemmer, TextAnalyzer,
    TokenizerManager,
};
use tantivy::{Index, Searcher, TantivyDocument, Term};

use crate::corpus::{Item, Outcome, id_of};
use crate::peer::{Appender, Reader};

/// Heap of the writer, large enough for 1.2 million documents in one segment.
const WRITER_BYTES: usize = 2 << 30;
const ANALYSER: &str = "as_ours";
const TERM_BYTES_MAX: usize = 64;

/// The analyzer nearest to ours: words of letters and digits, accents removed, lower case, Snowball English.
fn analyser() -> TextAnalyzer {
    TextAnalyzer::builder(SimpleTokenizer::default())
        .filter(RemoveLongFilter::limit(TERM_BYTES_MAX))
        .filter(AsciiFoldingFilter)
        .filter(LowerCaser)
        .filter(Stemmer::default())
        .build()
}

/// Title and text are one field, so that a query reads one posting list per word, as in ours; the field has term
/// frequencies but no positions, as in ours.
fn schema() -> (Schema, Field, Field) {
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(ANALYSER)
        .set_index_option(IndexRecordOption::WithFreqs);
    let words = TextOptions::default().set_indexing_options(indexing);
    let words = schema.add_text_field("words", words);
    let number = schema.add_u64_field("number", FAST);
    (schema.build(), words, number)
}

/// An index being written: one segment, on disk when finished.
pub struct TantivyWriter {
    writer: Mutex<Option<SingleSegmentIndexWriter>>,
    words: Field,
    number: Field,
}

impl TantivyWriter {
    /// Creates an index in `folder`.
    pub fn create(folder: &Path) -> Outcome<Self> {
        std::fs::create_dir_all(folder)?;
        let (schema, words, number) = schema();
        let tokenizers = TokenizerManager::default();
        tokenizers.register(ANALYSER, analyser());
        let writer = Index::builder()
            .schema(schema)
            .tokenizers(tokenizers)
            .single_segment_index_writer(MmapDirectory::open(folder)?, WRITER_BYTES)?;
        Ok(Self { writer: Mutex::new(Some(writer)), words, number })
    }

    /// Adds one document.
    pub fn add(&self, number: u64, title: &str, text: &str) -> Outcome<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = writer.as_mut().ok_or("the index is finished")?;
        writer.add_document(self.document(number, title, text))?;
        Ok(())
    }

    /// A word of the title counts twice, as in ours and in the SQLite query.
    fn document(&self, number: u64, title: &str, text: &str) -> TantivyDocument {
        let mut document = TantivyDocument::new();
        document.add_text(self.words, format!("{title}\n{title}\n{text}"));
        document.add_u64(self.number, number);
        document
    }
}

impl Appender for TantivyWriter {
    fn append(&self, items: &[Item]) -> Outcome<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = writer.as_mut().ok_or("the index is finished")?;
        let document = |item: &Item| self.document(item.number, &item.title, &item.text);
        items.iter().try_for_each(|item| Ok(writer.add_document(document(item))?))
    }

    fn finish(&self) -> Outcome<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.take().ok_or("the index is finished")?.finalize()?;
        Ok(())
    }
}

/// An index open for reading.
pub struct Tantivy {
    searcher: Searcher,
    analyser: RefCell<TextAnalyzer>,
    words: Field,
    numbers: Vec<Column<u64>>,
}

impl fmt::Debug for Tantivy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tantivy").finish_non_exhaustive()
    }
}

impl Tantivy {
    /// Opens the index in `folder`.
    pub fn open(folder: &Path) -> Outcome<Self> {
        let index = Index::open_in_dir(folder)?;
        index.tokenizers().register(ANALYSER, analyser());
        let searcher = index.reader()?.searcher();
        let numbers = searcher.segment_readers().iter();
        let numbers = numbers.map(|segment| segment.fast_fields().u64("number"));
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        let words = index.schema().get_field("words")?;
        Ok(Self { searcher, analyser: RefCell::new(analyser()), words, numbers })
    }

    /// Number of segments of the index.
    pub fn segments(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the numbers of the `limit` best documents for a query, best first.
    pub fn best_numbers(&self, question: &str, limit: usize) -> Outcome<Vec<u64>> {
        let mut clauses: Vec<Box<dyn Query>> = Vec::new();
        self.analyser.borrow_mut().token_stream(question).process(&mut |token| {
            let term = Term::from_field_text(self.words, &token.text);
            clauses.push(Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)));
        });
        let query = BooleanQuery::union(clauses);
        let best = TopDocs::with_limit(limit).order_by_score();
        let best = self.searcher.search(&query, &best)?;
        let number = |address: tantivy::DocAddress| {
            let number = self.numbers[address.segment_ord as usize].first(address.doc_id);
            Ok(number.ok_or("a document without a number")?)
        };
        best.into_iter().map(|(_, address)| number(address)).collect()
    }
}

impl Reader for Tantivy {
    fn text_bytes(&self, _number: u64) -> Outcome<usize> {
        Err("the index holds no texts".into())
    }

    fn best(&self, question: &str, limit: usize) -> Outcome<Vec<u128>> {
        let numbers = self.best_numbers(question, limit)?;
        Ok(numbers.into_iter().map(id_of).collect())
    }
}
