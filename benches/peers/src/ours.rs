//! Our engine; the only file of this program that uses its API.

use std::cell::RefCell;
use std::path::Path;

use engine::fulltext::{
    Analyzer, Bm25Parameters, Bm25Weight, CollectionStats, FulltextColumns, PostingsBuilder,
    PostingsReader, Query, Score, SearchScratch,
};
use engine::{
    Batch, CompactionOutcome, EdgeDraft, EdgeFilter, Env, Filter, ItemDraft, ItemId, Micros, Model,
    NoThrottle, Options, Snapshot, Store, TopK, WalkLimits,
};
use kernels::Kernels;

use crate::corpus::{Corpus, DIMENSIONS, Edge, Item, Outcome, id_of};
use crate::peer::{Appender, Reader};

/// An open store.
#[derive(Debug)]
pub struct Ours {
    store: Store,
}

impl Ours {
    /// Opens the store in `folder`, and creates it if it is missing. Writes are synced.
    pub fn open(folder: &Path) -> Outcome<Self> {
        let store = Store::open(Env::on_disk(folder)?, Options::default())?;
        if store.snapshot().model().is_none() {
            let dimensions = u32::try_from(DIMENSIONS)?;
            store.bind_model(Model { fingerprint: [7; 32], dimensions })?;
        }
        Ok(Self { store })
    }

    /// Returns a reader over the current snapshot.
    pub fn reader(&self) -> OursReader {
        OursReader { snapshot: self.store.snapshot() }
    }
}

impl Appender for Ours {
    fn append(&self, items: &[Item]) -> Outcome<()> {
        let items = items.iter().map(draft).collect();
        self.store.write(Batch { items, ..Batch::default() })?;
        Ok(())
    }

    fn append_edges(&self, edges: &[Edge]) -> Outcome<()> {
        let draft = |edge: &Edge| EdgeDraft {
            id: Some(engine::EdgeId(edge.id)),
            from: ItemId(id_of(edge.from)),
            to: ItemId(id_of(edge.to)),
            relation: "links_to".to_owned(),
            weight: f32::from(edge.weight) / 100.0,
            source: None,
            recorded_at: None,
            recorded_by: String::new(),
            valid_from: None,
            valid_to: None,
            note: String::new(),
        };
        self.store.write(Batch { edges: edges.iter().map(draft).collect(), ..Batch::default() })?;
        Ok(())
    }

    /// Seals, then merges as `recalld compact` does.
    fn finish(&self) -> Outcome<()> {
        self.store.seal()?;
        while let CompactionOutcome::Merged { .. } = self.store.compact_fully(&NoThrottle)? {}
        Ok(())
    }
}

fn draft(item: &Item) -> ItemDraft {
    ItemDraft {
        id: Some(ItemId(item.id)),
        kind: item.kind.to_owned(),
        modality: item.modality.to_owned(),
        title: item.title.clone(),
        text: item.text.clone(),
        tags: item.tags.iter().map(|&tag| tag.to_owned()).collect(),
        recorded_at: Some(Micros(item.recorded_at)),
        valid_from: Some(Micros(item.valid_from)),
        searchable: true,
        embedding: item.embedding.clone(),
        ..ItemDraft::default()
    }
}

/// A snapshot of a store.
#[derive(Debug)]
pub struct OursReader {
    snapshot: Snapshot,
}

impl OursReader {
    /// Sealed segments and parts of the tail.
    pub fn parts(&self) -> Outcome<u64> {
        Ok(self.snapshot.row_counts()?.segments)
    }

    /// Returns the `limit` items nearest to a vector.
    pub fn nearest(&self, kernels: &Kernels, query: &[f32], limit: usize) -> Outcome<usize> {
        Ok(self.snapshot.nearest(kernels, query, limit, &Filter::default())?.len())
    }
}

impl Reader for OursReader {
    fn text_bytes(&self, number: u64) -> Outcome<usize> {
        let place = self.snapshot.find(ItemId(id_of(number)))?.ok_or("no such item")?;
        Ok(self.snapshot.item(place)?.text.len())
    }

    fn best(&self, question: &str, limit: usize) -> Outcome<Vec<u128>> {
        let hits = self.snapshot.search_words(question, limit, &Filter::default())?;
        hits.iter().map(|hit| Ok(self.snapshot.id(hit.address)?.0)).collect()
    }

    fn two_hops(&self, number: u64) -> Outcome<usize> {
        let start = ItemId(id_of(number));
        let around = self.snapshot.neighbourhood(
            &[start],
            2,
            &EdgeFilter::default(),
            WalkLimits::default(),
        )?;
        if around.truncated {
            return Err("the walk met a limit".into());
        }
        // The start node is counted as its own nearest item.
        Ok(around.nodes.len() - 1)
    }
}

/// The words of items in one segment on the heap: the cost of the full-text index alone, without the store and its
/// other segments.
pub struct OneSegment {
    columns: FulltextColumns,
    rows: u32,
    working: RefCell<(Analyzer, SearchScratch)>,
}

impl OneSegment {
    /// Indexes the first `items` items.
    pub fn of(corpus: &Corpus, items: u64) -> Outcome<Self> {
        let mut builder = PostingsBuilder::new();
        let rows = u32::try_from(items)?;
        for row in 0..rows {
            let (title, text) = corpus.words_of(u64::from(row));
            builder.add(row, &title, &text).map_err(|_| "more words than a segment holds")?;
        }
        Ok(Self { columns: builder.finish(rows), rows, working: RefCell::default() })
    }

    /// Bytes of all full-text columns.
    pub fn bytes(&self) -> usize {
        let it = &self.columns;
        [&it.dictionary, &it.entries, &it.blocks, &it.postings, &it.lengths]
            .map(Vec::len)
            .iter()
            .sum()
    }
}

impl Reader for OneSegment {
    fn text_bytes(&self, _number: u64) -> Outcome<usize> {
        Err("the index holds no texts".into())
    }

    fn best(&self, question: &str, limit: usize) -> Outcome<Vec<u128>> {
        let view = PostingsReader::open(self.columns.as_ref(), self.rows)?;
        let (analyzer, scratch) = &mut *self.working.borrow_mut();
        let query = Query::parse(analyzer, question);
        let mut stats = CollectionStats::new(&query);
        let found = stats.add(view, &query)?;
        let ranker = Bm25Weight::new(&query, &stats, Bm25Parameters::default());
        let mut top: TopK<Score, u32> = TopK::new(limit);
        ranker.search(&found, scratch, |_| true, |row| row, &mut top)?;
        Ok(top.into_sorted().into_iter().map(|(_, row)| id_of(u64::from(row))).collect())
    }
}
