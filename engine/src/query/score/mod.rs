//! Ranking: scores of candidates, and the top k.

mod access_path;
mod batch_nearest;
mod hit;
mod ivf_probe;
mod lexical;
mod phrase_filter;
mod proximity;
mod score_bound;
mod score_rows;
#[cfg(test)]
mod tests;
mod vector_scan;

pub use batch_nearest::BatchQuery;

pub use phrase_filter::{PhraseMatches, QUOTED_BYTES_MAX, QUOTED_ITEMS_MAX};

pub use hit::Hit;

pub use lexical::LexicalSearch;

pub use score_rows::{ItemLexicalScore, LexicalScores, QueryTermWeight};

limit_table::limits! {
    pub(crate) const LIMITS = [proximity, ivf_probe, phrase_filter, vector_scan, access_path];
}
