//! Walks all of a segment's words and checks every rule.
//!
//! Owns the checks that opening leaves out because they cost a full read. Must not know files.

use super::columns::impacts;
use super::layout::{BLOCK_ROWS, decode_length};
use super::view::{Decoded, PostingsView};
use super::{Damage, damage};

impl PostingsView<'_> {
    /// Checks every term, posting, bound and length; the first broken rule ends it.
    ///
    /// # Errors
    /// [`Damage`] naming the rule.
    pub fn verify(&self) -> Result<(), Damage> {
        let total: u64 = self.lengths().iter().map(|code| u64::from(decode_length(*code))).sum();
        let documents = self.lengths().iter().filter(|code| **code != 0).count();
        if total != self.length_total() || documents != self.documents() as usize {
            return Err(damage(
                "WRD-13",
                format!(
                    "{} documents of length {} stated, {documents} of {total} found",
                    self.documents(),
                    self.length_total()
                ),
            ));
        }
        let mut lists = self.lists();
        let mut decoded = Decoded::default();
        let mut postings = Vec::with_capacity(BLOCK_ROWS);
        while let Some((_, list)) = lists.next()? {
            for i in 0..self.block_count(&list) {
                self.decode(&list, i, &mut decoded)?;
                let Some((_, stated)) = self.head(&list, i)? else { continue };
                postings.clear();
                postings.extend((0..decoded.count).map(|at| decoded.posting(at)));
                let rows = list.rows;
                if impacts(&postings, self.lengths()) != stated {
                    return Err(damage(
                        "WRD-23",
                        format!("impacts of block {i} of {rows} postings are not its own"),
                    ));
                }
            }
        }
        Ok(())
    }
}
